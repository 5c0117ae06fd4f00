"""``suffice load --find-capacity``: the search, its files and its exit codes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.load.capacity_plan import CapacityPlan
    from suffice.load.capacity_result import CapacityResult
    from suffice.load.endpoint import Endpoint
    from suffice.load.session import Content
    from suffice.model.capacity import Criterion
    from suffice.model.capacity_search import CapacityOf
    from suffice.model.demand import Demand
    from suffice.model.load_metrics import Limits

_PERCENT: Final = 100
_NONE_HOLDS: Final = 1
_UNDECIDED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityFiles:
    """Where results go, and whether to go on with what is there."""

    out: Path | None
    chart: Path | None
    resume: bool

    def check(self) -> None:
        """Refuse what cannot be done, before anything is sent.

        Raises:
            UsageError: no file to go on with, or no picture can be drawn.
        """
        from suffice.report.pictures import check_chart

        if self.resume and self.out is None:
            raise UsageError("--resume needs --out and the file of the search that is to go on")
        if self.chart is not None:
            check_chart(self.chart)


def swapped(url: str | None, what: str | None) -> tuple[str | None, str | None]:
    """Address and what is searched for, in whichever order they were written; with --spawn there is no address."""
    from suffice.model.capacity_search import CapacityOf

    words = list(CapacityOf)
    return (what, url) if url in words and what not in words else (url, what)


def what_of(what: str | None, concurrency: int | None, rate: float | None) -> CapacityOf:
    """What is searched for: the word, or the kind of load that a first level was given of.

    Raises:
        UsageError: another word, or a first level of the other kind.
    """
    from suffice.model.capacity_search import CapacityOf

    if what is not None and what not in list(CapacityOf):
        shown = "an address" if "/" in what or "@" in what else repr(what)  # which may hold a password
        raise UsageError(f"--find-capacity searches for {' or '.join(CapacityOf)}, not {shown}")
    if concurrency is not None and rate is not None:
        raise UsageError("--concurrency and --rate are two kinds of load; give one of them to begin with")
    found = CapacityOf.USERS if concurrency is not None else CapacityOf.RATE
    if what is None:
        return found
    if what != found and (concurrency is not None or rate is not None):
        raise UsageError(
            f"--find-capacity {what} begins with {'--rate' if what == CapacityOf.RATE else '--concurrency'}"
        )
    return CapacityOf(what)


def criteria_of(limits: Limits, percentile: float, demand: Demand | None) -> tuple[Criterion, ...]:
    """What must hold: limits of the command line together at one percentile, those of a demand each at its own.

    A demand's limits are those that the verdict judges it by: a rate that each user needs is one on TPOT.

    Raises:
        UsageError: no limit at all.
    """
    from suffice.decide.service_load import limits_of
    from suffice.model.capacity import Criterion
    from suffice.model.load_metrics import Limits

    criteria = [Criterion(limits=limits, share=percentile / _PERCENT)] if limits.given else []
    for limit in () if demand is None else limits_of(demand):
        if limit.metric == "ttft_s" and limits.ttft_s is None:
            criteria.append(Criterion(limits=Limits(ttft_s=limit.seconds), share=limit.percent / _PERCENT))
        if limit.metric == "tpot_s" and limits.tpot_s is None:
            criteria.append(Criterion(limits=Limits(tpot_s=limit.seconds), share=limit.percent / _PERCENT))
    if not criteria:
        raise UsageError(
            "--find-capacity needs a --ttft-limit, --tpot-limit, --e2e-limit, or a --demand that states a limit or a rate that each user needs"
        )
    return tuple(criteria)


def search(
    plan: CapacityPlan,
    content: Content,
    endpoint: Endpoint,
    files: CapacityFiles,
    progress: Callable[[str], None],
) -> CapacityResult:
    """The search, with its file written after each level.

    Raises:
        RecordError: the file to go on with is no search.
        UsageError: it is another one.
    """
    from suffice.load.capacity import find_capacity
    from suffice.load.capacity_result import capacity_json
    from suffice.records.store import write_atomically

    before = _before(plan, content, endpoint, files)

    def keep(result: CapacityResult) -> None:
        if files.out is not None and (result.idle is not None or result.interrupted):
            write_atomically(files.out, capacity_json(result))

    return find_capacity(plan, content, endpoint, progress, before=before, keep=keep)


def _before(plan: CapacityPlan, content: Content, endpoint: Endpoint, files: CapacityFiles) -> CapacityResult | None:
    from suffice.load.capacity_plan import settings_of
    from suffice.load.capacity_result import read_capacity

    if not files.resume or files.out is None or not files.out.exists():
        return None
    before = read_capacity(files.out)
    if not settings_of(plan, content, endpoint).agrees(before.settings):
        raise UsageError(f"--resume {files.out} is a search of another load, limits or server; give another --out")
    return before


def show(result: CapacityResult, files: CapacityFiles, *, json_output: bool) -> int:
    """Print and draw the result; the exit code."""
    from suffice.cli.output import print_text, warn
    from suffice.load.capacity_result import CapacityStatus, capacity_json
    from suffice.report.load_capacity import capacity_text

    print_text(capacity_json(result).rstrip() if json_output else capacity_text(result))
    if files.chart is not None and result.levels:
        from suffice.report.load_chart import write_capacity_chart

        write_capacity_chart(files.chart, result)
    elif files.chart is not None:
        warn([f"--chart {files.chart} was not written: {_why_no_levels(result)}, so there is no curve over load"])
    codes = {CapacityStatus.FOUND: 0, CapacityStatus.NONE_HOLDS: _NONE_HOLDS}
    return codes.get(result.status, _UNDECIDED)


def _why_no_levels(result: CapacityResult) -> str:
    """Why not a single level of load was tried."""
    from suffice.load.capacity_result import CapacityStatus

    if result.interrupted:
        return "the search was interrupted before a level of load was done"
    if result.ended_early is not None:
        return result.ended_early
    if result.status is CapacityStatus.NONE_HOLDS:
        return "one user alone already fails the limits and no other load was tried"
    return "no level of load was tried"
