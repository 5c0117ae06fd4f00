"""``suffice simulate``: what a server would do under a load that nobody has sent yet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from suffice.cli import options
from suffice.cli.simulate_asked import MOST_REQUESTS, MOST_TOKENS, ArrivalName, Cache, SchedulerName, Search
from suffice.errors import UsageError


def simulate(
    context_of_call: typer.Context,
    curve: Annotated[
        Path,
        typer.Option(
            "--curve",
            metavar="CURVE.json",
            help="The machine's service curve: a run record with one (measure --slots N), or a file as in docs/serving.md.",
        ),
    ],
    demand: Annotated[
        Path | None,
        typer.Option(
            "--demand",
            metavar="FILE",
            help="A demand.toml: its load, lengths and limits, where no flag says otherwise.",
        ),
    ] = None,
    rate: Annotated[float | None, typer.Option("--rate", help="Requests per second of an open loop.")] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, max=MOST_REQUESTS, help="Users of a closed loop, instead of a rate.")
    ] = None,
    think: Annotated[
        str | None, typer.Option("--think", help="Mean pause of a user after an answer, such as 10s. Default: none.")
    ] = None,
    arrivals: Annotated[
        ArrivalName,
        typer.Option("--arrivals", help="Gaps of the open loop; at-once: a queue that is there at the start."),
    ] = ArrivalName.POISSON,
    cv: Annotated[
        float, typer.Option("--cv", help="Variation of gamma gaps: 1 is Poisson, more comes in bursts.")
    ] = 1.0,
    prompt_tokens: Annotated[
        int, typer.Option("--prompt-tokens", min=1, max=MOST_TOKENS, help="Median tokens of a prompt.")
    ] = 512,
    prompt_p95: Annotated[
        int | None,
        typer.Option(
            "--prompt-p95", min=1, max=MOST_TOKENS, help="P95 of the prompts (log-normal). Default: all alike."
        ),
    ] = None,
    output_tokens: Annotated[
        int, typer.Option("--output-tokens", min=1, max=MOST_TOKENS, help="Median tokens of an answer.")
    ] = 200,
    output_p95: Annotated[
        int | None,
        typer.Option(
            "--output-p95", min=1, max=MOST_TOKENS, help="P95 of the answers (log-normal). Default: all alike."
        ),
    ] = None,
    scheduler: Annotated[
        SchedulerName, typer.Option("--scheduler", help="Whose rules the server follows.")
    ] = SchedulerName.LLAMA_CPP,
    slots: Annotated[int, typer.Option("--slots", min=1, max=4096, help="Requests that run at the same time.")] = 4,
    context: Annotated[
        int, typer.Option("--context", min=2, max=MOST_TOKENS, help="Tokens that one request may fill.")
    ] = 4096,
    batch_tokens: Annotated[
        int, typer.Option("--batch-tokens", min=1, max=MOST_TOKENS, help="Most tokens of a step.")
    ] = 2048,
    ubatch: options.Ubatch = 512,
    cache: Annotated[
        Cache, typer.Option("--cache", help="llama.cpp: one cache for all slots, or one each (with --parallel N).")
    ] = Cache.PER_SLOT,
    blocks: Annotated[
        int | None,
        typer.Option(
            "--blocks", min=1, max=MOST_TOKENS, help="vLLM: cache blocks. Default: enough for every slot's context."
        ),
    ] = None,
    block_tokens: Annotated[
        int, typer.Option("--block-tokens", min=1, max=MOST_TOKENS, help="vLLM: tokens of a block.")
    ] = 16,
    requests: Annotated[int, typer.Option("--requests", min=1, max=MOST_REQUESTS, help="Requests of a run.")] = 2000,
    seeds: Annotated[int, typer.Option("--seeds", min=1, max=500, help="Runs; intervals are over them.")] = 8,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first run.")] = 0,
    ttft_limit: Annotated[
        str | None, typer.Option("--ttft-limit", help="Limit on the time to first token, as 2s.")
    ] = None,
    tpot_limit: Annotated[str | None, typer.Option("--tpot-limit", help="Limit per output token, as 100ms.")] = None,
    e2e_limit: Annotated[str | None, typer.Option("--e2e-limit", help="Limit on the whole answer.")] = None,
    percentile: Annotated[
        float, typer.Option("--percentile", min=1, max=99, help="Of the requests that limits hold for.")
    ] = 95.0,
    confidence: Annotated[
        float, typer.Option("--confidence", min=0.5, max=0.999, help="Of a limit that holds.")
    ] = 0.95,
    find: Annotated[
        Search | None, typer.Option("--find", help="The highest rate, the fewest slots or machines within the limits.")
    ] = None,
    most: Annotated[
        int, typer.Option("--most", min=1, max=4096, help="Slots or machines that --find tries at most.")
    ] = 64,
    json_output: options.Json = False,
) -> None:
    """Percentiles of TTFT, TPOT and E2E, queue and cache of a server under a load, from its service curve.

    Exit code: 0 when the limits hold (or none is given), 1 when they do not, 3 when the runs cannot tell.

    Example: suffice simulate --curve run.json --demand demand.toml --slots 4

    Example: suffice simulate --curve curve.json --rate 2 --prompt-tokens 512 --output-tokens 200 --slots 4 --ttft-limit 2s
    """
    from suffice.cli.curve_file import read_curve
    from suffice.cli.simulate_asked import Case, LoadOptions, ServerOptions, limits_of, trial_of, with_demand
    from suffice.cli.simulate_print import find as search
    from suffice.cli.simulate_print import show

    machine, _ = read_curve(curve)
    server = ServerOptions(
        scheduler=scheduler,
        context=context,
        batch_tokens=batch_tokens,
        ubatch=ubatch,
        cache=cache,
        blocks=blocks,
        block_tokens=block_tokens,
    )
    asked = LoadOptions(
        arrivals=arrivals,
        rate=rate,
        users=users,
        cv=cv,
        think=think,
        prompt_tokens=prompt_tokens,
        prompt_p95=prompt_p95,
        output_tokens=output_tokens,
        output_p95=output_p95,
        requests=requests,
    )
    limits = limits_of({"ttft_s": ttft_limit, "tpot_s": tpot_limit, "e2e_s": e2e_limit}, percentile)
    if demand is not None:
        from suffice.loaders.demand import load_demand

        said = {name for name in context_of_call.params if _is_said(context_of_call, name)}
        asked, limits = with_demand(load_demand(demand), asked, limits, said)
        arrivals = asked.arrivals
    load = asked.load()
    server.of(slots)  # what cannot be is said before anything is simulated
    if find is not None and not limits:
        raise UsageError("--find needs a --ttft-limit, --tpot-limit or --e2e-limit")
    trial = trial_of(limits, seeds, seed, confidence, arrivals)
    case = Case(curve=machine, server=server, slots=slots, load=load, limits=limits, trial=trial)
    code = show(case, json_output=json_output) if find is None else search(find, case, most, json_output=json_output)
    raise typer.Exit(code)


def _is_said(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"
