"""Two runs, or a run and a history, held against each other: the regression rule of docs/guard.md.

FAIL when the interval of log(new / base) lies wholly beyond the tolerance on the bad side, PASS when its bad end is within the tolerance,
INCONCLUSIVE otherwise, and where runs are not comparable, a figure is missing, or one of the two is no evidence.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

from suffice.decide.disturbance import MAX_BANDWIDTH_CHANGE
from suffice.decide.guard_fingerprint import Comparability, Comparison, compare_fingerprints
from suffice.decide.guard_limits import doubt_of, figures_text, unjudged
from suffice.decide.guard_types import COMPARED, CheckKind, GuardCheck, Metric, Outcome
from suffice.stats.estimate import Estimate, Interval
from suffice.stats.intervals import DEFAULT_LEVEL
from suffice.stats.ratio import (
    POWER,
    Better,
    Change,
    Tolerance,
    judge_change,
    paired_shift_ratio,
    predicted_ratio,
    shift_ratio,
    smallest_change,
    with_scatter,
)
from suffice.stats.steps import last_segment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.guard_types import RunFacts
    from suffice.decide.paired_speed import EvenSteps

DEFAULT_TOLERANCE: Final = 0.05
DEFAULT_METRICS: Final = (Metric.DECODE, Metric.PREFILL, Metric.MEMORY)
# Standard deviation of the logarithm of one run's figure around that of another run of the same thing, where no history tells it. Pages and
# threads land elsewhere in each process. With 1 % a 10 % loss is shown and an unchanged run passes at the default tolerance in
# more than four of five cases; a machine that scatters more needs a history or --interleave, and a history says so.
BETWEEN_RUNS: Final = 0.01
# Decode over bandwidth on one machine at two moments: both readings are disturbed by the same neighbours, at different times. A short
# bandwidth reading of a quiet machine scatters by several percent (MAX_BANDWIDTH_CHANGE lies above that).
NORMALISED_MOMENT: Final = 0.05
# Of different CPUs: one model file reaches 65 to 97 % of the ceiling over machines (llama-roofline's gallery). Spread evenly on a
# logarithm, that is a standard deviation of log(0.97 / 0.65) / sqrt(12) for each.
NORMALISED_MACHINE: Final = math.log(0.97 / 0.65) / math.sqrt(12)
# Below this share of the ceiling decode is bound by something else than memory, and no bandwidth makes it comparable.
LEAST_BANDWIDTH_SHARE: Final = 0.4
# As many runs since the last step tell their own scatter: Student's factor is 2.78 for five, 12.7 for two.
LEAST_HISTORY: Final = 5
MOST_HISTORY: Final = 200  # latest runs that are looked at


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ratio:
    """New over base of one metric. ``raw`` is as found; ``scaled`` over the bandwidths, where that is what counts as well, or alone."""

    metric: Metric
    base: float
    new: float
    raw: Estimate | None
    scaled: Estimate | None = None
    scaled_alone: bool = False
    even: EvenSteps | None = None  # where both were measured in turns
    obstacle: str = ""


def compare_with_baseline(
    base: RunFacts, new: RunFacts, *, tolerance: float = DEFAULT_TOLERANCE, metrics: Sequence[Metric] = DEFAULT_METRICS
) -> tuple[Comparison, list[GuardCheck]]:
    """One check for each metric that the baseline has; those that it lacks are left out, unless it has none.

    Raises:
        ValueError: a tolerance outside (0, 1), or a metric that cannot be compared.
    """
    _check_metrics(metrics)
    comparison = compare_fingerprints(base.fingerprint, new.fingerprint)
    known = [metric for metric in metrics if metric in base.figures]
    checks = [_check(metric, base, new, comparison, tolerance) for metric in known]
    return comparison, checks or [_nothing(CheckKind.BASELINE, f"{base.name} has none of {', '.join(metrics)}")]


def _check_metrics(metrics: Sequence[Metric]) -> None:
    other = [metric.value for metric in metrics if metric not in COMPARED]
    if other or not metrics:
        raise ValueError(f"{', '.join(other) or 'nothing'} cannot be compared; {', '.join(COMPARED)} can")


def _nothing(kind: CheckKind, reason: str) -> GuardCheck:
    return GuardCheck(name=f"against the {kind.word}", kind=kind, outcome=Outcome.INCONCLUSIVE, reason=reason)


def _check(metric: Metric, base: RunFacts, new: RunFacts, comparison: Comparison, share: float) -> GuardCheck:
    obstacle = _obstacle(metric, base, new, comparison)
    if obstacle:
        return _blocked(metric, base, new, obstacle, CheckKind.BASELINE)
    return _judged(_ratio(metric, base, new, comparison), share, CheckKind.BASELINE)


def _obstacle(metric: Metric, base: RunFacts, new: RunFacts, comparison: Comparison) -> str:
    """Why the two cannot be held against each other, or ""."""
    for facts in (new, base):
        if facts.figures.get(metric) is None:
            return f"{facts.name} has no {metric.value}"
        doubt = doubt_of(facts, metric)
        if doubt:
            return doubt if facts is new else f"{facts.name}: {doubt}"
    if comparison.comparability is Comparability.NOT_COMPARABLE:
        return f"not comparable: {comparison.reason}"
    return ""


def _blocked(metric: Metric, base: RunFacts, new: RunFacts, reason: str, kind: CheckKind) -> GuardCheck:
    found = GuardCheck(
        name=_name(metric, kind),
        kind=kind,
        outcome=Outcome.INCONCLUSIVE,
        reason=reason,
        metric=metric,
        unit=metric.unit,
        value=_point(new, metric),
        limit=_point(base, metric),
    )
    return unjudged(found, reason)


def _name(metric: Metric, kind: CheckKind) -> str:
    return f"{metric.value} against the {kind.word}"


def _point(facts: RunFacts, metric: Metric) -> float | None:
    figure = facts.figures.get(metric)
    return None if figure is None or figure.quantity is None else figure.quantity.point


def _ratio(metric: Metric, base: RunFacts, new: RunFacts, comparison: Comparison) -> _Ratio:
    first, second = base.figures[metric], new.figures[metric]
    old, now = _point(base, metric) or 0.0, _point(new, metric) or 0.0
    if metric is Metric.MEMORY:  # one figure a run
        raw = Estimate(point=now / old, interval=None, samples=())
        return _Ratio(metric=metric, base=old, new=now, raw=with_scatter(raw, math.sqrt(2) * BETWEEN_RUNS))
    shift = shift_ratio(first.samples, second.samples)
    if shift is None or shift.interval is None:
        counts = f"{len(first.samples)} and {len(second.samples)}"
        what = f"{counts} repetitions are too few, four of each are needed; measure with a larger --budget"
        return _Ratio(metric=metric, base=old, new=now, raw=None, obstacle=what)
    found = _Ratio(metric=metric, base=old, new=now, raw=with_scatter(shift, math.sqrt(2) * BETWEEN_RUNS))
    return _normalised(found, shift, base, new, comparison)


def _normalised(found: _Ratio, raw: Estimate, base: RunFacts, new: RunFacts, comparison: Comparison) -> _Ratio:
    """With the ratio over the bandwidths where the two machines, or the moments, were not alike."""
    metric = found.metric
    another_machine = comparison.comparability is Comparability.NORMALISED
    if not another_machine and not _another_bandwidth(base, new):
        return found
    if metric is not Metric.DECODE:
        if another_machine:
            what = (
                f"{comparison.reason}: {metric.value} depends on what a CPU computes, and no reference carries it over"
            )
            return replace(found, obstacle=what)
        return found
    why_not = _why_not_scaled(base, new)
    if why_not:
        return replace(found, obstacle=f"{comparison.reason}: {why_not}") if another_machine else found
    factor = (base.bandwidth_bytes_per_s or 1.0) / (new.bandwidth_bytes_per_s or 1.0)
    deviation = NORMALISED_MACHINE if another_machine else NORMALISED_MOMENT
    scaled = with_scatter(_times(raw, factor), math.sqrt(2) * deviation)
    return replace(found, scaled=scaled, scaled_alone=another_machine)


def _another_bandwidth(base: RunFacts, new: RunFacts) -> bool:
    first, second = base.bandwidth_bytes_per_s, new.bandwidth_bytes_per_s
    return first is not None and second is not None and abs(first - second) > MAX_BANDWIDTH_CHANGE * max(first, second)


def _why_not_scaled(base: RunFacts, new: RunFacts) -> str:
    for facts in (base, new):
        if facts.bandwidth_bytes_per_s is None:
            return f"{facts.name} has no bandwidth reading to compare rates by"
        if facts.bandwidth_share is None or facts.bandwidth_share < LEAST_BANDWIDTH_SHARE:
            share = "unknown" if facts.bandwidth_share is None else f"{facts.bandwidth_share:.0%} of the ceiling"
            return f"decode of {facts.name} is not bound by memory ({share}), so bandwidth does not make it comparable"
    return ""


def _times(ratio: Estimate, factor: float) -> Estimate:
    interval = ratio.interval
    if interval is not None:
        interval = replace(interval, low=interval.low * factor, high=interval.high * factor)
    return Estimate(point=ratio.point * factor, interval=interval, samples=())


def _judged(found: _Ratio, share: float, kind: CheckKind) -> GuardCheck:
    """The check of one ratio; of a raw and a scaled one both must agree, for a pass as for a failure."""
    metric, tolerance = found.metric, Tolerance(share=share, better=found.metric.better)
    counted = found.scaled if found.scaled_alone else found.raw
    used = [one for one in (counted, found.scaled) if one is not None]
    outcome = _outcome([judge_change(one, tolerance) for one in used])
    if found.even is not None and found.raw is not None and outcome is not Outcome.FAIL:
        by_even = judge_change(found.even.ratio, tolerance)
        is_shown = _is_as_found(found.even, tolerance) and (outcome is Outcome.PASS or not _has_more_slow(found.even))
        outcome = _outcome([by_even]) if is_shown or by_even is Change.WORSE else Outcome.INCONCLUSIVE
        if outcome is not Outcome.INCONCLUSIVE or by_even is not Change.WITHIN:
            counted, used = found.even.ratio, [found.even.ratio]
    if found.obstacle:
        outcome = Outcome.INCONCLUSIVE
    return GuardCheck(
        name=_name(metric, kind),
        kind=kind,
        outcome=outcome,
        reason=_words(found, counted, tolerance, outcome, kind),
        metric=metric,
        unit=metric.unit,
        value=found.new,
        limit=found.base,
        ratio=None if counted is None else counted.point,
        ratio_low=None if counted is None or counted.interval is None else counted.interval.low,
        ratio_high=None if counted is None or counted.interval is None else counted.interval.high,
        tolerance=share,
        smallest_detectable_change=None if found.obstacle or not used else _smallest(used, tolerance),
        normalised=found.scaled_alone,
        obstacle=found.obstacle,
    )


def _outcome(changes: Sequence[Change]) -> Outcome:
    if changes and all(change is Change.WITHIN for change in changes):
        return Outcome.PASS
    return Outcome.FAIL if changes and all(change is Change.WORSE for change in changes) else Outcome.INCONCLUSIVE


def _is_as_found(even: EvenSteps, tolerance: Tolerance) -> bool:
    """Whether all steps of all rounds together took no longer than is tolerated: a head that stalls once, for long, is out by it."""
    together = Interval(low=even.total, high=even.total, level=0.5, method="as found")
    return judge_change(replace(even.ratio, point=even.total, interval=together), tolerance) is Change.WITHIN


def _has_more_slow(even: EvenSteps) -> bool:
    """Whether the head is shown to have more slow steps than the base, or too few rounds show anything of them. Else neighbours, who met both, made them."""
    return even.slow.interval is None or even.slow.interval.low > 1


def _smallest(used: Sequence[Estimate], tolerance: Tolerance) -> float | None:
    changes = [smallest_change(one, tolerance) for one in used]
    return max((one for one in changes if one is not None), default=None)


_REACH: Final = NormalDist().inv_cdf(1 - (1 - DEFAULT_LEVEL) / 2) + NormalDist().inv_cdf(POWER)  # deviations


def times_as_many_rounds(check: GuardCheck, lasting: float = 0.0) -> float | None:
    """How many times as many rounds would show two equal sides to be within the tolerance in four of five comparisons.

    What :func:`~suffice.stats.ratio.smallest_change` needs beyond the tolerance is what a side that is equal may lose of it. The half width of an
    interval falls with the root of the number of rounds, but for ``lasting``: the deviation of the logarithm of the ratio that no number of rounds takes away.

    Returns:
        None where these are enough, or it is not known; infinite where no number is.
    """
    if check.smallest_detectable_change is None or check.tolerance is None:
        return None
    limit, smallest = 1 - check.tolerance, 1 - check.smallest_detectable_change
    if check.metric is not None and check.metric.better is Better.LOWER:
        limit, smallest = 1 + check.tolerance, 1 + check.smallest_detectable_change
    if smallest <= 0:
        return None
    # Reaches, in units of what may be: the ratio's own, and that of what lasts.
    own = math.log(smallest / limit) / math.log(limit)
    stays = lasting * _REACH / abs(math.log(limit))
    if own <= 1:
        return None
    return math.ceil((own**2 - stays**2) / (1 - stays**2)) if stays < min(1.0, own) else math.inf


def _words(found: _Ratio, counted: Estimate | None, tolerance: Tolerance, outcome: Outcome, kind: CheckKind) -> str:
    metric = found.metric
    figures = figures_text(kind, metric, found.new, found.base)
    if found.obstacle:
        return f"{figures}: {found.obstacle}"
    if counted is None or counted.interval is None:
        return f"{figures}: no interval"
    change = f"{counted.point - 1:+.1%} ({counted.interval.low - 1:+.1%} to {counted.interval.high - 1:+.1%})"
    over = " over the bandwidth of each machine" if found.scaled_alone else ""
    says = {
        Outcome.PASS: f"no worse than the tolerance of {tolerance.share:.0%}",
        Outcome.FAIL: f"worse than the tolerance of {tolerance.share:.0%}",
        Outcome.INCONCLUSIVE: f"cannot tell whether it is within the tolerance of {tolerance.share:.0%}",
    }[outcome]
    of_steps = " of the even steps" if found.even is not None and counted is found.even.ratio else ""
    text = f"{figures}: {change}{of_steps}{over}, {says}"
    if of_steps and found.raw is not None:
        text += f" ({found.raw.point - 1:+.1%} of all steps, neighbours included)"
    if found.even is not None and not _is_as_found(found.even, tolerance):
        text += f"; {found.even.total - 1:+.1%} when the steps of all rounds are added up"
    if found.scaled is not None and not found.scaled_alone:
        text += f"; {found.scaled.point - 1:+.1%} over the bandwidth of each moment, which was another one"
    return text


# -- a history ----------------------------------------------------------------------------------------------------------


def compare_with_history(
    runs: Sequence[RunFacts],
    new: RunFacts,
    *,
    tolerance: float = DEFAULT_TOLERANCE,
    metrics: Sequence[Metric] = DEFAULT_METRICS,
) -> tuple[Comparison | None, list[GuardCheck]]:
    """One check for each metric that a run of the history has.

    Runs on the same machine since the last step of their figures are one population: five of them tell how much runs scatter. Fewer are
    no population; the latest one is then a baseline. Busy, unfinished and contradictory runs are left out, and so is the new run itself.

    Returns:
        How the new run compares with the latest one that was used (None: none), and the checks.

    Raises:
        ValueError: as of :func:`compare_with_baseline`.
    """
    _check_metrics(metrics)
    earlier = [run for run in runs if not _is_same_run(run, new)][-MOST_HISTORY:]
    known = [metric for metric in metrics if any(metric in run.figures for run in earlier)]
    base = base_of_history(earlier, new, known)
    comparison = None if base is None else compare_fingerprints(base.fingerprint, new.fingerprint)
    checks = [_check_history(metric, earlier, new, tolerance) for metric in known]
    nothing = f"the history has no run with {', '.join(metrics)} to compare with"
    return comparison, checks or [_nothing(CheckKind.HISTORY, nothing)]


def base_of_history(
    runs: Sequence[RunFacts], new: RunFacts, metrics: Sequence[Metric] = DEFAULT_METRICS
) -> RunFacts | None:
    """The latest run of a history that a new one is held against: the latest comparable one, else the latest of all; None: none."""
    earlier = [run for run in runs if not _is_same_run(run, new)]
    usable = [run for run in earlier if any(metric in run.figures and not doubt_of(run, metric) for metric in metrics)]
    alike, related = _by_comparability(usable, new)
    return next(iter((alike or related or usable)[-1:]), None)


def _is_same_run(run: RunFacts, new: RunFacts) -> bool:
    """By what a history keeps: a run that was just measured has figures that no line of a history holds."""
    return run.created_at is not None and run.created_at == new.created_at and run.kept_figures == new.kept_figures


def _check_history(metric: Metric, runs: Sequence[RunFacts], new: RunFacts, tolerance: float) -> GuardCheck:
    usable = [run for run in runs if run.figures.get(metric) is not None and not doubt_of(run, metric)]
    alike, related = _by_comparability(usable, new)
    if not alike and not related:
        reason = f"{metric.value}: none of {len(runs)} runs of the history is comparable"
        if usable:
            reason += f" (the latest: {compare_fingerprints(usable[-1].fingerprint, new.fingerprint).reason})"
        return replace(_nothing(CheckKind.HISTORY, reason), metric=metric, value=_point(new, metric))
    base = (alike or related)[-1]
    comparison = compare_fingerprints(base.fingerprint, new.fingerprint)
    blocked = _obstacle(metric, base, new, comparison)
    if blocked:
        return _blocked(metric, base, new, blocked, CheckKind.HISTORY)
    points = [value for run in alike if (value := _point(run, metric)) is not None]
    level = points[last_segment(points) :]
    if len(level) >= LEAST_HISTORY:
        return _against_level(metric, level, new, tolerance)
    check = _check(metric, base, new, comparison, tolerance)
    few = f"{len(level)} comparable runs at this level in the history, so its latest is the baseline"
    return replace(
        check, name=_name(metric, CheckKind.HISTORY), kind=CheckKind.HISTORY, reason=f"{check.reason} ({few})"
    )


def _by_comparability(runs: Sequence[RunFacts], new: RunFacts) -> tuple[list[RunFacts], list[RunFacts]]:
    """Runs that are comparable as they are, and those after normalisation."""
    kinds = [compare_fingerprints(run.fingerprint, new.fingerprint).comparability for run in runs]
    alike = [run for run, kind in zip(runs, kinds, strict=True) if kind is Comparability.COMPARABLE]
    return alike, [run for run, kind in zip(runs, kinds, strict=True) if kind is Comparability.NORMALISED]


def _against_level(metric: Metric, level: Sequence[float], new: RunFacts, tolerance: float) -> GuardCheck:
    quantity = new.figures[metric].quantity
    now = 0.0 if quantity is None else quantity.point
    ratio = predicted_ratio(level, now, least_deviation=max(BETWEEN_RUNS, _own_deviation(new, metric)))
    base = now / ratio.point
    return _judged(_Ratio(metric=metric, base=base, new=now, raw=ratio), tolerance, CheckKind.HISTORY)


def _own_deviation(facts: RunFacts, metric: Metric) -> float:
    """Of the logarithm of the new run's own figure, from its interval: one that repeats badly is no better than it is."""
    quantity = facts.figures[metric].quantity
    if quantity is None or not quantity.low or not quantity.high:
        return 0.0
    return math.log(quantity.high / quantity.low) / 2 / 1.96


# -- side by side -------------------------------------------------------------------------------------------------------


def check_interleaved(  # both figures, and what judges them
    metric: Metric,
    ratio: Estimate | None,
    base: float | None,
    new: float | None,
    *,
    tolerance: float,
    even: EvenSteps | None = None,
    of_openings: float = 0.0,
) -> GuardCheck:
    """A ratio from rounds in which both were measured; what lasts longer than a round is in both, so that of all scatter only that of the openings is added.

    Args:
        metric: a rate or a time.
        ratio: head over base, its samples those of the rounds; None: fewer than three. From six rounds on signed ranks judge them, which one
            wild round does not move; fewer are judged by the interval that the ratio has.
        base: its figure.
        new: that of the head.
        tolerance: as a share.
        even: the same by the even steps, which neighbours move less. With it a head fails when either ratio is shown to be worse, and passes when
            both are shown to be within the tolerance, or that of the even steps is, all steps together are as found, and the head is not shown to have more slow ones.
        of_openings: standard deviation of the logarithm of the ratio that comes from where the two processes lie in memory, and is not in the scatter of
            the rounds (:func:`~suffice.decide.paired_speed.scatter_of_openings`).
    """
    obstacle = "" if ratio is not None else "fewer than three rounds in which both were measured"
    if ratio is not None:
        ratio = paired_shift_ratio(ratio.samples) or ratio
    if even is not None:
        shifts = [paired_shift_ratio(one.samples) for one in (even.ratio, even.slow)]
        # Few rounds show nothing of slow steps, which one neighbour can bring.
        even = replace(even, ratio=shifts[0] or even.ratio, slow=shifts[1] or replace(even.slow, interval=None))
        even = replace(even, ratio=with_scatter(even.ratio, of_openings)) if of_openings else even
    if ratio is not None and of_openings:
        ratio = with_scatter(ratio, of_openings)
    found = _Ratio(metric=metric, base=base or 0.0, new=new or 0.0, raw=ratio, even=even, obstacle=obstacle)
    if base is None or new is None:
        nothing = _nothing(CheckKind.INTERLEAVED, f"{metric.value}: missing in one of the two")
        name, unit = _name(metric, CheckKind.INTERLEAVED), metric.unit
        return replace(nothing, name=name, metric=metric, unit=unit, value=new, limit=base)
    return _judged(found, tolerance, CheckKind.INTERLEAVED)
