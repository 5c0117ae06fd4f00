"""What is concluded from a comparison of models: plain values, made by :mod:`suffice.decide.quants` from the rows of the record."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.stats.intervals import DEFAULT_LEVEL

if TYPE_CHECKING:
    from suffice.model.items import ScoreKind
    from suffice.model.quants import Outcome, Task
    from suffice.stats.estimate import Interval
    from suffice.stats.multiplicity import SimultaneousJudgement
    from suffice.stats.noninferiority import Judgement
    from suffice.stats.paired import PairedSummary

DEFAULT_MAX_LOSS: Final = 0.01
MOST_UNSCORED: Final = 0.05
"""Beyond this share of labelled items without a pair of scores, what is left may be another set of items: nothing is decided."""
_EVEN: Final = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityPolicy:
    """What a candidate has to reach: it loses at most ``max_loss`` (0.01 is one point), and its own score is at least ``floor``.

    Raises:
        UsageError: a loss outside (0, 1), a floor outside [0, 1], or a confidence that is none.
    """

    max_loss: float = DEFAULT_MAX_LOSS
    floor: float | None = None
    confidence: float = DEFAULT_LEVEL

    def __post_init__(self) -> None:
        if not 0 < self.max_loss < 1:
            raise UsageError(
                f"a loss that is allowed lies between 0 and 1, not at {self.max_loss:g}: one point is 0.01, and 0 can never be shown"
            )
        if self.floor is not None and not 0 <= self.floor <= 1:
            raise UsageError(f"a quality floor is a score from 0 to 1, not {self.floor:g}")
        if not _EVEN < self.confidence < 1:
            raise UsageError(f"a confidence lies between 0.5 and 1, not at {self.confidence:g}")


class Criterion(StrEnum):
    """What a candidate is judged by."""

    LOSS = "loss"
    FLOOR = "floor"


class Finding(StrEnum):
    """What has been shown of a candidate.

    ``WORSE``: worse than the reference, and not whether by more than is allowed. ``NO_EVIDENCE``: nothing could have been lost on these
    items, or most answers are empty, so that a pass would say nothing.
    """

    EQUIVALENT = "equivalent"
    PASSES = "passes"
    FAILS = "fails"
    WORSE = "worse"
    NOT_ENOUGH_ITEMS = "not enough items"
    TOO_MANY_UNSCORED = "too many items without a score"
    NO_LABELS = "no labels"
    NO_EVIDENCE = "no evidence"


DECISIONS: Final = {
    Finding.EQUIVALENT: "passes",
    Finding.PASSES: "passes",
    Finding.FAILS: "fails",
    Finding.WORSE: "not enough items",
    Finding.NOT_ENOUGH_ITEMS: "not enough items",
    Finding.TOO_MANY_UNSCORED: "undecided",
    Finding.NO_LABELS: "undecided",
    Finding.NO_EVIDENCE: "undecided",
}
"""The word for scripts, one of four, of each finding."""


class Direction(StrEnum):
    """Whether a difference has been shown, at the policy's confidence and corrected for the number of comparisons."""

    WORSE = "worse"
    BETTER = "better"
    NONE_SHOWN = "no difference shown"
    NOT_TESTED = "not enough items"
    NOTHING_TO_LOSE = "nothing to lose"


@dataclass(frozen=True, slots=True, kw_only=True)
class KindAnswers:
    """How one model answered the items of one kind, labelled or not; ``kind`` None: another tool asked them.

    ``answers`` are texts and choices that there are, ``empty`` texts without a character that is seen, ``cut`` those that ended at
    ``max_tokens``, ``labelled`` those of items that say what is right, ``empty_wrong`` and ``cut_wrong`` those of them that are empty, or cut off, and
    not wholly right.
    """

    kind: ScoreKind | None
    answers: int
    empty: int
    cut: int
    labelled: int
    empty_wrong: int
    cut_wrong: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQuality:
    """One model on the labelled items that it has a score for.

    ``mean`` is its accuracy (``is_binary``: each score is 0 or 1) or mean score; ``interval`` is None where ``shortage`` says why.
    ``unscored`` counts labelled items without a score by reason, the most frequent first. ``errors`` are items, labelled or not, that
    have neither a score nor an answer, ``cut`` answers that ended at ``max_tokens``, ``kinds`` count answers by kind. ``floor`` is None
    without a floor or scores.
    """

    name: str
    labelled: int
    scored: int
    mean: float | None
    interval: Interval | None
    is_binary: bool
    shortage: str | None
    unscored: tuple[tuple[str, int], ...]
    errors: int
    cut: int
    floor: Judgement | None
    kinds: tuple[KindAnswers, ...] = ()

    @property
    def empty(self) -> int:
        """Answers without a character that is seen."""
        return sum(one.empty for one in self.kinds)

    @property
    def is_mostly_empty(self) -> bool:
        """Whether more than half of the answers to labelled items are empty, and not right by that."""
        return 2 * sum(one.empty_wrong for one in self.kinds) > sum(one.labelled for one in self.kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Labelled items without a pair of scores: the score is unknown of the reference only, of the candidate only, or of both."""

    reference_only: int
    candidate_only: int
    both: int

    @property
    def count(self) -> int:
        """All of them."""
        return self.reference_only + self.candidate_only + self.both


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A labelled item on which the two scores differ, with both outcomes."""

    task: Task
    reference: Outcome
    candidate: Outcome

    @property
    def change(self) -> float:
        """The candidate's score less the reference's."""
        return (self.candidate.score or 0.0) - (self.reference.score or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedFigures:
    """A candidate against the reference on the items that both have a score for.

    ``difference`` is candidate less reference, negative is a loss; ``interval`` is two-sided, None where ``summary.shortage`` says why.
    ``gained`` and ``lost`` count items. ``p_value`` is of "no difference", by ``p_method``.
    """

    summary: PairedSummary
    reference_mean: float
    candidate_mean: float
    interval: Interval | None
    gained: int
    lost: int
    p_value: float | None
    p_method: str

    @property
    def difference(self) -> float:
        """The candidate's mean less the reference's."""
        return self.summary.difference


@dataclass(frozen=True, slots=True, kw_only=True)
class KindFigures:
    """The same on the items of one kind of score. ``kind`` None: another tool scored them. ``p_holm`` is corrected for the kinds.

    ``chance`` is what a guess among the choices scores, on average over the items; None where not every item has choices.
    ``reference_at_chance``: the reference's interval holds it, so that these items cannot show a loss.
    """

    kind: ScoreKind | None
    paired: PairedFigures
    p_holm: float | None
    direction: Direction
    chance: float | None = None
    reference_at_chance: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of items with its interval by cluster; None where ``shortage`` says why."""

    value: float
    items: int
    interval: Interval | None
    shortage: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """How alike the outputs of two models are, right or wrong, on the items that both answered.

    ``identical`` is of texts that were written, ``same_choice`` of choices that were taken; None: there are none. Of texts that differ,
    ``divergence_characters`` is the median number of characters before the first difference, and ``divergence_share`` the median of the same
    over the length of the shorter. ``length_ratio`` is the geometric mean of candidate over reference, in ``length_unit``, with its interval by
    cluster; ``length_median`` the median; ``empty`` pairs have a text without any length, and are not among them. ``all_cut``: every
    written text of both ended at ``max_tokens``, so that their lengths say nothing.
    """

    identical: Share | None
    same_choice: Share | None
    divergence_characters: float | None
    divergence_share: float | None
    length_ratio: float | None
    length_interval: Interval | None
    length_median: float | None
    length_unit: str | None
    empty: int
    all_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateQuality:
    """All that is said of one candidate's quality.

    ``p_yes`` and ``p_no`` are those of the finding: that it passes, that it fails, of all that the policy asks, corrected for the number of
    candidates. ``loss_reached`` and ``floor_reached`` say what was shown of each criterion alone, corrected as the finding is; None:
    neither that it holds nor that it does not. ``loss_range`` (of the difference) and ``floor_range`` (of the score) are the one-sided
    bounds at the confidence that is left of it for each candidate to pass, and to fail. ``items_enough`` is about how many items would do to come to ``then`` (by ``then_by``, where
    that is a fail) if what was seen so far is true; None when decided or when no number would. ``stands_with_left_out``: whether a
    decision would be the same if each item that is left out had gone against it; None: none is, or nothing is decided. ``reason`` is a
    sentence's end.
    """

    name: str
    paired: PairedFigures | None
    left_out: LeftOut
    finding: Finding
    reason: str
    direction: Direction
    p_holm: float | None = None
    p_yes: float | None = None
    p_no: float | None = None
    non_inferior: SimultaneousJudgement | None = None
    equivalence: Judgement | None = None
    floor: Judgement | None = None
    loss_reached: bool | None = None
    floor_reached: bool | None = None
    loss_range: tuple[float | None, float | None] = (None, None)
    floor_range: tuple[float | None, float | None] = (None, None)
    reference_floor: Judgement | None = None
    items_enough: int | None = None
    then: Finding | None = None
    then_by: Criterion | None = None
    stands_with_left_out: bool | None = None
    kinds: tuple[KindFigures, ...] = ()
    agreement: Agreement | None = None
    flips: tuple[Flip, ...] = ()

    @property
    def decision(self) -> str:
        """``passes``, ``fails``, ``undecided`` or ``not enough items``."""
        return DECISIONS[self.finding]


@dataclass(frozen=True, slots=True, kw_only=True)
class QualityComparison:
    """The quality of all models; ``models`` has the reference first. ``repeated`` items ask what an earlier one asks."""

    policy: QualityPolicy
    items: int
    labelled: int
    clusters: int
    repeated: int
    models: tuple[ModelQuality, ...]
    candidates: tuple[CandidateQuality, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def reference(self) -> ModelQuality:
        """What the candidates are compared with."""
        return self.models[0]
