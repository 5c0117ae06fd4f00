"""What a comparison of models shows of their quality: the rule, and its only home.

1. Only labelled items that both models have a score for are paired. Where more than 5 % of the labelled items have no such pair, nothing is
   decided. Items that ask the same, and items of one group, are one cluster.
2. A candidate *passes* when it is shown that it loses at most what is allowed, and that it reaches the floor where there is one; it
   *fails* when one of the two is shown not to hold; else there are *not enough items*. Passing and failing are two families of tests, each
   corrected by Holm for the number of candidates, so that the chance of any wrong pass is at most one less the confidence, and so
   is that of any wrong fail.
3. *Equivalent* is a pass of which it is also shown that nothing larger than the allowed loss was gained. *Worse* is shown by a test of "no
   difference" of its own family where 2. has decided nothing.
4. Of each kind of score it is said whether a difference is shown, corrected for the number of kinds; kinds decide nothing.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from suffice.decide.quants_agreement import agreement_of
from suffice.decide.quants_floor import floor_items, floor_judgement
from suffice.decide.quants_pairs import Row, check_rows, clusters_of, figures_of, pairs_of
from suffice.decide.quants_types import (
    MOST_UNSCORED,
    CandidateQuality,
    Direction,
    Finding,
    KindFigures,
    ModelQuality,
    QualityComparison,
)
from suffice.decide.quants_words import finding_reason, unscored_reason
from suffice.stats.multiplicity import bonferroni_level, holm, judge_together
from suffice.stats.noninferiority import Decision, equivalent, items_to_decide, non_inferior
from suffice.stats.paired import summarize_scores
from suffice.stats.shares import share_interval, summarize_share

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from suffice.decide.quants_pairs import Pairs
    from suffice.decide.quants_types import PairedFigures, QualityPolicy
    from suffice.model.items import ScoreKind
    from suffice.model.quants import AskedModel, QuantsRecord, Task
    from suffice.stats.noninferiority import Judgement

Name = TypeVar("Name", bound="Hashable")


def compare_quality(record: QuantsRecord, policy: QualityPolicy) -> QualityComparison:
    """Everything about quality that follows from a comparison's rows, also from one that is not complete.

    Raises:
        RecordError: rows that do not belong together.
    """
    check_rows(record)
    clusters = clusters_of(record.tasks)
    pairs = {one.subject.name: pairs_of(record.tasks, clusters, record.reference, one) for one in record.candidates}
    first_looks = [_first_look(name, own, policy) for name, own in pairs.items()]
    looks = _judged(first_looks, pairs, policy)
    hashes = [task.item_hash for task in record.tasks if task.item_hash]
    return QualityComparison(
        policy=policy,
        items=len(record.tasks),
        labelled=sum(task.is_labelled for task in record.tasks),
        clusters=len(set(clusters)),
        repeated=len(hashes) - len(set(hashes)),
        models=tuple(_model(model, record.tasks, clusters, policy) for model in record.models),
        candidates=tuple(looks),
        notes=() if record.complete else ("the comparison is not finished: these are the items so far",),
    )


def _model(model: AskedModel, tasks: Sequence[Task], clusters: Sequence[str], policy: QualityPolicy) -> ModelQuality:
    labelled = [
        (outcome, cluster)
        for task, outcome, cluster in zip(tasks, model.outcomes, clusters, strict=True)
        if task.is_labelled
    ]
    known = [(outcome.score, cluster) for outcome, cluster in labelled if outcome.score is not None]
    reasons = Counter(outcome.reason or "no reason given" for outcome, _ in labelled if outcome.score is None)
    summary = summarize_share([score for score, _ in known], [cluster for _, cluster in known]) if known else None
    return ModelQuality(
        name=model.subject.name,
        labelled=len(labelled),
        scored=len(known),
        mean=None if summary is None else summary.share,
        interval=None if summary is None else share_interval(summary, policy.confidence),
        is_binary=all(score in (0, 1) for score, _ in known),
        shortage=None if summary is None or summary.shortage is None else summary.shortage.value,
        unscored=tuple(sorted(reasons.items(), key=lambda entry: (-entry[1], entry[0]))),
        errors=sum(outcome.score is None and outcome.text is None for outcome in model.outcomes),
        cut=sum(outcome.is_cut for outcome in model.outcomes),
        floor=None if summary is None else floor_judgement(summary, policy.floor, policy.confidence),
    )


def _first_look(name: str, pairs: Pairs, policy: QualityPolicy) -> CandidateQuality:
    """A candidate before it is judged beside the others: its figures, or why there is nothing to judge."""
    labelled = len(pairs.scored) + len(pairs.unscored)
    left_out = pairs.left_out
    finding, reason = Finding.NOT_ENOUGH_ITEMS, ""
    if not labelled:
        finding, reason = Finding.NO_LABELS, "no item says what a right answer is, so that nothing is decided"
    elif left_out.count > MOST_UNSCORED * labelled:
        finding, reason = Finding.TOO_MANY_UNSCORED, unscored_reason(left_out, labelled)
    return CandidateQuality(
        name=name,
        paired=figures_of(pairs.scored, policy.confidence),
        left_out=left_out,
        finding=finding,
        reason=reason,
        direction=Direction.NOT_TESTED,
        kinds=_kinds(pairs.scored, policy) if finding is Finding.NOT_ENOUGH_ITEMS else (),
        agreement=agreement_of(pairs.rows, policy.confidence),
        flips=pairs.flips,
    )


def _kinds(rows: Sequence[Row], policy: QualityPolicy) -> tuple[KindFigures, ...]:
    by_kind: dict[ScoreKind | None, list[Row]] = {}
    for row in rows:
        by_kind.setdefault(row.task.kind, []).append(row)
    figures = {
        kind: found for kind, own in by_kind.items() if (found := figures_of(own, policy.confidence)) is not None
    }
    adjusted = _holm({kind: one.p_value for kind, one in figures.items()})
    return tuple(
        KindFigures(kind=kind, paired=one, p_holm=adjusted[kind], direction=_direction(one, adjusted[kind], policy))
        for kind, one in sorted(figures.items(), key=lambda entry: (entry[0] is None, entry[0] or ""))
    )


def _direction(figures: PairedFigures, p_holm: float | None, policy: QualityPolicy) -> Direction:
    if p_holm is None:
        return Direction.NOT_TESTED
    if p_holm > 1 - policy.confidence or figures.difference == 0:
        return Direction.NONE_SHOWN
    return Direction.WORSE if figures.difference < 0 else Direction.BETTER


def _holm(p_values: Mapping[Name, float | None]) -> dict[Name, float | None]:
    """Holm's adjustment of those that there are; the others stay None and do not count."""
    known = {name: p for name, p in p_values.items() if p is not None}
    return {**dict.fromkeys(p_values), **dict(zip(known, holm(list(known.values())), strict=True))}


def _judged(
    looks: Sequence[CandidateQuality], pairs: Mapping[str, Pairs], policy: QualityPolicy
) -> list[CandidateQuality]:
    """The candidates that can be judged, judged together; the others as they are."""
    open_ones = {
        look.name: look.paired for look in looks if look.finding is Finding.NOT_ENOUGH_ITEMS and look.paired is not None
    }
    together = {
        one.name: one
        for one in judge_together(
            {name: figures.summary for name, figures in open_ones.items()}, policy.max_loss, policy.confidence
        )
    }
    equivalences = {
        name: equivalent(figures.summary, policy.max_loss, policy.confidence) for name, figures in open_ones.items()
    }
    floors = {name: _floor_of(pairs[name], policy) for name in open_ones}
    p_yes = {name: _p_passes(one.alone, floors[name]) for name, one in together.items()}
    p_no = _holm({name: _p_fails(one.alone, floors[name]) for name, one in together.items()})
    p_same = {name: _p_passes(equivalences[name], floors[name]) for name in together}
    p_yes, p_same = _holm(p_yes), _holm(p_same)
    p_different = _holm({name: figures.p_value for name, figures in open_ones.items()})
    judged = []
    for look in looks:
        figures = open_ones.get(look.name)
        if figures is None:
            judged.append(look)
            continue
        one = replace(
            look,
            direction=_direction(figures, p_different[look.name], policy),
            p_holm=p_different[look.name],
            p_yes=p_yes[look.name],
            p_no=p_no[look.name],
            non_inferior=together[look.name],
            equivalence=equivalences[look.name],
            floor=floors[look.name],
        )
        judged.append(_concluded(one, pairs[look.name], p_same[look.name], policy))
    return judged


def _floor_of(pairs: Pairs, policy: QualityPolicy) -> Judgement | None:
    """Whether the candidate reaches the floor, on the items that are compared."""
    scores = [row.candidate.score for row in pairs.scored if row.candidate.score is not None]
    summary = summarize_share(scores, [row.cluster for row in pairs.scored])
    return floor_judgement(summary, policy.floor, policy.confidence)


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
    return min(1.0, 2 * min(known)) if known else None


def _concluded(look: CandidateQuality, pairs: Pairs, p_same: float | None, policy: QualityPolicy) -> CandidateQuality:
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
    look = replace(look, finding=finding)
    if finding in (Finding.WORSE, Finding.NOT_ENOUGH_ITEMS):
        needed, then = _items_enough(look, pairs, policy)
        look = replace(look, items_enough=needed, then=then)
    else:
        look = replace(look, stands_with_left_out=_stands(look, pairs, policy))
    return replace(look, reason=finding_reason(look, policy))


def _items_enough(look: CandidateQuality, pairs: Pairs, policy: QualityPolicy) -> tuple[int | None, Finding | None]:
    """About how many items would do, at the confidence that the number of candidates leaves for each, and what they would show."""
    if look.paired is None or look.non_inferior is None:
        return None, None
    level = bonferroni_level(policy.confidence, max(1, look.non_inferior.candidates))
    for_loss = items_to_decide(look.paired.summary, -policy.max_loss, level)
    loss_holds = look.paired.difference > -policy.max_loss
    needs = [(for_loss, loss_holds)]
    if look.floor is not None:
        needs.append(
            (
                floor_items(look.floor, _floor_of(pairs, replace(policy, confidence=level))),
                look.floor.estimate > look.floor.limit,
            )
        )
    if all(holds for _, holds in needs):
        numbers = [number for number, _ in needs]
        return (None, None) if None in numbers else (max(n for n in numbers if n is not None), Finding.PASSES)
    failing = [number for number, holds in needs if not holds and number is not None]
    return (min(failing), Finding.FAILS) if failing else (None, None)


def _stands(look: CandidateQuality, pairs: Pairs, policy: QualityPolicy) -> bool | None:
    """Whether the decision on the loss would be the same if each item that was left out had gone against it."""
    if not pairs.unscored or look.non_inferior is None:
        return None
    against = (0.0, 1.0) if look.finding is Finding.FAILS else (1.0, 0.0)
    scores = [row.scores or against for row in (*pairs.scored, *pairs.unscored)]
    summary = summarize_scores(
        [pair[0] for pair in scores],
        [pair[1] for pair in scores],
        [row.cluster for row in (*pairs.scored, *pairs.unscored)],
    )
    level = bonferroni_level(policy.confidence, max(1, look.non_inferior.candidates))
    wanted = Decision.NO if look.finding is Finding.FAILS else Decision.YES
    return non_inferior(summary, policy.max_loss, level).decision is wanted
