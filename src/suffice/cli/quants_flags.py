"""Flags of `quants` that would do nothing: refused in one place, before anything is read, as nobody gives one for nothing."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.cli.quants_asked import QuantsOptions

# By the field of the options: the flag, and what it is when it is not given.
_FLAGS: Final[Mapping[str, tuple[str, object]]] = {
    "reference": ("REF", None),
    "candidates": ("CANDIDATE", ()),
    "items": ("--items", None),
    "make": ("--make", None),
    "imatrix": ("--imatrix", None),
    "texts": ("--text", ()),
    "text_tokens": ("--text-tokens", 16384),
    "distance": ("--no-distance", True),
    "speed": ("--no-speed", True),
    "budget_s": ("--budget", None),
    "slots": ("--slots", 4),
    "threads": ("--threads", None),
    "max_tokens": ("--max-tokens", 256),
    "chat_prompts": ("--chat-prompts", False),
    "choices_as_text": ("--choices-as-text", False),
    "on_error": ("--on-error", "stop"),
    "logs": ("--log", ()),
    "log_metric": ("--log-metric", None),
    "log_filter": ("--log-filter", None),
    "ca_file": ("--ca-file", None),
    "engine": ("--engine", None),
    "engine_library": ("--engine-library", None),
    "out": ("--out", None),
    "resume": ("--resume", False),
}
_OF_REPORTS: Final = frozenset({"demand_file", "max_loss_points", "chart", "csv", "flips", "markdown", "from_folder"})
_OF_LOGS: Final = frozenset({"logs", "log_metric", "log_filter"})
_OF_ENGINES: Final = frozenset({"texts", "text_tokens", "budget_s", "threads", "engine", "engine_library"})


def check_flags(asked: QuantsOptions) -> None:
    """Refuse what is given and would not be looked at.

    Raises:
        UsageError: with the flags, and what they stand beside.
    """
    given = {name for name, (_, default) in _FLAGS.items() if getattr(asked, name) != default}
    words = [word for word in (asked.reference, *asked.candidates) if word is not None]
    has_server = any("://" in word for word in words)
    has_file = asked.make is not None or any("://" not in word for word in words)
    rules = (
        (asked.from_folder is not None, given, "--from prints a comparison that is kept and asks nobody"),
        (bool(asked.logs), given - _OF_LOGS, "--log compares models that were asked already"),
        (not asked.logs, given & {"log_metric", "log_filter"}, "no --log is given"),
        (asked.make is None, given & {"imatrix"}, "nothing is made without --make"),
        (not asked.distance, given & {"texts", "text_tokens"}, "--no-distance reads no text"),
        (not asked.speed, given & {"budget_s"}, "--no-speed measures nothing"),
        (bool(words) and not has_server, given & {"ca_file"}, "no server takes part"),
        (
            bool(words) and not has_file,
            given & _OF_ENGINES,
            "only servers take part, and of those neither distance nor speed is measured",
        ),
    )
    for holds, useless, why in rules:
        if holds and useless:
            flags = ", ".join(_FLAGS[name][0] for name in _FLAGS if name in useless)
            raise UsageError(f"{why}; leave out {flags}")


def unlisted(asked: QuantsOptions) -> set[str]:
    """Fields of the options that no rule knows of; a test keeps it empty."""
    return {field.name for field in fields(asked)} - set(_FLAGS) - _OF_REPORTS
