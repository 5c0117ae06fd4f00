"""The only home of scale factors.

Inside suffice everything is in SI base units: bytes, seconds, bytes per second, FLOP per second. Prefixes appear only where
a number is read from a person or printed for one. GB is 10^9 bytes and GiB is 2^30 bytes, everywhere.
"""

from __future__ import annotations

from typing import Final

KILO: Final = 10**3
MEGA: Final = 10**6
GIGA: Final = 10**9
TERA: Final = 10**12

KIB: Final = 2**10
MIB: Final = 2**20
GIB: Final = 2**30

NANOSECONDS_PER_SECOND: Final = 10**9
MILLISECONDS_PER_SECOND: Final = 10**3
SECONDS_PER_MINUTE: Final = 60
SECONDS_PER_HOUR: Final = 3600
LARGEST_FIGURE: Final = 10.0**9
"""Beyond this, or below its inverse, no figure of a machine lies in the unit that people write it in (GB/s, GB, TFLOP/s): it is a slip."""
HOURS_PER_DAY: Final = 24
SECONDS_PER_DAY: Final = SECONDS_PER_HOUR * HOURS_PER_DAY
BITS_PER_BYTE: Final = 8

_DECIMAL_PREFIXES: Final = ((TERA, "T"), (GIGA, "G"), (MEGA, "M"), (KILO, "k"))
_BINARY_PREFIXES: Final = ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
_DURATION_SUFFIXES: Final = {
    "ms": 1 / MILLISECONDS_PER_SECOND,
    "s": 1.0,
    "m": float(SECONDS_PER_MINUTE),
    "min": float(SECONDS_PER_MINUTE),
    "h": float(SECONDS_PER_HOUR),
}


def format_bytes(value: float) -> str:
    """Bytes for a person, decimal prefixes: ``format_bytes(3.5e9) == "3.50 GB"``."""
    for factor, prefix in _DECIMAL_PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.2f} {prefix}B"
    return f"{value:.0f} B"


def format_memory(value: float) -> str:
    """Memory for a person, binary prefixes: ``format_memory(2**30) == "1.00 GiB"``."""
    for factor, suffix in _BINARY_PREFIXES:
        if abs(value) >= factor:
            return f"{value / factor:.2f} {suffix}"
    return f"{value:.0f} B"


def format_bandwidth(value_bytes_per_s: float) -> str:
    """Bandwidth for a person: ``format_bandwidth(40e9) == "40.00 GB/s"``."""
    return f"{format_bytes(value_bytes_per_s)}/s"


def format_seconds(value_s: float) -> str:
    """A duration for a person: ``0.0123`` -> ``12.3 ms``, ``5400`` -> ``1.50 h``."""
    if abs(value_s) >= SECONDS_PER_HOUR:
        return f"{value_s / SECONDS_PER_HOUR:.2f} h"
    if abs(value_s) >= 1:
        return f"{value_s:.2f} s"
    return f"{value_s * MILLISECONDS_PER_SECOND:.1f} ms"


def parse_duration_s(text: str) -> float:
    """Seconds from ``60s``, ``500ms``, ``2m``, ``2min``, ``1.5h`` or a bare number of seconds.

    Raises:
        ValueError: the text is not a positive, finite duration; the message says what is accepted.
    """
    stripped = text.strip().lower()
    number = stripped.rstrip("hmins")
    suffix = stripped[len(number) :] or "s"
    try:
        value_s = float(number) * _DURATION_SUFFIXES[suffix]
    except (KeyError, ValueError):
        value_s = float("nan")
    if not 0 < value_s < float("inf"):
        raise ValueError(f"{text!r} is not a duration; write for example 60s, 500ms, 2m or 1h")
    return value_s
