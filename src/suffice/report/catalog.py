"""The catalogue of models for a reader at a terminal; the other parts are in :mod:`suffice.report.entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.report.tables import plain_table
from suffice.units import GIGA, format_bytes

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


def models_text(models: Sequence[dict[str, Any]]) -> str:
    """A table of models, and why some of them cannot be measured as slices."""
    rows = [_MODEL_COLUMNS, *(_model_row(model) for model in models)]
    lines = [plain_table(rows)]
    refused: dict[str, list[str]] = {}
    for model in models:
        if model["refused_because"]:
            refused.setdefault(model["refused_because"], []).append(model["id"])
    lines += [f"no slices of {', '.join(names)}: {reason}" for reason, names in refused.items()]
    if any(model["file_bytes"] for model in models):
        lines += ["", plain_table(_size_rows(models)), ""]
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


def _size_rows(models: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Sizes of files by quantization."""
    recipes = next(list(model["file_bytes"]) for model in models if model["file_bytes"])
    rows = [["size of a file", *recipes]]
    for model in models:
        sizes = model["file_bytes"]
        rows.append([model["id"], *(_UNKNOWN if sizes is None else format_bytes(sizes[name]) for name in recipes)])
    return rows


def _billions(count: float) -> str:
    return f"{count / GIGA:.4g} B"
