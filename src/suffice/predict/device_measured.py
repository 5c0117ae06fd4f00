"""Rows of published measurements, as the law takes them: what was read, on what, by which engine, and how long it took.

Columns are those of ``measured.csv``: id, hardware, kind, mem_bandwidth_gb_s, threads_or_gpus, engine, engine_version, model, arch_params_b, quant,
weights_gib, n_prompt, n_gen, depth_or_context, batch, prefill_tok_s, decode_tok_s, source, notes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.predict.device_classes import classify
from suffice.predict.device_fit import Observation
from suffice.predict.device_model import Work
from suffice.predict.device_models import StepBytes, step_bytes
from suffice.predict.device_ratings import peak_ratio, rating_of
from suffice.predict.device_terms import DeviceCase
from suffice.predict.device_words import EngineFamily, QuantFamily, engine_backend, engine_family, quant_format
from suffice.units import GIB, GIGA, format_bandwidth, format_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

# Flags that say that a row is no measurement of one stream of one dense model on one device, or that a figure in it is wrong.
WRONG: Final = frozenset({"impossible", "outlier", "weights_not_all_read", "weak_host"})
OTHER_QUESTION: Final = frozenset({"batched", "moe", "multi_gpu"})
# Flags that say that what bounds the row is not the bandwidth that it states.
NOT_THE_BANDWIDTH: Final = frozenset({"few_threads", "bandwidth_doubtful", "soc_bandwidth", "numa", "bw_mem_doubtful"})
_FLAGS: Final = re.compile(r"^\[flags:([^\]]*)\]")
_NODES: Final = re.compile(r"x\d+ nodes")
_WHOLE_REQUEST: Final = re.compile(r"tokens/s over the whole request")
_KINDS: Final = frozenset({"gpu", "apple", "cpu"})
_FLOPS_PER_PARAMETER: Final = 2
_ROUNDING: Final = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRow:
    """A published row. ``decode`` and ``prefill`` are None where it does not say them, or ``refusal`` why it cannot be used."""

    id: str
    hardware: str
    kind: str
    engine: str
    model: str
    quant: str
    flags: frozenset[str]
    source: str
    decode: Observation | None = None
    prefill: Observation | None = None
    refusal: str | None = None

    @property
    def usable(self) -> bool:
        """Whether it may calibrate: nothing is known to be wrong with it, and it answers the question that the law answers."""
        return self.refusal is None and not self.flags & (WRONG | OTHER_QUESTION | NOT_THE_BANDWIDTH)

    @property
    def usable_moe(self) -> bool:
        """As :attr:`usable`, for a mixture of experts whose active bytes are known."""
        case = self.case
        return (
            case is not None
            and case.moe
            and self.refusal is None
            and not self.flags & (WRONG | NOT_THE_BANDWIDTH | (OTHER_QUESTION - {"moe"}))
        )

    @property
    def case(self) -> DeviceCase | None:
        """Its class, format and engine."""
        row = self.decode or self.prefill
        return None if row is None else row.case

    @property
    def contradiction(self) -> str | None:
        """What is impossible about the decode rate, in words; None: it is below its ceiling, or there is none."""
        if self.decode is None:
            return None
        return above_ceiling(self.decode.work, 1 / self.decode.measured_s)

    @property
    def product(self) -> str:
        """The product in one spelling: what must not be in a training set when it is to be predicted."""
        case = self.case
        return self.hardware if case is None or case.device.key is None else case.device.key


def read_measured(row: Mapping[str, str]) -> MeasuredRow:
    """A row of ``measured.csv``."""
    match = _FLAGS.match(row["notes"])
    flags = frozenset(match[1].split(",")) if match else frozenset()
    parameters, size = _number(row["arch_params_b"], GIGA), _number(row["weights_gib"], GIB)
    step = step_bytes(row["model"], row["quant"], size, parameters)
    bandwidth = _number(row["mem_bandwidth_gb_s"], GIGA) or _rated(row)
    refusal = _refusal(row, step, bandwidth)
    if refusal is not None or step is None or bandwidth is None:
        return _labelled(row, flags, refusal=refusal)
    case = DeviceCase(
        device=classify(row["hardware"], row["kind"]),
        quant=_family(row["quant"]),
        engine=engine_family(row["engine"]) if row["engine"] else EngineFamily.OTHER,
        backend=engine_backend(row["engine"]),
        moe=step.shape is not None and step.shape.is_moe,
    )
    return _labelled(
        row,
        flags,
        decode=_decode(row, case, step, bandwidth),
        prefill=_prefill(row, case, step, bandwidth, parameters),
    )


def _labelled(
    row: Mapping[str, str],
    flags: frozenset[str],
    *,
    decode: Observation | None = None,
    prefill: Observation | None = None,
    refusal: str | None = None,
) -> MeasuredRow:
    return MeasuredRow(
        id=row["id"],
        hardware=row["hardware"],
        kind=row["kind"],
        engine=row["engine"],
        model=row["model"],
        quant=row["quant"],
        flags=flags,
        source=row["source"],
        decode=decode,
        prefill=prefill,
        refusal=refusal,
    )


def above_ceiling(work: Work, tokens_per_second: float) -> str | None:
    """What is impossible about a decode rate; None: nothing, the bandwidth can move that many bytes.

    A few per cent are left to rounded bandwidths and printed sizes.
    """
    needed = work.weight_bytes * tokens_per_second
    if needed <= work.bandwidth_bytes_per_s * (1 + _ROUNDING):
        return None
    return (
        f"{tokens_per_second:.4g} tokens/s of {format_bytes(work.weight_bytes)} each are {format_bandwidth(needed)}, more than the rated "
        f"{format_bandwidth(work.bandwidth_bytes_per_s)}: doubt the rate, the bandwidth, or how much of the file a step reads"
    )


def _rated(row: Mapping[str, str]) -> float | None:
    rating = rating_of(row["hardware"], row["kind"])
    return None if rating is None else rating.bandwidth_bytes_per_s


def _refusal(row: Mapping[str, str], step: StepBytes | None, bandwidth: float | None) -> str | None:
    reasons = (
        (row["kind"] not in _KINDS, f"a device of kind {row['kind']!r} is not calibrated"),
        (_NODES.search(row["hardware"]) is not None, "several machines"),
        (
            _WHOLE_REQUEST.search(row["notes"]) is not None,
            "the rate is that of whole requests, prefill included: a lower bound of decode",
        ),
        (row["batch"].strip() not in ("1", "1.0"), "more than one stream, or not said"),
        (step is None, "neither the size nor the format of the model is known"),
        (bandwidth is None, "the memory bandwidth is not known"),
    )
    return next((reason for holds, reason in reasons if holds), None)


def _family(quant: str) -> QuantFamily:
    known = quant_format(quant)
    if known is None:
        raise ValueError(f"{quant!r} is no known format")  # _refusal has answered before
    return known.family


def _decode(row: Mapping[str, str], case: DeviceCase, step: StepBytes, bandwidth: float) -> Observation | None:
    rate = _number(row["decode_tok_s"], 1)
    if rate is None:
        return None
    work = Work(
        bandwidth_bytes_per_s=bandwidth,
        weight_bytes=step.weight_bytes,
        kv_bytes=step.kv_bytes(_mean_depth(row)) or 0.0,
        layers=step.layers,
    )
    return Observation(case=case, work=work, measured_s=1 / rate)


def _prefill(
    row: Mapping[str, str], case: DeviceCase, step: StepBytes, bandwidth: float, parameters: float | None
) -> Observation | None:
    rate, tokens = _number(row["prefill_tok_s"], 1), _number(row["n_prompt"], 1)
    if rate is None or tokens is None or (_number(row["depth_or_context"], 1) or 0) > 0 or _slow_prefill(row):
        return None
    flop = None if step.shape is None else step.shape.prefill_flops(int(tokens))
    if flop is None and parameters is not None:
        flop = _FLOPS_PER_PARAMETER * parameters * tokens
    if flop is None:
        return None
    work = Work(
        bandwidth_bytes_per_s=bandwidth,
        weight_bytes=step.weight_bytes,
        flop=flop,
        layers=step.layers,
        peak_ratio=peak_ratio(row["hardware"], row["kind"], bandwidth),
    )
    return Observation(case=case, work=work, measured_s=tokens / rate)


def _slow_prefill(row: Mapping[str, str]) -> bool:
    """F16 prefill of one source on A100 and L40S is far below what others see on the same cards: not used."""
    return (
        "GPU-Benchmarks-on-LLM-Inference" in row["source"]
        and row["quant"] == "F16"
        and row["hardware"].startswith(("A100", "L40S"))
    )


def _mean_depth(row: Mapping[str, str]) -> int:
    """Tokens in the cache halfway through: llama-bench starts with an empty cache, servers with the prompt."""
    depth = _number(row["depth_or_context"], 1)
    if depth is None:
        depth = _number(row["n_prompt"], 1) or 0.0
    return round(depth + (_number(row["n_gen"], 1) or 0.0) / 2)


def _number(text: str, factor: int) -> float | None:
    return float(text) * factor if text.strip() else None
