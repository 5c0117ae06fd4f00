"""A ceiling for a reader at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.report.tables import one_line, plain_table
from suffice.units import TERA, format_bandwidth, format_bytes, format_seconds

if TYPE_CHECKING:
    from suffice.model.ceiling import Ceiling
    from suffice.model.roofline import Roofs


def ceiling_text(ceiling: Ceiling, roofs: Roofs, bandwidth_basis: str, facts: dict[str, Any]) -> str:
    """The ceiling and what it was computed from."""
    rows = [["what", "value", "from"]]
    if "model" in facts:
        rows.append(
            ["model", one_line(str(facts["model"])), f"{facts['parameters']:,} parameters, {facts['architecture']}"]
        )
    rows.append(["bandwidth", format_bandwidth(roofs.bandwidth_bytes_per_s), bandwidth_basis])
    if roofs.peak_flop_per_s is not None:
        rows.append(["peak compute", f"{roofs.peak_flop_per_s / TERA:.4g} TFLOP/s", "stated"])
    rows.append(["weights read per step", format_bytes(ceiling.streamed_bytes), "header" if facts else "stated"])
    if ceiling.kv_bytes_per_token is not None:
        rows.append(["KV cache per token", format_bytes(ceiling.kv_bytes_per_token), "header"])
    rows.append(["decode", f"at most {ceiling.decode_tokens_per_second:.4g} tokens/s", f"bound by {ceiling.bound}"])
    if ceiling.prefill_tokens_per_second is not None:
        note = f"bound by {ceiling.prefill_bound}"
        if roofs.peak_flop_per_s is None:
            note += " (compute peak unknown: give --tflops)"
        rows.append(["prefill", f"at most {ceiling.prefill_tokens_per_second:.4g} tokens/s", note])
    if ceiling.ttft_s is not None:
        rows.append(["time to first token", f"at least {format_seconds(ceiling.ttft_s)}", "prefill and one step"])
    return plain_table(rows)
