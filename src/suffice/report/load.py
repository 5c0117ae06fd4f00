"""A run under load as text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.load.settings import Arrivals, Loop
from suffice.model.load_metrics import FRACTIONS
from suffice.model.load_ramp import BREAKS, kept_up_to
from suffice.report.tables import one_line, plain_table
from suffice.units import format_seconds

if TYPE_CHECKING:
    from suffice.load.result import LoadResult, LoadSettings
    from suffice.load.settings import LoadPlan
    from suffice.model.load_metrics import Distribution, LoadSummary
    from suffice.stats.percentiles import Percentile

_PERCENT: Final = 100


def load_text(result: LoadResult) -> str:
    """What was sent, what came back, and how far it may be believed."""
    summary = result.summary
    parts = [
        one_line(f"{result.settings.url}  model {result.settings.model or 'unnamed'}"),
        load_words(result.settings),
    ]
    if result.interrupted:
        parts.append("INTERRUPTED: what follows is of the part that was run.")
    if result.ended_early:
        parts.append(f"ENDED EARLY: {result.ended_early}.")
    if result.client.is_bottleneck:
        parts.append(f"UNUSABLE: {result.client.complaint}.")
        parts += _still_true(result)
    parts += [f"CONTRADICTION: {sentence}." for sentence in result.contradictions]
    parts += ["", _attempts(summary), "", _times(summary, result.settings), "", *_rates(summary)]
    parts += _checks(result)
    if result.ramp:
        parts += ["", _ramp(result)]
    return "\n".join(parts)


def _still_true(result: LoadResult) -> list[str]:
    """What a late client leaves of the result."""
    kept = result.in_spite
    if kept is None or kept.share is None or kept.interval is None:
        return []
    share = f"{kept.share:.1%} [{kept.interval.low:.1%}, {kept.interval.high:.1%}]"
    why = "a late client makes TTFT and E2E longer only, and TPOT was taken at its expense"
    return [f"STILL TRUE: at least {share} of the attempts keep to all limits; {why}."]


def load_words(settings: LoadSettings) -> str:
    """The load in one line: a latency without it means nothing."""
    plan = settings.plan
    if plan.loop is Loop.CLOSED:
        how = f"closed loop, {plan.concurrency} at a time"
    elif plan.loop is Loop.OPEN:
        shape = f" (burstiness {plan.burstiness:g})" if plan.arrivals == "gamma" else ""
        ramp = (
            ""
            if plan.ramp_to_per_s is None
            else f" to {plan.ramp_to_per_s:g} in {format_seconds(plan.duration_s or 0.0)}"
        )
        how = f"open loop, {plan.rate_per_s:g} requests/s{ramp}, {plan.arrivals} arrivals{shape}"
    else:
        how = "replay of a trace"
    length = "as the model likes" if settings.output_tokens is None else f"{settings.output_tokens} tokens"
    return f"{how}; prompts {settings.prompts}; answers {length}; {plan.warm_up} to warm up"


def _attempts(summary: LoadSummary) -> str:
    text = f"{summary.attempted} attempts, {summary.failed} failed"
    if summary.failures:
        text += " (" + ", ".join(f"{count} {outcome}" for outcome, count in summary.failures) + ")"
    if summary.interrupted:
        text += f"; {summary.interrupted} more were under way at the interruption"
    return text


def _times(summary: LoadSummary, settings: LoadSettings) -> str:
    pairs: list[tuple[str, Distribution | None]] = [
        ("TTFT", summary.ttft),
        ("TTFT from the schedule", summary.effective_ttft),
        ("TPOT", summary.tpot),
        ("E2E", summary.e2e),
        ("E2E from the schedule", summary.effective_e2e),
    ]
    if any(a.observed != b.observed for a, b in zip(summary.ttft.successes, summary.ttfo.successes, strict=False)):
        pairs.insert(1, ("first answer after reasoning", summary.ttfo))
    rows = [[name, *_cells(found)] for name, found in pairs if found is not None]
    note = "Failures count as infinitely slow; [95 % interval]; "
    note += (
        "requests of a closed loop wait for each other"
        if settings.plan.loop is Loop.CLOSED
        else "times from the schedule are the users'"
    )
    return plain_table([["time", *(f"P{fraction * _PERCENT:g}" for fraction in FRACTIONS)], *rows]) + f"\n{note}."


def _cells(found: Distribution) -> list[str]:
    return [_cell(item) for item in found.attempts] or ["unknown"] * len(FRACTIONS)


def _cell(item: Percentile) -> str:
    if item.low is None or item.high is None:
        return f"needs {item.needed} requests, had {item.samples}"
    return f"{_seconds(item.observed)} [{_seconds(item.low)}, {_seconds(item.high)}]"


def _seconds(value_s: float) -> str:
    return "unbounded" if math.isinf(value_s) else format_seconds(value_s)


def _rates(summary: LoadSummary) -> list[str]:
    lines = []
    window = f"in the {format_seconds(summary.window.length_s)} in which measured requests were sent"
    if summary.output_tokens_per_second is not None:
        guessed = summary.estimated_token_share
        mark = f", {guessed:.1%} of it estimated" if guessed else ""
        lines.append(f"output      {summary.output_tokens_per_second:.4g} tokens/s {window}{mark}")
    else:
        lines.append("output      unknown tokens/s: nobody counted, or no time was measured")
    if summary.requests_per_second is not None:
        lines.append(f"answers     {summary.requests_per_second:.4g} requests/s")
    if summary.attainment is not None:
        lines.append(_attained(summary))
    gaps = summary.chunk_gaps
    if gaps is not None:
        per_event = "unknown" if gaps.tokens_per_event is None else f"{gaps.tokens_per_event:.3g}"
        lines.append(
            f"chunk gaps  P50 {format_seconds(gaps.p50_s)}, P99 {format_seconds(gaps.p99_s)}, longest "
            f"{format_seconds(gaps.longest_s)}; tokens per event {per_event}"
        )
    if summary.window.unsteady:
        lines.append(f"rates       not of a steady state: {summary.window.unsteady}")
    return lines


def _attained(summary: LoadSummary) -> str:
    found = summary.attainment
    if found is None or found.share is None or found.interval is None:
        return "attainment  unknown: no attempt has all the times that the limits are about"
    text = f"attainment  {found.share:.1%} [{found.interval.low:.1%}, {found.interval.high:.1%}] keep to all limits"
    if found.undetermined:
        text += f"; {found.undetermined} more cannot be judged"
    if summary.goodput_requests_per_second is not None:
        text += f"; goodput {summary.goodput_requests_per_second:.4g} requests/s"
    return text


def _checks(result: LoadResult) -> list[str]:
    client = result.client
    lines = []
    if client.loop_lag_p99_s is not None and client.cpu_share is not None:
        text = f"client      event loop late by {format_seconds(client.loop_lag_p99_s)} (P99), {client.cpu_share:.0%} of a core"
        if client.send_lag_p99_s is not None and client.achieved_rate_per_s is not None:
            text += (
                f"; sent {client.achieved_rate_per_s:.4g} of {client.scheduled_rate_per_s:.4g} requests/s scheduled"
                f"{_asked_rate(result.settings.plan)}, {format_seconds(client.send_lag_p99_s)} late (P99)"
            )
        lines.append(text)
    server = result.server
    if server is not None and server.agrees is not None:
        word = "agrees with" if server.agrees else "CONTRADICTS"
        decode = "-" if server.decode_ratio is None else f"{server.decode_ratio:.3f}"
        prompt = "-" if server.ttft_over_prompt is None else f"{server.ttft_over_prompt:.3f}"
        lines.append(
            f"server      its clock {word} the client's: decode {decode} times, TTFT {prompt} times its time for the prompt"
        )
    return lines


def _asked_rate(plan: LoadPlan) -> str:
    """What the schedule was drawn for: few arrivals at random have another rate by chance."""
    if plan.rate_per_s is None:
        return ""
    if plan.ramp_to_per_s is not None:
        return f" (asked for: {plan.rate_per_s:g} to {plan.ramp_to_per_s:g})"
    at_random = "" if plan.arrivals is Arrivals.CONSTANT else ", in random gaps"
    return f" (asked for: {plan.rate_per_s:g}{at_random})"


def _ramp(result: LoadResult) -> str:
    """The ramp part by part, and how far the limits were kept."""
    head = ["from", "requests/s", "requests", "failed", "TTFT P50", "P95", "E2E P50", "P95", "attained"]
    rows = [
        [
            format_seconds(part.from_s),
            f"{part.rate_per_s:.4g}",
            f"{part.attempts}",
            f"{part.failed}",
            *("-" if item is None else _seconds(item.observed) for item in (part.ttft_p50, part.ttft_p95)),
            *("-" if item is None else _seconds(item.observed) for item in (part.e2e_p50, part.e2e_p95)),
            "-" if part.attained is None else f"{part.attained:.0%}",
        ]
        for part in result.ramp
    ]
    text = (
        plain_table([head, *rows])
        + "\nTimes from the schedule; each part is small, and later parts have the queue of earlier ones."
    )
    if result.settings.limits.given:
        last = kept_up_to(result.ramp)
        far = (
            "not even the first part keeps the limits"
            if last is None
            else f"kept up to about {last.rate_per_s:.4g} requests/s"
        )
        text += f"\nlimits      {far} ({BREAKS:.0%} of a part's attempts); --find-capacity says it with a confidence"
    return text
