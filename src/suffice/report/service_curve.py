"""The service curve of a run as two small tables: decode steps by batch and depth, and chunks of prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.report.tables import plain_table
from suffice.stats.intervals import median
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.records.schema import RunRecord, ServicePass

_UNMEASURED = "-"


def service_curve_lines(record: RunRecord) -> list[str]:
    """The tables with a heading each; nothing where no curve was measured."""
    service = record.measurement.service
    if service is None:
        return []
    decode = [one for one in service.decode if one.seconds]
    prefill = [one for one in service.prefill if one.seconds]
    lines = []
    if decode:
        lines += ["", f"service curve ({record.basis}): ms of a decode step (tokens/s of all sequences)"]
        lines.append(_table("sequences", decode))
    if prefill:
        lines += ["", f"service curve ({record.basis}): ms of a chunk of a prompt (tokens/s)"]
        lines.append(_table("tokens", prefill))
    return lines


def _table(what: str, passes: Sequence[ServicePass]) -> str:
    depths = sorted({one.depth for one in passes})
    at = {(one.size, one.depth): _step_text(one) for one in passes}
    rows = [
        [str(size), *(at.get((size, depth), _UNMEASURED) for depth in depths)]
        for size in sorted({one.size for one in passes})
    ]
    return plain_table([[what, *(f"at depth {depth}" for depth in depths)], *rows])


def _step_text(one: ServicePass) -> str:
    seconds = median(one.seconds)
    return f"{seconds * MILLISECONDS_PER_SECOND:.4g} ({one.size / seconds:.3g})"
