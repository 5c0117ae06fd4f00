"""A ceiling for a reader at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.report.tables import one_line, plain_table
from suffice.units import TERA, format_bandwidth, format_bytes, format_memory, format_seconds

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
    rows += _memory_rows(facts)
    return plain_table(rows)


def _memory_rows(facts: dict[str, Any]) -> list[list[str]]:
    needed = facts.get("memory_needed_bytes")
    if needed is None:
        return []
    rows = [
        [
            "memory",
            format_memory(needed),
            f"weights and KV cache of {_sequences(facts)}; the engine's buffers come on top",
        ]
    ]
    if facts["fits"] is not None:
        available = f"{format_memory(facts['memory_available_bytes'])} {facts['memory_source']}"
        rows.append(["fits", "yes" if facts["fits"] else "no", available])
    return rows


def _sequences(facts: dict[str, Any]) -> str:
    batch, tokens = facts["workload"]["batch"], f"{facts['memory_context_tokens']:,} tokens"
    return tokens if batch == 1 else f"{batch} sequences of {tokens}"
