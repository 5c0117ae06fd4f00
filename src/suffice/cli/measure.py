"""``suffice measure``: speed of a model on this machine, as a run record."""

from __future__ import annotations

import shlex
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord


def measure(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL",
            help="A shape (llama-3.1-8b:q4_k_m; nothing is downloaded), a GGUF file, or llama-bench's -o json output.",
        ),
    ],
    budget: options.Budget = None,
    prompt_tokens: options.PromptTokens = None,
    depth: options.Depth = None,
    threads: options.Threads = None,
    prompt: options.PromptFile = None,
    out: options.Out = None,
    resume: options.Resume = False,
    engine: options.EngineName = None,
    engine_library: options.EngineLibrary = None,
    gpu_layers: options.GpuLayers = 0,
    batch: options.Batch = 1,
    slots: options.Slots = None,
    numa_node: options.OnNode = None,
    per_node: options.PerNode = False,
    ubatch: options.Ubatch = 512,
    kv_type: options.KvType = "f16",
    flash_attention: options.FlashAttention = "auto",
    mmap: options.Mmap = True,
    in_slices: options.InSlices = False,
    json_output: options.Json = False,
) -> None:
    """Measure prefill, decode and time to first token of a model on this machine with llama.cpp.

    A model that is not here is stood in for: slices of its layers, with its true shapes and types and random weights, are written to
    a cache, run, and extrapolated to all layers. Raw samples of every step are kept; medians come with 95 % intervals; the machine's
    bandwidth is read before and after.

    Example: suffice measure llama-3.1-70b:q4_k_m --out run.json
    """
    from suffice.cli.output import Progress, print_text, warn
    from suffice.cli.paths import check_outputs
    from suffice.loaders.llama_bench import is_llama_bench_file, load_llama_bench

    if is_llama_bench_file(Path(model)):
        check_outputs({"--out": out}, [Path(model)])
        record = load_llama_bench(Path(model))
        _save(record, out)
    else:
        from suffice.cli.asked import RunOptions, nodes_of
        from suffice.cli.session import EngineChoice, run_and_save
        from suffice.loaders.reference import resolve_model

        nodes = nodes_of(numa_node, per_node=per_node)
        model_file = resolve_model(model, in_slices=in_slices)
        check_outputs({"--out": out}, [*model_file.parts, prompt, engine_library])
        run_options = RunOptions(
            budget_s=budget,
            prompt_tokens=prompt_tokens,
            depth=depth or 0,
            threads=threads,
            prompt=prompt,
            batch=batch,
            slots=slots or 1,
            ubatch=ubatch,
            kv_type=kv_type,
            flash_attention=flash_attention,
            mmap=mmap,
            gpu_layers=gpu_layers,
            nodes=nodes,
        )
        request = run_options.request(model_file, None)
        with Progress() as progress:
            record = run_and_save(
                request, EngineChoice(name=engine, library=engine_library), out, progress, resume=resume
            )
    warn(record.warnings)
    _say_next(record, out)
    if json_output:
        from suffice.records.store import to_json

        print_text(to_json(record).rstrip())
        return
    from suffice.report.run import run_text

    print_text(run_text(record))


def _save(record: RunRecord, out: Path | None) -> None:
    from suffice.records.store import save_record

    if out is not None:
        save_record(record, out)


def _say_next(record: RunRecord, out: Path | None) -> None:
    """Where the record is and what reads it, on stderr; how to keep it, where it was not written."""
    from suffice.report.tables import one_line
    from suffice.serving.recorded import passes_that_count

    if out is None:
        text = "the record was not kept; give --out FILE, and `suffice decide DEMAND FILE` gives a verdict from it"
    else:
        file = shlex.quote(str(out))
        passes = passes_that_count(record)
        load = f", or suffice simulate --curve {file} --rate 1" if passes.decode and passes.prefill else ""
        text = f"record: {file}; next: suffice decide DEMAND {file}{load}"
    with suppress(OSError, ValueError):  # a line that cannot be written is no reason to lose a result
        typer.echo(one_line(text), err=True)
