"""A ceiling for a reader at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.report.tables import one_line, plain_table
from suffice.units import TERA, format_bandwidth, format_bytes, format_memory, format_seconds

if TYPE_CHECKING:
    from suffice.model.ceiling import Ceiling


def ceiling_text(ceiling: Ceiling, machine: dict[str, Any], facts: dict[str, Any]) -> str:
    """The ceiling and what it was computed from; ``machine`` and ``facts`` are those of the JSON document."""
    rows = [["what", "value", "from"], *_given_rows(ceiling, machine, facts), *_limit_rows(ceiling, machine, facts)]
    lines = [plain_table([*rows, *_memory_rows(facts)])]
    lines += [f"! contradiction: {one_line(text)}" for text in facts.get("contradictions", [])]
    lines += [f"! {one_line(note)}" for note in machine["notes"]]
    return "\n".join(lines)


def _given_rows(ceiling: Ceiling, machine: dict[str, Any], facts: dict[str, Any]) -> list[list[str]]:
    rows = []
    if "model" in facts:
        rows.append(
            ["model", one_line(str(facts["model"])), f"{facts['parameters']:,} parameters, {facts['architecture']}"]
        )
    rows.append(["bandwidth", format_bandwidth(machine["bandwidth_bytes_per_s"]), machine["bandwidth_basis"]])
    peak = machine["peak_flop_per_s"]
    if peak is not None:
        rows.append(["peak compute", f"{peak / TERA:.4g} TFLOP/s", machine["peak_basis"] or "stated"])
    rows.append(["weights read per step", format_bytes(ceiling.streamed_bytes), "header" if facts else "stated"])
    experts = facts.get("experts_touched")
    if experts is not None:
        rows.append(
            [
                "experts touched",
                f"{experts['touched']:.3g} of {experts['count']}",
                f"of a layer, in a step of {experts['batch']}, when routing is even",
            ]
        )
    if ceiling.kv_bytes_per_token is not None:
        rows.append(["KV cache per token", format_bytes(ceiling.kv_bytes_per_token), "header"])
    return rows


def _limit_rows(ceiling: Ceiling, machine: dict[str, Any], facts: dict[str, Any]) -> list[list[str]]:
    count = machine["device_count"]
    together = "" if count == 1 else f", all {count} together"
    rows = [
        ["decode", f"at most {ceiling.decode_tokens_per_second:.4g} tokens/s{together}", f"bound by {ceiling.bound}"]
    ]
    split = facts.get("split_by_layers_decode_tokens_per_second")
    if split is not None:
        rows.append(["decode, split by layers", f"at most {split:.4g} tokens/s", "one stream, one device at a time"])
    if ceiling.prefill_tokens_per_second is not None:
        note = f"bound by {ceiling.prefill_bound}"
        if machine["peak_flop_per_s"] is None:
            note += " (compute peak unknown: give --tflops)"
        rows.append(["prefill", f"at most {ceiling.prefill_tokens_per_second:.4g} tokens/s", note])
    rows += _predicted_rows(facts.get("predicted") or {})
    if ceiling.ttft_s is not None:
        rows.append(["time to first token", f"at least {format_seconds(ceiling.ttft_s)}", "prefill and one step"])
    return rows


def _predicted_rows(predicted: dict[str, Any]) -> list[list[str]]:
    """What is to be expected below the ceiling, where that is known."""
    rows = []
    for phase in ("decode", "prefill"):
        rate = predicted.get(phase)
        if rate is not None:
            text = f"{rate['tokens_per_second']:.4g} tokens/s ({rate['low']:.4g} to {rate['high']:.4g})"
            rows.append([f"{phase}, {rate['basis']}", text, "; ".join(predicted["rests_on"]) or "80 % range"])
    if predicted.get("ttft_s") is not None:
        rows.append(["time to first token, predicted", format_seconds(predicted["ttft_s"]), "prefill and one step"])
    if predicted.get("reason"):
        rows.append(["decode, predicted", "unknown", predicted["reason"]])
    return rows


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
