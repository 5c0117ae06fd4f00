"""Answers files: JSON lines of one model's answers, appended one by one, so that a killed run goes on where it was.

The first line says whose answers they are: the model's hash, the hash of the settings that decide an answer, and both in words. Answers
of another model or with other settings are refused, never mixed in. Each answer carries the hash of what was asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final, Self

from suffice.errors import OutputError, RecordError
from suffice.loaders.answer_fields import answer_from, answer_line, whole_answer
from suffice.loaders.json_lines import JsonLines, canonical_json
from suffice.loaders.strict_json import shown
from suffice.records.one_writer import take_lock
from suffice.units import KIB

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from suffice.model.answers import Answer

ANSWERS_VERSION: Final = 1
_VERSION_FIELD: Final = "answers_schema_version"
_BLOCK_BYTES: Final = 64 * KIB
_HASH_CHARACTERS_IN_NAME: Final = 12
_ANSWERS_PER_SYNC: Final = 32  # what a loss of power may cost at most; a killed process costs none


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersHeader:
    """Whose answers a file holds. ``settings_json`` are the settings that decide an answer, as canonical JSON."""

    model_hash: str
    model: str
    settings_json: str

    @property
    def settings_hash(self) -> str:
        """SHA-256 of the settings."""
        return hashlib.sha256(self.settings_json.encode()).hexdigest()

    def check_same(self, other: AnswersHeader, path: Path) -> None:
        """Refuse to put answers of ``other`` into the file of this one.

        Raises:
            RecordError: another model, or other settings; the message names what differs.
        """
        if self.model_hash != other.model_hash:
            raise RecordError(
                f"{path} holds answers of {shown(self.model)}, whose file is not the one of {shown(other.model)}; "
                "give another file for the answers"
            )
        mine, others = json.loads(self.settings_json), json.loads(other.settings_json)
        differing = sorted(name for name in mine.keys() | others.keys() if mine.get(name) != others.get(name))
        if differing:
            changes = ", ".join(
                f"{name} {shown(mine.get(name))} there, {shown(others.get(name))} now" for name in differing
            )
            raise RecordError(
                f"{path} holds answers with other settings ({changes}); give another file for the answers"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersFile:
    """What an answers file holds; ``notes`` say what was left out of it."""

    header: AnswersHeader
    answers: tuple[Answer, ...]
    notes: tuple[str, ...] = ()

    def by_hash(self) -> dict[str, Answer]:
        """The answers by the hash of what was asked; of several the last, and none that is an error only."""
        return {answer.item_hash: answer for answer in self.answers if answer.answered}


def answers_header(*, model_hash: str, model: str, settings: Mapping[str, object]) -> AnswersHeader:
    """The header of a run: the model by the hash of its file (or the URL and name of a server) and in words, and its settings.

    Args:
        model_hash: what tells this model from others; not empty.
        model: its name for people.
        settings: everything that decides an answer and is not in the items, as JSON values: template, seed, engine, ...
    """
    return AnswersHeader(model_hash=model_hash, model=model, settings_json=canonical_json(dict(settings)))


def answers_path(folder: Path, header: AnswersHeader) -> Path:
    """The file for the answers of a model with these settings in a folder of such files."""
    model = hashlib.sha256(header.model_hash.encode()).hexdigest()
    return (
        folder / f"answers-{model[:_HASH_CHARACTERS_IN_NAME]}-{header.settings_hash[:_HASH_CHARACTERS_IN_NAME]}.jsonl"
    )


def read_answers(path: Path) -> AnswersFile:
    """The answers of a file. A last line that a killed run left half written is left out, with a note.

    Raises:
        RecordError: unreadable, no answers file, of a later version, or a line before the last is damaged.
    """
    header: AnswersHeader | None = None
    answers: list[Answer] = []
    notes: list[str] = []
    for line in JsonLines(path, error=RecordError):
        where = f"{path} line {line.number}"
        if line.torn:
            notes.append(f"{where} was cut off while it was written, and is left out")
        elif line.document is None:
            raise RecordError(f"{where}: {line.problem}; delete that line to use the others")
        elif header is None:
            header = _header_from(line.document, path)
        else:
            answers.append(answer_from(line.document, where))
    if header is None:
        raise RecordError(f"{path} is no answers file: it has no first line that says whose answers they are")
    return AnswersFile(header=header, answers=tuple(answers), notes=tuple(notes))


class AnswerStore:
    """An answers file that is open for more. ``done`` are the answers it has, by item hash; ``notes`` what was left out of it.

    Every answer is one write that ends with a line end; a process that is killed leaves at most one line half written, which the next
    one cuts off. One process at a time may have a file open (where the file system has locks). Threads may share a store.
    """

    def __init__(self, path: Path, header: AnswersHeader) -> None:
        """Open or create the file.

        Raises:
            RecordError: it holds answers of another model or settings, is no answers file, or is damaged.
            OutputError: it cannot be written, or another process has it open.
        """
        self.path = path
        self.header = header
        self.done: dict[str, Answer] = {}
        self.notes: tuple[str, ...] = ()
        self._turn = threading.Lock()
        self._unsynced = 0
        self._file = _opened(path)
        try:
            self._resume()
        except OSError as error:
            self._file.close()
            raise OutputError(f"cannot write {path}: {error.strerror or error}") from error
        except BaseException:
            self._file.close()
            raise

    def _resume(self) -> None:
        """Take what the file has, cut off what a killed run left half written, and begin it where it is empty."""
        end, whole = _ends(self._file)
        if whole > 0:
            found = read_answers(self.path)  # before anything is cut: it may be somebody's other file
            found.header.check_same(self.header, self.path)
            self.done = found.by_hash()
        elif end > 0 and not _begins_as_ours(self._file):
            raise RecordError(f"{self.path} is no answers file; give the name of another file for the answers")
        if whole < end:
            os.ftruncate(self._file.fileno(), whole)
            self.notes = (f"the last line of {self.path} was cut off while it was written; that item is asked again",)
        if whole == 0:
            self._write(_header_line(self.header))

    def append(self, answer: Answer) -> None:
        """Keep an answer; when this returns, it outlives the process. Half a character in it is replaced, here and in ``done``.

        Raises:
            OutputError: it could not be written (disk full, say); the file is as it was.
        """
        answer = whole_answer(answer)
        line = answer_line(answer)
        with self._turn:
            self._write(line)
            if answer.answered:
                self.done[answer.item_hash] = answer

    def _write(self, line: str) -> None:
        start = self._file.seek(0, os.SEEK_END)
        try:
            _write_all(self._file, line.encode("utf-8") + b"\n")
            self._unsynced += 1
            if self._unsynced >= _ANSWERS_PER_SYNC:
                os.fsync(self._file.fileno())
                self._unsynced = 0
        except OSError as error:
            with suppress(OSError):  # what is left is a torn line, which the next run cuts off
                os.ftruncate(self._file.fileno(), start)
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Flush to disk and let others have the file.

        Raises:
            OutputError: the disk did not take it.
        """
        if self._file.closed:
            return
        try:
            os.fsync(self._file.fileno())
        except OSError as error:
            raise OutputError(f"cannot write {self.path}: {error.strerror or error}") from error
        finally:
            self._file.close()


def _opened(path: Path) -> IO[bytes]:
    """The file, open without a buffer of ours and locked against other processes."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and not path.is_file():
            raise OutputError(f"cannot write {path}: it is no regular file; give the name of a file")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error
    file = os.fdopen(descriptor, "r+b", buffering=0)
    if not take_lock(descriptor):
        file.close()
        raise OutputError(f"cannot write {path}: another run has it open; wait, or give another file")
    return file


def _write_all(file: IO[bytes], data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def _ends(file: IO[bytes]) -> tuple[int, int]:
    """Where the file ends, and where its last whole line does, in bytes."""
    end = position = file.seek(0, os.SEEK_END)
    while position > 0:
        start = max(0, position - _BLOCK_BYTES)
        file.seek(start)
        found = file.read(position - start).rfind(b"\n")
        if found >= 0:
            return end, start + found + 1
        position = start
    return end, 0


def _begins_as_ours(file: IO[bytes]) -> bool:
    """Whether a file without a whole line is the beginning of an answers file's first line."""
    file.seek(0)
    first = f'{{"{_VERSION_FIELD}":'.encode()
    return first.startswith(file.read(len(first)))


def _header_line(header: AnswersHeader) -> str:
    """The version stands first, by its name."""
    return canonical_json(
        {
            _VERSION_FIELD: ANSWERS_VERSION,
            "model_hash": header.model_hash,
            "model": header.model,
            "settings": json.loads(header.settings_json),
        }
    )


def _header_from(document: dict[str, Any], path: Path) -> AnswersHeader:
    version = document.get(_VERSION_FIELD)
    if not isinstance(version, int) or isinstance(version, bool):
        raise RecordError(f"{path} is no answers file: its first line has no '{_VERSION_FIELD}'")
    if version != ANSWERS_VERSION:
        raise RecordError(f"{path} has the answers version {version}; this suffice reads {ANSWERS_VERSION}")
    model_hash, model, settings = (document.get(name) for name in ("model_hash", "model", "settings"))
    if (
        not isinstance(model_hash, str)
        or not model_hash
        or not isinstance(model, str)
        or not isinstance(settings, dict)
    ):
        raise RecordError(f"{path} is no answers file: its first line lacks 'model_hash', 'model' or 'settings'")
    return AnswersHeader(model_hash=model_hash, model=model, settings_json=canonical_json(settings))
