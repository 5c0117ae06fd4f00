"""Search for the highest load at which limits hold: levels one after the other on one server, which comes to rest in between."""

from __future__ import annotations

import asyncio
import itertools
import math
import secrets
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from suffice import __version__
from suffice.load.capacity_level import Level, level_result
from suffice.load.capacity_plan import brief_requests, settings_of
from suffice.load.capacity_progress import LevelProgress
from suffice.load.capacity_result import CapacityResult, LevelResult
from suffice.load.probe import probe
from suffice.load.runner import LoadRun, LoadRunner, Watcher, new_client
from suffice.load.session import content_asks, interruptible
from suffice.load.settings import MAX_CONCURRENCY, Arrivals, LoadPlan, Loop
from suffice.model.capacity import Judge, LevelVerdict
from suffice.model.capacity_search import CapacityOf, SearchSettings, Tried, Try, next_try
from suffice.model.load_request import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from suffice.load.capacity_plan import CapacityPlan
    from suffice.load.endpoint import Endpoint
    from suffice.load.probe import Probe
    from suffice.load.session import Content
    from suffice.load.settings import Ask

_IDLE_REQUESTS: Final = 5
_HIGHEST_RATE_PER_S: Final = 10_000.0
_BUSY: Final = 0.5  # of a server with one slot: where a search for a rate begins
_LEAST_PATIENCE_S: Final = 10.0
_PATIENCE: Final = 10.0  # times one user's whole answer: how long what is under way after a verdict is waited for
_REST_S: Final = 0.2
_AT_REST: Final = 1.5  # times one user's whole answer: a lone request that takes no longer finds a server at rest
_LONE_REQUESTS: Final = 10
_CONNECT_S: Final = 10.0
_ROUNDS: Final = 2  # of the users, to warm up


def find_capacity(
    plan: CapacityPlan,
    content: Content,
    endpoint: Endpoint,
    progress: Callable[[str], None],
    *,
    before: CapacityResult | None = None,
    keep: Callable[[CapacityResult], None] = lambda _: None,
) -> CapacityResult:
    """Search on a server.

    Args:
        plan: what to search for.
        content: the prompts.
        endpoint: the server.
        progress: told what is being done.
        before: an earlier search, with the same settings, to go on with.
        keep: told of the result after each level, so that a crash loses no more than one.

    Raises:
        UsageError: files that cannot be used, nobody there, or access refused.
    """
    return asyncio.run(_Search(plan, content, endpoint, progress, before, keep).run())


class _Search:
    """One search; its state is the result so far."""

    def __init__(
        self,
        plan: CapacityPlan,
        content: Content,
        endpoint: Endpoint,
        progress: Callable[[str], None],
        before: CapacityResult | None,
        keep: Callable[[CapacityResult], None],
    ) -> None:
        self._plan, self._content, self._endpoint = plan, content, endpoint
        self._progress, self._keep = progress, keep
        salt = secrets.token_hex(4)
        self._asks: Iterator[Ask] = content_asks(content, f"{plan.seed} {salt}")
        self._found: Probe | None = None
        self._runner: LoadRunner | None = None
        self._stopped = False
        if before is not None and before.ended_early is not None:  # what the server's trouble spoilt is tried again
            before = replace(before, idle=before.idle if before.levels else None, levels=before.levels[:-1])
        self._result = CapacityResult(
            suffice_version=__version__,
            started_at=datetime.now(UTC).isoformat(timespec="seconds") if before is None else before.started_at,
            settings=settings_of(plan, content, endpoint, salt),
            idle=None if before is None else before.idle,
            levels=() if before is None else before.levels,
            warnings=() if before is None else before.warnings,
        )

    async def run(self) -> CapacityResult:
        """Try levels until the answer is exact enough, the server is gone, or somebody interrupts."""
        self._asks = itertools.chain(
            (next(self._asks),), self._asks
        )  # an unusable file is found before the server is bothered
        self._progress(f"looking at {self._endpoint.shown}")
        with interruptible(self._stop):
            async with new_client(self._endpoint, _CONNECT_S) as client:
                self._found = await probe(
                    client, self._endpoint, self._plan.timeout_s, exact_length=self._content.exact_length
                )
            settings = replace(self._result.settings, model=self._found.endpoint.model, accepted=self._found.accepted)
            self._change(settings=settings, warnings=_once(*self._result.warnings, *self._found.warnings))
            await self._levels()
        self._change(interrupted=self._stopped)
        return self._result

    def _stop(self) -> None:
        self._stopped = True
        if self._runner is not None:
            self._runner.stop()

    def _change(self, **changes: object) -> None:
        self._result = replace(self._result, **changes)  # type: ignore[arg-type]  # fields of the result
        self._keep(self._result)

    async def _levels(self) -> None:
        if self._result.idle is None:
            idle = await self._idle()
            if idle is None:
                return
            self._change(idle=idle)
        if self._result.idle is not None and self._result.idle.verdict is LevelVerdict.FAILS:
            self._change(finished=True)
            return
        settings = self._search_settings()
        while not self._stopped:
            following = next_try([self._tried(level) for level in self._result.levels], settings)
            if following is None:
                self._change(finished=True)
                return
            if not await self._try(following):
                return

    def _tried(self, level: LevelResult) -> Tried:
        """What the search needs to know of a level; one that was left undecided and may be longer now is to be tried at length again."""
        tried, plan = level.tried, self._plan
        longer = plan.requests > (level.most_requests or plan.requests) or plan.duration_s > (
            level.most_s or plan.duration_s
        )
        if tried.thorough and tried.verdict is LevelVerdict.UNDECIDED and longer:
            return replace(tried, thorough=False)
        return tried

    def _search_settings(self) -> SearchSettings:
        plan, idle_s = self._plan, self._idle_s
        by_rate = plan.of is CapacityOf.RATE
        start = plan.start or (_BUSY / idle_s if by_rate else 1.0)
        return SearchSettings(
            of=plan.of,
            start=start,
            highest=_HIGHEST_RATE_PER_S if by_rate else float(MAX_CONCURRENCY),
            tolerance=plan.tolerance,
            most_probes=plan.most_probes,
        )

    @property
    def _idle_s(self) -> float:
        """One user's whole answer, alone."""
        idle = self._result.idle
        seconds = None if idle is None or idle.e2e is None else idle.e2e.p50.observed_s
        return seconds or 1.0

    async def _idle(self) -> LevelResult | None:
        """One user alone: a first guess, and whether the limits can be held at all. None when interrupted or without answers."""
        plan = self._closed(1, requests=_IDLE_REQUESTS, warm_up=1)
        judge = replace(self._judge(None), least=_IDLE_REQUESTS)
        level = await self._run(Level(level=1.0, thorough=False, plan=plan, judge=judge), "one user alone")
        if level is None or self._stopped:
            return None
        if not level.succeeded:
            words = ", ".join(f"{count} {reason}" for reason, count in level.failures.items())
            self._change(idle=level, ended_early=f"one user alone got no answer ({words})")
            return None
        if any(one.limits.tpot_s is not None for one in self._plan.criteria) and level.tpot is None:
            words = ", ".join(f"{count} of {level.succeeded}: {reason}" for reason, count in level.untimed.items())
            because = f"no answer to one user alone has a TPOT ({words}), so that no limit on it can be judged"
            self._change(idle=level, ended_early=because)
            return None
        return level

    async def _try(self, following: Try) -> bool:
        """Whether the search can go on after this level."""
        number = len(self._result.levels) + 1
        unit = "users" if self._plan.of is CapacityOf.USERS else "requests/s"
        length = "at length" if following.thorough else "briefly"
        head = f"level {number} of at most {self._plan.most_probes}: {following.level:g} {unit}, {length}"
        level = await self._run(self._level_of(following, number), head)
        if level is None or (self._stopped and level.verdict is LevelVerdict.UNDECIDED):
            return False
        trouble = None if self._stopped else await self._come_to_rest()
        if trouble is not None:
            because = f"{trouble}; before that: {level.because}" if level.because else trouble
            level = replace(level, verdict=LevelVerdict.UNDECIDED, good=False, because=because)
        self._change(levels=(*self._result.levels, level), ended_early=trouble)
        return trouble is None

    def _level_of(self, following: Try, number: int) -> Level:
        plan = self._plan
        requests = plan.requests if following.thorough else brief_requests(plan)
        seed = plan.seed + number
        if plan.of is CapacityOf.USERS:
            users = round(following.level)
            warm_up = _ROUNDS * users if plan.warm_up is None else plan.warm_up
            rounds = max(requests, _ROUNDS * users)
            the_plan = self._closed(users, requests=rounds, warm_up=warm_up, seed=seed)
            return Level(level=following.level, thorough=following.thorough, plan=the_plan, judge=self._judge(None))
        usual = max(10, math.ceil(_ROUNDS * following.level * self._idle_s))
        the_plan = LoadPlan(
            loop=Loop.OPEN,
            requests=requests,
            duration_s=plan.duration_s,
            warm_up=usual if plan.warm_up is None else plan.warm_up,
            rate_per_s=following.level,
            arrivals=plan.arrivals,
            burstiness=plan.burstiness,
            seed=seed,
            timeout_s=plan.timeout_s,
        )
        return Level(
            level=following.level, thorough=following.thorough, plan=the_plan, judge=self._judge(following.level)
        )

    def _closed(self, users: int, *, requests: int, warm_up: int, seed: int = 0) -> LoadPlan:
        return LoadPlan(
            loop=Loop.CLOSED,
            requests=requests,
            duration_s=self._plan.duration_s,
            warm_up=warm_up,
            concurrency=users,
            seed=seed,
            timeout_s=self._plan.timeout_s,
        )

    def _judge(self, rate_per_s: float | None) -> Judge:
        """Who judges the next level, so that all wrong verdicts together are as unlikely as the confidence says.

        Only levels that are tried at length can hold: the k-th of them may err with 1 / (k (k + 1)) of what the confidence leaves, the
        first with half of it. Every level can fail, and has an equal part. A level can err in one of the two ways only.
        """
        left = 1 - self._plan.confidence
        turn = 1 + sum(level.thorough for level in self._result.levels)
        variations = {
            Arrivals.CONSTANT: 0.0,
            Arrivals.POISSON: 1.0,
            Arrivals.GAMMA: 1 / math.sqrt(self._plan.burstiness),
        }
        return Judge(
            criteria=self._plan.criteria,
            risk_holds=left / (turn * (turn + 1)),
            risk_fails=left / self._plan.most_probes,
            rate_per_s=rate_per_s,
            variation=variations[self._plan.arrivals],
        )

    async def _run(self, level: Level, head: str) -> LevelResult | None:
        """A level's result, with ``head`` before what is said of it meanwhile; None when interrupted before anything was measured."""
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        patience_s = min(self._plan.timeout_s, max(_LEAST_PATIENCE_S, _PATIENCE * self._idle_s))
        watcher = Watcher(seen_enough=level.decided, patience_s=patience_s)
        tell = LevelProgress(self._progress, head, level.plan, self._idle_s)
        run = await self._send(level.plan, watcher, tell)
        if not run.rows:
            return None
        return level_result(level, run, started_at)

    async def _send(
        self, plan: LoadPlan, watcher: Watcher | None, tell: Callable[[int, int], None] = lambda *_: None
    ) -> LoadRun:
        assert self._found is not None  # noqa: S101  # run() looked first
        self._runner = LoadRunner(
            plan, self._found.endpoint, self._found.accepted, self._content.temperature, watcher=watcher
        )
        if self._stopped:
            self._runner.stop()
        return await self._runner.run(self._asks, tell)

    async def _come_to_rest(self) -> str | None:
        """Wait until a lone request is answered as quickly as at the start; what is wrong when there is no answer at all."""
        self._progress("waiting until the server is at rest again")
        patience_s = min(self._plan.timeout_s, max(_LEAST_PATIENCE_S, _PATIENCE * self._idle_s))
        plan = replace(self._closed(1, requests=1, warm_up=0), timeout_s=patience_s)
        for _ in range(_LONE_REQUESTS):
            await asyncio.sleep(_REST_S)
            run = await self._send(plan, None)
            row = run.rows[0] if run.rows else None
            if row is None or row.outcome is Outcome.INTERRUPTED:
                return None
            if not row.succeeded:
                return f"the server did not answer a lone request after this level ({row.outcome}: {row.detail})"
            if row.e2e_s is not None and row.e2e_s <= _AT_REST * self._idle_s:
                return None
        self._change(warnings=_once(*self._result.warnings, "the server had not come to rest between two levels"))
        return None


def _once(*warnings: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(warnings))
