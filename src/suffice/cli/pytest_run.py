"""What ``suffice_measure`` does when a test calls it: measure or read, keep the record, judge."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from suffice.errors import OutputError, UsageError

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from suffice.cli.pytest_asked import Asked
    from suffice.records.schema import RunRecord
    from suffice.report.check_rows import CheckRow

_LOCK_NAME: Final = ".measuring"
_SHARED_NAME: Final = ".measured"
_LOOK_EVERY_S: Final = 0.2
_MOST_NAME_CHARACTERS: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A record, where it is kept, and what it was held against: nothing where neither floor, ceiling nor baseline was given."""

    record: RunRecord
    path: Path
    rows: tuple[CheckRow, ...]


class Bench(Protocol):
    """Whatever makes records: a test suite can put its own, or a fake, in place of the real one (the fixture ``suffice_bench``)."""

    def measure(self, asked: Asked, out: Path) -> RunRecord:
        """Measure and keep the record at ``out`` as it grows."""


class RealBench:
    """Measures on this machine."""

    def __init__(self, root: Path, progress: Callable[[str], None]) -> None:
        """``root``: what relative paths of models start from."""
        self._root, self._progress = root, progress

    def measure(self, asked: Asked, out: Path) -> RunRecord:
        """Measure and keep the record at ``out`` as it grows.

        Raises:
            SufficeError: no model was named, or whatever a run raises.
        """
        from suffice.cli.asked import RunOptions
        from suffice.cli.session import EngineChoice, Workbench
        from suffice.loaders.reference import resolve_model

        if asked.model is None:
            raise UsageError("what should be measured? Give model=..., or record=... to read a run record")
        options = RunOptions(
            budget_s=asked.budget_s, prompt_tokens=asked.prompt_tokens, depth=asked.depth or 0, threads=asked.threads
        )
        request = options.request(resolve_model(asked.model, folder=self._root, in_slices=asked.in_slices), None)
        # Nobody misses a default that is shortened, and the depth of 0 above is one.
        request = replace(request, lengths_stated=asked.prompt_tokens is not None or asked.depth is not None)
        with Workbench(EngineChoice(name=asked.engine, library=None), longest_budget_s=request.budget_s) as bench:
            return bench.run(request, out, self._progress, earlier=None)


class Measuring:
    """All measurements of one session of pytest, one at a time; what was measured once, by whichever worker, is not measured again."""

    def __init__(self, root: Path, folder: Path, session: str | None, progress: Callable[[str], None]) -> None:
        """``root``: of relative paths; ``folder``: where records are kept; ``session``: what the workers of pytest-xdist share."""
        self._root, self._folder, self._progress = root, folder, progress
        self._shared = None if session is None else _Shared(folder / _SHARED_NAME, session)
        self._done: dict[Asked, tuple[RunRecord, Path]] = {}
        self._written: set[Path] = set()

    def __call__(self, asked: Asked, bench: Bench, test: str) -> Measured:
        """Measure or read for a test, and judge.

        Raises:
            SufficeError: nothing to measure, a record or baseline that cannot be used, or whatever a run raises.
        """
        record, path = self._record(asked, bench, test)
        rows = self._judged(record, asked)
        if asked.rerun and asked.record is None and is_failed(rows):
            with one_at_a_time(self._folder, self._progress):
                record, path = self._measure(asked, bench, test)  # for this test alone: others keep the first record
            rows = after_rerun(rows, self._judged(record, asked))
        return Measured(record=record, path=path, rows=rows)

    def _record(self, asked: Asked, bench: Bench, test: str) -> tuple[RunRecord, Path]:
        from suffice.loaders.any_record import load_any_record

        if asked.record is not None:
            path = self._root / asked.record
            return load_any_record(path), path
        found = self._done.get(asked.measurement)
        if found is not None:
            return found
        with one_at_a_time(self._folder, self._progress):
            other = None if self._shared is None else self._shared.path_of(asked.measurement)
            if other is None:
                return self._measure_for_all(asked, bench, test)
            return self._done.setdefault(asked.measurement, (load_any_record(other), other))

    def _measure_for_all(self, asked: Asked, bench: Bench, test: str) -> tuple[RunRecord, Path]:
        made = self._measure(asked, bench, test)
        self._done[asked.measurement] = made
        if self._shared is not None:
            self._shared.add(asked.measurement, made[1])
        return made

    def _measure(self, asked: Asked, bench: Bench, test: str) -> tuple[RunRecord, Path]:
        path = self._free(test)
        return bench.measure(asked, path), path

    def _free(self, test: str) -> Path:
        """A name for the next record of a test; one from an earlier session is replaced."""
        number, path = 1, self._folder / f"{file_stem(test)}.json"
        while path in self._written:
            number += 1
            path = self._folder / f"{file_stem(test)}-{number}.json"
        self._written.add(path)
        return path

    def _judged(self, record: RunRecord, asked: Asked) -> tuple[CheckRow, ...]:
        from suffice.cli.pytest_judge import judge
        from suffice.loaders.any_record import load_any_record

        baseline = None if asked.baseline is None else load_any_record(self._root / asked.baseline)
        return judge(
            record,
            floors=asked.floors,
            ceilings=asked.ceilings,
            baseline=baseline,
            prompt_tokens=asked.prompt_tokens,
            depth=asked.depth,
        )


class _Shared:
    """What the workers of one session have measured, in a file that the next session writes anew. Used by who holds the lock alone."""

    def __init__(self, place: Path, session: str) -> None:
        self._place, self._session = place, session

    def path_of(self, asked: Asked) -> Path | None:
        """The record of a measurement that one of the workers made."""
        name = self._read().get(repr(asked))
        return None if name is None else self._place.parent / name

    def add(self, asked: Asked, path: Path) -> None:
        """Tell the other workers of a record."""
        from suffice.records.store import write_atomically

        document = {"session": self._session, "records": {**self._read(), repr(asked): path.name}}
        write_atomically(self._place, json.dumps(document))

    def _read(self) -> dict[str, str]:
        try:
            document = json.loads(self._place.read_text(encoding="utf-8"))
        except (OSError, ValueError):  # nobody has measured yet
            return {}
        return dict(document["records"]) if document.get("session") == self._session else {}


def is_failed(rows: tuple[CheckRow, ...]) -> bool:
    """Whether one of the checks failed."""
    from suffice.decide.guard import Outcome

    return any(row.outcome is Outcome.FAIL for row in rows)


def after_rerun(first: tuple[CheckRow, ...], second: tuple[CheckRow, ...]) -> tuple[CheckRow, ...]:
    """The rerun's rows: what failed in both runs fails; what failed in one of them is inconclusive, since the two contradict each other."""
    earlier = {row.name: row for row in first}
    rows = [_row_after_rerun(earlier.pop(row.name, None), row) for row in second]
    return (*rows, *(_row_after_rerun(row, None) for row in earlier.values() if is_failed((row,))))


def _row_after_rerun(first: CheckRow | None, again: CheckRow | None) -> CheckRow:
    from suffice.decide.guard import Outcome, rerun_words

    row = again or first
    if row is None:
        raise ValueError("a check of neither run")
    failed_first, failed_again = (one is not None and is_failed((one,)) for one in (first, again))
    if failed_first and failed_again:
        return replace(row, reason=f"{row.reason} (confirmed by a rerun)")
    if failed_first == failed_again:
        return row
    reasons = ["there was nothing to judge" if one is None else one.reason for one in (first, again)]
    message = next((one.message for one in (again, first) if one is not None and one.message), "")
    told = rerun_words(*reasons, failed_first=failed_first)
    return replace(row, outcome=Outcome.INCONCLUSIVE, reason=told, message=message)


def file_stem(test: str) -> str:
    """A file name for the records of a test, whatever the test is called: readable, unlike that of any other test, and not too long."""
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", test).strip("-.")[-_MOST_NAME_CHARACTERS:].lstrip("-.")
    return f"{readable}-{hashlib.sha256(test.encode(errors='surrogatepass')).hexdigest()[:8]}"


@contextmanager
def one_at_a_time(folder: Path, progress: Callable[[str], None]) -> Iterator[None]:
    """Wait until no other process measures into ``folder``: two measurements at once would both be disturbed.

    Where there are no locks (Windows, some network file systems) nobody waits, and the record's own mark has to tell.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o666)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot keep records in {folder}: {error}; give another --suffice-dir") from error
    try:
        _wait_for(descriptor, progress)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, progress: Callable[[str], None]) -> None:
    if sys.platform == "win32":
        return
    has_told = False
    while True:
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            if not has_told:
                progress("another test is measuring; waiting for it")
                has_told = True
            time.sleep(_LOOK_EVERY_S)
        except OSError:
            return
        else:
            return
