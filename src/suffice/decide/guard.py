"""The guard's rule: does a record still hold what a decision once rested on?"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.decide.guard_facts import facts_of
from suffice.decide.guard_fingerprint import bandwidth_text, causes_of
from suffice.decide.guard_limits import check_limit
from suffice.decide.guard_types import CheckKind, GuardCheck, GuardResult, Limit, Metric, Outcome, worst

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.guard_fingerprint import Comparison
    from suffice.decide.guard_types import RunFacts
    from suffice.records.schema import RunRecord

__all__ = [
    "GuardCheck",
    "GuardResult",
    "Limit",
    "Metric",
    "Outcome",
    "check_verdict",
    "confirmed",
    "guard_floor",
    "rerun_words",
    "result_of",
]

# From the best to the worst; "undecided" is none of them.
_ORDER: Final = (words.CPU, words.CPU_THIN, words.GPU)
# A reading of the bandwidth scatters by some percent from moment to moment; a larger change is told as a cause.
_TOLD_BANDWIDTH_CHANGE: Final = 0.05
_AT_WORK: Final = "others were at work: "
_NOTHING_DIFFERS: Final = "nothing in the fingerprint differs: neighbours, heat, or what it does not hold"


def guard_floor(record: RunRecord, floor_tokens_per_second: float) -> GuardResult:
    """Decode against a floor: FAIL under it, PASS when the low end of the interval holds it, else INCONCLUSIVE.

    A record without a number is INCONCLUSIVE; one of a busy machine as well, unless its whole interval holds the floor.
    """
    limit = Limit(metric=Metric.DECODE, value=floor_tokens_per_second)
    return result_of([check_limit(facts_of(record, "the run"), limit)], record.decode_tokens_per_second)


def result_of(
    checks: Sequence[GuardCheck], decode_tokens_per_second: float | None = None, causes: Sequence[str] = ()
) -> GuardResult:
    """All checks as one result: the worst of them decides, and its reasons are told.

    Args:
        checks: in the order in which they are told.
        decode_tokens_per_second: of the new run.
        causes: what differs from the run that it was compared with; told where something failed or could not be told.
    """
    outcome = worst([check.outcome for check in checks])
    told = [check for check in checks if check.outcome is outcome]
    floors = [check.limit for check in checks if check.metric is Metric.DECODE and check.kind is CheckKind.FLOOR]
    reason = _told_once(told)
    # Where others at work are why nothing could be judged, the reason says so already.
    differing = [cause for cause in causes if outcome is Outcome.FAIL or not cause.startswith(_AT_WORK)]
    if differing and outcome is not Outcome.PASS:
        reason += f"; {'likely cause' if outcome is Outcome.FAIL else 'differs'}: {', '.join(differing)}"
    return GuardResult(
        outcome=outcome,
        reason=reason or "nothing was checked",
        measured_tokens_per_second=decode_tokens_per_second,
        floor_tokens_per_second=floors[0] if floors else None,
        smallest_detectable_change=_smallest(checks),
        checks=tuple(checks),
        causes=tuple(causes),
        flipped=any(check.kind is CheckKind.VERDICT and check.outcome is Outcome.FAIL for check in checks),
    )


def _told_once(checks: Sequence[GuardCheck]) -> str:
    """The reasons of some checks; an obstacle that several share is told once, behind all their figures."""
    shared: dict[str, list[str]] = {}
    for check in checks:
        own = f": {check.obstacle}"
        if check.obstacle and check.reason.endswith(own):
            shared.setdefault(own, []).append(check.reason.removesuffix(own))
        else:
            shared.setdefault("", []).append(check.reason)
    return "; ".join(f"{'; '.join(figures)}{obstacle}" for obstacle, figures in shared.items())


def _smallest(checks: Sequence[GuardCheck]) -> float | None:
    """Of decode where it was compared or held against a floor, else the largest of all: no check would have seen less."""
    known = [check for check in checks if check.smallest_detectable_change is not None]
    decode = [check for check in known if check.metric is Metric.DECODE]
    return max((check.smallest_detectable_change or 0.0 for check in decode or known), default=None)


def likely_causes(base: RunFacts, new: RunFacts, comparison: Comparison) -> list[str]:
    """What may have made a difference, the likeliest first: others at work, what was changed, the machine and what is around it."""
    causes = [f"{_AT_WORK}{reason}" for reason in new.busy]
    causes += causes_of(comparison)
    first, second = base.bandwidth_bytes_per_s, new.bandwidth_bytes_per_s
    if first is not None and second is not None and abs(first - second) > _TOLD_BANDWIDTH_CHANGE * max(first, second):
        causes.append(bandwidth_text(first, second))
    return causes or [_NOTHING_DIFFERS]


def causes_between_sides(comparison: Comparison) -> list[str]:
    """What may have made a difference between two sides that were measured in turns: neighbours met both, so they are none."""
    return causes_of(comparison) or [_NOTHING_DIFFERS]


def check_verdict(new: str, base: str | None, obstacle: str = "") -> GuardCheck:
    """A verdict, and whether it got worse: a flip is a failure of its own kind, even where every figure is within its tolerance.

    Args:
        new: one of the four words, of the new run.
        base: of the run that it is compared with; None: of none, so that the verdict itself must be a CPU's.
        obstacle: why the two runs are not comparable as they are: a worse verdict on another machine is no flip; "" where they are.
    """
    if words.UNDECIDED in {new, base}:
        which = "the new run" if new == words.UNDECIDED else "the baseline"
        outcome, reason = Outcome.INCONCLUSIVE, f"verdict of {which} is undecided"
    elif base is None:
        holds = new in {words.CPU, words.CPU_THIN}
        outcome, reason = Outcome.PASS if holds else Outcome.FAIL, f"verdict {new}"
    elif _ORDER.index(new) > _ORDER.index(base) and obstacle:
        outcome, reason = Outcome.INCONCLUSIVE, f"verdict {new}, baseline {base}, and {obstacle}"
    elif _ORDER.index(new) > _ORDER.index(base):
        outcome, reason = Outcome.FAIL, f"the verdict flipped: {base} -> {new}"
    else:
        outcome, reason = Outcome.PASS, f"verdict {new}, baseline {base}"
    return GuardCheck(name="verdict", kind=CheckKind.VERDICT, outcome=outcome, reason=reason)


def confirmed(first: GuardResult, again: GuardResult) -> GuardResult:
    """A failure after one confirming rerun, check by check: what failed in both runs fails; in one of them it shows nothing."""
    earlier = {(check.kind, check.metric): check for check in first.checks}
    checks = [_after_rerun(earlier.pop((check.kind, check.metric), None), check) for check in again.checks]
    checks += [_after_rerun(check, None) for check in earlier.values() if check.outcome is Outcome.FAIL]
    is_failure = any(check.outcome is Outcome.FAIL for check in checks)
    result = result_of(checks, again.measured_tokens_per_second, again.causes if is_failure else first.causes)
    reason = f"{result.reason} (confirmed by a rerun)" if is_failure else result.reason
    return replace(result, reason=reason, comparison=again.comparison, notes=again.notes, reruns=1)


def _after_rerun(first: GuardCheck | None, again: GuardCheck | None) -> GuardCheck:
    """One check of two runs; None: that run had no such check, which is no failure."""
    found = again or first
    if found is None:
        raise ValueError("a check of neither run")
    is_failed = [one is not None and one.outcome is Outcome.FAIL for one in (first, again)]
    if is_failed[0] == is_failed[1]:
        return found
    reasons = ["there was nothing to judge" if one is None else one.reason for one in (first, again)]
    told = rerun_words(*reasons, failed_first=is_failed[0])
    return replace(found, outcome=Outcome.INCONCLUSIVE, reason=told, obstacle="")


def rerun_words(first: str, again: str, *, failed_first: bool) -> str:
    """Of a check that failed in one of two runs: both reasons, and in which it was."""
    if failed_first:
        return f"failed ({first}), and not when it was run again ({again})"
    return f"failed when it was run again ({again}), and not the first time ({first})"
