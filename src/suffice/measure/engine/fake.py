"""An engine that computes nothing: deterministic times from a simple model, a clock that it moves itself, and failures on demand.

Shipped with the package, so that whoever builds on :mod:`suffice.measure.engine.seam` can test without a model and without waiting.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Self

from suffice.errors import EngineCrashError, EngineError
from suffice.measure.engine.seam import (
    ChunkTimings,
    EngineIdentity,
    EngineSettings,
    ExpertUse,
    ResolvedSettings,
    SessionFacts,
)

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
        self._lock = threading.Lock()  # sessions side by side move it at the same time

    def now_s(self) -> float:
        """Seconds that the clock was moved so far, plus its start."""
        return self._now_s

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock cannot go back by {seconds} s")
        with self._lock:
            self._now_s += seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeSpeed:
    """How long things take on the fake machine.

    A decode step of b sequences at depth d with t threads reads the weights once, and each sequence's cache::

        (decode_step_s + (b - 1) * decode_step_s_per_sequence + b * d * decode_step_s_per_depth) / min(t, useful_threads)

    A token of prefill takes ``prefill_token_s`` over the same divisor. ``jitter`` is the relative standard deviation of a one-sided
    disturbance (never faster than the model). ``step_s`` replaces the decode formula by any function of (depth, threads), to which
    further sequences add their ``decode_step_s_per_sequence``.
    """

    decode_step_s: float = 0.02
    decode_step_s_per_depth: float = 0.0
    decode_step_s_per_sequence: float = 0.0005
    prefill_token_s: float = 0.002
    useful_threads: int = 4
    load_s: float = 0.5
    jitter: float = 0.0
    step_s: Callable[[int, int], float] | None = None

    def decode_s(self, depth: int, threads: int, batch: int = 1) -> float:
        """Seconds of an undisturbed decode step at a depth."""
        further_s = (batch - 1) * self.decode_step_s_per_sequence
        if self.step_s is not None:
            return self.step_s(depth, threads) + further_s
        step_s = self.decode_step_s + further_s + batch * depth * self.decode_step_s_per_depth
        return step_s / min(threads, self.useful_threads)

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
    can_spread: bool = True
    n_expert: int = 0  # of each layer; 0: a dense model
    n_expert_used: int = 2  # that one token chooses, all equally likely
    n_expert_layers: int = 2
    node_bytes: dict[int, int] | None = None  # resident memory by NUMA node


@dataclass(slots=True, kw_only=True)
class FakeEngine:
    """Opens fake sessions. All of them move ``clock``; equal seeds give equal times.

    ``step_cost`` and ``prefill_cost`` plant any truth, such as a cost per layer of each model file: undisturbed seconds of a decode
    step from (model, depth, batch), and of a chunk of prefill from (model, depth at its start, tokens). They replace ``speed``'s
    formulas, thread counts included; its jitter stays.
    """

    speed: FakeSpeed = field(default_factory=FakeSpeed)
    behaviour: FakeBehaviour = field(default_factory=FakeBehaviour)
    clock: FakeClock = field(default_factory=FakeClock)
    identity: EngineIdentity = FAKE_IDENTITY
    seed: int = 1
    step_cost: Callable[[Path, int, int], float] | None = None
    prefill_cost: Callable[[Path, int, int], float] | None = None
    opened: int = 0  # sessions so far

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> FakeSession:
        """A session; the model file is not read, and need not exist."""
        if self.behaviour.refuse_to_open is not None:
            raise EngineError(self.behaviour.refuse_to_open)
        self.opened += 1
        self.clock.advance(self.speed.load_s)
        if settings.n_sequences < 1:
            raise EngineError(f"a session needs at least one sequence, not {settings.n_sequences}")
        return FakeSession(self, settings, model, evicted=self.behaviour.weights_evicted if evict_first else None)


class FakeSession:
    """A session of :class:`FakeEngine`. It keeps the seam's promises on depth, room and order of calls."""

    def __init__(self, engine: FakeEngine, settings: EngineSettings, model: Path, *, evicted: bool | None) -> None:
        self._engine = engine
        self._settings = settings
        self._model = model
        self._threads = settings.n_threads
        self._threads_batch = settings.n_threads_batch
        self._random = random.Random(f"{engine.seed}/{engine.opened}")  # noqa: S311 - reproducible noise
        self._depths = [0] * settings.n_sequences
        self._calls = 0
        self._cpu_time_s = engine.speed.load_s
        self.rests = 0
        self._open = True
        self.facts = SessionFacts(
            load_s=engine.speed.load_s,
            resolved=resolved_as_asked(settings),
            n_vocab=engine.behaviour.n_vocab,
            n_ctx_train=engine.behaviour.n_ctx_train,
            model_description=f"fake {model.name}",
            weights_evicted_before_load=evicted,
        )

    @property
    def pid(self) -> int | None:
        """None: there is no process."""
        return None

    @property
    def depth(self) -> int:
        """Tokens that sequence 0 holds."""
        return self._depths[0]

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
        starts = range(0, n_tokens, chunk)
        tokens = tuple(min(chunk, n_tokens - start) for start in starts)
        seconds = tuple(
            self._pass_time(self._prefill_s(start, count), self._threads_batch)
            for start, count in zip(starts, tokens, strict=True)
        )
        self._depths = [n_tokens, *[0] * (len(self._depths) - 1)]
        return ChunkTimings(tokens=tokens, seconds=seconds)

    def spread(self, batch: int) -> None:
        """Make the sequences as deep as sequence 0, unless the behaviour says that this model cannot."""
        self._check_open()
        self._check_batch(batch)
        if not self._engine.behaviour.can_spread:
            raise EngineError("the engine cannot copy the tokens of this model to another sequence")
        self._depths[:batch] = [self.depth] * batch

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """Pretend to evaluate one step after the other."""
        self._begin(n_steps, self.depth)
        self._check_batch(batch)
        if len(set(self._depths[:batch])) > 1:
            raise EngineError(f"the first {batch} sequences hold {self._depths[:batch]} tokens; call spread({batch})")
        depths = range(self.depth, self.depth + n_steps)
        seconds = tuple(self._pass_time(self._decode_s(depth, batch), self._threads) for depth in depths)
        self._depths[:batch] = [self.depth + n_steps] * batch
        return seconds

    def extend(self, n_tokens: int, *, n_chunks: int = 1) -> tuple[float, ...]:
        """Pretend to evaluate one chunk after the other in sequence 0."""
        self._begin(n_tokens * n_chunks, self.depth)
        most = min(self._settings.n_batch, self._settings.n_ubatch)
        if n_tokens > most:
            raise EngineError(f"a chunk of {n_tokens} tokens is not one evaluation: from 1 to {most} are")
        starts = range(self.depth, self.depth + n_tokens * n_chunks, n_tokens)
        seconds = tuple(self._pass_time(self._prefill_s(start, n_tokens), self._threads_batch) for start in starts)
        self._depths[0] += n_tokens * n_chunks
        return seconds

    def experts_touched(self, n_steps: int, *, batch: int = 1) -> tuple[ExpertUse, ...] | None:
        """Every token of every step draws its experts at random, in each layer anew."""
        self._check_open()
        if not self._settings.watch_experts:
            raise EngineError("experts can be counted only in a session that was opened with watch_experts")
        behaviour = self._engine.behaviour
        if behaviour.n_expert == 0:
            return None
        self.decode(n_steps, batch=batch)
        return tuple(
            ExpertUse(
                layer=layer,
                distinct_per_step=tuple(self._drawn_experts(batch) for _ in range(n_steps)),
                n_used=behaviour.n_expert_used,
                n_expert=behaviour.n_expert,
            )
            for layer in range(behaviour.n_expert_layers)
        )

    def rewind(self, depth: int) -> bool:
        """Forget all tokens beyond ``depth``, unless the behaviour says that this model cannot."""
        self._check_open()
        if not 0 <= depth <= self.depth:
            raise EngineError(f"cannot rewind to {depth} tokens: the cache holds {self.depth}")
        if not self._engine.behaviour.can_rewind:
            return depth == max(self._depths)
        self._depths = [min(held, depth) for held in self._depths]
        return True

    def count_tokens(self, text: str) -> int:
        """One token a word."""
        self._check_open()
        return len(text.split())

    def rest(self) -> None:
        """Count the call: there are no threads."""
        self._check_open()
        self.rests += 1

    def peak_rss_bytes(self) -> int | None:
        """What the behaviour says."""
        self._check_open()
        return self._engine.behaviour.peak_rss_bytes

    def cpu_time_s(self) -> float | None:
        """Evaluation time times threads, plus the load."""
        self._check_open()
        return self._cpu_time_s

    def node_bytes(self) -> dict[int, int] | None:
        """What the behaviour says."""
        self._check_open()
        return self._engine.behaviour.node_bytes

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

    def _check_batch(self, batch: int) -> None:
        most = min(self._settings.n_sequences, self._settings.n_batch, self._settings.n_ubatch)
        if not 1 <= batch <= most:
            raise EngineError(f"a step of {batch} sequences is not possible: this session was opened for 1 to {most}")

    def _decode_s(self, depth: int, batch: int) -> float:
        if self._engine.step_cost is not None:
            return self._engine.step_cost(self._model, depth, batch)
        return self._engine.speed.decode_s(depth, self._threads, batch)

    def _prefill_s(self, depth: int, tokens: int) -> float:
        if self._engine.prefill_cost is not None:
            return self._engine.prefill_cost(self._model, depth, tokens)
        return self._engine.speed.prefill_s(tokens, self._threads_batch)

    def _drawn_experts(self, batch: int) -> int:
        behaviour = self._engine.behaviour
        experts = range(behaviour.n_expert)
        return len({expert for _ in range(batch) for expert in self._random.sample(experts, behaviour.n_expert_used)})

    def _check_open(self) -> None:
        if not self._open:
            raise EngineError("the engine's session is closed")

    def _pass_time(self, ideal_s: float, threads: int) -> float:
        jitter = self._engine.speed.jitter
        taken_s = ideal_s * (1 + abs(self._random.gauss(0, jitter))) if jitter else ideal_s
        self._engine.clock.advance(taken_s)
        self._cpu_time_s += taken_s * threads
        return taken_s


def resolved_as_asked(settings: EngineSettings) -> ResolvedSettings:
    """A fake does as it is told; flash attention on "auto" is on."""
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
        n_sequences=settings.n_sequences,
    )
