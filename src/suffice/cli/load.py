"""``suffice load``: a server under load, from the outside."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from suffice.cli import INTERRUPTED_EXIT_CODE, options
from suffice.cli import load_options as flags
from suffice.errors import SufficeError, UsageError

if TYPE_CHECKING:
    from contextlib import ExitStack

    from suffice.cli.load_asked import Asked
    from suffice.load.endpoint import Endpoint
    from suffice.load.result import LoadResult


class InterruptedLoadError(SufficeError):
    """The run was interrupted; its result has been printed and written."""

    exit_code = INTERRUPTED_EXIT_CODE


def load(
    url: flags.Url = None,
    what: flags.What = None,
    concurrency: flags.Concurrency = None,
    rate: flags.Rate = None,
    ramp: flags.Ramp = None,
    find_capacity: flags.FindCapacity = False,
    arrivals: flags.ArrivalWord = "poisson",
    burstiness: flags.Burstiness = 1.0,
    trace: flags.Trace = None,
    trace_speed: flags.TraceSpeed = 1.0,
    requests: flags.Requests = None,
    duration: flags.Duration = None,
    warmup: flags.Warmup = None,
    timeout: flags.Timeout = None,
    prompt_tokens: flags.PromptTokens = None,
    output_tokens: flags.OutputTokens = None,
    shared_prefix: flags.SharedPrefix = 0,
    prompts: flags.Prompts = None,
    exact_length: flags.ExactLength = True,
    keep_alive: flags.KeepAlive = False,
    api: flags.ApiWord = "chat",
    model: flags.ServerModel = None,
    api_key_env: flags.ApiKeyEnv = None,
    ca_file: flags.CaFile = None,
    temperature: flags.Temperature = None,
    seed: flags.Seed = 0,
    ttft_limit: flags.TtftLimit = None,
    tpot_limit: flags.TpotLimit = None,
    e2e_limit: flags.E2eLimit = None,
    demand: flags.DemandFile = None,
    record: flags.RecordFile = None,
    percentile: flags.Percentile = 95.0,
    confidence: flags.Confidence = 0.95,
    tolerance: flags.Tolerance = 0.1,
    most_probes: flags.MostProbes = 16,
    spawn: flags.Spawn = None,
    slots: flags.Slots = 4,
    threads: Annotated[
        int | None,
        typer.Option("--threads", min=1, help="Of the server that --spawn starts. Default: llama.cpp's own."),
    ] = None,
    out: flags.Out = None,
    resume: flags.Resume = False,
    chart: flags.Chart = None,
    json_output: options.Json = False,
) -> None:
    """Send requests to a server and say how long its users wait, with intervals, failures counted, and doubts named.

    Times to the first text, per token by the server's own count, and to the last text; rates over the time in which requests were
    sent; the share that keeps to the limits. The client watches itself: exit code 3 when it was the bottleneck.

    With --find-capacity: the highest load at which the limits hold; exit code 1 when there is none, 3 when it cannot be told.

    Example: suffice load http://localhost:8080 --rate 2 --requests 400 --ttft-limit 2s --tpot-limit 100ms
    """
    given = locals()
    from suffice.cli.load_asked import Asked

    asked = Asked(**given)
    code = _search(asked) if find_capacity else _run(asked)
    raise typer.Exit(code)


def _run(asked: Asked) -> int:
    """One run; the exit code."""
    from contextlib import ExitStack

    from suffice.cli.output import Progress, warn
    from suffice.load.session import longest_exchange, run_session
    from suffice.model.load_physics import contradictions_with

    if asked.what is not None or asked.resume or asked.chart is not None:
        raise UsageError("a second word, --resume and --chart belong to --find-capacity")
    _check(asked)
    need, physics = asked.need, asked.physics
    plan, content = asked.plan(), asked.content(need)
    with ExitStack() as stack, Progress() as progress:
        endpoint = _server(asked, stack, longest_exchange(content, plan) if asked.spawn else 0)
        result = run_session(plan, content, endpoint, asked.limits(need), progress)
    if physics is not None:
        result = replace(result, contradictions=contradictions_with(result.rows, physics))
    if asked.out is not None:
        from suffice.load.result import to_json
        from suffice.records.store import write_atomically

        write_atomically(asked.out, to_json(result))
    warn(result.warnings)
    _print(result, asked.json_output)
    if result.interrupted:
        raise InterruptedLoadError("interrupted; the result is that of the part which was run")
    return _exit_code(result)


def _search(asked: Asked) -> int:
    """A search for the capacity; the exit code."""
    from contextlib import ExitStack

    from suffice.cli.load_capacity import CapacityFiles, search, show, swapped
    from suffice.cli.output import Progress, warn
    from suffice.load.session import longest_exchange

    url, what = swapped(asked.url, asked.what)
    asked = replace(asked, url=url, what=what)
    files = CapacityFiles(out=asked.out, chart=asked.chart, resume=asked.resume)
    _check(asked)
    files.check()
    if asked.record is not None:
        raise UsageError("--record is for a plain run; a search compares levels with each other")
    need = asked.need
    plan, content = asked.capacity_plan(need), asked.content(need)
    with ExitStack() as stack, Progress() as progress:
        endpoint = _server(asked, stack, longest_exchange(content) if asked.spawn else 0)
        result = search(plan, content, endpoint, files, progress)
    warn(result.warnings)
    code = show(result, files, json_output=asked.json_output)
    if result.interrupted:
        raise InterruptedLoadError("interrupted; levels that were done are kept, go on with --resume")
    return code


def _check(asked: Asked) -> None:
    from suffice.cli.paths import check_outputs

    if (asked.url is None) == (asked.spawn is None):
        raise UsageError("give the URL of a server, or --spawn and a GGUF file")
    inputs = [asked.prompts, asked.trace, asked.spawn, asked.demand, asked.record, asked.ca_file]
    check_outputs({"--out": asked.out, "--chart": asked.chart}, inputs)


def _server(asked: Asked, stack: ExitStack, tokens: int) -> Endpoint:
    """The server that is there, or one of our own with room for ``tokens`` in each slot, until the stack ends."""
    from suffice.cli.output import warn
    from suffice.load.spawn import spawned_server

    url = asked.url or ""
    if asked.spawn is not None:
        server = spawned_server(asked.spawn, slots=asked.slots, context_per_slot=tokens, threads=asked.threads)
        url = stack.enter_context(server)
    endpoint, warnings = asked.endpoint(url)
    warn(warnings)
    return endpoint


def _print(result: LoadResult, json_output: bool) -> None:
    from suffice.cli.output import print_text

    if json_output:
        from suffice.load.result import to_json

        print_text(to_json(result).rstrip())
        return
    from suffice.report.load import load_text

    print_text(load_text(result))


def _exit_code(result: LoadResult) -> int:
    """3 when the client was the bottleneck or nothing was measured, 1 when every attempt failed, else 0."""
    if not result.usable:
        return 3
    return 0 if result.summary.succeeded else 1
