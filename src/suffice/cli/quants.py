"""``suffice quants``: what a quantization buys and what it costs, on the user's own items."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli import options
from suffice.cli.options import duration

_FOLDER_HELP = "Folder for the comparison: answers, speed records, quants.json. Default: suffice-runs/quants-TIME."


def quants(
    reference: Annotated[
        str | None,
        typer.Argument(
            metavar="REF",
            help="What the others are compared with: a GGUF file, or a server's address (http://HOST:PORT/v1#MODEL).",
        ),
    ] = None,
    candidates: Annotated[
        list[str] | None, typer.Argument(metavar="CANDIDATE...", help="Files and servers to compare with it.")
    ] = None,
    items: Annotated[
        Path | None, typer.Option("--items", metavar="FILE", help="Your questions, JSON lines (docs/items.md).")
    ] = None,
    make: Annotated[
        str | None,
        typer.Option(
            "--make",
            metavar="RECIPES",
            help="Also quantize the reference here, with llama.cpp's quantizer: q8_0,q4_k_m.",
        ),
    ] = None,
    imatrix: Annotated[
        Path | None, typer.Option("--imatrix", metavar="FILE", help="Importance matrix for what is made.")
    ] = None,
    demand_file: Annotated[
        Path | None,
        typer.Option(
            "--demand",
            metavar="FILE",
            help="A demand.toml: its quality, its lengths, and the verdict with each candidate.",
        ),
    ] = None,
    max_loss: Annotated[
        float | None,
        typer.Option(
            "--max-loss",
            metavar="POINTS",
            help="Most that a candidate may lose, in points of 100, where the demand does not say. Default: 1.",
        ),
    ] = None,
    text: Annotated[
        list[Path] | None,
        typer.Option(
            "--text",
            metavar="FILE",
            help='Text of yours to measure distances on; .jsonl with {"text": ...} lines are documents. May be repeated. Default: the items with their right answers.',
        ),
    ] = None,
    text_tokens: Annotated[
        int, typer.Option("--text-tokens", min=64, help="Tokens of the text that are read at most.")
    ] = 16384,
    distance: Annotated[
        bool, typer.Option("--distance/--no-distance", help="Measure how far next-token distributions are apart.")
    ] = True,
    speed: Annotated[bool, typer.Option("--speed/--no-speed", help="Measure speed and memory, side by side.")] = True,
    budget: Annotated[
        float | None,
        typer.Option(
            "--budget",
            parser=duration,
            metavar="TIME",
            help="Time to plan with for speed, of all together. Default: 20s a model.",
        ),
    ] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, max=256, help="Items that are answered at a time.")] = 4,
    threads: Annotated[
        int | None,
        typer.Option(
            "--threads", min=1, help="Threads of the engine. Default: all usable CPUs to answer, the best for speed."
        ),
    ] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=1, help="Longest answer, for items that do not say.")
    ] = 256,
    chat_prompts: Annotated[
        bool,
        typer.Option("--chat-prompts", help="Ask each prompt as the message of a user, through the chat template."),
    ] = False,
    choices_as_text: Annotated[
        bool,
        typer.Option(
            "--choices-as-text", help="List the choices and read the answer, instead of weighing each choice."
        ),
    ] = False,
    on_error: Annotated[
        str,
        typer.Option(
            "--on-error",
            metavar="stop|skip",
            help="Lines of the items file that cannot be used: stop, or leave them out and say so.",
        ),
    ] = "stop",
    logs: Annotated[
        list[str] | None,
        typer.Option(
            "--log",
            metavar="NAME=FILE",
            help="Instead of asking: sample logs of lm-evaluation-harness, the reference's first. May be repeated.",
        ),
    ] = None,
    log_metric: Annotated[str | None, typer.Option("--log-metric", help="Metric of the logs.")] = None,
    log_filter: Annotated[
        str | None, typer.Option("--log-filter", help="Filter of the logs, where they have several.")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", metavar="FILE", help="Certificates (PEM) to check a server's against.")
    ] = None,
    engine: options.EngineName = None,
    engine_library: options.EngineLibrary = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help=_FOLDER_HELP)] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the comparison at --out: answers that are there are not asked again."
        ),
    ] = False,
    from_folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FOLDER",
            help="Ask nobody: print and export the comparison that is kept in this folder.",
        ),
    ] = None,
    chart: Annotated[
        Path | None,
        typer.Option("--chart", metavar="FILE", help="Also draw speed against score: FILE.svg or FILE.png."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Also write each item's scores and answers.")
    ] = None,
    flips: Annotated[
        Path | None,
        typer.Option(
            "--flips", metavar="FILE", help="Also write, as CSV, each item that a candidate scores otherwise."
        ),
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write the report as Markdown.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Compare quantizations on your own items: scores and flips with honest intervals, distance, speed, memory, and the verdict with each.

    Decoding is greedy, all models get the same tokens. The answer to each candidate is passes, fails, or not enough items. Answers are
    kept as they come; a run that was killed goes on with --resume. A server's key is read from SUFFICE_API_KEY.

    Exit codes: 0 when a candidate passes, 1 when all fail, 3 when it is not decided.

    Example: suffice quants model-f16.gguf --make q8_0,q4_k_m --items items.jsonl --demand demand.toml

    Example: suffice quants http://gpu-box:8000/v1 http://127.0.0.1:8080/v1 --items items.jsonl

    Example: suffice quants --from q4 --csv items.csv --max-loss 2

    Example: suffice quants --log f16=samples_f16.jsonl --log q4=samples_q4.jsonl
    """
    from suffice.cli.quants_asked import QuantsOptions
    from suffice.cli.quants_run import run

    asked = QuantsOptions(
        reference=reference,
        candidates=tuple(candidates or ()),
        items=items,
        make=make,
        imatrix=imatrix,
        demand_file=demand_file,
        max_loss_points=max_loss,
        texts=tuple(text or ()),
        text_tokens=text_tokens,
        distance=distance,
        speed=speed,
        budget_s=budget,
        slots=slots,
        threads=threads,
        max_tokens=max_tokens,
        chat_prompts=chat_prompts,
        choices_as_text=choices_as_text,
        on_error=on_error,
        logs=tuple(logs or ()),
        log_metric=log_metric,
        log_filter=log_filter,
        ca_file=ca_file,
        engine=engine,
        engine_library=engine_library,
        out=out,
        resume=resume,
        chart=chart,
        csv=csv,
        flips=flips,
        from_folder=from_folder,
        markdown=markdown,
    )
    raise typer.Exit(run(asked, json_output=json_output))
