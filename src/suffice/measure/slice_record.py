"""The parts of a run record that come from slices: no measuring here."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from suffice.measure.series import DecodeAt, decode_rate, prefill_rate
from suffice.measure.slice_series import SliceState
from suffice.model.extrapolation import SliceTime, fit_layers
from suffice.model.weights import OUTPUT_HEAD, TOKEN_EMBEDDING
from suffice.records.schema import (
    DecodeSeries,
    ExtrapolatedSeries,
    ExtrapolationRecord,
    LayerKindRecord,
    MeasurementRecord,
    PrefillSeries,
    RunRecord,
    SliceRecord,
)
from suffice.stats.intervals import estimate_from, median

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.measure.series import SeriesPlan, ThreadChoice
    from suffice.measure.slice_series import SliceModel
    from suffice.model.slices import SliceDesign


def blank_extrapolation(design: SliceDesign) -> ExtrapolationRecord:
    """Kinds and slices, with no times yet."""
    kinds = [
        LayerKindRecord(label=kind.label, layers=float(len(kind.layers)), layer_bytes=kind.n_bytes)
        for kind in design.kinds
    ]
    if design.cuts_vocabulary:
        sizes = {tensor.name: tensor.n_bytes for tensor in design.header.tensors}
        head = sizes.get(OUTPUT_HEAD, sizes.get(TOKEN_EMBEDDING, 0))
        kinds.append(LayerKindRecord(label="output head", layers=1.0, layer_bytes=head))
    return ExtrapolationRecord(
        kinds=tuple(kinds),
        slices=tuple(
            SliceRecord(
                layers=len(plan.layers),
                counts=design.counts(plan),
                n_vocab=plan.n_vocab,
                tensor_bytes=design.slice_header(plan).tensor_bytes,
            )
            for plan in design.plans
        ),
    )


def earlier_slices(earlier: RunRecord | None, threads: ThreadChoice, prompt_tokens: int, n_slices: int) -> SliceState:
    """The repetitions that an interrupted run has made, or none."""
    state = SliceState(threads=threads, prompt_tokens=prompt_tokens, n_slices=n_slices)
    extrapolation = None if earlier is None else earlier.measurement.extrapolation
    if earlier is None or extrapolation is None or earlier.measurement.prefill is None:
        return state
    state.chunk_tokens = earlier.measurement.prefill.chunk_tokens
    state.seen = {DecodeAt(one.depth, one.batch): list(one.repetitions) for one in earlier.measurement.decode}
    state.seen[None] = list(earlier.measurement.prefill.repetitions)
    state.references = [list(part) for part in earlier.contention.references]
    for series in extrapolation.series:
        rows = [list(own) for own in series.times_s]
        if len(rows) != n_slices:
            continue
        if series.phase == "prefill":
            state.chunk_rows = rows
        else:
            state.step_rows[DecodeAt(series.depth, series.batch)] = rows
    return state


def extrapolated(state: SliceState, model: SliceModel, so_far: MeasurementRecord, plan: SeriesPlan) -> dict[str, Any]:
    """Fields of the record: the plain numbers at the top, the series of the whole model, and the slices' own times below."""
    # All series, also those that have not begun: a resumed run knows from them what this one measures.
    decode = tuple(_decode(state, model, at) for at in plan.decode_series())
    prefill = _prefill(state, model)
    ttft_s = _ttft_samples(prefill, decode)
    ttft = estimate_from(ttft_s) if ttft_s else None
    first = decode[0].tokens_per_second
    extrapolation = so_far.extrapolation
    if extrapolation is not None:
        extrapolation = replace(extrapolation, series=tuple(_series(state, model, plan)))
    rate = prefill.tokens_per_second
    return {
        "decode_tokens_per_second": None if first is None else first.point,
        "prefill_tokens_per_second": None if rate is None else rate.point,
        "ttft_s": None if ttft is None else ttft.point,
        "measurement": replace(
            so_far,
            decode=decode,
            prefill=prefill,
            ttft_s=ttft,
            thread_sweep=state.threads.sweep,
            extrapolation=extrapolation,
        ),
    }


def _decode(state: SliceState, model: SliceModel, at: DecodeAt) -> DecodeSeries:
    steps = [(seconds,) for seconds in model.decode_times(at, state.step_rows[at])]
    return DecodeSeries(
        depth=at.depth,
        batch=at.batch,
        threads=state.threads.decode,
        tokens_per_second=decode_rate(steps),
        step_s=tuple(steps),
        stopped=state.stopped.get(at),
        repetitions=state.repetitions(at),
    )


def _prefill(state: SliceState, model: SliceModel) -> PrefillSeries:
    chunks = model.prefill_times(state.chunk_rows)
    return PrefillSeries(
        prompt_tokens=state.prompt_tokens,
        threads=state.threads.prefill,
        chunk_tokens=state.chunk_tokens,
        tokens_per_second=prefill_rate(chunks, state.prompt_tokens),
        chunk_s=chunks,
        stopped=state.stopped.get(None),
        repetitions=state.repetitions(None),
    )


def _ttft_samples(prefill: PrefillSeries, decode: Sequence[DecodeSeries]) -> list[float]:
    """Reading the prompt, and a decode step at the measured depth that is nearest to its length."""
    alone = [series for series in decode if series.batch == 1 and series.step_s]
    if not alone:
        return []
    nearest = min(alone, key=lambda series: abs(series.depth - prefill.prompt_tokens))
    step_s = median([row[0] for row in nearest.step_s])
    return [math.fsum(row) + step_s for row in prefill.chunk_s]


def _series(state: SliceState, model: SliceModel, plan: SeriesPlan) -> list[ExtrapolatedSeries]:
    found = []
    for at in plan.decode_series():
        rows = state.step_rows[at]
        if rows[0]:
            times = [[median(row) for row in own] for own in rows]
            found.append(_fitted("decode", at, rows, times, model.decode_work(at), model))
    if state.chunk_rows[0]:
        times = [[math.fsum(row) for row in own] for own in state.chunk_rows]
        found.append(_fitted("prefill", DecodeAt(0), state.chunk_rows, times, model.prefill_work, model))
    return found


def _fitted(
    phase: str,
    at: DecodeAt,
    rows: Sequence[Sequence[tuple[float, ...]]],
    times: Sequence[Sequence[float]],
    work: tuple[float, ...],
    model: SliceModel,
) -> ExtrapolatedSeries:
    """The line through the medians over repetitions: what is shown, and what tells whether the slices lie on a line."""
    slices = [SliceTime(counts=counts, seconds=median(own)) for counts, own in zip(model.counts, times, strict=True)]
    fit = fit_layers(slices, work)
    return ExtrapolatedSeries(
        phase=phase,
        depth=at.depth,
        batch=at.batch,
        work=work,
        times_s=tuple(tuple(own) for own in rows),
        fixed_s=fit.fixed_s,
        layer_s=fit.layer_s,
        largest_residual=fit.largest_residual,
    )
