"""``suffice report``: the verdict and all that it rests on, as one page for a meeting."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli import options
from suffice.cli.runs import ServerKind
from suffice.report.page.language import Language


def report(
    demand_file: Annotated[Path, typer.Argument(metavar="DEMAND", help="A demand.toml.")],
    runs: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN...", help="Run records and load tools' results to decide by, as `suffice decide` takes them."
        ),
    ] = None,
    server_kind: Annotated[
        list[ServerKind] | None,
        typer.Option(
            "--server-kind", help="What the server of a load tool's result runs on. Once for all, or once a server."
        ),
    ] = None,
    quants: Annotated[
        Path | None,
        typer.Option(
            "--quants",
            "--quality",
            metavar="FILE",
            help="A quants.json of `suffice quants`, or its folder: it is shown, and the quality of the records' models is judged.",
        ),
    ] = None,
    load: Annotated[
        list[Path] | None,
        typer.Option(
            "--load", metavar="FILE", help="A load tool's result to show beside; it is not judged. May be repeated."
        ),
    ] = None,
    simulate: Annotated[
        Path | None, typer.Option("--simulate", metavar="FILE", help="What `suffice simulate --json` printed.")
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", metavar="FILE", help="What `suffice plan --json` printed.")
    ] = None,
    lang: Annotated[Language, typer.Option("--lang", help="Language of the page.")] = Language.EN,
    max_loss: options.MaxLoss = None,
    margin: options.Margin = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="Write the page: .html, .md, or .pdf (which needs a browser). Default: print Markdown.",
        ),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """The page that goes to the meeting: the verdict in a sentence, its numbers with their sources, charts, cost, and how to do it again.

    One file that needs nothing else, in English or Chinese. The verdict is that of `suffice decide` on the same files, and so is the exit
    code. What is not given is left out, or the page says which command makes it.

    Example: suffice report demand.toml run.json --out report.html

    Example: suffice report demand.toml run.json --quants q4 --load load.json --plan plan.json --lang zh --out report.html
    """
    from suffice.cli.output import print_json, print_text, warn
    from suffice.cli.report_inputs import Asked, gather
    from suffice.cli.report_output import check_out, write_page
    from suffice.cli.verdicts import VERDICT_EXIT_CODES
    from suffice.report.page.build import build_page
    from suffice.report.page.document import page_document
    from suffice.report.page.markdown import page_markdown

    asked = Asked(
        demand_file=demand_file,
        runs=tuple(runs or ()),
        server_kinds=tuple(server_kind or ()),
        quants=quants,
        loads=tuple(load or ()),
        simulate=simulate,
        plan=plan,
        max_loss=max_loss,
        margin=margin,
        language=lang,
        out=out,
    )
    if out is not None:
        check_out(out, asked.inputs)
    given, notes = gather(asked)
    page = build_page(given, lang)
    warn(notes)
    if out is not None:
        write_page(page, out)
    if json_output:
        print_json(page_document(page, given.decision))
    elif out is None:
        print_text(page_markdown(page).rstrip("\n"))
    else:
        print_text(f"verdict: {given.decision.verdict.verdict}\nreport   {out}")
    raise typer.Exit(VERDICT_EXIT_CODES[given.decision.verdict.verdict])
