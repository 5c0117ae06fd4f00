"""Quality as a constraint beside speed and memory: the score on the team's own items, and what a quantization keeps of it.

The ranges are made by :mod:`suffice.decide.quants_link` from a kept comparison, so that they say what that comparison decided: corrected for
the number of candidates, a one-sided 95 % on each side.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide.constraint import Constraint, Sense
from suffice.decide.quantity import Quantity
from suffice.model.basis import Basis

if TYPE_CHECKING:
    from suffice.model.demand import Demand

QUALITY_FLOOR: Final = "quality_floor"
QUALITY_KEPT: Final = "quality_kept"
_HOW: Final = "not measured: `suffice quants` does, on your own items"


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityEvidence:
    """What a comparison on the user's items says of the model of a record. A quantity of None: nothing is known.

    Attributes:
        score: mean score, 0 to 1.
        kept: 1 plus the difference to the reference's mean score: 0.99 has lost one point. Of the reference itself it is exactly 1.
        source: which comparison, on how many items, against what.
    """

    score: Quantity | None
    kept: Quantity | None
    source: str


def all_kept() -> Quantity:
    """What the reference keeps of itself."""
    return Quantity(point=1.0, low=1.0, high=1.0, basis=Basis.MEASURED)


def quality_constraints(demand: Demand, quality: QualityEvidence | None) -> list[Constraint]:
    """What the demand says of quality against what is known. Without a comparison it is shown and does not decide."""
    stated = (
        (QUALITY_FLOOR, demand.quality_floor, None if quality is None else quality.score),
        (
            QUALITY_KEPT,
            None if demand.quality_max_loss is None else 1 - demand.quality_max_loss,
            None if quality is None else quality.kept,
        ),
    )
    return [
        Constraint(
            name=name,
            unit="share",
            sense=Sense.AT_LEAST,
            required=required,
            available=available,
            margin=1.0,
            of_speed=False,
            judged=quality is not None,
            note=_HOW if quality is None else quality.source,
            unbounded="not enough items for an interval",
        )
        for name, required, available in stated
        if required is not None
    ]
