"""What the mock server is told to answer: scripts of timed bytes, and builders for the usual and the hostile ones."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from suffice.units import MILLISECONDS_PER_SECOND

_STREAM: Final = "text/event-stream"


class Ending(StrEnum):
    """How an answer ends once its steps are sent."""

    CLEAN = "clean"
    CUT = "cut"  # the connection is closed in the middle of the body
    RESET = "reset"  # the same, with an RST
    HANG = "hang"  # nothing more comes, and the connection stays


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Bytes to be sent in one write, ``at_s`` after the request was read."""

    at_s: float
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One whole answer."""

    steps: tuple[Step, ...] = ()
    status: int = 200
    content_type: str = _STREAM
    headers_at_s: float = 0.0
    ending: Ending = Ending.CLEAN


def event(document: object) -> bytes:
    """A server-sent event with a JSON object."""
    return b"data: " + json.dumps(document, ensure_ascii=False).encode() + b"\n\n"


DONE: Final = b"data: [DONE]\n\n"
KEEP_ALIVE: Final = b": keep-alive\n\n"


def chat_chunk(delta: dict[str, Any], finish: str | None = None, **more: object) -> dict[str, Any]:
    """A chunk of the chat interface."""
    return {
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def role() -> bytes:
    """The chunk with a role and no text that many servers send at once."""
    return event(chat_chunk({"role": "assistant", "content": ""}))


def text(content: str, field: str = "content") -> bytes:
    """A chunk with text; ``field`` may be reasoning_content."""
    return event(chat_chunk({field: content}))


def finish(reason: str = "length") -> bytes:
    """The empty chunk with a finish reason."""
    return event(chat_chunk({}, reason))


def usage(output_tokens: int, prompt_tokens: int = 16, **details: int) -> bytes:
    """The chunk with the usage and no choices."""
    counts = {"prompt_tokens": prompt_tokens, "completion_tokens": output_tokens}
    extra = {"prompt_tokens_details": {"cached_tokens": details["cached"]}} if "cached" in details else {}
    return event({"object": "chat.completion.chunk", "choices": [], "usage": {**counts, **extra}})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """A well-behaved answer: a role at once, the first text after ``ttft_s``, then an event every ``gap_s``."""

    ttft_s: float = 0.0
    gap_s: float = 0.0
    tokens: int = 8
    tokens_per_event: int = 1
    reasoning_tokens: int = 0
    with_usage: bool = True
    with_timings: bool = False

    def answer(self) -> Answer:
        """The answer as a script."""
        steps = [Step(at_s=0.0, content=role())]
        at_s = self.ttft_s
        for first in range(0, self.tokens, self.tokens_per_event):
            count = min(self.tokens_per_event, self.tokens - first)
            field = "reasoning_content" if first < self.reasoning_tokens else "content"
            at_s = self.ttft_s + len(steps[1:]) * self.gap_s
            steps.append(Step(at_s=at_s, content=text(" word" * count, field)))
        end = finish() + (usage(self.tokens) if self.with_usage else b"")
        if self.with_timings:
            end = event(chat_chunk({}, "length", timings=self._timings(at_s))) + end
        steps.append(Step(at_s=at_s, content=end + DONE))
        return Answer(steps=tuple(steps))

    def _timings(self, last_s: float) -> dict[str, float]:
        return {
            "prompt_n": 16,
            "prompt_ms": self.ttft_s * MILLISECONDS_PER_SECOND,
            "predicted_n": self.tokens,
            "predicted_ms": (last_s - self.ttft_s) * MILLISECONDS_PER_SECOND,
        }


def error_answer(status: int, message: str = "no") -> Answer:
    """An HTTP error with the usual JSON."""
    content = json.dumps({"error": {"message": message, "code": status}}).encode()
    return Answer(steps=(Step(at_s=0.0, content=content),), status=status, content_type="application/json")


def ended(answer: Answer, ending: Ending, keep_steps: int) -> Answer:
    """The answer's first steps, and then another end."""
    return replace(answer, steps=answer.steps[:keep_steps], ending=ending)


def at_once(*contents: bytes, ending: Ending = Ending.CLEAN, content_type: str = _STREAM) -> Answer:
    """Bytes that are sent without any pause, each in a write of its own."""
    return Answer(
        steps=tuple(Step(at_s=0.0, content=content) for content in contents), ending=ending, content_type=content_type
    )
