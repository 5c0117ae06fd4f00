"""What a team needs, as it wrote it down.

A :class:`Demand` holds stated facts only; what they mean for a machine is derived in :mod:`suffice.decide.constraints`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from suffice.model.vision import ImageLoad

DEFAULT_MARGIN: Final = 1.5
DEFAULT_PROMPT_TOKENS: Final = 512  # where a demand says nothing of its prompts
_Z95: Final = 1.6448536269514722  # standard normal quantile of 0.95
_MEDIAN_PERCENTILE: Final = 50.0
_LAST_BIT: Final = 6  # digits after which a product may miss a whole number


def users_with_margin(users: float, margin: float) -> int:
    """Whole users of a load with its margin: there is no half user, and the last bit of a product makes none.

    Example:
        >>> users_with_margin(3, 1.5), users_with_margin(10, 1.1)
        (5, 11)
    """
    return math.ceil(round(users * margin, _LAST_BIT))


class DemandKind(StrEnum):
    """How the work arrives and who waits for it."""

    INTERACTIVE = "interactive"  # a person reads along: decode rate and time to first token matter in each interaction
    BATCH = "batch"  # a queue: the sustained rate must exceed the arrival rate
    SCHEDULED = "scheduled"  # a job: total wall time must lie inside its window


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Lengths in tokens: the median and the 95th percentile (equal when one number was stated)."""

    p50: float
    p95: float

    def __post_init__(self) -> None:
        if not 0 < self.p50 <= self.p95:
            raise ValueError(f"lengths need 0 < p50 <= p95, not p50 = {self.p50:g} and p95 = {self.p95:g}")

    @property
    def mean(self) -> float:
        """Mean of the log-normal distribution through p50 and p95: ``p50 * exp(sigma^2 / 2)``.

        Prompt and answer lengths are right-skewed, so the median understates the work; one stated number is its own mean.
        """
        sigma = math.log(self.p95 / self.p50) / _Z95
        return self.p50 * math.exp(sigma**2 / 2)

    def at(self, percentile: float) -> float:
        """The length for a limit at ``percentile``: the median up to P50, else P95 (all that was stated)."""
        return self.p50 if percentile <= _MEDIAN_PERCENTILE else self.p95


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """An upper limit on a latency that must hold at a percentile of requests."""

    value_s: float
    percentile: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """A written demand. None always means: not stated.

    Attributes:
        kind: how the work arrives.
        prompt_tokens: prompt lengths, including the chat template and any system prompt.
        output_tokens: generated tokens per request.
        requests_per_second: arrival rate that has to be carried; averaged over the day, unless ``volume_per_day`` is stated beside it.
        rate_is_daily: it was stated per day: a volume that may be worked off in ``window_s``, not a rate that holds in it.
        interactive_share: share of the requests that must keep the limits, between 0 and 1; the others must only be worked off within
            ``window_s``, else within the day. None: all of them must keep the limits.
        volume_per_day: requests of a day, where the rate is that of the busiest time, or users are stated; None: the rate holds all day.
        concurrent_users: streams that are generating at the same time (instead of a rate).
        is_share: it is a part of a load of several users, so that its margin is one of load also where one of them is left.
        tokens_per_second_per_user: decode rate that each stream needs.
        ttft: limit on the time to first token.
        tpot: limit on the time per output token after the first.
        window_s: time per day in which the day's work must be done.
        context_tokens: context that must be possible; at least prompt and output together.
        margin: factor of headroom for peaks and retries; a policy, not physics.
        memory_bytes: memory that the model may use on the machine.
        quality_floor: least acceptable score on the team's own items, 0 to 1.
        quality_max_loss: most that the score may fall below the reference's; 0.01 is one point.
        budget_per_month: money per month in ``currency``.
        currency: three-letter code.
        model: path of the model that the demand is about.
        images: in each request; their tokens are a part of ``prompt_tokens`` already (:func:`suffice.model.vision.with_images`).
    """

    kind: DemandKind
    prompt_tokens: Lengths | None = None
    output_tokens: Lengths | None = None
    requests_per_second: float | None = None
    rate_is_daily: bool = False
    volume_per_day: float | None = None
    interactive_share: float | None = None
    concurrent_users: int | None = None
    is_share: bool = False
    tokens_per_second_per_user: float | None = None
    ttft: Limit | None = None
    tpot: Limit | None = None
    window_s: float | None = None
    context_tokens: int | None = None
    margin: float = DEFAULT_MARGIN
    memory_bytes: float | None = None
    quality_floor: float | None = None
    quality_max_loss: float | None = None
    budget_per_month: float | None = None
    currency: str | None = None
    model: str | None = None
    images: ImageLoad | None = None

    @property
    def streams(self) -> int:
        """Streams that run at once: the stated users, else one."""
        return self.concurrent_users or 1

    @property
    def is_of_users(self) -> bool:
        """Whether several users share a server: one of several is a load, one alone is none."""
        return self.streams > 1 or self.is_share

    @property
    def margin_is_of_load(self) -> bool:
        """Whether the margin is one of load: it multiplies the users or the rate, and not what a single stream needs."""
        return self.is_of_users or self.requests_per_second is not None

    @property
    def requests_per_day(self) -> float | None:
        """Requests that arrive in a day: the stated volume, else the rate all day."""
        if self.volume_per_day is not None:
            return self.volume_per_day
        return None if self.requests_per_second is None else self.requests_per_second * SECONDS_PER_DAY

    @property
    def required_decode_tokens_per_second(self) -> float | None:
        """Decode rate that each stream needs: the stated rate or 1 / TPOT, whichever is more."""
        stated = [self.tokens_per_second_per_user] if self.tokens_per_second_per_user is not None else []
        if self.tpot is not None:
            stated.append(1 / self.tpot.value_s)
        return max(stated, default=None)

    @property
    def work_depth_tokens(self) -> float | None:
        """Mean number of tokens in the cache while a typical request decodes: its prompt and half of its output."""
        if self.prompt_tokens is None:
            return None
        half_output = 0.0 if self.output_tokens is None else self.output_tokens.p50 / 2
        return self.prompt_tokens.p50 + half_output

    @property
    def needed_context_tokens(self) -> int | None:
        """Context that one request can need: the stated one, else the P95 of prompt plus output."""
        if self.context_tokens is not None:
            return self.context_tokens
        if self.prompt_tokens is None:
            return None
        output = 0.0 if self.output_tokens is None else self.output_tokens.p95
        return math.ceil(self.prompt_tokens.p95 + output)


def single_stream_need(tokens_per_second: float, margin: float = DEFAULT_MARGIN) -> Demand:
    """The demand behind ``--need``: one interactive stream that needs so many tokens per second."""
    return Demand(kind=DemandKind.INTERACTIVE, tokens_per_second_per_user=tokens_per_second, margin=margin)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLengths:
    """Tokens of the prompt, and in the cache while the answer is written: what one stream is measured or predicted at.

    ``deepest``: where the first token of the prompt whose wait is limited has to be told as well, a depth that says so; None: ``depth`` does.
    """

    prompt_tokens: int
    depth: int
    deepest: int | None = None

    @classmethod
    def of(cls, demand: Demand | None, prompt_tokens: int | None = None) -> StreamLengths:
        """Those of a demand; ``prompt_tokens`` where the user says it.

        The prompt is that of the percentile whose time to first token is limited, else the median, else our default. Decoding is behind the
        prompt where the demand does not say at which depth: an empty cache would flatter the machine.
        """
        prompt = DEFAULT_PROMPT_TOKENS if prompt_tokens is None else prompt_tokens
        if prompt_tokens is None and demand is not None and demand.prompt_tokens is not None:
            percentile = _MEDIAN_PERCENTILE if demand.ttft is None else demand.ttft.percentile
            prompt = max(1, round(demand.prompt_tokens.at(percentile)))
        if demand is None or demand.work_depth_tokens is None:
            return cls(prompt_tokens=prompt, depth=prompt)
        return cls(prompt_tokens=prompt, depth=round(demand.work_depth_tokens))
