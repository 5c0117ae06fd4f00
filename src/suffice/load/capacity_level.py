"""One level of a search: when enough has been seen of it, and what it amounts to."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.load.capacity_result import CriterionResult, LevelResult, Metric, lengths_of, metric_of
from suffice.model.capacity import Judge, Judgement, LevelVerdict, is_gone
from suffice.model.load_checks import doubts, lateness_ns, untimed_words, with_early_first_text, without_lateness
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
    client = run.client_check
    verdict, because = _believed(level, judged, client, run)
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
        # Too low a rate is another level. Users who pause look as good as they do to the client, and prove nothing.
        good=judged.good and not (client.sent_too_little and level.plan.rate_per_s is not None),
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
        client_starved=client.starved,
        warnings=_warnings(level, answers, rows),
        started_at=started_at,
        seed=level.plan.seed,
        prompt_tokens=lengths_of([row.prompt_tokens for row in answers]),
        output_tokens=lengths_of([row.output_tokens for row in answers]),
        most_requests=level.plan.requests,
        most_s=level.plan.duration_s,
        untimed=dict(Counter(str(row.untimed) for row in answers if row.untimed is not None)),
    )


def _warnings(level: Level, answers: Sequence[RequestRow], rows: Sequence[RequestRow]) -> tuple[str, ...]:
    """What a reader should know; where a limit is on TPOT also which answers have none, whatever the reason."""
    limited = any(one.limits.tpot_s is not None for one in level.judge.criteria)
    lacking = untimed_words(answers, of=len(answers)) if limited else []
    return tuple(dict.fromkeys([*lacking, *doubts(rows, prompts_are_unique=False)]))


def _believed(level: Level, judged: Judgement, client: ClientCheck, run: LoadRun) -> tuple[LevelVerdict, str]:
    """The verdict that is left when the client's own lateness may be part of the times.

    It makes nothing look good but TPOT, so that "holds" is believed at the full load where it also holds with TPOT at the client's expense,
    and "fails" where it also fails with all the lateness that there was taken off.
    """
    if not client.is_bottleneck:
        return judged.verdict, judged.because
    if judged.verdict is LevelVerdict.HOLDS and not client.sent_too_little:
        worst = level.judge.judgement(with_early_first_text(run.rows, client), run.ended_ns)
        if worst.verdict is LevelVerdict.HOLDS:
            return judged.verdict, f"in spite of the client, which makes times longer only: {client.complaint}"
    if judged.verdict is LevelVerdict.FAILS and not any(row.outcome is Outcome.CLIENT for row in run.rows):
        best = level.judge.judgement(without_lateness(run.rows, client), run.ended_ns - lateness_ns(client))
        if best.verdict is LevelVerdict.FAILS:
            return best.verdict, f"{best.because}, also without the lateness of the client"
    return LevelVerdict.UNDECIDED, client.complaint


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
        unknown=count.unknown,
    )
