"""The records of the start, under the names that an answer calls them by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.decide.evidence import evidence_from
from suffice.report.page.given import NamedRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.records.schema import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecord:
    """A record of the start, with the name of its file."""

    file: str
    record: RunRecord


def named_runs(records: Sequence[NamedRecord]) -> tuple[NamedRun, ...]:
    """Records with their evidence, under the name of the machine; under the file's as well where two are of one machine."""
    machines = [one.record.machine or one.file for one in records]
    names = [
        f"{machine} ({one.file})" if machines.count(machine) > 1 else machine
        for machine, one in zip(machines, records, strict=True)
    ]
    return tuple(
        NamedRun(file=one.file, record=one.record, evidence=evidence_from(one.record, name))
        for one, name in zip(records, names, strict=True)
    )
