"""Parts of a run record, put together from what the outside told: no measuring here."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from suffice import __version__
from suffice.loaders.model_file import describe_model
from suffice.measure.engine.advice import NATIVE_ADVICE
from suffice.measure.series import DecodeAt, SeriesState, ThreadChoice
from suffice.model.isa import unused_isa
from suffice.records.schema import EngineRecord, LoadRecord, MeasurementRecord, ModelRecord, RunRecord
from suffice.stats.intervals import estimate_from

if TYPE_CHECKING:
    from suffice.measure.engine.seam import EngineIdentity, EngineSettings, SessionFacts
    from suffice.measure.machine import MachineFacts
    from suffice.measure.request import RunRequest


def blank_record(request: RunRequest, facts: MachineFacts, engine: EngineIdentity) -> RunRecord:
    """The record of a run that has measured nothing yet: model, engine, machine."""
    model: ModelRecord = describe_model(request.model, type_k=request.type_k, type_v=request.type_v)
    return RunRecord(
        suffice_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        complete=False,
        machine=facts.cpu_model,
        model=model,
        engine=_engine_record(engine, facts, on_gpu=request.n_gpu_layers != 0),
        memory_usable_bytes=facts.memory_usable_bytes,
        environment=facts.environment,
        measurement=MeasurementRecord(),
    )


def _engine_record(engine: EngineIdentity, facts: MachineFacts, *, on_gpu: bool) -> EngineRecord:
    unused = () if facts.isa is None or on_gpu else unused_isa(facts.isa, engine.isa_used)
    lower_bound = bool(unused)
    return EngineRecord(
        name=engine.name,
        version=engine.version,
        llama_cpp_version=engine.llama_cpp_version,
        system_info=engine.system_info,
        isa_used=engine.isa_used,
        isa_unused=unused,
        prebuilt=engine.prebuilt,
        lower_bound=lower_bound,
        advice=NATIVE_ADVICE if lower_bound else None,
    )


def settings_record(asked: EngineSettings, facts: SessionFacts) -> dict[str, Any]:
    """As resolved, with what was asked where the engine does not tell."""
    resolved = {key: value for key, value in asdict(facts.resolved).items() if value is not None}
    return {**asdict(asked), **resolved, "asked": asdict(asked), "notes": list(facts.notes)}


def device_fields(facts: SessionFacts, request: RunRequest, machine: MachineFacts) -> dict[str, str | None]:
    """Where the layers ran, as the engine says: ``device_kind`` and ``machine`` of the record."""
    if request.n_gpu_layers and facts.resolved.devices:
        return {"device_kind": "gpu", "machine": ", ".join(facts.resolved.devices)}
    return {"device_kind": "cpu", "machine": machine.cpu_model}


def earlier_state(earlier: RunRecord | None, threads: ThreadChoice, prompt_tokens: int) -> SeriesState:
    """The repetitions that an interrupted run has made, or none."""
    state = SeriesState(threads=threads, prompt_tokens=prompt_tokens)
    if earlier is None or earlier.measurement.prefill is None:
        return state
    prefill = earlier.measurement.prefill
    state.chunk_tokens = prefill.chunk_tokens
    state.chunk_rows = list(prefill.chunk_s)
    state.step_rows = {DecodeAt(s.depth, s.batch): list(s.step_s) for s in earlier.measurement.decode}
    state.seen = {DecodeAt(s.depth, s.batch): list(s.repetitions) for s in earlier.measurement.decode}
    state.seen[None] = list(prefill.repetitions)
    state.references = [list(part) for part in earlier.contention.references]
    if earlier.measurement.ttft_s is not None:
        state.ttft_s = list(earlier.measurement.ttft_s.samples)
    return state


def measured(
    state: SeriesState, so_far: MeasurementRecord, load: LoadRecord, peak_rss_bytes: int | None
) -> dict[str, Any]:
    """Fields of the record that the series give: the plain numbers at the top and the measurement below."""
    decode = state.decode_series()
    prefill = state.prefill_series()
    ttft = estimate_from(state.ttft_s) if state.ttft_s else None
    first = decode[0].tokens_per_second if decode else None
    return {
        "decode_tokens_per_second": None if first is None else first.point,
        "prefill_tokens_per_second": None if prefill.tokens_per_second is None else prefill.tokens_per_second.point,
        "ttft_s": None if ttft is None else ttft.point,
        "measurement": replace(
            so_far,
            decode=decode,
            prefill=prefill,
            ttft_s=ttft,
            thread_sweep=state.threads.sweep,
            load=load,
            peak_rss_bytes=peak_rss_bytes,
        ),
    }
