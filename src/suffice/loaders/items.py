"""Items files: JSON lines with questions, read line by line, with every problem named and nothing dropped in silence."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError, UsageError
from suffice.loaders.item_fields import KNOWN_FIELDS, item_from
from suffice.loaders.json_lines import JsonLines, canonical_json
from suffice.loaders.strict_json import shown

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.loaders.json_lines import Line
    from suffice.model.items import Item

SHOWN_PROBLEMS: Final = 20
_MAX_NAMES: Final = 20


class OnError(StrEnum):
    """What happens to a file with lines that cannot be used."""

    STOP = "stop"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class LineProblem:
    """A line that is no item, and why."""

    line: int
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemSet:
    """The items of a file in its order; ``skipped`` are all lines that were left out, ``notes`` what a reader should know.

    ``file_hash`` is the SHA-256 of the file's bytes.
    """

    source: str
    file_hash: str
    items: tuple[Item, ...]
    skipped: tuple[LineProblem, ...] = ()
    notes: tuple[str, ...] = ()


def load_items(path: Path, *, on_error: OnError = OnError.STOP) -> ItemSet:
    """The items of a JSON lines file. Functions that it names are not imported.

    Raises:
        UsageError: the file cannot be read, holds no item, or (with ``stop``) has lines that cannot be used: the message has the first
            20 of them and the number of all.
    """
    lines = JsonLines(path, error=UsageError)
    items: dict[str, Item] = {}
    problems: list[LineProblem] = []
    strange: dict[str, int] = {}
    for line in lines:
        try:
            item = _item(line, items)
        except RecordError as problem:
            problems.append(LineProblem(line=line.number, what=str(problem)))
            continue
        items[item.id] = item
        for name in (line.document or {}).keys() - KNOWN_FIELDS:
            strange[name] = min(strange.get(name, line.number), line.number)
    if problems and (on_error is OnError.STOP or not items):
        raise UsageError(_complaint(path, problems, on_error))
    if not items:
        raise UsageError(f"{path} holds no items; each line has to be an object with 'id' and 'prompt'")
    found = tuple(items.values())
    return ItemSet(
        source=str(path),
        file_hash=lines.file_hash,
        items=found,
        skipped=tuple(problems),
        notes=(*_name_notes(strange), *_notes(found)),
    )


def item_hash(item: Item) -> str:
    """SHA-256 of what is asked: prompt or messages, the choices where they are weighed, ``max_tokens`` and ``stop``.

    Neither id, group and line nor the right answer and its score are in it: after a corrected label, the model need not be asked again.
    """
    asked = {
        "prompt": item.prompt,
        "messages": [[message.role.value, message.content] for message in item.messages],
        "choices": list(item.choices) if item.asks_choices else None,
        "max_tokens": item.max_tokens,
        "stop": list(item.stop),
    }
    return hashlib.sha256(canonical_json(asked).encode()).hexdigest()


def _item(line: Line, known: dict[str, Item]) -> Item:
    if line.document is None:
        raise RecordError(line.problem or "not an item")
    item = item_from(line.document, line.number)
    if item.id in known:
        raise RecordError(f"the id {shown(item.id)} stands in line {known[item.id].line} already")
    return item


def _complaint(path: Path, problems: list[LineProblem], on_error: OnError) -> str:
    count = len(problems)
    rows = [f"  line {problem.line}: {problem.what}" for problem in problems[:SHOWN_PROBLEMS]]
    if count > SHOWN_PROBLEMS:
        rows.append(f"  and {count - SHOWN_PROBLEMS} more")
    remedy = "mend them, or leave them out with --on-error skip" if on_error is OnError.STOP else "none is left"
    lines = "1 line" if count == 1 else f"{count} lines"
    return "\n".join([f"{path} has {lines} that cannot be used; {remedy}:", *rows])


def _name_notes(strange: dict[str, int]) -> list[str]:
    """One note for each field that nothing reads; typing errors are seen so."""
    names = sorted(strange, key=lambda name: (strange[name], name))
    notes = [f"the field {shown(name)} (first in line {strange[name]}) is not read" for name in names[:_MAX_NAMES]]
    return notes + ([f"{len(names) - _MAX_NAMES} more fields are not read"] if len(names) > _MAX_NAMES else [])


def _notes(items: tuple[Item, ...]) -> list[str]:
    unlabelled = sum(not item.is_labelled for item in items)
    notes = (
        [f"{unlabelled} of {len(items)} items have no answer: they can be compared, not scored"] if unlabelled else []
    )
    same = len(items) - len({item_hash(item) for item in items})
    if same:
        notes.append(f"{same} of {len(items)} items ask what another one asks: they are no evidence of their own")
    return notes
