"""Runs of the load generator against the mock server, in one event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from suffice.load.endpoint import endpoint_of
from suffice.load.mock_server import MockServer, Served
from suffice.load.prompts import made_prompts
from suffice.load.runner import LoadRun, LoadRunner
from suffice.load.settings import Accepted, Api, LoadPlan, Loop
from suffice.model.load_metrics import Limits, LoadSummary, Window, summarize
from suffice.model.load_request import Outcome, RequestRow, TokenSource
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from suffice.load.mock_script import Answer
    from suffice.load.mock_server import MockRequest


def plan(**changes: Any) -> LoadPlan:  # noqa: ANN401  # any field of a plan
    """One user, one request, no warm-up, unless changed."""
    fields: dict[str, Any] = {"loop": Loop.CLOSED, "concurrency": 1, "requests": 1, "timeout_s": 5.0}
    if changes.get("loop", Loop.CLOSED) is not Loop.CLOSED:
        del fields["concurrency"]
    return LoadPlan(**{**fields, **changes})


def run_against(
    script: Callable[[MockRequest], Answer],
    the_plan: LoadPlan | None = None,
    *,
    meanwhile: Callable[[MockServer, LoadRunner], Any] | None = None,
    arrivals: Iterable[float] | None = None,
    api: Api = Api.CHAT,
    key: str | None = None,
) -> tuple[LoadRun, list[Served]]:
    """A plan's run against a script; ``meanwhile`` is a coroutine function that may disturb it."""

    async def work() -> tuple[LoadRun, list[Served]]:
        async with MockServer(script) as server:
            endpoint, _ = endpoint_of(server.url, api, "mock", key)
            runner = LoadRunner(the_plan or plan(), endpoint, Accepted())
            disturbance = None if meanwhile is None else asyncio.ensure_future(meanwhile(server, runner))
            run = await runner.run(made_prompts(16, 8, seed=1), lambda _sent, _ended: None, arrivals)
            if disturbance is not None:
                await disturbance
            return run, server.served

    return asyncio.run(work())


def one_row(answer: Answer, *, api: Api = Api.CHAT, key: str | None = None, timeout_s: float = 5.0) -> RequestRow:
    """What the client makes of one answer."""
    run, _ = run_against(lambda _: answer, plan(timeout_s=timeout_s), api=api, key=key)
    return run.rows[0]


def row(index: int = 0, **changes: Any) -> RequestRow:  # noqa: ANN401  # any field of a row
    """A success: started at 1 s, texts at 2, 3 and 4 s with one event each, three tokens by usage."""
    seconds = NANOSECONDS_PER_SECOND
    fields: dict[str, Any] = {
        "index": index,
        "warm_up": False,
        "outcome": Outcome.SUCCESS,
        "dispatched_ns": seconds,
        "start_ns": seconds,
        "end_ns": 5 * seconds,
        "first_answer_ns": 2 * seconds,
        "chunk_ns": (2 * seconds, 3 * seconds, 4 * seconds),
        "chunk_events": (1, 1, 1),
        "output_tokens": 3,
        "token_source": TokenSource.USAGE,
    }
    return RequestRow(**{**fields, **changes})


def window(from_s: float, until_s: float) -> Window:
    """A steady window in seconds."""
    return Window(
        from_ns=round(from_s * NANOSECONDS_PER_SECOND), until_ns=round(until_s * NANOSECONDS_PER_SECOND), unsteady=None
    )


def summary_of(rows: Iterable[RequestRow], limits: Limits | None = None) -> LoadSummary:
    """The summary over a window of ten seconds."""
    return summarize(tuple(rows), limits or Limits(), window(0, 10))
