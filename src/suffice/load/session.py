"""One run from the user's wishes to its result: look at the server, send the load, sum it up."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import signal
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from suffice import __version__
from suffice.errors import UsageError
from suffice.load.probe import Probe, probe
from suffice.load.prompts import file_asks, longest_length, made_prompts, prompts_of
from suffice.load.result import LoadResult, LoadSettings
from suffice.load.runner import LoadRun, LoadRunner, new_client
from suffice.load.settings import Loop
from suffice.load.trace import load_trace, trace_asks
from suffice.model.load_checks import check_server, doubts, with_early_first_text
from suffice.model.load_metrics import Limits, Window, attainment, keeps_to, summarize
from suffice.model.load_ramp import ramp_parts
from suffice.model.load_request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from suffice.load.endpoint import Endpoint
    from suffice.load.settings import Ask, LoadPlan
    from suffice.model.demand import Lengths
    from suffice.model.load_checks import ClientCheck
    from suffice.model.load_metrics import Attainment
    from suffice.model.load_ramp import RampPart

_WORD_TOKENS: Final = 2  # most tokens of a made word
_BYTES_PER_TOKEN: Final = 2  # English has four or five to a token, code and other scripts two or three
_TEMPLATE_TOKENS: Final = 128  # what a chat template may add
_FREE_ANSWER_TOKENS: Final = 2000  # room for an answer that may be as long as the model likes
_FEW_ROUNDS: Final = 2  # requests per user below which a closed loop has no steady state


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is asked: the user's prompts, a trace's, or made ones of a length.

    ``prompt_lengths`` and ``output_lengths``: made prompts and their answers have lengths drawn from these, instead of one.
    """

    prompt_tokens: int = 256
    output_tokens: int | None = 64
    prompt_lengths: Lengths | None = None
    output_lengths: Lengths | None = None
    shared_prefix: int = 0
    prompts: Path | None = None
    trace: Path | None = None
    trace_speed: float = 1.0
    exact_length: bool = True
    temperature: float | None = None

    @property
    def made(self) -> bool:
        """Whether prompts are made up, so that no two of them begin alike."""
        return self.prompts is None

    def words(self, seed: int) -> str:
        """Where prompts come from, for the record."""
        if self.prompts is not None:
            return f"the file {self.prompts.name}, in order"
        kind = f"lengths of the trace {self.trace.name}" if self.trace is not None else f"{self.prompt_tokens} words"
        if self.prompt_lengths is not None and self.trace is None:
            kind = f"{self.prompt_lengths.p50:g} words (P95 {self.prompt_lengths.p95:g})"
        return f"made with seed {seed}, {kind}, {self.shared_prefix or 'no'} words shared"


def run_session(
    plan: LoadPlan, content: Content, endpoint: Endpoint, limits: Limits, progress: Callable[[str], None]
) -> LoadResult:
    """Run a plan against a server.

    Raises:
        UsageError: files that cannot be used, nobody there, or access refused; once the load has begun nothing is raised.
    """
    salt = secrets.token_hex(4)  # a second run with the same seed must not meet its own prompts in the server's cache
    plan, asks, arrivals = _work(plan, content, f"{plan.seed} {salt}")
    started_at = datetime.now(UTC).isoformat(timespec="seconds")
    found, run = asyncio.run(_run(plan, content, endpoint, asks, arrivals, progress))
    settings = LoadSettings(
        url=endpoint.shown,
        api=endpoint.api,
        model=found.endpoint.model,
        prompts=content.words(plan.seed),
        prompt_salt=salt,
        prompt_tokens=content.prompt_tokens if content.made and content.trace is None else None,
        output_tokens=content.output_tokens,
        shared_prefix=content.shared_prefix,
        accepted=found.accepted,
        temperature=content.temperature,
        keep_alive=endpoint.keep_alive,
        plan=plan,
        limits=limits,
    )
    unique = content.made and not content.shared_prefix and not _shares_blocks(content)
    return summed_up(run, found, settings, started_at, unique=unique)


def _shares_blocks(content: Content) -> bool:
    """Whether prompts of a trace are told to begin alike."""
    return content.trace is not None and any(arrival.blocks for arrival in load_trace(content.trace))


def _work(plan: LoadPlan, content: Content, seed: str) -> tuple[LoadPlan, Iterator[Ask], list[float] | None]:
    """The plan with its end, the requests, and the arrival times of a trace."""
    if content.trace is None:
        return plan, content_asks(content, seed), None
    if content.prompts is not None:
        raise UsageError("--trace and --prompts contradict each other: a trace decides the lengths of its prompts")
    arrivals = load_trace(content.trace)
    times = [arrival.at_s / content.trace_speed for arrival in arrivals]
    if plan.duration_s is not None:
        times = [at_s for at_s in times if at_s < plan.duration_s]
    if plan.requests is not None:
        times = times[: plan.requests + plan.warm_up]
    plan = replace(plan, requests=max(1, len(times) - plan.warm_up))
    return plan, trace_asks(arrivals, seed), times


def content_asks(content: Content, seed: str) -> Iterator[Ask]:
    """Endless requests: those of a file, in order and again, or made ones."""
    if content.prompts is not None:
        return prompts_of(content.prompts, content.output_tokens)
    lengths = (content.prompt_lengths or content.prompt_tokens, content.output_lengths or content.output_tokens)
    return made_prompts(*lengths, seed, content.shared_prefix)


def longest_exchange(content: Content, plan: LoadPlan | None = None) -> int:
    """Tokens of the longest prompt that will be sent and of its answer, by a cautious guess: what a slot of a server needs.

    ``plan`` None: no plan ends the requests, and all of a file or of a trace count.
    Made words are taken for two tokens each, texts of the user's for one token in two bytes.

    Raises:
        UsageError: a file that cannot be used.
    """
    if content.trace is None and content.prompts is None:
        prompt = max(content.prompt_tokens, longest_length(content.prompt_lengths))
        output = max(content.output_tokens or _FREE_ANSWER_TOKENS, longest_length(content.output_lengths))
        return _WORD_TOKENS * prompt + output + _TEMPLATE_TOKENS
    if plan is not None:
        plan, asks, times = _work(plan, content, "sizes")
        most = len(times) if times is not None else plan.warm_up + plan.requests if plan.requests else None
    elif content.prompts is not None:
        asks, most = content_asks(content, "sizes"), None
    else:
        raise UsageError("a trace needs a plan")
    if content.prompts is not None:
        asks = iter(file_asks(content.prompts, content.output_tokens))
    return max(_exchange_tokens(ask) for ask in itertools.islice(asks, most)) + _TEMPLATE_TOKENS


def _exchange_tokens(ask: Ask) -> int:
    output = ask.output_tokens or _FREE_ANSWER_TOKENS
    if ask.prompt_tokens is not None:
        return _WORD_TOKENS * ask.prompt_tokens + output
    texts = [ask.prompt or ""] + [message["content"] for message in ask.messages]
    size = sum(len(text.encode("utf-8", errors="replace")) for text in texts)
    return -(-size // _BYTES_PER_TOKEN) + _TEMPLATE_TOKENS * len(ask.messages) + output


async def _run(
    plan: LoadPlan,
    content: Content,
    endpoint: Endpoint,
    asks: Iterator[Ask],
    arrivals: list[float] | None,
    progress: Callable[[str], None],
) -> tuple[Probe, LoadRun]:
    first = next(asks)  # a file that cannot be used is found before the server is bothered
    progress(f"looking at {endpoint.shown}")
    async with new_client(endpoint, plan.connect_timeout_s) as client:
        found = await probe(client, endpoint, plan.timeout_s, exact_length=content.exact_length)
    runner = LoadRunner(plan, found.endpoint, found.accepted, content.temperature)
    with interruptible(runner.stop):
        run = await runner.run(
            itertools.chain((first,), asks), lambda sent, ended: progress(f"{sent} sent, {ended} ended"), arrivals
        )
    return found, run


@contextmanager
def interruptible(stop: Callable[[], None]) -> Iterator[None]:
    """Within this the first Ctrl-C calls ``stop``; a second one is Python's own. Needs a running event loop."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        loop.remove_signal_handler(signal.SIGINT)
        stop()

    with suppress(NotImplementedError, ValueError, RuntimeError):  # Windows, or not the main thread
        loop.add_signal_handler(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        with suppress(NotImplementedError, ValueError, RuntimeError):
            loop.remove_signal_handler(signal.SIGINT)


def summed_up(run: LoadRun, found: Probe, settings: LoadSettings, started_at: str, *, unique: bool) -> LoadResult:
    """The result of a run."""
    window = Window(from_ns=run.sending_from_ns, until_ns=run.sending_until_ns, unsteady=_unsteady(settings.plan, run))
    client = run.client_check
    return LoadResult(
        suffice_version=__version__,
        started_at=started_at,
        settings=settings,
        summary=summarize(run.rows, settings.limits, window),
        client=client,
        server=check_server(run.rows),
        warnings=(*found.warnings, *doubts(run.rows, prompts_are_unique=unique)),
        interrupted=run.interrupted,
        ended_early=run.ended_early,
        probe_rows=found.rows,
        rows=run.rows,
        ramp=_ramp(run, settings),
        in_spite=_in_spite(run, client, settings.limits),
    )


def _in_spite(run: LoadRun, client: ClientCheck, limits: Limits) -> Attainment | None:
    """The attempts that kept the limits in spite of a late client; None when it kept up, sent too little, or there are no limits."""
    if not client.is_bottleneck or client.sent_too_little or not limits.given:
        return None
    pairs = zip(run.rows, with_early_first_text(run.rows, client), strict=True)
    worst = [early if keeps_to(row, limits) else row for row, early in pairs]
    return attainment([row for row in worst if not row.warm_up and row.outcome is not Outcome.INTERRUPTED], limits)


def _ramp(run: LoadRun, settings: LoadSettings) -> tuple[RampPart, ...]:
    plan = settings.plan
    if plan.ramp_to_per_s is None or plan.rate_per_s is None or plan.duration_s is None:
        return ()
    return ramp_parts(run.rows, (plan.rate_per_s, plan.ramp_to_per_s), plan.duration_s, settings.limits)


def _unsteady(plan: LoadPlan, run: LoadRun) -> str | None:
    """Why the window is not a steady state; None when nothing speaks against it."""
    if plan.ramp_to_per_s is not None:
        return "the rate changed all the time"
    measured = sum(not row.warm_up for row in run.rows)
    if run.sending_until_ns <= run.sending_from_ns:
        return "fewer than two measured requests: there are no rates"
    if plan.loop is Loop.CLOSED and plan.concurrency is not None:
        if plan.warm_up < plan.concurrency:
            return "the warm-up is shorter than one request a user: the rates include the start"
        if measured < _FEW_ROUNDS * plan.concurrency:
            return "fewer than two measured requests a user: the rates are those of a start"
    return None
