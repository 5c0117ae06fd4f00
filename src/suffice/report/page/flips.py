"""At which demands the verdict would be another one: the sentences of :mod:`suffice.decide.wording`, in the page's language."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.constraint import Sense
from suffice.decide.wording import CAPACITIES, is_least
from suffice.model.basis import Basis
from suffice.report.page.model import Listing, Role, Section, Sentence, Text
from suffice.units import SECONDS_PER_DAY

if TYPE_CHECKING:
    from suffice.decide.constraint import Constraint
    from suffice.decide.service import Served
    from suffice.decide.verdict import GradedConstraint, Verdict
    from suffice.report.page.given import PageInput
    from suffice.report.page.words import Words

_OF_EACH: Final = ("decode_tokens_per_second", "ttft_s")  # at the demanded load the capacity answers for them
_LAST_BIT: Final = 6  # digits after which a product may miss a whole number


def flips_section(given: PageInput, words: Words) -> Section:
    """What would change the verdict, and what to do next."""
    verdict = given.decision.verdict
    title = words.text("section.flips")
    found = flip_sentences(given, words)
    if not found:
        return Section(key="flips", title=title, blocks=(Sentence(text=words.text("flips.none"), role=Role.NOTE),))
    items = Listing(items=tuple(Text(text=one) for one in found))
    intro = Sentence(text=words.text("flips.intro"))
    return Section(key="flips", title=title, blocks=(intro, items) if verdict.constraints else (intro,))


def flip_sentences(given: PageInput, words: Words) -> list[str]:
    """As many as the verdict has itself, in the same order."""
    verdict = given.decision.verdict
    if not verdict.flips:
        return []
    run = given.chosen
    is_bound = given.is_lower_bound
    served = None if verdict.service is None else verdict.service.served
    uneven = served is not None and bool(served.uneven)
    constraints = [item.constraint for item in _judged(verdict)]
    plain = [one for one in constraints if not (uneven and one.name == "capacity_users")]
    found = [_flip(one, words, is_bound=is_bound) for one in plain]
    found.append("" if served is None or run is None else _machines(served, words))
    return [sentence for sentence in found if sentence]


def _judged(verdict: Verdict) -> list[GradedConstraint]:
    """Without latencies under load, which the capacity answers for."""
    has_capacity = any(item.constraint.name in CAPACITIES for item in verdict.constraints)
    return [
        item
        for item in verdict.constraints
        if item.constraint.judged
        and not (has_capacity and item.constraint.several and item.constraint.name in _OF_EACH)
    ]


def _flip(constraint: Constraint, words: Words, *, is_bound: bool) -> str:
    low, high = constraint.headroom_range
    if constraint.required is None or not constraint.of_speed:
        return ""
    if constraint.name in CAPACITIES:
        return _capacity(constraint, words, is_bound=is_bound)
    if constraint.several and constraint.name in _OF_EACH:
        return ""
    if not low or not high or not math.isfinite(low) or not math.isfinite(high):
        return ""
    if constraint.name == "wall_time_s":
        return _window(constraint, words, is_bound=is_bound)
    up = constraint.sense is Sense.AT_LEAST
    safe = constraint.required * low / constraint.margin if up else constraint.required / low * constraint.margin
    lost = constraint.required * high if up else constraint.required / high
    return _sentence("flip.up" if up else "flip.down", constraint, words, safe=safe, lost=lost, is_bound=is_bound)


def _sentence(key: str, constraint: Constraint, words: Words, *, safe: float, lost: float, is_bound: bool) -> str:
    return words(
        f"{key}.open" if is_bound else key,
        label=words.label(constraint.name),
        safe=words.number(safe, constraint.unit),
        lost=words.number(lost, constraint.unit),
        margin=_margin(constraint, words),
    )


def _margin(constraint: Constraint, words: Words) -> str:
    return "" if constraint.margin == 1 else words("flip.margin", margin=f"{constraint.margin:g}")


def _window(constraint: Constraint, words: Words, *, is_bound: bool) -> str:
    """No window is longer than a day."""
    low, high = (end or math.inf for end in constraint.headroom_range)
    required = constraint.required or 0.0
    safe_s, lost_s = required / low * constraint.margin, required / high
    key = "flip.window" if safe_s <= SECONDS_PER_DAY else "flip.day"
    if key == "flip.day" and lost_s > SECONDS_PER_DAY and not is_bound:
        return words("flip.day.none", label=words.label(constraint.name))
    return _sentence(key, constraint, words, safe=safe_s, lost=lost_s, is_bound=is_bound)


def _capacity(constraint: Constraint, words: Words, *, is_bound: bool) -> str:
    """Loads, rounded to the side that is true; of a simulated rate no load is named beyond which it fails."""
    low, high = constraint.headroom_range
    required, users = constraint.required or 0.0, constraint.name == "capacity_users"
    if not low or not math.isfinite(low):
        return ""
    margined = required * low / constraint.margin
    least = ".least" if is_least(constraint) and low == constraint.headroom else ""
    parts = []
    if not users or round(margined, _LAST_BIT) >= 1:
        load = _load(margined, constraint, words)
        parts.append(words(f"flip.load{least}", load=load, margin=_margin(constraint, words)))
    if constraint.margin != 1:
        parts.append(words(f"flip.load.plain{least}", load=_load(required * low, constraint, words)))
    simulated = constraint.available is not None and constraint.available.basis is not Basis.MEASURED
    if is_bound:
        parts.append(words("flip.load.open"))
    elif high is not None and math.isfinite(high) and (users or not simulated):
        parts.append(words("flip.load.fails", load=_load(required * high, constraint, words, up=True)))
    if not parts:
        return ""
    return words("flip.load.line", label=words.label(constraint.name), parts=words("list.parts").join(parts))


def _load(value: float, constraint: Constraint, words: Words, *, up: bool = False) -> str:
    if constraint.unit == "users":
        return words.number(math.floor(round(value, _LAST_BIT)), constraint.unit)
    return words.number(_rounded(value, up=up), constraint.unit)


def _rounded(value: float, *, up: bool) -> float:
    """To four digits, upwards or downwards."""
    if value <= 0:
        return value
    step = float(f"1e{math.floor(math.log10(value)) - 3}")
    return (math.ceil if up else math.floor)(round(value / step, _LAST_BIT)) * step


def _machines(served: Served, words: Words) -> str:
    """How many equal machines would hold a load that one does not."""
    if served.machines is None:
        return ""
    margin = served.case.margin
    slots = served.machine_slots
    return words(
        "flip.machines",
        slots=words("slots.one") if slots == 1 else words("slots.more", slots=f"{slots}"),
        machines=f"{served.machines}",
        margin="" if margin == 1 else words("flip.machines.margin", margin=f"{margin:g}"),
        at_most="" if served.ends.likely is not None else words("flip.machines.at_most"),
    )
