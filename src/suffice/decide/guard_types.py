"""What a guard looks at and what it says: plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.stats.ratio import Better

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.guard_fingerprint import Comparison, Fingerprint
    from suffice.decide.quantity import Quantity


class Outcome(StrEnum):
    """What a guard says."""

    PASS = "pass"  # an outcome, not a password  # noqa: S105  # an outcome, not a password
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


# The worst of several decides: a loss that was shown is not undone by what could not be shown.
_WORST_FIRST: Final = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)


def worst(outcomes: list[Outcome]) -> Outcome:
    """One for all; INCONCLUSIVE where nothing was looked at."""
    return next((outcome for outcome in _WORST_FIRST if outcome in outcomes), Outcome.INCONCLUSIVE)


class Metric(StrEnum):
    """A figure that a guard can watch."""

    DECODE = "decode"
    PREFILL = "prefill"
    TTFT = "ttft"
    TTFT_P90 = "ttft_p90"
    MEMORY = "memory"
    QUALITY = "quality"

    @property
    def better(self) -> Better:
        """Which way is the good one."""
        return Better.LOWER if self in {Metric.TTFT, Metric.TTFT_P90, Metric.MEMORY} else Better.HIGHER

    @property
    def unit(self) -> str:
        """Of its figures and limits."""
        return {
            Metric.DECODE: "tokens/s",
            Metric.PREFILL: "tokens/s",
            Metric.MEMORY: "bytes",
            Metric.QUALITY: "score",
        }.get(self, "s")


# What two runs are compared by. P90 needs more repetitions than a run has, and quality is compared item by item by `suffice quants`.
COMPARED: Final = (Metric.DECODE, Metric.PREFILL, Metric.TTFT, Metric.MEMORY)
# What a history keeps of a run: P90 of a run is never supported by its few repetitions, and a quality score belongs to a comparison, which is kept elsewhere.
KEPT: Final = (Metric.DECODE, Metric.PREFILL, Metric.TTFT, Metric.MEMORY)


class CheckKind(StrEnum):
    """What a figure is held against."""

    FLOOR = "floor"
    CEILING = "ceiling"
    BASELINE = "baseline"
    HISTORY = "history"
    INTERLEAVED = "interleaved"
    VERDICT = "verdict"

    @property
    def word(self) -> str:
        """What a figure of this kind is called in a sentence."""
        return "base" if self is CheckKind.INTERLEAVED else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One metric of one run.

    ``samples`` are its repetitions, empty where there is one figure only. ``judged`` says what a test decided of a limit that was
    given to it (quality); ``doubt`` why the figure is no evidence for a limit, "" when it is.
    """

    quantity: Quantity | None
    samples: tuple[float, ...] = ()
    level: float | None = None
    doubt: str = ""
    judged: bool | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """What a guard needs of a run: its figures, where they come from, and why they may be no evidence.

    ``doubts`` concern all figures. ``bandwidth_bytes_per_s`` is the machine's own reference, read around the run; None: unknown.
    ``bandwidth_share`` is what decode reaches of the ceiling at that bandwidth. ``demand`` names the demand that ``verdict`` is of.
    """

    name: str
    created_at: str | None
    fingerprint: Fingerprint
    figures: Mapping[Metric, Figure]
    doubts: tuple[str, ...] = ()
    busy: tuple[str, ...] = ()
    bandwidth_bytes_per_s: float | None = None
    bandwidth_share: float | None = None
    verdict: str | None = None
    demand: str | None = None

    @property
    def kept_figures(self) -> dict[Metric, Figure]:
        """Those that a history keeps (:data:`KEPT`) and that are known: by them a run is the same as the one in the history."""
        found = {metric: self.figures[metric] for metric in KEPT if metric in self.figures}
        return {metric: figure for metric, figure in found.items() if figure.quantity is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What a metric must hold: at least ``value`` for one that is better when higher, else at most; in the metric's unit."""

    metric: Metric
    value: float

    @property
    def kind(self) -> CheckKind:
        """A floor or a ceiling."""
        return CheckKind.FLOOR if self.metric.better is Better.HIGHER else CheckKind.CEILING


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardCheck:
    """One thing that was looked at.

    Attributes:
        name: "decode floor", "prefill against the baseline", "verdict".
        kind: what it was held against.
        outcome: of this check.
        reason: one sentence's end, with the figures.
        metric: None for a verdict.
        value: of the new run, in ``unit``; None: missing.
        limit: the floor or ceiling, or the figure of the baseline.
        ratio: new over base, after normalisation where ``normalised``; None for a limit.
        ratio_low: of its interval.
        ratio_high: of its interval.
        tolerance: the loss that is none yet, as a share; None for a limit.
        smallest_detectable_change: the loss that would have been shown four times of five, as a share; None: unknown.
        normalised: the ratio is one of rates over the bandwidth of each machine.
        obstacle: why nothing could be judged, with which ``reason`` ends; "" where something was.
    """

    name: str
    kind: CheckKind
    outcome: Outcome
    reason: str
    metric: Metric | None = None
    unit: str | None = None
    value: float | None = None
    limit: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    tolerance: float | None = None
    smallest_detectable_change: float | None = None
    normalised: bool = False
    obstacle: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardResult:
    """``smallest_detectable_change``: the relative drop that this many repetitions would have told from noise; None: unknown.

    ``outcome`` is the worst of ``checks``. ``causes`` are what differs between the runs, the likeliest cause of a change first.
    ``flipped``: a verdict got worse, a failure of its own kind. ``comparison`` is None where nothing was compared.
    """

    outcome: Outcome
    reason: str
    measured_tokens_per_second: float | None = None
    floor_tokens_per_second: float | None = None
    smallest_detectable_change: float | None = None
    checks: tuple[GuardCheck, ...] = ()
    causes: tuple[str, ...] = ()
    comparison: Comparison | None = None
    flipped: bool = False
    reruns: int = 0
    notes: tuple[str, ...] = field(default=())
