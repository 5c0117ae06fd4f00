"""Lengths that somebody stated and a budget shortened: a figure at a shorter one is no answer to what was asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.decide.guard_limits import unjudged
from suffice.decide.guard_types import CheckKind, Metric, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.guard_types import GuardCheck
    from suffice.records.schema import RunRecord

_OF_THE_PROMPT: Final = (Metric.PREFILL, Metric.TTFT, Metric.TTFT_P90, Metric.MEMORY)
_OF_THE_DEPTH: Final = (Metric.DECODE, Metric.MEMORY)
# A longer prompt takes longer until its first token, a deeper cache slows decoding and takes more memory. A longer prompt may be read at a better rate.
_NO_BETTER_WHEN_LONGER: Final = (Metric.DECODE, Metric.TTFT, Metric.TTFT_P90, Metric.MEMORY)


def shortened_lengths(record: RunRecord, *, prompt_tokens: int | None, depth: int | None) -> dict[Metric, str]:
    """Why figures of a record do not answer what was asked, by metric: they were measured at a shorter length.

    Args:
        record: of the run; a length that it does not tell is not looked at.
        prompt_tokens: of the prompt, as it was stated; None: nobody did.
        depth: in the cache while decoding is timed, as it was stated.
    """
    measurement = record.measurement
    read = None if measurement.prefill is None else measurement.prefill.prompt_tokens
    behind = measurement.decode[0].depth if measurement.decode else None
    found: dict[Metric, str] = {}
    for what, asked, taken, metrics in (
        ("prompt", prompt_tokens, read, _OF_THE_PROMPT),
        ("depth", depth, behind, _OF_THE_DEPTH),
    ):
        if asked is not None and taken is not None and taken < asked:
            told = (
                f"a {what} of {asked} tokens was asked for and one of {taken} was measured: a longer --budget is needed"
            )
            found |= {metric: told for metric in metrics if metric not in found}
    return found


def at_asked_length(check: GuardCheck, shortened: Mapping[Metric, str]) -> GuardCheck:
    """The check, or one that cannot be judged where its figure was measured at a shorter length than was asked for.

    A limit that is missed at a shorter length stays missed where a longer one makes the figure no better.
    """
    metric = check.metric
    obstacle = "" if metric is None else shortened.get(metric, "")
    is_limit = check.kind in {CheckKind.FLOOR, CheckKind.CEILING}
    is_missed_anyway = is_limit and check.outcome is Outcome.FAIL and metric in _NO_BETTER_WHEN_LONGER
    if not obstacle or check.obstacle or is_missed_anyway:
        return check
    return unjudged(check, obstacle)
