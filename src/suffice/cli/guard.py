"""``suffice guard``: floor check for CI."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli import options

_EXIT_CODES = {"pass": 0, "fail": 1, "inconclusive": 3}


def guard(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run record.")],
    floor: Annotated[float, typer.Option("--floor", help="Least decode rate, in tokens per second.")],
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write a JUnit XML report.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Check that a run still decodes at the floor or faster. One line; exit code 0 pass, 1 fail, 3 inconclusive.

    A record that was measured on a busy machine, or that holds no measurement, is inconclusive: it is evidence of neither.

    Example: suffice guard run.json --floor 8 --junit guard.xml
    """
    from dataclasses import asdict

    from suffice.cli.output import print_json, print_text
    from suffice.cli.paths import check_outputs
    from suffice.decide.guard import guard_floor
    from suffice.loaders.any_record import load_any_record
    from suffice.records.store import write_atomically
    from suffice.report.junit import junit_xml

    check_outputs({"--junit": junit}, [run])
    result = guard_floor(load_any_record(run), options.positive(floor, "--floor"))
    if junit is not None:
        write_atomically(junit, junit_xml(result, name=run.name))
    if json_output:
        print_json(asdict(result))
    else:
        print_text(f"{result.outcome.value}: {result.reason}")
    raise typer.Exit(_EXIT_CODES[result.outcome.value])
