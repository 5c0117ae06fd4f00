"""``suffice history``: runs over time, their trend, and the steps in it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.decide.guard_trend import Trend
    from suffice.decide.guard_types import RunFacts

_EXIT_CODES: Final = {"pass": 0, "fail": 1, "inconclusive": 3}
HistoryFile = Annotated[Path, typer.Argument(metavar="FILE", help="The history: JSON lines, a run each.")]
Metrics = Annotated[
    str | None,
    typer.Option("--compare", metavar="METRICS", help="Of decode,prefill,ttft,memory. Default: decode,prefill,memory."),
]


def build_history_app() -> typer.Typer:
    """The command's subcommands."""
    app = options.group(
        "Runs over time, as JSON lines: their trend, the steps in it, and what a guard holds a new run against."
    )
    app.command("add")(add)
    app.command("show")(show)
    app.command("chart")(chart)
    return app


def add(
    file: HistoryFile,
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run records, oldest first.")],
    demand_file: Annotated[
        Path | None, typer.Option("--demand", metavar="FILE", help="A demand.toml: its verdict is kept with each run.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Add runs to a history, which is begun where there is none. A run that is there already is not added twice.

    Busy and unfinished runs are kept with their mark, and count for nothing.

    Example: suffice history add history.jsonl run.json
    """
    from suffice.cli.guard_judge import with_verdict
    from suffice.cli.output import print_json, print_text, warn
    from suffice.decide.guard_facts import facts_of
    from suffice.loaders.any_record import load_any_record
    from suffice.loaders.demand import load_demand
    from suffice.records.history import add_to_history, load_history

    if any(path.absolute() == file.absolute() for path in runs):
        raise UsageError(f"{file} is the history itself; give run records behind it")
    demand = None if demand_file is None else load_demand(demand_file)
    records = [(path, load_any_record(path)) for path in runs]
    added = 0
    for path, record in records:
        facts = facts_of(record, path.name)
        if not facts.figures:
            raise UsageError(f"{path} holds no figure that could be kept")
        if facts.busy or facts.doubts:
            warn([f"{path.name} counts for nothing: {next(iter((*facts.busy, *facts.doubts)))}"])
        kept = facts if demand is None else with_verdict(facts, record, demand)
        is_new = add_to_history(file, kept)
        added += is_new
        if not is_new:
            warn([f"{path.name} is in {file.name} already"])
    total = len(load_history(file))
    if json_output:
        print_json({"history": str(file), "added": added, "runs": total})
    else:
        print_text(f"{file}: {added} added, {total} runs")


def show(
    file: HistoryFile,
    compare: Metrics = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="Exit code 1 when the last step was a loss beyond --tolerance, 3 with too few runs."
        ),
    ] = False,
    tolerance: Annotated[str, typer.Option("--tolerance", help="Loss that is none yet, for --check.")] = "5%",
    json_output: options.Json = False,
) -> None:
    """The runs of a history, and the steps in their figures, with what changed there.

    Example: suffice history show history.jsonl --check
    """
    from suffice.cli.guard_asked import tolerance_of
    from suffice.cli.output import print_json, print_text
    from suffice.decide.guard_types import worst
    from suffice.report.history import history_document, history_text

    share = tolerance_of(tolerance)
    runs, trends = _trends(file, compare)
    if json_output:
        print_json(history_document(runs, trends))
    else:
        print_text(history_text(runs, trends))
    if check:
        raise typer.Exit(_EXIT_CODES[worst([trend.outcome(share) for trend in trends]).value])


def chart(
    file: HistoryFile,
    out: Annotated[Path, typer.Argument(metavar="PICTURE", help="FILE.svg or FILE.png (matplotlib).")],
    compare: Metrics = None,
    floor: Annotated[
        list[str] | None, typer.Option("--floor", metavar="[METRIC=]VALUE", help="Draw a floor. May be repeated.")
    ] = None,
    ceiling: Annotated[
        list[str] | None, typer.Option("--ceiling", metavar="METRIC=VALUE", help="Draw a ceiling. May be repeated.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Draw the trend: a point a run with its interval, the levels between steps, and floors.

    Example: suffice history chart history.jsonl trend.svg --floor 8
    """
    from suffice.cli.guard_asked import limits_of
    from suffice.cli.output import print_json, print_text
    from suffice.cli.paths import check_outputs
    from suffice.report.history import history_document
    from suffice.report.history_chart import write_history_chart
    from suffice.report.pictures import check_chart

    limits = {limit.metric: limit.value for limit in limits_of(floor or [], ceiling or [])}
    check_chart(out)
    check_outputs({"--chart": out}, [file])
    runs, trends = _trends(file, compare)
    drawn = [trend for trend in trends if trend.values]
    if not drawn:
        raise UsageError(f"{file} holds no run that could be drawn")
    write_history_chart(out, runs, drawn, limits)
    if json_output:
        print_json({"chart": str(out), **history_document(runs, trends)})
    else:
        print_text(f"chart  {out}")


def _trends(file: Path, compare: str | None) -> tuple[list[RunFacts], list[Trend]]:
    """The runs, and the trends of the metrics that any of them has."""
    from suffice.cli.guard_asked import metrics_of
    from suffice.decide.guard_trend import trend_of
    from suffice.records.history import load_history

    runs = load_history(file)
    return runs, [
        trend_of(runs, metric) for metric in metrics_of(compare) if any(metric in run.figures for run in runs)
    ]
