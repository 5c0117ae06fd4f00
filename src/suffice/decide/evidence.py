"""What a run record says about one machine, in the form in which a verdict asks.

Everything here answers "how fast, how long, how much memory" for lengths that the demand names, from what was measured at
the lengths of the run; an answer that the measurements do not carry has an open end, and the verdict becomes "undecided".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.plausibility import contradictions_in
from suffice.decide.quantity import Quantity
from suffice.decide.quiet import undisturbed_record
from suffice.model.basis import Basis, weakest
from suffice.model.extrapolation import STAND_IN_ERROR, is_bent
from suffice.model.prefill_curve import PrefillCurve
from suffice.serving.recorded import curve_of_record, passes_that_count
from suffice.stats.intervals import median, median_interval
from suffice.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from suffice.decide.quality import QualityEvidence
    from suffice.model.demand import Demand
    from suffice.records.schema import DecodeSeries, KvLayers, ModelRecord, RunRecord
    from suffice.serving.curve import ServiceCurve
    from suffice.stats.estimate import Estimate

# Decode slows down with depth, by a line through two measured depths; further out than this the line is no evidence.
MAX_DEPTH_EXTRAPOLATION: Final = 4.0
# A depth a little beyond the measured one changes the step by less than the interval.
DEPTH_TOLERANCE: Final = 1.25
DEPTH_TOLERANCE_TOKENS: Final = 64.0


# Files of one model and recipe differ by their metadata and by a padded vocabulary; the next recipe is 10 % larger.
_SAME_MODEL_SHARE: Final = 0.03


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodePoint:
    """Decode rate at one depth. ``depth`` None: the record does not say."""

    depth: float | None
    rate: Quantity


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineEvidence:
    """One machine, one model, one engine: what a verdict may rest on."""

    name: str
    is_gpu: bool
    decode: tuple[DecodePoint, ...]
    prefill_rate: Quantity | None
    prefill_curve: PrefillCurve | None
    prefill_interval_ratios: tuple[float, float] | None  # low / point and high / point of the prefill time
    prefill_basis: Basis
    ttft: Quantity | None
    ttft_prompt_tokens: int | None
    load_s: float | None
    weights_bytes: float | None
    kv_bytes_per_token: float | None
    kv_layers: tuple[KvLayers, ...]
    kv_state_bytes: float
    overhead_bytes: float
    memory_usable_bytes: float | None
    context_length: int | None
    run_context_tokens: int  # context that the run had open; 0: the record does not say
    streamed_bytes: float | None
    disturbed: bool | None
    unfinished: bool  # nobody has looked yet whether the machine was busy
    disturbance_reasons: tuple[str, ...]
    engine_lower_bound: bool
    engine_advice: str | None
    flash_attention_unproven: bool  # on by the engine's default, and not compared with off
    contradictions: tuple[str, ...]
    model_identity: str | None
    model_name: str | None
    memory_basis: Basis = Basis.MEASURED
    memory_is_floor: bool = False  # it has as much or more: nobody states how much
    engines: int = (
        1  # that the machine runs side by side, one on each NUMA node; all figures and the memory are those of one
    )
    service: ServiceCurve | None = (
        None  # what steps and chunks cost when several requests are served; None: not measured
    )
    service_uncertainty: float | None = (
        None  # half width of its points' intervals, as a share; None: no interval is known
    )
    quality: QualityEvidence | None = None  # None: nobody has compared
    bits_per_weight: float | None = None
    model_file: str | None = None  # its name; None: there was no file
    undisturbed: MachineEvidence | None = (
        None  # of the same machine when nobody disturbs; None: not told, or nobody did
    )
    active_parameters: float | None = None  # of the model, that one token uses
    budget_s: float | None = None  # that the run was given

    def decode_rate(self, depth: float | None) -> Quantity | None:
        """Tokens per second of one stream at a depth (None: at the depth of the run)."""
        if not self.decode:
            return None
        primary = self.decode[0]
        if depth is None or primary.depth is None:
            return primary.rate
        measured = sorted(self.decode, key=lambda point: point.depth or 0.0)
        for point in measured:
            # The first measured depth that is at least as deep: a lower bound for what is shallower.
            if depth <= (point.depth or 0.0) * DEPTH_TOLERANCE + DEPTH_TOLERANCE_TOKENS:
                return _between(measured, depth, point.rate)
        deepest = measured[-1]
        # Two predictions, or a prediction and what somebody measured elsewhere, have no slope that says anything beyond them.
        is_own = deepest.rate.basis in (Basis.MEASURED, Basis.EXTRAPOLATED)
        if len(measured) > 1 and is_own and depth <= MAX_DEPTH_EXTRAPOLATION * (deepest.depth or 0.0):
            return _between(measured, depth, deepest.rate).with_basis(Basis.EXTRAPOLATED)
        return deepest.rate.with_bounds(low=None, high=deepest.rate.high).with_basis(Basis.EXTRAPOLATED)

    def prefill_seconds(self, n_tokens: float) -> Quantity | None:
        """Seconds to read a prompt of ``n_tokens``."""
        if self.prefill_curve is None:
            if self.prefill_rate is None:
                return None
            # Only a rate is known, not for which prompt: the growth of attention is open.
            return self.prefill_rate.inverted(n_tokens)
        curve = self.prefill_curve
        point = curve.seconds(n_tokens)
        measured = n_tokens <= curve.measured_tokens
        basis = self.prefill_basis if measured else Basis.EXTRAPOLATED
        if self.prefill_interval_ratios is None:
            return Quantity(point=point, low=None, high=None, basis=basis)
        low_ratio, high_ratio = self.prefill_interval_ratios
        high = curve.seconds_at_most(n_tokens) * high_ratio if curve.supports(n_tokens) else None
        return Quantity(point=point, low=point * low_ratio, high=high, basis=basis)

    def time_to_first_token(self, n_tokens: float) -> Quantity | None:
        """Seconds from request to first token on the idle machine: prefill and one decode step."""
        if self.ttft is not None and self.ttft_prompt_tokens in (None, round(n_tokens)):
            return self.ttft
        prefill = self.prefill_seconds(n_tokens)
        rate = self.decode_rate(n_tokens)
        if prefill is None or rate is None:
            return None
        return add(prefill, rate.inverted())

    def service_seconds(self, prompt_tokens: float, output_tokens: float) -> Quantity | None:
        """Seconds of one request served alone: prefill, then each output token at its mean depth."""
        prefill = self.prefill_seconds(prompt_tokens)
        rate = self.decode_rate(prompt_tokens + output_tokens / 2)
        if prefill is None or rate is None:
            return None
        return add(prefill, rate.inverted(output_tokens))

    def memory_needed_bytes(self, context_tokens: float, streams: int) -> float | None:
        """Weights, the KV cache of all streams at full context, and buffers as seen in the run."""
        if self.weights_bytes is None or self.kv_bytes_per_token is None:
            return None
        return self.weights_bytes + streams * self._kv_cache_bytes(context_tokens) + self.overhead_bytes

    def _kv_cache_bytes(self, context_tokens: float) -> float:
        """KV cache of one stream: layers with a sliding window stop growing there."""
        if not self.kv_layers:
            return context_tokens * (self.kv_bytes_per_token or 0.0)
        cells = (
            layers.count * layers.bytes_per_token * min(context_tokens, layers.window or context_tokens)
            for layers in self.kv_layers
        )
        return self.kv_state_bytes + sum(cells)


def add(first: Quantity, second: Quantity) -> Quantity:
    """Sum of two times; ends are added, which is wider than two independent intervals deserve, never narrower."""
    return Quantity(
        point=first.point + second.point,
        low=None if first.low is None or second.low is None else first.low + second.low,
        high=None if first.high is None or second.high is None else first.high + second.high,
        basis=weakest([first.basis, second.basis]) or first.basis,
        interval_known=first.interval_known and second.interval_known,
    )


def _between(measured: list[DecodePoint], depth: float, fallback: Quantity) -> Quantity:
    """The rate at a depth along the line of step time against depth; ``fallback`` when only one depth was measured."""
    if len(measured) == 1:
        return fallback
    first, last = measured[0], measured[-1]
    if first.depth is None or last.depth is None or first.depth == last.depth:
        return fallback
    slope = (1 / last.rate.point - 1 / first.rate.point) / (last.depth - first.depth)
    step_s = 1 / first.rate.point + max(slope, 0.0) * max(depth - first.depth, 0.0)
    return fallback.scaled(1 / step_s / fallback.point)


def evidence_from(record: RunRecord, name: str | None = None) -> MachineEvidence:
    """The evidence in a run record; ``name`` replaces the machine's own name."""
    measurement = record.measurement
    engines = 1 if measurement.service is None else measurement.service.instances
    quiet = undisturbed_record(record)
    return MachineEvidence(
        name=_named(name or record.machine or "this machine", engines),
        engines=engines,
        is_gpu=record.device_kind == "gpu",
        decode=_decode_points(record),
        prefill_rate=_quantity(
            measurement.prefill.tokens_per_second if measurement.prefill else None,
            record.prefill_tokens_per_second,
            _support(record, "prefill"),
        ),
        prefill_curve=_prefill_curve(record),
        prefill_interval_ratios=_prefill_ratios(record),
        prefill_basis=Basis(record.basis),
        ttft=_quantity(measurement.ttft_s, record.ttft_s, _support(record, "prefill")),
        ttft_prompt_tokens=measurement.prefill.prompt_tokens if measurement.prefill else None,
        load_s=measurement.load.warm_s,
        weights_bytes=_weights_bytes(record),
        kv_bytes_per_token=record.model.kv_bytes_per_token,
        kv_layers=record.model.kv_layers,
        kv_state_bytes=record.model.kv_state_bytes,
        overhead_bytes=_overhead_bytes(record),
        # What the host has left says nothing about a GPU's memory, which held the model when it was measured.
        memory_usable_bytes=None if record.device_kind == "gpu" else record.memory_usable_bytes,
        context_length=record.model.context_length,
        run_context_tokens=_whole(record.settings.get("n_ctx")),
        budget_s=record.measurement.budget_s,
        streamed_bytes=record.model.streamed_bytes,
        disturbed=record.disturbed,
        unfinished=not record.complete,
        disturbance_reasons=record.contention.reasons,
        engine_lower_bound=record.engine.lower_bound,
        engine_advice=record.engine.advice,
        flash_attention_unproven=_attention_unproven(record),
        contradictions=contradictions_in(record),
        model_identity=record.model.identity,
        model_name=record.model.name,
        service=curve_of_record(record),
        service_uncertainty=_service_uncertainty(record),
        bits_per_weight=_bits_per_weight(record),
        model_file=record.model.file_name,
        undisturbed=None if quiet is None else evidence_from(quiet, name),
        active_parameters=record.model.active_parameters,
    )


def _bits_per_weight(record: RunRecord) -> float | None:
    """Of all tensors together, with their scales."""
    types = record.model.tensor_types.values()
    elements = sum(share.elements for share in types)
    return sum(share.bytes for share in types) * BITS_PER_BYTE / elements if elements > 0 else None


def _named(machine: str, engines: int) -> str:
    """A machine whose figures are those of one of several engines says so wherever it is named."""
    return machine if engines == 1 else f"{machine}, each of {engines} engines side by side"


def of_the_demanded_model(demand: Demand, record: RunRecord, evidence: MachineEvidence) -> MachineEvidence:
    """The evidence, contradicting itself when the demand names one model and the record is of another.

    Names are compared as written, without folders. A demand without a model, a sample, and a record without a name prove nothing.
    """
    stated = None if demand.model is None else demand.model.replace("\\", "/").rpartition("/")[2]
    names = [name.rpartition("/")[2] for name in (record.model.name, record.model.file_name) if name]
    if stated is None or stated.startswith("sample:") or not names or stated in names:
        return evidence
    contradiction = (
        f"the demand is about {demand.model}, this record is of {record.model.file_name or record.model.name}"
    )
    return replace(evidence, contradictions=(*evidence.contradictions, contradiction))


def of_the_asked_model(asked: ModelRecord, record: RunRecord, evidence: MachineEvidence) -> MachineEvidence:
    """The evidence, contradicting itself when the record is of another model than the one that is asked about, or of another quantization of it.

    By the number of parameters and the bytes of the file: names of one model differ. What a record does not tell proves nothing.
    """
    pairs = ((asked.parameters, record.model.parameters), (asked.file_bytes, record.model.file_bytes))
    known = [(one, other) for one, other in pairs if one and other]
    if all(abs(one - other) <= _SAME_MODEL_SHARE * one for one, other in known):
        return evidence
    names = asked.name or "another model", record.model.file_name or record.model.name or "another one"
    contradiction = f"{names[0]} is asked about, and this record is of {names[1]}"
    return replace(evidence, contradictions=(*evidence.contradictions, contradiction))


def _overhead_bytes(record: RunRecord) -> float:
    """Buffers beside weights and cache, as the engine told; settings are anything that a record's writer put there."""
    value = record.settings.get("compute_buffer_bytes")
    return float(value) if isinstance(value, int | float) and value > 0 else 0.0


def _whole(value: object) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _weights_bytes(record: RunRecord) -> float | None:
    """The file, or what the engine allocated for weights when that is more (it repacks them for this CPU)."""
    allocated = record.settings.get("weight_buffer_bytes")
    if record.model.file_bytes is None or not isinstance(allocated, int | float) or isinstance(allocated, bool):
        return record.model.file_bytes
    return max(record.model.file_bytes, allocated)


def _attention_unproven(record: RunRecord) -> bool:
    asked = record.settings.get("asked")
    by_default = isinstance(asked, dict) and asked.get("flash_attention") == "auto"
    return by_default and record.settings.get("flash_attention") is True and "attention_probe" not in record.settings


def _quantity(estimate: Estimate | None, plain: float | None, support: _Support) -> Quantity | None:
    if estimate is not None:
        return support.of(estimate)
    return None if plain is None else Quantity.bare(plain, support.basis)


@dataclass(frozen=True, slots=True)
class _Support:
    """On what a record's numbers rest. ``holds`` False: the slices do not lie on a line, so the number for all layers has no bounds."""

    basis: Basis
    holds: bool = True

    def of(self, estimate: Estimate) -> Quantity:
        """The estimate; that of a stand-in has the error of standing in beside its scatter."""
        quantity = Quantity.of(estimate, self.basis)
        if not self.holds:
            return quantity.with_bounds(low=None, high=None)
        return quantity.widened(STAND_IN_ERROR) if self.basis is Basis.EXTRAPOLATED else quantity


def supported_rate(record: RunRecord, estimate: Estimate | None, phase: str, depth: int = 0) -> Quantity | None:
    """An estimate of a record with the range that it has as evidence: what is shown is what the verdict rests on."""
    return None if estimate is None else _support(record, phase, depth).of(estimate)


def _support(record: RunRecord, phase: str, depth: int = 0) -> _Support:
    return _Support(Basis(record.basis), holds=not is_bent(residual_of(record, phase, depth)))


def residual_of(record: RunRecord, phase: str, depth: int = 0) -> float:
    """How far the slices lie off the line for one sequence, as a share of a slice's time; 0 where the model itself was run."""
    extrapolation = record.measurement.extrapolation
    residuals = [
        series.largest_residual
        for series in (() if extrapolation is None else extrapolation.series)
        if (series.phase, series.depth, series.batch) == (phase, depth, 1) and series.largest_residual is not None
    ]
    return max(residuals, default=0.0)


def _service_uncertainty(record: RunRecord) -> float | None:
    """The median over all passes that count of the half width of a pass's interval, as a share of its time.

    The passes were measured one after the other, so that their errors are their own: the curve as a whole is as uncertain as one of them
    at most. Passes of one repetition say nothing of the scatter.
    """
    passes = passes_that_count(record)
    intervals = [median_interval(one.seconds) for one in (*passes.decode, *passes.prefill)]
    shares = [(interval.high - interval.low) / (interval.high + interval.low) for interval in intervals if interval]
    return median(shares) if shares else None


def _decode_points(record: RunRecord) -> tuple[DecodePoint, ...]:
    points = [
        _decode_point(record, series, series.tokens_per_second)
        for series in record.measurement.decode
        if series.tokens_per_second is not None and series.batch == 1
    ]
    if not points and record.decode_tokens_per_second is not None:
        points.append(DecodePoint(depth=None, rate=Quantity.bare(record.decode_tokens_per_second, Basis(record.basis))))
    return tuple(points)


def _decode_point(record: RunRecord, series: DecodeSeries, estimate: Estimate) -> DecodePoint:
    # A repetition spans some steps, so its mean depth is a little beyond where it starts.
    steps = median([len(row) for row in series.step_s]) if series.step_s else 0.0
    support = _support(record, "decode", series.depth)
    return DecodePoint(depth=series.depth + steps / 2, rate=support.of(estimate))


def _prefill_curve(record: RunRecord) -> PrefillCurve | None:
    series = record.measurement.prefill
    if series is None or not series.chunk_s or not series.chunk_tokens:
        return None
    rows = [row for row in series.chunk_s if len(row) == len(series.chunk_tokens)]
    if not rows:
        return None
    medians = tuple(median(column) for column in zip(*rows, strict=True))
    return PrefillCurve(chunk_tokens=series.chunk_tokens, chunk_s=medians)


def _prefill_ratios(record: RunRecord) -> tuple[float, float] | None:
    """Low and high end of the prefill time over its point, from the range of the rate."""
    series = record.measurement.prefill
    rate = None if series is None else supported_rate(record, series.tokens_per_second, "prefill")
    if rate is None or not rate.low or not rate.high:
        return None
    return rate.point / rate.high, rate.point / rate.low
