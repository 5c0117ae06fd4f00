"""Answers of one model to items, their scores, and the pairs that two models' scores make."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.errors import RecordError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.model.scoring import Score


class FinishReason(StrEnum):
    """Why an answer ended."""

    STOP = "stop"
    LENGTH = "length"
    CHOICES = "choices"  # nothing was generated: choices were weighed


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceLogprob:
    """Natural logarithm of the probability of a choice's tokens after the prompt, summed, and how many tokens they are.

    ``tokens`` is None where only the sum is known.
    """

    total: float
    tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one model gave to one item, raw. None is unknown or does not apply.

    ``item_hash`` names what was asked (see :func:`suffice.loaders.items.item_hash`). ``tokens`` were generated, ``prompt_tokens`` read.
    ``choices`` are in the order of the item's choices. ``time_s`` is the item's own time, where it was answered alone. ``error`` says why
    there is no answer; such an item is asked again when a run resumes.
    """

    item_id: str
    item_hash: str
    text: str | None = None
    finish: FinishReason | None = None
    tokens: int | None = None
    prompt_tokens: int | None = None
    choices: tuple[ChoiceLogprob, ...] = ()
    time_s: float | None = None
    error: str | None = None

    @property
    def answered(self) -> bool:
        """Whether the model gave an answer, be it right or wrong."""
        return self.error is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One model's score on one item. ``cluster`` is what the item shares with others of its document."""

    item_id: str
    item_hash: str
    cluster: str
    score: Score
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pairing:
    """Scores of two models on the same items, in the order of the reference's.

    ``unpaired`` names items that only one of the two has; ``unscored`` items that both have, and of which at least one score is unknown.
    """

    pairs: tuple[tuple[Scored, Scored], ...]
    unpaired: tuple[str, ...]
    unscored: tuple[str, ...]

    @property
    def reference(self) -> tuple[float, ...]:
        """The reference's scores, 0 to 1, one a pair."""
        return tuple(_known(first) for first, _ in self.pairs)

    @property
    def candidate(self) -> tuple[float, ...]:
        """The candidate's scores, 0 to 1, in the same order."""
        return tuple(_known(second) for _, second in self.pairs)

    @property
    def clusters(self) -> tuple[str, ...]:
        """What each pair belongs to, in the same order."""
        return tuple(first.cluster for first, _ in self.pairs)

    @property
    def is_binary(self) -> bool:
        """Whether all scores are 0 or 1: then McNemar's test applies."""
        return all(value in (0.0, 1.0) for value in (*self.reference, *self.candidate))

    @property
    def flips(self) -> tuple[tuple[Scored, Scored], ...]:
        """The pairs whose scores differ."""
        return tuple((first, second) for first, second in self.pairs if first.score.value != second.score.value)


def pair_scores(reference: Iterable[Scored], candidate: Iterable[Scored]) -> Pairing:
    """Bring two models' scores together by the id of the item.

    Raises:
        RecordError: an id stands twice in one of them, or one id names two different questions.
    """
    first, second = _by_id(reference, "the reference"), _by_id(candidate, "the candidate")
    pairs, unscored = [], []
    for item_id, scored in first.items():
        other = second.get(item_id)
        if other is None:
            continue
        if scored.item_hash != other.item_hash:
            raise RecordError(
                f"item {item_id!r} is not the same question in both; compare answers to one file of items"
            )
        if scored.score.value is None or other.score.value is None:
            unscored.append(item_id)
        else:
            pairs.append((scored, other))
    only_one = [item_id for item_id in (*first, *second) if not (item_id in first and item_id in second)]
    return Pairing(pairs=tuple(pairs), unpaired=tuple(only_one), unscored=tuple(unscored))


def _by_id(scores: Iterable[Scored], whose: str) -> dict[str, Scored]:
    found: dict[str, Scored] = {}
    for scored in scores:
        if scored.item_id in found:
            raise RecordError(f"item {scored.item_id!r} stands twice in the scores of {whose}")
        found[scored.item_id] = scored
    return found


def _known(scored: Scored) -> float:
    assert scored.score.value is not None  # noqa: S101  # pair_scores left out the others
    return scored.score.value
