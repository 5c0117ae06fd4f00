"""What a load tool saw of a server, in our words: one load, its times and lengths, and where the tool's definitions differ.

A file of a foreign tool is evidence only as far as its definitions reach. Each time therefore says whether it is ours exactly, ours from
one side only, or not usable, and :class:`ServedLoad` keeps the sentences that a reader has to know.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# Less than this share of the asked rate was sent: the client fell behind its schedule (the rule of `suffice load`).
LEAST_SENT_SHARE: Final = 0.97
# Fewer requests than this for each user, and ramp and tail are most of the run.
LEAST_REQUESTS_PER_USER: Final = 2


class Tool(StrEnum):
    """Whose file it is."""

    SUFFICE = "suffice load"
    GUIDELLM = "GuideLLM"
    AIPERF = "AIPerf"
    GENAI_PERF = "GenAI-Perf"
    VLLM = "vllm bench serve"
    INFERENCE_PERF = "inference-perf"


class LoadKind(StrEnum):
    """What decides when a request is sent."""

    USERS = "users"  # a closed loop: each user sends the next request when the last one has ended
    RATE = "requests/s"  # an open loop
    BURST = "all at once"
    UNKNOWN = "not told"


class Mapping(StrEnum):
    """How a tool's time stands to ours of the same name."""

    EXACT = "exact"
    LOWER = "lower bound"  # ours is this or more
    UPPER = "upper bound"  # ours is this or less
    UNUSABLE = "not usable"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptsPercentile:
    """A percentile that the tool itself took over all attempts, with its interval; infinite where failures reach it.

    ``low_s`` and ``high_s`` None: fewer than ``needed`` samples.
    """

    fraction: float
    observed_s: float
    low_s: float | None
    high_s: float | None
    samples: int
    needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTimes:
    """One time (TTFT, TPOT or E2E) of the successful requests, in seconds.

    Attributes:
        mapping: how it stands to ours.
        why: what makes it so; empty where it is exact.
        values_s: the raw times, ascending, where the file holds all of them.
        percentiles: pairs of (fraction, seconds), ascending, as the tool gives them; 0 is the least and 1 the largest.
        of_attempts: percentiles over all attempts with intervals, where the tool gives them; they come first.
        count: of successes that have such a time; None: not told.
        mean_s: as the tool gives it; nothing is judged by it.
    """

    mapping: Mapping = Mapping.EXACT
    why: str = ""
    values_s: tuple[float, ...] | None = None
    percentiles: tuple[tuple[float, float], ...] = ()
    of_attempts: tuple[AttemptsPercentile, ...] = ()
    count: int | None = None
    mean_s: float | None = None

    @property
    def usable(self) -> bool:
        """Whether anything can be judged by it; a mean alone says nothing of a percentile."""
        known = self.of_attempts or self.values_s or (self.percentiles and self.count)
        return self.mapping is not Mapping.UNUSABLE and bool(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLengths:
    """Tokens of prompts or answers; None: not told. ``at_least`` means that the server saw this many or more."""

    mean: float | None = None
    p95: float | None = None
    at_least: bool = False

    @property
    def long_end(self) -> float | None:
        """What the 95th percentile is at least: itself, or the mean, which it is not below for such lengths."""
        return self.mean if self.p95 is None else self.p95


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedLoad:
    """One load on one server, as one tool recorded it. None means: the tool does not say.

    Attributes:
        tool: whose file.
        version: of the tool or of its file's form.
        source: name of the file, and which part of it.
        server: address.
        model: as the tool names it.
        kind: users, a rate, or everything at once.
        asked: users or requests/s, as asked for.
        level_low: the load was at least this: of a rate the less of asked and sent.
        level_high: and at most this.
        attempted: requests without warm-up, those that were cut off at the end included.
        failed: without a whole answer.
        cut_off: neither: still under way when the run ended.
        ttft: time to first token.
        tpot: time per output token after the first.
        e2e: time to the last token.
        prompt: lengths.
        output: lengths.
        requests_per_s: that succeeded, over the whole run.
        output_tokens_per_s: of these.
        duration_s: of the run.
        late_s: the longest time between a request's schedule and its sending.
        from_schedule: whether TTFT and E2E count from the schedule already.
        differences: where the tool's definitions or habits differ from ours, a sentence each.
        problems: why nothing can be judged by this load; empty where something can.
        of_prebuilt: the server was the prebuilt engine that ``suffice load --spawn`` starts: one that is built for the CPU may be several times as fast.
    """

    tool: Tool
    source: str
    kind: LoadKind
    version: str | None = None
    server: str | None = None
    model: str | None = None
    asked: float | None = None
    level_low: float | None = None
    level_high: float | None = None
    attempted: int | None = None
    failed: int | None = None
    cut_off: int = 0
    ttft: ServedTimes | None = None
    tpot: ServedTimes | None = None
    e2e: ServedTimes | None = None
    prompt: ServedLengths = ServedLengths()
    output: ServedLengths = ServedLengths()
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    duration_s: float | None = None
    late_s: float | None = None
    from_schedule: bool = False
    differences: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    of_prebuilt: bool = False

    @property
    def succeeded(self) -> int | None:
        """Requests with a whole answer."""
        if self.attempted is None or self.failed is None:
            return None
        return self.attempted - self.failed - self.cut_off

    @property
    def keeps_schedule(self) -> bool:
        """Whether what was sent shows that the client kept up with an open loop's schedule."""
        if self.kind is not LoadKind.RATE or self.from_schedule or self.late_s is not None:
            return True
        if self.asked is None or self.level_low is None:
            return False
        return self.level_low >= LEAST_SENT_SHARE * self.asked


def rate_level(
    asked: float | None, attempted: int | None, duration_s: float | None
) -> tuple[float | None, float | None]:
    """The least and the most that an open loop's rate was: asked, and sent over the whole run, whose tail makes it smaller.

    A short Poisson run sends more or fewer than asked by chance, so neither of the two alone is the load.
    """
    sent = attempted / duration_s if attempted and duration_s else None
    known = [value for value in (asked, sent) if value is not None]
    if sent is None or not known:
        return None, max(known, default=None)
    return min(known), max(known)


def users_problem(users: float | None, attempted: int | None) -> str | None:
    """Why a closed loop was never steady, or None."""
    if users is None or attempted is None or attempted >= LEAST_REQUESTS_PER_USER * users:
        return None
    return f"{attempted} requests of {users:g} users are fewer than {LEAST_REQUESTS_PER_USER} each: the load was never steady"
