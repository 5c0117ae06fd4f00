"""``suffice decide``: the verdict from records on disk."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from typing import Any

    from suffice.decide.compare import Decision
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.served import ServedEvidence
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord


class ServerKind(StrEnum):
    """What a server runs on."""

    CPU = "cpu"
    GPU = "gpu"


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
    max_loss: Annotated[
        float | None,
        typer.Option(
            "--max-loss",
            metavar="POINTS",
            help="Most that a model may lose against its reference, in points of 100, where the demand does not say. Default: 1.",
        ),
    ] = None,
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
    from suffice.decide.evidence import evidence_from, of_the_demanded_model
    from suffice.loaders.any_record import load_any_record
    from suffice.loaders.demand import load_demand
    from suffice.report.decision import decision_document, decision_text

    demand = with_margin(load_demand(demand_file), margin)
    refuse_comparisons(runs or [])
    runs, servers = apart(runs or [], server_kind or [])
    records = [load_any_record(path) for path in runs]
    names = names_of(runs, records)
    evidences = [
        of_the_demanded_model(demand, record, evidence_from(record, name))
        for record, name in zip(records, names, strict=True)
    ]
    if model is not None:
        evidences = _of_the_asked(model, records, evidences)
    if instance or device:
        evidences += _predicted(instance or [], device or [], model or demand.model, demand, catalog)
    demand, evidences, notes = with_quality(demand, evidences, quality or [], max_loss)
    decision = decide_machines(demand, evidences, servers)
    warn(notes)
    for path, record in zip(runs, records, strict=True):
        warn(f"{path.name}: {warning}" for warning in record.warnings)
        if not record.complete:
            warn([f"{path.name}: the run was not finished; what it holds is used"])
    if json_output:
        print_json(decision_document(decision) | _served_part(decision))
    else:
        print_text(decision_text(decision) + _served_lines(decision))
    raise typer.Exit(VERDICT_EXIT_CODES[decision.verdict.verdict])


def _of_the_asked(model: str, records: list[RunRecord], evidences: list[MachineEvidence]) -> list[MachineEvidence]:
    """Records of another model than --model names are no evidence of it."""
    from suffice.decide.evidence import of_the_asked_model
    from suffice.loaders.model_file import describe_model
    from suffice.loaders.reference import resolve_model

    if not records:
        return evidences
    asked = describe_model(resolve_model(model), type_k="f16", type_v="f16", with_hash=False)
    return [of_the_asked_model(asked, record, one) for record, one in zip(records, evidences, strict=True)]


def apart(files: list[Path], kinds: list[ServerKind]) -> tuple[list[Path], tuple[ServedEvidence, ...]]:
    """The run records among some files, and the servers that load tools put loads on.

    Raises:
        RecordError: a load tool's file that cannot be.
        UsageError: --server-kind without such a file, or not as often as there are servers.
    """
    from suffice.decide.served import servers_of
    from suffice.loaders.any_record import loads_in

    found = [(path, loads_in(path)) for path in files]
    told = [kind is ServerKind.GPU for kind in kinds]
    servers = servers_of([load for _, loads in found for load in loads or ()], told)
    if kinds and len(kinds) not in {1, len(servers)}:
        raise UsageError(
            f"--server-kind is given {len(kinds)} times for {len(servers)} servers; give it once, or once each"
        )
    if kinds and not servers:
        raise UsageError("--server-kind is about results of load tools, and no such file is given")
    return [path for path, loads in found if loads is None], servers


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
    from suffice.loaders.catalogue import load_catalogue
    from suffice.loaders.prospects import device_prospect, prospects_of
    from suffice.loaders.reference import resolve_model
    from suffice.model.demand import StreamLengths

    if model is None:
        raise UsageError(
            "--instance and --device need a model: give --model llama-3.1-8b:q4_k_m, or state 'model' in the demand"
        )
    catalogue = load_catalogue(catalog).catalogue
    machines = [catalogue.instance_named(name) for name in instances]
    resolved = resolve_model(model)
    lengths = StreamLengths.of(demand)
    found = prospects_of(machines, catalogue, resolved, lengths)
    missing = {machine.key for machine in machines} - {one.name for one in found}
    if missing:
        raise UsageError(
            f"--instance {', '.join(sorted(missing))}: too little is known of it for a prediction; measure it, or see `suffice ceiling`"
        )
    others = [device_prospect(catalogue.device_named(name), resolved, lengths) for name in devices]
    return [one.evidence for one in (*found, *others)]


def refuse_comparisons(files: list[Path]) -> None:
    """A comparison in the place of a run record is a slip that has a better answer than "damaged".

    Raises:
        UsageError: one of the files is a comparison, or the folder of one.
    """
    from suffice.cli.quality import RECORD_NAME

    for path in files:
        if path.name == RECORD_NAME or (path.is_dir() and (path / RECORD_NAME).exists()):
            raise UsageError(
                f"{path} is a comparison of `suffice quants` and no run record: give it to --quality, and the records in its folder speed/ here"
            )


def names_of(runs: list[Path], records: list[RunRecord]) -> list[str]:
    """The machine of each record, with its model where one machine ran several, and the file's name where that does not tell them apart."""
    machines = [record.machine or "unnamed machine" for record in records]
    if len(runs) == 1:
        return [records[0].machine or runs[0].name]
    models = [record.model.file_name or record.model.name for record in records]
    several = {
        machine
        for machine in machines
        if len({model for model, own in zip(models, machines, strict=True) if own == machine}) > 1
    }
    names = [
        f"{model} on {machine}" if model and machine in several else machine
        for model, machine in zip(models, machines, strict=True)
    ]
    return [
        name if machine in several and names.count(name) == 1 else f"{name} ({path.name})"
        for name, machine, path in zip(names, machines, runs, strict=True)
    ]
