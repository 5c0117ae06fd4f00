"""What a client and its worker say to each other: one JSON object a line, a request and then its reply."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, Final

from suffice.errors import EngineError, EngineMissingError, SufficeError, UsageError
from suffice.measure.engine.library import LibraryChoice
from suffice.measure.engine.seam import (
    ChunkTimings,
    EngineIdentity,
    EngineSettings,
    ExpertUse,
    ResolvedSettings,
    SessionFacts,
)

# The worker gives the name of an error's class; only these are raised again under their own name.
_ERRORS: Final = {kind.__name__: kind for kind in (EngineError, EngineMissingError, UsageError)}


def request_line(operation: str, arguments: dict[str, Any]) -> str:
    """A request as a line."""
    return json.dumps({"op": operation, "args": arguments}) + "\n"


def parse_request(line: str) -> tuple[str, dict[str, Any]]:
    """Operation and arguments of a request line.

    Raises:
        EngineError: the line is none of ours.
    """
    message = _parse(line)
    operation, arguments = message.get("op"), message.get("args")
    if not isinstance(operation, str) or not isinstance(arguments, dict):
        raise EngineError(f"the engine's worker got a request that it does not understand: {line[:80]!r}")
    return operation, arguments


def result_line(result: object) -> str:
    """A successful reply as a line."""
    return json.dumps({"ok": True, "result": result}) + "\n"


def error_line(error: SufficeError) -> str:
    """A failed reply as a line."""
    return json.dumps({"ok": False, "kind": type(error).__name__, "message": str(error)}) + "\n"


def parse_reply(line: str) -> Any:  # noqa: ANN401 - any JSON value
    """The result in a reply line.

    Raises:
        EngineError: the worker reports an error (with its own class), or the line is no reply.
    """
    message = _parse(line)
    if message.get("ok") is True:
        return message.get("result")
    if message.get("ok") is False:
        raise _ERRORS.get(str(message.get("kind")), EngineError)(str(message.get("message")))
    raise EngineError(f"the engine's worker gave an answer that is none: {line[:80]!r}")


def choice_to_json(choice: LibraryChoice) -> dict[str, Any]:
    """A library choice as JSON values."""
    values = dataclasses.asdict(choice)
    return {**values, "library": str(choice.library), "preload": [str(path) for path in choice.preload]}


def choice_from_json(values: dict[str, Any]) -> LibraryChoice:
    """The reverse of :func:`choice_to_json`."""
    preload = tuple(Path(path) for path in values["preload"])
    return LibraryChoice(**{**values, "library": Path(values["library"]), "preload": preload})


def settings_to_json(settings: EngineSettings) -> dict[str, Any]:
    """Engine settings as JSON values."""
    return dataclasses.asdict(settings)


def settings_from_json(values: dict[str, Any]) -> EngineSettings:
    """The reverse of :func:`settings_to_json`."""
    return EngineSettings(**values)


def identity_from_json(values: dict[str, Any]) -> EngineIdentity:
    """An identity from ``dataclasses.asdict`` of one that went through JSON."""
    return EngineIdentity(**_with_tuples(values))


def facts_from_json(values: dict[str, Any]) -> SessionFacts:
    """Facts from ``dataclasses.asdict`` of some that went through JSON."""
    resolved = ResolvedSettings(**_with_tuples(values["resolved"]))
    return SessionFacts(**{**_with_tuples(values), "resolved": resolved})


def timings_from_json(values: dict[str, Any]) -> ChunkTimings:
    """Chunk timings from ``dataclasses.asdict`` of some that went through JSON."""
    return ChunkTimings(**_with_tuples(values))


def experts_from_json(values: list[dict[str, Any]] | None) -> tuple[ExpertUse, ...] | None:
    """Expert counts from a list of ``dataclasses.asdict`` that went through JSON; None stays None."""
    return None if values is None else tuple(ExpertUse(**_with_tuples(value)) for value in values)


def _with_tuples(values: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _parse(line: str) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise EngineError(f"the engine's worker and suffice lost each other: {line[:80]!r} is no message")
    return message
