"""``suffice ceiling``: arithmetic only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.model.ceiling import Ceiling, Workload
    from suffice.model.roofline import Roofs
    from suffice.model.shape import ModelShape

_DEFAULT_PROMPT_TOKENS = 512
_BANDWIDTH_BUDGET_S = 4.0


def ceiling(
    bandwidth: Annotated[float | None, typer.Option("--bandwidth", help="Memory bandwidth in GB/s (10^9).")] = None,
    weights: Annotated[float | None, typer.Option("--weights", help="Weights read per token, in GB (10^9).")] = None,
    model: options.ModelOption = None,
    device: Annotated[
        str | None, typer.Option("--device", help="A device of the catalogue, such as a100-sxm4-80, for its bandwidth.")
    ] = None,
    tflops: Annotated[
        float | None, typer.Option("--tflops", help="Peak compute in TFLOP/s (10^12), for the compute roof.")
    ] = None,
    depth: Annotated[int, typer.Option("--depth", min=0, help="Tokens in the cache while decoding.")] = 0,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences that decode together.")] = 1,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", min=1)] = _DEFAULT_PROMPT_TOKENS,
    ubatch: options.Ubatch = 512,
    kv_type: options.KvType = "f16",
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Also draw the roofline: FILE.svg or FILE.png (matplotlib)."),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Most tokens per second that physics allows: bandwidth over bytes, operations over peak.

    Give --weights, or --model to read everything from a GGUF header. Without --bandwidth the memory of this machine is
    measured first.

    Example: suffice ceiling --bandwidth 40 --weights 3.5
    """
    from suffice.loaders.reference import resolve_model
    from suffice.model.ceiling import Workload, ceiling_of_bytes
    from suffice.units import GIGA

    if (weights is None) == (model is None):
        raise UsageError("give either --weights in GB or --model with a shape or a GGUF file")
    if chart is not None:
        _check_chart(chart, model)
    shape = None if model is None else resolve_model(model).shape  # before any measuring
    if model is None and (batch != 1 or depth != 0):
        raise UsageError("--batch and --depth need a --model: without one the KV cache is not known")
    machine = _machine(bandwidth, device, tflops)
    if shape is not None and shape.context_length is not None and max(depth, prompt_tokens) > shape.context_length:
        raise UsageError(
            f"--depth {depth} and --prompt-tokens {prompt_tokens}: this model was made for {shape.context_length} tokens"
        )
    if shape is not None:
        workload = Workload(
            depth=depth, batch=batch, prompt_tokens=prompt_tokens, n_ubatch=ubatch, type_k=kv_type, type_v=kv_type
        )
        result, facts = _of_model(shape, machine.roofs, workload)
        facts |= _memory(shape, workload, machine)
        if chart is not None:
            _draw(chart, shape, workload, machine)
    else:
        result = ceiling_of_bytes(options.positive(weights or 0.0, "--weights") * GIGA, machine.roofs)
        facts = {}
    _print(result, machine, facts, json_output=json_output)


@dataclass(frozen=True, slots=True)
class _Machine:
    """Roofs, where the bandwidth comes from, and memory that a model may take (None: nobody said which machine)."""

    roofs: Roofs
    source: str
    memory_bytes: int | None = None
    memory_source: str | None = None


def _machine(bandwidth: float | None, device: str | None, tflops: float | None) -> _Machine:
    """Stated, of a device, or this machine, whose bandwidth is measured."""
    from suffice.cli.output import Progress
    from suffice.model.roofline import Roofs
    from suffice.units import GIGA, TERA

    peak = None if tflops is None else options.positive(tflops, "--tflops") * TERA
    if bandwidth is not None and device is not None:
        raise UsageError("give --bandwidth or --device, not both")
    if bandwidth is not None:
        value = options.positive(bandwidth, "--bandwidth") * GIGA
        return _Machine(Roofs(bandwidth_bytes_per_s=value, peak_flop_per_s=peak), "stated")
    if device is not None:
        return _device(device, peak)
    from suffice.measure.machine import RealMachine  # loads NumPy

    machine = RealMachine()
    with Progress() as progress:
        measured = machine.bandwidth(budget_s=_BANDWIDTH_BUDGET_S, progress=progress)
    roofs = Roofs(bandwidth_bytes_per_s=measured.read_bytes_per_s, peak_flop_per_s=peak)
    return _Machine(roofs, "measured", machine.facts().memory_usable_bytes, "this machine can use now")


def _device(name: str, peak: float | None) -> _Machine:
    """Its bandwidth only: the rated BF16 rate is no ceiling for engines that multiply in 8 bits, so the user states one."""
    from suffice.catalogue.devices import device_named
    from suffice.model.roofline import Roofs

    found = device_named(name)
    rated = found.bandwidth_bytes_per_s
    if rated is None:
        raise UsageError(f"the bandwidth of {found.name} is not known; give --bandwidth")
    source = f"{found.name}, {rated.kind}, seen {rated.seen}"
    roofs = Roofs(bandwidth_bytes_per_s=rated.value, peak_flop_per_s=peak)
    memory = None if found.memory_bytes is None else round(found.memory_bytes)
    return _Machine(roofs, source, memory, f"{found.name} has, before its own reserve")


def _memory(shape: ModelShape, workload: Workload, machine: _Machine) -> dict[str, Any]:
    """What the model takes at these lengths, and whether that fits; buffers of the engine come on top."""
    context = max(workload.depth, workload.prompt_tokens)
    kv_bytes = shape.kv_cache_bytes(
        context, workload.type_k, workload.type_v, sequences=workload.batch, micro_batch=workload.n_ubatch
    )
    needed = None if kv_bytes is None else shape.tensor_bytes + kv_bytes
    known = needed is not None and machine.memory_bytes is not None
    return {
        "memory_needed_bytes": needed,
        "memory_context_tokens": context,
        "memory_available_bytes": machine.memory_bytes,
        "memory_source": machine.memory_source,
        "fits": (needed or 0.0) <= (machine.memory_bytes or 0) if known else None,
    }


def _of_model(shape: ModelShape, roofs: Roofs, workload: Workload) -> tuple[Ceiling, dict[str, Any]]:
    from suffice.model.ceiling import ceiling_of_model

    facts = {
        "model": shape.name,
        "architecture": shape.architecture,
        "parameters": shape.parameters,
        "active_parameters": round(shape.active_parameters),
        "file_bytes": shape.file_bytes,
        "tensor_bytes_by_type": dict(shape.bytes_by_type),
        "context_length": shape.context_length,
        "kv_unknown_reason": shape.kv.unknown_reason,
        "flops_per_token": shape.flops_per_token(workload.depth + 1),
        "workload": {
            "depth": workload.depth,
            "batch": workload.batch,
            "prompt_tokens": workload.prompt_tokens,
            "ubatch": workload.n_ubatch,
            "kv_type": workload.type_k,
        },
    }
    return ceiling_of_model(shape, roofs, workload), facts


def _check_chart(chart: Path, model: str | None) -> None:
    from suffice.cli.paths import check_outputs
    from suffice.report.pictures import check_chart

    if model is None:
        raise UsageError("--chart needs a --model: bytes alone say nothing of operations")
    check_chart(chart)
    check_outputs({"--chart": chart}, [Path(model)])


def _draw(chart: Path, shape: ModelShape, workload: Workload, machine: _Machine) -> None:
    from suffice.model.ceiling import decode_phase, prefill_phase
    from suffice.report.roofline_chart import RooflinePoint, write_roofline

    points = [
        RooflinePoint(label=f"decode of {batch} at depth {workload.depth}", work=decode_phase(shape, one))
        for batch in dict.fromkeys((1, workload.batch))
        for one in [replace(workload, batch=batch)]
    ]
    points.append(RooflinePoint(label=f"prefill of {workload.prompt_tokens}", work=prefill_phase(shape, workload)))
    write_roofline(chart, machine.roofs, points, f"{shape.name} ({machine.source})")


def _print(ceiling: Ceiling, machine: _Machine, facts: dict[str, Any], *, json_output: bool) -> None:
    from suffice.cli.output import print_json, print_text
    from suffice.report.ceiling import ceiling_text

    if json_output:
        print_json(
            {
                "decode_tokens_per_second": ceiling.decode_tokens_per_second,
                "prefill_tokens_per_second": ceiling.prefill_tokens_per_second,
                "ttft_s": ceiling.ttft_s,
                "streamed_bytes": ceiling.streamed_bytes,
                "kv_read_bytes": ceiling.kv_read_bytes,
                "kv_bytes_per_token": ceiling.kv_bytes_per_token,
                "bound": ceiling.bound.value,
                "prefill_bound": None if ceiling.prefill_bound is None else ceiling.prefill_bound.value,
                "basis": "ceiling",
                "bandwidth_bytes_per_s": machine.roofs.bandwidth_bytes_per_s,
                "bandwidth_basis": machine.source,
                "peak_flop_per_s": machine.roofs.peak_flop_per_s,
                **facts,
            }
        )
        return
    print_text(ceiling_text(ceiling, machine.roofs, machine.source, facts))
