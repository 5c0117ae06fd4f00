"""``suffice compare``: several models and quantizations on this machine, in one table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.cli.asked import RunOptions
    from suffice.cli.candidates import Wanted
    from suffice.cli.session import EngineChoice
    from suffice.decide.ranking import Answer, Candidate
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord


def compare(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL...",
            help="2 to 16 shapes or files; llama-3.1-8b:q4_k_m,q8_0 is one shape under two recipes.",
        ),
    ],
    need: Annotated[float | None, typer.Option("--need", help="Tokens per second that one stream needs.")] = None,
    demand_file: Annotated[Path | None, typer.Option("--demand", metavar="FILE", help="A demand.toml instead.")] = None,
    margin: options.Margin = None,
    budget: options.Budget = None,
    prompt_tokens: options.PromptTokens = None,
    depth: options.Depth = None,
    threads: options.Threads = None,
    batch: options.Batch = 1,
    ubatch: options.Ubatch = 512,
    kv_type: options.KvType = "f16",
    flash_attention: options.FlashAttention = "auto",
    engine: options.EngineName = None,
    engine_library: options.EngineLibrary = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FOLDER",
            help="Folder for the records, one for each model. Default: suffice-runs/compare-TIME.",
        ),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Keep the records at --out that are complete and go on with the others.")
    ] = False,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Also draw a chart: FILE.svg or FILE.png (matplotlib)."),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Compare models and quantizations on this machine: speed, memory, headroom, and which one moves a thin margin to enough.

    Models that are not here are measured in slices. --budget is for each model. Exit code with a need: 0 when one is enough (also with
    a thin margin), 1 when none is, 3 undecided. Without a need: 0, or 3 when a model could not be measured.

    Example: suffice compare llama-3.1-8b:q4_k_m,q5_k_m,q8_0 --need 8
    """
    from suffice.cli.asked import RunOptions, demand_of
    from suffice.cli.candidates import record_paths, wanted
    from suffice.cli.output import print_json, print_text, warn
    from suffice.cli.paths import check_outputs
    from suffice.cli.session import EngineChoice
    from suffice.cli.verdicts import with_margin
    from suffice.decide.ranking import answer
    from suffice.report.chart import write_chart
    from suffice.report.compare import bandwidth_warning, comparison_document, comparison_text
    from suffice.report.pictures import check_chart

    if chart is not None:
        check_chart(chart)
    demand = None if need is None and demand_file is None else with_margin(demand_of(demand_file, need), margin)
    found = wanted(models)
    files = [part for one in found if one.model is not None for part in one.model.parts]
    check_outputs({"--chart": chart}, [demand_file, engine_library, *files])
    run_options = RunOptions(
        budget_s=budget,
        prompt_tokens=prompt_tokens,
        depth=depth,
        threads=threads,
        batch=batch,
        ubatch=ubatch,
        kv_type=kv_type,
        flash_attention=flash_attention,
    )
    if resume and out is None:
        raise UsageError("--resume needs --out FOLDER, where the records of the interrupted comparison are")
    folder = out or Path("suffice-runs") / f"compare-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    paths = record_paths(folder, found, resume=resume)
    choice = EngineChoice(name=engine, library=engine_library)
    candidates, records = _measure_all(found, paths, run_options, demand, choice)
    if all(candidate.error is not None for candidate in candidates):
        reasons = "; ".join(f"{candidate.name}: {candidate.error}" for candidate in candidates)
        raise UsageError(f"nothing could be measured. {reasons}")
    for candidate, record in zip(candidates, records, strict=True):
        warn(f"{candidate.name}: {warning}" for warning in (() if record is None else record.warnings))
    warn(filter(None, [bandwidth_warning(records)]))
    verdict = None if demand is None else answer(candidates, demand.margin)
    if json_output:
        print_json(comparison_document(candidates, list(zip(paths, records, strict=True)), demand, verdict))
    else:
        print_text(comparison_text(candidates, records, demand, verdict))
        print_text(f"\nrecords  {folder}")
    if chart is not None:
        write_chart(chart, candidates, demand)
    raise typer.Exit(_exit_code(verdict, candidates))


def _measure_all(
    found: Sequence[Wanted],
    paths: Sequence[Path],
    run_options: RunOptions,
    demand: Demand | None,
    choice: EngineChoice,
) -> tuple[list[Candidate], list[RunRecord | None]]:
    """One after the other. What no model of them could have (threads, a context) is refused before the first is measured."""
    from suffice.cli.candidates import earlier_record, measure_one
    from suffice.cli.output import Progress
    from suffice.cli.session import Workbench
    from suffice.decide.ranking import Candidate

    requests = [None if one.model is None else run_options.request(one.model, demand) for one in found]
    longest_s = max((request.budget_s for request in requests if request is not None), default=0.0)
    candidates: list[Candidate] = []
    records: list[RunRecord | None] = []
    with Progress() as progress, Workbench(choice, longest_budget_s=longest_s, shared=True) as bench:
        kept: list[RunRecord | None] = []
        for one, request, path in zip(found, requests, paths, strict=True):
            if request is not None:
                bench.check(one.name, request, demand)
            kept.append(None if request is None else earlier_record(path, request, bench))
        for index, (one, request, path, earlier) in enumerate(zip(found, requests, paths, kept, strict=True)):
            progress(f"candidate {index + 1} of {len(found)}: {one.name}")
            if request is None:
                candidate, record = Candidate(name=one.name, error=one.refused), None
            else:
                candidate, record = measure_one(one.name, request, demand, path, bench, progress, earlier)
            candidates.append(candidate)
            records.append(record)
    return candidates, records


def _exit_code(verdict: Answer | None, candidates: Sequence[Candidate]) -> int:
    from suffice.decide.verdict import Grade

    if verdict is None:
        return 3 if any(candidate.error is not None for candidate in candidates) else 0
    return {Grade.ENOUGH: 0, Grade.THIN: 0, Grade.NOT_ENOUGH: 1, Grade.OPEN: 3}[verdict.grade]
