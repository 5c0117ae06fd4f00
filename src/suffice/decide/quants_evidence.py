"""From a comparison of models to the quality evidence of a machine's record: what was decided there, carried over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.quality import Judged, QualityEvidence, of_the_reference
from suffice.decide.quantity import Quantity
from suffice.decide.quants_types import Finding, QualityPolicy
from suffice.model.basis import Basis
from suffice.stats.noninferiority import Decision

if TYPE_CHECKING:
    from suffice.decide.quants_types import CandidateQuality, ModelQuality, QualityComparison
    from suffice.model.demand import Demand
    from suffice.stats.noninferiority import Judgement

_PASSED = (Finding.EQUIVALENT, Finding.PASSES)


def policy_of(demand: Demand | None, max_loss: float | None = None) -> QualityPolicy:
    """What a candidate has to reach, as the demand states it; ``max_loss`` where the user says it, else one point of loss."""
    stated = None if demand is None else demand.quality_max_loss
    floor = None if demand is None else demand.quality_floor
    loss = max_loss if max_loss is not None else stated
    return QualityPolicy(floor=floor) if loss is None else QualityPolicy(floor=floor, max_loss=loss)


def quality_evidence(comparison: QualityComparison, name: str, *, source: str) -> QualityEvidence:
    """What a comparison says of one of its models.

    Args:
        comparison: as concluded.
        name: of the model in it.
        source: names the comparison for a reader.

    Raises:
        KeyError: it has no such model.
    """
    models = {model.name: model for model in comparison.models}
    own, reference = models[name], comparison.reference
    policy = comparison.policy
    if own is reference:
        told = f"{source}: {own.scored} items"
        return of_the_reference(_score_of(own, _reached(own.floor)), policy.floor, policy.max_loss, told)
    look = next(one for one in comparison.candidates if one.name == name)
    return QualityEvidence(
        score=_score_of(own, _floor_reached(look)),
        kept=_kept(look),
        floor=policy.floor,
        max_loss=policy.max_loss,
        source=f"{source}: {name} against {reference.name} on {_pairs(look)} items; {look.reason}",
    )


def _pairs(look: CandidateQuality) -> int:
    return 0 if look.paired is None else look.paired.summary.items


def _score_of(model: ModelQuality, reached: bool | None) -> Judged | None:  # noqa: FBT001  # a value, no switch
    if model.mean is None:
        return Judged(quantity=None, reached=None)
    interval = model.interval
    quantity = Quantity(
        point=model.mean,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        basis=Basis.MEASURED,
    )
    return Judged(quantity=quantity, reached=reached)


def _reached(judgement: Judgement | None) -> bool | None:
    """What a judgement shows; of no judgement (a floor of 0, or none) nothing is missed."""
    if judgement is None:
        return True
    return {Decision.YES: True, Decision.NO: False}.get(judgement.decision)


def _floor_reached(look: CandidateQuality) -> bool | None:
    """Passed as a whole, or failed by this floor; else not shown."""
    if look.finding in _PASSED:
        return True
    return False if look.finding is Finding.FAILS and _reached(look.floor) is False else None


def _kept(look: CandidateQuality) -> Judged:
    if look.paired is None:
        return Judged(quantity=None, reached=None)
    interval, difference = look.paired.interval, look.paired.difference
    quantity = Quantity(
        point=1 + difference,
        low=None if interval is None else 1 + interval.low,
        high=None if interval is None else 1 + interval.high,
        basis=Basis.MEASURED,
    )
    return Judged(quantity=quantity, reached=_loss_reached(look))


def _loss_reached(look: CandidateQuality) -> bool | None:
    if look.finding in _PASSED:
        return True
    if look.finding is not Finding.FAILS or look.non_inferior is None:
        return None
    # A finding rests on one of the two at least: where no floor was missed, it was the loss.
    return False if look.non_inferior.decision is Decision.NO or _floor_reached(look) is None else None
