"""How exact ``suffice load`` is: known times of the mock server, in a process of its own, against what the client says.

The mock notes when it really wrote each event, by the clock that the client reads as well (CLOCK_MONOTONIC is the machine's), so
that the mock's own lateness is told from the client's error. Prints one row a load, each error as its median with the tenth
percentile in brackets: what is left of it when nothing else runs. A row is within the bar when the medians of the errors of TTFT,
TPOT and E2E are below 1 ms.

    python benchmarks/load_accuracy.py [--rates 10,50,100,200] [--requests 600] [--keep-alive]
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

from suffice.load.endpoint import endpoint_of
from suffice.load.mock_script import Pace
from suffice.load.mock_server import MockServer, precise_loop
from suffice.load.prompts import made_prompts
from suffice.load.runner import LoadRun, LoadRunner
from suffice.load.settings import Accepted, Api, Arrivals, LoadPlan, Loop
from suffice.model.load_checks import check_client
from suffice.stats.intervals import median, quantile
from suffice.units import MILLISECONDS_PER_SECOND, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest, Served
    from suffice.model.load_request import RequestRow

SERVICE_S = 0.02  # of the server with one slot
PACE = Pace(ttft_s=0.05, gap_s=0.01, tokens=16)
BAR_S = 0.001


def one_slot() -> Callable[[MockRequest], Answer]:
    """A script of a server that serves one request at a time, each for SERVICE_S: M/D/1 under Poisson arrivals."""
    free_at_s = 0.0

    def script(_: MockRequest) -> Answer:
        nonlocal free_at_s
        now_s = time.perf_counter()
        free_at_s = max(free_at_s, now_s) + SERVICE_S
        return Pace(ttft_s=free_at_s - now_s, tokens=1).answer()

    return script


def serve(channel: Connection, core: int | None, *, queue: bool = False) -> None:
    """The child: a mock server; sends its address, then what it did, by its prompt."""
    if core is not None:
        os.sched_setaffinity(0, {core})

    async def work() -> None:
        answer = PACE.answer()
        async with MockServer(one_slot() if queue else lambda _: answer) as server:
            channel.send(server.url)
            await asyncio.get_running_loop().run_in_executor(None, channel.recv)
            channel.send([facts(item) for item in server.served] + [os.times().user + os.times().system])

    with asyncio.Runner(loop_factory=precise_loop) as runner:
        runner.run(work())


def facts(item: Served) -> tuple[str, int, int, int]:
    """Prompt, time of reading, of the first text, of the last text."""
    return item.request.body["messages"][0]["content"], item.read_ns, item.wrote_ns[1], item.wrote_ns[-2]


def load(url: str, rate: float, requests: int, *, keep_alive: bool) -> tuple[LoadRun, list[str]]:
    """One run, and its prompts by index."""
    prompts: list[str] = []

    async def work() -> LoadRun:
        endpoint, _ = endpoint_of(url, Api.CHAT, "mock", keep_alive=keep_alive)
        plan = LoadPlan(loop=Loop.OPEN, rate_per_s=rate, requests=requests, warm_up=10, arrivals=Arrivals.POISSON)
        asks = made_prompts(16, PACE.tokens, seed=round(rate))

        def kept() -> Any:  # noqa: ANN401  # a generator
            for ask in asks:
                prompts.append(ask.prompt or "")
                yield ask

        return await LoadRunner(plan, endpoint, Accepted()).run(kept(), lambda _sent, _ended: None)

    return asyncio.run(work()), prompts


def row_of(rate: float, run: LoadRun, prompts: list[str], served: dict[str, tuple[int, int, int]]) -> str:
    """Errors in ms: the client's time minus the script's, and minus what the mock really did."""
    rows = [row for row in run.rows if row.succeeded and not row.warm_up]
    script, real = errors_of_script(rows), errors_of_server(rows, prompts, served)
    check = check_client(run.rows, run.client.lags_s, run.client.cpu_share)
    cells = [
        f"{rate:.0f}",
        f"{check.achieved_rate_per_s or 0:.1f}",
        str(len(rows)),
        str(len(run.rows) - 10 - len(rows)),
    ]
    cells += [in_ms(values) for values in (*script, *real)]
    cells += [
        f"{(check.loop_lag_p99_s or 0) * MILLISECONDS_PER_SECOND:.1f}",
        f"{(check.send_lag_p99_s or 0) * MILLISECONDS_PER_SECOND:.1f}",
        f"{check.cpu_share:.0%}",
        "yes" if all(abs(median(values)) < BAR_S for values in script) else "no",
    ]
    return "| " + " | ".join(cells) + " |"


def in_ms(values: list[float]) -> str:
    """Median and tenth percentile."""
    return f"{median(values) * MILLISECONDS_PER_SECOND:+.2f} ({quantile(values, 0.1) * MILLISECONDS_PER_SECOND:+.2f})"


def errors_of_script(rows: list[RequestRow]) -> tuple[list[float], list[float], list[float]]:
    """TTFT, TPOT and E2E minus the script's times."""
    whole_s = PACE.ttft_s + (PACE.tokens - 1) * PACE.gap_s
    return (
        [(row.ttft_s or 0) - PACE.ttft_s for row in rows],
        [row.tpot_s - PACE.gap_s for row in rows if row.tpot_s is not None],
        [(row.e2e_s or 0) - whole_s for row in rows],
    )


def errors_of_server(
    rows: list[RequestRow], prompts: list[str], served: dict[str, tuple[int, int, int]]
) -> tuple[list[float], list[float]]:
    """TTFT and E2E minus the times that the server needed by its own clock."""
    ttft, e2e = [], []
    for row in rows:
        read_ns, first_ns, last_ns = served[prompts[row.index]]
        ttft.append((row.ttft_s or 0) - (first_ns - read_ns) / NANOSECONDS_PER_SECOND)
        e2e.append((row.e2e_s or 0) - (last_ns - read_ns) / NANOSECONDS_PER_SECOND)
    return ttft, e2e


def queue_table(requests: int, core: int | None, *, keep_alive: bool) -> None:
    """Mean time to first token from the schedule against the theory of M/D/1: S + rho S / (2 (1 - rho))."""
    print("\n| rho | requests | mean TTFT from the schedule ms | M/D/1 ms |")
    print("|---|---|---|---|")
    for rho in (0.3, 0.6, 0.8):
        ours, theirs = get_context("spawn").Pipe()
        child = get_context("spawn").Process(target=serve, args=(theirs, core), kwargs={"queue": True})
        child.start()
        run, _ = load(ours.recv(), rho / SERVICE_S, requests, keep_alive=keep_alive)
        ours.send("done")
        ours.recv()
        child.join()
        waits = [row.effective_ttft_s for row in run.rows if row.effective_ttft_s is not None]
        theory_s = SERVICE_S + rho * SERVICE_S / (2 * (1 - rho))
        seen_ms = sum(waits) / len(waits) * MILLISECONDS_PER_SECOND
        print(f"| {rho} | {len(waits)} | {seen_ms:.2f} | {theory_s * MILLISECONDS_PER_SECOND:.2f} |", flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rates", default="10,50,100,200")
    parser.add_argument("--requests", type=int, default=600)
    parser.add_argument(
        "--queue-requests", type=int, default=2000, help="of the comparison with M/D/1; 0: leave it out"
    )
    parser.add_argument("--keep-alive", action="store_true")
    asked = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) > 1:
        os.sched_setaffinity(0, {cores[0]})  # the client has one core, the mock another
    print(
        "| req/s | sent | answers | failed | TTFT error ms | TPOT error ms | E2E error ms | TTFT vs server ms | E2E vs server ms | "
        "loop lag P99 ms | send lag P99 ms | client core | within 1 ms |"
    )
    print("|" + "---|" * 13)
    for rate in map(float, asked.rates.split(",")):
        ours, theirs = get_context("spawn").Pipe()
        child = get_context("spawn").Process(target=serve, args=(theirs, cores[1] if len(cores) > 1 else None))
        child.start()
        run, prompts = load(ours.recv(), rate, asked.requests, keep_alive=asked.keep_alive)
        ours.send("done")
        *items, cpu_s = ours.recv()
        child.join()
        print(row_of(rate, run, prompts, {prompt: tuple(times) for prompt, *times in items}), flush=True)
        span_s = (run.sending_until_ns - run.sending_from_ns) / NANOSECONDS_PER_SECOND
        print(f"  mock: {cpu_s:.1f} s of CPU in about {span_s:.1f} s", flush=True)
    if asked.queue_requests:
        queue_table(asked.queue_requests, cores[1] if len(cores) > 1 else None, keep_alive=asked.keep_alive)


if __name__ == "__main__":
    main()
