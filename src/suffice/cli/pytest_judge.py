"""What a record is held against in a test: floors, ceilings and a baseline, by the guard's own rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.compare_runs import compare_with_baseline
from suffice.decide.guard import likely_causes
from suffice.decide.guard_facts import facts_of
from suffice.decide.guard_limits import check_limit
from suffice.decide.guard_types import CheckKind, Limit, Metric
from suffice.errors import UsageError
from suffice.report.check_rows import CheckRow, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.guard_types import RunFacts
    from suffice.records.schema import RunRecord


def judge(
    record: RunRecord, *, floors: Mapping[str, float], ceilings: Mapping[str, float], baseline: RunRecord | None
) -> tuple[CheckRow, ...]:
    """A row for each floor, ceiling and compared figure; none where there is nothing to hold the record against.

    Args:
        record: of the run.
        floors: least values by metric, in tokens per second; of quality as a share.
        ceilings: most by metric, in seconds or bytes.
        baseline: a run to compare with.

    Raises:
        UsageError: see :func:`limits_of`.
    """
    new = facts_of(record, "the run")
    rows = rows_of(check_limit(new, limit) for limit in limits_of(floors, ceilings))
    return rows if baseline is None else rows + _compared(facts_of(baseline, "the baseline"), new)


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


def _compared(base: RunFacts, new: RunFacts) -> tuple[CheckRow, ...]:
    comparison, checks = compare_with_baseline(base, new)
    causes = likely_causes(base, new, comparison)
    return rows_of(checks, message="\n".join(["likely causes:", *(f"- {cause}" for cause in causes)]))
