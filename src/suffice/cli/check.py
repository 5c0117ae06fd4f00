"""``suffice check``: the main job, from a demand to a verdict on this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand

_RUNS_FOLDER = Path("suffice-runs")


def check(
    demand_file: Annotated[Path | None, typer.Argument(metavar="DEMAND", help="A demand.toml.")] = None,
    model: options.ModelOption = None,
    need: Annotated[
        float | None, typer.Option("--need", help="Tokens per second that one stream needs, instead of a demand.toml.")
    ] = None,
    margin: options.Margin = None,
    budget: options.Budget = None,
    prompt_tokens: options.PromptTokens = None,
    depth: options.Depth = None,
    threads: options.Threads = None,
    prompt: options.PromptFile = None,
    out: options.Out = None,
    memo: Annotated[
        Path | None, typer.Option("--memo", metavar="FILE", help="Where to write the memo. Default: beside the record.")
    ] = None,
    resume: options.Resume = False,
    engine: options.EngineName = None,
    engine_library: options.EngineLibrary = None,
    batch: options.Batch = 1,
    slots: options.Slots = None,
    numa_node: options.OnNode = None,
    per_node: options.PerNode = False,
    ubatch: options.Ubatch = 512,
    kv_type: options.KvType = "f16",
    flash_attention: options.FlashAttention = "auto",
    mmap: options.Mmap = True,
    in_slices: options.InSlices = False,
    catalog: options.OwnCatalogue = None,
    json_output: options.Json = False,
) -> None:
    """From a demand to a verdict: measures bandwidth and model, compares, and writes a run record and a memo.

    Beside the verdict on this machine it names the cheapest machines to rent that are predicted to be enough.

    Exit code 0: the CPU is enough (also with a thin margin); 1: it is not; 3: undecided, with what would settle it.

    Example: suffice check --model llama-2-7b:q4_0 --need 8 --margin 1.5
    """
    from suffice.cli.asked import RunOptions, default_slots, demand_of, nodes_of
    from suffice.cli.output import Progress, print_text, warn
    from suffice.cli.paths import check_outputs
    from suffice.cli.prospects import cheapest_machines
    from suffice.cli.session import EngineChoice, run_and_save
    from suffice.cli.verdicts import VERDICT_EXIT_CODES, with_margin
    from suffice.decide.compare import decide as decide_machines
    from suffice.decide.evidence import evidence_from
    from suffice.loaders.beside import beside_of
    from suffice.loaders.catalogue import load_catalogue
    from suffice.records.store import write_atomically
    from suffice.report.beside import beside_text
    from suffice.report.decision import check_document_json, decision_text
    from suffice.report.memo import memo_markdown
    from suffice.report.prospects import prospects_text
    from suffice.report.run import run_text

    nodes = nodes_of(numa_node, per_node=per_node)
    demand = with_margin(demand_of(demand_file, need), margin)
    model_file = _model(model, demand, demand_file, in_slices=in_slices)
    _check_context(demand, model_file)
    record_path = out or _default_path(model_file)
    memo_path = memo or record_path.with_suffix(".md")
    check_outputs({"--out": record_path, "--memo": memo_path}, [*model_file.parts, demand_file, prompt, engine_library])
    run_options = RunOptions(
        budget_s=budget,
        prompt_tokens=prompt_tokens,
        depth=depth,
        threads=threads,
        prompt=prompt,
        batch=batch,
        slots=default_slots(demand, engines=max(1, len(nodes))) if slots is None else slots,
        ubatch=ubatch,
        kv_type=kv_type,
        flash_attention=flash_attention,
        mmap=mmap,
        nodes=nodes,
    )
    request = run_options.request(model_file, demand)
    loaded = load_catalogue(catalog)  # before anything is measured: a slip in the user's file must not cost the time
    with Progress() as progress:
        choice = EngineChoice(name=engine, library=engine_library)
        record = run_and_save(request, choice, record_path, progress, resume=resume)
    decision = decide_machines(demand, [evidence_from(record)])
    machines = cheapest_machines(demand, model_file, loaded.catalogue, kv_type=kv_type)
    write_atomically(memo_path, memo_markdown(demand, decision, record, machines))
    warn([*record.warnings, *loaded.warnings])
    if json_output:
        print_text(check_document_json(record, decision, machines))
    else:
        print_text(decision_text(decision))
        print_text("")
        print_text(prospects_text(machines))
        print_text("")
        print_text(run_text(record))
        if beside := beside_text(beside_of(record)):
            print_text(f"\n{beside}")
        print_text(f"\nrecord  {record_path}\nmemo    {memo_path}")
    raise typer.Exit(VERDICT_EXIT_CODES[decision.verdict.verdict])


def _model(model: str | None, demand: Demand, demand_file: Path | None, *, in_slices: bool) -> ModelFile | ShapeModel:
    from suffice.loaders.reference import resolve_model

    if model is not None:
        return resolve_model(model, in_slices=in_slices)
    if demand.model is None:
        raise UsageError(
            "which model? Give --model llama-3.1-8b:q4_k_m or --model FILE.gguf, or state 'model' in the demand"
        )
    folder = None if demand_file is None or Path(demand.model).is_absolute() else demand_file.parent
    return resolve_model(demand.model, folder=folder, in_slices=in_slices)


def _check_context(demand: Demand, model: ModelFile | ShapeModel) -> None:
    """Refuse before anything is measured: no measurement makes a model's context longer."""
    from suffice.decide.constraints import check_context

    check_context(demand, model.shape.context_length, model.shape.name)


def _default_path(model: ModelFile | ShapeModel) -> Path:
    from suffice.cli.session import model_stem

    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    stem = "".join(c if c.isalnum() or c in "-._" else "_" for c in model_stem(model))[:80]
    return _RUNS_FOLDER / f"{stem}-{moment}.json"
