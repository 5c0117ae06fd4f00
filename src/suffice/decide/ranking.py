"""Several models or quantizations on one machine against one demand: which is the largest that is enough.

The rule: candidates are ordered by the bytes of their weights. The answer is the one with the most bytes whose grade is *enough*, and
beside it the next larger one, which is thin, undecided or not enough. None is enough: the largest that is thin. A candidate that is
undecided or could not be measured is named wherever it could change the answer.

(:mod:`suffice.decide.compare` is about one model on several machines.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide.verdict import WORST_FIRST, Grade, Verdict, decide_machine
from suffice.decide.wording import headroom_text, label

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.constraint import Constraint
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quantity import Quantity
    from suffice.model.demand import Demand

# Bandwidth may move so much, as a share of the first reading, before candidates measured in turn are no longer comparable.
BANDWIDTH_TOLERANCE: Final = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One model under one quantization, and how it stands. None: unknown; ``error`` says why nothing was measured.

    ``headroom`` is that of the tightest constraint of speed; memory is no headroom, it fits or it does not.
    """

    name: str
    decode: Quantity | None = None
    prefill: Quantity | None = None
    streamed_bytes: float | None = None
    weights_bytes: float | None = None
    memory_bytes: float | None = None
    memory_usable_bytes: float | None = None
    headroom: float | None = None
    headroom_low: float | None = None
    verdict: Verdict | None = None
    error: str | None = None

    @property
    def fits(self) -> bool | None:
        """Whether weights, KV cache and buffers fit in the usable memory."""
        if self.memory_bytes is None or self.memory_usable_bytes is None:
            return None
        return self.memory_bytes <= self.memory_usable_bytes

    @property
    def grade(self) -> Grade | None:
        """How it stands against the demand; None without a demand or a measurement."""
        return None if self.verdict is None else self.verdict.grade


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The sentence under the table, and the grade of the whole comparison: the best of any candidate."""

    sentence: str
    grade: Grade


def candidate_from(
    name: str, evidence: MachineEvidence, demand: Demand | None, *, context_tokens: int, weights_bytes: float | None
) -> Candidate:
    """The candidate in what was measured.

    Args:
        name: as the user wrote it.
        evidence: of its run.
        demand: what is needed, None when nobody said.
        context_tokens: context that the KV cache is counted for when the demand states none.
        weights_bytes: what orders candidates by size.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    context = (None if demand is None else demand.needed_context_tokens) or context_tokens
    verdict = None if demand is None else decide_machine(demand, evidence)
    tightest = None if verdict is None else _tightest_of_speed(verdict)
    stated = None if demand is None else demand.memory_bytes
    return Candidate(
        name=name,
        decode=evidence.decode_rate(None),
        prefill=evidence.prefill_rate,
        streamed_bytes=evidence.streamed_bytes,
        weights_bytes=weights_bytes,
        memory_bytes=evidence.memory_needed_bytes(context, 1 if demand is None else demand.streams),
        memory_usable_bytes=evidence.memory_usable_bytes if stated is None else stated,
        headroom=None if tightest is None else tightest.headroom,
        headroom_low=None if tightest is None else tightest.headroom_range[0],
        verdict=verdict,
    )


def _tightest_of_speed(verdict: Verdict) -> Constraint | None:
    def tightness(pair: tuple[Grade, Constraint]) -> tuple[int, float]:
        grade, constraint = pair
        headroom = constraint.headroom
        return WORST_FIRST.index(grade), -1.0 if headroom is None else headroom / constraint.margin

    speeds = [(i.grade, i.constraint) for i in verdict.constraints if i.constraint.judged and i.constraint.of_speed]
    return min(speeds, key=tightness)[1] if speeds else None


def answer(candidates: Sequence[Candidate], margin: float) -> Answer:
    """Which candidate is enough, and what stands in the way of the larger ones."""
    by_size = sorted(candidates, key=lambda candidate: candidate.weights_bytes or 0.0)
    enough, thin, undecided, not_enough = (
        [candidate for candidate in by_size if candidate.grade is grade]
        for grade in (Grade.ENOUGH, Grade.THIN, Grade.OPEN, Grade.NOT_ENOUGH)
    )
    missing = [candidate for candidate in candidates if candidate.grade is None]
    if enough:
        sentence, grade = _enough_sentence(enough[-1], by_size, margin), Grade.ENOUGH
    elif thin:
        sentence, grade = _thin_sentence(thin[-1], undecided, margin), Grade.THIN
    elif undecided:
        sentence, grade = _open_sentence(undecided, not_enough), Grade.OPEN
    elif not_enough:
        sentence, grade = _none_sentence(not_enough), Grade.OPEN if missing else Grade.NOT_ENOUGH
    else:
        sentence, grade = "No candidate could be measured.", Grade.OPEN
    if missing and len(missing) < len(candidates):
        sentence += f" Not measured: {_names(missing)}."
    return Answer(sentence=sentence, grade=grade)


def _enough_sentence(best: Candidate, by_size: list[Candidate], margin: float) -> str:
    start = f"{best.name} is the largest that is enough with the margin of {margin:g} ({_why(best)})"
    larger = [item for item in by_size[by_size.index(best) + 1 :] if item.grade is not None]
    thin = [item for item in larger if item.grade is Grade.THIN]
    undecided = [item for item in larger if item.grade is Grade.OPEN]
    if not larger:
        measured = [item for item in by_size if item.grade is not None]
        return f"{start}, and no larger one was measured." if len(measured) > 1 else f"{start}; it alone was measured."
    if thin:
        text = f"{start}; the next larger one with a thin margin is {thin[0].name} ({_why(thin[0])})."
    elif undecided:
        text = f"{start}."
    else:
        text = f"{start}; the next larger one, {larger[0].name}, is not enough ({_why(larger[0])})."
    return f"{text} Undecided, though larger: {_names(undecided)}." if undecided else text


def _thin_sentence(best: Candidate, undecided: list[Candidate], margin: float) -> str:
    text = (
        f"No candidate is enough with the margin of {margin:g}: {best.name} is the largest that reaches the need with a thin "
        f"margin ({_why(best)})."
    )
    if undecided:
        return f"No candidate is shown to be enough. {text} Undecided: {_names(undecided)}."
    return f"{text} A quantization with fewer bytes than the smallest here may reach it."


def _open_sentence(undecided: list[Candidate], not_enough: list[Candidate]) -> str:
    text = f"Undecided: no candidate is shown to be enough, and {_names(undecided)} may be."
    if not_enough:
        text += f" Not enough: {_names(not_enough)}."
    settles = {item.verdict.settle for item in undecided if item.verdict is not None and item.verdict.settle}
    return f"{text} {settles.pop()}" if len(settles) == 1 else text


def _none_sentence(not_enough: list[Candidate]) -> str:
    best = max(not_enough, key=lambda item: (item.fits is not False, item.headroom or 0.0))
    return f"No candidate is enough: {best.name} comes closest ({_why(best)})."


def _why(candidate: Candidate) -> str:
    """The number behind a grade: headroom, with the low end where it reads otherwise, or memory."""
    if candidate.fits is False:
        return "it does not fit in memory"
    if candidate.headroom is None:
        binding = None if candidate.verdict is None else candidate.verdict.binding
        return "headroom unknown" if binding is None else f"{label(binding)} decides"
    text, low = headroom_text(candidate.headroom), headroom_text(candidate.headroom_low)
    return f"headroom {text}" if low in (text, "unknown") else f"headroom {text}, {low} at the low end"


def _names(candidates: Sequence[Candidate]) -> str:
    return ", ".join(candidate.name for candidate in candidates)


def bandwidth_change(readings: Sequence[float]) -> float | None:
    """How far the machine's bandwidth was from the first reading at most, as a share of it; None of fewer than two readings."""
    if len(readings) < 2 or readings[0] <= 0:  # noqa: PLR2004  # a change takes two
        return None
    return max((reading / readings[0] - 1 for reading in readings[1:]), key=abs)
