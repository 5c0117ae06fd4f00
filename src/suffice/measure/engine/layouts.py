"""Memory layouts of llama.cpp's parameter structs, as data, and how the one of a loaded library is found.

llama.cpp passes ``llama_model_params`` and ``llama_context_params`` by value (``llama_model_quantize_params`` by reference), and inserts fields in the middle from time to time.
A wrong layout does not fail: it sets a thread count where a batch size is. So each layout is listed here with the default value
of every field, the library is asked for its defaults, and a layout counts only if every default stands where it should.

The structs are read into a buffer far larger than any of them. Returned structs come through a hidden pointer, and passed ones are
copied to the stack or passed by reference, so a size beyond the real one is harmless on every 64-bit calling convention; and
fields that a newer library added at the end travel back unchanged.

The layouts are facts of ``include/llama.h``. The table reaches back to September 2025, when ``flash_attn_type`` came.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any, Final

from suffice.errors import EngineError
from suffice.units import GIB

BUFFER_BYTES: Final = 512  # more than three times the largest known struct
TESTED_WITH: Final = "llama-cpp-python 0.3.36 or xllamacpp 2026.10"


@dataclass(frozen=True, slots=True)
class Slot:
    """One field: its name, C type and every value that some release has as the default. No value: not checked."""

    name: str
    kind: type[Any]
    defaults: tuple[float | bool, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Layout:
    """One known layout. ``since`` says which release of llama.cpp it was read from or checked against."""

    name: str
    since: str
    slots: tuple[Slot, ...]

    def structure(self) -> type[ctypes.Structure]:
        """The layout as a ctypes type of :data:`BUFFER_BYTES` bytes."""
        fields: list[tuple[str, type[Any]]] = [(slot.name, slot.kind) for slot in self.slots]
        exact = type(f"{self.name}_exact", (ctypes.Structure,), {"_fields_": fields})
        rest = BUFFER_BYTES - ctypes.sizeof(exact)
        body = {"_fields_": [*fields, ("rest", ctypes.c_uint8 * rest)]}
        return type(self.name, (ctypes.Structure,), body)

    def names(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(slot.name for slot in self.slots)

    def first_mismatch(self, defaults: bytes) -> str | None:
        """The first field whose default is not where this layout says, or None if all fit."""
        value = self.structure().from_buffer_copy(defaults.ljust(BUFFER_BYTES, b"\0"))
        for slot in self.slots:
            found = _plain(value, slot)
            if slot.defaults and found not in slot.defaults:
                return f"{slot.name} is {found:g}"
        return None


def _plain(value: ctypes.Structure, slot: Slot) -> float:
    """The field as a number; a null pointer is 0. A boolean is read as its byte, so that 7 is not taken for true."""
    if slot.kind is ctypes.c_bool:
        offset = getattr(type(value), slot.name).offset
        return float(bytes(value)[offset])
    found: float | None = getattr(value, slot.name)
    return 0 if found is None else found


def _pointers(*names: str) -> tuple[Slot, ...]:
    return tuple(Slot(name, ctypes.c_void_p) for name in names)


def _uints(**defaults: int) -> tuple[Slot, ...]:
    return tuple(Slot(name, ctypes.c_uint32, (value,)) for name, value in defaults.items())


def _ints(**defaults: int) -> tuple[Slot, ...]:
    return tuple(Slot(name, ctypes.c_int32, (value,)) for name, value in defaults.items())


def _floats(**defaults: float) -> tuple[Slot, ...]:
    return tuple(Slot(name, ctypes.c_float, (value,)) for name, value in defaults.items())


def _bools(**defaults: bool) -> tuple[Slot, ...]:
    return tuple(Slot(name, ctypes.c_bool, (value,)) for name, value in defaults.items())


_GPU_LAYERS: Final = Slot("n_gpu_layers", ctypes.c_int32, (-1, 0, 99, 999))  # the default moved with the releases
_MODEL_HEAD: Final = (*_pointers("devices", "tensor_buft_overrides"), _GPU_LAYERS, *_ints(split_mode=1))
_MODEL_POINTERS: Final = _pointers("tensor_split", "progress_callback", "progress_callback_user_data", "kv_overrides")
_LOAD_MODE: Final = Slot("load_mode", ctypes.c_int32, (-1, 1))  # auto, or mmap before auto existed
_MODEL_TAIL: Final = _bools(
    vocab_only=False, check_tensors=False, use_extra_bufts=True, no_host=False, no_alloc=False, load_mtp=False
)
_DIRECT_IO: Final = Slot("use_direct_io", ctypes.c_bool, (0, 1))  # was true for some weeks of January 2026

MODEL_LAYOUTS: Final = (
    Layout(
        "model_lazy_mode",
        "ggml 0.25 (llama-cpp-python 0.3.36, xllamacpp 2026.10)",
        (*_MODEL_HEAD, _LOAD_MODE, *_ints(lazy_mode=1, main_gpu=0), *_MODEL_POINTERS, *_MODEL_TAIL),
    ),
    Layout(
        "model_load_mode",
        "b10107 (xllamacpp 2026.8)",
        (*_MODEL_HEAD, _LOAD_MODE, *_ints(main_gpu=0), *_MODEL_POINTERS, *_MODEL_TAIL),
    ),
    Layout(
        "model_direct_io",
        "2026 (xllamacpp 2026.4 and 2026.7)",
        (
            *(*_MODEL_HEAD, *_ints(main_gpu=0), *_MODEL_POINTERS, *_bools(vocab_only=False, use_mmap=True), _DIRECT_IO),
            *_bools(use_mlock=False, check_tensors=False, use_extra_bufts=True, no_host=False, no_alloc=False),
        ),
    ),
    Layout(
        "model_mmap",
        "September 2025 (xllamacpp 0.2)",
        (
            *(*_MODEL_HEAD, *_ints(main_gpu=0), *_MODEL_POINTERS, *_bools(vocab_only=False, use_mmap=True)),
            *_bools(use_mlock=False, check_tensors=False, use_extra_bufts=True),
        ),
    ),
)

_CONTEXT_SIZES: Final = _uints(n_ctx=512, n_batch=2048, n_ubatch=512, n_seq_max=1)
_CONTEXT_OUTPUTS: Final = _uints(n_rs_seq=0, n_outputs_max=0)
_CONTEXT_THREADS: Final = _ints(n_threads=4, n_threads_batch=4)
_CONTEXT_TYPE: Final = _ints(ctx_type=0)
_CONTEXT_ENUMS: Final = _ints(rope_scaling_type=-1, pooling_type=-1, attention_type=-1, flash_attn_type=-1)
_CONTEXT_ROPE: Final = (
    *_floats(rope_freq_base=0.0, rope_freq_scale=0.0, yarn_ext_factor=-1.0),
    Slot("yarn_attn_factor", ctypes.c_float, (-1.0, 1.0)),
    Slot("yarn_beta_fast", ctypes.c_float, (-1.0, 32.0)),
    Slot("yarn_beta_slow", ctypes.c_float, (-1.0, 1.0)),
    *_uints(yarn_orig_ctx=0),
    *_floats(defrag_thold=-1.0),
)
_CONTEXT_CACHE: Final = (*_pointers("cb_eval", "cb_eval_user_data"), *_ints(type_k=1, type_v=1))
_MOE_CACHE: Final = (Slot("moe_cache_size", ctypes.c_size_t),)
_CONTEXT_TAIL: Final = (
    *_pointers("abort_callback", "abort_callback_data"),
    *_bools(embeddings=False, offload_kqv=True, no_perf=True, op_offload=True, swa_full=True, kv_unified=False),
)

CONTEXT_LAYOUTS: Final = (
    Layout(
        "context_moe_cache",
        "ggml 0.26 (xllamacpp 2026.10)",
        (
            *(*_CONTEXT_SIZES, *_CONTEXT_OUTPUTS, *_uints(n_outputs_max_per_seq=1), *_CONTEXT_THREADS, *_CONTEXT_TYPE),
            *(*_CONTEXT_ENUMS, *_CONTEXT_ROPE, *_CONTEXT_CACHE, *_MOE_CACHE, *_CONTEXT_TAIL),
        ),
    ),
    Layout(
        "context_outputs_per_seq",
        "ggml 0.25 (llama-cpp-python 0.3.36)",
        (
            *(*_CONTEXT_SIZES, *_CONTEXT_OUTPUTS, *_uints(n_outputs_max_per_seq=1), *_CONTEXT_THREADS, *_CONTEXT_TYPE),
            *(*_CONTEXT_ENUMS, *_CONTEXT_ROPE, *_CONTEXT_CACHE, *_CONTEXT_TAIL),
        ),
    ),
    Layout(
        "context_outputs",
        "2026 (xllamacpp 2026.7)",
        (
            *(*_CONTEXT_SIZES, *_CONTEXT_OUTPUTS, *_CONTEXT_THREADS, *_CONTEXT_TYPE),
            *(*_CONTEXT_ENUMS, *_CONTEXT_ROPE, *_CONTEXT_CACHE, *_CONTEXT_TAIL),
        ),
    ),
    Layout(
        "context_flash_type",
        "September 2025 (xllamacpp 0.2 to 2026.4)",
        (*_CONTEXT_SIZES, *_CONTEXT_THREADS, *_CONTEXT_ENUMS, *_CONTEXT_ROPE, *_CONTEXT_CACHE, *_CONTEXT_TAIL),
    ),
)

_TYPE_COUNT: Final = tuple(range(36, 128))  # GGML_TYPE_COUNT, which grows: no type of its own is asked for
_QUANTIZE_HEAD: Final = (
    *_ints(nthread=0),
    Slot("ftype", ctypes.c_int32, (7, 9)),  # Q8_0, or Q5_1 before that
    *(Slot(name, ctypes.c_int32, _TYPE_COUNT) for name in ("output_tensor_type", "token_embedding_type")),
    *_bools(allow_requantize=False, quantize_output_tensor=True, only_copy=False, pure=False, keep_split=False),
)
_QUANTIZE_POINTERS: Final = _pointers("imatrix", "kv_overrides", "tt_overrides", "prune_layers")
_QUANTIZE_BUFFER_BYTES: Final = (
    8 * GIB
)  # the most of a tensor that the quantizer holds in memory, unless told otherwise

QUANTIZE_LAYOUTS: Final = (
    Layout(
        "quantize_max_buffer",
        "ggml 0.25 (llama-cpp-python 0.3.36)",
        (
            *(*_QUANTIZE_HEAD, *_bools(dry_run=False), *_QUANTIZE_POINTERS),
            Slot("max_buf_size", ctypes.c_size_t, (_QUANTIZE_BUFFER_BYTES,)),
        ),
    ),
    Layout(
        "quantize_whole_tensors",
        "September 2025 to early 2026, with and without dry_run, whose byte was padding before",
        (*_QUANTIZE_HEAD, Slot("dry_run", ctypes.c_bool, ()), *_QUANTIZE_POINTERS),
    ),
)
"""The newest first: this struct grew at its end, so a newer library fits the older layout as well."""


class Batch(ctypes.Structure):
    """``llama_batch``; unchanged in all known releases."""

    _fields_ = (
        ("n_tokens", ctypes.c_int32),
        ("token", ctypes.POINTER(ctypes.c_int32)),
        ("embd", ctypes.c_void_p),
        ("pos", ctypes.c_void_p),
        ("n_seq_id", ctypes.POINTER(ctypes.c_int32)),
        ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))),
        ("logits", ctypes.POINTER(ctypes.c_int8)),
    )


def select_layout(candidates: tuple[Layout, ...], defaults: bytes, library: str) -> Layout:
    """The one layout in which every default of the library stands where it should.

    Raises:
        EngineError: none fits, or more than one does; the library is then not one that suffice can drive safely.
    """
    reasons = {layout.name: layout.first_mismatch(defaults) for layout in candidates}
    fitting = [layout for layout in candidates if reasons[layout.name] is None]
    if len(fitting) == 1:
        return fitting[0]
    found = "several layouts fit" if fitting else "; ".join(f"{name}: {why}" for name, why in reasons.items())
    raise EngineError(
        f"the interface of {library} is not one that suffice knows ({found}); use {TESTED_WITH}, or another build of llama.cpp"
    )


def select_newest(candidates: tuple[Layout, ...], defaults: bytes, library: str) -> Layout:
    """The first layout in which every default of the library stands where it should, for a struct that only grew at its end.

    Raises:
        EngineError: none fits.
    """
    fitting = [layout for layout in candidates if layout.first_mismatch(defaults) is None]
    return select_layout(tuple(fitting[:1]) or candidates, defaults, library)
