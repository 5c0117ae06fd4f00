"""Scale factors, and numbers as people read and write them."""

from __future__ import annotations

import pytest

from suffice import units


def test_scale_factors_are_what_their_names_say() -> None:
    """Each factor equals its definition written out: decimal for GB, binary for GiB."""
    assert (units.KILO, units.MEGA, units.GIGA, units.TERA) == (1000, 1_000_000, 1_000_000_000, 1_000_000_000_000)
    assert (units.KIB, units.MIB, units.GIB) == (1024, 1024 * 1024, 1024 * 1024 * 1024)
    assert (units.NANOSECONDS_PER_SECOND, units.MILLISECONDS_PER_SECOND) == (1_000_000_000, 1000)
    assert (units.SECONDS_PER_MINUTE, units.SECONDS_PER_HOUR, units.SECONDS_PER_DAY) == (60, 3600, 86400)
    assert (units.HOURS_PER_DAY, units.BITS_PER_BYTE) == (24, 8)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (3.5e9, "3.50 GB"), (2**30, "1.07 GB"), (40e12, "40.00 TB")],
)
def test_bytes_print_with_decimal_prefixes(value: float, text: str) -> None:
    """A GB is 10^9 bytes wherever bytes are printed."""
    assert units.format_bytes(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(1023, "1023 B"), (1024, "1.00 KiB"), (2**30, "1.00 GiB"), (10**9, "953.67 MiB")]
)
def test_memory_prints_with_binary_prefixes(value: float, text: str) -> None:
    """A GiB is 2^30 bytes wherever memory is printed."""
    assert units.format_memory(value) == text


def test_bandwidth_prints_as_bytes_per_second() -> None:
    """40e9 bytes per second is 40.00 GB/s."""
    assert units.format_bandwidth(40e9) == "40.00 GB/s"


@pytest.mark.parametrize(("value", "text"), [(0.0123, "12.3 ms"), (1, "1.00 s"), (3599, "3599.00 s"), (5400, "1.50 h")])
def test_durations_print_in_the_unit_of_their_size(value: float, text: str) -> None:
    """Milliseconds below a second, hours from one hour on."""
    assert units.format_seconds(value) == text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60s", 60), ("500ms", 0.5), ("2m", 120), ("2min", 120), ("1.5h", 5400), ("7", 7), (" 3 S ", 3), ("1e2s", 100)],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    """Every documented way to write a duration gives its seconds."""
    assert units.parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "s", "0", "-1s", "nan", "inf", "1e400s", "5 parsecs", "1s1", "hms", "5mm", "--1"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Zero, negative, infinite and malformed durations raise, and the message shows how to write one."""
    with pytest.raises(ValueError, match="60s, 500ms, 2m or 1h"):
        units.parse_duration_s(text)
