"""llama.cpp's C functions as Python methods: argument types are declared once, and struct layouts are verified on loading."""

from __future__ import annotations

import ctypes
import sys
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError
from suffice.measure.engine.enginelog import EngineLog, is_worth_telling, parse_isa
from suffice.measure.engine.layouts import (
    BUFFER_BYTES,
    CONTEXT_LAYOUTS,
    MODEL_LAYOUTS,
    QUANTIZE_LAYOUTS,
    Batch,
    select_layout,
    select_newest,
)
from suffice.measure.engine.library import LibraryChoice, load_libraries
from suffice.measure.engine.seam import EngineIdentity

if TYPE_CHECKING:
    from collections.abc import Callable

_POINTER: Final = ctypes.c_void_p
_INT: Final = ctypes.c_int32
_TEXT: Final = ctypes.c_char_p
_BOOL: Final = ctypes.c_bool

_SIGNATURES: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "llama_backend_init": (None, ()),
    "llama_print_system_info": (_TEXT, ()),
    "llama_log_set": (None, (_POINTER, _POINTER)),
    "llama_model_free": (None, (_POINTER,)),
    "llama_free": (None, (_POINTER,)),
    "llama_n_ctx": (ctypes.c_uint32, (_POINTER,)),
    "llama_n_seq_max": (ctypes.c_uint32, (_POINTER,)),
    "llama_n_batch": (ctypes.c_uint32, (_POINTER,)),
    "llama_n_ubatch": (ctypes.c_uint32, (_POINTER,)),
    "llama_n_threads": (_INT, (_POINTER,)),
    "llama_n_threads_batch": (_INT, (_POINTER,)),
    "llama_set_n_threads": (None, (_POINTER, _INT, _INT)),
    "llama_attach_threadpool": (None, (_POINTER, _POINTER, _POINTER)),
    "llama_model_get_vocab": (_POINTER, (_POINTER,)),
    "llama_model_n_ctx_train": (_INT, (_POINTER,)),
    "llama_model_desc": (_INT, (_POINTER, _TEXT, ctypes.c_size_t)),
    "llama_model_has_encoder": (_BOOL, (_POINTER,)),
    "llama_model_has_decoder": (_BOOL, (_POINTER,)),
    "llama_vocab_n_tokens": (_INT, (_POINTER,)),
    "llama_vocab_get_add_bos": (_BOOL, (_POINTER,)),
    "llama_vocab_bos": (_INT, (_POINTER,)),
    "llama_tokenize": (_INT, (_POINTER, _TEXT, _INT, ctypes.POINTER(_INT), _INT, _BOOL, _BOOL)),
    "llama_get_memory": (_POINTER, (_POINTER,)),
    "llama_memory_clear": (None, (_POINTER, _BOOL)),
    "llama_memory_seq_rm": (_BOOL, (_POINTER, _INT, _INT, _INT)),
    "llama_memory_seq_pos_max": (_INT, (_POINTER, _INT)),
    "llama_decode": (_INT, (_POINTER, Batch)),
    "llama_synchronize": (None, (_POINTER,)),
}
_OPTIONAL: Final[dict[str, tuple[Any, tuple[Any, ...]]]] = {
    "llama_n_ctx_seq": (ctypes.c_uint32, (_POINTER,)),
    "llama_model_meta_val_str": (_INT, (_POINTER, _TEXT, _TEXT, ctypes.c_size_t)),
    "llama_vocab_type": (_INT, (_POINTER,)),
    "llama_vocab_get_text": (_TEXT, (_POINTER, _INT)),
    "llama_vocab_eos": (_INT, (_POINTER,)),
    "llama_vocab_is_eog": (_BOOL, (_POINTER, _INT)),
    "llama_token_to_piece": (_INT, (_POINTER, _INT, _TEXT, _INT, _INT, _BOOL)),
    "llama_model_is_recurrent": (_BOOL, (_POINTER,)),
    "llama_model_is_hybrid": (_BOOL, (_POINTER,)),
    "llama_get_logits_ith": (_POINTER, (_POINTER, _INT)),
    "llama_state_seq_get_size": (ctypes.c_size_t, (_POINTER, _INT)),
    "llama_state_seq_get_data": (ctypes.c_size_t, (_POINTER, _POINTER, ctypes.c_size_t, _INT)),
    "llama_state_seq_set_data": (ctypes.c_size_t, (_POINTER, _POINTER, ctypes.c_size_t, _INT)),
    "llama_model_quantize": (ctypes.c_uint32, (_TEXT, _TEXT, _POINTER)),
    "ggml_get_name": (_TEXT, (_POINTER,)),
    "ggml_nelements": (ctypes.c_int64, (_POINTER,)),
    "ggml_nbytes": (ctypes.c_size_t, (_POINTER,)),
    "ggml_backend_tensor_get": (None, (_POINTER, _POINTER, ctypes.c_size_t, ctypes.c_size_t)),
    "ggml_type_name": (_TEXT, (_INT,)),
    "ggml_row_size": (ctypes.c_size_t, (_INT, ctypes.c_int64)),
    "ggml_quantize_init": (None, (_INT,)),
    "ggml_quantize_requires_imatrix": (_BOOL, (_INT,)),
    "ggml_quantize_chunk": (ctypes.c_size_t, (_INT, _POINTER, _POINTER, *(ctypes.c_int64,) * 3, _POINTER)),
    "ggml_threadpool_pause": (None, (_POINTER,)),
    "ggml_threadpool_resume": (None, (_POINTER,)),
    "ggml_version": (_TEXT, ()),
    "ggml_commit": (_TEXT, ()),
    "ggml_backend_reg_count": (ctypes.c_size_t, ()),
    "ggml_backend_load_all_from_path": (None, (_TEXT,)),
    "ggml_backend_dev_count": (ctypes.c_size_t, ()),
    "ggml_backend_dev_get": (_POINTER, (ctypes.c_size_t,)),
    "ggml_backend_dev_type": (_INT, (_POINTER,)),
    "ggml_backend_dev_description": (_TEXT, (_POINTER,)),
    "ggml_backend_dev_by_type": (_POINTER, (_INT,)),
    "ggml_backend_dev_backend_reg": (_POINTER, (_POINTER,)),
    "ggml_backend_reg_get_proc_address": (_POINTER, (_POINTER, _TEXT)),
    "ggml_threadpool_params_init": (None, (_POINTER, _INT)),
}
_LOG_CALLBACK: Final = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_NEW_POOL: Final = ctypes.CFUNCTYPE(_POINTER, _POINTER)
_FREE_POOL: Final = ctypes.CFUNCTYPE(None, _POINTER)

_TOLD_LINES: Final = 10_000  # warnings and errors that go to stderr, which the client keeps in a file
_CPU_DEVICE: Final = 0  # ggml_backend_dev_type
_GPU_DEVICE: Final = 1
_POOL_PARAMS_BYTES: Final = 4096  # ggml_threadpool_params has 528
_POOL_THREADS_OFFSET: Final = 512  # behind one byte per possible CPU


class Binding:
    """One loaded library. Never leaves the worker process, as a crash inside would take the process along."""

    def __init__(self, choice: LibraryChoice) -> None:
        self.choice = choice
        self.log = EngineLog()
        self.watch: Callable[[str], None] | None = None  # gets every line of the log, on whatever thread says it
        self._told_lines = 0
        self._libraries = load_libraries(choice)
        self._functions: dict[str, Any] = {}
        self._log_callback = _LOG_CALLBACK(self._on_log)  # kept: llama.cpp calls it for as long as it lives
        for name, signature in _SIGNATURES.items():
            self._declare(name, signature, needed=True)
        for name, signature in _OPTIONAL.items():
            self._declare(name, signature, needed=False)
        self.call("llama_log_set", ctypes.cast(self._log_callback, ctypes.c_void_p), None)
        self._where = f"{choice.name} {choice.version or ''}".strip() + f" ({choice.library})"
        self.model_layout = select_layout(MODEL_LAYOUTS, self._defaults("llama_model_default_params"), self._where)
        self.context_layout = select_layout(
            CONTEXT_LAYOUTS, self._defaults("llama_context_default_params"), self._where
        )
        self._model_type = self._declare_default("llama_model_default_params", self.model_layout.structure())
        self._context_type = self._declare_default("llama_context_default_params", self.context_layout.structure())
        self._declare("llama_model_load_from_file", (_POINTER, (_TEXT, self._model_type)), needed=True)
        self._declare("llama_init_from_model", (_POINTER, (_POINTER, self._context_type)), needed=True)
        self._load_backends()
        self.call("llama_backend_init")

    def call(self, name: str, *arguments: Any) -> Any:  # noqa: ANN401 - whatever the C function gives
        """Call a C function of the table above. Raises EngineError if this library does not have it."""
        return self.function(name)(*arguments)

    def function(self, name: str) -> Callable[..., Any]:
        """The C function itself, for loops that are timed. Raises EngineError if this library does not have it."""
        found: Callable[..., Any] | None = self._functions.get(name)
        if found is None:
            raise EngineError(f"{self.choice.library} has no {name}; it is too old or was stripped")
        return found

    def has(self, name: str) -> bool:
        """Whether the library exports a function of the table above."""
        return name in self._functions

    def identity(self) -> EngineIdentity:
        """What the library says of itself."""
        info = self.call("llama_print_system_info").decode(errors="replace")
        return EngineIdentity(
            name=self.choice.name,
            version=self.choice.version,
            llama_cpp_version=self._ggml_version(),
            system_info=info,
            isa_used=parse_isa(info),
            prebuilt=self.choice.prebuilt,
            gpu_devices=self._gpu_devices(),
        )

    def default_model_params(self) -> Any:  # noqa: ANN401 - a struct whose fields depend on the library
        """``llama_model_default_params()`` in this library's layout."""
        return self.call("llama_model_default_params")

    def default_context_params(self) -> Any:  # noqa: ANN401 - a struct whose fields depend on the library
        """``llama_context_default_params()`` in this library's layout."""
        return self.call("llama_context_default_params")

    def default_quantize_params(self) -> Any:  # noqa: ANN401 - a struct whose fields depend on the library
        """``llama_model_quantize_default_params()`` in this library's layout; only where :meth:`has` says ``llama_model_quantize``.

        Raises:
            EngineError: the layout is none that suffice knows.
        """
        raw = self._defaults("llama_model_quantize_default_params")
        return select_newest(QUANTIZE_LAYOUTS, raw, self._where).structure().from_buffer_copy(raw)

    def new_threadpool(self, n_threads: int) -> int | None:
        """A ggml thread pool of the default priority and polling, as llama-bench makes it. None: use the engine's own."""
        create = self._pool_function("ggml_threadpool_new")
        if create is None or not self.has("ggml_threadpool_params_init"):
            return None
        params = ctypes.create_string_buffer(_POOL_PARAMS_BYTES)
        self.call("ggml_threadpool_params_init", params, n_threads)
        if ctypes.c_int.from_buffer(params, _POOL_THREADS_OFFSET).value != n_threads:
            return None  # another layout than the known one; the engine's own pool is safe
        pool: int | None = _NEW_POOL(create)(ctypes.addressof(params))
        return pool

    def pause_threadpool(self, pool: int) -> None:
        """Let a pool's threads sleep at once; they would look for work for about 0.1 s more. No harm where it cannot be done."""
        if self.has("ggml_threadpool_pause"):
            self.call("ggml_threadpool_pause", pool)

    def resume_threadpool(self, pool: int) -> None:
        """Wake a pool's threads, so that the next evaluation finds them waiting for work as after the one before."""
        if self.has("ggml_threadpool_resume"):
            self.call("ggml_threadpool_resume", pool)

    def free_threadpool(self, pool: int) -> None:
        """Free a pool that no context uses any more."""
        free = self._pool_function("ggml_threadpool_free")
        if free is not None:
            _FREE_POOL(free)(pool)

    def _declare(self, name: str, signature: tuple[Any, tuple[Any, ...]], *, needed: bool) -> None:
        function = self._libraries.find(name)
        if function is None:
            if needed:
                raise EngineError(f"{self.choice.library} has no {name}; it is too old or too new for suffice")
            return
        function.restype = signature[0]
        function.argtypes = list(signature[1])
        self._functions[name] = function

    def _declare_default(self, name: str, structure: type[ctypes.Structure]) -> type[ctypes.Structure]:
        self._declare(name, (structure, ()), needed=True)
        return structure

    def _defaults(self, name: str) -> bytes:
        raw = type("RawParams", (ctypes.Structure,), {"_fields_": [("raw", ctypes.c_uint8 * BUFFER_BYTES)]})
        self._declare(name, (raw, ()), needed=True)
        return bytes(self.call(name))

    def _load_backends(self) -> None:
        """Load per-CPU backends that lie beside the library, if the build keeps them apart.

        Only from the library's own directory: llama.cpp's default would also search the current one, where anybody's file may be.
        """
        if not self.has("ggml_backend_reg_count") or not self.has("ggml_backend_load_all_from_path"):
            return
        if self.call("ggml_backend_reg_count") == 0:
            self.call("ggml_backend_load_all_from_path", str(self.choice.library.parent).encode())

    def _ggml_version(self) -> str | None:
        if not self.has("ggml_version"):
            return None
        version = self.call("ggml_version").decode(errors="replace")
        commit = self.call("ggml_commit").decode(errors="replace") if self.has("ggml_commit") else "unknown"
        return f"ggml {version}" if commit == "unknown" else f"ggml {version} ({commit})"

    def _gpu_devices(self) -> tuple[str, ...]:
        """Descriptions of the devices of GPU type. Integrated GPUs are left out: their number moved between releases."""
        if not self.has("ggml_backend_dev_count"):
            return ()
        devices = [self.call("ggml_backend_dev_get", index) for index in range(self.call("ggml_backend_dev_count"))]
        gpus = [device for device in devices if self.call("ggml_backend_dev_type", device) == _GPU_DEVICE]
        return tuple(self.call("ggml_backend_dev_description", gpu).decode(errors="replace") for gpu in gpus)

    def _pool_function(self, name: str) -> int | None:
        if not self.has("ggml_backend_reg_get_proc_address"):
            return None
        device = self.call("ggml_backend_dev_by_type", _CPU_DEVICE)
        if not device:
            return None
        registry = self.call("ggml_backend_dev_backend_reg", device)
        address: int | None = self.call("ggml_backend_reg_get_proc_address", registry, name.encode())
        return address

    def _on_log(self, level: int, text: bytes | None, _user_data: int | None) -> None:
        for line_level, line in self.log.feed(level, (text or b"").decode(errors="replace")):
            if self.watch is not None:
                self.watch(line)
            if is_worth_telling(line_level) and self._told_lines < _TOLD_LINES:
                self._told_lines += 1
                print(line, file=sys.stderr, flush=True)  # noqa: T201 - the worker's own stderr: survives its death
