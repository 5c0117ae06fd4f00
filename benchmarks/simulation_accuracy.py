"""Simulated against measured: a real llama.cpp server and its simulation under the same arrivals and lengths.

In each round every load is sent to the server once, in a short block; before and after each block the service curve is measured in process,
with the same engine and threads, while the server idles. A block is simulated with the curve of the two passes around it, from the
arrival times, prompt lengths and answer lengths that were really sent; percentiles are over all blocks of a load. So a machine that slows
down for a minute slows down both. The last column says how far the server differs from itself: even rounds against odd ones.

    python benchmarks/simulation_accuracy.py MODEL.gguf [--threads 1] [--slots 4] [--rounds 6] [--requests 24]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from suffice.load.endpoint import endpoint_of
from suffice.load.probe import probe
from suffice.load.prompts import made_prompts
from suffice.load.runner import LoadRun, LoadRunner, new_client
from suffice.load.settings import Api, Ask, LoadPlan, Loop
from suffice.load.spawn import spawned_server
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.serving.curve import ServiceCurve, curve_of_points
from suffice.serving.load import ClosedLoop, EmpiricalLength, GivenArrivals, Load
from suffice.serving.schedulers import LlamaCppScheduler
from suffice.serving.simulate import simulate
from suffice.serving.summary import nearest_rank
from suffice.serving.surface import Point
from suffice.units import MILLISECONDS_PER_SECOND, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from suffice.load.endpoint import Endpoint
    from suffice.measure.engine.seam import Session

CONTEXT: Final = 1024  # tokens of each slot
STEPS: Final = 4  # of a decode point, after one that wakes the threads
CHUNKS: Final = (2, 4, 8, 16, 32, 64, 128)
DEEP_CHUNKS: Final = (16, 64)  # behind a filled cache
SPREAD: Final = 2.5  # P95 over P50 of prompts and answers
Z95: Final = 1.6448536269514722
PERCENTS: Final = (50.0, 99.0)
LATENCY_BAR: Final = 0.15
THROUGHPUT_BAR: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One load, sent once: what the server did, and what the simulation says of the same requests."""

    measured: dict[str, list[float]]  # ttft_s, tpot_s
    simulated: dict[str, list[float]]
    tokens: int
    measured_s: float
    simulated_s: float
    failed: int


@dataclass(slots=True)
class Passes:
    """Seconds of one visit to every point of the grid."""

    decode: dict[tuple[int, int], float] = field(default_factory=dict)  # (batch, depth)
    prefill: dict[tuple[int, int], float] = field(default_factory=dict)  # (tokens, depth)


def visit(session: Session, slots: int, depths: Sequence[int]) -> Passes:
    """All points once, in an order of chance."""
    passes = Passes()
    decode = [(batch, depth) for batch in range(1, slots + 1) for depth in depths]
    prefill = [*((tokens, 0) for tokens in CHUNKS), *((tokens, depths[-1]) for tokens in DEEP_CHUNKS)]
    for depth in random.sample([0, *depths], len(depths) + 1):
        session.prefill(max(1, depth))
        session.rewind(depth)
        for tokens, _ in random.sample(own := [p for p in prefill if p[1] == depth], len(own)):
            passes.prefill[tokens, depth] = session.extend(tokens)[0]
            session.rewind(depth)
        session.spread(slots)
        for batch, _ in random.sample(own := [p for p in decode if p[1] == depth], len(own)):
            passes.decode[batch, depth] = fmean(session.decode(STEPS + 1, batch=batch)[1:])
            session.rewind(depth)
    return passes


def curve_of(several: Sequence[Passes]) -> ServiceCurve:
    """The curve through the means of several visits.

    Means, because the server was disturbed as often as they were: medians would be of a quieter machine than the one it ran on.
    """

    def points(of: Sequence[dict[tuple[int, int], float]]) -> list[Point]:
        return [Point(size=key[0], depth=key[1], seconds=fmean(one[key] for one in of)) for key in of[0]]

    return curve_of_points(points([one.decode for one in several]), points([one.prefill for one in several]))


def lengths(count: int, p50: int, most: int, chance: random.Random) -> list[int]:
    """Log-normal lengths."""
    sigma = math.log(SPREAD) / Z95
    return [max(2, min(most, round(p50 * math.exp(sigma * chance.gauss(0, 1))))) for _ in range(count)]


def asks(count: int, prompt: int, output: int, seed: str) -> Iterator[Ask]:
    """Requests of varied lengths that share nothing."""
    chance = random.Random(seed)  # noqa: S311  # lengths, no secret
    prompts, outputs = lengths(count, prompt, CONTEXT // 2, chance), lengths(count, output, CONTEXT // 4, chance)
    for index, (prompt_tokens, output_tokens) in enumerate(zip(prompts, outputs, strict=True)):
        made = next(made_prompts(prompt_tokens, output_tokens, f"{seed} {index}", 0))
        yield Ask(
            index=index,
            prompt=made.prompt,
            messages=made.messages,
            prompt_tokens=prompt_tokens,
            output_tokens=output_tokens,
        )


def send(plan: LoadPlan, endpoint: Endpoint, requests: Iterator[Ask]) -> LoadRun:
    """One block."""

    async def run() -> LoadRun:
        async with new_client(endpoint, plan.connect_timeout_s) as client:
            found = await probe(client, endpoint, plan.timeout_s, exact_length=True)
        runner = LoadRunner(plan, found.endpoint, found.accepted, None)
        return await runner.run(requests, lambda _sent, _ended: None)

    return asyncio.run(run())


def block_of(run: LoadRun, plan: LoadPlan, curve: ServiceCurve, slots: int) -> Block:
    """What was measured, beside a simulation of the very same requests."""
    rows = [row for row in run.rows if row.succeeded and row.output_tokens and row.prompt_tokens and row.start_ns]
    if plan.loop is Loop.CLOSED:
        arrivals: ClosedLoop | GivenArrivals = ClosedLoop(users=plan.concurrency or 1)
    else:
        rows.sort(key=lambda row: row.start_ns or 0)
        first_ns = rows[0].start_ns or 0
        arrivals = GivenArrivals(
            times_s=tuple(((row.start_ns or 0) - first_ns) / NANOSECONDS_PER_SECOND for row in rows)
        )
    load = Load(
        arrivals=arrivals,
        prompt=EmpiricalLength(
            tokens=tuple((row.prompt_tokens or 1) - (row.cached_tokens or 0) for row in rows), in_order=True
        ),
        output=EmpiricalLength(tokens=tuple(row.output_tokens or 1 for row in rows), in_order=True),
        requests=len(rows),
    )
    simulated = simulate(curve, LlamaCppScheduler(slots=slots, context_tokens=slots * CONTEXT), load)
    start_ns = min(row.start_ns or 0 for row in rows)
    return Block(
        measured={
            "ttft": [row.ttft_s for row in rows if row.ttft_s is not None],
            "tpot": [row.tpot_s for row in rows if row.tpot_s is not None],
        },
        simulated={
            "ttft": simulated.ttft_s.tolist(),
            "tpot": simulated.tpot_s[~np.isnan(simulated.tpot_s)].tolist(),
        },
        tokens=sum(row.output_tokens or 0 for row in rows),
        measured_s=(max(row.chunk_ns[-1] for row in rows) - start_ns) / NANOSECONDS_PER_SECOND,
        simulated_s=simulated.end_s,
        failed=len(run.rows) - len(rows),
    )


def plans(slots: int, capacity_per_s: float, requests: int, number: int) -> dict[str, LoadPlan]:
    """Five loads from idle to saturation."""

    def closed(users: int, count: int) -> LoadPlan:
        return LoadPlan(loop=Loop.CLOSED, concurrency=users, requests=count)

    def opened(share: float, count: int) -> LoadPlan:
        return LoadPlan(loop=Loop.OPEN, rate_per_s=share * capacity_per_s, requests=count, seed=number)

    return {
        "1 user": closed(1, requests // 2),
        "Poisson, 40 % of the most": opened(0.4, requests),
        "Poisson, 70 % of the most": opened(0.7, requests),
        f"{slots} users": closed(slots, requests),
        f"{2 * slots} users": closed(2 * slots, requests),
    }


def capacity(curve: ServiceCurve, slots: int, prompt: int, output: int) -> float:
    """Requests per second of a queue that never ends."""
    chance = random.Random(0)  # noqa: S311  # lengths, no secret
    load = Load(
        arrivals=ClosedLoop(users=2 * slots),
        prompt=EmpiricalLength(tokens=tuple(lengths(400, prompt, CONTEXT // 2, chance))),
        output=EmpiricalLength(tokens=tuple(lengths(400, output, CONTEXT // 4, chance))),
        requests=400,
    )
    run = simulate(curve, LlamaCppScheduler(slots=slots, context_tokens=slots * CONTEXT), load)
    return load.requests / run.end_s


def pooled(blocks: Sequence[Block], side: str, metric: str, percent: float) -> float:
    """A percentile over all requests of several blocks."""
    values = np.array([value for block in blocks for value in getattr(block, side)[metric]])
    return nearest_rank(values, len(values), percent)


def tokens_per_second(blocks: Sequence[Block], side: str) -> float:
    """Tokens over the time of the blocks."""
    seconds = [block.measured_s if side == "measured" else block.simulated_s for block in blocks]
    return sum(block.tokens for block in blocks) / math.fsum(seconds)


def row_of(name: str, blocks: Sequence[Block]) -> tuple[list[str], dict[str, Any]]:
    """A line of the table for each figure of a load, and all of them as data."""
    figures: dict[str, Any] = {"load": name, "requests": sum(len(block.measured["ttft"]) for block in blocks)}
    figures["failed"] = sum(block.failed for block in blocks)
    lines = []
    halves = (blocks[0::2], blocks[1::2])
    cases = [(metric, percent) for metric in ("ttft", "tpot") for percent in PERCENTS]
    for metric, percent in cases:
        measured, simulated = (pooled(blocks, side, metric, percent) for side in ("measured", "simulated"))
        apart = pooled(halves[0], "measured", metric, percent) / pooled(halves[1], "measured", metric, percent) - 1
        label = f"{metric.upper()} P{percent:.0f} ms"
        scale = MILLISECONDS_PER_SECOND
        lines.append(_line(name, label, measured * scale, simulated * scale, LATENCY_BAR, apart))
        figures[f"{metric}_p{percent:.0f}_s"] = [measured, simulated, apart]
    measured, simulated = (tokens_per_second(blocks, side) for side in ("measured", "simulated"))
    apart = tokens_per_second(halves[0], "measured") / tokens_per_second(halves[1], "measured") - 1
    lines.append(_line(name, "tokens/s", measured, simulated, THROUGHPUT_BAR, apart))
    figures["output_tokens_per_second"] = [measured, simulated, apart]
    return lines, figures


def _line(name: str, label: str, measured: float, simulated: float, bar: float, apart: float) -> str:
    error = simulated / measured - 1
    within = "yes" if abs(error) <= bar else "no"
    return f"| {name} | {label} | {measured:.1f} | {simulated:.1f} | {error:+.1%} | {within} | {apart:+.1%} |"


def main() -> None:
    """Measure, simulate, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--requests", type=int, default=24, help="of a block")
    parser.add_argument("--prompt", type=int, default=32, help="median tokens")
    parser.add_argument("--output", type=int, default=24, help="median tokens")
    parser.add_argument("--engine", default="xllamacpp")
    parser.add_argument("--out", type=Path, help="all figures as JSON")
    asked = parser.parse_args()
    engine = find_engine(library=None, prefer=asked.engine)
    depths = (asked.prompt, 4 * asked.prompt)
    settings = EngineSettings(
        n_ctx=CONTEXT, n_threads=asked.threads, n_threads_batch=asked.threads, n_sequences=asked.slots
    )
    sent: dict[str, list[tuple[LoadRun, LoadPlan, list[Passes]]]] = {}
    with (
        engine.open(asked.model, settings) as session,
        spawned_server(asked.model, slots=asked.slots, context_per_slot=CONTEXT, threads=asked.threads) as url,
    ):
        endpoint, _ = endpoint_of(url, Api.COMPLETIONS, None, None, keep_alive=False)
        visit(session, asked.slots, depths)  # a warm-up
        last = visit(session, asked.slots, depths)
        most = capacity(curve_of([last]), asked.slots, asked.prompt, asked.output)
        print(
            f"{asked.model.name}, {asked.threads} threads, {asked.slots} slots, about {most:.2f} requests/s",
            file=sys.stderr,
        )
        for number in range(asked.rounds):
            for name, plan in plans(asked.slots, most, asked.requests, number).items():
                started_s = time.monotonic()
                count = plan.requests or 0
                run = send(plan, endpoint, asks(count, asked.prompt, asked.output, f"{name} {number} {time.time()}"))
                block_s = time.monotonic() - started_s
                before, last = last, visit(session, asked.slots, depths)
                sent.setdefault(name, []).append((run, plan, [before, last]))
                visit_s = time.monotonic() - started_s - block_s
                print(f"round {number + 1}: {name}: {block_s:.0f} s, curve {visit_s:.0f} s", file=sys.stderr)
    report(sent, asked)


def report(sent: dict[str, list[tuple[LoadRun, LoadPlan, list[Passes]]]], asked: argparse.Namespace) -> None:
    """The table, and all figures as a file."""
    print(f"{asked.model.name}, {asked.threads} threads, {asked.slots} slots\n")
    print("| load | figure | measured | simulated | difference | within the bar | server against itself |")
    print("|---|---|---|---|---|---|---|")
    loads = []
    for name, several in sent.items():
        blocks = [block_of(run, plan, curve_of(passes), asked.slots) for run, plan, passes in several]
        lines, figures = row_of(name, blocks)
        print("\n".join(lines), flush=True)
        loads.append(figures)
    if asked.out is not None:
        document = {"model": asked.model.name, "threads": asked.threads, "slots": asked.slots, "loads": loads}
        asked.out.write_text(json.dumps(document, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
