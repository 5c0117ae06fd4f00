"""May the numbers be believed? The client against its schedule, the server's own clock against the client's, lengths and caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.load_request import Outcome
from suffice.stats.intervals import median, quantile
from suffice.units import NANOSECONDS_PER_SECOND, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.load_request import RequestRow

_LATE: Final = 0.99  # the quantile of lags that is judged
LEAST_LAG_S: Final = 0.02  # what a healthy event loop stays below
LAG_SHARE_OF_TTFT: Final = 0.05  # and what it may cost beyond that
LEAST_ACHIEVED: Final = 0.97  # of the rate asked for
MOST_CPU_SHARE: Final = 0.95  # of one core: an event loop has no second one
AGREEMENT: Final = 0.03  # between the server's clock and the client's
_NOTICEABLE_CACHE: Final = 0.05
_LENGTH_TOLERANCE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCheck:
    """What the client saw of itself. ``reasons`` are empty when it kept up; rates are None in a closed loop."""

    reasons: tuple[str, ...]
    loop_lag_p50_s: float | None
    loop_lag_p99_s: float | None
    loop_lag_longest_s: float | None
    cpu_share: float | None
    scheduled_rate_per_s: float | None
    achieved_rate_per_s: float | None
    send_lag_p50_s: float | None
    send_lag_p99_s: float | None

    @property
    def is_bottleneck(self) -> bool:
        """Whether the numbers describe the client and not the server."""
        return bool(self.reasons)

    @property
    def sent_too_little(self) -> bool:
        """Whether the load was less than the one asked for: then not even good times say anything."""
        scheduled, achieved = self.scheduled_rate_per_s, self.achieved_rate_per_s
        return scheduled is not None and achieved is not None and achieved < LEAST_ACHIEVED * scheduled


def check_client(rows: Sequence[RequestRow], lags_s: Sequence[float], cpu_share: float | None) -> ClientCheck:
    """Judge the client by its event loop's lag, its use of its core, and what it sent against what it should have."""
    lags = [row.send_lag_s for row in rows if row.send_lag_s is not None]
    scheduled = _rate([row.scheduled_ns for row in rows if row.scheduled_ns is not None])
    achieved = _rate([row.dispatched_ns for row in rows if row.scheduled_ns is not None])
    allowed_s = _allowed_lag_s(rows)
    loop_p99_s = quantile(lags_s, _LATE) if lags_s else None
    send_p99_s = quantile(lags, _LATE) if lags else None
    reasons = []
    if loop_p99_s is not None and loop_p99_s > allowed_s:
        reasons.append(
            f"its event loop was late by {format_seconds(loop_p99_s)} (P99), allowed {format_seconds(allowed_s)}"
        )
    if send_p99_s is not None and send_p99_s > allowed_s:
        reasons.append(f"it sent {format_seconds(send_p99_s)} late (P99), allowed {format_seconds(allowed_s)}")
    if scheduled is not None and achieved is not None and achieved < LEAST_ACHIEVED * scheduled:
        reasons.append(f"it sent {achieved:.4g} requests/s where {scheduled:.4g} were scheduled")
    if cpu_share is not None and cpu_share > MOST_CPU_SHARE:
        reasons.append(f"it used {cpu_share:.0%} of its one core")
    if any(row.outcome is Outcome.CLIENT for row in rows):
        reasons.append("it ran out of sockets")
    return ClientCheck(
        reasons=tuple(reasons),
        loop_lag_p50_s=median(lags_s) if lags_s else None,
        loop_lag_p99_s=loop_p99_s,
        loop_lag_longest_s=max(lags_s) if lags_s else None,
        cpu_share=cpu_share,
        scheduled_rate_per_s=scheduled,
        achieved_rate_per_s=achieved,
        send_lag_p50_s=median(lags) if lags else None,
        send_lag_p99_s=send_p99_s,
    )


def _allowed_lag_s(rows: Sequence[RequestRow]) -> float:
    waits = [row.ttft_s for row in rows if row.ttft_s is not None]
    return max(LEAST_LAG_S, LAG_SHARE_OF_TTFT * median(waits)) if waits else LEAST_LAG_S


def _rate(moments_ns: Sequence[int]) -> float | None:
    if len(moments_ns) < 2:  # noqa: PLR2004  # a rate is between two
        return None
    span_ns = max(moments_ns) - min(moments_ns)
    return (len(moments_ns) - 1) * NANOSECONDS_PER_SECOND / span_ns if span_ns > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCheck:
    """The server's own times beside the client's, as medians over ``requests``; ``agrees`` is None where nothing is comparable.

    ``decode_ratio``: time from the first to the last text as the client saw it, over the same by the server, for equal numbers of
    steps. ``ttft_over_prompt``: time to first token over the server's time for the prompt; waiting and the network are the rest.
    """

    requests: int
    decode_ratio: float | None
    ttft_over_prompt: float | None
    agrees: bool | None


def check_server(rows: Sequence[RequestRow]) -> ServerCheck | None:
    """Compare with llama.cpp's ``timings``; None when no answer has them."""
    timed = [row for row in rows if row.timings is not None and row.succeeded and not row.warm_up]
    if not timed:
        return None
    decode = [ratio for row in timed if (ratio := _decode_ratio(row)) is not None]
    prompt = [ratio for row in timed if (ratio := _prompt_ratio(row)) is not None]
    decode_ratio = median(decode) if decode else None
    prompt_ratio = median(prompt) if prompt else None
    opinions = []
    if decode_ratio is not None:
        opinions.append(abs(decode_ratio - 1) <= AGREEMENT)
    if prompt_ratio is not None:
        opinions.append(prompt_ratio >= 1 - AGREEMENT)  # no text can come before its prompt is evaluated
    return ServerCheck(
        requests=len(timed),
        decode_ratio=decode_ratio,
        ttft_over_prompt=prompt_ratio,
        agrees=all(opinions) if opinions else None,
    )


def _decode_ratio(row: RequestRow) -> float | None:
    """Client span over server span. Servers time n tokens as n or as n - 1 steps (llama.cpp #23828): the nearer reading counts."""
    timings = row.timings
    if timings is None or timings.predicted_s is None or len(row.chunk_ns) < 2:  # noqa: PLR2004  # a span has two ends
        return None
    span_s = (row.chunk_ns[-1] - row.chunk_ns[0]) / NANOSECONDS_PER_SECOND
    n = timings.predicted_tokens or 0
    readings = [span_s / timings.predicted_s]
    if n > 1:
        readings.append(readings[0] * n / (n - 1))
    return min(readings, key=lambda ratio: abs(ratio - 1))


def _prompt_ratio(row: RequestRow) -> float | None:
    if row.timings is None or row.timings.prompt_s is None or row.ttft_s is None:
        return None
    return row.ttft_s / row.timings.prompt_s


def doubts(rows: Sequence[RequestRow], *, prompts_are_unique: bool) -> list[str]:
    """What a reader should know about the load itself: lengths that are not those asked for, caches, tokens nobody counted."""
    done = [row for row in rows if row.succeeded and not row.warm_up]
    found = []
    if done and all(row.output_tokens is None for row in done):
        found.append(
            "the server counts no tokens in streams: TPOT and tokens/s are unknown, chunks are not taken for tokens"
        )
    found += _length_doubts(done)
    cached = [share for row in done if (share := _cached_share(row)) is not None]
    if prompts_are_unique and cached and max(cached) > _NOTICEABLE_CACHE:
        used = sum(share > _NOTICEABLE_CACHE for share in cached)
        found.append(
            f"{used} of {len(done)} answers used a prompt cache, up to {max(cached):.0%} of the prompt, although no two prompts "
            "begin alike: TTFT may flatter"
        )
    notes = sorted({note for row in rows for note in row.notes})
    return found + notes[:5]


def _cached_share(row: RequestRow) -> float | None:
    """The share of the prompt that came from a cache, the chat template's own tokens left out: they begin every prompt."""
    if row.cached_tokens is None or not row.prompt_tokens:
        return None
    template = max(0, row.prompt_tokens - (row.asked_prompt_tokens or 0))
    return max(0, row.cached_tokens - template) / row.prompt_tokens


def _length_doubts(done: Sequence[RequestRow]) -> list[str]:
    found = []
    short = [row for row in done if _other_length(row)]
    if short:
        found.append(
            f"{len(short)} of {len(done)} answers have another length than was asked for; compare speeds with care"
        )
    prompts = [
        row.prompt_tokens / row.asked_prompt_tokens for row in done if row.prompt_tokens and row.asked_prompt_tokens
    ]
    if prompts and abs(median(prompts) - 1) > _LENGTH_TOLERANCE:
        found.append(
            f"prompts had {median(prompts):.2f} times the words asked for in tokens, by the server's count and with its template"
        )
    return found


def _other_length(row: RequestRow) -> bool:
    return (
        row.output_tokens is not None
        and row.asked_output_tokens is not None
        and row.output_tokens != row.asked_output_tokens
    )
