"""``suffice measure``: speed of a model on this machine, as a run record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options

if TYPE_CHECKING:
    from suffice.records.schema import RunRecord


def measure(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="A GGUF file, sample:smollm2-135m, or llama-bench's -o json output.")
    ],
    budget: options.Budget = "40s",  # type: ignore[assignment]  # parsed by Typer
    prompt_tokens: options.PromptTokens = None,
    depth: options.Depth = None,
    threads: options.Threads = None,
    prompt: options.PromptFile = None,
    out: options.Out = None,
    resume: options.Resume = False,
    engine: options.EngineName = None,
    engine_library: options.EngineLibrary = None,
    gpu_layers: options.GpuLayers = 0,
    ubatch: options.Ubatch = 512,
    kv_type: options.KvType = "f16",
    flash_attention: options.FlashAttention = "auto",
    mmap: options.Mmap = True,
    json_output: options.Json = False,
) -> None:
    """Measure prefill, decode and time to first token of a model on this machine with llama.cpp.

    Raw samples of every step are kept; medians come with 95 % intervals; the machine's bandwidth is read before and after.

    Example: suffice measure model.gguf --budget 30s --out run.json
    """
    from suffice.cli.output import Progress, print_text, warn
    from suffice.cli.paths import check_outputs
    from suffice.loaders.llama_bench import is_llama_bench_file, load_llama_bench

    if is_llama_bench_file(model):
        check_outputs({"--out": out}, [model])
        record = load_llama_bench(model)
        _save(record, out)
    else:
        from suffice.cli.session import EngineChoice, run_and_save
        from suffice.loaders.model_file import resolve_model
        from suffice.measure.request import DEFAULT_PROMPT_TOKENS, RunRequest

        model_file = resolve_model(model)
        check_outputs({"--out": out}, [*model_file.parts, prompt, engine_library])
        request = RunRequest(
            model=model_file,
            budget_s=budget,
            prompt_tokens=prompt_tokens or DEFAULT_PROMPT_TOKENS,
            depth=depth or 0,
            lengths_stated=prompt_tokens is not None or depth is not None,
            threads=threads,
            prompt=options.read_prompt(prompt),
            n_batch=ubatch,
            n_ubatch=ubatch,
            type_k=kv_type,
            type_v=kv_type,
            flash_attention=flash_attention,
            use_mmap=mmap,
            n_gpu_layers=gpu_layers,
        )
        with Progress() as progress:
            record = run_and_save(
                request, EngineChoice(name=engine, library=engine_library), out, progress, resume=resume
            )
    warn(record.warnings)
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
