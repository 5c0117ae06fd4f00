"""The seam between suffice and any inference engine.

An :class:`Engine` opens a model and gives a :class:`Session`. A session evaluates tokens, timed inside the engine's own process
with one monotonic clock, and it decides nothing: which repetitions to make, when to stop and what to conclude is the business of
those who call it. :class:`~suffice.measure.engine.fake.FakeEngine` ships beside the real ones.

Several sessions may be open at once and used in turns: each has a process of its own, whose threads sleep between two requests. Those
that were opened on different CPUs may also be used at the same time (:mod:`suffice.measure.engine.side_by_side`).

A session holds up to ``n_sequences`` independent texts ("sequences"), numbered from 0, each with a cache of its own as long as
``n_ctx``. A batched decode step evaluates one token of each of the first ``batch`` of them, as a server does for its users::

    session.prefill(2048)        # fills sequence 0
    session.spread(8)            # sequences 1 to 7 become copies of it
    session.decode(10, batch=8)  # 10 steps of 8 tokens, all at depths 2048 to 2057
    session.rewind(2048)         # all 8 are at 2048 again
    session.extend(64)           # a chunk of 64 tokens of a prompt, at depth 2048 of sequence 0
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineIdentity:
    """What the engine is, as it says itself. Goes into the run record."""

    name: str  # "llama-cpp-python", "xllamacpp", "llama.cpp library"
    version: str | None  # of the package; None for a bare library
    llama_cpp_version: str | None  # ggml/llama.cpp version or build, when the library tells
    system_info: str  # llama_print_system_info(), verbatim
    isa_used: tuple[
        str, ...
    ]  # instruction sets that the build uses: "avx2", "avx512", "avx512_vnni", "amx_int8", "neon", ...
    prebuilt: bool  # True: built for a generic CPU, so its figures are lower bounds for this one
    gpu_devices: tuple[str, ...] = ()  # accelerators that the library offers, by description


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """What is asked of the engine. None means: the engine's own default, reported back in :class:`ResolvedSettings`."""

    n_ctx: int  # tokens that each sequence has room for
    n_threads: int
    n_threads_batch: int
    n_batch: int = 512  # tokens per evaluation; also the size of a prefill chunk, which is timed as one
    n_ubatch: int = 512
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attention: str = "auto"  # auto | on | off
    use_mmap: bool = True
    n_gpu_layers: int = 0  # 0: nothing is given to a GPU, and GPU devices are not used for prefill either
    use_extra_buffers: bool = True  # weights repacked for the CPU (AMX, REPACK); False only where that crashes
    n_sequences: int = 1  # texts that the session can hold at a time, each with a cache of n_ctx tokens of its own
    cpus: str | None = None  # where its threads may run, as the kernel writes it: "0-3,8"; None: on all that we may use
    numa_node: int | None = None  # that these CPUs are of, for the record
    watch_experts: bool = False  # for experts_touched; slows every step, so such a session's times mean nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSettings:
    """What the engine says it really uses, read back from it. None: it does not tell."""

    n_ctx: int | None  # of each sequence; engines round it up
    n_batch: int | None
    n_ubatch: int | None
    n_threads: int | None
    n_threads_batch: int | None
    type_k: str | None
    type_v: str | None
    flash_attention: bool | None
    use_mmap: bool | None
    n_gpu_layers: int | None
    devices: tuple[str, ...] = ()
    kv_cache_bytes: int | None = None  # these three come from a log that rounds to 0.01 MiB
    compute_buffer_bytes: int | None = None
    weight_buffer_bytes: int | None = None  # buffers that hold weights, mapped or copied (repacked weights are copies)
    n_sequences: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkTimings:
    """Evaluation of several tokens at once: for each chunk its tokens and its seconds, in order."""

    tokens: tuple[int, ...]
    seconds: tuple[float, ...]
    start_depth: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertUse:
    """How many different experts of one layer the steps read: what a mixture of experts moves from memory in a step."""

    layer: int  # number of the block, as in the tensor's name
    distinct_per_step: tuple[int, ...]  # different experts that the tokens of each step chose together
    n_used: int  # experts that one token chooses
    n_expert: int  # experts that it chooses from


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFacts:
    """What is known once the model is open."""

    load_s: float  # from the call to the model and its context being ready
    resolved: ResolvedSettings
    n_vocab: int
    n_ctx_train: int | None
    model_description: str | None  # the engine's own words, such as "llama 135M Q4_1"
    weights_evicted_before_load: bool | None = None  # True: the load was cold; None: not tried or could not be told
    notes: tuple[str, ...] = field(default=())


class Session(Protocol):
    """An open model. All methods raise EngineError (EngineCrashError when the process died)."""

    @property
    def facts(self) -> SessionFacts:
        """What was known once the model was open."""

    @property
    def pid(self) -> int | None:
        """Process id of the engine, for those who watch it from outside; None: it is no single process of its own."""

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Use other thread counts (decode, prefill) from the next evaluation on, without loading again."""

    def prefill(self, n_tokens: int, *, prompt: str | None = None) -> ChunkTimings:
        """Clear the cache of all sequences and evaluate ``n_tokens`` in chunks of ``n_batch``; sequence 0 then holds that many.

        Tokens are random and new for each call, or those of ``prompt`` (repeated or cut to ``n_tokens``), so that no
        prefix cache can answer. Only the last chunk computes logits, as a server does.
        """

    def spread(self, batch: int) -> None:
        """Make the sequences 1 to ``batch - 1`` copies of sequence 0, cache and all. Works for recurrent state as well."""

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """Evaluate ``n_steps`` steps from the current depth on; seconds of each step.

        A step evaluates one random token of each of the first ``batch`` sequences together, with logits for each. They must be
        equally deep: all empty, or made so by :meth:`spread`. The whole step is one evaluation, so ``batch`` must not be
        larger than ``n_sequences``, ``n_batch`` and ``n_ubatch``.
        """

    def extend(self, n_tokens: int, *, n_chunks: int = 1) -> tuple[float, ...]:
        """Evaluate ``n_chunks`` chunks of ``n_tokens`` random tokens each of sequence 0, from the current depth on; seconds of each.

        A chunk is one evaluation, as a server makes it when it goes on reading a prompt of which a part is in the cache; so
        ``n_tokens`` must not be larger than ``n_batch`` and ``n_ubatch``. The last token of each computes logits. The other
        sequences stay as deep as they are.
        """

    def experts_touched(self, n_steps: int, *, batch: int = 1) -> tuple[ExpertUse, ...] | None:
        """Make decode steps and count, for each layer with experts, the different ones that each step chose. None: a dense model.

        Needs a session that was opened with ``watch_experts``.
        """

    def rewind(self, depth: int) -> bool:
        """Forget all tokens beyond ``depth``, of every sequence.

        False: this model cannot (recurrent state, or a window that has moved on); prefill again instead.
        """

    def count_tokens(self, text: str) -> int:
        """Number of tokens of a text, with the model's own tokenizer."""

    def peak_rss_bytes(self) -> int | None:
        """Largest resident memory of the engine's process so far."""

    def cpu_time_s(self) -> float | None:
        """User and system CPU time of the engine's process so far, all threads."""

    def node_bytes(self) -> dict[int, int] | None:
        """Resident memory of the engine's process now, by NUMA node; None where the system does not tell."""

    def rest(self) -> None:
        """Take no CPU until the next request, which wakes it: threads that look for more work would take those of another session's turn.

        Open sessions that are to rest in a thread that lives as long as they do: Linux wakes them when it ends, so that none is left stopped behind a process that was killed.
        Where the system cannot do that nothing happens; the turn of another session of the same engine then waits until they sleep.
        """

    def close(self) -> None:
        """End the session and free everything; twice is harmless."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Something that can run a GGUF model."""

    @property
    def identity(self) -> EngineIdentity:
        """What the engine is, as it says itself."""

    def open(self, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> Session:
        """Load a model. ``evict_first`` drops the file from the page cache before, for a cold load time.

        Raises:
            EngineError: the engine refused the model or the settings, with its own words.
            EngineCrashError: it died while loading.
        """
