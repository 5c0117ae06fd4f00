"""Simulate what was asked, print it as text or as one JSON document, and say which exit code it has."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.cli.simulate_asked import Search
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.cli.simulate_asked import Case
    from suffice.serving.run import SimulatedRun
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import Found, Holding
    from suffice.serving.summary import Summary

_NOT_ENOUGH: Final = 1
_UNDECIDED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Result:
    """What the runs gave; ``holding`` None: no limit was given, ``overloaded`` None: the load cannot overload a server."""

    runs: list[SimulatedRun]
    summary: Summary
    holding: Holding | None
    overloaded: bool | None


def show(case: Case, *, json_output: bool) -> int:
    """Simulate the load, print, and return the exit code."""
    from suffice.cli.output import print_json, print_text

    scheduler = case.server.of(case.slots)
    result = _simulated(case, scheduler)
    if json_output:
        print_json(_document(case, scheduler, result))
    else:
        print_text(_text(case, scheduler, result))
    return _code(result.holding)


def _simulated(case: Case, scheduler: Scheduler) -> _Result:
    from suffice.serving.curve import farthest
    from suffice.serving.load import OpenArrivals
    from suffice.serving.search import holding_of_runs
    from suffice.serving.simulate import simulate as run_once
    from suffice.serving.summary import is_overloaded, summarize

    curve, trial = case.curve, case.trial
    runs = [run_once(curve, scheduler, case.load, trial.seed + number) for number in range(trial.runs)]
    return _Result(
        runs=runs,
        summary=summarize(runs, trial.window, (*curve.notes, *curve.beyond(farthest(run.reached for run in runs)))),
        holding=holding_of_runs(runs, case.limits, trial) if case.limits else None,
        overloaded=is_overloaded(runs, trial.window) if isinstance(case.load.arrivals, OpenArrivals) else None,
    )


def _document(case: Case, scheduler: Scheduler, result: _Result) -> dict[str, Any]:
    from suffice.report.serving import limits_document, summary_document
    from suffice.serving.search import attainment_of

    document = summary_document(result.summary) | _settings(case)
    document |= {"scheduler": asdict(scheduler), "overloaded": result.overloaded}
    if result.holding is not None:
        attained = [attainment_of(run, case.limits, case.trial.window) for run in result.runs]
        document |= limits_document(case.limits, result.holding, case.trial.confidence, attained)
    return document


def _settings(case: Case) -> dict[str, Any]:
    """What was asked, for a document."""
    from suffice.report.serving import load_document

    return {
        "curve": case.curve.name,
        "basis": case.curve.basis.value,
        "load": load_document(case.load),
        "seed": case.trial.seed,
        "window": asdict(case.trial.window),
    }


def _text(case: Case, scheduler: Scheduler, result: _Result) -> str:
    from suffice.report.serving import basis_text, limits_text, load_text, overload_text, rejected_text, summary_text
    from suffice.serving.load import OpenArrivals

    curve, load, summary = case.curve, case.load, result.summary
    title = f"{curve.name or 'service curve'} ({curve.basis.value}), {scheduler.most_requests} slots"
    lines = [load_text(load, scheduler), summary_text(summary, title), basis_text(curve.basis)]
    if result.overloaded and isinstance(load.arrivals, OpenArrivals):
        lines.append(overload_text(summary, load.arrivals.rate_per_s))
    lines.append(rejected_text(summary, case.server.context))
    if result.holding is not None:
        lines.append(limits_text(case.limits, result.holding, case.trial.confidence))
    return "\n".join(line for line in lines if line)


def _code(holding: Holding | None) -> int:
    from suffice.serving.search import Holding

    if holding is None or holding is Holding.HOLDS:
        return 0
    return _NOT_ENOUGH if holding is Holding.FAILS else _UNDECIDED


def find(what: Search, case: Case, most: int, *, json_output: bool) -> int:
    """Search, print, and return the exit code.

    Raises:
        UsageError: the search does not fit the load.
    """
    from suffice.cli.output import print_json, print_text

    try:
        found = _searched(what, case, most)
    except ValueError as error:
        raise UsageError(f"--find {what.value}: {error}") from error
    if json_output:
        print_json(_found_document(what, case, found))
    else:
        print_text(_found_text(what, case, found))
    if found.value is not None:
        return 0
    return _UNDECIDED if found.undecided else _NOT_ENOUGH


def _found_document(what: Search, case: Case, found: Found) -> dict[str, Any]:
    from suffice.report.serving import asked_document, found_document

    slots: int | None = case.slots
    if what is Search.SLOTS:
        slots = None if found.value is None else int(found.value)
    scheduler = None if slots is None else asdict(case.server.of(slots))
    document = found_document(what.value, found) | _settings(case) | {"scheduler": scheduler}
    return document | asked_document(case.limits, case.trial.confidence)


def _found_text(what: Search, case: Case, found: Found) -> str:
    from suffice.report.serving import basis_text, found_text, load_text

    lines = [
        load_text(case.load, None if what is Search.SLOTS else case.server.of(case.slots)),
        f"curve: {case.curve.name or 'service curve'} ({case.curve.basis.value})",
        found_text(what.value, found, case.limits, case.trial.confidence),
        basis_text(case.curve.basis),
    ]
    return "\n".join(line for line in lines if line)


def _searched(what: Search, case: Case, most: int) -> Found:
    from suffice.serving import sizing

    curve, server, load, limits, trial = case.curve, case.server, case.load, case.limits, case.trial
    match what:
        case Search.RATE:
            return sizing.highest_rate(curve, server.of(case.slots), load, limits, trial=trial)
        case Search.SLOTS:
            return sizing.smallest_slots(curve, server.of, load, limits, most=most, trial=trial)
        case Search.MACHINES:
            return sizing.smallest_machines(curve, server.of(case.slots), load, limits, most=most, trial=trial)
