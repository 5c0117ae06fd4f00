"""Sentences about constraints. Numbers keep their units; nothing is concluded here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from suffice.decide.constraint import Constraint, Sense
from suffice.decide.quality import KEPT_UNIT
from suffice.model.basis import Basis
from suffice.units import SECONDS_PER_DAY, format_memory, format_seconds

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.decide.service import Served

CAPACITIES = ("capacity_users", "capacity_requests_per_second")  # constraints whose headroom is one of load
_OF_EACH = ("decode_tokens_per_second", "ttft_s")  # what each user has at the demanded load
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
    "quality_kept": "score against the reference's",
    "budget_per_month": "budget",
}


def label(name: str) -> str:
    """The name of a constraint for a reader."""
    return _LABELS.get(name, name)


def constraint_label(constraint: Constraint) -> str:
    """The same of a constraint, which tells what each of several users has from what a single stream has."""
    if constraint.several and constraint.name == "decode_tokens_per_second":
        return "decode for each user"
    return label(constraint.name)


def format_value(value: float | None, unit: str) -> str:
    """A number with its unit, or "unknown"."""
    if value is None:
        return "unknown"
    if unit == "s":
        return "without end" if value == float("inf") else format_seconds(value)
    if unit == "bytes":
        return format_memory(value)
    if unit == "share":
        return f"{value:.2%}".replace("%", " %")
    if unit == KEPT_UNIT:
        return _points(value, 1)
    return f"{value:.4g} {'user' if unit == 'users' and value == 1 else unit}"


def _points(kept: float, digits: int) -> str:
    """How far a score lies above the reference's: ``_points(0.996, 1) == "-0.4 points"``; nothing has no sign."""
    value = f"{100 * (kept - 1):+.{digits}f}"
    value = value[1:] if float(value) == 0 else value
    whole = value.removesuffix(".0")
    return f"{whole} point{'' if whole in ('+1', '-1') else 's'}"


def value_texts(required: float | None, available: float, unit: str) -> tuple[str, str]:
    """Required and available as text, with more digits where four would make unequal numbers look equal."""
    texts = format_value(required, unit), format_value(available, unit)
    if required is None or required == available or texts[0] != texts[1]:
        return texts
    if unit == KEPT_UNIT:
        return _points(required, 6), _points(available, 6)
    if unit == "share":
        return f"{required:.8%}".replace("%", " %"), f"{available:.8%}".replace("%", " %")
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
    if quantity.more_untried:
        text = f"at least {text}"
    if not quantity.interval_known:
        return f"{text} ({quantity.basis}, no interval)"
    if quantity.low is not None and quantity.low == quantity.high:
        return f"{text} ({quantity.basis})"
    return f"{text} ({_range_text(quantity, constraint)}, {quantity.basis})"


def _range_text(quantity: Quantity, constraint: Constraint) -> str:
    unit = constraint.unit
    if quantity.more_untried:
        low = (
            ""
            if quantity.low is None or quantity.low == quantity.point
            else f"at least {format_value(quantity.low, unit)} at the low end, "
        )
        return f"{low}more was not tried"
    if quantity.low is None and quantity.high is None:
        return constraint.unbounded
    if quantity.high is None:
        return f"at least {format_value(quantity.low, unit)}, no upper end known"
    if quantity.low is None:
        return f"at most {format_value(quantity.high, unit)}, no lower end known"
    return f"{format_value(quantity.low, unit)} to {format_value(quantity.high, unit)}"


def grade_sentence(constraint: Constraint, grade: str, *, weakened: bool = False) -> str:
    """Why a constraint has its grade; ``weakened``: as measured it has this grade, but the evidence is only a lower bound."""
    what = f"{constraint_label(constraint)} {available_text(constraint)} against {required_text(constraint)}"
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
    if constraint.headroom is None or constraint.unit == KEPT_UNIT:
        return ""
    text, low = headroom_text(constraint.headroom), constraint.headroom_range[0]
    # The low end decides, so it must be seen where the point alone would say something else.
    ends = "" if low is None or headroom_text(low) == text else f" ({headroom_text(low)} at the low end)"
    least = "at least " if is_least(constraint) else ""
    return f", headroom {least}{text}{ends}"


def is_least(constraint: Constraint) -> bool:
    """Whether what is available is only where a search ended."""
    return constraint.available is not None and constraint.available.more_untried


def flip_sentence(constraint: Constraint, *, lower_bound: bool) -> str:
    """At which requirement the grade of a constraint would change: a sentence, or "" when that is not known.

    From evidence that is only a lower bound of speed nothing follows about what is not enough.
    """
    low, high = constraint.headroom_range
    if constraint.required is None or not constraint.of_speed:
        return ""
    if constraint.name in CAPACITIES:
        return _capacity_flip(constraint, lower_bound=lower_bound)
    if constraint.several and constraint.name in _OF_EACH:
        return ""  # at the demanded load, without its margin: at such a limit the capacity would be another one
    if not low or not high or not math.isfinite(low) or not math.isfinite(high):
        return ""
    if constraint.name == "wall_time_s":
        return _window_flip(constraint, low, high, lower_bound=lower_bound)
    return _plain_flip(constraint, low, high, lower_bound=lower_bound)


def _plain_flip(constraint: Constraint, low: float, high: float, *, lower_bound: bool) -> str:
    name, required = label(constraint.name), constraint.required or 0.0
    if constraint.sense is Sense.AT_LEAST:
        safe = format_value(required * low / constraint.margin, constraint.unit)
        lost = format_value(required * high, constraint.unit)
        beyond = "beyond that a better measurement has to say" if lower_bound else f"not enough above {lost}"
        return f"{name}: enough up to a need of {safe}{_with_margin(constraint)}, {beyond}"
    safe = format_value(required / low * constraint.margin, constraint.unit)
    lost = format_value(required / high, constraint.unit)
    beyond = "below that a better measurement has to say" if lower_bound else f"not enough below {lost}"
    return f"{name}: enough down to a limit of {safe}{_with_margin(constraint)}, {beyond}"


def _window_flip(constraint: Constraint, low: float, high: float, *, lower_bound: bool) -> str:
    """No window is longer than a day, whatever the time that a job takes."""
    required, name = constraint.required or 0.0, label(constraint.name)
    safe_s, lost_s = required / low * constraint.margin, required / high
    beyond = "below that a better measurement has to say"
    if not lower_bound:
        beyond = f"not enough below {format_seconds(lost_s)}"
    if safe_s <= SECONDS_PER_DAY:
        return f"{name}: enough down to a window of {format_seconds(safe_s)}{_with_margin(constraint)}, {beyond}"
    if lost_s <= SECONDS_PER_DAY or lower_bound:
        return f"{name}: a window of a whole day is not shown to be enough{_with_margin(constraint)}, {beyond}"
    return f"{name}: not even a window of a whole day is enough"


def _capacity_flip(constraint: Constraint, *, lower_bound: bool) -> str:
    """Loads at which the demand would have another grade.

    Of a simulated rate no load is named beyond which it fails: its capacity is found from below, to a share.
    """
    low, high = constraint.headroom_range
    required, users = constraint.required or 0.0, constraint.name == "capacity_users"
    if not low or not math.isfinite(low):
        return ""

    def load(value: float, *, up: bool = False) -> str:
        # Shares of a user are none; a product may miss a whole number by its last bit. Rates are rounded to the side that is true.
        return format_value(math.floor(round(value, 6)) if users else _rounded(value, up=up), constraint.unit)

    margined = required * low / constraint.margin
    # Where the low end is that at which the search ended, more may hold.
    least = "at least " if is_least(constraint) and low == constraint.headroom else ""
    parts = []
    if not users or round(margined, 6) >= 1:
        parts.append(f"enough up to {least}{load(margined)}{_with_margin(constraint)}")
    if constraint.margin != 1:
        parts.append(f"holds without the margin up to {least}{load(required * low)}")
    simulated = constraint.available is not None and constraint.available.basis is not Basis.MEASURED
    if lower_bound:
        parts.append("beyond that a better measurement has to say")
    elif high is not None and math.isfinite(high) and (users or not simulated):
        parts.append(f"fails above {load(required * high, up=True)}")
    return f"{label(constraint.name)}: {', '.join(parts)}" if parts else ""


def _rounded(value: float, *, up: bool) -> float:
    """To four digits, upwards or downwards."""
    if value <= 0:
        return value
    step = float(f"1e{math.floor(math.log10(value)) - 3}")
    # A product may miss a number by its last bit.
    return (math.ceil if up else math.floor)(round(value / step, 6)) * step


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
