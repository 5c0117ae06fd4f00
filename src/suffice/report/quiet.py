"""What a machine does when nobody disturbs, beside what was found: rows and marks for a run that was disturbed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.evidence import supported_rate
from suffice.stats.quiet import QuietBasis

if TYPE_CHECKING:
    from suffice.decide.quantity import Quantity
    from suffice.records.schema import QuietRecord, RunRecord

# Steps of a quiet machine scatter: less of the time outside of the quiet mode is nothing to tell.
LEAST_SHARE_TOLD: Final = 0.02


def decode_quiet_rows(record: RunRecord, number: int) -> list[list[str]]:
    """The row (what, value, how) of decode series ``number``; empty where nothing disturbed it, or nobody watched."""
    series = record.measurement.decode[number]
    together = "" if series.batch == 1 else f", {series.batch} together"
    rate = (
        None if series.quiet is None else supported_rate(record, series.quiet.tokens_per_second, "decode", series.depth)
    )
    return _rows(f"decode at depth {series.depth}{together}, undisturbed", rate, series.quiet)


def prefill_quiet_rows(record: RunRecord) -> list[list[str]]:
    """The row of the prompt; empty as above."""
    prefill = record.measurement.prefill
    quiet = None if prefill is None else prefill.quiet
    rate = None if quiet is None else supported_rate(record, quiet.tokens_per_second, "prefill")
    return _rows("prefill, undisturbed", rate, quiet)


def drift_marks(record: RunRecord) -> list[str]:
    """Series whose repetitions became slower or faster one after the other, by more than chance."""
    measurement = record.measurement
    series = [(f"decode at depth {one.depth}", one.quiet) for one in measurement.decode]
    series += [] if measurement.prefill is None else [("prefill", measurement.prefill.quiet)]
    return [
        f"{name} drifted: its rate changed by {quiet.drift.total_share:+.0%} from the first repetition to the last"
        for name, quiet in series
        if quiet is not None and quiet.drift is not None and quiet.drift.is_drift
    ]


def _rows(what: str, rate: Quantity | None, quiet: QuietRecord | None) -> list[list[str]]:
    if quiet is None or not _is_told(quiet):
        return []
    if rate is None:
        value = "unknown"
    elif rate.low is None or rate.high is None:
        value = f"{rate.point:.4g} tokens/s (no interval)"
    else:
        value = f"{rate.point:.4g} tokens/s ({rate.low:.4g} to {rate.high:.4g})"
    said = [quiet.why_not or quiet.basis or ""]
    if quiet.disturbed_share is not None:
        said.append(f"{quiet.disturbed_share:.0%} of the time was disturbed")
    if quiet.slowdown is not None:
        said.append(f"as found all took {quiet.slowdown:.2f} times as long")
    return [[what, value, ", ".join(text for text in said if text)]]


def _is_told(quiet: QuietRecord) -> bool:
    unproven = quiet.basis != QuietBasis.REPETITIONS.value
    if unproven and quiet.disturbed_share is None:
        return bool(quiet.marked)
    return bool(quiet.marked) or (quiet.disturbed_share or 0.0) > LEAST_SHARE_TOLD
