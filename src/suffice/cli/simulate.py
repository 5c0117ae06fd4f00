"""``suffice simulate``: what a server would do under a load that nobody has sent yet."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from suffice.cli import options
from suffice.errors import RecordError, UsageError
from suffice.units import MIB

if TYPE_CHECKING:
    from suffice.serving.curve import ServiceCurve
    from suffice.serving.load import LengthModel, Load
    from suffice.serving.run import SimulatedRun
    from suffice.serving.schedulers import Scheduler
    from suffice.serving.search import Found, Holding, LatencyLimit, Trial
    from suffice.serving.summary import Summary

_MOST_BYTES: Final = 16 * MIB
_MOST_REQUESTS: Final = 10_000_000
_NOT_ENOUGH: Final = 1
_UNDECIDED: Final = 3


class SchedulerName(StrEnum):
    """Whose scheduler is simulated."""

    LLAMA_CPP = "llama.cpp"
    VLLM = "vllm"


class ArrivalName(StrEnum):
    """How requests arrive."""

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    AT_ONCE = "at-once"


class Search(StrEnum):
    """What is searched for."""

    RATE = "rate"
    SLOTS = "slots"
    MACHINES = "machines"


class Cache(StrEnum):
    """Who shares the cache of llama.cpp."""

    UNIFIED = "unified"
    PER_SLOT = "per-slot"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ServerOptions:
    """The flags that describe the server."""

    scheduler: SchedulerName
    context: int
    batch_tokens: int
    ubatch: int
    cache: Cache
    blocks: int | None
    block_tokens: int

    def of(self, slots: int) -> Scheduler:
        """The scheduler with so many slots; the context is that of each request."""
        from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, VllmScheduler

        try:
            if self.scheduler is SchedulerName.VLLM:
                blocks = -(-self.context // self.block_tokens) * slots if self.blocks is None else self.blocks
                return VllmScheduler(
                    max_sequences=slots,
                    context_tokens=self.context,
                    blocks=blocks,
                    batched_tokens=self.batch_tokens,
                    block_tokens=self.block_tokens,
                )
            return LlamaCppScheduler(
                slots=slots,
                context_tokens=self.context * slots,
                batch_tokens=self.batch_tokens,
                micro_batch_tokens=self.ubatch,
                layout=KvLayout.UNIFIED if self.cache is Cache.UNIFIED else KvLayout.PER_SLOT,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error


def simulate(
    curve: Annotated[
        Path,
        typer.Option(
            "--curve",
            metavar="CURVE.json",
            help="The machine's service curve: a run record with one (measure --slots N), or a file as in docs/serving.md.",
        ),
    ],
    rate: Annotated[float | None, typer.Option("--rate", help="Requests per second of an open loop.")] = None,
    users: Annotated[
        int | None, typer.Option("--users", min=1, help="Users of a closed loop, instead of a rate.")
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
    prompt_tokens: Annotated[int, typer.Option("--prompt-tokens", min=1, help="Median tokens of a prompt.")] = 512,
    prompt_p95: Annotated[
        int | None, typer.Option("--prompt-p95", min=1, help="P95 of the prompts (log-normal). Default: all alike.")
    ] = None,
    output_tokens: Annotated[int, typer.Option("--output-tokens", min=1, help="Median tokens of an answer.")] = 200,
    output_p95: Annotated[
        int | None, typer.Option("--output-p95", min=1, help="P95 of the answers (log-normal). Default: all alike.")
    ] = None,
    scheduler: Annotated[
        SchedulerName, typer.Option("--scheduler", help="Whose rules the server follows.")
    ] = SchedulerName.LLAMA_CPP,
    slots: Annotated[int, typer.Option("--slots", min=1, max=4096, help="Requests that run at the same time.")] = 4,
    context: Annotated[int, typer.Option("--context", min=2, help="Tokens that one request may fill.")] = 4096,
    batch_tokens: Annotated[int, typer.Option("--batch-tokens", min=1, help="Most tokens of a step.")] = 2048,
    ubatch: options.Ubatch = 512,
    cache: Annotated[
        Cache, typer.Option("--cache", help="llama.cpp: one cache for all slots, or one each (with --parallel N).")
    ] = Cache.PER_SLOT,
    blocks: Annotated[
        int | None,
        typer.Option("--blocks", min=1, help="vLLM: cache blocks. Default: enough for every slot's context."),
    ] = None,
    block_tokens: Annotated[int, typer.Option("--block-tokens", min=1, help="vLLM: tokens of a block.")] = 16,
    requests: Annotated[int, typer.Option("--requests", min=1, max=_MOST_REQUESTS, help="Requests of a run.")] = 2000,
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

    Example: suffice simulate --curve curve.json --rate 2 --prompt-tokens 512 --output-tokens 200 --slots 4 --ttft-limit 2s
    """
    machine = read_curve(curve)
    server = _ServerOptions(
        scheduler=scheduler,
        context=context,
        batch_tokens=batch_tokens,
        ubatch=ubatch,
        cache=cache,
        blocks=blocks,
        block_tokens=block_tokens,
    )
    load = _load(
        (arrivals, rate, users, cv, think),
        _lengths(prompt_tokens, prompt_p95, "--prompt-p95"),
        _lengths(output_tokens, output_p95, "--output-p95"),
        requests,
    )
    limits = _limits({"ttft_s": ttft_limit, "tpot_s": tpot_limit, "e2e_s": e2e_limit}, percentile)
    server.of(slots)  # what cannot be is said before anything is simulated
    if find is None:
        trial = _trial(limits, seeds, seed, confidence, arrivals)
        code = _show(machine, server, slots, load, limits, trial, json_output)
    else:
        if not limits:
            raise UsageError("--find needs a --ttft-limit, --tpot-limit or --e2e-limit")
        trial = _trial(limits, seeds, seed, confidence, arrivals)
        code = _find(find, (machine, server, slots, load, limits, trial, most), json_output)
    raise typer.Exit(code)


def read_curve(path: Path) -> ServiceCurve:
    """The service curve in a file: a run record that has one, or a document of its own.

    Raises:
        RecordError: the file cannot be read, is no JSON, or has no curve.
    """
    from suffice.loaders.files import read_small_file
    from suffice.serving.curve_document import curve_of_document

    text = read_small_file(path, limit_bytes=_MOST_BYTES, error=RecordError)
    try:
        document: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is no JSON: {error}") from error
    if isinstance(document, dict) and "measurement" in document:
        return _recorded_curve(path)
    return curve_of_document(document, str(path))


def _recorded_curve(path: Path) -> ServiceCurve:
    from suffice.records.store import load_record
    from suffice.serving.recorded import curve_of_record

    curve = curve_of_record(load_record(path))
    if curve is None:
        raise RecordError(f"{path} is a run record without a service curve; measure it with --slots N")
    return curve


def _lengths(p50: int, p95: int | None, flag: str) -> LengthModel:
    from suffice.model.demand import Lengths
    from suffice.serving.load import FixedLength, LognormalLength

    if p95 is None:
        return FixedLength(tokens=p50)
    if p95 < p50:
        raise UsageError(f"{flag} {p95} is under the median {p50}")
    return LognormalLength(lengths=Lengths(p50=p50, p95=p95))


def _duration_s(text: str, flag: str) -> float:
    from suffice.units import parse_duration_s

    try:
        return parse_duration_s(text)
    except ValueError as error:
        raise UsageError(f"{flag}: {error}") from error


def _load(
    asked: tuple[ArrivalName, float | None, int | None, float, str | None],
    prompt: LengthModel,
    output: LengthModel,
    requests: int,
) -> Load:
    from suffice.serving.load import ArrivalKind, ClosedLoop, GivenArrivals, Load, OpenArrivals

    name, rate, users, cv, think = asked
    if think is not None and users is None:
        raise UsageError("--think is the pause of a user: give --users")
    if name is ArrivalName.AT_ONCE:
        if rate is not None or users is not None:
            raise UsageError(
                "--arrivals at-once has neither a --rate nor --users: all --requests are there at the start"
            )
        return Load(arrivals=GivenArrivals(times_s=(0.0,) * requests), prompt=prompt, output=output, requests=requests)
    if (rate is None) == (users is None):
        raise UsageError("give either --rate (open loop) or --users (closed loop)")
    if users is not None:
        pause_s = 0.0 if think is None else _duration_s(think, "--think")
        return Load(arrivals=ClosedLoop(users=users, think_s=pause_s), prompt=prompt, output=output, requests=requests)
    rate_per_s = options.positive(rate or 0.0, "--rate")
    open_loop = OpenArrivals(rate_per_s=rate_per_s, kind=ArrivalKind(name.value), cv=options.positive(cv, "--cv"))
    return Load(arrivals=open_loop, prompt=prompt, output=output, requests=requests)


def _limits(asked: dict[str, str | None], percent: float) -> list[LatencyLimit]:
    from suffice.serving.search import LatencyLimit

    return [
        LatencyLimit(metric=metric, seconds=_duration_s(text, f"--{metric.removesuffix('_s')}-limit"), percent=percent)
        for metric, text in asked.items()
        if text is not None
    ]


def _trial(limits: list[LatencyLimit], seeds: int, seed: int, confidence: float, arrivals: ArrivalName) -> Trial:
    from suffice.serving.search import Trial
    from suffice.serving.summary import STEADY, WHOLE

    window = WHOLE if arrivals is ArrivalName.AT_ONCE else STEADY
    try:
        return Trial(runs=seeds, seed=seed, confidence=confidence if limits else 0.5, window=window)
    except ValueError as error:
        raise UsageError(f"--seeds and --confidence: {error}") from error


def _show(
    curve: ServiceCurve,
    server: _ServerOptions,
    slots: int,
    load: Load,
    limits: list[LatencyLimit],
    trial: Trial,
    json_output: bool,
) -> int:
    """Simulate, print, and return the exit code."""
    from suffice.serving.curve import farthest
    from suffice.serving.search import holding_of_runs
    from suffice.serving.simulate import simulate as run_once
    from suffice.serving.summary import summarize

    scheduler = server.of(slots)
    runs = [run_once(curve, scheduler, load, trial.seed + number) for number in range(trial.runs)]
    summary = summarize(runs, trial.window, curve.beyond(farthest(run.reached for run in runs)))
    holding = holding_of_runs(runs, limits, trial) if limits else None
    overloaded = _overloaded(runs, load, trial)
    if json_output:
        _print_document(curve, scheduler, load, limits, trial, (runs, summary, holding, overloaded))
    else:
        _print_text(curve, scheduler, load, limits, trial, (summary, holding, overloaded, server.context))
    return _code(holding)


def _overloaded(runs: list[SimulatedRun], load: Load, trial: Trial) -> bool | None:
    """Whether an open loop overloads the server; None of other loads, which cannot."""
    from suffice.serving.load import OpenArrivals
    from suffice.serving.summary import is_overloaded

    return is_overloaded(runs, trial.window) if isinstance(load.arrivals, OpenArrivals) else None


def _print_document(
    curve: ServiceCurve,
    scheduler: Scheduler,
    load: Load,
    limits: list[LatencyLimit],
    trial: Trial,
    results: tuple[list[SimulatedRun], Summary, Holding | None, bool | None],
) -> None:
    from suffice.cli.output import print_json
    from suffice.report.serving import limits_document, summary_document
    from suffice.serving.search import attainment_of

    runs, summary, holding, overloaded = results
    document = summary_document(summary) | _settings(curve, load, trial)
    document |= {"scheduler": asdict(scheduler), "overloaded": overloaded}
    if holding is not None:
        attained = [attainment_of(run, limits, trial.window) for run in runs]
        document |= limits_document(limits, holding, trial.confidence, attained)
    print_json(document)


def _settings(curve: ServiceCurve, load: Load, trial: Trial) -> dict[str, Any]:
    """What was asked, for a document."""
    from suffice.report.serving import load_document

    return {
        "curve": curve.name,
        "basis": curve.basis.value,
        "load": load_document(load),
        "seed": trial.seed,
        "window": asdict(trial.window),
    }


def _print_text(
    curve: ServiceCurve,
    scheduler: Scheduler,
    load: Load,
    limits: list[LatencyLimit],
    trial: Trial,
    results: tuple[Summary, Holding | None, bool | None, int],
) -> None:
    from suffice.cli.output import print_text
    from suffice.report.serving import basis_text, limits_text, load_text, overload_text, rejected_text, summary_text
    from suffice.serving.load import OpenArrivals

    summary, holding, overloaded, context = results
    title = f"{curve.name or 'service curve'} ({curve.basis.value}), {scheduler.most_requests} slots"
    lines = [load_text(load, scheduler), summary_text(summary, title), basis_text(curve.basis)]
    if overloaded and isinstance(load.arrivals, OpenArrivals):
        lines.append(overload_text(summary, load.arrivals.rate_per_s))
    lines.append(rejected_text(summary, context))
    if holding is not None:
        lines.append(limits_text(limits, holding, trial.confidence))
    print_text("\n".join(line for line in lines if line))


def _code(holding: Holding | None) -> int:
    from suffice.serving.search import Holding

    if holding is None or holding is Holding.HOLDS:
        return 0
    return _NOT_ENOUGH if holding is Holding.FAILS else _UNDECIDED


def _find(
    what: Search,
    asked: tuple[ServiceCurve, _ServerOptions, int, Load, list[LatencyLimit], Trial, int],
    json_output: bool,
) -> int:
    from suffice.cli.output import print_json, print_text
    from suffice.report.serving import asked_document, basis_text, found_document, found_text, load_text

    curve, server, slots, load, limits, trial, _ = asked
    try:
        found = _searched(what, asked)
    except ValueError as error:
        raise UsageError(f"--find {what.value}: {error}") from error
    searched_slots = what is Search.SLOTS
    if json_output:
        slots_used = (None if found.value is None else int(found.value)) if searched_slots else slots
        scheduler = None if slots_used is None else asdict(server.of(slots_used))
        document = found_document(what.value, found) | _settings(curve, load, trial) | {"scheduler": scheduler}
        print_json(document | asked_document(limits, trial.confidence))
    else:
        lines = [
            load_text(load, None if searched_slots else server.of(slots)),
            f"curve: {curve.name or 'service curve'} ({curve.basis.value})",
            found_text(what.value, found, limits, trial.confidence),
            basis_text(curve.basis),
        ]
        print_text("\n".join(line for line in lines if line))
    if found.value is not None:
        return 0
    return _UNDECIDED if found.undecided else _NOT_ENOUGH


def _searched(
    what: Search, asked: tuple[ServiceCurve, _ServerOptions, int, Load, list[LatencyLimit], Trial, int]
) -> Found:
    from suffice.serving import sizing

    curve, server, slots, load, limits, trial, most = asked
    match what:
        case Search.RATE:
            return sizing.highest_rate(curve, server.of(slots), load, limits, trial=trial)
        case Search.SLOTS:
            return sizing.smallest_slots(curve, server.of, load, limits, most=most, trial=trial)
        case Search.MACHINES:
            return sizing.smallest_machines(curve, server.of(slots), load, limits, most=most, trial=trial)
