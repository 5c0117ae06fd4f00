"""Predictions for devices of the catalogue: GPUs, Apple, laptops and boards.

``predict_device`` answers with a rate and the range that holds the truth in 80 of 100 cases, or with a refusal that says in numbers why there is
none: the model does not fit, a type is not supported, or an input contradicts another.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.predict.cpu import Prediction
from suffice.predict.device_calibration import DeviceCalibration, shipped_calibration
from suffice.predict.device_classes import classify
from suffice.predict.device_model import Work, decode_seconds, prefill_seconds
from suffice.predict.device_models import typical_layers
from suffice.predict.device_ratings import peak_ratio, rating_of
from suffice.predict.device_rows import predict_device_rows
from suffice.predict.device_spread import LEVEL, EngineGroup, Familiarity, engine_group
from suffice.predict.device_terms import DeviceCase
from suffice.predict.device_words import EngineFamily, engine_backend, engine_family, quant_format
from suffice.predict.machine import Phase
from suffice.units import format_bandwidth, format_memory

if TYPE_CHECKING:
    from suffice.catalogue.entries import Device
    from suffice.model.shape import ModelShape
    from suffice.predict.machine import WorkloadSpec

__all__ = ["Prediction", "Refusal", "answer", "predict_device", "predict_device_rows"]

_USABLE_SHARE: Final = (
    0.94  # of the rated memory: the rest is the driver's, and "16 GB" are 15.x GiB of which some are reserved
)
_APPLE_SHARE: Final = 0.75  # what Metal lets one process use by default
_FLOPS_PER_PARAMETER: Final = 2
_BANDWIDTHS_DIFFER: Final = (
    1.5  # a rated bandwidth that is so many times another source's is another product's, or an error
)
_COMPUTES_IN: Final = {"bf16": "bf16", "bfloat16": "bf16", "fp8": "fp8", "f8": "fp8", "fp16": "fp16", "f16": "fp16"}
_CONVERTS: Final = frozenset(
    {EngineFamily.LLAMA_CPP, EngineFamily.LLAMA_SERVER, EngineFamily.OLLAMA, EngineFamily.IK, EngineFamily.MLX}
)
_CASES: Final = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why there is no prediction, in one sentence with its numbers.

    ``needed_bytes`` and ``usable_bytes`` are given where memory is the reason.
    """

    reason: str
    needed_bytes: float | None = None
    usable_bytes: float | None = None


def predict_device(  # the device, the work, and what may be known besides
    device: Device,
    workload: WorkloadSpec,
    *,
    engine: str = "llama.cpp",
    count: int = 1,
    shape: ModelShape | None = None,
    calibration: DeviceCalibration | None = None,
) -> Prediction | Refusal:
    """Tokens per second of one stream on a device, or why there is no answer.

    Args:
        device: of the catalogue; its rated bandwidth, memory and supported types count.
        workload: what is asked. ``streamed_bytes`` are those of one step: active experts only.
        engine: as written; engines of a family are predicted alike.
        count: equal devices that share the layers. They add memory; for one stream they work in turn and add no speed.
        shape: of the model. Without it the cache counts as empty and layers as typical of the size.
        calibration: instead of the shipped one.

    Raises:
        ValueError: ``count`` is not positive, or a batch of several sequences is asked.
    """
    if count < 1 or workload.batch != 1:
        raise ValueError("one stream on one device or more is predicted: batch must be 1 and count at least 1")
    refusal = _refusal(device, workload, engine, count, shape)
    if refusal is not None:
        return refusal
    case = _case(device.name, device.kind, workload, engine)
    bandwidth = device.chip_bandwidth_bytes_per_s
    if case is None or bandwidth is None:  # both have been refused above
        return Refusal(reason=f"{device.name}: too little is known")
    work = _work(device, workload, bandwidth, count, shape)
    return answer(
        case, work, workload, calibration or shipped_calibration(), extra=_remarks(device, workload, count, shape)
    )


def answer(
    case: DeviceCase,
    work: Work,
    workload: WorkloadSpec,
    calibration: DeviceCalibration,
    *,
    extra: tuple[str, ...] = (),
) -> Prediction:
    """The prediction of a case whose work is known."""
    phase = workload.phase
    resolved = calibration.parameters.resolve(case)
    familiarity = calibration.support[phase].familiarity(case)
    spread = calibration.spreads[phase].of(familiarity, engine_group(case, work.count))
    if phase is Phase.DECODE:
        rate = 1 / decode_seconds(case, resolved, work)
        ceiling = work.bandwidth_bytes_per_s / (work.weight_bytes + work.kv_bytes)
    else:
        rate = workload.n_tokens / prefill_seconds(resolved, work, calibration.parameters.peak_exponent)
        ceiling = float("inf")
    return Prediction(
        tokens_per_second=rate,
        low=rate * spread.low_factor,
        high=max(rate, min(rate * spread.high_factor, ceiling)),  # no truth is above what the bandwidth can move
        level=LEVEL,
        rests_on=_rests_on(case, familiarity, calibration, phase),
        wide_because=(*_wide_because(case, familiarity, work), *extra),
    )


@lru_cache(maxsize=_CASES)
def _engine_words(engine: str) -> tuple[EngineFamily, str | None]:
    return engine_family(engine), engine_backend(engine)


def _case(name: str, kind: str, workload: WorkloadSpec, engine: str) -> DeviceCase | None:
    known = quant_format(workload.quant)
    if known is None:
        return None
    family, backend = _engine_words(engine)
    active = workload.active_parameters
    return DeviceCase(
        device=classify(name, _law_of(name, kind)),
        quant=known.family,
        engine=family,
        backend=backend,
        moe=active is not None and active < workload.parameters,
    )


def _law_of(name: str, kind: str) -> str:
    """Which devices are alike: an Apple chip is bought as one thing, and its GPU is what engines use."""
    if "apple" in name.lower() and kind in ("soc", "apple", "gpu"):
        return "apple"
    return "cpu" if kind in ("soc", "platform", "cpu-class") else kind


def _work(device: Device, workload: WorkloadSpec, bandwidth: float, count: int, shape: ModelShape | None) -> Work:
    peak = device.dense_bf16_flop_per_s
    flop = kv = None
    if workload.phase is Phase.PREFILL:
        flop = None if shape is None else shape.prefill_flops(workload.n_tokens, workload.depth)
        if flop is None:
            flop = _FLOPS_PER_PARAMETER * (workload.active_parameters or workload.parameters) * workload.n_tokens
    elif shape is not None:
        kv = shape.kv_read_bytes(workload.depth + workload.n_tokens // 2)
    return Work(
        bandwidth_bytes_per_s=bandwidth,
        weight_bytes=workload.streamed_bytes,
        kv_bytes=kv or 0.0,
        layers=typical_layers(workload.parameters) if shape is None else float(shape.n_layer),
        flop=flop or 0.0,
        peak_ratio=peak_ratio(device.name, device.kind, bandwidth, None if peak is None else peak.value / device.chips),
        count=count,
    )


def _refusal(
    device: Device, workload: WorkloadSpec, engine: str, count: int, shape: ModelShape | None
) -> Refusal | None:
    if device.bandwidth_bytes_per_s is None:
        return Refusal(reason=f"{device.name}: its memory bandwidth is not known, so its decode rate is not either")
    if device.kind == "npu":
        return Refusal(reason=f"{device.name}: no public measurement of this kind of device is calibrated; measure it")
    if quant_format(workload.quant) is None:
        return Refusal(reason=f"{workload.quant!r} is no format that is known")
    return (
        _contradiction(device)
        or _unsupported(device, workload, engine_family(engine))
        or _too_large(device, workload, count, shape)
    )


def _contradiction(device: Device) -> Refusal | None:
    """Two sources of one bandwidth that cannot both be right."""
    rated = device.chip_bandwidth_bytes_per_s
    rating = rating_of(device.name, _law_of(device.name, device.kind))
    others = [device.channel_bandwidth_bytes_per_s, None if rating is None else rating.bandwidth_bytes_per_s]
    for other in others:
        if rated is not None and other is not None and not 1 / _BANDWIDTHS_DIFFER < rated / other < _BANDWIDTHS_DIFFER:
            return Refusal(
                reason=f"{device.name}: {format_bandwidth(rated)} is stated, {format_bandwidth(other)} is what another source or its "
                "memory channels give; one of the two is wrong, and nothing is predicted from either"
            )
    return None


def _unsupported(device: Device, workload: WorkloadSpec, family: EngineFamily) -> Refusal | None:
    dtype = _COMPUTES_IN.get(workload.quant.strip().lower())
    if dtype is None or family in _CONVERTS or device.supports(dtype) is not False:
        return None
    return Refusal(
        reason=f"{device.name} does not multiply in {dtype.upper()}, which {family.value} needs for {workload.quant}; "
        "take another format or another device"
    )


def _too_large(device: Device, workload: WorkloadSpec, count: int, shape: ModelShape | None) -> Refusal | None:
    size = device.memory_max_bytes
    if size is None:
        return None
    needed = _needed_bytes(workload, shape)
    share = _APPLE_SHARE if _law_of(device.name, device.kind) == "apple" else _USABLE_SHARE
    usable = share * size * count
    if needed <= usable:
        return None
    return Refusal(
        reason=f"does not fit: {format_memory(needed)} of weights and cache are needed, {count} x {device.name} have "
        f"{format_memory(usable)} that an engine can use",
        needed_bytes=needed,
        usable_bytes=usable,
    )


def _needed_bytes(workload: WorkloadSpec, shape: ModelShape | None) -> float:
    weights = workload.file_bytes or (workload.streamed_bytes if shape is None else float(shape.tensor_bytes))
    cache = None if shape is None else shape.kv_cache_bytes(workload.depth + workload.n_tokens)
    return weights + (cache or 0.0)


def _remarks(device: Device, workload: WorkloadSpec, count: int, shape: ModelShape | None) -> tuple[str, ...]:
    remarks = []
    if count > 1:
        remarks.append(
            f"{count} devices share the layers: they add memory, and one stream passes them in turn, so that they add no speed"
        )
    if shape is None and workload.depth > 0:
        remarks.append("the model's shape is not known: reading the cache at this depth is not counted")
    least = device.memory_min_bytes
    if least is None:
        remarks.append("its memory is not known: whether the model fits was not checked")
    elif _needed_bytes(workload, shape) > least * _USABLE_SHARE * count:
        remarks.append(f"fits the larger of its memory sizes only, not {format_memory(least)}")
    return tuple(remarks)


def _rests_on(
    case: DeviceCase, familiarity: Familiarity, calibration: DeviceCalibration, phase: Phase
) -> tuple[str, ...]:
    support = calibration.support[phase]
    said = []
    if case.device.key is not None and support.rows.get(case.device.key, 0) > 0:
        said.append(f"{support.rows[case.device.key]} measured rows of {case.device.key}")
    for step in reversed(case.device.path):
        if support.products.get(step, 0) > 0:
            said.append(f"{support.products[step]} products of {step}")
            break
    cell = calibration.spreads[phase].of(familiarity, engine_group(case))
    said.append(f"range: errors of {cell.rows} rows that had been left out")
    return tuple(said)


def _wide_because(case: DeviceCase, familiarity: Familiarity, work: Work) -> tuple[str, ...]:
    reasons = []
    if familiarity is not Familiarity.PRODUCT:
        reasons.append(f"the device itself was not measured; what is known is {familiarity.value}")
    group = engine_group(case, work.count)
    if group is EngineGroup.FRAMEWORK:
        reasons.append("Python starts each kernel: the host decides, which is not described here")
    elif group is EngineGroup.RARE:
        reasons.append("formats of 1 to 3 bits are bound by unpacking, which differs from kernel to kernel")
    elif group is EngineGroup.MOE:
        reasons.append("mixtures of experts read small matrices that are chosen late")
    if len(case.device.path) == 1:
        reasons.append("the name of the device says nothing of its generation")
    return tuple(reasons)
