"""The folder of a comparison: one run at a time, and a state that never replaces a better one.

::

    quants.json         the comparison
    quants.part.json    one that goes on, as long as it has less than quants.json
    answers/            what each model said
    again-N/answers/    what a model said that takes part once more
    speed/              a run record of each model
"""

from __future__ import annotations

import hashlib
import os
import sys
import unicodedata
from collections import Counter
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from suffice.errors import OutputError, RecordError, UsageError
from suffice.quants.asking import ANSWERS_FOLDER
from suffice.records.one_writer import take_lock
from suffice.records.quants_store import load_quants, save_quants

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from suffice.model.quants import AskedModel, QuantsRecord

RECORD_NAME: Final = "quants.json"
PART_NAME: Final = "quants.part.json"
SPEED_FOLDER: Final = "speed"
_MOST_STEM_BYTES: Final = 120
_HASH_CHARACTERS: Final = 8


class ComparisonFolder:
    """Reads and writes the state of a comparison. ``earlier`` is what was there before, None for a new folder."""

    def __init__(self, path: Path, *, resume: bool) -> None:
        """Look at what is there.

        Raises:
            UsageError: a comparison is there, or its answers, and ``resume`` is not set.
            RecordError: the comparison that is there cannot be read.
        """
        self.path = path
        self._main, self._part = path / RECORD_NAME, path / PART_NAME
        if not resume:
            self._refuse_used()
        self.earlier: QuantsRecord | None = load_quants(self._main) if self._main.exists() else None
        self.partial: QuantsRecord | None = None
        if self._part.exists():
            with suppress(RecordError):  # it only saves time: everything in it can be had again
                self.partial = load_quants(self._part)

    def _refuse_used(self) -> None:
        for path in (self._main, self._part):
            if path.exists():
                raise UsageError(f"{path} exists; go on with it by --resume, or give another --out")
        with suppress(OSError):
            if any((self.path / ANSWERS_FOLDER).glob("answers-*.jsonl")):
                raise UsageError(
                    f"{self.path} holds answers already, of a comparison that was interrupted; go on with it by --resume, or give another --out"
                )

    def save(self, record: QuantsRecord) -> bool:
        """Keep a state; beside what was there as long as that has more. Whether it is now the comparison of the folder.

        Raises:
            OutputError, RecordError: see :func:`suffice.records.quants_store.save_quants`.
        """
        if self.earlier is not None and not has_as_much(record, self.earlier):
            save_quants(record, self._part)
            return False
        save_quants(record, self._main)
        with suppress(OSError):
            self._part.unlink(missing_ok=True)
        return True


def has_as_much(record: QuantsRecord, earlier: QuantsRecord) -> bool:
    """Whether a state can replace an earlier one: complete where that is, and with as many answers of all that are in it still.

    Models that take no part any more, and items that are asked no more, do not count.
    """
    if earlier.complete and not record.complete:
        return False
    asked_now = {task.item_hash for task in record.tasks}
    found = {model.subject.name: _answered(record, model, asked_now) for model in record.models}
    before = {model.subject.name: _answered(earlier, model, asked_now) for model in earlier.models}
    if record.complete:
        before = {name: count for name, count in before.items() if name in found}
    return all(found.get(name, 0) >= count for name, count in before.items())


def _answered(record: QuantsRecord, model: AskedModel, among: set[str]) -> int:
    """Different questions that a model has an answer to."""
    rows = zip(record.tasks, model.outcomes, strict=True)
    known = {task.item_hash for task, one in rows if one.text is not None or one.score is not None}
    return len(known & among)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Have a folder, which is made, for this process alone, where the file system has locks. What was made and stays empty is removed.

    Raises:
        OutputError: it cannot be made, or another process has it.
    """
    try:
        new = [place for place in (folder, *folder.parents) if not place.exists()]
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {folder}: {getattr(error, 'strerror', None) or error}") from error
    descriptor = _lock(folder)
    try:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OutputError(f"cannot write {folder}: nothing may be written in it; give another --out")
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)
        with suppress(OSError):
            for place in new:
                place.rmdir()  # of a run that was refused; only an empty folder can be removed


def _lock(folder: Path) -> int | None:
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror or error}") from error
    if not take_lock(descriptor):
        os.close(descriptor)
        raise OutputError(f"another run works in {folder}; wait for its end, or give another --out")
    return descriptor


def record_stems(names: Sequence[str]) -> dict[str, str]:
    """The file names of speed records, without their end, one for each name also where file systems do not tell large letters from small."""
    plain = {name: _plain(name) for name in names}
    count = Counter(_alike(stem) for stem in plain.values())
    return {
        name: stem if count[_alike(stem)] == 1 and len(stem.encode()) <= _MOST_STEM_BYTES else _marked(name, stem)
        for name, stem in plain.items()
    }


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-._()" else "_" for letter in name)


def _alike(stem: str) -> str:
    return unicodedata.normalize("NFKC", stem).casefold()


def _marked(name: str, stem: str) -> str:
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARACTERS]
    return f"{stem.encode()[:_MOST_STEM_BYTES].decode(errors='ignore')}-{mark}"
