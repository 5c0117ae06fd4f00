"""``suffice load``: a server under load, from the outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from suffice.cli import INTERRUPTED_EXIT_CODE, options
from suffice.cli.options import _duration
from suffice.errors import SufficeError

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from enum import StrEnum

    from suffice.load.result import LoadResult
    from suffice.load.session import Content
    from suffice.load.settings import Arrivals, LoadPlan, Loop

    Word = TypeVar("Word", bound=StrEnum)

_DEFAULT_DURATION_S = 60.0
_DEFAULT_TIMEOUT_S = 600.0
_TEMPLATE_TOKENS = 128  # what a chat template may add


class InterruptedLoadError(SufficeError):
    """The run was interrupted; its result has been printed and written."""

    exit_code = INTERRUPTED_EXIT_CODE


def _limit(flag: str, what: str) -> typer.models.OptionInfo:
    info: typer.models.OptionInfo = typer.Option(
        flag, parser=_duration, metavar="TIME", help=f"Longest {what} that is good enough."
    )
    return info


def load(
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="Address of an OpenAI-compatible server, such as http://localhost:8080."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option("--concurrency", min=1, help="Closed loop: so many requests at a time. Default: 1.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Open loop: requests per second, whatever the server does.")
    ] = None,
    arrivals: Annotated[
        str, typer.Option("--arrivals", help="Of an open loop: constant, poisson or gamma.")
    ] = "poisson",
    burstiness: Annotated[
        float, typer.Option("--burstiness", help="Of gamma arrivals: 1 is Poisson, less is burstier.")
    ] = 1.0,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Replay arrivals: JSONL (Mooncake's form too) or Azure's CSV."),
    ] = None,
    trace_speed: Annotated[float, typer.Option("--trace-speed", help="Replay so many times faster.")] = 1.0,
    requests: Annotated[int | None, typer.Option("--requests", min=1, help="Measured requests to send.")] = None,
    duration: Annotated[
        float | None,
        typer.Option(
            "--duration", parser=_duration, metavar="TIME", help="Send so long. Default: 60s, without --requests."
        ),
    ] = None,
    warmup: Annotated[
        int | None,
        typer.Option(
            "--warmup", min=0, help="Requests sent first and not measured. Default: one a user, 1 in an open loop."
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", parser=_duration, metavar="TIME", help="Longest time for one request. Default: 10m."),
    ] = None,
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", min=1, help="Length of made prompts.")] = 256,
    output_tokens: Annotated[int, typer.Option("--output-tokens", min=1, help="Length of the answers.")] = 64,
    shared_prefix: Annotated[
        int, typer.Option("--shared-prefix", min=0, help="First words that all made prompts share. Default: none.")
    ] = 0,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", metavar="FILE", help="JSONL with a 'prompt' or 'messages' a line, used in order."),
    ] = None,
    exact_length: Annotated[
        bool, typer.Option("--exact-length/--no-exact-length", help="Ask for answers of the full length (ignore_eos).")
    ] = True,
    keep_alive: Annotated[
        bool,
        typer.Option(
            "--keep-alive", help="Use connections again. Default: one for each request, set up before its time."
        ),
    ] = False,
    api: Annotated[str, typer.Option("--api", help="chat or completions.")] = "chat",
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="The server's name of the model. Default: its first.")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="NAME", help="Environment variable that holds the API key.")
    ] = None,
    temperature: Annotated[
        float | None, typer.Option("--temperature", min=0.0, help="Default: the server's own.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of arrivals and made prompts.")] = 0,
    ttft_limit: Annotated[float | None, _limit("--ttft-limit", "time to first token")] = None,
    tpot_limit: Annotated[float | None, _limit("--tpot-limit", "time per token after it")] = None,
    e2e_limit: Annotated[float | None, _limit("--e2e-limit", "time for a whole answer")] = None,
    spawn: Annotated[
        Path | None,
        typer.Option(
            "--spawn", metavar="FILE", help="Start llama.cpp's server on a GGUF file for the run, instead of a URL."
        ),
    ] = None,
    slots: Annotated[int, typer.Option("--slots", min=1, help="Of the server that --spawn starts.")] = 4,
    threads: options.Threads = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Where to write the result (JSON).")] = None,
    json_output: options.Json = False,
) -> None:
    """Send requests to a server and say how long its users wait, with intervals, failures counted, and doubts named.

    Times to the first text, per token by the server's own count, and to the last text; rates over the time in which requests were
    sent; the share that keeps to the limits. The client watches itself: exit code 3 when it was the bottleneck.

    Example: suffice load http://localhost:8080 --rate 2 --requests 400 --ttft-limit 2s --tpot-limit 100ms
    """
    from contextlib import ExitStack

    from suffice.cli.output import Progress, warn
    from suffice.cli.paths import check_outputs
    from suffice.errors import UsageError
    from suffice.load.endpoint import endpoint_of, key_from
    from suffice.load.session import Content, run_session
    from suffice.load.settings import Api, Arrivals
    from suffice.model.load_metrics import Limits

    if (url is None) == (spawn is None):
        raise UsageError("give the URL of a server, or --spawn and a GGUF file")
    check_outputs({"--out": out}, [prompts, trace, spawn])
    plan = _plan(
        _loop(concurrency, rate, trace),
        concurrency=concurrency,
        rate=rate,
        ends=(requests, duration),
        warmup=warmup,
        arrivals=_word(Arrivals, arrivals, "--arrivals"),
        burstiness=burstiness,
        seed=seed,
        timeout_s=timeout or _DEFAULT_TIMEOUT_S,
    )
    content = Content(
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        shared_prefix=shared_prefix,
        prompts=prompts,
        trace=trace,
        trace_speed=options.positive(trace_speed, "--trace-speed"),
        exact_length=exact_length,
        temperature=temperature,
    )
    limits = Limits(ttft_s=ttft_limit, tpot_s=tpot_limit, e2e_s=e2e_limit)
    with ExitStack() as stack, Progress() as progress:
        if spawn is not None:
            url = stack.enter_context(_spawned(spawn, slots, threads, content))
        endpoint, warnings = endpoint_of(
            url or "", _word(Api, api, "--api"), model, key_from(api_key_env), keep_alive=keep_alive
        )
        warn(warnings)
        result = run_session(plan, content, endpoint, limits, progress)
    if out is not None:
        from suffice.load.result import to_json
        from suffice.records.store import write_atomically

        write_atomically(out, to_json(result))
    warn(result.warnings)
    _print(result, json_output)
    if result.interrupted:
        raise InterruptedLoadError("interrupted; the result is that of the part which was run")
    raise typer.Exit(_exit_code(result))


def _word(kind: type[Word], text: str, flag: str) -> Word:
    from suffice.errors import UsageError

    try:
        return kind(text)
    except ValueError:
        raise UsageError(f"{flag} {text!r} is none of {', '.join(kind)}") from None


def _loop(concurrency: int | None, rate: float | None, trace: Path | None) -> Loop:
    """The one kind of load that the flags ask for."""
    from suffice.errors import UsageError
    from suffice.load.settings import Loop

    asked = {Loop.CLOSED: concurrency is not None, Loop.OPEN: rate is not None, Loop.TRACE: trace is not None}
    kinds = [kind for kind, given in asked.items() if given]
    if len(kinds) > 1:
        raise UsageError("--concurrency, --rate and --trace are three kinds of load; give one of them")
    return kinds[0] if kinds else Loop.CLOSED


def _plan(
    loop: Loop,
    *,
    concurrency: int | None,
    rate: float | None,
    ends: tuple[int | None, float | None],
    warmup: int | None,
    arrivals: Arrivals,
    burstiness: float,
    seed: int,
    timeout_s: float,
) -> LoadPlan:
    """The plan with its defaults filled in."""
    from suffice.load.settings import MAX_REQUESTS, LoadPlan, Loop

    requests, duration_s = ends
    if loop is Loop.CLOSED:
        concurrency = concurrency or 1
    if requests is None and duration_s is None:
        duration_s = None if loop is Loop.TRACE else _DEFAULT_DURATION_S
    usual = {Loop.CLOSED: concurrency or 1, Loop.OPEN: 1, Loop.TRACE: 0}
    return LoadPlan(
        loop=loop,
        requests=MAX_REQUESTS if loop is Loop.TRACE and requests is None else requests,
        duration_s=duration_s,
        warm_up=usual[loop] if warmup is None else warmup,
        concurrency=concurrency,
        rate_per_s=rate,
        arrivals=arrivals,
        burstiness=burstiness,
        seed=seed,
        timeout_s=timeout_s,
    )


def _spawned(model: Path, slots: int, threads: int | None, content: Content) -> AbstractContextManager[str]:
    """A server with room for the longest exchange in each slot."""
    from suffice.load.spawn import spawned_server

    tokens = 2 * content.prompt_tokens + (content.output_tokens or 0) + _TEMPLATE_TOKENS
    return spawned_server(model, slots=slots, context_per_slot=tokens, threads=threads)


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
