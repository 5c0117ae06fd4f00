"""Where a number comes from. Every number that suffice prints carries one of these words."""

from __future__ import annotations

from enum import StrEnum


class Basis(StrEnum):
    """The kinds of evidence, strongest first in ``TRUST_ORDER``."""

    MEASURED = "measured"  # this machine, this engine, this model, raw samples kept
    EXTRAPOLATED = "extrapolated"  # from measurements of a part (chunks of a prompt, slices of a model)
    MEASURED_ELSEWHERE = "measured elsewhere"  # by others, on a machine of this very kind
    PREDICTED = "predicted"  # ceiling times an efficiency seen on comparable hardware
    CEILING = "ceiling"  # physics: what cannot be exceeded
    STATED = "stated"  # written by the user


TRUST_ORDER = (
    Basis.MEASURED,
    Basis.EXTRAPOLATED,
    Basis.MEASURED_ELSEWHERE,
    Basis.PREDICTED,
    Basis.CEILING,
    Basis.STATED,
)


def weakest(bases: list[Basis]) -> Basis | None:
    """The least trusted of some bases, or None of none: a verdict names the weakest basis it rests on."""
    return max(bases, key=TRUST_ORDER.index, default=None)
