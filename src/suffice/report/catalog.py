"""The catalogue of models and devices for a reader at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.report.tables import plain_table
from suffice.units import GIGA, TERA, format_bandwidth, format_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_UNKNOWN = "?"
_MODEL_COLUMNS = [
    "model",
    "architecture",
    "parameters",
    "active",
    "layers",
    "context",
    "experts",
    "KV per token",
    "slice",
]
_DEVICE_COLUMNS = ["device", "name", "kind", "memory", "bandwidth", "dense BF16", "basis"]


def models_text(models: Sequence[dict[str, Any]]) -> str:
    """A table of models, and why some of them cannot be measured as slices."""
    rows = [_MODEL_COLUMNS, *(_model_row(model) for model in models)]
    lines = [plain_table(rows)]
    refused: dict[str, list[str]] = {}
    for model in models:
        if model["refused_because"]:
            refused.setdefault(model["refused_because"], []).append(model["id"])
    lines += [f"no slices of {', '.join(names)}: {reason}" for reason, names in refused.items()]
    lines.append(
        "Parameters are those of the text decoder; active ones are read for each token; the KV cache is in f16, before any window "
        "is full. Sources: --json."
    )
    return "\n".join(lines)


def _model_row(model: dict[str, Any]) -> list[str]:
    experts = model["experts"]
    return [
        model["id"],
        model["architecture"],
        _billions(model["parameters"]),
        _billions(model["active_parameters"]),
        str(model["layers"]),
        _UNKNOWN if model["context_length"] is None else f"{model['context_length']:,}",
        "" if experts is None else f"{experts['used']} of {experts['count']}",
        format_bytes(model["kv_bytes_per_token"]),
        "no" if model["refused_because"] else "yes",
    ]


def _billions(count: float) -> str:
    return f"{count / GIGA:.4g} B"


def devices_text(devices: Sequence[dict[str, Any]]) -> str:
    """A table of devices; what is not known is a question mark."""
    return plain_table([_DEVICE_COLUMNS, *(_device_row(device) for device in devices)])


def _device_row(device: dict[str, Any]) -> list[str]:
    memory, bandwidth, flops = device["memory_bytes"], device["bandwidth_bytes_per_s"], device["dense_bf16_flop_per_s"]
    return [
        device["id"],
        device["name"],
        device["kind"],
        _UNKNOWN if memory is None else format_bytes(memory),
        _UNKNOWN if bandwidth is None else format_bandwidth(bandwidth),
        _UNKNOWN if flops is None else f"{flops / TERA:.4g} TFLOP/s",
        device["bandwidth_basis"] or _UNKNOWN,
    ]
