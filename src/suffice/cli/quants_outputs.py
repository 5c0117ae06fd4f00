"""The files that `quants` writes beside its report: checked before anything is asked, written when the report was printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.errors import OutputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.cli.quants_asked import QuantsOptions
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.model.demand import Demand

_OF_THE_FOLDER: Final = ("answers", "speed", "again-")


def check_asked_outputs(asked: QuantsOptions) -> None:
    """Refuse, before anything is asked, files that could not be written or would replace something.

    Raises:
        UsageError: with the flag and what stands in its way.
    """
    from suffice.cli.paths import check_outputs, check_places
    from suffice.report.pictures import check_chart

    if asked.chart is not None:
        check_chart(asked.chart)
    check_outputs(asked.outputs, asked.inputs)
    check_places(asked.outputs)
    for flag, path in asked.outputs.items():
        for folder in (asked.out, asked.from_folder):
            if path is not None and folder is not None and _is_among_answers(path, folder):
                raise UsageError(f"{flag} {path} lies among what the comparison itself keeps; give another name")


def _is_among_answers(path: Path, folder: Path) -> bool:
    try:
        below = path.resolve().relative_to(folder.resolve())
    except (OSError, ValueError):
        return False
    return len(below.parts) > 1 and below.parts[0].startswith(_OF_THE_FOLDER)


def write_outputs(asked: QuantsOptions, conclusions: Conclusions, demand: Demand | None) -> None:
    """Write what was asked for; one that fails does not cost the others. A chart without a point is a warning, and no file.

    Raises:
        OutputError: what could not be written.
    """
    from suffice.cli.output import warn
    from suffice.cli.paths import MARKDOWN_MARK
    from suffice.records.store import write_atomically
    from suffice.report.quants import quants_markdown
    from suffice.report.quants_chart import is_drawable, write_quants_chart
    from suffice.report.quants_csv import quants_csv, quants_flips_csv

    need = None if demand is None else demand.required_decode_tokens_per_second
    margin = 1.0 if demand is None or demand.margin_is_of_load else demand.margin
    chart = asked.chart
    if chart is not None and not is_drawable(conclusions):
        warn([f"--chart {chart} is not written: of no model both decode speed and score are known"])
        chart = None
    writers: list[tuple[Path | None, Callable[[Path], None]]] = [
        (asked.csv, lambda path: write_atomically(path, quants_csv(conclusions))),
        (asked.flips, lambda path: write_atomically(path, quants_flips_csv(conclusions))),
        (asked.markdown, lambda path: write_atomically(path, f"{MARKDOWN_MARK}\n\n{quants_markdown(conclusions)}")),
        (chart, lambda path: write_quants_chart(path, conclusions, need, margin)),
    ]
    problems = []
    for path, write in writers:
        if path is None:
            continue
        try:
            write(path)
        except OutputError as error:
            problems.append(str(error))
    if problems:
        raise OutputError("; ".join(problems))
