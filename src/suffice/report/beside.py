"""Predicted beside measured, for a reader at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.report.tables import plain_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.loaders.beside import Beside


def beside_text(found: Sequence[Beside]) -> str:
    """One row a figure, and what a measurement outside of the range says; empty where there is nothing to compare."""
    if not found:
        return ""
    rows = [
        [
            one.what,
            f"{one.measured:.4g}",
            f"{one.predicted:.4g} ({one.low:.4g} to {one.high:.4g})",
            f"{one.ratio:.2f}",
        ]
        for one in found
    ]
    table = plain_table([["tokens/s", "measured", "predicted without measuring", "measured / predicted"], *rows])
    outside = [one.what for one in found if not one.is_inside]
    if not outside:
        return table
    return (
        f"{table}\n! outside of the range that holds {found[0].level:.0%} of such figures: {', '.join(outside)}; "
        "a busy machine, an engine that leaves instruction sets unused, or a CPU unlike those behind the predictions"
    )
