"""Sends a plan's requests and keeps what came back. Nothing is retried, nothing waits for a connection, nothing is lost."""

from __future__ import annotations

import asyncio
import ssl
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx

from suffice.errors import UsageError
from suffice.load.endpoint import body_of
from suffice.load.request import Exchange
from suffice.load.schedule import arrivals_s
from suffice.load.settings import MAX_REQUESTS, Accepted, Loop
from suffice.load.watch import ClientReadings, Watch
from suffice.load.wire import WireTransport
from suffice.loaders.files import read_small_file
from suffice.model.load_checks import HostCheck, check_client
from suffice.model.load_request import Outcome
from suffice.units import MIB, NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from suffice.load.endpoint import Endpoint
    from suffice.load.settings import Ask, LoadPlan
    from suffice.model.load_checks import ClientCheck
    from suffice.model.load_request import RequestRow

    Progress = Callable[[int, int], None]

_PROGRESS_S: Final = 1.0
_LOOK_S: Final = 0.25
_LOOK_SHARE: Final = 0.02  # of the time may go into looking: judging must not make the client late
_MOST_REFUSALS: Final = 20
_MAX_CERTIFICATES_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadRun:
    """Everything that a run brought: rows in the order in which requests were sent, those under way at an interruption included.

    ``sending_from_ns`` and ``sending_until_ns`` bound the time in which measured requests were sent.
    """

    rows: tuple[RequestRow, ...]
    client: ClientReadings
    sending_from_ns: int
    sending_until_ns: int
    ended_ns: int
    interrupted: bool
    ended_early: str | None = None
    server_is_here: bool = False

    @property
    def client_check(self) -> ClientCheck:
        """What is to be thought of the client."""
        host = HostCheck(busy_share=self.client.host_busy_share, server_is_here=self.server_is_here)
        return check_client(self.rows, self.client.lags_s, self.client.cpu_share, host)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """What every request of a run has in common."""

    client: httpx.AsyncClient
    endpoint: Endpoint
    accepted: Accepted
    timeout_s: float
    temperature: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Watcher:
    """Somebody who looks at the rows now and then and may end the sending.

    ``seen_enough`` gets all rows in the order of sending, those under way as they are, and the time of the run's clock; it runs in a
    thread. Once it says yes nothing more is sent; what is under way has ``patience_s`` to end and is then cut off.
    """

    seen_enough: Callable[[Sequence[RequestRow], int], bool]
    patience_s: float


class LoadRunner:
    """One run of a plan. ``stop`` may be called from a signal handler: sending ends and what is under way is cut off."""

    def __init__(
        self,
        plan: LoadPlan,
        endpoint: Endpoint,
        accepted: Accepted,
        temperature: float | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self._watcher = watcher
        self._ending: asyncio.Event | None = None
        self._plan = plan
        self._endpoint = endpoint
        self._accepted = accepted
        self._temperature = temperature
        self._exchanges: dict[int, Exchange] = {}
        self._rows: dict[int, RequestRow] = {}
        self._sent = 0
        self._measured_from_ns: int | None = None
        self._last_sent_ns = 0
        self._over_ns: int | None = (
            None  # when the first user of a closed loop found nothing left, or the run was interrupted
        )
        self._origin_ns = 0
        self._stopping: asyncio.Event | None = None
        self._interrupted = False
        self._refused_in_a_row = 0

    def stop(self) -> None:
        """End the run now; what came so far is kept."""
        self._interrupted = True
        if self._over_ns is None and self._origin_ns:
            self._over_ns = self._now_ns()
        if self._stopping is not None:
            self._stopping.set()

    async def run(self, asks: Iterator[Ask], progress: Progress, arrivals: Iterable[float] | None = None) -> LoadRun:
        """Send until the plan is fulfilled, and wait for what is under way, no longer than each request's time-out.

        Args:
            asks: the requests, in order; the run ends early when they run out.
            progress: told now and then how many were sent and how many have ended.
            arrivals: the arrival times of a trace, in seconds from its start; only where the plan's loop is a trace.
        """
        self._stopping, self._ending = asyncio.Event(), asyncio.Event()
        if self._interrupted:
            self._stopping.set()
        watch = Watch()
        async with new_client(self._endpoint, self._plan.connect_timeout_s) as client:
            sender = Sender(
                client=client,
                endpoint=self._endpoint,
                accepted=self._accepted,
                timeout_s=self._plan.timeout_s,
                temperature=self._temperature,
            )
            self._origin_ns = time.perf_counter_ns()
            watch.start()
            times = arrivals_s(self._plan) if arrivals is None else iter(arrivals)
            work = self._closed(sender, asks) if self._plan.loop is Loop.CLOSED else self._open(sender, asks, times)
            await self._until_done(asyncio.ensure_future(work), progress)
        readings = await watch.stop()
        return LoadRun(
            rows=tuple(self._row(index) for index in range(self._sent)),
            client=readings,
            sending_from_ns=self._measured_from_ns or 0,
            sending_until_ns=max(self._over_ns or self._last_sent_ns, self._measured_from_ns or 0),
            ended_ns=self._now_ns(),
            interrupted=self._interrupted,
            ended_early=self._ended_early(),
            server_is_here=self._endpoint.is_here,
        )

    def _ended_early(self) -> str | None:
        if self._gone:
            return f"{self._refused_in_a_row} requests in a row found no server; it seems to have gone"
        if self._sent >= MAX_REQUESTS and self._plan.requests is None:
            return f"{MAX_REQUESTS} requests were sent, the most that one run keeps"
        return None

    @property
    def _gone(self) -> bool:
        """Whether a closed loop would go on to fail as fast as it can: refusals take no time."""
        return self._plan.loop is Loop.CLOSED and self._refused_in_a_row >= max(
            _MOST_REFUSALS, 2 * (self._plan.concurrency or 0)
        )

    async def _until_done(self, work: asyncio.Future[None], progress: Progress) -> None:
        assert self._stopping is not None  # noqa: S101  # run() has just made it
        stopping = asyncio.ensure_future(self._stopping.wait())
        looking = None if self._watcher is None else asyncio.ensure_future(self._look(self._watcher))
        try:
            while not work.done() and not stopping.done():
                await asyncio.wait((work, stopping), timeout=_PROGRESS_S, return_when=asyncio.FIRST_COMPLETED)
                progress(self._sent, len(self._rows))
        finally:
            others = (stopping,) if looking is None else (stopping, looking)
            for task in (work, *others):
                task.cancel()
            await asyncio.wait((work, *others))
        for task in (work, *others):
            if not task.cancelled():
                task.result()  # a defect of ours is raised, not swallowed

    async def _look(self, watcher: Watcher) -> None:
        """Until the watcher has seen enough; then end the sending, and in the end what is still under way."""
        assert self._ending is not None  # noqa: S101  # run() has just made them
        assert self._stopping is not None  # noqa: S101
        pause_s, enough = _LOOK_S, False
        while not enough:
            await asyncio.sleep(pause_s)
            rows, now_ns = [self._row(index) for index in range(self._sent)], self._now_ns()
            enough = await asyncio.to_thread(watcher.seen_enough, rows, now_ns)
            took_s = (self._now_ns() - now_ns) / NANOSECONDS_PER_SECOND
            pause_s = max(_LOOK_S, took_s / _LOOK_SHARE)
        self._over_ns = self._over_ns or self._now_ns()
        self._ending.set()
        await asyncio.sleep(watcher.patience_s)
        self._stopping.set()

    def _row(self, index: int) -> RequestRow:
        return self._rows.get(index) or self._exchanges[index].row()

    def _now_ns(self) -> int:
        return time.perf_counter_ns() - self._origin_ns

    def _next(self, asks: Iterator[Ask], scheduled_ns: int | None) -> tuple[Exchange, Ask, int] | None:
        """The next request, entered in the books; None when the asks have run out."""
        ask = next(asks, None)
        if ask is None:
            return None
        index = self._sent
        warm_up = index < self._plan.warm_up
        exchange = Exchange(self._origin_ns, index, warm_up=warm_up, scheduled_ns=scheduled_ns)
        exchange.lengths(ask.prompt_tokens, ask.output_tokens)
        self._exchanges[index] = exchange
        self._sent += 1
        if not warm_up:
            self._last_sent_ns = self._now_ns() if scheduled_ns is None else scheduled_ns
            if self._measured_from_ns is None:
                self._measured_from_ns = self._last_sent_ns
        return exchange, ask, index

    async def _send(self, sender: Sender, entry: tuple[Exchange, Ask, int]) -> None:
        exchange, ask, index = entry
        body = body_of(ask, sender.endpoint, sender.accepted, sender.temperature)
        self._rows[index] = await exchange.run(sender.client, sender.endpoint, body, sender.timeout_s)
        del self._exchanges[index]
        refused = self._rows[index].outcome is Outcome.NO_CONNECTION
        self._refused_in_a_row = self._refused_in_a_row + 1 if refused else 0

    async def _closed(self, sender: Sender, asks: Iterator[Ask]) -> None:
        """So many users, each of whom sends the next request when the last one has ended, however it ended."""
        async with asyncio.TaskGroup() as users:
            for _ in range(self._plan.concurrency or 1):
                users.create_task(self._user(sender, asks))

    async def _user(self, sender: Sender, asks: Iterator[Ask]) -> None:
        while not self._enough():
            entry = self._next(asks, None)
            if entry is None:
                break
            await self._send(sender, entry)
        self._over_ns = self._over_ns or self._now_ns()

    def _enough(self) -> bool:
        if self._gone or self._sent >= MAX_REQUESTS or (self._ending is not None and self._ending.is_set()):
            return True
        if self._plan.requests is not None and self._sent >= self._plan.warm_up + self._plan.requests:
            return True
        if self._plan.duration_s is None or self._measured_from_ns is None:
            return False
        return self._now_ns() - self._measured_from_ns >= self._plan.duration_s * NANOSECONDS_PER_SECOND

    async def _open(self, sender: Sender, asks: Iterator[Ask], arrivals: Iterator[float]) -> None:
        """Each request at its time, whatever the server does: an answer that is late holds up nobody."""
        async with asyncio.TaskGroup() as under_way:
            for at_s in arrivals:
                scheduled_ns = round(at_s * NANOSECONDS_PER_SECOND)
                await self._sleep_until(scheduled_ns)
                if self._ending is not None and self._ending.is_set():
                    return
                entry = self._next(asks, scheduled_ns)
                if entry is None or self._sent >= MAX_REQUESTS:
                    return
                under_way.create_task(self._send(sender, entry))

    async def _sleep_until(self, at_ns: int) -> None:
        """Return at ``at_ns`` or just after it; other tasks run at least once, also when it has passed."""
        left_s = (at_ns - self._now_ns()) / NANOSECONDS_PER_SECOND
        if self._watcher is None or self._ending is None or left_s < _LOOK_S:
            await asyncio.sleep(max(0.0, left_s))
            return
        with suppress(TimeoutError):  # a long wait ends when enough has been seen
            await asyncio.wait_for(self._ending.wait(), left_s)


def new_client(endpoint: Endpoint, connect_timeout_s: float) -> httpx.AsyncClient:
    """A client that queues nothing, retries nothing, follows no redirect, and reads no proxy or password from the environment.

    Raises:
        UsageError: the file of certificates cannot be used.
    """
    context = _tls(endpoint) if endpoint.base.startswith("https") else None
    if endpoint.keep_alive:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        transport: httpx.AsyncBaseTransport = httpx.AsyncHTTPTransport(
            verify=False if context is None else context, limits=limits, trust_env=False
        )
    else:
        transport = WireTransport(context)
    timeout = httpx.Timeout(None, connect=connect_timeout_s)
    return httpx.AsyncClient(timeout=timeout, transport=transport, trust_env=False, follow_redirects=False)


def _tls(endpoint: Endpoint) -> ssl.SSLContext:
    """What is trusted: the system's certificates (SSL_CERT_FILE is OpenSSL's variable for others) and those of ``--ca-file``."""
    context = ssl.create_default_context()
    if endpoint.ca_file is not None:
        certificates = read_small_file(endpoint.ca_file, limit_bytes=_MAX_CERTIFICATES_BYTES, error=UsageError)
        try:
            # Comments between certificates hold names in any script; the certificates are ASCII.
            context.load_verify_locations(cadata=certificates.encode("ascii", errors="replace").decode("ascii"))
        except (ValueError, ssl.SSLError):  # empty, or no PEM
            raise UsageError(f"--ca-file {endpoint.ca_file} holds no certificates in PEM form") from None
    return context
