"""A hybrid in sentences: who does what, what it saves and between which ends, and what that depends on."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_hybrid_gpus import Speeds
from suffice.units import KILO, SECONDS_PER_HOUR, format_seconds

if TYPE_CHECKING:
    from suffice.decide.plan_hybrid import Hybrid, Saving
    from suffice.decide.plan_hybrid_gpus import Fleet
    from suffice.decide.plan_hybrid_parts import Rented

_NOTHING: Final = 0.005  # rounds to no per cent
_MANY: Final = 10.0  # times a cost from which on no decimal is told


def named(fleet: Fleet) -> str:
    """``2 x aws/g5.xlarge``."""
    return fleet.machine.name if fleet.count == 1 else f"{fleet.count} x {fleet.machine.name}"


def notes_of(hybrid: Hybrid) -> tuple[str, ...]:
    """Who does what, the likely saving, its ends, and what it depends on."""
    return (_division(hybrid), _likely(hybrid.saving), _ends(hybrid.saving), _shown(hybrid.saving), _depends(hybrid))


def saving_words(saving: float) -> str:
    """A share of the cost in words: "saves 23 %", "saves nothing: it costs 45 % more", "saves nothing: it costs 4.2 times as much"."""
    if saving >= _NOTHING:
        return f"saves {_percent(saving)}"
    if saving > -_NOTHING:
        return "saves nothing"
    if saving > -1:
        return f"saves nothing: it costs {_percent(-saving)} more"
    times = 1 - saving
    return (
        f"saves nothing: it costs {times:.1f} times as much"
        if times < _MANY
        else f"saves nothing: it costs {times:,.0f} times as much"
    )


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _division(hybrid: Hybrid) -> str:
    parts = hybrid.parts
    waiting, rest = (demand.requests_per_day or 0.0 for demand in (parts.waiting, parts.rest))
    share = waiting / (waiting + rest)
    window = (
        "the day"
        if parts.rest.window_s is None
        else f"{format_seconds(parts.rest.window_s)} of each day, for which it is rented"
    )
    return (
        f"{named(hybrid.waiting)} for the {100 * share:.3g} % of the requests that somebody waits for, {named(hybrid.rest)} for the rest, "
        f"which is worked off within {window}"
    )


def _money(fleet: Fleet) -> str:
    return f"{fleet.monthly:,.0f} {fleet.machine.price.currency} a month"


def _how(fleet: Fleet) -> str:
    if fleet.part_time and not fleet.streams:
        return f"{fleet.part_time} of them for the rest alone"
    return (
        "the rest in idle time" if fleet.streams or fleet.speeds is Speeds.FAST else "every request within the limits"
    )


def _likely(saving: Saving) -> str:
    alone = saving.likely_alone
    if alone is None or saving.likely is None:
        return "what it likely saves is not known: too little is predicted of these GPUs"
    return (
        f"against GPUs alone it likely {saving_words(saving.likely)}: at the roofline through the predicted speeds {named(alone)} for "
        f"{_money(alone)} do everything ({_how(alone)}, simulated)"
    )


def _ends(saving: Saving) -> str:
    best = saving.alone_at_best
    low = (
        f"if GPUs answer as many requests at once as their prefill rate allows, {named(best)} for {_money(best)} may do everything, "
        f"and the hybrid {saving_words(saving.low)}"
    )
    if saving.high is None:
        return f"{low}; at the other end nothing is known"
    other = saving_words(saving.high) + (" at most" if saving.high >= _NOTHING else "")
    return f"{low}; if they gain nothing by batches, it {other}"


def _shown(saving: Saving) -> str:
    alone = saving.shown_alone
    if alone is None:
        return "no GPUs alone are shown to be enough for everything at the slow end of their prediction"
    start = f"GPUs alone that are shown to be enough: {named(alone)} for {_money(alone)} ({_how(alone)})"
    return start if saving.shown is None else f"{start}; against them it {saving_words(saving.shown)}"


def _depends(hybrid: Hybrid) -> str:
    """What a request costs on either side, with nothing idle; and how many whole GPUs the rest adds."""
    saving, cpu = hybrid.saving, hybrid.rest.machine
    gpu = (saving.likely_alone or saving.shown_alone or saving.alone_at_best).machine
    return (
        f"it depends on what 1,000 requests cost on a machine that never rests, {_per_thousand(cpu)} on {cpu.name} and "
        f"{_per_thousand(gpu)} on {gpu.name}, and on how many whole GPUs the rest adds; {_next_step(saving, gpu)}"
    )


def _per_thousand(machine: Rented) -> str:
    price = machine.price
    rates = [rate for rate in (machine.most_per_s, machine.one_by_one_per_s) if 0 < rate < math.inf]
    ends = [f"{price.per_hour / SECONDS_PER_HOUR / rate * KILO:.2g}" for rate in rates]
    return f"{' to '.join(dict.fromkeys(ends))} {price.currency}" if ends else "an unknown amount"


def _next_step(saving: Saving, gpu: Rented) -> str:
    if saving.high is not None and saving.high < 0:
        return "it saves at neither end"
    if saving.low > 0:
        return "it saves at both ends"
    return f"a measurement of {gpu.name} with several requests at once (suffice measure --slots 8, suffice load) decides it"
