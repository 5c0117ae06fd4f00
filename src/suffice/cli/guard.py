"""``suffice guard``: does a run still hold what a decision rested on? For CI."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import guard_outputs, options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.cli.guard_judge import Asked
    from suffice.decide.guard_types import GuardResult, Limit, Metric
    from suffice.records.schema import RunRecord

_EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}
_STRICT_EXIT_CODES = {**_EXIT_CODES, "inconclusive": 1}


def guard(
    run: Annotated[
        Path | None, typer.Argument(metavar="RUN", help="A run record, or a load tool's result for its TTFT.")
    ] = None,
    floor: Annotated[
        list[str] | None,
        typer.Option(
            "--floor",
            metavar="[METRIC=]VALUE",
            help="Least decode rate in tokens per second, or decode=8, prefill=100, quality=0.9 (a score; needs --quality). "
            "May be repeated.",
        ),
    ] = None,
    ceiling: Annotated[
        list[str] | None,
        typer.Option(
            "--ceiling", metavar="METRIC=VALUE", help="Most of ttft=2s, ttft_p90=2s, memory=4GiB. May be repeated."
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option("--baseline", metavar="BASE", help="A run record to compare with (`suffice baseline set`)."),
    ] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="Compare with the latest level of a `suffice history` instead."),
    ] = None,
    tolerance: Annotated[
        str, typer.Option("--tolerance", help="Loss that is none yet, against a baseline, a history or the other side.")
    ] = "5%",
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="METRICS",
            help="What to compare, of decode,prefill,ttft,memory. Default: decode,prefill,memory; two files in turns have decode,prefill.",
        ),
    ] = None,
    demand_file: Annotated[
        Path | None,
        typer.Option("--demand", metavar="FILE", help="A demand.toml: a verdict that got worse fails as well."),
    ] = None,
    quality: Annotated[
        list[Path] | None,
        typer.Option("--quality", metavar="FILE", help="A quants.json that compared the run's model. May be repeated."),
    ] = None,
    rerun: Annotated[
        str | None,
        typer.Option(
            "--rerun",
            metavar="CMD",
            help="Before a FAIL, run this once and judge its record as well: 'suffice measure m.gguf --out {out}'.",
        ),
    ] = None,
    interleave: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--interleave",
            metavar="BASE HEAD",
            help="Measure two sides in turns instead of reading RUN: two commands that write {out}, or two GGUF files with "
            "flags ('m.gguf --threads 2').",
        ),
    ] = None,
    rounds: Annotated[
        int | None,
        typer.Option(
            "--rounds",
            min=3,
            max=500,
            help="Of --interleave with commands. Default: 12. Files take what --budget allows, without one ten.",
        ),
    ] = None,
    budget: options.Budget = None,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="FOLDER", help="Keep the records that --interleave or --rerun makes."),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 also when inconclusive.")] = False,
    junit: guard_outputs.Junit = None,
    prometheus: guard_outputs.Prometheus = None,
    github: guard_outputs.Github = False,
    json_output: options.Json = False,
) -> None:
    """Check that a run holds its floors and is no worse than a baseline. Exit code 0 pass, 1 fail, 3 inconclusive.

    FAIL: beyond a floor or ceiling, or the interval of new / base lies wholly beyond the tolerance. PASS: its bad end is within it.
    Missing figures and runs that cannot be compared are inconclusive, and busy machines unless their whole interval holds the limit.

    Example: suffice guard run.json --floor 8 --junit guard.xml

    Example: suffice guard run.json --baseline suffice-baseline.json --ceiling memory=4GiB

    Example: suffice guard --interleave 'old/suffice measure m.gguf --out {out}' 'suffice measure m.gguf --out {out}'
    """
    from suffice.cli.guard_asked import check_command, folder_for_records, limits_of, metrics_of, tolerance_of
    from suffice.cli.guard_judge import Asked
    from suffice.cli.output import print_json, print_text
    from suffice.cli.paths import check_outputs
    from suffice.report.guard import guard_document, guard_text

    limits = limits_of(floor or [], ceiling or [])
    metrics, share = None if compare is None else metrics_of(compare), tolerance_of(tolerance)
    outputs = guard_outputs.GuardOutputs(junit=junit, prometheus=prometheus, github=github)
    check_outputs(outputs.files, [run, baseline, history, demand_file, *(quality or [])])
    if interleave is not None:
        others = {"RUN": run, "--floor": floor, "--ceiling": ceiling, "--baseline": baseline, "--history": history}
        _refuse("--interleave", {**others, "--demand": demand_file, "--quality": quality, "--rerun": rerun})
        kept = None if records is None else folder_for_records(records)
        result = _interleaved(interleave, rounds, budget, kept, (metrics, share))
        _publish(result, None, None, outputs)
    else:
        if run is None:
            raise UsageError("which run? Give a run record, or --interleave BASE HEAD")
        if not any((limits, baseline, history, demand_file)):
            raise UsageError(
                "guard against what? Give --floor 8, --ceiling memory=4GiB, --baseline, --history or --demand"
            )
        _check_flags(limits, quality=bool(quality), makes_records=rerun is not None, kept=records is not None)
        again = None if rerun is None else check_command(rerun, "--rerun")
        told = metrics or metrics_of(None)
        asked = Asked(limits=tuple(limits), metrics=told, tolerance=share, quality=tuple(quality or ()))
        asked = _with_files(asked, baseline, history, demand_file)
        kept = None if records is None else folder_for_records(records)
        result, record = _judged_load(run, asked, again) or _judged(run, asked, again, kept)
        _publish(result, record, run, outputs)
    if json_output:
        print_json(guard_document(result))
    else:
        print_text(_inert(guard_text(result)) if github else guard_text(result))
    raise typer.Exit((_STRICT_EXIT_CODES if strict else _EXIT_CODES)[result.outcome.value])


def _inert(text: str) -> str:
    """Without what a GitHub runner takes for a command of ours: file names are not ours."""
    from suffice.report.github import inert_line

    return "\n".join(map(inert_line, text.splitlines()))


def _publish(
    result: GuardResult, record: RunRecord | None, run: Path | None, outputs: guard_outputs.GuardOutputs
) -> None:
    """What was found, to where it was asked for."""
    from suffice.report.check_rows import rows_of_result
    from suffice.report.prometheus import NamedRun

    name = "" if run is None else run.name
    facts = {} if record is None else {"machine": record.machine, "model": record.model.file_name or record.model.name}
    runs = [] if record is None else [NamedRun(name=name, record=record)]
    rows = rows_of_result(result, of=name)
    guard_outputs.publish(rows, runs, outputs, file=None if run is None else str(run), facts=facts)


def _check_flags(limits: list[Limit], *, quality: bool, makes_records: bool, kept: bool) -> None:
    """Refuse what would be ignored: who gives it expects something of it."""
    if quality and not any(limit.metric == "quality" for limit in limits):
        raise UsageError("--quality tells a score; give the least one as well: --floor quality=0.9")
    if kept and not makes_records:
        raise UsageError("--records keeps what --interleave or --rerun measures; give one of them")


def _refuse(flag: str, others: dict[str, object]) -> None:
    given = [name for name, value in others.items() if value]
    if given:
        raise UsageError(f"{flag} measures two sides and compares them; leave out {', '.join(given)}")


def _with_files(asked: Asked, baseline: Path | None, history: Path | None, demand_file: Path | None) -> Asked:
    """With what stands in files; everything is read before anything is judged, or run again."""
    from dataclasses import replace

    from suffice.loaders.any_record import load_any_record
    from suffice.loaders.demand import load_demand
    from suffice.records.history import load_history

    if baseline is not None and history is not None:
        raise UsageError("give --baseline or --history, not both")
    return replace(
        asked,
        baseline=None if baseline is None else (baseline, load_any_record(baseline)),
        history=None if history is None else tuple(load_history(history)),
        demand=None if demand_file is None else load_demand(demand_file),
    )


def _judged_load(run: Path, asked: Asked, again: list[str] | None) -> tuple[GuardResult, None] | None:
    """The result of a load tool's file, which is held against limits only; None: RUN is none."""
    from suffice.decide.guard import result_of
    from suffice.decide.guard_limits import check_limit
    from suffice.decide.guard_load import facts_of_load
    from suffice.loaders.any_record import loads_in

    loads = loads_in(run)
    if loads is None:
        return None
    if asked.baseline or asked.history is not None or asked.demand or again:
        raise UsageError(f"{run} is a load tool's result, which is held against --floor and --ceiling only")
    if len(loads) != 1:
        raise UsageError(f"{run} holds {len(loads)} loads; give a file with one")
    facts = facts_of_load(loads[0], run.name)
    return result_of([check_limit(facts, limit) for limit in asked.limits]), None


def _judged(run: Path, asked: Asked, again: list[str] | None, folder: Path | None) -> tuple[GuardResult, RunRecord]:
    """The result of a run, and the record that it is of; a failure is confirmed by one rerun where a command for it was given."""
    from suffice.cli.guard_asked import run_command
    from suffice.cli.guard_judge import judge
    from suffice.cli.output import warn
    from suffice.cli.runs import warnings_of
    from suffice.decide.guard import Outcome, confirmed
    from suffice.loaders.any_record import load_any_record

    record = load_any_record(run)
    warn(warnings_of(run, record))
    if asked.baseline is not None and record.created_at is not None and record == asked.baseline[1]:
        raise UsageError(f"{run} is the baseline itself, which shows nothing; give a run that was made after it")
    result = judge(record, run.name, asked)
    if again is None or result.outcome is not Outcome.FAIL:
        return result, record
    with tempfile.TemporaryDirectory(prefix="suffice-guard-") as made:
        out = (folder or Path(made)) / "rerun.json"
        second = run_command(again, out, "--rerun")
        return confirmed(result, judge(second, "the rerun", asked)), second


def _interleaved(
    sides: tuple[str, str],
    rounds: int | None,
    budget_s: float | None,
    folder: Path | None,
    rule: tuple[tuple[Metric, ...] | None, float],
) -> GuardResult:
    from suffice.cli.guard_interleave import Interleaving, judge_interleaved
    from suffice.cli.output import Progress

    metrics, tolerance = rule
    with Progress() as progress:
        return judge_interleaved(
            Interleaving(
                sides=sides, rounds=rounds, budget_s=budget_s, folder=folder, metrics=metrics, tolerance=tolerance
            ),
            progress,
        )
