"""What a comparison of models shows of their quality: the rule, and its only home.

1. Only labelled items that both models have a score for are paired. Where more than 5 % of the labelled items have no such pair, nothing is
   decided. Items that ask the same, and items of one group, are one cluster.
2. A candidate *passes* when it is shown that it loses at most what is allowed, and that it reaches the floor where there is one; it
   *fails* when one of the two is shown not to hold; else there are *not enough items*. Passing and failing are two families of tests, each
   corrected by Holm for the number of candidates, so that the chance of any wrong pass is at most one less the confidence, and so
   is that of any wrong fail.
3. *Equivalent* is a pass of which it is also shown that nothing larger than the allowed loss was gained. *Worse* is shown by a test of "no
   difference" of its own family where 2. has decided nothing.
4. A pass is withheld, as *no evidence*, where most answers of a model are empty, and where the reference is not shown to score more than may
   be lost while the candidate is not shown to be better: a model with nothing right would pass as well.
5. Of each kind of score it is said whether a difference is shown, corrected for the number of kinds; kinds decide nothing.

2. to 4. are :mod:`suffice.decide.quants_judge`.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from suffice.decide.quants_agreement import agreement_of
from suffice.decide.quants_floor import floor_judgement
from suffice.decide.quants_judge import direction_of, judged, may_lose, optional_holm
from suffice.decide.quants_pairs import Row, check_rows, clusters_of, figures_of, pairs_of
from suffice.decide.quants_types import (
    MOST_UNSCORED,
    CandidateQuality,
    Direction,
    Finding,
    KindAnswers,
    KindFigures,
    ModelQuality,
    QualityComparison,
)
from suffice.decide.quants_words import unscored_reason
from suffice.stats.shares import share_interval, summarize_share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.quants_pairs import Pairs
    from suffice.decide.quants_types import PairedFigures, QualityPolicy
    from suffice.model.items import ScoreKind
    from suffice.model.quants import AskedModel, Outcome, QuantsRecord, Task


def compare_quality(record: QuantsRecord, policy: QualityPolicy) -> QualityComparison:
    """Everything about quality that follows from a comparison's rows, also from one that is not complete.

    Raises:
        RecordError: rows that do not belong together.
    """
    check_rows(record)
    clusters = clusters_of(record.tasks)
    pairs = {one.subject.name: pairs_of(record.tasks, clusters, record.reference, one) for one in record.candidates}
    models = tuple(_model(model, record.tasks, clusters, policy) for model in record.models)
    looks = judged([_first_look(name, own, policy) for name, own in pairs.items()], pairs, models, policy)
    hashes = [task.item_hash for task in record.tasks if task.item_hash]
    return QualityComparison(
        policy=policy,
        items=len(record.tasks),
        labelled=sum(task.is_labelled for task in record.tasks),
        clusters=len(set(clusters)),
        repeated=len(hashes) - len(set(hashes)),
        models=models,
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
        kinds=_answers(tasks, model),
    )


def _answers(tasks: Sequence[Task], model: AskedModel) -> tuple[KindAnswers, ...]:
    by_kind: dict[ScoreKind | None, list[tuple[Task, Outcome]]] = {}
    for task, outcome in zip(tasks, model.outcomes, strict=True):
        if outcome.text is not None:
            by_kind.setdefault(task.kind, []).append((task, outcome))
    return tuple(
        KindAnswers(
            kind=kind,
            answers=len(own),
            empty=sum(is_empty(outcome) for _, outcome in own),
            cut=sum(outcome.is_cut for _, outcome in own),
            labelled=sum(task.is_labelled for task, _ in own),
            empty_wrong=sum(task.is_labelled and is_empty(outcome) and outcome.score != 1 for task, outcome in own),
            cut_wrong=sum(task.is_labelled and outcome.is_cut and outcome.score != 1 for task, outcome in own),
        )
        for kind, own in sorted(by_kind.items(), key=lambda entry: (entry[0] is None, entry[0] or ""))
    )


def is_empty(outcome: Outcome) -> bool:
    """Whether it is an answer without a character that is seen."""
    return outcome.text is not None and not outcome.text.strip()


def _first_look(name: str, pairs: Pairs, policy: QualityPolicy) -> CandidateQuality:
    """A candidate before it is judged beside the others: its figures, or why there is nothing to judge."""
    labelled = len(pairs.scored) + len(pairs.unscored)
    left_out = pairs.left_out
    finding, reason = Finding.NOT_ENOUGH_ITEMS, ""
    if not labelled:
        finding, reason = Finding.NO_LABELS, "no item says what a right answer is, so that nothing is decided"
    elif left_out.count > MOST_UNSCORED * labelled:
        why = {row.candidate.reason for row in pairs.unscored if row.candidate.score is None}
        shared = why.pop() if len(why) == 1 else None
        finding, reason = Finding.TOO_MANY_UNSCORED, unscored_reason(left_out, labelled, shared)
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
    adjusted = optional_holm({kind: one.p_value for kind, one in figures.items()})
    return tuple(
        _kind(kind, by_kind[kind], one, adjusted[kind], policy)
        for kind, one in sorted(figures.items(), key=lambda entry: (entry[0] is None, entry[0] or ""))
    )


def _kind(
    kind: ScoreKind | None, rows: Sequence[Row], figures: PairedFigures, p_holm: float | None, policy: QualityPolicy
) -> KindFigures:
    direction = direction_of(figures, p_holm, policy)
    if direction is Direction.NONE_SHOWN and not may_lose(rows, policy):
        direction = Direction.NOTHING_TO_LOSE
    chance = _chance(rows)
    own = share_interval(
        summarize_share([row.reference.score or 0.0 for row in rows], [row.cluster for row in rows]), policy.confidence
    )
    return KindFigures(
        kind=kind,
        paired=figures,
        p_holm=p_holm,
        direction=direction,
        chance=chance,
        reference_at_chance=chance is not None and own is not None and own.low <= chance,
    )


def _chance(rows: Sequence[Row]) -> float | None:
    """What a guess among the choices scores on average; None where an item has none, or their number is not known."""
    numbers = [row.task.choices for row in rows if row.task.choices is not None]
    return math.fsum(1 / number for number in numbers) / len(numbers) if len(numbers) == len(rows) else None
