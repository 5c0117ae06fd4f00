"""What a record is held against in a test: floors, ceilings and a baseline, by the guard's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.compare_runs import compare_with_baseline
from suffice.decide.guard import likely_causes
from suffice.decide.guard_facts import facts_of
from suffice.decide.guard_lengths import at_asked_length, shortened_lengths
from suffice.decide.guard_limits import check_limit, unjudged
from suffice.decide.guard_types import CheckKind, Limit, Metric
from suffice.errors import UsageError
from suffice.measure.request import NOT_RUN
from suffice.report.check_rows import CheckRow, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.guard_types import GuardCheck
    from suffice.records.schema import RunRecord


def judge(
    record: RunRecord,
    *,
    floors: Mapping[str, float],
    ceilings: Mapping[str, float],
    baseline: RunRecord | None,
    prompt_tokens: int | None = None,
    depth: int | None = None,
) -> tuple[CheckRow, ...]:
    """A row for each floor, ceiling and compared figure; none where there is nothing to hold the record against.

    Args:
        record: of the run.
        floors: least values by metric, in tokens per second; of quality as a share.
        ceilings: most by metric, in seconds or bytes.
        baseline: a run to compare with.
        prompt_tokens: of the prompt, as the test states it; a figure at a shorter one is inconclusive. None: it does not.
        depth: the same, of the depth.

    Raises:
        UsageError: see :func:`limits_of`.
    """
    new = facts_of(record, "the run")
    shortened = shortened_lengths(record, prompt_tokens=prompt_tokens, depth=depth)
    not_run = next((text for text in record.warnings if text.startswith(NOT_RUN)), "")

    def settled(check: GuardCheck) -> GuardCheck:
        return unjudged(check, not_run) if not_run else at_asked_length(check, shortened)

    rows = rows_of(settled(check_limit(new, limit)) for limit in limits_of(floors, ceilings))
    if baseline is None:
        return rows
    base = facts_of(baseline, "the baseline")
    comparison, checks = compare_with_baseline(base, new)
    causes = likely_causes(base, new, comparison)
    message = "\n".join(["likely causes:", *(f"- {cause}" for cause in causes)])
    return rows + rows_of(map(settled, checks), message=message)


def limits_of(floors: Mapping[str, float], ceilings: Mapping[str, float]) -> list[Limit]:
    """Floors and ceilings as the guard's limits.

    Raises:
        UsageError: a metric that there is not, a floor of what is better when lower, or a ceiling of what is better when higher.
    """
    limits = [
        (kind, Limit(metric=_metric(name, kind), value=float(value)))
        for kind, values in ((CheckKind.FLOOR, floors), (CheckKind.CEILING, ceilings))
        for name, value in values.items()
    ]
    for kind, limit in limits:
        if limit.kind is not kind:
            raise UsageError(f"{limit.metric.value} has a {limit.kind.value}, not a {kind.value}")
    return [limit for _, limit in limits]


def _metric(name: str, kind: CheckKind) -> Metric:
    try:
        return Metric(name)
    except ValueError:
        known = ", ".join(metric.value for metric in Metric)
        raise UsageError(f"suffice({kind.value}=...): no metric is called {name!r}; there is {known}") from None
