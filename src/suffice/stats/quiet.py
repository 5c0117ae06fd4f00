"""Two speeds of one measurement: as it was found, and as it is when nobody disturbs.

What was found answers "can I rely on it now". The quiet speed answers "what can this machine do", from the undisturbed part alone. Both
have intervals over repetitions: steps of one repetition are correlated and are never taken for independent samples.

A mark says of a repetition, or of one step, whether something else had the machine (:mod:`suffice.decide.disturbance`): True, False or None,
unknown. What is quiet is found in this order:

1. *Undisturbed repetitions*, whole, where all are.
2. *Undisturbed steps*: those of which a sample says that nobody disturbed them, where three repetitions have some and they make 30 % of the time. Bursts and
   stops are seen step by step, and nothing is chosen by its own speed. A neighbour whom only the readings between repetitions see counts where the repetitions beside slow readings are shown to be slower.
3. *Undisturbed repetitions* again, where steps were not sampled: three that make 30 % of the time and agree.
4. *Steps in the quiet mode*, where samples tell too little: no sample says otherwise, and their own time lies in the quiet mode: that of the undisturbed
   steps where there are marks, else the fastest mode.
5. *The fastest mode*, where nothing is known of any repetition.

There is no quiet speed, and the reason is said, where less than 30 % of the time was undisturbed, or where over 70 % of it is marked and all
steps are alike: a machine that shares its memory from the first step to the last never shows what it does alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Final

from suffice.stats.intervals import estimate_from
from suffice.stats.modes import LowerMode, is_bimodal, lower_mode
from suffice.stats.ratio import shift_ratio
from suffice.stats.trend import Trend, trend

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.stats.estimate import Estimate

# Below, the quiet part is so small that the mode of a burst that happens to be even may be taken for it.
LEAST_QUIET_SHARE: Final = 0.30
# Two undisturbed repetitions have an interval that spans factors; steps tell more.
LEAST_REPETITIONS: Final = 3
# Rates of undisturbed repetitions that differ by more were not all undisturbed: nobody sees what lasts from one reading to just before the next. Of ten
# values with 4 % of noise the largest is above 1.2 times the smallest once in 100 times.
MOST_APART: Final = 1.20
# A rate of a repetition that is left with one or two steps is that of these steps.
LEAST_STEPS: Final = 3
# One step in twenty above the mode: of normal noise 0.1 % are. With fewer, marks of everything are not explained by bursts.
LEAST_SLOW_SHARE: Final = 0.05
# By which a neighbour who is seen between repetitions must slow those beside, so that they are left out; and more than chance does once in 70 times: where
# repetitions differ by 15 %, the medians of three and of six of them are mostly more than 5 % apart, and who leaves the slower ones out makes the machine faster than it
# is. Moods of a host last longer than a repetition, so that chance does it oftener than a test of independent ones says (benchmarks/disturbances.py).
LEAST_EFFECT: Final = 0.05
_SLOWER_LEVEL: Final = (
    0.97  # 1.5 % at the one end that counts: four of eight that are all slower than the others are enough
)


class QuietBasis(StrEnum):
    """What a quiet speed was made from."""

    REPETITIONS = "undisturbed repetitions"
    STEPS = "undisturbed steps"
    FASTEST_MODE = "the fastest mode of unmarked steps"


class NoQuiet(StrEnum):
    """Why there is no quiet speed."""

    TOO_LITTLE = "less than 30 % of the time was undisturbed"
    ALIKE = "most of the time was disturbed and all steps are alike, so that nothing shows what the machine does undisturbed"
    TOO_FEW = "there are too few values without a mark to tell slow ones from quiet ones"


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """The times of one repetition and what is known of them.

    Attributes:
        step_s: seconds of each step, in order. What cannot be divided into equal steps (a prompt) is one step.
        disturbed: the mark of the whole; None: not known.
        step_disturbed: a mark for each step, from what was sampled meanwhile (:func:`marks_of_steps`); empty: none was.
        elsewhere: what disturbed the whole is nothing that samples of its steps see, such as a neighbour on the memory bus.
    """

    step_s: tuple[float, ...]
    disturbed: bool | None = None
    step_disturbed: tuple[bool | None, ...] = ()
    elsewhere: bool = False

    def __post_init__(self) -> None:
        if not self.step_s or any(not 0 < step < math.inf for step in self.step_s):
            raise ValueError("a repetition has steps, each of a positive, finite time")
        if self.step_disturbed and len(self.step_disturbed) != len(self.step_s):
            raise ValueError(f"{len(self.step_disturbed)} marks are given for {len(self.step_s)} steps")

    @property
    def total_s(self) -> float:
        """Seconds of all steps."""
        return math.fsum(self.step_s)

    @property
    def seen_quiet(self) -> tuple[float, ...]:
        """The steps of which a sample says that nobody disturbed them, as far as it can see."""
        return tuple(step for step, mark in zip(self.step_s, self.step_disturbed, strict=False) if mark is False)

    @property
    def step_marks(self) -> tuple[bool | None, ...]:
        """The marks of its steps: a quiet sample is no proof against what it does not see."""
        marks = self.step_disturbed or (None,) * len(self.step_s)
        return tuple(mark or None for mark in marks) if self.disturbed and self.elsewhere else marks


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A stretch of time that was sampled, on the clock of the repetition's start, and whether somebody disturbed it."""

    begin_s: float
    end_s: float
    disturbed: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoSpeeds:
    """Both estimates of one series. Rates are per second: steps, or what a step makes (tokens of a prompt).

    Attributes:
        as_found: median over all repetitions.
        quiet: median over the undisturbed parts of repetitions; None: it cannot be told, and ``no_quiet`` says why.
        basis: what ``quiet`` was made from; None without it.
        no_quiet: None where there is a quiet estimate.
        disturbed_share: of the time, how much was not quiet; None where nothing shows what quiet is.
        slowdown: how many times as long everything took as it takes when quiet, 1 or about 1 for a quiet machine; None without ``quiet``.
        bimodal: whether step times gather at more than one place; None: too few.
        drift: of the repetitions' rates, in their order; None: too few.
        marked, unmarked: repetitions that were marked disturbed, and undisturbed; of the rest nothing is known.
    """

    as_found: Estimate
    quiet: Estimate | None
    basis: QuietBasis | None
    no_quiet: NoQuiet | None
    disturbed_share: float | None
    slowdown: float | None
    bimodal: bool | None
    drift: Trend | None
    marked: int
    unmarked: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chosen:
    """The quiet steps of each repetition that has enough of them, and what they are of all the time."""

    rows: tuple[tuple[float, ...], ...]
    basis: QuietBasis
    share: float


def two_speeds(repetitions: Sequence[Repetition], *, units_per_step: float = 1.0) -> TwoSpeeds:
    """The speed as found and the quiet speed, with their intervals and the disturbance figures.

    Args:
        repetitions: in the order in which they were made.
        units_per_step: what a step makes: 1 token in a decode step, the prompt's tokens where the whole prompt is the step.

    Raises:
        ValueError: no repetitions, or no positive ``units_per_step``.
    """
    if not repetitions or not units_per_step > 0:
        raise ValueError("an estimate needs a repetition and what a step of it makes")
    as_found = estimate_from([_rate(repetition.step_s, units_per_step) for repetition in repetitions])
    chosen = _choose(repetitions)
    found = chosen if isinstance(chosen, _Chosen) and chosen.share >= LEAST_QUIET_SHARE and chosen.rows else None
    quiet = None if found is None else estimate_from([_rate(row, units_per_step) for row in found.rows])
    return TwoSpeeds(
        as_found=as_found,
        quiet=quiet,
        basis=None if found is None else found.basis,
        no_quiet=None if found is not None else chosen if isinstance(chosen, NoQuiet) else NoQuiet.TOO_LITTLE,
        disturbed_share=1 - chosen.share if isinstance(chosen, _Chosen) else None,
        slowdown=None if quiet is None else _mean_step_s(repetitions) * quiet.point / units_per_step,
        bimodal=is_bimodal([step for repetition in repetitions for step in repetition.step_s]),
        drift=trend(as_found.samples),
        marked=sum(repetition.disturbed is True for repetition in repetitions),
        unmarked=sum(repetition.disturbed is False for repetition in repetitions),
    )


def marks_of_steps(step_s: Sequence[float], start_s: float, windows: Sequence[Window]) -> tuple[bool | None, ...]:
    """A mark for each step of a repetition that began at ``start_s``, its steps one after the other.

    True if any window that the step overlaps was disturbed, False if windows cover all of it and all of them were quiet, else None.
    """
    edges = list(accumulate(step_s, initial=start_s))
    return tuple(_mark(begin, end, windows) for begin, end in pairwise(edges))


def _mark(begin_s: float, end_s: float, windows: Sequence[Window]) -> bool | None:
    over = [window for window in windows if window.begin_s < end_s and window.end_s > begin_s]
    if any(window.disturbed for window in over):
        return True
    covered = math.fsum(min(window.end_s, end_s) - max(window.begin_s, begin_s) for window in over)
    whole = covered >= (end_s - begin_s) * 0.999  # windows follow each other; their edges are rounded
    return False if whole and all(window.disturbed is False for window in over) else None


def _rate(steps_s: Sequence[float], units_per_step: float) -> float:
    return units_per_step * len(steps_s) / math.fsum(steps_s)


def _mean_step_s(repetitions: Sequence[Repetition]) -> float:
    steps = sum(len(repetition.step_s) for repetition in repetitions)
    return math.fsum(repetition.total_s for repetition in repetitions) / steps


def _choose(repetitions: Sequence[Repetition]) -> _Chosen | NoQuiet:
    total_s = math.fsum(repetition.total_s for repetition in repetitions)
    clear = [repetition.step_s for repetition in repetitions if repetition.disturbed is False]
    clear_share = math.fsum(step for row in clear for step in row) / total_s
    are_many = len(clear) >= LEAST_REPETITIONS and clear_share >= LEAST_QUIET_SHARE
    whole = _Chosen(rows=tuple(clear), basis=QuietBasis.REPETITIONS, share=min(1.0, clear_share))
    if len(clear) == len(repetitions):
        return whole
    seen = _between_disturbances(repetitions, total_s)
    if seen is not None:
        return seen
    if are_many and _agree(clear):
        return whole
    mode = _quiet_mode(repetitions)
    if isinstance(mode, NoQuiet):
        return mode
    rows = [_quiet_steps(repetition, mode) for repetition in repetitions]
    share = math.fsum(step for row in rows for step in row) / total_s
    enough = [
        row
        for row, repetition in zip(rows, repetitions, strict=True)
        if len(row) >= min(LEAST_STEPS, len(repetition.step_s))
    ]
    unknown = all(repetition.disturbed is None and not repetition.step_disturbed for repetition in repetitions)
    basis = QuietBasis.FASTEST_MODE if unknown else QuietBasis.STEPS
    return _Chosen(rows=tuple(enough), basis=basis, share=min(1.0, share))


def _between_disturbances(repetitions: Sequence[Repetition], total_s: float) -> _Chosen | None:
    """The steps of which samples say that nobody disturbed them, whatever their own time; None: they are too few, or of too few repetitions."""
    seen = [one for one in repetitions if len(one.seen_quiet) >= LEAST_STEPS]
    if _are_slower([one for one in seen if one.elsewhere], [one for one in seen if not one.elsewhere]):
        seen = [one for one in seen if not one.elsewhere]
    rows = [one.seen_quiet for one in seen]
    share = math.fsum(step for row in rows for step in row) / total_s
    if len(rows) < LEAST_REPETITIONS or share < LEAST_QUIET_SHARE:
        return None
    return _Chosen(rows=tuple(rows), basis=QuietBasis.STEPS, share=min(1.0, share))


def _are_slower(marked: Sequence[Repetition], others: Sequence[Repetition]) -> bool:
    """Whether repetitions beside slow readings are shown to be slower than the others, and not only the readings: these last milliseconds, and chance hits them as well."""
    usual, beside = ([_rate(one.seen_quiet, 1.0) for one in group] for group in (others, marked))
    ratio = shift_ratio(usual, beside, level=_SLOWER_LEVEL)
    if ratio is None or ratio.interval is None:
        return False
    return ratio.point < 1 - LEAST_EFFECT and ratio.interval.high < 1


def _agree(rows: Sequence[Sequence[float]]) -> bool:
    rates = [_rate(row, 1.0) for row in rows]
    return max(rates) <= MOST_APART * min(rates)


def _quiet_steps(repetition: Repetition, mode: LowerMode) -> tuple[float, ...]:
    """All steps of an undisturbed repetition; of others those that no sample marks and whose own time is quiet."""
    if repetition.disturbed is False:
        return repetition.step_s
    return tuple(
        step
        for step, mark in zip(repetition.step_s, repetition.step_marks, strict=True)
        if mark is not True and mode.holds(step)
    )


def _quiet_mode(repetitions: Sequence[Repetition]) -> LowerMode | NoQuiet:
    """Where quiet steps lie: by the marks where there are enough that say so, else the fastest mode of all."""
    witnessed = [row for repetition in repetitions if (row := _witnessed(repetition))]
    # Steps that are known to be quiet make one mode: its largest part is asked for, not its fastest.
    mode = lower_mode(witnessed, 0.5) if witnessed else None
    rows = [repetition.step_s for repetition in repetitions]
    if mode is None:
        mode = lower_mode(rows, LEAST_QUIET_SHARE)
    if mode is None:
        few = sum(len(row) for row in rows) < 2 * LEAST_STEPS
        return NoQuiet.TOO_FEW if few else NoQuiet.TOO_LITTLE
    if _are_mostly_marked(repetitions) and not _is_mixed(rows, mode):
        return NoQuiet.ALIKE
    return mode


def _are_mostly_marked(repetitions: Sequence[Repetition]) -> bool:
    """Whether the time without a mark is too little to be one of an undisturbed machine by itself: a neighbour who is always there spares a repetition now and then."""
    total_s = math.fsum(repetition.total_s for repetition in repetitions)
    marked_s = math.fsum(repetition.total_s for repetition in repetitions if repetition.disturbed)
    return marked_s > (1 - LEAST_QUIET_SHARE) * total_s


def _witnessed(repetition: Repetition) -> tuple[float, ...]:
    """Steps of which somebody saw that they were undisturbed."""
    if repetition.disturbed is False:
        return repetition.step_s
    return tuple(step for step, mark in zip(repetition.step_s, repetition.step_marks, strict=True) if mark is False)


def _is_mixed(rows: Sequence[Sequence[float]], mode: LowerMode) -> bool:
    """Whether steps above the fastest mode are too many for noise: bursts then explain the marks, and the steps between them are quiet."""
    steps = [step for row in rows for step in row]
    return sum(mode.is_slower(step) for step in steps) >= LEAST_SLOW_SHARE * len(steps)
