"""A history of runs on disk: JSON lines, one run each, in the order in which they were added; ``docs/guard.md`` describes them.

A line holds what a guard needs of a run (:class:`suffice.decide.guard_types.RunFacts`): figures with their repetitions, the fingerprint, the
marks. Raw steps stay in the run record. Lines are read strictly, and one whose figures are not those of its samples is refused.

History of the form (add a line when the version rises):
    1  first version
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Final

from suffice.decide import words
from suffice.decide.guard_types import KEPT, Figure, RunFacts
from suffice.decide.quantity import Quantity
from suffice.errors import RecordError
from suffice.loaders.json_lines import JsonLines, canonical_json
from suffice.records.alike import RELATIVE_TOLERANCE
from suffice.records.one_writer import one_writer
from suffice.records.store import write_atomically
from suffice.stats.intervals import median

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.records.history_schema import FigureRow, HistoryRow

HISTORY_SCHEMA_VERSION: Final = 1
FORM: Final = "suffice history"
_VERDICTS: Final = (words.CPU, words.CPU_THIN, words.GPU, words.UNDECIDED)


def history_line(run: RunFacts) -> str:
    """One run as a line of JSON, without a line end."""
    figures = {metric.value: _figure_row(figure) for metric, figure in run.kept_figures.items()}
    document = {
        "form": FORM,
        "schema_version": HISTORY_SCHEMA_VERSION,
        "name": run.name,
        "created_at": run.created_at,
        "figures": figures,
        "fingerprint": run.fingerprint,
        "doubts": list(run.doubts),
        "busy": list(run.busy),
        "bandwidth_bytes_per_s": run.bandwidth_bytes_per_s,
        "bandwidth_share": run.bandwidth_share,
        "verdict": run.verdict,
        "demand": run.demand,
    }
    return json.dumps(document, ensure_ascii=False, allow_nan=False)


def _figure_row(figure: Figure) -> dict[str, Any]:
    quantity = figure.quantity
    if quantity is None:
        raise ValueError("a figure without a quantity is not kept")
    return {
        "point": quantity.point,
        "low": quantity.low,
        "high": quantity.high,
        "level": figure.level,
        "basis": quantity.basis.value,
        "interval_known": quantity.interval_known,
        "samples": list(figure.samples),
        "doubt": figure.doubt,
    }


def load_history(path: Path) -> list[RunFacts]:
    """The runs of a history, oldest first. A last line that a killed process did not finish is left out.

    Raises:
        RecordError: unreadable, or a line that is no run, of a newer version, or edited so that it contradicts itself; with its number.
    """
    runs = []
    for line in JsonLines(path, error=RecordError):
        if line.document is None:
            if line.torn:
                break
            raise RecordError(f"{path}, line {line.number}: {line.problem}")
        runs.append(_run_from(line.document, where=f"{path}, line {line.number}"))
    return runs


def add_to_history(path: Path, run: RunFacts) -> bool:
    """Add a run to a history, which is begun where there is none; the file is replaced whole, by one process at a time.

    Returns:
        Whether it was added: a run that is there already, figure for figure, is not added twice.

    Raises:
        RecordError: see :func:`load_history`; nothing is written then.
        OutputError: it cannot be written.
    """
    with one_writer(path):
        runs = load_history(path) if path.exists() else []
        kept = run.kept_figures
        if any(one.created_at is not None and one.created_at == run.created_at and one.figures == kept for one in runs):
            return False
        lines = [history_line(one) for one in (*runs, run)]
        write_atomically(path, "".join(f"{line}\n" for line in lines))
    return True


def _run_from(document: dict[str, Any], *, where: str) -> RunFacts:
    from pydantic import ValidationError  # noqa: PLC0415  # half the cost of starting the command line

    from suffice.records.history_schema import HistoryRow  # noqa: PLC0415  # as above

    if document.get("form") != FORM:
        raise RecordError(f"{where}: not a run of a history; `suffice history add` writes them")
    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecordError(f"{where}: schema_version {version!r} is not a version number")
    if version > HISTORY_SCHEMA_VERSION:
        raise RecordError(
            f"{where} has schema version {version}; this suffice reads up to {HISTORY_SCHEMA_VERSION}, upgrade it"
        )
    try:
        row = HistoryRow.model_validate_json(canonical_json(document), strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"]) or "the line"
        raise RecordError(f"{where}: field '{place}': {first['msg']}") from error
    _check(row, where)
    return _facts(row)


def _check(row: HistoryRow, where: str) -> None:
    if row.verdict is not None and row.verdict not in _VERDICTS:
        raise RecordError(f"{where}: {row.verdict!r} is no verdict")
    for metric, figure in row.figures.items():
        if metric not in KEPT:
            raise RecordError(f"{where}: a history keeps {', '.join(KEPT)}, not {metric.value}")
        if figure.samples and not math.isclose(figure.point, median(figure.samples), rel_tol=RELATIVE_TOLERANCE):
            own = median(figure.samples)
            raise RecordError(
                f"{where}: {metric.value} is {figure.point:g} but its own samples give {own:g}; the line was edited"
            )
        ends = [end for end in (figure.low, figure.point, figure.high) if end is not None]
        if ends != sorted(ends):
            raise RecordError(f"{where}: {metric.value} lies outside of its own interval; the line was edited")


def _facts(row: HistoryRow) -> RunFacts:
    return RunFacts(
        name=row.name,
        created_at=row.created_at,
        fingerprint=dict(row.fingerprint),
        figures={metric: _figure(figure) for metric, figure in row.figures.items()},
        doubts=row.doubts,
        busy=row.busy,
        bandwidth_bytes_per_s=row.bandwidth_bytes_per_s,
        bandwidth_share=row.bandwidth_share,
        verdict=row.verdict,
        demand=row.demand,
    )


def _figure(row: FigureRow) -> Figure:
    quantity = Quantity(point=row.point, low=row.low, high=row.high, basis=row.basis, interval_known=row.interval_known)
    return Figure(quantity=quantity, samples=row.samples, level=row.level, doubt=row.doubt)


def usable_runs(runs: Sequence[RunFacts]) -> list[RunFacts]:
    """The runs that are evidence: neither busy nor doubtful."""
    return [run for run in runs if not run.busy and not run.doubts]
