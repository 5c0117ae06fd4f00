"""A bandwidth measurement for a reader at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.report.tables import plain_table
from suffice.units import format_bandwidth, format_memory

if TYPE_CHECKING:
    from suffice.measure.bandwidth import BandwidthResult


def bandwidth_text(result: BandwidthResult) -> str:
    """The figure, its interval and method, and the combinations that were tried."""
    interval = result.read.interval
    spread = ""
    if interval is not None:
        spread = (
            f" ({interval.level:.0%} interval {format_bandwidth(interval.low)} to {format_bandwidth(interval.high)})"
        )
    lines = [f"read bandwidth {format_bandwidth(result.read.point)}{spread}", result.method]
    if result.llc_bytes is None:
        lines.append("the size of the last-level cache is unknown: the buffer may be partly cached")
    elif result.cache_resident:
        lines.append(
            f"the buffer is not over twice the last-level cache ({format_memory(result.llc_bytes)}): reads may come from it"
        )
    rows = [["kernel", "threads", "median"]]
    ranked = sorted(result.candidates, key=lambda candidate: -candidate.bytes_per_s)
    rows += [[c.kernel, str(c.threads), format_bandwidth(c.bytes_per_s)] for c in ranked]
    return "\n".join([*lines, "", plain_table(rows)])
