"""What to do next, so that the next try is the last one. Nothing is concluded here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.requantize import quants_command, recipe_for, smaller_recipe
from suffice.decide.service_load import LoadKind
from suffice.decide.wording import CAPACITIES, label, machines_sentence
from suffice.model.demand import users_with_margin
from suffice.units import SECONDS_PER_MINUTE, format_bytes

if TYPE_CHECKING:
    from suffice.decide.constraint import Constraint
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.service import Drained, Served, ServiceOutlook

_USUAL_SLOTS: Final = 8  # up to which a service curve is worth measuring where the demand is a rate
_LONGER_MINUTES: Final = 8  # steps and chunks at the depths of a long prompt take minutes
_TIMES_LONGER: Final = 2  # than a run that was too short already
_QUALITY_MISSED: Final = (
    "Take a quantization with more bits, or another model, and compare again with `suffice quants`."
)
_QUALITY_OPEN: Final = "Compare on more items with `suffice quants`: its result says about how many would do, and what is wrong where more would not help."
_SPAWN: Final = "suffice load --spawn MODEL.gguf"


def settle_sentence(
    grade: str, binding: Constraint | None, evidence: MachineEvidence, service: ServiceOutlook | None = None
) -> str | None:
    """What to do next; None when the verdict needs nothing more."""
    served = None if service is None else service.served
    if grade == "enough":
        return None
    if evidence.contradictions:
        return "Measure bandwidth and model again on a quiet machine, and check the model's facts with `suffice ceiling --model`."
    if binding is None:
        return "State a decode rate, a latency limit or a request rate in the demand."
    if binding.by_test:
        return _QUALITY_MISSED if grade == "not enough" else _QUALITY_OPEN
    if grade == "open":
        return _open_advice(binding, evidence, service)
    machines = machines_sentence(served) if binding.several else ""
    advice = _thin_advice(binding, evidence) if grade == "thin" else _not_enough_advice(binding, evidence)
    curve = ""
    if grade == "thin" and binding.several and evidence.service is None:
        curve = f"Batching may give the margin: {_measure_curve(served)}"
    deeper = _deeper_advice(service, evidence) if grade == "thin" and binding.several else ""
    return " ".join(sentence for sentence in (deeper, advice, curve, machines and f"{machines}.") if sentence) or None


def _not_enough_advice(binding: Constraint, evidence: MachineEvidence) -> str:
    if not binding.of_speed:
        return "A machine with more memory, or a smaller quantization, would hold it."
    return _attention_hint(binding, evidence)


def _thin_advice(binding: Constraint, evidence: MachineEvidence) -> str:
    low = binding.headroom_range[0]
    if not low:  # unknown, or so small that it is no number
        return f"Recheck after quantization{_recheck_command(evidence, None)}."
    factor = binding.margin / low
    of_what = "load" if binding.name in CAPACITIES else "speed"
    advice = f"Recheck after quantization: the margin needs {factor:.2f} times the {of_what}"
    if evidence.streamed_bytes is not None and binding.name == "decode_tokens_per_second":
        target = format_bytes(evidence.streamed_bytes / factor)
        advice += (
            f"; where memory bandwidth binds, that is a model that streams at most {target} per token "
            f"(this one streams {format_bytes(evidence.streamed_bytes)})"
        )
    advice += _recheck_command(evidence, factor if binding.name == "decode_tokens_per_second" else None)
    return f"{advice}. {_attention_hint(binding, evidence)}".strip()


def _recheck_command(evidence: MachineEvidence, factor: float | None) -> str:
    """The command that measures a smaller quantization beside this one, and what it costs on the user's items."""
    if evidence.is_gpu or evidence.model_file is None:
        return ""
    wanted = None if factor is None else recipe_for(evidence, factor)
    recipe = wanted or smaller_recipe(evidence)
    return "" if recipe is None else f": `{quants_command(evidence, recipe)}`"


def _attention_hint(binding: Constraint, evidence: MachineEvidence) -> str:
    """llama.cpp turns flash attention on by itself; on some CPUs its kernel is the slow one (docs/measuring.md)."""
    if evidence.is_gpu or not evidence.flash_attention_unproven or binding.name == "memory_bytes":
        return ""
    return (
        "Flash attention was on by the engine's default and not compared: on some CPUs decode behind a long prompt is faster "
        "with --flash-attention off, measure that too."
    )


def _measure_curve(served: Served | None) -> str:
    slots = _USUAL_SLOTS
    if served is not None and served.case.kind is LoadKind.USERS:
        slots = users_with_margin(served.case.demanded, served.case.margin)
    elif served is not None:
        slots = min(slots, served.case.most_slots)
    return f"measure the service curve, `suffice check` with the same demand and --slots {max(2, slots)}."


def _open_advice(binding: Constraint, evidence: MachineEvidence, service: ServiceOutlook | None) -> str:
    """Everything that stands between the evidence and an answer, so that the next try is the last one."""
    if binding.available is None or binding.required is None:
        return f"Measure it: the record has no evidence about {label(binding.name)}."
    deeper = _deeper_advice(service, evidence) if binding.several else ""
    steps = [deeper] if deeper else []
    if evidence.disturbed:
        steps.append("Measure again while nothing else runs: `suffice check` with the same demand.")
    if evidence.engine_lower_bound:
        command = evidence.engine_advice or "pip install 'suffice[native]'"
        steps.append(f"Measure with an engine built for this CPU: {command}.")
    ranged = "" if deeper else _range_advice(binding, evidence, service)
    if ranged:
        steps.append(ranged)
    return " ".join(steps)


def _range_advice(binding: Constraint, evidence: MachineEvidence, service: ServiceOutlook | None) -> str:
    """What would narrow the range, or "" when the range is not what keeps it open."""
    quantity = binding.available
    low, high = binding.headroom_range
    if quantity is None or (
        low is not None and high is not None and not low < binding.margin <= high and not low < 1 <= high
    ):
        return ""
    if binding.several:
        return _served_advice(evidence, service)
    if quantity.low is None and quantity.high is None:
        return "Measure with more repetitions: raise --budget, so that there is an interval."
    if quantity.low is None or quantity.high is None:
        return (
            "The run was shorter than the demand's lengths: raise --budget (a warning of the run says how far), or measure with "
            "--prompt-tokens and --depth of the demand."
        )
    return "Measure longer: raise --budget, so that the interval becomes narrower than the distance to the requirement."


def _deeper_advice(service: ServiceOutlook | None, evidence: MachineEvidence) -> str:
    """Where the curve ends before the demand's lengths, only a longer run of the curve tells more."""
    parts = () if service is None else (service.served, service.drained)
    lacking = [part for part in parts if part is not None and part.ends.too_short]
    if not lacking:
        return ""
    tokens = max(math.ceil(part.case.prompt.p95 + part.case.output.p95) for part in lacking)
    minutes = max(_LONGER_MINUTES, math.ceil(_TIMES_LONGER * (evidence.budget_s or 0.0) / SECONDS_PER_MINUTE))
    return f"First measure the service curve up to {tokens} tokens: `suffice check DEMAND --budget {minutes}m`."


def _served_advice(evidence: MachineEvidence, service: ServiceOutlook | None) -> str:
    served = None if service is None else service.served
    if evidence.service is None:
        return f"A single stream cannot tell what several requests at once get: {_measure_curve(served)}"
    if evidence.service_uncertainty is None:
        return "Measure the service curve with more repetitions: raise --budget, so that its points have intervals."
    if served is not None:
        return f"The simulation is not sharp enough to tell: load a server with the demand, `{_find_capacity(served)}`."
    if service is not None and service.drained is not None:
        return (
            "The simulation is not sharp enough to tell: let a server work off some of it, "
            f"`{_work_off(service.drained)}`, and decide with the result."
        )
    return ""


def _find_capacity(served: Served) -> str:
    case = served.case
    users = case.kind is LoadKind.USERS
    slots = users_with_margin(case.demanded, case.margin) if users else served.slots
    what = "--find-capacity users" if users else "--find-capacity"
    return f"{_SPAWN} --slots {slots} {what} --demand demand.toml --out cap.json"


def _work_off(drained: Drained) -> str:
    """Twice as many users as slots keep a queue; what they are answered per second is what the server does at least."""
    users = 2 * drained.slots
    prompt, output = (math.ceil(lengths.p95) for lengths in (drained.case.prompt, drained.case.output))
    return (
        f"{_SPAWN} --slots {drained.slots} --concurrency {users} --requests {10 * users} "
        f"--prompt-tokens {prompt} --output-tokens {output} --out load.json"
    )
