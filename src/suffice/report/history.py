"""A history for a reader: a line a run, and the steps in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.decide.guard_limits import figure_text
from suffice.decide.guard_types import Metric
from suffice.report.tables import one_line, plain_table, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.guard_trend import Trend
    from suffice.decide.guard_types import RunFacts

_NAME_CHARACTERS = 32
_SHOWN = (Metric.DECODE, Metric.PREFILL, Metric.MEMORY)


def history_text(runs: Sequence[RunFacts], trends: Sequence[Trend]) -> str:
    """The runs as a table, marks and all, and what is said of each trend below it."""
    rows = [["#", "when (UTC)", "run", *(metric.value for metric in _SHOWN), "verdict", "mark"]]
    rows += [_row(place, run, trends) for place, run in enumerate(runs)]
    lines = [plain_table(rows)] if runs else ["the history is empty"]
    return "\n".join([*lines, "", *(line for trend in trends for line in _trend_lines(trend))])


def _row(place: int, run: RunFacts, trends: Sequence[Trend]) -> list[str]:
    figures = []
    for metric in _SHOWN:
        figure = run.figures.get(metric)
        figures.append("" if figure is None or figure.quantity is None else figure_text(metric, figure.quantity.point))
    steps = [trend.metric.value for trend in trends for step in trend.steps if step.run == place]
    marks = [*(["busy"] if run.busy else []), *(["in doubt"] if run.doubts else [])]
    marks += [f"step in {', '.join(steps)}"] if steps else []
    when = (run.created_at or "unknown").replace("T", " ").removesuffix("+00:00")
    name = shortened(one_line(run.name), _NAME_CHARACTERS)
    return [str(place + 1), when, name, *figures, run.verdict or "", "; ".join(marks)]


def _trend_lines(trend: Trend) -> list[str]:
    metric, left_out = (
        trend.metric,
        f"; {trend.others} left out (busy, in doubt, or another machine)" if trend.others else "",
    )
    lines = [f"{metric.value}: {trend.outcome().value}, {_runs(len(trend.values))}{left_out}"]
    for step in trend.steps:
        word = "worse" if step.is_worse else "better"
        causes = f"; {', '.join(step.causes)}" if step.causes else ""
        text = f"  step at run {step.run + 1}: {step.ratio - 1:+.1%}, {word} (p = {step.p_value:.3f}){causes}"
        lines.append(one_line(text))
    return lines if trend.steps else [f"{lines[0]}; no step was found"]


def _runs(number: int) -> str:
    return f"{number} comparable run{'' if number == 1 else 's'}"


def history_document(runs: Sequence[RunFacts], trends: Sequence[Trend]) -> dict[str, Any]:
    """The same for scripts; runs count from 1, as in the text."""
    return {
        "runs": [
            {
                "run": place + 1,
                "created_at": run.created_at,
                "name": run.name,
                "figures": {
                    metric.value: figure.quantity.point
                    for metric, figure in run.figures.items()
                    if figure.quantity is not None
                },
                "busy": list(run.busy),
                "doubts": list(run.doubts),
                "verdict": run.verdict,
            }
            for place, run in enumerate(runs)
        ],
        "trends": [
            {
                "metric": trend.metric.value,
                "outcome": trend.outcome().value,
                "comparable_runs": len(trend.values),
                "left_out": trend.others,
                "steps": [
                    {
                        "run": step.run + 1,
                        "ratio": step.ratio,
                        "p_value": step.p_value,
                        "worse": step.is_worse,
                        "causes": list(step.causes),
                    }
                    for step in trend.steps
                ],
            }
            for trend in trends
        ],
    }
