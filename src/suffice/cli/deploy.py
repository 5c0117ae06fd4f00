"""``suffice deploy``: the commands and files of a choice, from a demand and a run record."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import options

if TYPE_CHECKING:
    from collections.abc import Mapping


def deploy(
    demand_file: Annotated[Path, typer.Argument(metavar="DEMAND", help="A demand.toml.")],
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run record of the machine that will serve.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="Where to write the files. Default: they are printed."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False,
    model_path: Annotated[
        str | None,
        typer.Option("--model-path", metavar="PATH", help="The GGUF file on the machine that serves."),
    ] = None,
    port: Annotated[int | None, typer.Option("--port", min=1, max=65535, help="To listen on. Default: 8080.")] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="PATH", help="The llama-server program on that machine.")
    ] = None,
    image: Annotated[
        str | None, typer.Option("--image", metavar="NAME", help="The container image. Default: llama.cpp's own.")
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            metavar="NAME",
            help="Also a vLLM command for an instance or a device of the catalogue: g6.xlarge, l4.",
        ),
    ] = None,
    gpu_model: Annotated[
        str | None,
        typer.Option("--gpu-model", metavar="NAME", help="What vLLM loads: a hub name or a folder. Needed with --gpu."),
    ] = None,
    hybrid: Annotated[
        str | None,
        typer.Option(
            "--hybrid",
            metavar="TARGET",
            help="Also a LiteLLM configuration: who answers where somebody waits, and stands in when this machine fails. "
            "A server (http://gpu-box:8000/v1), or an API as LiteLLM names it (deepseek/deepseek-chat).",
        ),
    ] = None,
    key_variable: Annotated[
        str | None,
        typer.Option(
            "--key-variable", metavar="NAME", help="The variable that holds its key; the key itself is in no file."
        ),
    ] = None,
    instance: Annotated[
        str | None,
        typer.Option(
            "--instance",
            help="The machine to rent that the SkyPilot task measures: c7i.4xlarge. Default: --gpu's, or one like the record's.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            metavar="MODEL",
            help="The model by its shape (llama-3.1-8b:q4_k_m): for predictions on --gpu, and to measure without a file.",
        ),
    ] = None,
    catalog: options.OwnCatalogue = None,
    margin: options.Margin = None,
    json_output: options.Json = False,
) -> None:
    """Write the commands and files that serve a choice: llama-server, systemd, compose, Kubernetes, and how to check and measure.

    Each value says where it comes from: measured, simulated, stated, computed or a default. Nothing is written without --out, and no file is
    replaced without --force.

    Exit code 0: the machine of the record is enough, or --hybrid takes what it does not hold; 1: it is not; 3: undecided. Files are made all the same.

    Example: suffice deploy demand.toml run.json --model-path /srv/models/chat.gguf --out deployment

    Example: suffice deploy demand.toml run.json --gpu g6.xlarge --gpu-model meta-llama/Llama-3.1-8B-Instruct --hybrid http://10.0.0.5:8000/v1
    """
    from suffice.cli.deploy_asked import DeployOptions, asked_of
    from suffice.cli.deploy_write import check_folder, write_files
    from suffice.cli.output import print_json, print_text, warn
    from suffice.cli.verdicts import VERDICT_EXIT_CODES, with_margin
    from suffice.decide.evidence import evidence_from, of_the_demanded_model
    from suffice.decide.verdict import decide_machine
    from suffice.deploy.choice import choose
    from suffice.deploy.document import deployment_document, deployment_text
    from suffice.deploy.files import files_for
    from suffice.loaders.any_record import load_any_record
    from suffice.loaders.demand import load_demand

    demand = with_margin(load_demand(demand_file), margin)
    record = load_any_record(run)
    verdict = decide_machine(demand, of_the_demanded_model(demand, record, evidence_from(record)))
    asked = asked_of(
        demand,
        DeployOptions(
            model_path=model_path,
            port=port,
            server=server,
            image=image,
            gpu=gpu,
            gpu_model=gpu_model,
            hybrid=hybrid,
            key_variable=key_variable,
            instance=instance,
            model=model,
            catalog=catalog,
        ),
    )
    choice = choose(demand, record, verdict, asked)
    files = files_for(choice)
    written: Mapping[str, Path] = {}
    if out is not None:
        check_folder(out, files, force=force, inputs=[demand_file, run])
        written = write_files(out, files)
    warn([*record.warnings, *choice.notes])
    if json_output:
        print_json(deployment_document(choice, files, written))
    else:
        print_text(deployment_text(choice, files, written))
    raise typer.Exit(0 if choice.other is not None else VERDICT_EXIT_CODES[verdict.verdict])
