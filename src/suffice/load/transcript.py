"""A streamed answer as it comes: bytes and the time of their arrival in, the facts of the request out. No clock, no network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.load.answer import Delta, NotTheProtocolError, Usage, read_event
from suffice.load.sse import EventParser, EventTooLargeError, ServerEvent
from suffice.model.load_request import Outcome, ServerTimings, TokenSource

if TYPE_CHECKING:
    from typing import Final

MAX_DETAIL_CHARACTERS: Final = 200
_TOKENS_PER_CHARACTER: Final = 4  # at most: a token is at least a byte, and a character at most four
_UNSEEN_TOKENS: Final = 64  # special tokens and halves of characters are counted and not shown


class Transcript:
    """One answer. All events of one read share its time: that they came apart cannot be known, and a gap of 0 s is no gap."""

    def __init__(self) -> None:
        self._parser = EventParser()
        self._chunk_ns: list[int] = []
        self._chunk_events: list[int] = []
        self._first_answer_ns: int | None = None
        self._characters = {"answer": 0, "reasoning": 0}
        self._finish_reason: str | None = None
        self._usage: Usage | None = None
        self._timings: ServerTimings | None = None
        self._failure: tuple[Outcome, str] | None = None
        self._done = False
        self._events = 0
        self._bytes = 0
        self._last_id: tuple[str, str] | None = None
        self._notes: list[str] = []
        self.asked_tokens: int | None = (
            None  # the length that was asked for; so many may have been generated, seen or not
        )

    @property
    def over(self) -> bool:
        """Whether nothing that may still come matters: [DONE] was said, or the answer has failed."""
        return self._done or self._failure is not None

    def feed(self, content: bytes, at_ns: int) -> None:
        """Bytes of the body that arrived together at ``at_ns``."""
        self._bytes += len(content)
        if self.over:
            return
        texts = 0
        try:
            for event in self._parser.feed(content):
                texts += self._event(event, at_ns)
                if self.over:
                    break
        except (NotTheProtocolError, EventTooLargeError) as error:
            self._failure = (Outcome.GARBAGE, str(error))
        if texts:
            self._chunk_ns.append(at_ns)
            self._chunk_events.append(texts)

    def _event(self, event: ServerEvent, at_ns: int) -> int:
        """1 for an event with generated text, else 0."""
        self._events += 1
        if event.event_id is not None:
            if self._last_id == (event.event_id, event.data):
                self._note("an event came twice under one id and was counted once")
                return 0
            self._last_id = (event.event_id, event.data)
        delta = read_event(event)
        self._facts(delta)
        if delta.has_text:
            self._characters["answer"] += len(delta.answer) + len(delta.tool_arguments)
            self._characters["reasoning"] += len(delta.reasoning)
            if self._first_answer_ns is None and (delta.answer or delta.tool_arguments):
                self._first_answer_ns = at_ns
        return int(delta.has_text)

    def _facts(self, delta: Delta) -> None:
        if delta.error is not None:
            self._failure = (Outcome.ERROR_EVENT, delta.error)
        self._done = self._done or delta.done
        self._finish_reason = delta.finish_reason or self._finish_reason
        self._usage = delta.usage or self._usage
        self._timings = delta.timings or self._timings

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def outcome(self, *, broken: bool) -> tuple[Outcome, str]:
        """How the answer ended, and what to say about it; ``broken``: the connection ended before the body did."""
        if self._failure is not None:
            return self._failure[0], self._failure[1]
        if not self._bytes and not broken:
            return Outcome.EMPTY, "the answer has no body"
        if not self._events and not broken:
            return Outcome.GARBAGE, "the body holds no events"
        if not self._done and (broken or self._finish_reason is None or self._parser.inside_event):
            return Outcome.CUT_OFF, f"the stream ended after {sum(self._chunk_events)} text events without an end mark"
        if not self._chunk_ns:
            return Outcome.EMPTY, "no text was generated"
        return Outcome.SUCCESS, ""

    def facts(self) -> dict[str, Any]:
        """The fields of a RequestRow that the body decides."""
        tokens, source = self._tokens()
        events = sum(self._chunk_events)
        if tokens is not None and events > tokens:
            self._note(f"{events} text events for {tokens} tokens: some came twice, or the count is wrong")
        usage, timings = self._usage, self._timings
        cached = None if usage is None else usage.cached_tokens
        if cached is None and timings is not None:
            cached = timings.cached_tokens
        return {
            "first_answer_ns": self._first_answer_ns,
            "chunk_ns": tuple(self._chunk_ns),
            "chunk_events": tuple(self._chunk_events),
            "finish_reason": self._finish_reason,
            "output_tokens": tokens,
            "stated_output_tokens": None if usage is None else usage.output_tokens,
            "token_source": source,
            "prompt_tokens": None if usage is None else usage.prompt_tokens,
            "cached_tokens": cached,
            "reasoning_tokens": None if usage is None else usage.reasoning_tokens,
            "answer_characters": self._characters["answer"],
            "reasoning_characters": self._characters["reasoning"],
            "timings": timings,
            "notes": tuple(self._notes),
        }

    def _tokens(self) -> tuple[int | None, TokenSource | None]:
        """The server's count. 0 tokens for an answer with text is no count, more than it can have is none, and events are none either."""
        if self._usage is not None and self._is_count(self._usage.output_tokens):
            return self._usage.output_tokens, TokenSource.USAGE
        if self._timings is not None and self._is_count(self._timings.predicted_tokens):
            return self._timings.predicted_tokens, TokenSource.TIMINGS
        return None, None

    def _is_count(self, tokens: int | None) -> bool:
        """Whether so many tokens can have been generated. While text is still to come nothing speaks against a number."""
        characters = self._characters["answer"] + self._characters["reasoning"]
        hidden = 0 if self._usage is None else self._usage.reasoning_tokens or 0
        most = _TOKENS_PER_CHARACTER * characters + _UNSEEN_TOKENS + min(hidden, tokens or 0)
        over = self.over or self._finish_reason is not None
        return bool(tokens) and (not over or (tokens or 0) <= max(most, self.asked_tokens or 0))
