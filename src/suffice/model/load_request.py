"""One request under load: the raw times, and what follows from them. All times are nanoseconds of one monotonic clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from suffice.units import NANOSECONDS_PER_SECOND

# Up to here a text event is taken to hold one token; the end-of-text token, which is counted and not shown, stays below it.
ONE_TOKEN_PER_EVENT: Final = 1.05


class Outcome(StrEnum):
    """How a request ended. Only ``SUCCESS`` has latencies; all others are failures and count as infinitely slow."""

    SUCCESS = "success"
    HTTP_ERROR = "http error"
    ERROR_EVENT = "error in the stream"
    CUT_OFF = "stream cut off"
    EMPTY = "empty answer"
    GARBAGE = "not the protocol"
    TIMEOUT = "time-out"
    NO_CONNECTION = "no connection"
    CLIENT = "client out of resources"
    INTERRUPTED = "interrupted"


class TokenSource(StrEnum):
    """Who counted the generated tokens."""

    USAGE = "usage"
    TIMINGS = "server timings"


class Untimed(StrEnum):
    """Why an answer has no TPOT. ``ONE_TOKEN``: there is no such time, so that no limit on it can be missed; with all others it is unknown."""

    ONE_TOKEN = "no token came after the first text"  # noqa: S105  # no password
    NOT_COUNTED = "the server counted no tokens"
    ZERO = "the server said 0 tokens"
    TOO_MANY = "the server said more tokens than the text can have"
    TOO_FEW = "the server said fewer tokens than came"
    AT_ONCE = "all text came at once"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimings:
    """What llama.cpp's server says about a request. Prompt tokens are those that were evaluated, not those in its cache."""

    prompt_tokens: int | None
    prompt_s: float | None
    predicted_tokens: int | None
    predicted_s: float | None
    cached_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRow:
    """One request, raw. ``*_ns`` count from the start of the run; None means unknown or never happened.

    ``scheduled_ns`` is the arrival asked for (open loop only), ``dispatched_ns`` when the client turned to it, ``start_ns`` when
    the first byte of the request was written on an open connection, ``connect_ns`` how long opening one took (a duration).
    ``chunk_ns`` are arrivals of reads that held generated text, ``chunk_events`` how many text events each of them held.
    ``output_tokens`` is a count that can be true, ``stated_output_tokens`` what the server's usage said, true or not.
    """

    index: int
    warm_up: bool
    outcome: Outcome
    dispatched_ns: int
    end_ns: int
    scheduled_ns: int | None = None
    start_ns: int | None = None
    connect_ns: int | None = None
    headers_ns: int | None = None
    first_answer_ns: int | None = None
    chunk_ns: tuple[int, ...] = ()
    chunk_events: tuple[int, ...] = ()
    http_status: int | None = None
    finish_reason: str | None = None
    detail: str = ""
    output_tokens: int | None = None
    stated_output_tokens: int | None = None
    token_source: TokenSource | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    answer_characters: int = 0
    reasoning_characters: int = 0
    asked_prompt_tokens: int | None = None
    asked_output_tokens: int | None = None
    timings: ServerTimings | None = None
    notes: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether a whole answer with text came."""
        return self.outcome is Outcome.SUCCESS

    @property
    def text_events(self) -> int:
        """Events that held generated text. They are not tokens."""
        return sum(self.chunk_events)

    @property
    def ttft_s(self) -> float | None:
        """First generated text (answer, reasoning or tool arguments) after the start."""
        return _between(self.start_ns, self.chunk_ns[0]) if self.succeeded else None

    @property
    def ttfo_s(self) -> float | None:
        """First text that is not reasoning after the start; None when the model only reasoned."""
        return _between(self.start_ns, self.first_answer_ns) if self.succeeded else None

    @property
    def e2e_s(self) -> float | None:
        """Last generated text after the start; usage and [DONE] do not count."""
        return _between(self.start_ns, self.chunk_ns[-1]) if self.succeeded else None

    @property
    def effective_ttft_s(self) -> float | None:
        """First generated text after the scheduled arrival; None in a closed loop."""
        return _between(self.scheduled_ns, self.chunk_ns[0]) if self.succeeded else None

    @property
    def effective_e2e_s(self) -> float | None:
        """Last generated text after the scheduled arrival; None in a closed loop."""
        return _between(self.scheduled_ns, self.chunk_ns[-1]) if self.succeeded else None

    @property
    def send_lag_s(self) -> float | None:
        """How much later than scheduled the client turned to the request; None in a closed loop."""
        return _between(self.scheduled_ns, self.dispatched_ns)

    @property
    def connect_s(self) -> float | None:
        """How long opening the connection took; None when an open one was used."""
        return None if self.connect_ns is None else self.connect_ns / NANOSECONDS_PER_SECOND

    @property
    def tokens_per_event(self) -> float | None:
        """Tokens the server counted over text events; None when either is unknown."""
        if not self.output_tokens or not self.text_events:
            return None
        return self.output_tokens / self.text_events

    @property
    def tpot_s(self) -> float | None:
        """(t_last - t_first) / (n - n_first): time per token after the first chunk, by the server's own count.

        n_first, the tokens that came with the first chunk, is its number of events where an event holds one token, else its share
        of all tokens. None when the count is unknown or no token followed the first chunk: an answer of one token has no TPOT.
        """
        per_event = self.tokens_per_event
        if not self.succeeded or per_event is None or self.output_tokens is None or len(self.chunk_ns) < 2:  # noqa: PLR2004  # two ends
            return None
        tokens_first = self.chunk_events[0] * (1.0 if per_event <= ONE_TOKEN_PER_EVENT else per_event)
        after_first = self.output_tokens - tokens_first
        if after_first <= 0:
            return None
        return (self.chunk_ns[-1] - self.chunk_ns[0]) / NANOSECONDS_PER_SECOND / after_first

    @property
    def untimed(self) -> Untimed | None:
        """Why an answer has no TPOT; None when it has one, or when there is no whole answer."""
        if not self.succeeded or self.tpot_s is not None:
            return None
        if self.output_tokens is None:
            stated = self.stated_output_tokens
            return Untimed.NOT_COUNTED if stated is None else Untimed.TOO_MANY if stated else Untimed.ZERO
        if len(self.chunk_ns) > 1:
            return Untimed.TOO_FEW
        # The end-of-text token may be counted and is not shown.
        return Untimed.ONE_TOKEN if self.text_events == 1 and self.output_tokens <= 2 else Untimed.AT_ONCE  # noqa: PLR2004  # with the end

    @property
    def chunk_gaps_s(self) -> tuple[float, ...]:
        """Times between successive reads with text: a stall is seen here, and is not thinned out by a mean."""
        return tuple(
            (after - before) / NANOSECONDS_PER_SECOND
            for before, after in zip(self.chunk_ns, self.chunk_ns[1:], strict=False)
        )


def _between(start_ns: int | None, end_ns: int | None) -> float | None:
    if start_ns is None or end_ns is None:
        return None
    return (end_ns - start_ns) / NANOSECONDS_PER_SECOND
