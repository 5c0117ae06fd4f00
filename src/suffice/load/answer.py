"""What one event of a streamed answer says, in the dialects of llama.cpp, vLLM, SGLang, Ollama, TGI and LM Studio."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from suffice.model.load_request import ServerTimings
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from suffice.load.sse import ServerEvent


class NotTheProtocolError(ValueError):
    """An event holds no object of the protocol."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the server counts them; None where it does not say."""

    prompt_tokens: int | None
    output_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Delta:
    """One event. Texts are empty in events that only carry a role, a finish reason or the usage."""

    answer: str = ""
    reasoning: str = ""
    tool_arguments: str = ""
    finish_reason: str | None = None
    usage: Usage | None = None
    timings: ServerTimings | None = None
    error: str | None = None
    done: bool = False

    @property
    def has_text(self) -> bool:
        """Whether anything was generated."""
        return bool(self.answer or self.reasoning or self.tool_arguments)


def read_event(event: ServerEvent) -> Delta:
    """The event's content.

    Raises:
        NotTheProtocolError: neither [DONE] nor a JSON object.
    """
    if event.data.strip() == "[DONE]":
        return Delta(done=True)
    try:
        document = json.loads(event.data)
    except (ValueError, RecursionError) as error:
        if event.kind == "error":
            return Delta(error=event.data)
        raise NotTheProtocolError("an event holds no JSON") from error
    if not isinstance(document, dict):
        if event.kind == "error":
            return Delta(error=str(document))
        raise NotTheProtocolError("an event holds no JSON object")
    error_text = error_in(document) or (event.data if event.kind == "error" else None)
    if error_text is not None:
        return Delta(error=error_text)
    return _from_object(document)


def error_in(document: dict[str, Any]) -> str | None:
    """The error that an object reports, in whichever form; None when it reports none."""
    error = document.get("error")
    if error:
        message = error.get("message") if isinstance(error, dict) else error
        return str(message or error)
    if document.get("object") == "error":
        return str(document.get("message") or "an error without a message")
    return None


def _from_object(document: dict[str, Any]) -> Delta:
    answer, reasoning, arguments, finish = "", "", "", None
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else ():
        if not isinstance(choice, dict):
            continue
        delta = choice.get("delta")
        source = delta if isinstance(delta, dict) else choice
        answer += _text(source.get("content")) or _text(choice.get("text"))
        reasoning += _text(source.get("reasoning_content")) or _text(source.get("reasoning"))
        arguments += _tool_arguments(source.get("tool_calls"))
        finish = choice.get("finish_reason") or finish
    return Delta(
        answer=answer,
        reasoning=reasoning,
        tool_arguments=arguments,
        finish_reason=finish if isinstance(finish, str) else None,
        usage=_usage(document.get("usage")),
        timings=_timings(document.get("timings")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _tool_arguments(calls: object) -> str:
    text = ""
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            text += _text(function.get("name")) + _text(function.get("arguments"))
    return text


def _count(value: object) -> int | None:
    """A count; servers of some languages write whole numbers as 3.0. What no machine could have counted is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= sys.maxsize:
        return None
    return int(value) if value == int(value) else None


def _usage(value: object) -> Usage | None:
    if not isinstance(value, dict):
        return None
    prompt_details, output_details = value.get("prompt_tokens_details"), value.get("completion_tokens_details")
    cached = prompt_details.get("cached_tokens") if isinstance(prompt_details, dict) else None
    reasoning = output_details.get("reasoning_tokens") if isinstance(output_details, dict) else None
    return Usage(
        prompt_tokens=_count(value.get("prompt_tokens")),
        output_tokens=_count(value.get("completion_tokens")),
        cached_tokens=_count(cached),
        reasoning_tokens=_count(reasoning),
    )


def _timings(value: object) -> ServerTimings | None:
    if not isinstance(value, dict):
        return None
    return ServerTimings(
        prompt_tokens=_count(value.get("prompt_n")),
        prompt_s=_seconds(value.get("prompt_ms")),
        predicted_tokens=_count(value.get("predicted_n")),
        predicted_s=_seconds(value.get("predicted_ms")),
        cached_tokens=_count(value.get("cache_n")),
    )


def _seconds(milliseconds: object) -> float | None:
    if isinstance(milliseconds, bool) or not isinstance(milliseconds, int | float):
        return None
    if not 0 < milliseconds <= sys.maxsize:
        return None
    return milliseconds / MILLISECONDS_PER_SECOND
