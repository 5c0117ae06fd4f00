"""Candidates judged beside each other: passes, fails, worse, not enough items, or no evidence. The rule is told in :mod:`suffice.decide.quants`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

from suffice.decide.quants_floor import floor_judgement
from suffice.decide.quants_types import CandidateQuality, Criterion, Direction, Finding
from suffice.decide.quants_words import finding_reason, no_evidence_reason
from suffice.stats.multiplicity import bonferroni_level, holm, judge_together
from suffice.stats.noninferiority import Decision, equivalent, items_to_decide, non_inferior
from suffice.stats.paired import difference_interval, summarize_scores
from suffice.stats.shares import p_share_above, summarize_share

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from suffice.decide.quants_pairs import Pairs, Row
    from suffice.decide.quants_types import ModelQuality, PairedFigures, QualityPolicy
    from suffice.stats.noninferiority import Judgement

Name = TypeVar("Name", bound="Hashable")
_PASSED: Final = (Finding.EQUIVALENT, Finding.PASSES)
_CRITERIA: Final = 2  # either of which is enough to fail


def judged(
    looks: Sequence[CandidateQuality],
    pairs: Mapping[str, Pairs],
    models: Sequence[ModelQuality],
    policy: QualityPolicy,
) -> list[CandidateQuality]:
    """The candidates that can be judged, judged together; the others as they are. ``models`` has the reference first."""
    open_ones = {
        look.name: look.paired for look in looks if look.finding is Finding.NOT_ENOUGH_ITEMS and look.paired is not None
    }
    summaries = {name: figures.summary for name, figures in open_ones.items()}
    together = {one.name: one for one in judge_together(summaries, policy.max_loss, policy.confidence)}
    same = {name: equivalent(summary, policy.max_loss, policy.confidence) for name, summary in summaries.items()}
    floors = {name: _floor_of(pairs[name].scored, policy, policy.confidence) for name in open_ones}
    p_yes = optional_holm({name: _p_passes(one.alone, floors[name]) for name, one in together.items()})
    p_no = optional_holm({name: _p_fails(one.alone, floors[name]) for name, one in together.items()})
    p_same = optional_holm({name: _p_passes(same[name], floors[name]) for name in together})
    p_different = optional_holm({name: figures.p_value for name, figures in open_ones.items()})
    by_name = {model.name: model for model in models}
    found = []
    for look in looks:
        figures = open_ones.get(look.name)
        if figures is None:
            found.append(look)
            continue
        one = replace(
            look,
            direction=direction_of(figures, p_different[look.name], policy),
            p_holm=p_different[look.name],
            p_yes=p_yes[look.name],
            p_no=p_no[look.name],
            non_inferior=together[look.name],
            equivalence=same[look.name],
            floor=floors[look.name],
            reference_floor=models[0].floor,
        )
        both = (models[0], by_name[look.name])
        found.append(_concluded(one, pairs[look.name], both, p_same[look.name], policy))
    return found


def direction_of(figures: PairedFigures, p_holm: float | None, policy: QualityPolicy) -> Direction:
    """Whether a difference is shown by a corrected p-value."""
    if p_holm is None:
        return Direction.NOT_TESTED
    if p_holm > 1 - policy.confidence or figures.difference == 0:
        return Direction.NONE_SHOWN
    return Direction.WORSE if figures.difference < 0 else Direction.BETTER


def optional_holm(p_values: Mapping[Name, float | None]) -> dict[Name, float | None]:
    """Holm's adjustment of those that there are; the others stay None and do not count."""
    known = {name: p for name, p in p_values.items() if p is not None}
    return {**dict.fromkeys(p_values), **dict(zip(known, holm(list(known.values())), strict=True))}


def may_lose(rows: Sequence[Row], policy: QualityPolicy) -> bool:
    """Whether the reference is shown to score more on these rows than may be lost, so that a model with nothing right would not pass."""
    scores = [row.reference.score or 0.0 for row in rows]
    p_value = p_share_above(summarize_share(scores, [row.cluster for row in rows]), policy.max_loss)
    return p_value is not None and p_value <= 1 - policy.confidence


def _floor_of(rows: Sequence[Row], policy: QualityPolicy, confidence: float) -> Judgement | None:
    """Whether the candidate reaches the floor, on the items that are compared."""
    scores = [row.candidate.score or 0.0 for row in rows]
    return floor_judgement(summarize_share(scores, [row.cluster for row in rows]), policy.floor, confidence)


def _p_passes(loss: Judgement, floor: Judgement | None) -> float | None:
    """Both have to be shown, so that the larger p-value is that of the pass (an intersection-union test)."""
    if floor is None:
        return loss.p_yes
    return None if loss.p_yes is None or floor.p_yes is None else max(loss.p_yes, floor.p_yes)


def _p_fails(loss: Judgement, floor: Judgement | None) -> float | None:
    """Either one is enough to fail, so that the smaller counts, doubled for the two chances to be wrong."""
    if floor is None:
        return loss.p_no
    known = [p for p in (loss.p_no, floor.p_no) if p is not None]
    return min(1.0, _CRITERIA * min(known)) if known else None


def _concluded(
    look: CandidateQuality,
    pairs: Pairs,
    models: tuple[ModelQuality, ModelQuality],
    p_same: float | None,
    policy: QualityPolicy,
) -> CandidateQuality:
    """The finding of one candidate whose p-values are known."""
    risk = 1 - policy.confidence
    if look.p_yes is not None and look.p_yes <= risk:
        finding = Finding.EQUIVALENT if p_same is not None and p_same <= risk else Finding.PASSES
    elif look.p_no is not None and look.p_no <= risk:
        finding = Finding.FAILS
    elif look.direction is Direction.WORSE:
        finding = Finding.WORSE
    else:
        finding = Finding.NOT_ENOUGH_ITEMS
    look = _with_ranges(_by_criterion(replace(look, finding=finding), risk), pairs, policy)
    lacking = _no_evidence(look, pairs, models, policy)
    if lacking:
        return replace(look, finding=Finding.NO_EVIDENCE, loss_reached=None, reason=lacking)
    if finding in (Finding.WORSE, Finding.NOT_ENOUGH_ITEMS):
        look = _with_items_enough(look, pairs, policy)
    else:
        look = replace(look, stands_with_left_out=_stands(look, pairs, policy))
    return replace(look, reason=finding_reason(look, policy))


def _no_evidence(
    look: CandidateQuality, pairs: Pairs, models: tuple[ModelQuality, ModelQuality], policy: QualityPolicy
) -> str:
    """Why a pass, or more items, would say nothing; "" where they do."""
    if look.finding not in (*_PASSED, Finding.NOT_ENOUGH_ITEMS):
        return ""
    empty = [model for model in models if model.is_mostly_empty]
    if empty:
        return no_evidence_reason(empty, None, policy)
    figures = look.paired
    if figures is None or look.direction is Direction.BETTER:
        return ""
    nothing_right = figures.reference_mean == 0 and figures.candidate_mean == 0
    if nothing_right or (look.finding in _PASSED and not may_lose(pairs.scored, policy)):
        return no_evidence_reason([], figures, policy)
    return ""


def _by_criterion(look: CandidateQuality, risk: float) -> CandidateQuality:
    """What was shown of the loss and of the floor alone, so that the two say together what was found.

    A pass shows both. Else each is held against its share of the risk (Bonferroni), which shows nothing that Holm does not; the one with the
    smaller p-value of a fail is what failed.
    """
    if look.non_inferior is None:
        return look
    loss, floor = look.non_inferior.alone, look.floor
    if look.finding in _PASSED:
        return replace(look, loss_reached=True, floor_reached=None if floor is None else True)
    own = risk / max(1, look.non_inferior.candidates)
    loss_reached, floor_reached = _shown(loss, own, floor is not None), _shown(floor, own, floor is not None)
    if look.finding is Finding.FAILS:
        by_floor = floor is not None and (loss.p_no is None or (floor.p_no is not None and floor.p_no < loss.p_no))
        loss_reached = loss_reached if by_floor else False
        floor_reached = False if by_floor else floor_reached
    return replace(look, loss_reached=loss_reached, floor_reached=floor_reached)


def _shown(judgement: Judgement | None, risk: float, two: bool) -> bool | None:  # noqa: FBT001  # whether there are two ways to fail
    if judgement is None or judgement.p_yes is None or judgement.p_no is None:
        return None
    if judgement.p_yes <= risk:
        return True
    return False if judgement.p_no <= (risk / _CRITERIA if two else risk) else None


def _levels(look: CandidateQuality, policy: QualityPolicy) -> tuple[float, float]:
    """The confidence that the number of candidates leaves for each to pass, and to fail, where there are two ways to."""
    candidates = 1 if look.non_inferior is None else max(1, look.non_inferior.candidates)
    ways = 1 if look.floor is None else _CRITERIA
    return bonferroni_level(policy.confidence, candidates), bonferroni_level(policy.confidence, candidates * ways)


def _with_ranges(look: CandidateQuality, pairs: Pairs, policy: QualityPolicy) -> CandidateQuality:
    """The bounds that each criterion was held against."""
    if look.paired is None:
        return look
    to_pass, to_fail = _levels(look, policy)
    lower, upper = (difference_interval(look.paired.summary, 2 * level - 1) for level in (to_pass, to_fail))
    floors = [_floor_of(pairs.scored, policy, level) for level in (to_pass, to_fail)]
    return replace(
        look,
        loss_range=(None if lower is None else lower.low, None if upper is None else upper.high),
        floor_range=(None if floors[0] is None else floors[0].low, None if floors[1] is None else floors[1].high),
    )


def _with_items_enough(look: CandidateQuality, pairs: Pairs, policy: QualityPolicy) -> CandidateQuality:
    """About how many items would do, at the confidence that is really used, and what they would show."""
    figures = look.paired
    if figures is None or look.non_inferior is None:
        return look
    holds = {Criterion.LOSS: figures.difference > -policy.max_loss}
    if look.floor is not None:
        holds[Criterion.FLOOR] = look.floor.estimate > look.floor.limit
    to_pass, to_fail = _levels(look, policy)
    passing = all(holds.values())
    needs = {
        one: _items_for(one, look, pairs, replace(policy, confidence=to_pass if passing else to_fail))
        for one, held in holds.items()
        if held is passing
    }
    known = {one: number for one, number in needs.items() if number is not None}
    if not known or (passing and len(known) < len(needs)):
        return look
    # What is not decided yet needs more than there are.
    least = figures.summary.items + 1
    if passing:
        return replace(look, items_enough=max(least, *known.values()), then=Finding.PASSES)
    first = min(known, key=lambda one: known[one])
    return replace(look, items_enough=max(least, known[first]), then=Finding.FAILS, then_by=first)


def _items_for(criterion: Criterion, look: CandidateQuality, pairs: Pairs, policy: QualityPolicy) -> int | None:
    """The items that settle one criterion at the policy's confidence; as many as there are where it is settled."""
    if criterion is Criterion.LOSS:
        return (
            None if look.paired is None else items_to_decide(look.paired.summary, -policy.max_loss, policy.confidence)
        )
    floor = _floor_of(pairs.scored, policy, policy.confidence)
    if floor is None or floor.decision is not Decision.NOT_ENOUGH:
        return len(pairs.scored)
    return floor.items_enough


def _stands(look: CandidateQuality, pairs: Pairs, policy: QualityPolicy) -> bool | None:
    """Whether what was decided would be the same if each item that was left out had gone against it."""
    if not pairs.unscored or look.non_inferior is None:
        return None
    fails = look.finding is Finding.FAILS
    against = (0.0, 1.0) if fails else (1.0, 0.0)
    rows = (*pairs.scored, *pairs.unscored)
    scores, clusters = [row.scores or against for row in rows], [row.cluster for row in rows]
    own = [pair[1] for pair in scores]
    level = _levels(look, policy)[1 if fails else 0]
    loss = non_inferior(summarize_scores([pair[0] for pair in scores], own, clusters), policy.max_loss, level)
    floor = floor_judgement(summarize_share(own, clusters), policy.floor, level)
    claims = [(look.loss_reached, loss)] + ([] if floor is None else [(look.floor_reached, floor)])
    if not fails:
        return all(judgement.decision is Decision.YES for _, judgement in claims)
    return any(reached is False and judgement.decision is Decision.NO for reached, judgement in claims)
