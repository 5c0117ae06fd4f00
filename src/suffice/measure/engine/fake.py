"""An engine that computes nothing: deterministic times from a simple model, a clock that it moves itself, and failures on demand.

Shipped with the package, so that whoever builds on :mod:`suffice.measure.engine.seam` can test without a model and without waiting.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine.seam import ChunkTimings, EngineIdentity, EngineSettings, ResolvedSettings, SessionFacts

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

FAKE_IDENTITY: Final = EngineIdentity(
    name="fake",
    version="1",
    llama_cpp_version=None,
    system_info="CPU : AVX2 = 1 | ",
    isa_used=("avx2",),
    prebuilt=False,
)


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self, start_s: float = 0.0) -> None:
        self._now_s = start_s

    def now_s(self) -> float:
        """Seconds that the clock was moved so far, plus its start."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {seconds} s")
        self._now_s += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSpeed:
    """How long things take on the fake machine.

    A decode step at depth d with t threads takes ``(decode_step_s + d * decode_step_s_per_depth) / min(t, useful_threads)``;
    a token of prefill likewise. ``jitter`` is the relative standard deviation of a one-sided disturbance (never faster than
    the model). ``step_s`` replaces the decode formula by any function of (depth, threads).
    """

    decode_step_s: float = 0.02
    decode_step_s_per_depth: float = 0.0
    prefill_token_s: float = 0.002
    useful_threads: int = 4
    load_s: float = 0.5
    jitter: float = 0.0
    step_s: Callable[[int, int], float] | None = None

    def decode_s(self, depth: int, threads: int) -> float:
        """Seconds of an undisturbed decode step at a depth."""
        if self.step_s is not None:
            return self.step_s(depth, threads)
        return (self.decode_step_s + depth * self.decode_step_s_per_depth) / min(threads, self.useful_threads)

    def prefill_s(self, tokens: int, threads: int) -> float:
        """Seconds of an undisturbed chunk of prefill."""
        return tokens * self.prefill_token_s / min(threads, self.useful_threads)


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeBehaviour:
    """What the fake does besides taking time. Calls are counted over prefill and decode of one session."""

    can_rewind: bool = True
    peak_rss_bytes: int | None = 123_456_789
    n_vocab: int = 1000
    n_ctx_train: int | None = 4096
    crash_after_calls: int | None = None  # this many calls succeed, then the process is dead
    refuse_to_open: str | None = None  # the sentence of the EngineError
    weights_evicted: bool | None = True  # what a load with evict_first reports


@dataclass(slots=True, kw_only=True)
class FakeEngine:
    """Opens fake sessions. All of them move ``clock``; equal seeds give equal times."""

    speed: FakeSpeed = field(default_factory=FakeSpeed)
    behaviour: FakeBehaviour = field(default_factory=FakeBehaviour)
    clock: FakeClock = field(default_factory=FakeClock)
    identity: EngineIdentity = FAKE_IDENTITY
    seed: int = 1
    opened: int = 0  # sessions so far

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> FakeSession:
        """A session; the model file is not read, and need not exist."""
        if self.behaviour.refuse_to_open is not None:
            raise EngineError(self.behaviour.refuse_to_open)
        self.opened += 1
        self.clock.advance(self.speed.load_s)
        return FakeSession(self, settings, model.name, evicted=self.behaviour.weights_evicted if evict_first else None)


class FakeSession:
    """A session of :class:`FakeEngine`. It keeps the seam's promises on depth, room and order of calls."""

    def __init__(self, engine: FakeEngine, settings: EngineSettings, model_name: str, *, evicted: bool | None) -> None:
        self._engine = engine
        self._settings = settings
        self._threads = settings.n_threads
        self._threads_batch = settings.n_threads_batch
        self._random = random.Random(f"{engine.seed}/{engine.opened}")  # noqa: S311 - reproducible noise
        self._depth = 0
        self._calls = 0
        self._cpu_time_s = engine.speed.load_s
        self._open = True
        self.facts = SessionFacts(
            load_s=engine.speed.load_s,
            resolved=_resolved(settings),
            n_vocab=engine.behaviour.n_vocab,
            n_ctx_train=engine.behaviour.n_ctx_train,
            model_description=f"fake {model_name}",
            weights_evicted_before_load=evicted,
        )

    @property
    def depth(self) -> int:
        """Tokens that the cache holds."""
        return self._depth

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Use these thread counts from the next evaluation on."""
        self._check_open()
        if min(n_threads, n_threads_batch) < 1:
            raise EngineError(f"thread counts must be positive, not {n_threads} and {n_threads_batch}")
        self._threads, self._threads_batch = n_threads, n_threads_batch

    def prefill(self, n_tokens: int, *, prompt: str | None = None) -> ChunkTimings:
        """Clear the cache and pretend to evaluate; the prompt changes nothing but must not be empty."""
        self._begin(n_tokens, 0)
        if prompt is not None and not prompt:
            raise EngineError("the prompt has no tokens; give a text that is not empty")
        chunk = self._settings.n_batch
        tokens = tuple(min(chunk, n_tokens - start) for start in range(0, n_tokens, chunk))
        model = self._engine.speed
        seconds = tuple(
            self._pass_time(model.prefill_s(count, self._threads_batch), self._threads_batch) for count in tokens
        )
        self._depth = n_tokens
        return ChunkTimings(tokens=tokens, seconds=seconds)

    def decode(self, n_steps: int) -> tuple[float, ...]:
        """Pretend to evaluate one token after the other."""
        self._begin(n_steps, self._depth)
        model = self._engine.speed
        depths = range(self._depth, self._depth + n_steps)
        seconds = tuple(self._pass_time(model.decode_s(depth, self._threads), self._threads) for depth in depths)
        self._depth += n_steps
        return seconds

    def rewind(self, depth: int) -> bool:
        """Forget all tokens beyond ``depth``, unless the behaviour says that this model cannot."""
        self._check_open()
        if not 0 <= depth <= self._depth:
            raise EngineError(f"cannot rewind to {depth} tokens: the cache holds {self._depth}")
        if not self._engine.behaviour.can_rewind:
            return depth == self._depth
        self._depth = depth
        return True

    def count_tokens(self, text: str) -> int:
        """One token a word."""
        self._check_open()
        return len(text.split())

    def peak_rss_bytes(self) -> int | None:
        """What the behaviour says."""
        self._check_open()
        return self._engine.behaviour.peak_rss_bytes

    def cpu_time_s(self) -> float | None:
        """Evaluation time times threads, plus the load."""
        self._check_open()
        return self._cpu_time_s

    def close(self) -> None:
        """End the session; twice is harmless."""
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _begin(self, n_tokens: int, depth: int) -> None:
        self._check_open()
        limit = self._engine.behaviour.crash_after_calls
        if limit is not None and self._calls >= limit:
            self._open = False
            raise EngineCrashError("the engine's process died of SIGSEGV during decode")
        self._calls += 1
        if n_tokens < 1:
            raise EngineError(f"at least one token must be evaluated, not {n_tokens}")
        if depth + n_tokens > self._settings.n_ctx:
            raise EngineError(f"{n_tokens} tokens at depth {depth} do not fit into n_ctx {self._settings.n_ctx}")

    def _check_open(self) -> None:
        if not self._open:
            raise EngineError("the engine's session is closed")

    def _pass_time(self, ideal_s: float, threads: int) -> float:
        jitter = self._engine.speed.jitter
        taken_s = ideal_s * (1 + abs(self._random.gauss(0, jitter))) if jitter else ideal_s
        self._engine.clock.advance(taken_s)
        self._cpu_time_s += taken_s * threads
        return taken_s


def _resolved(settings: EngineSettings) -> ResolvedSettings:
    """The fake does as it is told; flash attention on "auto" is on."""
    return ResolvedSettings(
        n_ctx=settings.n_ctx,
        n_batch=settings.n_batch,
        n_ubatch=settings.n_ubatch,
        n_threads=settings.n_threads,
        n_threads_batch=settings.n_threads_batch,
        type_k=settings.type_k,
        type_v=settings.type_v,
        flash_attention=settings.flash_attention != "off",
        use_mmap=settings.use_mmap,
        n_gpu_layers=settings.n_gpu_layers,
    )
