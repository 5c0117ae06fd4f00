"""The fingerprint of a run: what may make two runs of one thing differ, in plain values, and whether two of them can be compared.

Every field has a role, which says what a difference in it means:

* *work*: another piece of work was timed (another depth, another prompt). The figures are no answer to the same question.
* *processor*: another instruction set or a GPU. No reference of ours carries a figure from one to the other.
* *machine*: another CPU of the same instruction set, another share of it. Decode reads weights from memory, so its rates are compared
  over the bandwidth of each machine; what computes (prefill, time to first token) is not.
* *subject*: model, engine, build, settings. That is what a guard guards: compared as it is, and named as the likely cause.
* *surroundings*: kernel, microcode, drivers of the same machine. Compared as it is, and named.

A field that one side does not know is no difference, but what identifies the machine or the work must be known on both.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.units import format_bandwidth, format_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.records.schema import RunRecord

Value = str | int | float | bool | None
Fingerprint = dict[str, Value]
"""Plain values by field, as they stand in JSON; a field that is absent is unknown."""


class Role(StrEnum):
    """What a difference means."""

    WORK = "work"
    PROCESSOR = "processor"
    MACHINE = "machine"
    SUBJECT = "subject"
    SURROUNDINGS = "surroundings"


class Comparability(StrEnum):
    """Whether the figures of two runs can be held against each other."""

    COMPARABLE = "comparable"
    NORMALISED = "comparable after normalisation"
    NOT_COMPARABLE = "not comparable"


_LABELS: Final = {
    Role.WORK: {
        "device_kind": "device",
        "basis": "basis",
        "depth": "decode depth",
        "batch": "sequences together",
        "prompt_tokens": "prompt tokens",
        "slices": "slices",
    },
    Role.PROCESSOR: {"architecture": "architecture", "isa": "instruction set"},
    Role.MACHINE: {
        "cpu_model": "CPU",
        "cpu_family": "CPU family",
        "cpu_model_number": "CPU model number",
        "cpu_stepping": "CPU stepping",
        "sockets": "sockets",
        "usable_cpus": "usable CPUs",
        "usable_physical_cores": "usable cores",
        "cpu_quota": "CPU quota",
        "smt": "hyperthreads",
        "numa_nodes": "NUMA nodes",
        "memory_total_bytes": "memory",
        "llc_bytes": "last-level cache",
        "governor": "governor",
        "machine_type": "machine type",
    },
    Role.SUBJECT: {
        "model_hash": "model file",
        "model_bytes": "model size",
        "model_types": "tensor types",
        "engine": "engine",
        "engine_version": "engine",
        "llama_cpp_version": "llama.cpp",
        "engine_build": "engine's build flags",
        "isa_used": "instruction sets used",
        "prebuilt": "prebuilt engine",
        "threads": "threads",
        "prefill_threads": "prefill threads",
        "n_batch": "batch size",
        "n_ubatch": "micro-batch size",
        "type_k": "K cache type",
        "type_v": "V cache type",
        "flash_attention": "flash attention",
        "use_mmap": "mmap",
        "use_extra_buffers": "repacked weights",
        "n_gpu_layers": "GPU layers",
        "numa_node": "NUMA node",
    },
    Role.SURROUNDINGS: {
        "os": "system",
        "os_version": "system version",
        "kernel": "kernel",
        "microcode": "microcode",
        "hypervisor": "hypervisor",
        "in_container": "container",
        "affinity_cpus": "CPUs of the affinity",
        "cgroup_memory_limit_bytes": "memory limit",
        "transparent_huge_pages": "huge pages",
        "max_frequency_hz": "largest frequency",
        "python": "Python",
        "suffice_version": "suffice",
    },
}
ROLES: Final = {name: role for role, labels in _LABELS.items() for name in labels}
_LABEL_OF: Final = {name: label for labels in _LABELS.values() for name, label in labels.items()}
_ENVIRONMENT: Final = frozenset(
    {*_LABELS[Role.PROCESSOR], *_LABELS[Role.MACHINE], *_LABELS[Role.SURROUNDINGS]} - {"isa", "cpu_model"}
)
_SETTINGS: Final = (
    *("n_batch", "n_ubatch", "type_k", "type_v", "flash_attention", "use_mmap"),
    *("use_extra_buffers", "n_gpu_layers", "numa_node"),
)
# Without these on both sides nobody knows whether it was the same work on the same machine.
_MUST_BE_KNOWN: Final = ("device_kind", "basis", "cpu_model")
# Kernels of one machine keep slightly different amounts of memory for themselves.
_MEMORY_TOLERANCE: Final = 0.02
_SHOWN_HASH: Final = 8
_SHOWN: Final = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A field in which two runs differ. ``base`` and ``new`` are the values, None: unknown on that side."""

    field: str
    role: Role
    base: Value
    new: Value

    @property
    def shown(self) -> tuple[str, str]:
        """Both values in the units that people read, shortened."""
        return _shown(self.field, self.base), _shown(self.field, self.new)

    @property
    def text(self) -> str:
        """For a reader: ``engine 4753 -> 4801``, ``different CPU: A -> B``."""
        label = _LABEL_OF[self.field]
        base, new = self.shown
        if self.field == "cpu_model":
            return f"different CPU: {base} -> {new}"
        if self.field == "model_hash":
            return f"model file changed ({base} -> {new})"
        if self.field == "engine_build":
            return "the engine was built with other flags"
        return f"{label} {base} -> {new}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two fingerprints beside each other. ``unknown`` names fields that identify work or machine and are not known on both sides."""

    comparability: Comparability
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...] = ()

    def of_role(self, *roles: Role) -> tuple[Difference, ...]:
        """The differences of some roles."""
        return tuple(one for one in self.differences if one.role in roles)

    @property
    def reason(self) -> str:
        """Why they are not comparable as they are; "" where they are."""
        if self.comparability is Comparability.COMPARABLE:
            return ""
        roles = (Role.WORK, Role.PROCESSOR) if self.comparability is Comparability.NOT_COMPARABLE else (Role.MACHINE,)
        told = [one.text for one in self.of_role(*roles)]
        told += [f"{_LABEL_OF[name]} unknown" for name in self.unknown]
        return "; ".join(told)


def fingerprint_of(record: RunRecord) -> Fingerprint:
    """The fingerprint of a run record; what the record does not tell is left out."""
    environment = {name: value for name in _ENVIRONMENT if (value := _plain(record.environment.get(name))) is not None}
    settings = {name: value for name in _SETTINGS if (value := _plain(record.settings.get(name))) is not None}
    found: Fingerprint = {**environment, **settings, **_work(record), **_subject(record)}
    isa = record.environment.get("isa")
    if isinstance(isa, list | tuple):
        found["isa"] = " ".join(sorted(str(name) for name in isa))
    found |= {"cpu_model": record.machine, "suffice_version": record.suffice_version}
    return {name: found[name] for name in ROLES if found.get(name) is not None}


def _work(record: RunRecord) -> Fingerprint:
    measurement = record.measurement
    decode = measurement.decode[0] if measurement.decode else None
    extrapolation = measurement.extrapolation
    slices = None
    if extrapolation is not None:
        slices = ", ".join(f"{one.layers} layers of {one.tensor_bytes} bytes" for one in extrapolation.slices)
    return {
        "device_kind": record.device_kind,
        "basis": record.basis,
        "depth": None if decode is None else decode.depth,
        "batch": None if decode is None else decode.batch,
        "prompt_tokens": None if measurement.prefill is None else measurement.prefill.prompt_tokens,
        "slices": slices,
        "threads": None if decode is None or not decode.threads else decode.threads,
        "prefill_threads": None if measurement.prefill is None else measurement.prefill.threads or None,
    }


def _subject(record: RunRecord) -> Fingerprint:
    model, engine = record.model, record.engine
    types = ", ".join(sorted(model.tensor_types, key=lambda name: -model.tensor_types[name].bytes))
    return {
        "model_hash": model.identity,
        "model_bytes": model.file_bytes,
        "model_types": types or None,
        "engine": engine.name,
        "engine_version": engine.version,
        "llama_cpp_version": engine.llama_cpp_version,
        "engine_build": engine.system_info,
        "isa_used": " ".join(sorted(engine.isa_used)) or None,
        "prebuilt": engine.prebuilt,
    }


def _plain(value: object) -> Value:
    return value if isinstance(value, str | int | float | bool) else None


def compare_fingerprints(base: Mapping[str, Value], new: Mapping[str, Value]) -> Comparison:
    """Whether the figures of two runs can be held against each other, with every field that differs."""
    differences = tuple(
        Difference(field=name, role=role, base=base.get(name), new=new.get(name))
        for name, role in ROLES.items()
        if _differs(name, base.get(name), new.get(name))
    )
    unknown = tuple(name for name in _MUST_BE_KNOWN if base.get(name) is None or new.get(name) is None)
    another_cpu = any(one.field == "cpu_model" for one in differences)
    if another_cpu and (base.get("isa") is None or new.get("isa") is None):
        unknown = (*unknown, "isa")
    roles = {one.role for one in differences}
    kind = Comparability.COMPARABLE
    if unknown or roles & {Role.WORK, Role.PROCESSOR}:
        kind = Comparability.NOT_COMPARABLE
    elif Role.MACHINE in roles:
        kind = Comparability.NORMALISED
    return Comparison(comparability=kind, differences=differences, unknown=unknown)


def _differs(name: str, base: Value, new: Value) -> bool:
    """Whether two known values are not the same; of sequences and slices, one that is absent is another piece of work."""
    if name == "slices":
        return base != new
    if base is None or new is None:
        return False
    if name == "memory_total_bytes" and isinstance(base, int | float) and isinstance(new, int | float):
        return abs(base - new) > _MEMORY_TOLERANCE * max(base, new)
    return base != new


def _shown(name: str, value: Value) -> str:
    if value is None:
        return "unknown"
    if name == "model_hash":
        return str(value)[:_SHOWN_HASH]
    if name.endswith("_bytes") and isinstance(value, int | float):
        return format_memory(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def bandwidth_text(base_bytes_per_s: float, new_bytes_per_s: float) -> str:
    """Another memory bandwidth as a cause."""
    return f"memory bandwidth {format_bandwidth(base_bytes_per_s)} -> {format_bandwidth(new_bytes_per_s)}"


def causes_of(comparison: Comparison) -> list[str]:
    """What differs, the likeliest cause of a change first: what was changed on purpose, the machine, what is around it."""
    order = (Role.SUBJECT, Role.MACHINE, Role.PROCESSOR, Role.WORK, Role.SURROUNDINGS)
    fields = {one.field for one in comparison.differences}
    # Another file has other bytes and types of its own accord, and another engine version another llama.cpp and flags.
    implied = set()
    implied |= {"model_bytes"} if "model_types" in fields else set()
    implied |= {"llama_cpp_version", "engine_build"} if fields & {"engine", "engine_version"} else set()
    implied |= {"isa_used"} if "engine_build" in fields else set()
    implied |= {"cpu_family", "cpu_model_number", "cpu_stepping", "microcode"} if "cpu_model" in fields else set()
    return [one.text for role in order for one in comparison.of_role(role) if one.field not in implied]
