"""The files that a verdict rests on, for the commands that take them: run records, and load tools' results on servers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.served import ServedEvidence
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord


class ServerKind(StrEnum):
    """What a server runs on."""

    CPU = "cpu"
    GPU = "gpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRuns:
    """The run records among some files, with the evidence of each, and the servers that load tools put loads on."""

    paths: tuple[Path, ...]
    records: tuple[RunRecord, ...]
    evidences: tuple[MachineEvidence, ...]
    servers: tuple[ServedEvidence, ...]

    def warnings(self) -> list[str]:
        """What has to be said of the records."""
        pairs = zip(self.paths, self.records, strict=True)
        return [warning for path, record in pairs for warning in warnings_of(path, record)]


def warnings_of(path: Path, record: RunRecord) -> list[str]:
    """What has to be said of a record, under the name of its file."""
    found = [f"{path.name}: {warning}" for warning in record.warnings]
    return found if record.complete else [*found, f"{path.name}: the run was not finished; what it holds is used"]


def read_runs(demand: Demand, files: Sequence[Path], kinds: Sequence[ServerKind]) -> GivenRuns:
    """Read the files; a record of another model than the demand names contradicts itself.

    Raises:
        RecordError: a file that cannot be what it is given as.
        UsageError: a comparison among them, or ``kinds`` that do not fit the servers.
    """
    from suffice.decide.evidence import evidence_from, of_the_demanded_model
    from suffice.loaders.any_record import load_any_record

    _refuse_comparisons(files)
    paths, servers = _apart(files, kinds)
    records = [load_any_record(path) for path in paths]
    evidences = [
        of_the_demanded_model(demand, record, evidence_from(record, name))
        for record, name in zip(records, _names(paths, records), strict=True)
    ]
    return GivenRuns(paths=tuple(paths), records=tuple(records), evidences=tuple(evidences), servers=servers)


def _apart(files: Sequence[Path], kinds: Sequence[ServerKind]) -> tuple[list[Path], tuple[ServedEvidence, ...]]:
    """The run records among some files, and the servers that load tools put loads on.

    Raises:
        RecordError: a load tool's file that cannot be.
        UsageError: --server-kind without such a file, or not as often as there are servers.
    """
    from suffice.decide.served import servers_of
    from suffice.loaders.any_record import loads_in

    found = [(path, loads_in(path)) for path in files]
    told = [kind is ServerKind.GPU for kind in kinds]
    servers = servers_of([load for _, loads in found for load in loads or ()], told)
    if kinds and len(kinds) not in {1, len(servers)}:
        raise UsageError(
            f"--server-kind is given {len(kinds)} times for {len(servers)} servers; give it once, or once each"
        )
    if kinds and not servers:
        raise UsageError("--server-kind is about results of load tools, and no such file is given")
    return [path for path, loads in found if loads is None], servers


def _refuse_comparisons(files: Sequence[Path]) -> None:
    """A comparison in the place of a run record is a slip that has a better answer than "damaged".

    Raises:
        UsageError: one of the files is a comparison, or the folder of one.
    """
    from suffice.cli.quality import RECORD_NAME

    for path in files:
        if path.name == RECORD_NAME or (path.is_dir() and (path / RECORD_NAME).exists()):
            raise UsageError(
                f"{path} is a comparison of `suffice quants` and no run record: give it to --quality, and the records in its folder speed/ here"
            )


def _names(runs: list[Path], records: list[RunRecord]) -> list[str]:
    """The machine of each record, with its model where one machine ran several, and the file's name where that does not tell them apart."""
    machines = [record.machine or "unnamed machine" for record in records]
    if len(runs) == 1:
        return [records[0].machine or runs[0].name]
    models = [record.model.file_name or record.model.name for record in records]
    several = {
        machine
        for machine in machines
        if len({model for model, own in zip(models, machines, strict=True) if own == machine}) > 1
    }
    names = [
        f"{model} on {machine}" if model and machine in several else machine
        for model, machine in zip(models, machines, strict=True)
    ]
    return [
        name if machine in several and names.count(name) == 1 else f"{name} ({path.name})"
        for name, machine, path in zip(names, machines, runs, strict=True)
    ]
