"""The speed of those that can be measured: one whose engine fails is left out, and does not cost the others theirs."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.errors import EngineError, EngineMissingError, RecordError, UsageError
from suffice.measure.interleaved_request import whose
from suffice.records.store import load_record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from suffice.model.quants import QuantsRecord
    from suffice.quants.subjects import LocalModel
    from suffice.records.schema import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Who has a complete run record now; ``notes`` say why others have none."""

    names: tuple[str, ...]
    notes: tuple[str, ...] = ()


def measure_speeds(
    names: Sequence[str],
    measure: Callable[[Sequence[str], bool], Mapping[str, RunRecord]],
    *,
    resume: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Speeds:
    """Measure all side by side, and without the one whose engine failed once more.

    Args:
        names: whose speed is wanted.
        measure: measures these names; True: it goes on with earlier records, and raises UsageError where those are of another run.
        resume: go on with earlier records where they are of this run.
        progress: gets what is done once more, and why.

    Raises:
        EngineMissingError: there is no engine.
        EngineError, UsageError: nobody could be measured.
    """
    left, problems = list(names), []
    goes_on = resume
    while True:
        try:
            records = measure(left, goes_on)
        except EngineMissingError:
            raise
        except (EngineError, UsageError) as error:
            if goes_on and isinstance(error, UsageError):
                progress(f"speed is measured again: {str(error).partition(';')[0]}")
            elif (name := whose(error, left)) is not None and len(left) > 1:
                problems.append((name, str(error).removeprefix(f"{name}: ")))
                left.remove(name)
                progress(f"speed is measured again without {name}")
            else:
                raise
            goes_on = False
        else:
            notes = tuple(f"the speed of {who} was left out: {why}" for who, why in grouped(problems))
            return Speeds(names=tuple(records), notes=notes)


def speed_warnings(records: Mapping[str, RunRecord]) -> tuple[str, ...]:
    """What the records warn of, each warning once, with those whom it is about unless it is about all."""
    told = [(name, warning) for name, record in records.items() for warning in record.warnings]
    found = []
    for who, warning in grouped(told):
        is_of_all = who == ", ".join(records)
        found.append(f"speed: {warning}" if is_of_all else f"speed of {who}: {warning}")
    return tuple(found)


def grouped(pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Names that have the same words, together."""
    names = defaultdict(list)
    for name, words in pairs:
        names[words].append(name)
    return [(", ".join(who), words) for words, who in names.items()]


def earlier_speeds(models: Mapping[str, LocalModel], paths: Mapping[str, Path]) -> dict[str, RunRecord]:
    """Run records to go on with: those that are of these very files. What cannot be read, or is of another file, is measured again."""
    found = {}
    for name, model in models.items():
        with suppress(RecordError):
            record = load_record(paths[name])
            if record.model.identity == model.subject.identity:
                found[name] = record
    return found


def kept_speeds(record: QuantsRecord, folder: Path) -> tuple[dict[str, RunRecord], tuple[str, ...]]:
    """The run records that belong to a comparison, by the name of the model, and why others are left out."""
    identities = {model.subject.name: model.subject.identity for model in record.models}
    found, notes = {}, []
    for one in record.measured:
        path = folder / one.record
        try:
            speed = load_record(path)
        except RecordError as error:
            notes.append(f"the speed of {one.subject} is left out: {error}")
            continue
        if speed.model.identity == identities.get(one.subject):
            found[one.subject] = speed
        else:
            notes.append(f"the speed of {one.subject} is left out: {path} is of another model; measure it again")
    return found, tuple(notes)
