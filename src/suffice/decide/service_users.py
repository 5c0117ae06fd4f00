"""How many users one curve carries: counts where a batch may be faster than a smaller one are tried one by one.

Some kernels take four rows at a time, so that a step of 4 sequences is faster than one of 3: four users may hold limits that three miss.
The demanded users, and those with the margin, therefore stand as they are simulated, whatever holds below them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.decide.service_load import MOST_STREAMS
from suffice.decide.service_rate import KNOWN, End
from suffice.model.demand import users_with_margin
from suffice.serving.capacity import holds, largest_whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.decide.service_load import ServedCase
    from suffice.serving.capacity import Proof
    from suffice.serving.curve import ServiceCurve

_LEAST_STREAMS: Final = 32  # users up to which a capacity is looked for, however few are demanded
_MOST_ALONE: Final = 16  # users that are tried one by one; above, a larger batch is taken to be no faster


@lru_cache(maxsize=KNOWN)
def users_end(curve: ServiceCurve, case: ServedCase, proof: Proof) -> End:
    """The most users at which the limits hold, each with a slot.

    Where the demanded users hold the limits with the margin, or else without it, it is the most up to which all from there on do; else the
    most up to which all do.
    """
    demanded, wanted = math.ceil(case.demanded), users_with_margin(case.demanded, case.margin)
    if not case.effort.finds_capacity:
        held = wanted <= MOST_STREAMS and users_hold(curve, case, proof, wanted)
        return End(slots=demanded, capacity=wanted if held else 0, capacity_slots=demanded)
    most = min(MOST_STREAMS, max(_LEAST_STREAMS, 4 * wanted))
    capacity = _most_users(curve, case, proof, most)
    return End(
        slots=demanded,
        capacity=capacity,
        capacity_slots=demanded,
        capped=capacity == most,
        uneven=_uneven(curve, case, proof, most),
    )


@lru_cache(maxsize=16 * KNOWN)
def users_hold(curve: ServiceCurve, case: ServedCase, proof: Proof, users: int) -> bool:
    """Whether the limits hold with so many users, each of whom has a slot."""
    load, trial = case.crowd(users)
    return holds(curve, case.scheduler(users), load, case.limits, trial, proof)


def _most_users(curve: ServiceCurve, case: ServedCase, proof: Proof, most: int) -> int:
    def held(users: int) -> bool:
        return users_hold(curve, case, proof, users)

    demanded, wanted = math.ceil(case.demanded), users_with_margin(case.demanded, case.margin)
    singly = _tried_singly(curve, case, most)
    if wanted <= most and held(wanted):
        return _climb(wanted, most, singly, held)
    if demanded <= most and held(demanded):
        return _climb(demanded, min(most, wanted - 1), singly, held)
    below = min(most, demanded - 1)
    if not singly:
        return largest_whole(max(1, below // 2), below, held)
    return _climb(1, below, singly, held) if held(1) else 0


def _climb(start: int, most: int, singly: int, held: Callable[[int], bool]) -> int:
    """The most up to which all from ``start`` on hold: one by one up to ``singly``, above it by doubling and halving."""
    users = start
    while users < min(singly, most):
        if not held(users + 1):
            return users
        users += 1
    return largest_whole(users, most, held)


def _tried_singly(curve: ServiceCurve, case: ServedCase, most: int) -> int:
    """Up to how many users each number is tried: as far as a larger batch is somewhere faster than a smaller one; 0: nowhere."""
    depths = (0.0, case.prompt.p50 + case.output.p50 / 2)
    dips = [
        size + 1
        for size in range(1, min(most, _MOST_ALONE))
        if any(_is_less(curve.decode_s(size + 1, depth), curve.decode_s(size, depth)) for depth in depths)
    ]
    return max(dips, default=0)


def _is_less(one: float, other: float) -> bool:
    """Less by more than the last bits."""
    return one < other and not math.isclose(one, other)


def _uneven(curve: ServiceCurve, case: ServedCase, proof: Proof, most: int) -> tuple[int, ...]:
    """Users at which the limits fail although they hold with more of them, among those that are tried one by one."""
    held = [users_hold(curve, case, proof, users) for users in range(1, _tried_singly(curve, case, most) + 1)]
    return tuple(users for users, holds_here in enumerate(held, 1) if not holds_here and any(held[users:]))


def users_machines(curve: ServiceCurve, case: ServedCase, end: End, proof: Proof) -> tuple[int, int] | None:
    """The fewest equal machines that hold the users with the margin, shared out evenly, and the slots of each; None: none would."""
    wanted = users_with_margin(case.demanded, case.margin)
    singly = _tried_singly(curve, case, wanted)
    known = [users for users in range(1, singly + 1) if users_hold(curve, case, proof, users)]
    most = max([*known, int(end.capacity)], default=0)
    if most == 0:
        return None
    for machines in range(math.ceil(wanted / most), wanted + 1):
        # Some machines have one user fewer than others, which is not always easier.
        if all(users_hold(curve, case, proof, users) for users in {math.ceil(wanted / machines), wanted // machines}):
            return machines, math.ceil(wanted / machines)
    return None
