"""The pairs of scores in a comparison's rows, and what belongs together among its items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.decide.quants_types import Flip, LeftOut, PairedFigures
from suffice.errors import RecordError
from suffice.stats.mcnemar import PairedCounts, mcnemar
from suffice.stats.paired import difference_interval, p_different, summarize_scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.quants import AskedModel, Outcome, QuantsRecord, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One item with the two outcomes and the cluster that it counts in."""

    task: Task
    cluster: str
    reference: Outcome
    candidate: Outcome

    @property
    def scores(self) -> tuple[float, float] | None:
        """Both scores, or None where one is unknown or the item has no label."""
        if not self.task.is_labelled or self.reference.score is None or self.candidate.score is None:
            return None
        return self.reference.score, self.candidate.score


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairs:
    """The rows of one candidate: ``scored`` those with both scores, ``unscored`` the other labelled ones."""

    rows: tuple[Row, ...]
    scored: tuple[Row, ...]
    unscored: tuple[Row, ...]

    @property
    def left_out(self) -> LeftOut:
        """The unscored, by whose score is unknown."""
        return LeftOut(
            reference_only=sum(
                row.reference.score is None and row.candidate.score is not None for row in self.unscored
            ),
            candidate_only=sum(
                row.candidate.score is None and row.reference.score is not None for row in self.unscored
            ),
            both=sum(row.reference.score is None and row.candidate.score is None for row in self.unscored),
        )

    @property
    def flips(self) -> tuple[Flip, ...]:
        """The scored rows whose scores differ, the greatest losses first, else in the order of the items."""
        flips = [
            Flip(task=row.task, reference=row.reference, candidate=row.candidate)
            for row in self.scored
            if row.reference.score != row.candidate.score
        ]
        return tuple(sorted(flips, key=lambda flip: flip.change))


def clusters_of(tasks: Sequence[Task]) -> tuple[str, ...]:
    """What each item counts in: its cluster, joined with the clusters of all items that ask the same.

    The same question twice is no evidence of its own, whatever its id or group; an empty hash is no question.
    """
    parents: dict[str, str] = {}

    def root(name: str) -> str:
        while parents.setdefault(name, name) != name:
            parents[name] = parents[parents[name]]
            name = parents[name]
        return name

    for task in tasks:
        own = root(f"in {task.cluster}")
        if task.item_hash:
            parents[root(f"asks {task.item_hash}")] = own
    return tuple(root(f"in {task.cluster}") for task in tasks)


def check_rows(record: QuantsRecord) -> None:
    """Refuse rows that do not belong together.

    Raises:
        RecordError: no models, two of one name, or outcomes that are not one for each task.
    """
    if not record.models:
        raise RecordError("the comparison has no models; run `suffice quants` again")
    names = [model.subject.name for model in record.models]
    if len(set(names)) != len(names):
        raise RecordError("two models of the comparison have one name; run `suffice quants` again")
    for model in record.models:
        if len(model.outcomes) != len(record.tasks):
            raise RecordError(
                f"{model.subject.name!r} has {len(model.outcomes)} outcomes for {len(record.tasks)} items; run `suffice quants` again"
            )


def pairs_of(tasks: Sequence[Task], clusters: Sequence[str], reference: AskedModel, candidate: AskedModel) -> Pairs:
    """The rows of two models."""
    rows = tuple(
        Row(task=task, cluster=cluster, reference=first, candidate=second)
        for task, cluster, first, second in zip(tasks, clusters, reference.outcomes, candidate.outcomes, strict=True)
    )
    return Pairs(
        rows=rows,
        scored=tuple(row for row in rows if row.scores is not None),
        unscored=tuple(row for row in rows if row.task.is_labelled and row.scores is None),
    )


def figures_of(rows: Sequence[Row], confidence: float) -> PairedFigures | None:
    """The paired figures of rows that have both scores; None without any."""
    scores = [row.scores for row in rows if row.scores is not None]
    if not scores:
        return None
    first, second = [pair[0] for pair in scores], [pair[1] for pair in scores]
    summary = summarize_scores(first, second, [row.cluster for row in rows])
    test = mcnemar(_counts(scores)) if summary.mcnemar_is_valid else None
    return PairedFigures(
        summary=summary,
        reference_mean=math.fsum(first) / len(first),
        candidate_mean=math.fsum(second) / len(second),
        interval=difference_interval(summary, confidence),
        gained=sum(b > a for a, b in scores),
        lost=sum(b < a for a, b in scores),
        p_value=p_different(summary) if test is None else test.p_value,
        p_method=summary.kind.value if test is None else test.kind.value,
    )


def _counts(scores: Sequence[tuple[float, float]]) -> PairedCounts:
    return PairedCounts(
        both_right=sum(a == 1 and b == 1 for a, b in scores),
        only_reference=sum(a == 1 and b == 0 for a, b in scores),
        only_candidate=sum(a == 0 and b == 1 for a, b in scores),
        both_wrong=sum(a == 0 and b == 0 for a, b in scores),
    )
