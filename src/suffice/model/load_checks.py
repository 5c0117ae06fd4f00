"""May the numbers be believed? The client against its schedule, the server's own clock against the client's, lengths and caches."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.model.load_request import Outcome, Untimed
from suffice.stats.intervals import median, quantile
from suffice.units import NANOSECONDS_PER_SECOND, format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.load_request import RequestRow

_LATE: Final = 0.99  # the quantile of lags that is judged
LEAST_LAG_S: Final = 0.02  # what a healthy event loop stays below
LAG_SHARE_OF_TTFT: Final = 0.05  # and what it may cost beyond that
LEAST_ACHIEVED: Final = 0.97  # of the rate asked for
_TURNS: Final = 2  # of the event loop, from the arrival of a text to its time stamp
ALL_BUSY_SHARE: Final = 0.9  # of all CPUs' time: less leaves room somewhere for a client that needs a part of one
MOST_CPU_SHARE: Final = 0.95  # of one core: an event loop has no second one
AGREEMENT: Final = 0.03  # between the server's clock and the client's
_NOTICEABLE_CACHE: Final = 0.05
_LENGTH_TOLERANCE: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCheck:
    """The client's machine: the share of its CPUs' time that anybody used (None: unknown), and whether the server runs on it."""

    busy_share: float | None = None
    server_is_here: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCheck:
    """What the client saw of itself. ``reasons`` are empty when it kept up; rates are None in a closed loop.

    ``pause_share``: in a closed loop, how much longer a user's turn was for the lateness of the event loop (its median over that of E2E).
    """

    reasons: tuple[str, ...]
    loop_lag_p50_s: float | None
    loop_lag_p99_s: float | None
    loop_lag_longest_s: float | None
    cpu_share: float | None
    scheduled_rate_per_s: float | None
    achieved_rate_per_s: float | None
    send_lag_p50_s: float | None
    send_lag_p99_s: float | None
    host: HostCheck = HostCheck()
    pause_share: float | None = None

    @property
    def is_bottleneck(self) -> bool:
        """Whether the numbers describe the client and not the server."""
        return bool(self.reasons)

    @property
    def sent_too_little(self) -> bool:
        """Whether the load was less than the one asked for: then not even good times say anything.

        An open loop has its rate; in a closed one a late client is a user who pauses between two requests.
        """
        scheduled, achieved = self.scheduled_rate_per_s, self.achieved_rate_per_s
        if scheduled is not None and achieved is not None:
            return achieved < LEAST_ACHIEVED * scheduled
        return self.is_bottleneck and self.pause_share is not None and self.pause_share > 1 - LEAST_ACHIEVED

    @property
    def starved(self) -> bool:
        """Whether it was late for want of a CPU: its own core was not full, and those of the machine were."""
        busy = self.host.busy_share
        own = self.cpu_share is None or self.cpu_share <= MOST_CPU_SHARE
        return self.is_bottleneck and own and busy is not None and busy >= ALL_BUSY_SHARE

    @property
    def complaint(self) -> str:
        """What is wrong with the client, why, and what to do; empty when it kept up."""
        if not self.reasons:
            return ""
        seen = "; ".join(self.reasons)
        if not self.starved:
            return f"the client was the bottleneck: {seen}; give it a machine of its own"
        if self.host.server_is_here:
            return (
                f"the server on this machine took the client's CPU time: {seen}, with all CPUs {self.host.busy_share:.0%} busy; leave "
                "the client a core (fewer --threads with --spawn, or fewer of the server's own), or run it on another machine"
            )
        return (
            f"other programs took the client's CPU time: {seen}, with all CPUs {self.host.busy_share:.0%} busy; "
            "end them, or run the client on another machine"
        )


def check_client(
    rows: Sequence[RequestRow], lags_s: Sequence[float], cpu_share: float | None, host: HostCheck | None = None
) -> ClientCheck:
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
        host=host or HostCheck(),
        pause_share=_pause_share(rows, lags_s),
    )


def _pause_share(rows: Sequence[RequestRow], lags_s: Sequence[float]) -> float | None:
    if not lags_s or any(row.scheduled_ns is not None for row in rows):
        return None
    turns = [row.e2e_s for row in rows if row.e2e_s]
    return median(lags_s) / median(turns) if turns else None


def with_early_first_text(rows: Sequence[RequestRow], client: ClientCheck) -> list[RequestRow]:
    """Rows whose first text came earlier by the lateness of the client's reads (P99 of its event loop's lag), where it may have.

    A late client makes TTFT and E2E longer, never shorter. TPOT is between two reads: when the first was late it is too short, by no
    more than this. Limits that these rows keep too were kept in spite of the client.
    """
    lag_ns = round((client.loop_lag_p99_s or 0.0) * NANOSECONDS_PER_SECOND)
    return [
        replace(row, chunk_ns=(max(row.start_ns or 0, row.chunk_ns[0] - lag_ns), *row.chunk_ns[1:]))
        if row.chunk_ns
        else row
        for row in rows
    ]


def without_lateness(rows: Sequence[RequestRow], client: ClientCheck) -> list[RequestRow]:
    """Rows as they would be at most as much better without a late client: arrivals when it turned to them, texts earlier.

    A text is stamped by the second turn of the event loop after it came, each late by no more than the longest lag. The last text is moved
    twice as far as the first, so that TPOT is shorter as well. Limits that these rows miss too were not missed for the client's sake.
    """
    lag_ns = lateness_ns(client)
    return [_without_lateness(row, lag_ns) for row in rows]


def lateness_ns(client: ClientCheck) -> int:
    """How late the client may have stamped a text."""
    return round(_TURNS * (client.loop_lag_longest_s or 0.0) * NANOSECONDS_PER_SECOND)


def _without_lateness(row: RequestRow, lag_ns: int) -> RequestRow:
    scheduled_ns = None if row.scheduled_ns is None else row.dispatched_ns
    if not row.chunk_ns:
        return replace(row, scheduled_ns=scheduled_ns)
    first_ns = max(row.start_ns or 0, row.chunk_ns[0] - lag_ns)
    last_ns = max(first_ns, row.chunk_ns[-1] - 2 * lag_ns)
    between = (first_ns,) * (len(row.chunk_ns) - 2)
    texts = (first_ns, *between, last_ns) if len(row.chunk_ns) > 1 else (first_ns,)
    return replace(row, scheduled_ns=scheduled_ns, chunk_ns=texts)


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
    if done and all(row.untimed is Untimed.NOT_COUNTED for row in done):
        found.append(
            "the server counts no tokens in streams: TPOT and tokens/s are unknown, chunks are not taken for tokens"
        )
    else:
        unknown = [row for row in done if row.untimed is not Untimed.ONE_TOKEN]
        found += untimed_words(unknown, of=len(done))
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


def untimed_words(rows: Sequence[RequestRow], of: int) -> list[str]:
    """How many of so many attempts had no TPOT, and why, in a sentence for each reason."""
    reasons = Counter(row.untimed for row in rows if row.untimed is not None)
    return [f"{count} of {of} attempts had no TPOT: {reason}" for reason, count in reasons.most_common()]


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
