"""Where a guard's result goes beside stdout: JUnit XML, Prometheus, and GitHub's annotations and step summary."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.errors import OutputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from suffice.report.check_rows import CheckRow, PropertyValue
    from suffice.report.prometheus import NamedRun

STEP_SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"

Junit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Also write a JUnit XML report.")]
Prometheus = Annotated[
    Path | None,
    typer.Option("--prometheus", metavar="FILE", help="Also write run and result as Prometheus text (FILE.prom)."),
]
Github = Annotated[
    bool,
    typer.Option("--github", help="In GitHub Actions: annotate the run (on stderr), and add to the step's summary."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardOutputs:
    """What was asked for beside the line on stdout."""

    junit: Path | None = None
    prometheus: Path | None = None
    github: bool = False

    @property
    def files(self) -> dict[str, Path | None]:
        """By flag, for :func:`suffice.cli.paths.check_outputs`."""
        return {"--junit": self.junit, "--prometheus": self.prometheus}


def publish(
    rows: Sequence[CheckRow],
    runs: Sequence[NamedRun],
    outputs: GuardOutputs,
    *,
    file: str | None = None,
    facts: Mapping[str, PropertyValue] | None = None,
) -> None:
    """Write what was asked for. Annotations go to stderr, which the runner reads as well: stdout may hold JSON.

    Args:
        rows: what was found.
        runs: the records that it was found in.
        outputs: where to.
        file: what annotations stand beside, from the repository's root.
        facts: of the run, for the summary and JUnit.

    Raises:
        OutputError: a file cannot be written.
    """
    from suffice.records.store import write_atomically
    from suffice.report.junit import junit_report
    from suffice.report.prometheus import prometheus_text

    if outputs.junit is not None:
        write_atomically(outputs.junit, junit_report(rows, properties=facts))
    if outputs.prometheus is not None:
        write_atomically(outputs.prometheus, prometheus_text(runs, rows))
    if outputs.github:
        _tell_github(rows, file, facts)


def append_step_summary(text: str) -> bool:
    """Add Markdown to the summary of the GitHub step that this runs in; False: it runs in none.

    Raises:
        OutputError: the step's file cannot be written.
    """
    path = os.environ.get(STEP_SUMMARY_VARIABLE)
    if not path:
        return False
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text)
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write the step's summary {path}: {error}") from error
    return True


def _tell_github(rows: Sequence[CheckRow], file: str | None, facts: Mapping[str, PropertyValue] | None) -> None:
    from suffice.cli.output import warn
    from suffice.report.github import annotation_lines, step_summary

    for line in annotation_lines(rows, file=file):
        typer.echo(line, err=True)
    if not append_step_summary(step_summary(rows, facts=facts)):
        warn([f"--github: {STEP_SUMMARY_VARIABLE} is not set, so there is no step to give a summary to"])
