"""The commands put together. Each command's module is light to import and loads what it needs when it is called."""

from __future__ import annotations

from typing import Annotated

import typer

from suffice import __version__
from suffice.cli import (
    bandwidth,
    baseline,
    cache,
    catalog,
    ceiling,
    check,
    compare,
    decide,
    deploy,
    guard,
    history,
    load,
    measure,
    plan,
    predict,
    quants,
    report,
    simulate,
    web,
)

_EPILOG = (
    "Exit codes: 0 done, enough or pass; 1 not enough or fail; 2 bad usage or bad input; 3 undecided or inconclusive. "
    "Every command has --json. Nothing leaves this machine unless you ask."
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"suffice {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """How much hardware is enough for this LLM workload? A verdict with evidence."""


def build_app() -> typer.Typer:
    """The application with all its commands."""
    app = typer.Typer(
        name="suffice",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain help: half the start-up time, and the same in every terminal
        pretty_exceptions_enable=False,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog=_EPILOG)(_root)
    app.command("check")(check.check)
    app.command("ceiling")(ceiling.ceiling)
    app.command("bandwidth")(bandwidth.bandwidth)
    app.command("measure")(measure.measure)
    app.command("compare")(compare.compare)
    app.command("decide")(decide.decide)
    app.command("plan")(plan.plan)
    app.command("report")(report.report)
    app.command("web")(web.web)
    app.command("deploy")(deploy.deploy)
    app.command("predict")(predict.predict)
    app.command("guard")(guard.guard)
    app.command("load")(load.load)
    app.command("simulate")(simulate.simulate)
    app.command("quants")(quants.quants)
    app.add_typer(baseline.build_baseline_app(), name="baseline")
    app.add_typer(history.build_history_app(), name="history")
    app.add_typer(cache.build_cache_app(), name="cache")
    app.add_typer(catalog.build_catalog_app(), name="catalog")
    return app
