"""What qualifies the tables of a comparison: warnings, notes, and what looks wrong, with its likely cause and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.quants_distance import NoiseStanding
from suffice.decide.quants_types import Direction
from suffice.decide.quants_words import counted, percent
from suffice.model.quants import SubjectKind

if TYPE_CHECKING:
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_distance import DistanceFigures
    from suffice.decide.quants_types import CandidateQuality, ModelQuality

_SHOWN_REASONS: Final = 3
_ALIKE: Final = 0.9  # share of equal choices below which a model is another one, whatever its score
_MANY: Final = 0.1  # share of empty or cut-off answers that nobody expects


def marks(conclusions: Conclusions) -> list[str]:
    """Warnings and notes of the models, why scores are unknown, empty and cut-off answers, and figures that are easily misread."""
    quality = conclusions.quality
    found = [*conclusions.record.notes, *quality.notes]
    for asked, own, speed in zip(conclusions.record.models, quality.models, conclusions.speeds, strict=True):
        lines = [*asked.subject.warnings, *asked.notes, *speed.marks, *_unscored(own)]
        lines += _answer_marks(own, conclusions, asked.subject.kind)
        found += [f"{own.name}: {line}" for line in lines]
    for look in quality.candidates:
        found += [f"{look.name}: {line}" for line in _candidate_marks(look)]
    found += _kind_marks(conclusions)
    found += [f"{one.candidate}: {line}" for one in conclusions.distances for line in _distance_marks(one)]
    if any(look.left_out.count for look in quality.candidates):
        found.append("items without a pair of scores are left out of differences, and counted")
    return list(dict.fromkeys(found))


def _unscored(model: ModelQuality) -> list[str]:
    lines = [f"no score on {counted(count, 'item')}: {reason}" for reason, count in model.unscored[:_SHOWN_REASONS]]
    others = sum(count for _, count in model.unscored[_SHOWN_REASONS:])
    if others:
        lines.append(f"no score on {others:,} more items, for other reasons")
    return lines


def _answer_marks(model: ModelQuality, conclusions: Conclusions, kind: SubjectKind) -> list[str]:
    """Many empty or cut-off answers of a kind, with the likely cause and what to do."""
    lines = []
    for one in model.kinds:
        of = f"of {counted(one.answers, 'answer')} to {'other' if one.kind is None else one.kind.value} items"
        if one.empty_wrong > _MANY * one.answers:
            lines.append(f"{one.empty:,} {of} {_are(one.empty)} empty: {_why_empty(conclusions, kind)}")
        if one.cut_wrong > _MANY * one.answers:
            lines.append(
                f"{one.cut_wrong:,} {of} {_were(one.cut_wrong)} cut off at max_tokens and not right: raise --max-tokens, or max_tokens of the items"
            )
    return lines


def _are(number: int) -> str:
    return "is" if number == 1 else "are"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _why_empty(conclusions: Conclusions, kind: SubjectKind) -> str:
    if kind is SubjectKind.LOG:
        return "look at how they were asked"
    if conclusions.record.settings.get("chat_prompts") is True:
        return "look at the stop texts of the items, and at what the chat template asks of the model"
    return "a chat model that is asked a raw prompt may end at once: give messages in the items, or --chat-prompts"


def _candidate_marks(look: CandidateQuality) -> list[str]:
    """Choices that are shown to be other ones, which scores of a model that guesses hide; lengths that say nothing."""
    lines = []
    agreement = look.agreement
    same = None if agreement is None else agreement.same_choice
    if same is not None and same.interval is not None and same.interval.high < _ALIKE:
        other = f"{percent(1 - same.value)} of {counted(same.items, 'item')}"
        yet = "its score passes, and yet it takes" if look.decision == "passes" else "it takes"
        lines.append(
            f"{yet} another choice than the reference on {other}: look at the flips before relying on the score"
        )
    if agreement is not None and agreement.all_cut:
        lines.append(
            "every written answer of it and of the reference was cut off at max_tokens, so that their lengths say nothing: raise --max-tokens to compare them"
        )
    return lines


def _kind_marks(conclusions: Conclusions) -> list[str]:
    """Kinds on which nothing could be lost: nothing is right, or no more than a guess would have."""
    lines = []
    for look in conclusions.quality.candidates:
        for one in look.kinds:
            what = "items that were scored elsewhere" if one.kind is None else f"{one.kind.value} items"
            mean = percent(one.paired.reference_mean)
            if one.direction is Direction.NOTHING_TO_LOSE:
                lines.append(
                    f"{what}: the reference has {mean} right, so that they cannot show a loss, and only make the others count for less"
                )
            elif one.reference_at_chance and one.chance is not None:
                lines.append(
                    f"{what}: the reference scores {mean}, and a guess among the choices {percent(one.chance)}: such items cannot show a loss"
                )
    return lines


def _distance_marks(one: DistanceFigures) -> list[str]:
    """A perplexity that is shown to be lower, beside distributions that are others."""
    ratio = one.perplexity_ratio
    lower = ratio is not None and ratio.interval is not None and ratio.interval.high < 1
    if one.is_self or not lower or one.noise in (NoiseStanding.WITHIN, NoiseStanding.NOT_TOLD_APART):
        return []
    worse = f"which makes it no better model: it foretells otherwise (mean KL {one.divergence.value:.3g})"
    tuned = "a reference that was tuned to follow instructions is seldom the best at foretelling a text"
    return [f"its perplexity is below the reference's, {worse}, and {tuned}"]
