"""From a comparison of models to the quality evidence of a machine's record: what was decided there, carried over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.quality import Judged, QualityEvidence, of_the_reference
from suffice.decide.quantity import Quantity
from suffice.decide.quants_types import DEFAULT_MAX_LOSS, QualityPolicy
from suffice.decide.quants_words import counted, points
from suffice.errors import UsageError
from suffice.model.basis import Basis
from suffice.stats.noninferiority import Decision

if TYPE_CHECKING:
    from suffice.decide.quants_types import CandidateQuality, ModelQuality, QualityComparison
    from suffice.model.demand import Demand
    from suffice.stats.noninferiority import Judgement


def policy_of(demand: Demand | None, max_loss: float | None = None) -> QualityPolicy:
    """What a candidate has to reach: the demand's floor, and the loss that the demand states, else ``max_loss``, else one point.

    Raises:
        UsageError: the demand states another loss than ``max_loss``.
    """
    stated = None if demand is None else demand.quality_max_loss
    floor = None if demand is None else demand.quality_floor
    if stated is not None and max_loss is not None and stated != max_loss:
        raise UsageError(
            f"the demand allows a loss of {points(stated)} (quality_max_loss_points), and --max-loss one of {points(max_loss)}; state one"
        )
    loss = stated if stated is not None else max_loss
    return QualityPolicy(floor=floor, max_loss=DEFAULT_MAX_LOSS if loss is None else loss)


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
        told = f"{source}: {counted(own.scored, 'item')}"
        judged = own.floor
        ends = (None, None) if judged is None else (judged.low, judged.high)
        score = _score_of(own, judged, _reached(judged), ends)
        return of_the_reference(score, policy.floor, policy.max_loss, told)
    look = next(one for one in comparison.candidates if one.name == name)
    pairs = 0 if look.paired is None else look.paired.summary.items
    return QualityEvidence(
        score=_score_of(own, look.floor, True if policy.floor == 0 else look.floor_reached, look.floor_range),
        kept=_kept(look, policy),
        floor=policy.floor,
        max_loss=policy.max_loss,
        source=f"{source}: {name} against {reference.name} on {counted(pairs, 'item')}; {look.reason}",
    )


def _score_of(
    model: ModelQuality,
    judgement: Judgement | None,
    reached: bool | None,  # noqa: FBT001  # a value, no switch
    ends: tuple[float | None, float | None],
) -> Judged:
    """The score with the bounds by which it was judged; without a judgement with its interval."""
    if model.mean is None:
        return Judged(quantity=None, reached=None)
    if judgement is None:
        interval = model.interval
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        return Judged(quantity=Quantity(point=model.mean, low=low, high=high, basis=Basis.MEASURED), reached=reached)
    low, high = _agreeing(*ends, judgement.limit, reached)
    quantity = Quantity(point=judgement.estimate, low=low, high=high, basis=Basis.MEASURED)
    return Judged(quantity=quantity, reached=reached)


def _agreeing(
    low: float | None,
    high: float | None,
    limit: float,
    reached: bool | None,  # noqa: FBT001  # a value, no switch
) -> tuple[float | None, float | None]:
    """Bounds that agree with what was shown: by Holm's method a bound of what was shown ends at the limit (Strassburger and Bretz 2008)."""
    if reached is True:
        return limit if low is None else max(low, limit), high
    if reached is False:
        return low, limit if high is None else min(high, limit)
    return low, high


def _reached(judgement: Judgement | None) -> bool | None:
    """What a judgement shows; of no judgement (a floor of 0, or none) nothing is missed."""
    if judgement is None:
        return True
    return {Decision.YES: True, Decision.NO: False}.get(judgement.decision)


def _kept(look: CandidateQuality, policy: QualityPolicy) -> Judged:
    if look.paired is None:
        return Judged(quantity=None, reached=None)
    low, high = _agreeing(*look.loss_range, -policy.max_loss, look.loss_reached)
    quantity = Quantity(
        point=1 + look.paired.difference,
        low=None if low is None else 1 + low,
        high=None if high is None else 1 + high,
        basis=Basis.MEASURED,
    )
    return Judged(quantity=quantity, reached=look.loss_reached)
