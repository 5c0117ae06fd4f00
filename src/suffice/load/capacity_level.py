"""One level of a search: when enough has been seen of it, and what it amounts to."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.load.capacity_result import CriterionResult, LevelResult, Metric, lengths_of, metric_of
from suffice.model.capacity import Judge, Judgement, LevelVerdict, is_gone
from suffice.model.load_checks import check_client, doubts
from suffice.model.load_metrics import Limits, Window, summarize
from suffice.model.load_request import Outcome, RequestRow

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.load.runner import LoadRun
    from suffice.load.settings import LoadPlan
    from suffice.model.capacity import CriterionCount
    from suffice.model.load_checks import ClientCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A level to be run: its load, and who judges it."""

    level: float
    thorough: bool
    plan: LoadPlan
    judge: Judge

    def decided(self, rows: Sequence[RequestRow], now_ns: int) -> bool:
        """Whether more requests would tell nothing more: a verdict, none to be expected, or nobody there."""
        if is_gone(rows):
            return True
        judged = self.judge.judgement(rows, now_ns)
        if judged.verdict is not LevelVerdict.UNDECIDED:
            return True
        return self.thorough and self.judge.is_hopeless(judged, self.plan.requests or 0)


def level_result(level: Level, run: LoadRun, started_at: str) -> LevelResult:
    """What a level's run amounts to. Where the client was the bottleneck only "holds" can be believed, and only at the full rate."""
    rows = run.rows
    judged = level.judge.judgement(rows, run.ended_ns)
    client = check_client(rows, run.client.lags_s, run.client.cpu_share)
    verdict, because = _believed(judged, client)
    window = Window(from_ns=run.sending_from_ns, until_ns=run.sending_until_ns, unsteady=None)
    summary = summarize(rows, Limits(), window)
    attempts = [row for row in rows if not row.warm_up and row.outcome is not Outcome.INTERRUPTED]
    answers = [row for row in attempts if row.succeeded]
    return LevelResult(
        level=level.level,
        rate_per_s=level.plan.rate_per_s,
        users=level.plan.concurrency,
        thorough=level.thorough,
        verdict=verdict,
        good=judged.good and not client.sent_too_little,  # lateness of the client makes nothing look good
        because=because,
        criteria=tuple(_criterion(count) for count in judged.counts),
        achieved_rate_per_s=client.achieved_rate_per_s,
        warm_up=sum(row.warm_up for row in rows),
        attempted=summary.attempted,
        succeeded=summary.succeeded,
        cut_off=summary.interrupted,
        failures={str(outcome): count for outcome, count in summary.failures},
        ttft=_metric(attempts, lambda row: row.ttft_s if row.scheduled_ns is None else row.effective_ttft_s),
        tpot=_metric(attempts, lambda row: row.tpot_s),
        e2e=_metric(attempts, lambda row: row.e2e_s if row.scheduled_ns is None else row.effective_e2e_s),
        output_tokens_per_second=summary.output_tokens_per_second,
        requests_per_second=summary.requests_per_second,
        length_s=window.length_s,
        client_is_bottleneck=client.is_bottleneck,
        client_reasons=client.reasons,
        warnings=tuple(doubts(rows, prompts_are_unique=False)),
        started_at=started_at,
        seed=level.plan.seed,
        prompt_tokens=lengths_of([row.prompt_tokens for row in answers]),
        output_tokens=lengths_of([row.output_tokens for row in answers]),
        most_requests=level.plan.requests,
        most_s=level.plan.duration_s,
    )


def _believed(judged: Judgement, client: ClientCheck) -> tuple[LevelVerdict, str]:
    """The verdict that is left when the client's own lateness, which makes all times longer, may be part of it."""
    if not client.is_bottleneck:
        return judged.verdict, judged.because
    if judged.verdict is LevelVerdict.HOLDS and not client.sent_too_little:
        return judged.verdict, judged.because
    return LevelVerdict.UNDECIDED, f"the client was the bottleneck: {'; '.join(client.reasons)}"


def _metric(attempts: Sequence[RequestRow], time_s: Callable[[RequestRow], float | None]) -> Metric | None:
    values = [math.inf if not row.succeeded else time_s(row) for row in attempts]
    return metric_of([value for value in values if value is not None])


def _criterion(count: CriterionCount) -> CriterionResult:
    interval = count.interval
    return CriterionResult(
        kept=count.kept,
        counted=count.counted,
        undetermined=count.undetermined,
        independent=count.independent,
        attained=count.attained,
        low=None if interval is None else interval.low,
        high=None if interval is None else interval.high,
        verdict=count.verdict,
    )
