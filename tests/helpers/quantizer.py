"""llama.cpp's own quantizer: what it says it would do (its dry run), or what it does, in a process of its own, as it may crash.

Needs a library with ``llama_model_quantize``: llama-cpp-python, or the libllama in SUFFICE_TEST_LIBRARY. xllamacpp was built without it.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from suffice.measure.engine.library import LibraryChoice, available_engines, choose_library, load_library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_FUNCTION = b"llama_model_quantize_default_params\0"
_TIMEOUT_S = 300
_LINE = re.compile(
    r"\[ *\d+/ *\d+\] +(?P<name>\S+) +- \[[^\]]*\], type = +(?P<old>\w+), size = +[\d.]+ MiB(?: -> +[\d.]+ MiB \((?P<new>\w+)\))?"
)
_DEFAULT_FILE_TYPE = 7  # Q8_0


class QuantizerError(Exception):
    """The quantizer refused, crashed or is another one than we know; the message holds what it said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call of the quantizer."""

    source: str
    file_type: int
    target: str | None = None  # None: dry run
    imatrix: Mapping[str, int] | None = None  # importance matrix of ones: how many for each tensor; None: no matrix


@dataclass(frozen=True, slots=True)
class Planned:
    """What the quantizer says of one tensor."""

    name: str
    type_name: str


class _Importance(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("data", ctypes.c_void_p), ("size", ctypes.c_size_t))


class _Params(ctypes.Structure):
    """``llama_model_quantize_params``; the fields in front are the same in all releases since the dry run came."""

    _fields_ = (
        ("n_threads", ctypes.c_int32),
        ("file_type", ctypes.c_int32),
        ("output_type", ctypes.c_int32),
        ("embedding_type", ctypes.c_int32),
        ("allow_requantize", ctypes.c_bool),
        ("quantize_output", ctypes.c_bool),
        ("only_copy", ctypes.c_bool),
        ("pure", ctypes.c_bool),
        ("keep_split", ctypes.c_bool),
        ("dry_run", ctypes.c_bool),
        ("imatrix", ctypes.c_void_p),
        ("kv_overrides", ctypes.c_void_p),
        ("type_overrides", ctypes.c_void_p),
        ("prune_layers", ctypes.c_void_p),
        ("reserved", ctypes.c_size_t * 8),
    )


def find_quantizer() -> LibraryChoice | None:
    """A library that can quantize, or None."""
    given = os.environ.get("SUFFICE_TEST_LIBRARY")
    choices = [choose_library(Path(given))] if given else []
    return next((choice for choice in (*choices, *available_engines()) if _exports(choice.library)), None)


def run_quantizer(choice: LibraryChoice, jobs: Sequence[Job], timeout_s: float = _TIMEOUT_S) -> list[list[Planned]]:
    """Do the jobs, one after the other, in a child process. For each, the tensors in the order of the quantizer; empty if not a dry run.

    Raises:
        QuantizerError: it refused one of them, or crashed.
    """
    request = {"library": str(choice.library), "name": choice.name, "jobs": [asdict(job) for job in jobs]}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).resolve())],
        input=json.dumps(request),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env=environment,
        check=False,
    )
    if done.returncode:
        raise QuantizerError(f"exit {done.returncode}: {done.stderr[-2000:]}")
    answer: list[str] = json.loads(done.stdout)
    return [[Planned(m["name"], m["new"] or m["old"]) for m in _LINE.finditer(log)] for log in answer]


def _exports(library: Path) -> bool:
    with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        return view.find(_FUNCTION) >= 0


def _child(request: dict[str, Any]) -> list[str]:
    wanted = Path(request["library"])
    known = [choice for choice in available_engines() if choice.library == wanted]
    library = load_library(known[0] if known else choose_library(wanted))
    text: list[str] = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(
        lambda _level, line, _data: text.append(line.decode(errors="replace"))
    )
    library.llama_log_set(callback, None)
    library.llama_backend_init()
    library.llama_model_quantize_default_params.restype = _Params
    library.llama_model_quantize.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(_Params)]
    library.llama_model_quantize.restype = ctypes.c_uint32
    logs = []
    for job in request["jobs"]:
        text.clear()
        _quantize(library, Job(**job), text)
        logs.append("".join(text))
    return logs


def _quantize(library: ctypes.CDLL, job: Job, text: list[str]) -> None:
    params = library.llama_model_quantize_default_params()
    flags = (params.allow_requantize, params.only_copy, params.pure, params.keep_split, params.dry_run)
    if params.file_type != _DEFAULT_FILE_TYPE or any(flags) or not params.quantize_output:
        raise QuantizerError("llama_model_quantize_params has another layout than the known one")
    params.n_threads, params.file_type, params.dry_run = 1, job.file_type, job.target is None
    matrix, _kept = _importance(job.imatrix or {})
    params.imatrix = ctypes.addressof(matrix) if job.imatrix is not None else None
    target = (job.target or f"{job.source}.never").encode()
    if library.llama_model_quantize(job.source.encode(), target, ctypes.byref(params)):
        raise QuantizerError(f"{job}: {''.join(text)[-1000:]}")


def _importance(sizes: Mapping[str, int]) -> tuple[ctypes.Array[_Importance], list[Any]]:
    """The matrix as C reads it, and what must live as long as it does."""
    values = {name: (ctypes.c_float * size)(*([1.0] * size)) for name, size in sizes.items()}
    entries = [_Importance(name.encode(), ctypes.addressof(data), len(data)) for name, data in values.items()]
    return (_Importance * (len(entries) + 1))(*entries, _Importance(None, None, 0)), [values, entries]


if __name__ == "__main__":
    print(json.dumps(_child(json.load(sys.stdin))))  # noqa: T201 - the parent reads it
