"""The settings of llama-server that a record and a verdict speak for. What nobody measured or said is None, and its flag is left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.deploy.setting import Setting, default, measured, simulated, stated
from suffice.errors import UsageError
from suffice.serving.schedulers import LlamaCppScheduler

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from suffice.decide.verdict import Verdict
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

CONTEXT_STEP_TOKENS: Final = 256
"""llama.cpp rounds the context of a sequence up to a multiple of it (src/llama-context.cpp): asked for as it will be."""
# As llama-server's README lists them (2026-10).
_KV_TYPES: Final = frozenset({"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"})
_CHECKPOINTS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Of one engine.

    Attributes:
        slots: requests that are answered at the same time.
        context: tokens of one slot.
        threads: of a step of one sequence.
        threads_batch: of every other pass.
        batch: most tokens of a step.
        ubatch: most tokens of a pass.
        kv_k: type of the keys in the cache.
        kv_v: of the values.
        flash_attention: "on", "off" or "auto".
        use_mmap: whether the file is mapped; None: not known.
        repack: False: weights were not repacked for this CPU; None: llama.cpp's default.
        gpu_layers: that were on a GPU.
        checkpoints: copies of a slot's state that are kept; None: the model needs none.
        notes: what has to be known.
    """

    slots: Setting[int]
    context: Setting[int]
    threads: Setting[int] | None
    threads_batch: Setting[int] | None
    batch: Setting[int] | None
    ubatch: Setting[int] | None
    kv_k: Setting[str] | None
    kv_v: Setting[str] | None
    flash_attention: Setting[str]
    use_mmap: bool | None
    repack: bool | None
    gpu_layers: Setting[int] | None
    checkpoints: Setting[int] | None
    notes: tuple[str, ...] = ()


def server_settings(demand: Demand, record: RunRecord, verdict: Verdict) -> ServerSettings:
    """As measured, simulated or stated.

    Raises:
        UsageError: nobody says how long a context is.
    """
    values = record.settings
    threads, threads_batch = _threads(record)
    slots = _slots(demand, verdict)
    ubatch = _whole(values, "n_ubatch", "micro-batch of the run's prefill")
    found = ServerSettings(
        slots=slots,
        context=_context(demand, record, verdict),
        threads=threads,
        threads_batch=threads_batch,
        batch=_batch(values, verdict),
        ubatch=ubatch,
        kv_k=_kv_type(values, "type_k"),
        kv_v=_kv_type(values, "type_v"),
        flash_attention=_flash_attention(values),
        use_mmap=_flag(values, "use_mmap"),
        repack=_flag(values, "use_extra_buffers"),
        gpu_layers=_layers(record),
        checkpoints=_checkpoints(record),
    )
    return _with_notes(found, verdict)


def _threads(record: RunRecord) -> tuple[Setting[int] | None, Setting[int] | None]:
    """llama-server takes ``--threads`` for a pass of one token, ``--threads-batch`` for all others."""
    measurement, service = record.measurement, record.measurement.service
    decode = measurement.decode[0].threads if measurement.decode else None
    prefill = measurement.prefill.threads if measurement.prefill is not None else None
    if service is not None:
        decode, prefill = service.decode_threads or decode, service.prefill_threads or prefill
    one = None if decode is None else measured(decode, "fastest for a step of one sequence")
    if one is None:
        one = _whole(record.settings, "n_threads", "threads of the run")
    others = None if prefill is None else measured(prefill, "threads that prompts and steps of several ran with")
    if others is None:
        others = _whole(record.settings, "n_threads_batch", "threads of the run")
    return one, others


def _slots(demand: Demand, verdict: Verdict) -> Setting[int]:
    service = verdict.service
    if service is None:
        if demand.concurrent_users is None:
            return default(demand.streams, "the demand is of one stream")
        return stated(demand.streams, "users at the same time")
    served = service.served
    if served is not None and served.machines is not None:
        return simulated(served.machine_slots, f"of each of {served.machines} machines that hold the load together")
    if served is not None and demand.concurrent_users is not None and served.slots >= service.slots:
        return stated(served.slots, "a slot for each user at the same time, on one engine")
    return simulated(service.slots, "slots at which the verdict has the limits hold, or a queue is worked off fastest")


def _context(demand: Demand, record: RunRecord, verdict: Verdict) -> Setting[int]:
    """The demand's, else that of the simulated case, else that of the run."""
    needed = demand.needed_context_tokens
    parts = () if verdict.service is None else (verdict.service.served, verdict.service.drained)
    simulated_context = next((part.case.context for part in parts if part is not None), None)
    opened = record.settings.get("n_ctx")
    if needed is not None:
        how = (
            "context_tokens"
            if demand.context_tokens is not None
            else "P95 of prompt and answer; a longer request is refused, or its answer cut"
        )
        return stated(_rounded(needed), f"{needed} tokens, {how}{_up(needed)}")
    if simulated_context is not None:
        why = f"{simulated_context} tokens of prompt and answer, as the verdict takes them{_up(simulated_context)}"
        return simulated(_rounded(simulated_context), why)
    if isinstance(opened, int) and not isinstance(opened, bool) and opened > 0:
        return measured(_rounded(opened), f"the run had {opened} tokens, the demand states none{_up(opened)}")
    raise UsageError("how long a context must a request have? State 'context_tokens' or 'prompt_tokens' in the demand")


def _rounded(tokens: int) -> int:
    return -(-tokens // CONTEXT_STEP_TOKENS) * CONTEXT_STEP_TOKENS


def _up(tokens: int) -> str:
    return "" if tokens == _rounded(tokens) else f", up to a multiple of {CONTEXT_STEP_TOKENS} as llama.cpp rounds it"


def _batch(values: Mapping[str, Any], verdict: Verdict) -> Setting[int] | None:
    if verdict.service is not None:
        return simulated(LlamaCppScheduler(slots=1, context_tokens=2).batch_tokens, "as in the verdict's simulation")
    return _whole(values, "n_batch", "batch of the run")


def _whole(values: Mapping[str, Any], name: str, why: str) -> Setting[int] | None:
    """A count in a record's settings, which are anything that its writer put there."""
    value = values.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        return None
    return measured(value, why)


def _flag(values: Mapping[str, Any], name: str) -> bool | None:
    value = values.get(name)
    return value if isinstance(value, bool) else None


def _kv_type(values: Mapping[str, Any], name: str) -> Setting[str] | None:
    value = values.get(name)
    return measured(value, "type in the run") if isinstance(value, str) and value in _KV_TYPES else None


def _flash_attention(values: Mapping[str, Any]) -> Setting[str]:
    value = values.get("flash_attention", values.get("flash_attn"))
    if value in (True, False, 0, 1):
        probed = "compared with the other in the run" if "attention_probe" in values else "as in the run"
        return measured("on" if value else "off", probed)
    return default("auto", "the record does not say what the run used")


def _layers(record: RunRecord) -> Setting[int] | None:
    """0 keeps a build that knows a GPU from using it where the CPU was measured."""
    value = record.settings.get("n_gpu_layers")
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        return None
    return measured(value, "layers on a GPU in the run")


def _checkpoints(record: RunRecord) -> Setting[int] | None:
    """A model that cannot go back in its cache keeps copies: 32 a slot by default, which no measured memory holds."""
    windows = any(layers.window is not None for layers in record.model.kv_layers)
    if not windows and record.model.kv_state_bytes <= 0:
        return None
    return default(
        _CHECKPOINTS, "copies of a slot's windows or state; llama-server's 32 would not fit the memory below"
    )


def _with_notes(found: ServerSettings, verdict: Verdict) -> ServerSettings:
    notes = []
    missing = [name for name, value in (("threads", found.threads), ("KV type", found.kv_k)) if value is None]
    if missing:
        notes.append(f"the record does not say {' and '.join(missing)}: llama-server's defaults are taken")
    fitting = [
        part.slots_that_fit
        for part in (() if verdict.service is None else (verdict.service.served, verdict.service.drained))
        if part is not None and part.slots_that_fit is not None
    ]
    if fitting and min(fitting) < found.slots.value:
        notes.append(f"memory holds {min(fitting)} slots of this context, and {found.slots.value} are asked for")
    if found.ubatch is not None and found.slots.value > found.ubatch.value:
        notes.append(f"{found.slots.value} slots are more than a micro-batch of {found.ubatch.value} tokens")
    return replace(found, notes=tuple(notes))
