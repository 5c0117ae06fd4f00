"""The commands put together. A command's module is imported when it is used; a list of all of them needs one line of each."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand, TyperGroup

from suffice import __version__

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


# How the help of each command begins, which a test compares; the command is the function of its name in the module of its name.
SUMMARIES: Final = {
    "check": "From a demand to a verdict: measures bandwidth and model, compares, and writes a run record and a memo.",
    "ceiling": "Most tokens per second that physics allows: bandwidth over bytes, operations over peak.",
    "bandwidth": "Sustained read bandwidth of this machine's memory: the best of several kernels over a sweep of thread counts.",
    "measure": "Measure prefill, decode and time to first token of a model on this machine with llama.cpp.",
    "compare": "Compare models and quantizations on this machine: speed, memory, headroom, and which one moves a thin margin to enough.",
    "decide": "Decide from run records and load tools' results, with no engine and no model at hand; several machines are compared.",
    "plan": "What serving a demand costs a month: this machine, machines to rent, several of them, APIs and hybrids, the cheapest first.",
    "report": "The page that goes to the meeting: the verdict in a sentence, its numbers with their sources, charts, cost, and how to do it again.",
    "web": "Change demand, margin, model, quantization and prices in a form; verdict, charts and plan follow. Ctrl-C ends it.",
    "deploy": "Write the commands and files that serve a choice: llama-server, systemd, compose, Kubernetes, and how to check and measure.",
    "predict": "Tokens per second with a range of 80 % for each row: a prediction, or the measurement of somebody who rented that machine.",
    "guard": "Check that a run holds its floors and is no worse than a baseline. Exit code 0 pass, 1 fail, 3 inconclusive.",
    "load": "Send requests to a server and say how long its users wait, with intervals, failures counted, and doubts named.",
    "simulate": "Percentiles of TTFT, TPOT and E2E, queue and cache of a server under a load, from its service curve.",
    "quants": "Compare quantizations on your own items: scores and flips with honest intervals, distance, speed, memory, and the verdict with each.",
    "baseline": "The run that later ones are held against (suffice guard RUN --baseline BASE): a plain run record, to be kept in git.",
    "history": "Runs over time, as JSON lines: their trend, the steps in it, and what a guard holds a new run against.",
    "cache": "What the cache holds: pieces of models that `suffice measure SHAPE:QUANT` made, and candidates of `suffice quants --make`.",
    "catalog": "What suffice knows without having it: models, devices, machines to rent, API prices; each number with its source.",
}
_GROUPS: Final = frozenset({"baseline", "history", "cache", "catalog"})  # of commands; ``build_NAME_app`` makes them


def _load(name: str) -> Any:  # noqa: ANN401  # Typer's own kind of command
    module = import_module(f"suffice.cli.{name}")
    alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    if name not in _GROUPS:
        alone.command(name)(getattr(module, name))
        return typer.main.get_command(alone)
    alone.add_typer(getattr(module, f"build_{name}_app")(), name=name)
    around: Any = typer.main.get_command(alone)
    return around.commands[name]


class _LazyCommands(MutableMapping[str, Any]):
    """The commands by name, each made when it is asked for."""

    def __init__(self) -> None:
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401  # Typer's own kind of command
        if name not in self._made:
            if name not in SUMMARIES:
                raise KeyError(name)
            self._made[name] = _load(name)
        return self._made[name]

    def __setitem__(self, name: str, command: Any) -> None:  # noqa: ANN401  # Typer's own kind of command
        self._made[name] = command

    def __delitem__(self, name: str) -> None:
        del self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(SUMMARIES)

    def __len__(self) -> int:
        return len(SUMMARIES)


class _Commands(TyperGroup):
    """All commands, of which a list imports none."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  # whatever Typer gives
        super().__init__(**settings)
        self.commands = _LazyCommands()

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401, ARG002  # Typer's own kinds
        """The list of commands in the help."""
        limit = formatter.width - 6 - max(map(len, SUMMARIES))
        rows = [
            (name, TyperCommand(name, help=summary).get_short_help_str(limit)) for name, summary in SUMMARIES.items()
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def build_app() -> typer.Typer:
    """The application with all its commands."""
    app = typer.Typer(
        name="suffice",
        cls=_Commands,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,  # plain help: half the start-up time, and the same in every terminal
        pretty_exceptions_enable=False,
        epilog=_EPILOG,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(epilog=_EPILOG)(_root)
    return app
