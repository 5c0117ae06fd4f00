"""Rows of a table, as of cloud machines joined with llama-bench, as machines and workloads; whatever is missing is unknown.

The columns that hold answers (``tok_s_median``, ``tok_s_min``, ``tok_s_max``) are never read.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.predict.cpu_names import plain_cpu_name
from suffice.predict.machine import MachineSpec, Phase, WorkloadSpec
from suffice.predict.model_files import ModelFile, model_file
from suffice.units import GIGA, MIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MACHINE_COLUMNS: Final = (
    "vendor",
    "instance",
    "cpu_model",
    "llm_cpu",
    "vcpu",
    "threads_per_core",
    "cores_per_socket",
    "sockets",
    "numa_nodes",
    "l3",
    "isa",
    "read_gb_s",
    "membench_read_gb_s",
    "gpu",
    "gpu_count",
    "arch",
)
WORKLOAD_COLUMNS: Final = ("model", "model_bytes", "model_params", "threads", "n_prompt", "n_gen")
DEVICE_COLUMNS: Final = ("backend", "gpu_layers", "llm_gpu")
# Without one of the first a row names no machine, without one of the second no work.
_NAMES_A_MACHINE: Final = (
    *("cpu_model", "llm_cpu", "vcpu", "read_gb_s", "membench_read_gb_s", "instance", "threads"),
    *("gpu", "llm_gpu"),
)
_LARGEST: Final = 1e15
_LEAST_READING, _LARGEST_READING = 0.5, 50_000.0  # GB/s
_NONE_WORDS: Final = frozenset({"", "nan", "none", "null", "na", "n/a"})


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the columns stand in a row; -1 for one that is missing."""

    place: Mapping[str, int]

    @classmethod
    def of(cls, header: Sequence[str]) -> Columns:
        """From the header of a table; of two columns with one name the first counts."""
        place: dict[str, int] = {}
        for index, name in enumerate(header):
            place.setdefault(name.strip().lower(), index)
        return cls(place)

    def picked(self, row: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
        """Texts of some columns, empty where a column or a cell is missing."""
        place, width = self.place, len(row)
        return tuple(row[index].strip() if 0 <= (index := place.get(name, -1)) < width else "" for name in names)

    def lacks_all_of_a_kind(self) -> str | None:
        """A sentence that says which kind of columns is missing altogether, or None."""
        if not any(name in self.place for name in _NAMES_A_MACHINE):
            return f"no column says anything of a machine; one of {', '.join(_NAMES_A_MACHINE)} is needed"
        if not any(name in self.place for name in ("model", "model_bytes", "model_params")):
            return "no column names a model; one of model, model_bytes, model_params is needed"
        if not any(name in self.place for name in ("n_prompt", "n_gen")):
            return "no column says what is done; one of n_prompt, n_gen is needed"
        return None


def number(text: str) -> float | None:
    """A finite, positive number of ordinary size, or None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < _LARGEST else None


def whole(text: str) -> int | None:
    """A positive count, or None."""
    value = number(text)
    return int(value) if value is not None and value >= 1 else None


def _reading(gb_per_s: float | None) -> float | None:
    """A bandwidth that a machine can have; others are slips and say nothing."""
    return gb_per_s if gb_per_s is not None and _LEAST_READING <= gb_per_s <= _LARGEST_READING else None


def machine_of(cells: tuple[str, ...]) -> MachineSpec:
    """The machine of the cells of ``MACHINE_COLUMNS``.

    The CPU of the measurement (``llm_cpu``) counts where it is named; on ARM llama.cpp prints just "CPU".
    """
    cell = dict(zip(MACHINE_COLUMNS, cells, strict=True))
    described = cell["cpu_model"] if plain_cpu_name(cell["cpu_model"]) else None
    ran_on = cell["llm_cpu"] if plain_cpu_name(cell["llm_cpu"]) else described
    llc_bytes, llc_instances = _cache(cell["l3"])
    read = _reading(number(cell["read_gb_s"]))
    second = _reading(number(cell["membench_read_gb_s"]))
    return MachineSpec(
        name=cell["instance"],
        cpu_model=ran_on,
        described_cpu_model=described,
        vcpus=whole(cell["vcpu"]),
        threads_per_core=whole(cell["threads_per_core"]),
        cores_per_socket=whole(cell["cores_per_socket"]),
        sockets=whole(cell["sockets"]),
        numa_nodes=whole(cell["numa_nodes"]),
        isa=_isa(cell["isa"], cell["arch"]),
        llc_bytes=llc_bytes,
        llc_instances=llc_instances,
        read_bytes_per_s=None if read is None else read * GIGA,
        second_read_bytes_per_s=None if second is None else second * GIGA,
        vendor=cell["vendor"] or None,
        instance=cell["instance"] or None,
        gpu=None if cell["gpu"].lower() in _NONE_WORDS else cell["gpu"],
        gpu_count=whole(cell["gpu_count"]),
    )


@lru_cache(maxsize=65536)
def workload_of(cells: tuple[str, ...]) -> tuple[WorkloadSpec, ModelFile] | None:
    """The workload of the cells of ``WORKLOAD_COLUMNS``, or None where they do not say one phase of one model."""
    name, size, count, threads, n_prompt, n_gen = cells
    file = model_file("" if name.lower() in _NONE_WORDS else name, number(size), number(count))
    prompt, generated = whole(n_prompt), whole(n_gen)
    if file is None or (prompt is None) == (generated is None):
        return None
    return (
        WorkloadSpec(
            phase=Phase.PREFILL if prompt else Phase.DECODE,
            n_tokens=prompt or generated or 1,
            streamed_bytes=file.streamed_bytes,
            file_bytes=file.file_bytes,
            parameters=file.parameters,
            active_parameters=file.active_parameters,
            cache_bytes_per_token=file.cache_bytes_per_token,
            quant=file.quant,
            threads=whole(threads),
        ),
        file,
    )


def ran_on_a_gpu(gpu: str, cells: tuple[str, ...]) -> bool:
    """Whether a row with a GPU says that the GPU ran (cells of ``DEVICE_COLUMNS``); a row that does not say counts as yes."""
    backend, layers, llm_gpu = (cell.lower() for cell in cells)
    if backend == "cpu" or (layers not in _NONE_WORDS and number(layers) is None):
        return False
    has_gpu = gpu.lower() not in _NONE_WORDS or llm_gpu not in _NONE_WORDS
    return has_gpu or backend not in {*_NONE_WORDS, "cpu"}


def _isa(text: str, arch: str) -> frozenset[str] | None:
    words = frozenset(re.split(r"[\s,;|]+", text.lower())) - _NONE_WORDS
    if words:
        return words
    return frozenset({"asimd"}) if arch.lower() in {"aarch64", "arm64"} else None


def _cache(text: str) -> tuple[float | None, int | None]:
    """``33554432 (2 instances)`` or ``32 MiB (1 instance)``: bytes of all together, and how many."""
    found = re.match(r"\s*([\d.]+)\s*(MiB)?\s*(?:\((\d+) instances?\))?", text)
    if not found:
        return None, None
    value = number(found.group(1))
    if value is None or not math.isfinite(value):
        return None, None
    return value * (MIB if found.group(2) else 1), whole(found.group(3) or "")
