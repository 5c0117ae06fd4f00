"""llama.cpp's own words: its log, kept in bounds, and what can be read out of it and of its system information."""

from __future__ import annotations

import re
from collections import deque
from typing import Final

from suffice.units import MIB

KEPT_LINES: Final = 1000
_LINE_CHARACTERS: Final = 1000
_ERROR_LINES: Final = 4
_DEBUG_LEVEL: Final = 1
_WARNING_LEVEL: Final = 3  # ggml_log_level: 1 debug, 2 info, 3 warning, 4 error, 5 continues the line before
_ERROR_LEVEL: Final = 4
_CONTINUED: Final = 5

_NOT_ISA: Final = frozenset({"llamafile", "openmp", "repack", "accelerate", "blas", "kleidiai"})
_ITEM: Final = re.compile(r"^(?:(?P<section>[\w.+-]+)\s*:\s*)?(?P<key>\w+)\s*=\s*(?P<value>\S+)$")
_FLASH: Final = (
    re.compile(r"Flash Attention was auto, set to (?P<value>enabled|disabled)"),
    re.compile(r"Flash Attention(?: is)?\s*(?:[:=]\s*)?(?P<value>enabled|disabled|not supported)"),
    re.compile(r"flash_attn\s*=\s*(?P<value>enabled|disabled|[01]\b)"),
)
_KV_SIZE: Final = re.compile(r"KV buffer size\s*=\s*(?P<mib>[\d.]+) MiB")
_STATE_SIZE: Final = re.compile(r"RS buffer size\s*=\s*(?P<mib>[\d.]+) MiB")
_COMPUTE_SIZE: Final = re.compile(r"(?P<device>\S+)\s+compute buffer size\s*=\s*(?P<mib>[\d.]+) MiB")
_WEIGHT_SIZE: Final = re.compile(r"model buffer size\s*=\s*(?P<mib>[\d.]+) MiB")
_TYPES: Final = re.compile(r"K \((?P<k>\w+)\):.*V \((?P<v>\w+)\):")
_OFFLOADED: Final = re.compile(r"offloaded (?P<layers>\d+)/\d+ layers to GPU")
_LOAD_MODE: Final = re.compile(r"load_mode = (?P<mode>[\w+-]+)|mmap = (?P<mmap>true|false)")
_DEVICE: Final = re.compile(r"using device (?P<device>.+?)(?: - \d+ MiB free)?$")


class EngineLog:
    """The last lines of an engine's log, with their levels. Fed by llama.cpp in pieces of any size."""

    def __init__(self) -> None:
        self._lines: deque[tuple[int, str]] = deque(maxlen=KEPT_LINES)
        self._open = ""
        self._level = 0

    def feed(self, level: int, text: str) -> list[tuple[int, str]]:
        """Take a piece of text; returns the lines that it completed, with their levels."""
        if level != _CONTINUED:
            self._level = level
        if self._level == _DEBUG_LEVEL:
            return []
        *done, self._open = (self._open + text).split("\n")
        self._open = self._open[-_LINE_CHARACTERS:]
        lines = [(self._level, line[:_LINE_CHARACTERS].rstrip()) for line in done if line.strip()]
        self._lines.extend(lines)
        return lines

    def lines(self) -> tuple[str, ...]:
        """All kept lines, oldest first."""
        return tuple(line for _, line in self._lines)

    def last_errors(self) -> str:
        """The last few lines of error level in one sentence, or the last line at all; empty if nothing was said."""
        errors = [line for level, line in self._lines if level == _ERROR_LEVEL]
        chosen = errors[-_ERROR_LINES:] or list(self.lines()[-1:])
        return " | ".join(chosen)


def is_worth_telling(level: int) -> bool:
    """Whether a line is a warning or an error, to be kept even when the process dies."""
    return _WARNING_LEVEL <= level < _CONTINUED


def parse_isa(system_info: str) -> tuple[str, ...]:
    """Instruction sets that a build uses, lower case, in the order of ``llama_print_system_info``.

    ``"CPU : AVX2 = 1 | AVX512_VNNI = 1 | OPENMP = 1 |"`` -> ``("avx2", "avx512_vnni")``.
    """
    section = "CPU"
    found: list[str] = []
    for item in system_info.split("|"):
        match = _ITEM.match(item.strip())
        if match is None:
            continue
        section = match["section"] or section
        name = match["key"].lower()
        if section == "CPU" and match["value"] == "1" and name not in _NOT_ISA:
            found.append(name)
    return tuple(found)


def flash_attention(lines: tuple[str, ...]) -> bool | None:
    """Whether flash attention is really on, as the log says last; None if it does not say."""
    for pattern in _FLASH:
        for line in reversed(lines):
            match = pattern.search(line)
            if match is not None:
                return match["value"] in {"enabled", "1"}
    return None


def kv_cache_bytes(lines: tuple[str, ...]) -> int | None:
    """Size of the key-value cache and of recurrent state, summed over devices."""
    return _sum_bytes((_KV_SIZE, _STATE_SIZE), lines)


def compute_buffer_bytes(lines: tuple[str, ...]) -> int | None:
    """Size of the buffers for intermediate results, summed over devices; of each device the last size that was said."""
    matches = [match for match in map(_COMPUTE_SIZE.search, lines) if match is not None]
    sizes = {match["device"]: float(match["mib"]) for match in matches}
    return round(sum(sizes.values()) * MIB) if sizes else None


def weight_buffer_bytes(lines: tuple[str, ...]) -> int | None:
    """Size of the buffers that hold weights, mapped or copied, summed over devices."""
    return _sum_bytes((_WEIGHT_SIZE,), lines)


def cache_types(lines: tuple[str, ...]) -> tuple[str, str] | None:
    """Types of the K and the V cache, such as ``("f16", "q8_0")``; None if the log does not tell."""
    matches = [match for match in map(_TYPES.search, lines) if match is not None]
    return (matches[-1]["k"], matches[-1]["v"]) if matches else None


def offloaded_layers(lines: tuple[str, ...]) -> int | None:
    """Layers that were given to a GPU; None if the log does not tell."""
    matches = [match for match in map(_OFFLOADED.search, lines) if match is not None]
    return int(matches[-1]["layers"]) if matches else None


def used_mmap(lines: tuple[str, ...]) -> bool | None:
    """Whether the weights are mapped from the file; None if the log does not tell."""
    matches = [match for match in map(_LOAD_MODE.search, lines) if match is not None]
    if not matches:
        return None
    return matches[-1]["mmap"] == "true" or (matches[-1]["mode"] or "").startswith("mmap")


def used_devices(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Accelerators that the model was spread over."""
    return tuple(match["device"] for match in map(_DEVICE.search, lines) if match is not None)


def _sum_bytes(patterns: tuple[re.Pattern[str], ...], lines: tuple[str, ...]) -> int | None:
    sizes = [float(match["mib"]) for line in lines for pattern in patterns if (match := pattern.search(line))]
    return round(sum(sizes) * MIB) if sizes else None
