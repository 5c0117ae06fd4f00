"""A model opened with llama.cpp in this very process. Runs inside the worker only; see :mod:`suffice.measure.engine.worker`.

Batches, threads and clock reads follow llama-bench (``tools/llama-bench/llama-bench.cpp``), so that the two agree: random tokens,
BOS first where the vocabulary wants it, an attached thread pool, and ``llama_synchronize`` before each reading of the clock.
Several sequences are decoded together as llama-batched-bench does it (separate caches, all tokens of a step in one batch).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import time
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError
from suffice.measure.engine import enginelog
from suffice.measure.engine.experts import ExpertWatch
from suffice.measure.engine.layouts import Batch
from suffice.measure.engine.pagecache import evict, split_parts
from suffice.measure.engine.seam import ChunkTimings, EngineSettings, ExpertUse, ResolvedSettings, SessionFacts
from suffice.units import NANOSECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from suffice.measure.engine.binding import Binding

GGML_TYPES: Final = {
    "f32": 0, "f16": 1, "bf16": 30, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20,
}  # fmt: skip
FLASH_ATTENTION: Final = {"auto": -1, "off": 0, "on": 1}
_LOAD_MODE_NONE: Final = 0
_LOAD_MODE_MMAP: Final = 1
_NO_SLOT: Final = 1  # llama_decode: no room in the cache
_BATCH_PAD: Final = 64  # older releases round small batches up to this
_TEXT_BYTES: Final = 256  # of a description or of a short value of the metadata


class LlamaCppSession:
    """An open model. Not thread-safe. All times are of ``time.perf_counter_ns``."""

    def __init__(self, binding: Binding, model: Path, settings: EngineSettings, *, evict_first: bool = False) -> None:
        self._binding = binding
        self._settings = settings
        self._pools: dict[int, int | None] = {}
        self._pools_in_use: tuple[int, ...] = ()
        self._model: int | None = None
        self._context: int | None = None
        self._depths = [0] * settings.n_sequences  # tokens that each sequence holds
        self._watch = ExpertWatch(binding) if settings.watch_experts else None
        self._random = random.Random(os.urandom(16))  # noqa: S311 - test input, not a secret
        evicted = evict(split_parts(model)) if evict_first else None
        start_ns = time.perf_counter_ns()
        try:
            self._open(model)
        except EngineError:
            self.close()
            raise
        load_s = (time.perf_counter_ns() - start_ns) / NANOSECONDS_PER_SECOND
        self.facts = self._facts(load_s, evicted)

    def set_threads(self, n_threads: int, n_threads_batch: int) -> None:
        """Use these thread counts from the next evaluation on."""
        if min(n_threads, n_threads_batch) < 1:
            raise EngineError(f"thread counts must be positive, not {n_threads} and {n_threads_batch}")
        decode_pool = self._pool(n_threads)
        batch_pool = self._pool(n_threads_batch) if n_threads_batch != n_threads else None
        if decode_pool is not None:
            self._binding.call("llama_attach_threadpool", self._context, decode_pool, batch_pool)
        self._pools_in_use = tuple(pool for pool in (decode_pool, batch_pool) if pool is not None)
        for pool in self._pools_in_use:  # a new one looks for work at once
            self._binding.pause_threadpool(pool)
        self._binding.call("llama_set_n_threads", self._context, n_threads, n_threads_batch)

    def prefill(self, n_tokens: int, *, prompt: str | None = None) -> ChunkTimings:
        """Clear all caches and evaluate that many tokens in chunks of ``n_batch`` in sequence 0; see the seam."""
        self._check_room(n_tokens, 0)
        tokens = self._prompt_tokens(n_tokens, prompt)
        self._binding.call("llama_memory_clear", self._memory(), False)
        self._depths = [0] * len(self._depths)
        counts: list[int] = []
        seconds: list[float] = []
        with self._threads_awake():
            for start in range(0, n_tokens, self._n_batch):
                chunk = tokens[start : start + self._n_batch]
                batch = _batch(chunk, wants_logits=start + len(chunk) == n_tokens)
                seconds.append(self._evaluate(batch))
                counts.append(len(chunk))
                self._depths[0] += len(chunk)
        return ChunkTimings(tokens=tuple(counts), seconds=tuple(seconds))

    def spread(self, batch: int) -> None:
        """Copy sequence 0 into the sequences 1 to ``batch - 1``.

        By way of the saved state, which every kind of memory has and which is complete at once. ``llama_memory_seq_cp`` would put
        the copy off until the next evaluation, which is timed.
        """
        self._check_batch(batch)
        size: int = self._binding.call("llama_state_seq_get_size", self._context, 0)
        state = ctypes.create_string_buffer(size)
        taken = self._binding.call("llama_state_seq_get_data", self._context, state, size, 0)
        for sequence in range(1, batch):
            set_bytes = self._binding.call("llama_state_seq_set_data", self._context, state, taken, sequence)
            last = self._binding.call("llama_memory_seq_pos_max", self._memory(), sequence)
            if taken == 0 or set_bytes != taken or last != self._depths[0] - 1:
                raise EngineError(
                    f"the engine cannot copy {self._depths[0]} tokens of this model to another sequence: "
                    f"{self._last_words()}; decode from depth 0, or one sequence at a time"
                )
            self._depths[sequence] = self._depths[0]

    def decode(self, n_steps: int, *, batch: int = 1) -> tuple[float, ...]:
        """Evaluate ``n_steps`` steps of a random token for each of ``batch`` sequences; seconds of each step."""
        self._check_batch(batch)
        self._check_room(n_steps, self._depths[0])
        if len(set(self._depths[:batch])) > 1:
            raise EngineError(
                f"the first {batch} sequences hold {self._depths[:batch]} tokens; make them equal with spread({batch})"
            )
        with self._threads_awake():
            return tuple(self._step(batch) for _ in range(n_steps))

    def extend(self, n_tokens: int, *, n_chunks: int = 1) -> tuple[float, ...]:
        """Evaluate chunks of random tokens of sequence 0, each in one evaluation, from the current depth on; seconds of each."""
        most = min(self._n_batch, self._getter("llama_n_ubatch"))
        if not 1 <= n_tokens <= most:
            raise EngineError(
                f"a chunk of {n_tokens} tokens is not one evaluation: from 1 to {most} are (n_batch, n_ubatch)"
            )
        self._check_room(n_tokens * n_chunks, self._depths[0])
        with self._threads_awake():
            return tuple(self._chunk(n_tokens) for _ in range(n_chunks))

    def experts_touched(self, n_steps: int, *, batch: int = 1) -> tuple[ExpertUse, ...] | None:
        """Make decode steps and count the experts that each chose, layer by layer; None for a dense model."""
        if self._watch is None:
            raise EngineError("experts can be counted only in a session that was opened with watch_experts")
        n_expert = self._expert_count()
        if n_expert == 0:
            return None
        self._watch.begin()
        try:
            for _ in range(n_steps):
                self.decode(1, batch=batch)
                self._watch.end_step()
        finally:
            self._watch.stop()
        return self._watch.end(n_expert, batch)

    def rewind(self, depth: int) -> bool:
        """Forget what lies beyond ``depth`` in all sequences; False if this model's state cannot be cut there."""
        if not 0 <= depth <= self._depths[0]:
            raise EngineError(f"cannot rewind to {depth} tokens: the cache holds {self._depths[0]}")
        return all(self._cut(sequence, depth) for sequence, held in enumerate(self._depths) if held > depth)

    def count_tokens(self, text: str) -> int:
        """Tokens of the text alone, without a BOS that a whole prompt would get once."""
        return len(self._tokenize(text))

    def close(self) -> None:
        """Free everything. The pools go last: a context may touch its old pool until it is gone."""
        if self._context:
            self._binding.call("llama_free", self._context)
        if self._model:
            self._binding.call("llama_model_free", self._model)
        for pool in self._pools.values():
            if pool is not None:
                self._binding.free_threadpool(pool)
        self._context = self._model = None
        self._pools, self._pools_in_use = {}, ()

    def _open(self, model: Path) -> None:
        if not model.is_file():
            raise EngineError(f"the model file {model} is not there any more, or is not a file")
        if self._settings.n_sequences < 1:
            raise EngineError(f"a session needs at least one sequence, not {self._settings.n_sequences}")
        self._model = self._load_model(model)
        if self._binding.call("llama_model_has_encoder", self._model) or not self._binding.call(
            "llama_model_has_decoder", self._model
        ):
            raise EngineError(f"{model.name} is not a decoder-only text model; suffice measures token generation")
        self._context = self._new_context(model)
        vocabulary = self._binding.call("llama_model_get_vocab", self._model)
        self._vocabulary = vocabulary
        self._n_vocab = self._binding.call("llama_vocab_n_tokens", vocabulary)
        if self._n_vocab < 1:
            raise EngineError(f"{model.name} has no vocabulary; suffice needs one to make a prompt")
        self._n_batch = self._binding.call("llama_n_batch", self._context)
        self._evaluator = self._binding.function("llama_decode")
        self._synchronize = self._binding.function("llama_synchronize")
        self._verify_settings()
        self.set_threads(self._settings.n_threads, self._settings.n_threads_batch)

    def _step(self, batch: int) -> float:
        at_start = self._depths[0] == 0
        tokens = [self._first_token() if at_start else self._random.randrange(self._n_vocab) for _ in range(batch)]
        seconds = self._evaluate(_batch(tokens, wants_logits=True) if batch == 1 else _batch_of_sequences(tokens))
        for sequence in range(batch):
            self._depths[sequence] += 1
        return seconds

    def _chunk(self, n_tokens: int) -> float:
        tokens = [self._random.randrange(self._n_vocab) for _ in range(n_tokens)]
        if self._depths[0] == 0:
            tokens[0] = self._first_token()
        seconds = self._evaluate(_batch(tokens, wants_logits=True))
        self._depths[0] += n_tokens
        return seconds

    def _cut(self, sequence: int, depth: int) -> bool:
        memory = self._memory()
        if not self._binding.call("llama_memory_seq_rm", memory, sequence, depth, -1):
            return False
        if self._binding.call("llama_memory_seq_pos_max", memory, sequence) != depth - 1:
            return False  # a sliding window has already dropped what would be the last token
        self._depths[sequence] = depth
        return True

    def _expert_count(self) -> int:
        architecture = self._metadata("general.architecture")
        count = self._metadata(f"{architecture}.expert_count")
        return int(count) if count is not None and count.isdecimal() else 0

    def _metadata(self, key: str) -> str | None:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        length = self._binding.call("llama_model_meta_val_str", self._model, key.encode(), text, _TEXT_BYTES)
        return text.value.decode(errors="replace") if length >= 0 else None

    def _load_model(self, model: Path) -> int:
        params = self._binding.default_model_params()
        params.n_gpu_layers = self._settings.n_gpu_layers
        params.use_extra_bufts = self._settings.use_extra_buffers
        if "load_mode" in self._binding.model_layout.names():
            params.load_mode = _LOAD_MODE_MMAP if self._settings.use_mmap else _LOAD_MODE_NONE
        else:
            params.use_mmap = self._settings.use_mmap
        no_devices = (ctypes.c_void_p * 1)(None)
        if self._settings.n_gpu_layers == 0:  # otherwise a GPU would still take the large multiplications of prefill
            params.devices = ctypes.addressof(no_devices)
        loaded: int | None = self._binding.call("llama_model_load_from_file", os.fsencode(model), params)
        if not loaded:
            raise EngineError(f"the engine cannot load {model.name}: {self._last_words()}")
        return loaded

    def _new_context(self, model: Path) -> int:
        wanted = self._settings
        context: int | None = self._binding.call("llama_init_from_model", self._model, self._context_params())
        if not context:
            raise EngineError(
                f"the engine cannot open a context of {wanted.n_sequences} x {wanted.n_ctx} tokens for {model.name}: "
                f"{self._last_words()}"
            )
        return context

    def _context_params(self) -> Any:  # noqa: ANN401 - a struct whose fields depend on the library
        wanted = self._settings
        params = self._binding.default_context_params()
        params.n_ctx, params.n_seq_max = wanted.n_ctx * wanted.n_sequences, wanted.n_sequences
        params.n_batch, params.n_ubatch = wanted.n_batch, wanted.n_ubatch
        params.kv_unified = False  # a cache for each sequence, as llama-bench and llama-batched-bench have it
        params.n_threads, params.n_threads_batch = wanted.n_threads, wanted.n_threads_batch
        params.flash_attn_type = _looked_up(FLASH_ATTENTION, wanted.flash_attention, "flash attention setting")
        params.type_k = _looked_up(GGML_TYPES, wanted.type_k, "KV cache type")
        params.type_v = _looked_up(GGML_TYPES, wanted.type_v, "KV cache type")
        params.swa_full = False  # as llama-bench and the server: a sliding window keeps no more than its window
        params.offload_kqv = params.op_offload = wanted.n_gpu_layers != 0
        if self._watch is not None:
            params.cb_eval = ctypes.cast(self._watch.callback, ctypes.c_void_p)
        return params

    def _verify_settings(self) -> None:
        """Read the settings back: a value that arrived elsewhere means that the struct layout was misjudged."""
        wanted = self._settings
        n_ctx = self._n_ctx()
        totals = (self._getter("llama_n_ctx"), wanted.n_ctx * wanted.n_sequences)
        batches = {wanted.n_batch, *(min(wanted.n_batch, total) for total in totals), _BATCH_PAD}
        found = {
            "n_ctx": n_ctx >= wanted.n_ctx,
            "n_sequences": self._getter("llama_n_seq_max") == wanted.n_sequences,
            "n_batch": self._n_batch in batches,
            "n_ubatch": self._getter("llama_n_ubatch") in {wanted.n_ubatch, min(wanted.n_ubatch, self._n_batch)},
            "n_threads": self._getter("llama_n_threads") == wanted.n_threads,
            "n_threads_batch": self._getter("llama_n_threads_batch") == wanted.n_threads_batch,
        }
        wrong = [name for name, arrived in found.items() if not arrived]
        if wrong:
            raise EngineError(
                f"{self._binding.choice.library} did not take the settings {', '.join(wrong)}; "
                f"its interface is probably not the one that suffice took it for ({self._binding.context_layout.name})"
            )

    def _facts(self, load_s: float, evicted: bool | None) -> SessionFacts:  # noqa: FBT001 - three-valued, not a flag
        description = ctypes.create_string_buffer(_TEXT_BYTES)
        self._binding.call("llama_model_desc", self._model, description, _TEXT_BYTES)
        n_ctx_train = self._binding.call("llama_model_n_ctx_train", self._model)
        return SessionFacts(
            load_s=load_s,
            resolved=self._resolved(),
            n_vocab=self._n_vocab,
            n_ctx_train=n_ctx_train if n_ctx_train > 0 else None,
            model_description=description.value.decode(errors="replace") or None,
            weights_evicted_before_load=evicted,
        )

    def _resolved(self) -> ResolvedSettings:
        lines = self._binding.log.lines()
        types = enginelog.cache_types(lines)
        on_cpu = self._settings.n_gpu_layers == 0
        return ResolvedSettings(
            n_ctx=self._n_ctx(),
            n_sequences=self._getter("llama_n_seq_max"),
            n_batch=self._n_batch,
            n_ubatch=self._getter("llama_n_ubatch"),
            n_threads=self._getter("llama_n_threads"),
            n_threads_batch=self._getter("llama_n_threads_batch"),
            type_k=types[0] if types else None,
            type_v=types[1] if types else None,
            flash_attention=enginelog.flash_attention(lines),
            use_mmap=enginelog.used_mmap(lines),
            n_gpu_layers=0 if on_cpu else enginelog.offloaded_layers(lines),
            devices=enginelog.used_devices(lines),
            kv_cache_bytes=enginelog.kv_cache_bytes(lines),
            compute_buffer_bytes=enginelog.compute_buffer_bytes(lines),
            weight_buffer_bytes=enginelog.weight_buffer_bytes(lines),
        )

    def _evaluate(self, batch: Batch) -> float:
        start_ns = time.perf_counter_ns()
        status = self._evaluator(self._context, batch)
        self._synchronize(self._context)
        end_ns = time.perf_counter_ns()
        if status == _NO_SLOT:
            raise EngineError(
                f"the context is full: no room for {batch.n_tokens} more tokens at depth {self._depths[0]} "
                f"of n_ctx {self._n_ctx()}"
            )
        if status != 0:
            raise EngineError(f"llama_decode failed with {status} at depth {self._depths[0]}: {self._last_words()}")
        return (end_ns - start_ns) / NANOSECONDS_PER_SECOND

    def _check_room(self, n_tokens: int, depth: int) -> None:
        n_ctx = self._n_ctx()
        if n_tokens < 1:
            raise EngineError(f"at least one token must be evaluated, not {n_tokens}")
        if depth + n_tokens > n_ctx:
            raise EngineError(f"{n_tokens} tokens at depth {depth} do not fit into n_ctx {n_ctx}")

    def _check_batch(self, batch: int) -> None:
        most = min(self._settings.n_sequences, self._n_batch, self._getter("llama_n_ubatch"))
        if not 1 <= batch <= most:
            raise EngineError(
                f"a step of {batch} sequences is not possible: this session was opened for 1 to {most} "
                "(the least of n_sequences, n_batch and n_ubatch)"
            )

    def _prompt_tokens(self, n_tokens: int, prompt: str | None) -> list[int]:
        if prompt is None:
            return [self._first_token(), *(self._random.randrange(self._n_vocab) for _ in range(n_tokens - 1))]
        text = self._tokenize(prompt)
        if not text:
            raise EngineError("the prompt has no tokens; give a text that is not empty")
        bos = [self._first_token()] if self._adds_bos() else []
        repeats = -(-n_tokens // len(text))
        return (bos + text * repeats)[:n_tokens]

    def _adds_bos(self) -> bool:
        return bool(self._binding.call("llama_vocab_get_add_bos", self._vocabulary))

    def _first_token(self) -> int:
        bos: int = self._binding.call("llama_vocab_bos", self._vocabulary) if self._adds_bos() else -1
        return bos if 0 <= bos < self._n_vocab else self._random.randrange(self._n_vocab)

    def _tokenize(self, text: str) -> list[int]:
        raw = text.encode("utf-8", errors="replace")
        capacity = len(raw) + 8  # a token is at least one byte; some vocabularies add a leading space
        tokens = (ctypes.c_int32 * capacity)()
        count = self._binding.call("llama_tokenize", self._vocabulary, raw, len(raw), tokens, capacity, False, False)
        if count < 0:
            raise EngineError(f"the model's tokenizer refused a text of {len(raw)} bytes")
        return list(tokens[:count])

    def _pool(self, n_threads: int) -> int | None:
        if n_threads not in self._pools:
            self._pools[n_threads] = self._binding.new_threadpool(n_threads)
        return self._pools[n_threads]

    @contextlib.contextmanager
    def _threads_awake(self) -> Iterator[None]:
        """Threads that wait for work within, and sleep outside: a session that is not used must not disturb another one."""
        for pool in self._pools_in_use:
            self._binding.resume_threadpool(pool)
        try:
            yield
        finally:
            for pool in self._pools_in_use:
                self._binding.pause_threadpool(pool)

    def _n_ctx(self) -> int:
        """Tokens that each sequence has room for."""
        if self._binding.has("llama_n_ctx_seq"):
            return self._getter("llama_n_ctx_seq")
        return self._getter("llama_n_ctx") // self._settings.n_sequences

    def _memory(self) -> Any:  # noqa: ANN401 - an opaque pointer
        return self._binding.call("llama_get_memory", self._context)

    def _getter(self, name: str) -> int:
        value: int = self._binding.call(name, self._context)
        return value

    def _last_words(self) -> str:
        return self._binding.log.last_errors() or "it gave no reason"


def _batch(tokens: list[int], *, wants_logits: bool) -> Batch:
    """A batch of one sequence whose positions the engine counts itself; logits of the last token, or of none."""
    logits = (ctypes.c_int8 * len(tokens))()
    logits[len(tokens) - 1] = int(wants_logits)
    return Batch(
        n_tokens=len(tokens),
        token=(ctypes.c_int32 * len(tokens))(*tokens),
        logits=logits,
    )


def _batch_of_sequences(tokens: list[int]) -> Batch:
    """One token for each of the sequences 0, 1, ..., with logits for all."""
    count = len(tokens)
    owners = [(ctypes.c_int32 * 1)(sequence) for sequence in range(count)]
    integer = ctypes.POINTER(ctypes.c_int32)
    return Batch(
        n_tokens=count,
        token=(ctypes.c_int32 * count)(*tokens),
        n_seq_id=(ctypes.c_int32 * count)(*[1] * count),
        seq_id=(integer * count)(*(ctypes.cast(owner, integer) for owner in owners)),
        logits=(ctypes.c_int8 * count)(*[1] * count),
    )


def _looked_up(table: dict[str, int], name: str, what: str) -> int:
    if name not in table:
        raise EngineError(f"unknown {what} {name!r}; choose one of {', '.join(sorted(table))}")
    return table[name]
