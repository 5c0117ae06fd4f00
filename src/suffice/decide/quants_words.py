"""Sentences about the quality of candidates. Nothing is concluded here, and no sentence says more than was shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.decide.quants_types import MOST_UNSCORED, Criterion, Direction, Finding
from suffice.stats.noninferiority import MOST_ITEMS, Decision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.quants_speed import Ratio
    from suffice.decide.quants_types import (
        CandidateQuality,
        LeftOut,
        ModelQuality,
        PairedFigures,
        QualityPolicy,
        Share,
    )
    from suffice.stats.estimate import Interval

_PERCENT: Final = 100
_FINE_POINTS: Final = 0.5  # an interval narrower than this on each side needs a second decimal
_EXACT_NUMBERS: Final = 100  # of items, up to which none is rounded


def percent(share: float) -> str:
    """A share for a person: ``percent(0.912) == "91.2 %"``; what is not all never reads as 100 %, nor what is not nothing as 0 %."""
    text = f"{_PERCENT * share:.1f}"
    if text == "100.0" and share < 1:
        return ">99.9 %"
    if text == "0.0" and share > 0:
        return "<0.1 %"
    return f"{text} %"


def points(share: float) -> str:
    """A loss in points: ``points(0.01) == "1 point"``."""
    value = _PERCENT * share
    return f"{value:.4g} point{'' if f'{value:.4g}' == '1' else 's'}"


def counted(number: float, what: str) -> str:
    """A number of things: ``counted(1, "item") == "1 item"``."""
    text = f"{number:,}" if isinstance(number, int) else f"{number:.4g}"
    return f"{text} {what}{'' if number == 1 else 's'}"


def signed_points(difference: float, digits: int = 1) -> str:
    """A difference of shares in points with its sign: ``signed_points(-0.004) == "-0.4"``; 0 has none."""
    text = f"{_PERCENT * difference:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def digits_for(interval: Interval | None) -> int:
    """Decimals of points that the interval is worth."""
    return 2 if interval is not None and _PERCENT * (interval.high - interval.low) < 2 * _FINE_POINTS else 1


def difference_text(figures: PairedFigures) -> str:
    """The difference with its interval: ``-0.4, 95 % -1.1..+0.3``."""
    interval = figures.interval
    digits = digits_for(interval)
    point = signed_points(figures.difference, digits)
    if interval is None:
        shortage = figures.summary.shortage
        return f"{point}, no interval: {'unknown' if shortage is None else shortage.value}"
    low, high = signed_points(interval.low, digits), signed_points(interval.high, digits)
    return f"{point}, {_PERCENT * interval.level:g} % {low}..{high}"


def share_text(share: Share) -> str:
    """A share with its interval."""
    if share.interval is None:
        return f"{percent(share.value)} (no interval: {share.shortage})"
    return f"{percent(share.value)} ({percent(share.interval.low)} to {percent(share.interval.high)})"


def score_word(*, is_binary: bool) -> str:
    """What the mean of the scores is called."""
    return "accuracy" if is_binary else "mean score"


def about(number: int) -> str:
    """A number of items, rounded up to two digits: ``about(1371) == "1,400"``."""
    if number <= _EXACT_NUMBERS:
        return f"{number}"
    step = int(f"1{'0' * (len(str(number)) - 2)}")
    return f"{math.ceil(number / step) * step:,}"


def unscored_reason(left_out: LeftOut, labelled: int, why: str | None = None) -> str:
    """Why nothing is decided with so many scores unknown; ``why``: what all answers of the candidate without a score have in common."""
    have = "has" if left_out.count == 1 else "have"
    return (
        f"nothing is decided: {left_out.count:,} of {counted(labelled, 'labelled item')} {have} no score of one model or both, more than the "
        f"{MOST_UNSCORED:.0%} that may be left out{f' ({why})' if why else ''}"
    )


def no_evidence_reason(empty: Sequence[ModelQuality], figures: PairedFigures | None, policy: QualityPolicy) -> str:
    """Why a pass would say nothing.

    Args:
        empty: the models most of whose answers are empty.
        figures: otherwise those of a reference that has nothing, or next to nothing, right.
        policy: what may be lost.
    """
    if empty or figures is None:
        who = " and ".join(
            f"{sum(one.empty_wrong for one in model.kinds):,} of {sum(one.labelled for one in model.kinds):,} answers of {model.name}"
            for model in empty
        )
        return f"no evidence: {who} are empty, which says nothing about quality"
    if figures.reference_mean == 0 and figures.candidate_mean == 0:
        items = counted(figures.summary.items, "item")
        return f"no evidence: neither model has anything right on {items}, so that nothing could be lost"
    return (
        f"no evidence: the reference scores {percent(figures.reference_mean)}, which is not shown to be more than the "
        f"{points(policy.max_loss)} that may be lost, so that a model with nothing right would pass as well"
    )


def finding_reason(look: CandidateQuality, policy: QualityPolicy) -> str:
    """The end of the sentence: what was shown, or why nothing was."""
    loss = points(policy.max_loss)
    floor = None if look.floor is None else f"your floor of {_PERCENT * look.floor.limit:.4g} %"
    text = {
        Finding.EQUIVALENT: _equivalent,
        Finding.PASSES: _passes,
        Finding.FAILS: _fails,
        Finding.WORSE: _worse,
    }.get(look.finding, _open)(look, loss, floor)
    return text + _left_out_note(look)


def _equivalent(look: CandidateQuality, loss: str, floor: str | None) -> str:
    if look.paired is not None and look.paired.summary.differing == 0:
        text = f"no difference, equivalent within {loss}"
    elif look.direction in (Direction.WORSE, Direction.BETTER):
        text = f"shown {look.direction}, yet equivalent within {loss}"
    else:
        text = f"no difference shown, equivalent within {loss}"
    return text if floor is None else f"passes {floor}; {text}"


def _passes(look: CandidateQuality, loss: str, floor: str | None) -> str:
    shown = {
        Direction.WORSE: f"worse, but loses at most {loss}",
        Direction.BETTER: f"better; loses at most {loss}",
    }
    text = shown.get(look.direction, f"loses at most {loss}")
    return f"passes: {text}" if floor is None else f"passes {floor}; {text}"


def _fails(look: CandidateQuality, loss: str, floor: str | None) -> str:
    """Everything that was shown to be missed; what was not, or is open, is said as well where there is a floor."""
    missed = [f"worse, loses more than {loss}"] if look.loss_reached is False else []
    if floor is not None and look.floor_reached is False:
        missed.append(f"below {floor}{_like_the_reference(look)}")
    text = f"fails: {' and '.join(missed)}"
    if look.loss_reached is True:
        return f"{text}; it loses at most {loss}"
    return f"{text}; it reaches {floor}" if floor is not None and look.floor_reached is True else text


def _like_the_reference(look: CandidateQuality) -> str:
    """That the reference misses the floor, too, or does not reach it on these items."""
    reference = look.reference_floor
    if reference is None:
        return ""
    if reference.decision is Decision.NO:
        return ", as the reference is"
    below = f" (the reference scores {percent(reference.estimate)} itself)"
    return below if reference.estimate < reference.limit else ""


def _worse(look: CandidateQuality, loss: str, floor: str | None) -> str:
    what = f"loses more than {loss}" if floor is None else f"loses more than {loss} or misses {floor}"
    return f"worse, but not enough items to say whether it {what}{_would_do(look, loss, floor)}"


def _open(look: CandidateQuality, loss: str, floor: str | None) -> str:
    shortage = None if look.paired is None else look.paired.summary.shortage
    if shortage is not None:
        return f"{shortage.value} to say whether it loses more than {loss}"
    known = [f"loses at most {loss}"] if look.loss_reached else []
    known += [] if floor is None or not look.floor_reached else [f"reaches {floor}"]
    questions = [] if look.loss_reached else [f"loses more than {loss}"]
    questions += [] if floor is None or look.floor_reached else [f"reaches {floor}"]
    if not questions:  # each is shown alone, the two together are not among so many candidates
        known, questions = [], known
    said = f"{' and '.join(known)}; " if known else ""
    return f"{said}not enough items to say whether it {' and '.join(questions)}{_would_do(look, loss, floor)}"


def _would_do(look: CandidateQuality, loss: str, floor: str | None) -> str:
    if look.items_enough is None and look.floor is not None and look.floor.limit == 1:
        return ": no number of items shows that none is wrong"
    if look.items_enough is None:
        return f": it is so near to a limit that no number of items up to {MOST_ITEMS:,} is known to do"
    text = f": about {about(look.items_enough)} would do"
    if look.then is not Finding.FAILS:
        return text
    if look.then_by is Criterion.FLOOR:
        return f"{text}, and would likely show that it is below {floor}{_like_the_reference(look)}"
    return f"{text}, and would likely show that it loses more than {loss}"


def _left_out_note(look: CandidateQuality) -> str:
    if not look.left_out.count or look.paired is None:
        return ""
    have = "has" if look.left_out.count == 1 else "have"
    count = f"{counted(look.left_out.count, 'item')} {have} no pair of scores"
    if look.stands_with_left_out is False:
        against = "it" if look.left_out.count == 1 else "all of them"
        return f" ({count}; the decision would not stand if {against} had gone against it)"
    return f" ({count})"


def candidate_sentence(
    look: CandidateQuality,
    *,
    decode: Ratio | None,
    is_binary: bool,
    verdicts: tuple[str, str] | None = None,
) -> str:
    """One candidate in one sentence.

    Args:
        look: what was found of its quality.
        decode: its decode rate over the reference's; None where one of them is unknown.
        is_binary: whether scores are right or wrong, so that their mean is an accuracy.
        verdicts: the verdict on the machine with the reference, and with the candidate.
    """
    parts = [] if decode is None else [ratio_text(decode)]
    if look.paired is not None:
        before, after = percent(look.paired.reference_mean), percent(look.paired.candidate_mean)
        parts.append(f"{score_word(is_binary=is_binary)} {before} -> {after} ({difference_text(look.paired)})")
    elif look.agreement is not None:
        parts += _agreement_parts(look)
    said = ", ".join(parts)
    sentence = f"{look.name}: {said}: {look.reason}" if said else f"{look.name}: {look.reason}"
    if verdicts is None:
        return sentence
    why = "" if verdicts[1] != words.UNDECIDED else f" ({_why_undecided(look)})"
    return f"{sentence}; {_verdict_words(*verdicts)}{why}"


def _why_undecided(look: CandidateQuality) -> str:
    """What alone keeps the machine's verdict with the candidate open."""
    if look.decision == "fails":
        return "its quality fails, whatever its speed"
    return "its speed or memory is not settled" if look.decision == "passes" else "its quality is not settled"


def ratio_text(ratio: Ratio) -> str:
    """The ratio of decode rates, with what is not known of it: ``1.9x decode``."""
    text = f"{ratio.point:.3g}x decode" if ratio.point >= 1 else f"{ratio.point:.2f}x decode"
    if ratio.low is None or ratio.high is None:
        return f"{text} (no interval)"
    return f"{text} (not told apart)" if ratio.low <= 1 <= ratio.high and ratio.low < ratio.high else text


def _agreement_parts(look: CandidateQuality) -> list[str]:
    agreement = look.agreement
    if agreement is None:
        return []
    parts = []
    if agreement.identical is not None:
        parts.append(
            f"output identical on {share_text(agreement.identical)} of {counted(agreement.identical.items, 'item')}"
        )
    if agreement.same_choice is not None:
        parts.append(
            f"same choice on {share_text(agreement.same_choice)} of {counted(agreement.same_choice.items, 'item')}"
        )
    return parts


def _verdict_words(before: str, after: str) -> str:
    first, second = (_VERDICTS.get(verdict, verdict) for verdict in (before, after))
    return f"the verdict stays {first}" if before == after else f"moves the verdict from {first} to {second}"


_VERDICTS: Final = {words.CPU_THIN: "thin margin"}
