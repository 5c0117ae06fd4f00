"""Sentences about constraints. Numbers keep their units; nothing is concluded here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from suffice.decide.constraints import Constraint, Sense
from suffice.decide.service_load import LoadKind
from suffice.units import format_bytes, format_memory, format_seconds

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quantity import Quantity
    from suffice.decide.service import Served

CAPACITIES = ("capacity_users", "capacity_requests_per_second")  # constraints whose headroom is one of load
_USUAL_SLOTS = 8  # up to which a service curve is worth measuring where the demand is a rate
_LARGEST_PLAIN_HEADROOM = 10_000
_LABELS = {
    "capacity_users": "users at once",
    "capacity_requests_per_second": "load",
    "decode_tokens_per_second": "decode",
    "ttft_s": "time to first token",
    "sustained_tokens_per_second": "sustained rate",
    "wall_time_s": "wall time",
    "memory_bytes": "memory",
    "quality_floor": "quality",
    "budget_per_month": "budget",
}


def label(name: str) -> str:
    """The name of a constraint for a reader."""
    return _LABELS.get(name, name)


def format_value(value: float | None, unit: str) -> str:
    """A number with its unit, or "unknown"."""
    if value is None:
        return "unknown"
    if unit == "s":
        return "without end" if value == float("inf") else format_seconds(value)
    if unit == "bytes":
        return format_memory(value)
    return f"{value:.4g} {unit}"


def value_texts(required: float | None, available: float, unit: str) -> tuple[str, str]:
    """Required and available as text, with more digits where four would make unequal numbers look equal."""
    texts = format_value(required, unit), format_value(available, unit)
    if required is None or required == available or texts[0] != texts[1]:
        return texts
    return f"{required:.10g} {unit}", f"{available:.10g} {unit}"


def required_text(constraint: Constraint) -> str:
    """What is required: ``at least 8 tokens/s``."""
    point = constraint.required if constraint.available is None else constraint.available.point
    text = format_value(None, constraint.unit)
    if constraint.required is not None:
        text = value_texts(constraint.required, point or 0.0, constraint.unit)[0]
    return f"{constraint.sense.value} {text}"


def available_text(constraint: Constraint) -> str:
    """What is available, with its range and basis: ``14.2 tokens/s (13.9 to 14.4, measured)``."""
    quantity = constraint.available
    if quantity is None:
        return "unknown"
    text = value_texts(constraint.required, quantity.point, constraint.unit)[1]
    if not quantity.interval_known:
        return f"{text} ({quantity.basis}, no interval)"
    if quantity.low is not None and quantity.low == quantity.high:
        return f"{text} ({quantity.basis})"
    return f"{text} ({_range_text(quantity, constraint.unit)}, {quantity.basis})"


def _range_text(quantity: Quantity, unit: str) -> str:
    if quantity.low is None and quantity.high is None:
        return "one repetition, no interval"
    if quantity.high is None:
        return f"at least {format_value(quantity.low, unit)}, no upper end known"
    if quantity.low is None:
        return f"at most {format_value(quantity.high, unit)}, no lower end known"
    return f"{format_value(quantity.low, unit)} to {format_value(quantity.high, unit)}"


def grade_sentence(constraint: Constraint, grade: str, *, weakened: bool = False) -> str:
    """Why a constraint has its grade; ``weakened``: as measured it has this grade, but the evidence is only a lower bound."""
    what = f"{label(constraint.name)} {available_text(constraint)} against {required_text(constraint)}"
    margin = "" if constraint.margin == 1 else f" with margin {constraint.margin:g}"
    sentence = {
        "enough": f"Enough{margin}: {what}{_headroom(constraint)}.",
        "thin": f"Reaches the requirement, but not {_margin_words(constraint)}: {what}{_headroom(constraint)}.",
        "not enough": f"Not enough: {what}{_headroom(constraint)}.",
        "open": f"Not settled{margin}: {what}{_headroom(constraint)}.",
    }[grade]
    if weakened:
        sentence = (
            f"Not settled: as measured it is {grade}, {what}{_headroom(constraint)}, but that is only a lower bound."
        )
    return f"{sentence} ({constraint.note}.)" if constraint.note else sentence


def _margin_words(constraint: Constraint) -> str:
    return f"the margin of {constraint.margin:g}"


def headroom_text(headroom: float | None) -> str:
    """Headroom with two decimals, rounded down: what is short of 1 or of the margin never reads as if it reached it."""
    if headroom is None:
        return "unknown"
    if headroom >= _LARGEST_PLAIN_HEADROOM:
        return f"over {_LARGEST_PLAIN_HEADROOM}"
    return f"{math.floor(headroom * 100) / 100:.2f}"


def _headroom(constraint: Constraint) -> str:
    if constraint.headroom is None:
        return ""
    text, low = headroom_text(constraint.headroom), constraint.headroom_range[0]
    # The low end decides, so it must be seen where the point alone would say something else.
    ends = "" if low is None or headroom_text(low) == text else f" ({headroom_text(low)} at the low end)"
    return f", headroom {text}{ends}"


def flip_sentence(constraint: Constraint, *, lower_bound: bool) -> str:
    """At which requirement the grade of a constraint would change: a sentence, or "" when that is not known.

    From evidence that is only a lower bound of speed nothing follows about what is not enough.
    """
    low, high = constraint.headroom_range
    if constraint.required is None or low is None or high is None or not constraint.of_speed:
        return ""
    if low in (0, float("inf")) or high in (0, float("inf")):
        return ""
    name = label(constraint.name)
    if constraint.name in CAPACITIES:
        return _capacity_flip(constraint, low, high, lower_bound=lower_bound)
    if constraint.sense is Sense.AT_LEAST:
        safe = format_value(constraint.required * low / constraint.margin, constraint.unit)
        lost = format_value(constraint.required * high, constraint.unit)
        beyond = "beyond that a better measurement has to say" if lower_bound else f"not enough above {lost}"
        return f"{name}: enough up to a need of {safe}{_with_margin(constraint)}, {beyond}"
    safe = format_value(constraint.required / low * constraint.margin, constraint.unit)
    lost = format_value(constraint.required / high, constraint.unit)
    beyond = "below that a better measurement has to say" if lower_bound else f"not enough below {lost}"
    return f"{name}: enough down to a limit of {safe}{_with_margin(constraint)}, {beyond}"


def _capacity_flip(constraint: Constraint, low: float, high: float, *, lower_bound: bool) -> str:
    required, unit = constraint.required or 0.0, constraint.unit

    def load(value: float) -> str:
        # Shares of a user are none; a product may miss a whole number by its last bit.
        whole = math.floor(round(value, 6)) if constraint.name == "capacity_users" else value
        return format_value(whole, unit)

    safe, holds = load(required * low / constraint.margin), load(required * low)
    beyond = "beyond that a better measurement has to say" if lower_bound else f"fails above {load(required * high)}"
    return f"{label(constraint.name)}: holds up to {holds}, with the margin of {constraint.margin:g} up to {safe}, {beyond}"


def machines_sentence(served: Served | None) -> str:
    """How many equal machines would hold a load that one does not, or "" where one does or nobody knows."""
    if served is None or served.machines is None:
        return ""
    case = served.case
    slots = "1 slot" if served.machine_slots == 1 else f"{served.machine_slots} slots"
    with_margin = "" if case.margin == 1 else f" with the margin of {case.margin:g}"
    at_most = "" if served.ends.likely is not None else ", or fewer where batching gains something"
    return f"{slots} on each of {served.machines} such machines hold it{with_margin}{at_most}"


def _with_margin(constraint: Constraint) -> str:
    return "" if constraint.margin == 1 else f" (with margin {constraint.margin:g})"


def settle_sentence(
    grade: str, binding: Constraint | None, evidence: MachineEvidence, served: Served | None = None
) -> str | None:
    """What to do next; None when the verdict needs nothing more."""
    if grade == "enough":
        return None
    if evidence.contradictions:
        return "Measure bandwidth and model again on a quiet machine, and check the model's facts with `suffice ceiling --model`."
    if binding is None:
        return "State a decode rate, a latency limit or a request rate in the demand."
    if grade == "open":
        return _open_advice(binding, evidence, served)
    machines = machines_sentence(served) if binding.several else ""
    advice = _thin_advice(binding, evidence) if grade == "thin" else _not_enough_advice(binding, evidence)
    curve = ""
    if grade == "thin" and binding.several and evidence.service is None:
        curve = f"Batching may give the margin: {_measure_curve(served)}"
    return " ".join(sentence for sentence in (advice, curve, machines and f"{machines}.") if sentence) or None


def _not_enough_advice(binding: Constraint, evidence: MachineEvidence) -> str:
    if not binding.of_speed:
        return "A machine with more memory, or a smaller quantization, would hold it."
    return _attention_hint(binding, evidence)


def _thin_advice(binding: Constraint, evidence: MachineEvidence) -> str:
    low = binding.headroom_range[0]
    if not low:  # unknown, or so small that it is no number
        return "Recheck after quantization."
    factor = binding.margin / low
    of_what = "load" if binding.name in CAPACITIES else "speed"
    advice = f"Recheck after quantization: the margin needs {factor:.2f} times the {of_what}"
    if evidence.streamed_bytes is not None and binding.name == "decode_tokens_per_second":
        target = format_bytes(evidence.streamed_bytes / factor)
        advice += (
            f"; where memory bandwidth binds, that is a model that streams at most {target} per token "
            f"(this one streams {format_bytes(evidence.streamed_bytes)})"
        )
    return f"{advice}. {_attention_hint(binding, evidence)}".strip()


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
        slots = math.ceil(served.case.demanded * served.case.margin)
    elif served is not None:
        slots = min(slots, served.case.most_slots)
    return f"measure the service curve, `suffice check` with the same demand and --slots {max(2, slots)}."


def _open_advice(binding: Constraint, evidence: MachineEvidence, served: Served | None) -> str:
    """Everything that stands between the evidence and an answer, so that the next try is the last one."""
    if binding.available is None or binding.required is None:
        return f"Measure it: the record has no evidence about {label(binding.name)}."
    steps = []
    if evidence.disturbed:
        steps.append("Measure again while nothing else runs: `suffice check` with the same demand.")
    if evidence.engine_lower_bound:
        command = evidence.engine_advice or "pip install 'suffice[native]'"
        steps.append(f"Measure with an engine built for this CPU: {command}.")
    ranged = _range_advice(binding, evidence, served)
    if ranged:
        steps.append(ranged)
    return " ".join(steps)


def _range_advice(binding: Constraint, evidence: MachineEvidence, served: Served | None) -> str:
    """What would narrow the range, or "" when the range is not what keeps it open."""
    quantity = binding.available
    low, high = binding.headroom_range
    if quantity is None or (
        low is not None and high is not None and not low < binding.margin <= high and not low < 1 <= high
    ):
        return ""
    if binding.several:
        return _served_advice(evidence, served)
    if quantity.low is None and quantity.high is None:
        return "Measure with more repetitions: raise --budget, so that there is an interval."
    if quantity.low is None or quantity.high is None:
        return (
            "The run was shorter than the demand's lengths: raise --budget (a warning of the run says how far), or measure with "
            "--prompt-tokens and --depth of the demand."
        )
    return "Measure longer: raise --budget, so that the interval becomes narrower than the distance to the requirement."


def _served_advice(evidence: MachineEvidence, served: Served | None) -> str:
    if evidence.service is None:
        return f"A single stream cannot tell what several requests at once get: {_measure_curve(served)}"
    if evidence.service_uncertainty is None:
        return "Measure the service curve with more repetitions: raise --budget, so that its points have intervals."
    return (
        "The simulation is not sharp enough to tell: load a server with it, `suffice load --spawn MODEL --find-capacity` with the demand's "
        "lengths and limits."
    )
