"""What a page is made from, read and judged as ``suffice decide`` does it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.errors import UsageError
from suffice.report.page.language import Language

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.cli.runs import ServerKind
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.model.demand import Demand
    from suffice.model.served import ServedLoad
    from suffice.report.page.given import NamedRun, PageInput


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command line."""

    demand_file: Path
    runs: tuple[Path, ...] = ()
    server_kinds: tuple[ServerKind, ...] = ()
    quants: Path | None = None
    loads: tuple[Path, ...] = ()
    simulate: Path | None = None
    plan: Path | None = None
    max_loss: float | None = None
    margin: float | None = None
    language: Language = Language.EN
    out: Path | None = None

    @property
    def inputs(self) -> tuple[Path, ...]:
        """All files that are read."""
        found = (self.demand_file, *self.runs, self.quants, *self.loads, self.simulate, self.plan)
        return tuple(path for path in found if path is not None)


def gather(asked: Asked) -> tuple[PageInput, list[str]]:
    """All that a page tells, and what has to be said on stderr.

    Raises:
        DemandError: the demand cannot be used.
        RecordError: a file that is not what it is given as.
        UsageError: files that do not belong together.
    """
    from suffice import __version__
    from suffice.cli.quality import RECORD_NAME, with_quality
    from suffice.cli.runs import read_runs
    from suffice.cli.verdicts import with_margin
    from suffice.decide.compare import decide
    from suffice.loaders.demand import load_demand
    from suffice.report.page.given import NamedRun, PageInput
    from suffice.report.page.plan_view import read_plan
    from suffice.report.page.simulation_view import read_simulation

    demand = with_margin(load_demand(asked.demand_file), asked.margin)
    read = read_runs(demand, asked.runs, asked.server_kinds)
    files = [] if asked.quants is None else [asked.quants]
    demand, evidences, notes = with_quality(demand, list(read.evidences), files, asked.max_loss)
    decision = decide(demand, evidences, read.servers)
    runs = tuple(
        NamedRun(file=path.name, record=record, evidence=evidence)
        for path, record, evidence in zip(read.paths, read.records, evidences, strict=True)
    )
    for run in runs:
        _check_texts(run)
    given = PageInput(
        demand=demand,
        demand_file=asked.demand_file.name,
        decision=decision,
        runs=runs,
        loads=tuple(load for path in asked.loads for load in _loads(path)),
        quality=None if asked.quants is None else _conclusions(asked.quants, demand),
        quality_file=None if asked.quants is None else asked.quants.name or RECORD_NAME,
        simulation=None if asked.simulate is None else read_simulation(asked.simulate),
        plan=None if asked.plan is None else read_plan(asked.plan),
        commands=_commands(asked),
        version=__version__,
    )
    return given, [*notes, *read.warnings()]


def _check_texts(run: NamedRun) -> None:
    """Raises: RecordError: a text of the record would fill the page."""
    from dataclasses import asdict

    from suffice.report.page.view_files import check_texts

    record = run.record
    shown = (record.machine, record.created_at, asdict(record.model), asdict(record.engine), record.environment)
    check_texts((*shown, record.warnings, record.contention.reasons), run.file, "suffice measure")


def _loads(path: Path) -> tuple[ServedLoad, ...]:
    from suffice.loaders.any_record import loads_in

    found = loads_in(path)
    if found is None:
        raise UsageError(
            f"--load {path} is no result of a load tool; `suffice load URL --out load.json` makes one, and a run record stands before the options"
        )
    return found


def _conclusions(place: Path, demand: Demand) -> Conclusions:
    """The comparison with the speeds that lie beside it."""
    from dataclasses import replace

    from suffice.cli.quality import RECORD_NAME
    from suffice.decide.quants_conclusion import conclude
    from suffice.decide.quants_evidence import policy_of
    from suffice.quants.speeds import kept_speeds, speed_warnings
    from suffice.records.quants_store import load_quants

    path = place / RECORD_NAME if place.is_dir() else place
    record = load_quants(path)
    speeds, notes = kept_speeds(record, path.parent)
    record = replace(record, notes=(*record.notes, *notes, *speed_warnings(speeds)))
    return conclude(record, policy_of(demand), speeds)


def _commands(asked: Asked) -> tuple[str, ...]:
    """The same verdict, and the same page; files by their names alone, as they would lie in one folder."""
    judged = [asked.demand_file.name, *(path.name for path in asked.runs)]
    for kind in asked.server_kinds:
        judged += ["--server-kind", kind.value]
    numbers = (("--max-loss", asked.max_loss), ("--margin", asked.margin))
    told = [word for flag, value in numbers if value is not None for word in (flag, f"{value:g}")]
    shown = []
    for flag, path in (("--simulate", asked.simulate), ("--plan", asked.plan)):
        shown += [] if path is None else [flag, path.name]
    for path in asked.loads:
        shown += ["--load", path.name]
    language = [] if asked.language is Language.EN else ["--lang", asked.language.value]
    out = "report.html" if asked.out is None else asked.out.name
    quants = [] if asked.quants is None else [asked.quants.name or str(asked.quants)]
    quality = [word for name in quants for word in ("--quality", name)]
    same = [word for name in quants for word in ("--quants", name)]
    return (
        shlex.join(["suffice", "decide", *judged, *quality, *told]),
        shlex.join(["suffice", "report", *judged, *same, *shown, *told, *language, "--out", out]),
    )
