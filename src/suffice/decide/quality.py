"""Quality as a constraint beside speed and memory: the score on the team's own items, and what a quantization keeps of it.

Both are judged by the comparison itself, corrected for the number of candidates (:mod:`suffice.decide.quants`); here they are only carried over.
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
KEPT_UNIT: Final = "1 + difference"
"""Of ``quality_kept``: 0.99 is a score one point below the reference's, which is how a reader is told."""
_HOW: Final = "not measured: `suffice quants` does, on your own items"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A quantity, and whether it was shown to reach what is asked (None: neither that nor the contrary)."""

    quantity: Quantity | None
    reached: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityEvidence:
    """What a comparison on the user's items says of the model of a record.

    Attributes:
        score: mean score, 0 to 1, against the floor that the comparison was judged by; None: by none. Its ends, as those of ``kept``, are
            the one-sided bounds that were held against what is asked.
        kept: 1 plus the difference to the reference's mean score: 0.99 has lost one point. Of the reference itself it is exactly 1.
        floor: that the score was judged by.
        max_loss: that ``kept`` was judged by, 0.01 for a point.
        source: which comparison, on how many items, against what.
    """

    score: Judged | None
    kept: Judged
    floor: float | None
    max_loss: float
    source: str


def of_the_reference(score: Judged | None, floor: float | None, max_loss: float, source: str) -> QualityEvidence:
    """What a comparison says of the model that the others are compared with: it keeps all of its own quality."""
    all_of_it = Quantity(point=1.0, low=1.0, high=1.0, basis=Basis.MEASURED)
    kept = Judged(quantity=all_of_it, reached=True)
    return QualityEvidence(score=score, kept=kept, floor=floor, max_loss=max_loss, source=source)


def quality_constraints(demand: Demand, quality: QualityEvidence | None) -> list[Constraint]:
    """What the demand says of quality against what is known. Without a comparison it is shown and does not decide.

    Raises:
        ValueError: the comparison was judged by another floor or loss than the demand's.
    """
    if quality is not None and (
        (demand.quality_floor is not None and demand.quality_floor != quality.floor)
        or (demand.quality_max_loss is not None and demand.quality_max_loss != quality.max_loss)
    ):
        raise ValueError("the comparison was judged by another quality than the demand's")
    stated = (
        (QUALITY_FLOOR, "share", demand.quality_floor, None if quality is None else quality.score),
        (
            QUALITY_KEPT,
            KEPT_UNIT,
            None if demand.quality_max_loss is None else 1 - demand.quality_max_loss,
            None if quality is None else quality.kept,
        ),
    )
    return [
        Constraint(
            name=name,
            unit=unit,
            sense=Sense.AT_LEAST,
            required=required,
            available=None if found is None else found.quantity,
            margin=1.0,
            of_speed=False,
            judged=quality is not None,
            note=_HOW if quality is None else quality.source,
            unbounded="not enough items for an interval",
            by_test=quality is not None,
            reached=None if found is None else found.reached,
        )
        for name, unit, required, found in stated
        if required is not None
    ]
