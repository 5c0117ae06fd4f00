"""``suffice decide``: the verdict from records on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli import options


def decide(
    demand_file: Annotated[Path, typer.Argument(metavar="DEMAND", help="A demand.toml.")],
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="Run records of one or more machines.")],
    margin: options.Margin = None,
    json_output: options.Json = False,
) -> None:
    """Decide from run records, with no engine and no model at hand; several machines are compared.

    The least machine that is enough decides: a CPU before a GPU, the slower before the faster.

    Example: suffice decide demand.toml cpu-box.json gpu-box.json
    """
    from suffice.cli.output import print_json, print_text, warn
    from suffice.cli.verdicts import VERDICT_EXIT_CODES, with_margin
    from suffice.decide.compare import decide as decide_machines
    from suffice.decide.evidence import evidence_from, of_the_demanded_model
    from suffice.loaders.any_record import load_any_record
    from suffice.loaders.demand import load_demand
    from suffice.report.decision import decision_document, decision_text

    demand = with_margin(load_demand(demand_file), margin)
    records = [load_any_record(path) for path in runs]
    names = _names(runs, [record.machine for record in records])
    evidences = [
        of_the_demanded_model(demand, record, evidence_from(record, name))
        for record, name in zip(records, names, strict=True)
    ]
    decision = decide_machines(demand, evidences)
    for path, record in zip(runs, records, strict=True):
        warn(f"{path.name}: {warning}" for warning in record.warnings)
        if not record.complete:
            warn([f"{path.name}: the run was not finished; what it holds is used"])
    if json_output:
        print_json(decision_document(decision))
    else:
        print_text(decision_text(decision))
    raise typer.Exit(VERDICT_EXIT_CODES[decision.verdict.verdict])


def _names(runs: list[Path], machines: list[str | None]) -> list[str]:
    """The machine of each record, with its file's name where that alone would not tell them apart."""
    return [
        f"{machine or 'unnamed machine'} ({path.name})" if len(runs) > 1 else machine or path.name
        for path, machine in zip(runs, machines, strict=True)
    ]
