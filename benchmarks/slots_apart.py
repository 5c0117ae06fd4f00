"""Does llama.cpp's server read the weights twice for two generating slots with an idle one between them?

Three requests take the three slots of a fresh server, one after the other; the short one ends, and two go on. A small request has used slot 2
before, so that they take the slots 1, 0 and 2 in this order: the long ones are neighbours when the short one came second, and apart when it
came first. Printed are the times between chunks of the two that go on, and what the simulation
takes for them: one step of two sequences, or two steps of one.

    python benchmarks/slots_apart.py MODEL.gguf [--threads 1] [--rounds 5]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.load.endpoint import body_of, endpoint_of
from suffice.load.probe import probe
from suffice.load.prompts import made_prompts
from suffice.load.request import Exchange
from suffice.load.runner import new_client
from suffice.load.settings import Accepted, Api
from suffice.load.spawn import spawned_server
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings
from suffice.stats.intervals import median
from suffice.units import MILLISECONDS_PER_SECOND, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    import httpx

    from suffice.load.endpoint import Endpoint
    from suffice.model.load_request import RequestRow

PROMPT_TOKENS: Final = 8
LONG: Final = 90
SHORT: Final = 30
BETWEEN_S: Final = 0.4
SETTLE_NS: Final = NANOSECONDS_PER_SECOND // 20  # after the end of the short one


async def answer(client: httpx.AsyncClient, endpoint: Endpoint, tokens: int) -> RequestRow:
    """One request."""
    ask = next(made_prompts(PROMPT_TOKENS, tokens, str(time.time()), 0))
    exchange = Exchange(0, 0, warm_up=False, scheduled_ns=None)
    return await exchange.run(client, endpoint, body_of(ask, endpoint, Accepted(), 0.0), 600.0)


async def gap_s(url: str, *, short_first: bool) -> float:
    """Seconds between chunks of the two long answers after the short one has ended."""
    endpoint, _ = endpoint_of(url, Api.COMPLETIONS, None, None, keep_alive=False)
    async with new_client(endpoint, 10.0) as client:
        found = await probe(client, endpoint, 600.0, exact_length=True)
        tasks = []
        for tokens in (SHORT, LONG, LONG) if short_first else (LONG, SHORT, LONG):
            tasks.append((tokens, asyncio.create_task(answer(client, found.endpoint, tokens))))
            await asyncio.sleep(BETWEEN_S)
        rows = [(tokens, await task) for tokens, task in tasks]
    ended_ns = next(row.chunk_ns[-1] for tokens, row in rows if tokens == SHORT) + SETTLE_NS
    last_ns = min(row.chunk_ns[-1] for tokens, row in rows if tokens == LONG)
    gaps = [
        (after - before) / NANOSECONDS_PER_SECOND
        for tokens, row in rows
        for before, after in pairwise(row.chunk_ns)
        if tokens == LONG and before > ended_ns and after < last_ns
    ]
    return median(gaps)


def steps_s(model: Path, threads: int) -> tuple[float, float]:
    """One step of two sequences, and two steps of one, in process."""
    settings = EngineSettings(n_ctx=256, n_threads=threads, n_threads_batch=threads, n_sequences=2)
    with find_engine(library=None, prefer="xllamacpp").open(model, settings) as session:
        session.prefill(LONG)
        session.spread(2)
        both = median(session.decode(12, batch=2)[1:])
        session.rewind(LONG)
        return both, 2 * median(session.decode(12)[1:])


def main() -> None:
    """Print a line a round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print("| round | neighbours ms | in process, one step of two | apart ms | in process, two steps of one |")
    print("|---|---|---|---|---|")
    for number in range(asked.rounds):
        gaps = []
        for short_first in (False, True):
            with spawned_server(asked.model, slots=3, context_per_slot=512, threads=asked.threads) as url:
                gaps.append(asyncio.run(gap_s(url, short_first=short_first)) * MILLISECONDS_PER_SECOND)
        both, twice = (seconds * MILLISECONDS_PER_SECOND for seconds in steps_s(asked.model, asked.threads))
        print(f"| {number + 1} | {gaps[0]:.1f} | {both:.1f} | {gaps[1]:.1f} | {twice:.1f} |", flush=True)


if __name__ == "__main__":
    main()
