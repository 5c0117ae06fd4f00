"""Speed as found and quiet speed."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from suffice.stats.quiet import NoQuiet, QuietBasis, Repetition, TwoSpeeds, Window, marks_of_steps, two_speeds

STEP_S = 0.01  # of the quiet machine in all of these
STEPS = 40


def seeded(number: int = 3) -> random.Random:
    """The same numbers in every run."""
    return random.Random(number)  # noqa: S311  # noise, no secret


def repetition(rng: random.Random, slow: float = 1.0, *, disturbed: bool | None) -> Repetition:
    """Steps with 2 % of noise, all of them ``slow`` times as long."""
    return Repetition(
        step_s=tuple(STEP_S * slow * math.exp(rng.gauss(0, 0.02)) for _ in range(STEPS)), disturbed=disturbed
    )


def bursts(
    rng: random.Random, count: int, *, busy_s: float, period_s: float = 1.0, slow: float = 3.0
) -> list[list[float]]:
    """Repetitions on one time line, on which every period begins with a burst that makes steps ``slow`` times as long."""
    rows, now_s = [], 0.0
    for _ in range(count):
        row = []
        for _ in range(STEPS):
            # A disturbance makes no step faster.
            factor = 1 + (slow - 1) * math.exp(rng.gauss(0, 0.3)) if now_s % period_s < busy_s else 1.0
            row.append(STEP_S * factor * math.exp(rng.gauss(0, 0.02)))
            now_s += row[-1]
        rows.append(row)
    return rows


def error_of(found: TwoSpeeds) -> float:
    """How far the quiet rate is from the truth, as a share."""
    assert found.quiet is not None
    return abs(found.quiet.point * STEP_S - 1)


def test_a_quiet_machine_has_one_speed() -> None:
    """Without a mark that says otherwise both estimates are the same, from all repetitions."""
    rng = seeded()
    found = two_speeds([repetition(rng, disturbed=False) for _ in range(8)])
    assert found.quiet == found.as_found
    assert found.basis is QuietBasis.REPETITIONS
    assert found.disturbed_share == pytest.approx(0.0)
    assert found.slowdown == pytest.approx(1.0, abs=0.01)
    assert (found.marked, found.unmarked, found.bimodal) == (0, 8, False)


def test_undisturbed_repetitions_are_taken_whole() -> None:
    """Four of ten undisturbed are 42 % of the time here, enough: their rates, however slow a step of them is, and no other."""
    rng = seeded()
    quiet = [repetition(rng, disturbed=False) for _ in range(4)]
    spiky = Repetition(step_s=(*quiet[0].step_s[:-1], 0.1), disturbed=False)
    busy = [repetition(rng, 1.2, disturbed=True) for _ in range(6)]
    found = two_speeds([spiky, *quiet[1:], *busy])
    assert found.quiet is not None
    assert found.quiet.samples == tuple(len(one.step_s) / one.total_s for one in (spiky, *quiet[1:]))
    assert found.quiet.point > found.as_found.point
    assert found.disturbed_share == pytest.approx(
        1 - (spiky.total_s + 3 * 0.4) / (spiky.total_s + 3 * 0.4 + 6 * 0.48), abs=0.01
    )


def test_unmarked_repetitions_that_do_not_agree_are_not_all_quiet() -> None:
    """One of four without a mark was 1.5 times slower all the same, for a reason that nobody saw: the quiet speed is that of the others' steps."""
    rng = seeded()
    unseen = [repetition(rng, 1.5, disturbed=False)]
    quiet = [repetition(rng, disturbed=False) for _ in range(3)]
    busy = [repetition(rng, 2.0, disturbed=True) for _ in range(3)]
    found = two_speeds([*unseen, *quiet, *busy])
    assert found.basis is QuietBasis.STEPS
    assert error_of(found) < 0.05


def test_a_slow_machine_that_was_never_alone_is_not_called_quiet() -> None:
    """All repetitions are marked and all steps alike: what it does alone is not known, and the reason is said."""
    rng = seeded()
    found = two_speeds([repetition(rng, 1.4, disturbed=True) for _ in range(8)])
    assert (found.quiet, found.basis, found.slowdown, found.disturbed_share) == (None, None, None, None)
    assert found.no_quiet is NoQuiet.ALIKE
    assert found.as_found.point == pytest.approx(1 / STEP_S / 1.4, rel=0.02)


def test_one_spared_repetition_does_not_make_a_neighbour_quiet() -> None:
    """Four of five are marked and all are alike: the one without a mark was beside the same neighbour, and proves nothing."""
    rng = seeded()
    rows = [repetition(rng, 1.4, disturbed=place > 0) for place in range(5)]
    assert two_speeds(rows).no_quiet is NoQuiet.ALIKE


@pytest.mark.parametrize("marks", ["none", "all disturbed"])
@pytest.mark.parametrize("busy_s", [0.2, 0.4])
def test_bursts_are_separated_step_by_step(marks: str, busy_s: float) -> None:
    """A burst in every second hits nearly every repetition; the steps between bursts give the truth within 1 %, with or without marks."""
    rows = bursts(seeded(), 12, busy_s=busy_s)
    mark = None if marks == "none" else True
    found = two_speeds([Repetition(step_s=tuple(row), disturbed=mark) for row in rows])
    assert found.basis is (QuietBasis.FASTEST_MODE if mark is None else QuietBasis.STEPS)
    assert error_of(found) < 0.01
    assert found.disturbed_share == pytest.approx(busy_s, abs=0.08)
    assert found.slowdown is not None
    assert found.slowdown > 1.1


@pytest.mark.parametrize("quiet_share", [0.35, 0.5, 0.8])
@pytest.mark.parametrize("slow", [1.12, 1.4, 3.0])
def test_quiet_speed_within_five_percent_wherever_a_third_was_undisturbed(quiet_share: float, slow: float) -> None:
    """Over 40 made-up runs each: blocks of steps are slow, marks are unknown; 95 % of the runs are within 5 %, and say so."""
    close = 0
    for number in range(40):
        rng = seeded(number)
        rows = bursts(rng, 10, busy_s=0.8 * (1 - quiet_share), period_s=0.8, slow=slow)
        found = two_speeds([Repetition(step_s=tuple(row)) for row in rows])
        close += found.quiet is not None and error_of(found) < 0.05
    assert close >= 38


def test_too_little_quiet_time_is_no_estimate() -> None:
    """15 % of the time between slow steps of all lengths: no quiet speed, and how much was disturbed is said where it is known."""
    rows = bursts(seeded(), 12, busy_s=0.85, slow=4.0)
    found = two_speeds([Repetition(step_s=tuple(row), disturbed=True) for row in rows])
    assert (found.quiet, found.no_quiet) == (None, NoQuiet.TOO_LITTLE)
    one_quiet = [Repetition(step_s=(STEP_S,) * 40, disturbed=False), repetition(seeded(), 9.0, disturbed=True)]
    few = two_speeds(one_quiet)
    assert (few.quiet, few.no_quiet) == (None, NoQuiet.TOO_LITTLE)
    assert few.disturbed_share == pytest.approx(0.9, abs=0.01)


def test_sampled_marks_overrule_a_time_that_looks_quiet() -> None:
    """Steps that a sample saw disturbed are left out though they were as short; the others tell what quiet is."""
    step_s = (STEP_S,) * 20 + (STEP_S * 1.03,) * 20
    marks: tuple[bool | None, ...] = (False,) * 20 + (True,) * 20
    found = two_speeds([Repetition(step_s=step_s, disturbed=True, step_disturbed=marks) for _ in range(6)])
    assert found.basis is QuietBasis.STEPS
    assert found.quiet is not None
    assert found.quiet.point == pytest.approx(1 / STEP_S)
    assert found.disturbed_share == pytest.approx(1.03 / 2.03)


def test_two_undisturbed_repetitions_show_which_steps_are_quiet() -> None:
    """Two are too few for an interval of their own; steps of disturbed ones that are as fast join them, slower ones do not."""
    rng = seeded()
    rows = bursts(rng, 10, busy_s=0.3)
    repetitions = [repetition(rng, disturbed=False) for _ in range(2)]
    repetitions += [Repetition(step_s=tuple(row), disturbed=True) for row in rows]
    found = two_speeds(repetitions)
    assert found.basis is QuietBasis.STEPS
    assert found.quiet is not None
    assert len(found.quiet.samples) > 6
    assert error_of(found) < 0.01


def test_a_prompt_is_one_step() -> None:
    """Repetitions of one step each: rates are of what the step makes; with four of them and no marks nothing is told apart."""
    found = two_speeds([Repetition(step_s=(2.0,), disturbed=False)] * 3, units_per_step=512)
    assert found.as_found.point == pytest.approx(256)
    assert found.quiet == found.as_found
    unmarked = two_speeds([Repetition(step_s=(2.0,))] * 4, units_per_step=512)
    assert (unmarked.quiet, unmarked.no_quiet) == (None, NoQuiet.TOO_FEW)


def test_a_drift_is_told() -> None:
    """A machine that becomes 2 % slower with every repetition drifts; one that does not, does not."""
    rng = seeded()
    drifting = two_speeds([repetition(rng, 1.02**i, disturbed=None) for i in range(12)])
    assert drifting.drift is not None
    assert drifting.drift.is_drift
    assert drifting.drift.slope_share == pytest.approx(-0.02, abs=0.004)
    steady = two_speeds([repetition(rng, disturbed=None) for _ in range(12)])
    assert steady.drift is not None
    assert not steady.drift.is_drift


def test_marks_of_steps_from_windows() -> None:
    """A step is disturbed if any window on it was, quiet if quiet windows cover it, else not known."""
    edges = (10.0, 10.05, 10.1, 10.15, 10.2)
    states: tuple[bool | None, ...] = (False, True, False, None)
    windows = [
        Window(begin_s=low, end_s=high, disturbed=state)
        for (low, high), state in zip(pairwise(edges), states, strict=True)
    ]
    # From 10.00 to 10.04, 10.06, 10.09, 10.11, 10.14, 10.16 and 10.24.
    steps = (0.04, 0.02, 0.03, 0.02, 0.03, 0.02, 0.08)
    assert marks_of_steps(steps, 10.0, windows) == (False, True, True, True, False, None, None)
    assert marks_of_steps(steps[:1], 10.0, []) == (None,)


def test_what_cannot_be_is_refused() -> None:
    """No steps, a step without time, marks of other steps, no repetitions."""
    with pytest.raises(ValueError, match="has steps"):
        Repetition(step_s=())
    with pytest.raises(ValueError, match="positive"):
        Repetition(step_s=(1.0, 0.0))
    with pytest.raises(ValueError, match="1 marks are given for 2 steps"):
        Repetition(step_s=(1.0, 1.0), step_disturbed=(True,))
    with pytest.raises(ValueError, match="needs a repetition"):
        two_speeds([])


def _watched(
    rng: random.Random, slow: float = 1.0, *, burst: int = 8, elsewhere: bool = False, disturbed: bool | None = True
) -> Repetition:
    """A repetition whose first steps were seen to be hit by a burst, and took three times as long."""
    steps = [STEP_S * slow * math.exp(rng.gauss(0, 0.02)) * (3.0 if place < burst else 1.0) for place in range(STEPS)]
    marks = tuple(place < burst for place in range(STEPS))
    return Repetition(step_s=tuple(steps), disturbed=disturbed, step_disturbed=marks, elsewhere=elsewhere)


def test_steps_between_bursts_tell_the_speed_of_a_machine_with_moods() -> None:
    """Repetitions differ by a third, which no sample explains, and bursts hit all: the median of what is between them, with an interval that has the moods."""
    rng = seeded()
    moods = (1.0, 1.3, 0.95, 1.25, 1.05, 0.9, 1.2, 1.0)
    found = two_speeds([_watched(rng, mood) for mood in moods])

    assert found.basis is QuietBasis.STEPS
    assert found.quiet is not None
    assert found.quiet.point * STEP_S == pytest.approx(1 / 1.025, rel=0.04)
    assert found.quiet.interval is not None
    assert found.quiet.interval.low * STEP_S < 0.9
    assert found.disturbed_share == pytest.approx(24 / (24 + 32), abs=0.03)


@pytest.mark.parametrize(("slow", "kept"), [(1.0, True), (1.03, True), (1.3, False), (0.9, True)])
def test_a_neighbour_between_repetitions_counts_where_it_slows(slow: float, *, kept: bool) -> None:
    """Half of the repetitions lie beside a slow reading of the memory bus: they are left out when they are slower, and not for the reading alone."""
    rng = seeded()
    beside = [_watched(rng, slow, burst=2, elsewhere=True) for _ in range(4)]
    found = two_speeds([*(_watched(rng, burst=2) for _ in range(4)), *beside])

    assert found.quiet is not None
    assert len(found.quiet.samples) == (8 if kept else 4)


def test_moods_beside_slow_readings_are_not_left_out_by_chance() -> None:
    """Three of nine repetitions beside slow readings, whose median is 10 % below that of the others while all of them scatter by 20 %: that shows nothing, and who left them out would make the machine faster."""
    rng = seeded()
    beside = [_watched(rng, mood, burst=2, elsewhere=True) for mood in (1.12, 1.25, 0.95)]
    others = [_watched(rng, mood, burst=2) for mood in (1.0, 1.2, 0.9, 1.02, 1.18, 0.97)]
    found = two_speeds([*others, *beside])

    assert found.quiet is not None
    assert len(found.quiet.samples) == 9


def test_too_few_undisturbed_steps_are_no_speed_of_their_own() -> None:
    """Two repetitions with some, or steps that make less than 30 % of the time: left to the modes."""
    rng = seeded()
    rows = [_watched(rng, burst=STEPS) for _ in range(6)]
    found = two_speeds([*rows, _watched(rng), _watched(rng)])

    assert found.quiet is None or found.basis is not QuietBasis.STEPS or len(found.quiet.samples) >= 3


def test_a_quiet_sample_is_no_proof_against_what_it_does_not_see() -> None:
    """Marks of the steps of a repetition that a neighbour on the bus disturbed: what was seen stays, what was not is unknown."""
    hit = Repetition(step_s=(1.0, 1.0, 1.0), disturbed=True, step_disturbed=(True, False, None), elsewhere=True)

    assert hit.step_marks == (True, None, None)
    assert Repetition(step_s=(1.0,), disturbed=True).step_marks == (None,)
    assert hit.seen_quiet == (1.0,)
