"""``suffice ceiling``: arithmetic only."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.catalogue.catalogue import Catalogue
    from suffice.cli.targets import Target, TargetOptions
    from suffice.decide.quantity import Quantity
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.ceiling import Ceiling, Workload
    from suffice.model.shape import ModelShape

_DEFAULT_PROMPT_TOKENS = 512


def ceiling(
    bandwidth: Annotated[float | None, typer.Option("--bandwidth", help="Memory bandwidth in GB/s (10^9).")] = None,
    weights: Annotated[float | None, typer.Option("--weights", help="Weights read per token, in GB (10^9).")] = None,
    model: options.ModelOption = None,
    device: Annotated[
        str | None, typer.Option("--device", help="A device of the catalogue, such as a100-sxm4-80 or l20.")
    ] = None,
    instance: Annotated[
        str | None, typer.Option("--instance", help="A machine to rent, such as c7i.4xlarge or ecs.gn7e-c16g1.4xlarge.")
    ] = None,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, help="So many of the device (GPUs, sockets).")] = 1,
    dtype: Annotated[
        str | None,
        typer.Option(
            "--dtype", help="What the engine multiplies in (bf16, int8, ...): a device without it is refused."
        ),
    ] = None,
    tflops: Annotated[
        float | None, typer.Option("--tflops", help="Peak compute in TFLOP/s (10^12), instead of the device's own.")
    ] = None,
    depth: Annotated[int, typer.Option("--depth", min=0, help="Tokens in the cache while decoding.")] = 0,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Sequences that decode together.")] = 1,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", min=1, help="Of the prompt whose prefill is bounded.")
    ] = _DEFAULT_PROMPT_TOKENS,
    ubatch: options.Ubatch = 512,
    kv_type: options.KvType = "f16",
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Also draw the roofline: FILE.svg or FILE.png (matplotlib)."),
    ] = None,
    catalog: options.OwnCatalogue = None,
    json_output: options.Json = False,
) -> None:
    """Most tokens per second that physics allows: bandwidth over bytes, operations over peak.

    Give --weights, or --model for a shape or a GGUF header. The machine is a --bandwidth, a --device or an --instance of the catalogue;
    without any the memory of this machine is measured first.

    Example: suffice ceiling --model llama-3.1-70b:q4_k_m --device l20 --count 2
    """
    from suffice.cli.targets import TargetOptions, target_of
    from suffice.loaders.catalogue import load_catalogue
    from suffice.loaders.reference import resolve_model
    from suffice.model.ceiling import Workload, ceiling_of_bytes
    from suffice.units import GIGA

    if (weights is None) == (model is None):
        raise UsageError("give either --weights in GB or --model with a shape or a GGUF file")
    if chart is not None:
        _check_chart(chart, model)
    resolved = None if model is None else resolve_model(model)  # before any measuring
    shape = None if resolved is None else resolved.shape
    if model is None and (batch != 1 or depth != 0):
        raise UsageError("--batch and --depth need a --model: without one the KV cache is not known")
    asked = TargetOptions(
        bandwidth=bandwidth, device=device, instance=instance, count=count, tflops=tflops, dtype=dtype
    )
    catalogue = load_catalogue(catalog).catalogue
    target = target_of(asked, catalogue)
    if shape is not None and shape.context_length is not None and max(depth, prompt_tokens) > shape.context_length:
        raise UsageError(
            f"--depth {depth} and --prompt-tokens {prompt_tokens}: this model was made for {shape.context_length} tokens"
        )
    if shape is not None:
        workload = Workload(
            depth=depth, batch=batch, prompt_tokens=prompt_tokens, n_ubatch=ubatch, type_k=kv_type, type_v=kv_type
        )
        result, facts = _of_model(shape, target, workload)
        facts |= _memory(shape, workload, target)
        if resolved is not None and batch == 1:
            facts["predicted"] = _predicted(asked, catalogue, resolved, workload)
            facts["contradictions"] = _contradictions(result, facts["predicted"], target)
        if chart is not None:
            _draw(chart, shape, workload, target)
    else:
        result = ceiling_of_bytes(options.positive(weights or 0.0, "--weights") * GIGA, target.roofs)
        facts = {}
    _print(result, target, facts, json_output=json_output)


def _memory(shape: ModelShape, workload: Workload, target: Target) -> dict[str, Any]:
    """What the model takes at these lengths, and whether that fits; buffers of the engine come on top."""
    context = max(workload.depth, workload.prompt_tokens)
    kv_bytes = shape.kv_cache_bytes(
        context, workload.type_k, workload.type_v, sequences=workload.batch, micro_batch=workload.n_ubatch
    )
    needed = None if kv_bytes is None else shape.tensor_bytes + kv_bytes
    known = needed is not None and target.memory_bytes is not None
    return {
        "memory_needed_bytes": needed,
        "memory_context_tokens": context,
        "memory_available_bytes": target.memory_bytes,
        "memory_source": target.memory_source,
        "fits": (needed or 0.0) <= (target.memory_bytes or 0) if known else None,
    }


def _of_model(shape: ModelShape, target: Target, workload: Workload) -> tuple[Ceiling, dict[str, Any]]:
    from suffice.model.ceiling import ceiling_of_model

    facts: dict[str, Any] = {
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
        "experts_touched": _experts(shape, workload.batch),
    }
    if target.count > 1:
        one = ceiling_of_model(shape, target.one, workload)
        facts["split_by_layers_decode_tokens_per_second"] = one.decode_tokens_per_second
    return ceiling_of_model(shape, target.roofs, workload), facts


def _experts(shape: ModelShape, batch: int) -> dict[str, float] | None:
    """Experts of a layer that a step of the batch reads when routing is even, E(1-(1-k/E)^B); None without experts."""
    coverage = shape.expert_coverage(batch)
    return None if coverage is None else {"touched": coverage[0], "count": coverage[1], "batch": batch}


def _predicted(
    asked: TargetOptions, catalogue: Catalogue, model: ModelFile | ShapeModel, workload: Workload
) -> dict[str, Any] | None:
    """What is to be expected of a device or a machine to rent, below its ceiling; None where nothing can be said."""
    from suffice.loaders.prospects import device_prospect, prospects_of, support_of
    from suffice.model.demand import StreamLengths

    lengths = StreamLengths(prompt_tokens=workload.prompt_tokens, depth=workload.depth)
    kv_type = workload.type_k
    if asked.device is not None:
        try:
            found = device_prospect(
                catalogue.device_named(asked.device), model, lengths, count=asked.count, kv_type=kv_type
            )
        except UsageError as error:
            return {"reason": str(error)}
    elif asked.instance is not None:
        machine = catalogue.instance_named(asked.instance)
        prospects = prospects_of([machine], catalogue, model, lengths, kv_type=kv_type)
        if not prospects:
            return None
        found = prospects[0]
        if not found.rests_on:
            found = replace(found, rests_on=support_of(machine, model, lengths))
    else:
        return None
    evidence = found.evidence
    decode = evidence.decode[0].rate if evidence.decode else None
    ttft = evidence.time_to_first_token(workload.prompt_tokens)
    return {
        "decode": _range(decode),
        "prefill": _range(evidence.prefill_rate),
        "ttft_s": None if ttft is None else ttft.point,
        "rests_on": list(found.rests_on),
    }


def _contradictions(ceiling: Ceiling, predicted: dict[str, Any] | None, target: Target) -> list[str]:
    """Figures above the ceiling: one of the two is wrong, and nothing is clamped."""
    found = []
    for phase, limit in (
        ("decode", ceiling.decode_tokens_per_second),
        ("prefill", ceiling.prefill_tokens_per_second if target.roofs.peak_flop_per_s is not None else None),
    ):
        rate = (predicted or {}).get(phase)
        if rate is not None and limit is not None and rate["tokens_per_second"] > limit:
            found.append(
                f"{phase} {rate['basis']}, {rate['tokens_per_second']:.4g} tokens/s, is above the ceiling of {limit:.4g}: doubt the bandwidth or the "
                f"rate behind it ({target.source})"
            )
    return found


def _range(rate: Quantity | None) -> dict[str, Any] | None:
    if rate is None:
        return None
    return {
        "tokens_per_second": rate.point,
        "low": rate.low,
        "high": rate.high,
        "level": 0.8,
        "basis": rate.basis.value,
    }


def _check_chart(chart: Path, model: str | None) -> None:
    from suffice.cli.paths import check_outputs
    from suffice.report.pictures import check_chart

    if model is None:
        raise UsageError("--chart needs a --model: bytes alone say nothing of operations")
    check_chart(chart)
    check_outputs({"--chart": chart}, [Path(model)])


def _draw(chart: Path, shape: ModelShape, workload: Workload, target: Target) -> None:
    from suffice.model.ceiling import decode_phase, prefill_phase
    from suffice.report.roofline_chart import RooflinePoint, write_roofline

    points = [
        RooflinePoint(label=f"decode of {batch} at depth {workload.depth}", work=decode_phase(shape, one))
        for batch in dict.fromkeys((1, workload.batch))
        for one in [replace(workload, batch=batch)]
    ]
    points.append(RooflinePoint(label=f"prefill of {workload.prompt_tokens}", work=prefill_phase(shape, workload)))
    write_roofline(chart, target.roofs, points, f"{shape.name} ({target.source})")


def _print(ceiling: Ceiling, target: Target, facts: dict[str, Any], *, json_output: bool) -> None:
    from suffice.cli.output import print_json, print_text
    from suffice.report.ceiling import ceiling_text

    machine = {
        "bandwidth_bytes_per_s": target.roofs.bandwidth_bytes_per_s,
        "bandwidth_basis": target.source,
        "peak_flop_per_s": target.roofs.peak_flop_per_s,
        "peak_basis": target.peak_source,
        "device_count": target.count,
        "notes": list(target.notes),
    }
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
                **machine,
                **facts,
            }
        )
        return
    print_text(ceiling_text(ceiling, machine, facts))
