"""Where a plan goes: a file, a chart, JSON; and the exit code that it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.cli.paths import check_outputs, check_places
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from suffice.decide.plan_types import Plan
    from suffice.model.demand import Demand
    from suffice.report.svg.types import CrossoverChart

_KEPT = 50  # options of a JSON document, unless all are asked for
_MARK = "# Plan:"
_CHART_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!-- suffice chart -->\n'


def check_plan_outputs(out: Path | None, charts: Mapping[str, Path | None], inputs: Sequence[Path | None]) -> None:
    """Refuse, before anything is computed, outputs that would replace an input, each other, or a stranger's file.

    Args:
        out: the plan.
        charts: by flag.
        inputs: what is read.

    Raises:
        UsageError: with the flag and what stands in its way.
    """
    for flag, chart in charts.items():
        if chart is not None and chart.suffix.lower() != ".svg":
            raise UsageError(f"{flag} {chart}: the chart of a plan is an SVG; give a name that ends in .svg")
    markdown = out is not None and not _is_json(out)
    if out is not None and markdown and _is_strange(out):
        raise UsageError(f"--out {out} exists and is no plan that suffice wrote; remove it or give another name")
    known = dict(charts) if markdown else {"--out": out, **charts}
    check_outputs(known, [*inputs, out] if markdown else inputs)
    check_places({"--out": out, **charts})


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == ".json"


def _is_strange(path: Path) -> bool:
    """Whether there is a file that begins otherwise than ours."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            start = file.read(len(_MARK))
    except OSError:
        return False  # writing it will fail with its own message
    return bool(start.strip()) and start != _MARK.encode()


def plan_json(found: Plan, demand: Demand, *, everything: bool) -> dict[str, Any]:
    """The document; the best 50 options, unless all are asked for."""
    from suffice.report.plan_document import plan_document

    return plan_document(found, demand, found.options if everything else found.options[:_KEPT])


def write_plan(out: Path | None, found: Plan, demand: Demand, *, everything: bool, top: int) -> None:
    """Write the plan, where a file is asked for.

    Raises:
        OutputError: it could not be written.
    """
    from suffice.records.store import write_atomically
    from suffice.report.json_values import json_text
    from suffice.report.plan import plan_markdown

    if out is None:
        return
    document = plan_json(found, demand, everything=everything)
    write_atomically(out, json_text(document) + "\n" if _is_json(out) else plan_markdown(found, top))


def write_charts(volume: Path | None, users: Path | None, found: Plan) -> None:
    """Draw cost against volume, and against users at the same time, where a file is asked for.

    Raises:
        UsageError: the demand states none of it, so that there is nothing to draw.
        OutputError: it could not be written.
    """
    from suffice.report.plan_chart import concurrency_chart, volume_chart

    if volume is not None:
        what = "a volume and an option that is enough: state a request rate, or volume_per_day (--requests-per-day)"
        _write_chart(volume, volume_chart(found), "--chart", what)
    if users is not None:
        what = "a machine to rent that is enough, and a demand that says what each user needs: tokens_per_second_per_user, or ttft"
        _write_chart(users, concurrency_chart(found.user_curves), "--chart-users", what)


def _write_chart(path: Path, drawn: CrossoverChart | None, flag: str, needs: str) -> None:
    from suffice.records.store import write_atomically
    from suffice.report.svg import CHART_STYLE, draw

    if drawn is None:
        raise UsageError(f"{flag} needs {needs}")
    picture = draw(drawn, width=900, height=460)
    head, _, rest = picture.partition(">")
    write_atomically(path, f"{_CHART_HEAD}{head}><style>{CHART_STYLE}</style>{rest}\n")


def exit_code(found: Plan) -> int:
    """0: an option is enough, with or without the margin; 1: none is; 3: for some that is open."""
    from suffice.decide.verdict import Grade

    grades = {option.grade for option in found.options}
    if grades & {Grade.ENOUGH, Grade.THIN}:
        return 0
    return 1 if grades == {Grade.NOT_ENOUGH} else 3
