"""``suffice decide``: the verdict from records on disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options
from suffice.cli.runs import ServerKind, read_runs
from suffice.errors import UsageError

if TYPE_CHECKING:
    from typing import Any

    from suffice.cli.runs import GivenRuns
    from suffice.decide.compare import Decision
    from suffice.decide.evidence import MachineEvidence
    from suffice.model.demand import Demand


def decide(
    demand_file: Annotated[Path, typer.Argument(metavar="DEMAND", help="A demand.toml.")],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN...",
            help="Run records of one or more machines, and results of load tools on servers (suffice load, GuideLLM, AIPerf, vllm bench serve, inference-perf).",
        ),
    ] = None,
    server_kind: Annotated[
        list[ServerKind] | None,
        typer.Option(
            "--server-kind",
            help="What the server of a load tool's result runs on, which no tool says. Once for all, or once a server in the order of the files.",
        ),
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option(
            "--instance", help="Also a machine to rent, by its predicted speed: c7i.4xlarge. May be repeated."
        ),
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option("--device", help="Also a device of the catalogue, in the same way: l20. May be repeated."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="The model for these, and the one that the records have to be of. Default: the demand's.",
        ),
    ] = None,
    quality: Annotated[
        list[Path] | None,
        typer.Option(
            "--quality",
            metavar="FILE",
            help="A quants.json of `suffice quants`, or its folder: how well the records' models answer your items. May be repeated.",
        ),
    ] = None,
    max_loss: options.MaxLoss = None,
    catalog: options.OwnCatalogue = None,
    margin: options.Margin = None,
    json_output: options.Json = False,
) -> None:
    """Decide from run records and load tools' results, with no engine and no model at hand; several machines are compared.

    The least machine that is enough decides: a CPU before a GPU, the slower before the faster; of several models of a machine that
    are enough the slowest, and none that misses the quality. Machines that nobody rented yet are judged by
    the low and high ends of what is predicted of them.

    Example: suffice decide demand.toml cpu-box.json --instance c7i.4xlarge

    Example: suffice decide demand.toml guidellm.json --server-kind cpu

    Example: suffice decide demand.toml q4/speed/q4_k_m.json --quality q4
    """
    from suffice.cli.output import print_json, print_text, warn
    from suffice.cli.quality import with_quality
    from suffice.cli.verdicts import VERDICT_EXIT_CODES, with_margin
    from suffice.decide.compare import decide as decide_machines
    from suffice.loaders.demand import load_demand
    from suffice.report.decision import decision_document, decision_text

    demand = with_margin(load_demand(demand_file), margin)
    given = read_runs(demand, runs or [], server_kind or [])
    evidences = list(given.evidences) if model is None else _of_the_asked(model, given)
    if instance or device:
        evidences += _predicted(instance or [], device or [], model or demand.model, demand, catalog)
    demand, evidences, notes = with_quality(demand, evidences, quality or [], max_loss)
    decision = decide_machines(demand, evidences, given.servers)
    warn([*notes, *given.warnings()])
    if json_output:
        print_json(decision_document(decision) | _served_part(decision))
    else:
        print_text(decision_text(decision) + _served_lines(decision))
    raise typer.Exit(VERDICT_EXIT_CODES[decision.verdict.verdict])


def _of_the_asked(model: str, given: GivenRuns) -> list[MachineEvidence]:
    """Records of another model than --model names are no evidence of it."""
    from suffice.decide.evidence import of_the_asked_model
    from suffice.loaders.model_file import describe_model
    from suffice.loaders.reference import resolve_model

    if not given.records:
        return []
    asked = describe_model(resolve_model(model), type_k="f16", type_v="f16", with_hash=False)
    return [of_the_asked_model(asked, record, one) for record, one in zip(given.records, given.evidences, strict=True)]


def _served_part(decision: Decision) -> dict[str, Any]:
    """What the JSON document holds about loads on servers; nothing without any."""
    from suffice.report.served import served_documents

    return {"served": served_documents(decision.served)} if decision.served else {}


def _served_lines(decision: Decision) -> str:
    from suffice.report.served import served_text

    return f"\n{served_text(decision.served)}" if decision.served else ""


def _predicted(
    instances: list[str], devices: list[str], model: str | None, demand: Demand, catalog: Path | None
) -> list[MachineEvidence]:
    """Evidence of machines of the catalogue.

    Raises:
        UsageError: no model, an unknown machine, or one of which too little is known.
    """
    from suffice.decide.prospects import predicted_lengths
    from suffice.loaders.catalogue import load_catalogue
    from suffice.loaders.prospects import device_prospect, prospects_of
    from suffice.loaders.reference import resolve_model

    if model is None:
        raise UsageError(
            "--instance and --device need a model: give --model llama-3.1-8b:q4_k_m, or state 'model' in the demand"
        )
    catalogue = load_catalogue(catalog).catalogue
    machines = [catalogue.instance_named(name) for name in instances]
    resolved = resolve_model(model)
    lengths = predicted_lengths(demand)
    found = prospects_of(machines, catalogue, resolved, lengths)
    missing = {machine.key for machine in machines} - {one.name for one in found}
    if missing:
        raise UsageError(
            f"--instance {', '.join(sorted(missing))}: too little is known of it for a prediction; measure it, or see `suffice ceiling`"
        )
    others = [device_prospect(catalogue.device_named(name), resolved, lengths) for name in devices]
    return [one.evidence for one in (*found, *others)]
