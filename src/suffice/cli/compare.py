"""``suffice compare``: several models and quantizations on this machine, in one table."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options
from suffice.errors import SufficeError, UsageError

if TYPE_CHECKING:
    from suffice.cli.output import Progress
    from suffice.cli.session import Workbench
    from suffice.decide.ranking import Answer, Candidate
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

_LEAST_CANDIDATES = 2
_MOST_CANDIDATES = 16


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
    kv_type: options.KvType = "f16",
    flash_attention: options.FlashAttention = "auto",
    engine: options.EngineName = None,
    engine_library: options.EngineLibrary = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FOLDER", help="Where to write the records, one for each model.")
    ] = None,
    resume: options.Resume = False,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Also draw a chart: FILE.svg or FILE.png (matplotlib)."),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Compare models and quantizations on this machine: speed, memory, headroom, and which one moves a thin margin to enough.

    Models that are not here are measured in slices. --budget is for each model. Exit code with a need: 0 when one is enough (also with
    a thin margin), 1 when none is, 3 undecided.

    Example: suffice compare llama-3.1-8b:q4_k_m,q5_k_m,q8_0 --need 8
    """
    from suffice.cli.asked import demand_of
    from suffice.cli.output import Progress, print_json, print_text, warn
    from suffice.cli.paths import check_outputs
    from suffice.cli.session import EngineChoice, Workbench
    from suffice.cli.verdicts import with_margin
    from suffice.decide.ranking import answer
    from suffice.measure.request import default_budget_s
    from suffice.report.chart import check_chart, write_chart
    from suffice.report.compare import comparison_document, comparison_text

    if chart is not None:
        check_chart(chart)
    demand = None if need is None and demand_file is None else with_margin(demand_of(demand_file, need), margin)
    found = _resolved(models)
    check_outputs({"--chart": chart}, [demand_file, engine_library, *(part for _, m in found for part in m.parts)])
    folder = out or Path("suffice-runs") / f"compare-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"
    lengths = {"prompt_tokens": prompt_tokens, "depth": depth, "threads": threads}
    settings = {"kv_type": kv_type, "flash_attention": flash_attention}
    budgets = {name: default_budget_s(model) if budget is None else budget for name, model in found}
    candidates, records = [], []
    choice = EngineChoice(name=engine, library=engine_library)
    with Progress() as progress, Workbench(choice, longest_budget_s=max(budgets.values())) as bench:
        for index, (name, model) in enumerate(found):
            progress(f"candidate {index + 1} of {len(found)}: {name}")
            path = folder / f"{_stem(name)}.json"
            request = _request(model, budgets[name], demand, lengths, settings)
            candidate, record = _measure_one(name, request, demand, path, bench, progress, resume=resume)
            candidates.append(candidate)
            records.append((path, record))
    if all(candidate.error is not None for candidate in candidates):
        raise UsageError(f"nothing could be measured; the first reason: {candidates[0].error}")
    for (_path, record), candidate in zip(records, candidates, strict=True):
        warn(f"{candidate.name}: {warning}" for warning in (() if record is None else record.warnings))
    verdict = None if demand is None else answer(candidates, demand.margin)
    if chart is not None:
        write_chart(chart, candidates, demand)
    if json_output:
        print_json(comparison_document(candidates, records, demand, verdict))
    else:
        print_text(comparison_text(candidates, [record for _, record in records], demand, verdict))
        print_text(f"\nrecords  {folder}")
    raise typer.Exit(_exit_code(verdict))


def _exit_code(verdict: Answer | None) -> int:
    from suffice.decide.verdict import Grade

    if verdict is None:
        return 0
    return {Grade.ENOUGH: 0, Grade.THIN: 0, Grade.NOT_ENOUGH: 1, Grade.OPEN: 3}[verdict.grade]


def _resolved(models: list[str]) -> list[tuple[str, ModelFile | ShapeModel]]:
    """All candidates, before any is measured: a slip in the last name must not cost the time of the first."""
    from suffice.loaders.reference import resolve_model

    names = [name for model in models for name in _spelled_out(model)]
    if not _LEAST_CANDIDATES <= len(names) <= _MOST_CANDIDATES:
        raise UsageError(f"a comparison takes {_LEAST_CANDIDATES} to {_MOST_CANDIDATES} models, not {len(names)}")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UsageError(f"{twice} is there twice; leave one out")
    return [(name, resolve_model(name)) for name in names]


def _spelled_out(model: str) -> list[str]:
    """``shape:q4_k_m,q8_0`` is two candidates."""
    shape, colon, recipes = model.rpartition(":")
    if not colon or "," not in recipes or Path(model).exists():
        return [model]
    return [f"{shape}:{recipe.strip()}" for recipe in recipes.split(",") if recipe.strip()]


def _stem(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-._" else "_" for c in name)[-100:]


def _request(
    model: ModelFile | ShapeModel,
    budget_s: float,
    demand: Demand | None,
    lengths: dict[str, int | None],
    settings: dict[str, str],
) -> Any:  # noqa: ANN401  # a RunRequest, which is slow to import
    from suffice.cli.asked import depth_of, prompt_length_of
    from suffice.measure.request import DEFAULT_PROMPT_TOKENS, RunRequest

    prompt = lengths["prompt_tokens"] or (DEFAULT_PROMPT_TOKENS if demand is None else prompt_length_of(demand))
    depth = lengths["depth"]
    if depth is None:
        depth = prompt if demand is None else depth_of(demand, prompt)
    return RunRequest(
        model=model,
        budget_s=budget_s,
        prompt_tokens=prompt,
        depth=depth,
        lengths_stated=lengths["prompt_tokens"] is not None or lengths["depth"] is not None,
        threads=lengths["threads"],
        type_k=settings["kv_type"],
        type_v=settings["kv_type"],
        flash_attention=settings["flash_attention"],
    )


def _measure_one(
    name: str,
    request: Any,  # noqa: ANN401  # as above
    demand: Demand | None,
    path: Path,
    bench: Workbench,
    progress: Progress,
    *,
    resume: bool,
) -> tuple[Candidate, RunRecord | None]:
    """One candidate; what it cannot do is in its row and does not stop the others."""
    from suffice.decide.evidence import evidence_from
    from suffice.decide.ranking import Candidate, candidate_from
    from suffice.records.store import load_record

    weights = float(request.model.shape.tensor_bytes)
    try:
        earlier = load_record(path) if resume and path.exists() else None
        record = None
        if earlier is not None and earlier.complete:
            _check_same(earlier, request, path)
            record = earlier
        if record is None:
            record = bench.run(request, path, progress, earlier=earlier)
        evidence = evidence_from(record)
        context = evidence.run_context_tokens or request.prompt_tokens
        return candidate_from(name, evidence, demand, context_tokens=context, weights_bytes=weights), record
    except SufficeError as error:
        return Candidate(name=name, weights_bytes=weights, error=str(error)), None


def _check_same(earlier: RunRecord, request: Any, path: Path) -> None:  # noqa: ANN401  # as above
    """Refuse a complete record of another model or cache type: its figures would stand in this one's row."""
    from suffice.loaders.model_file import describe_model

    now = describe_model(request.model, type_k=request.type_k, type_v=request.type_v)
    asked = earlier.settings.get("asked", {})
    if earlier.model.identity != now.identity or asked.get("type_k") != request.type_k:
        raise UsageError(f"{path} is a record of another model or KV type; leave out --resume or give another --out")
