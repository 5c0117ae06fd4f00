"""Loads the shapes of models that ship with the package."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from suffice.errors import UsageError
from suffice.model.spec import Experts, FeedForward, LatentAttention, ModelSpec
from suffice.units import GIGA

_NEAR_MATCHES = 4
_NEAR_CUTOFF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntry:
    """One model of the catalogue. None: no source, or it does not apply.

    ``published_parameters`` counts everything that the authors ship, also vision towers; ``computed_parameters`` follows from the
    shape and counts the text decoder alone. ``note`` says why they differ.
    """

    id: str
    family: str
    spec: ModelSpec
    published_parameters: int | None
    computed_parameters: int
    active_parameters: int  # that one decode step reads
    kv_elements_per_token: int  # of the layers that see the whole context
    kv_elements_per_token_windowed: int  # of the layers that see a window
    state_elements: int  # of recurrent layers, per sequence
    source: str
    note: str


@cache
def all_models() -> tuple[ModelEntry, ...]:
    """Every model of the catalogue, in the order of the file."""
    text = files("suffice.catalogue").joinpath("data/models.csv").read_text(encoding="utf-8")
    return tuple(_entry(row) for row in csv.DictReader(text.splitlines()))


def model_named(name: str) -> ModelEntry:
    """The model with an id, in any case; dots, dashes, underscores and blanks count as one another.

    Raises:
        UsageError: there is none; the message names the nearest ones.
    """
    wanted = _plain(name)
    for entry in all_models():
        if _plain(entry.id) == wanted:
            return entry
    known = {_plain(entry.id): entry.id for entry in all_models()}
    near = [known[key] for key in get_close_matches(wanted, known, n=_NEAR_MATCHES, cutoff=_NEAR_CUTOFF)]
    hint = f"did you mean {', '.join(near)}?" if near else "'suffice catalog models' lists those that there are"
    raise UsageError(f"no model of the catalogue is called {name!r}; {hint}")


def search_models(query: str) -> tuple[ModelEntry, ...]:
    """The models whose id, family or architecture holds every word of the query; all of them for an empty one."""
    words = [_plain(word) for word in query.split()]
    return tuple(entry for entry in all_models() if all(word in _haystack(entry) for word in words))


def _plain(name: str) -> str:
    return re.sub(r"[\s._-]+", "-", name.strip().lower())


def _haystack(entry: ModelEntry) -> str:
    return " ".join(_plain(text) for text in (entry.id, entry.family, entry.spec.architecture))


def _entry(row: dict[str, str]) -> ModelEntry:
    return ModelEntry(
        id=row["id"],
        family=row["family"],
        spec=_spec(row),
        published_parameters=_billions(row["params_published_b"]) if row["params_published_b"] else None,
        computed_parameters=_billions(row["params_computed_b"]),
        active_parameters=_billions(row["active_params_computed_b"]),
        kv_elements_per_token=int(row["kv_elems_per_tok_full"]),
        kv_elements_per_token_windowed=int(row["kv_elems_per_tok_swa"]),
        state_elements=int(row["state_elems_per_seq"]),
        source=row["source"],
        note=row["note"],
    )


def _spec(row: dict[str, str]) -> ModelSpec:
    extra = dict(pair.split("=", 1) for pair in row["extra"].split(";") if pair)
    return ModelSpec(
        name=row["id"],
        architecture=row["gguf_arch"],
        n_layer=int(row["n_layer"]),
        n_embd=int(row["d_model"]),
        n_head=int(row["n_head"]),
        n_head_kv=int(row["n_kv_head"]),
        head_length=int(row["head_dim"]),
        n_vocab=int(row["vocab"]),
        tied=row["tied_embeddings"] == "1",
        n_ff=_whole(row["d_ff"]),
        feed_forward=FeedForward(row["ffn"]),
        context_length=_whole(row["max_context"]),
        qkv_bias=row["qkv_bias"] == "1",
        latent=_latent(row),
        experts=_experts(row, extra),
        sliding_window=_whole(row["sliding_window"]),
        sliding_pattern=row["sliding_pattern"] or None,
        extra=MappingProxyType(extra),
    )


def _latent(row: dict[str, str]) -> LatentAttention | None:
    if not row["kv_lora_rank"]:
        return None
    return LatentAttention(
        kv_rank=int(row["kv_lora_rank"]),
        rope_length=int(row["qk_rope_head_dim"]),
        nope_length=int(row["qk_nope_head_dim"]),
        value_length=int(row["v_head_dim"]),
        q_rank=_whole(row["q_lora_rank"]),
    )


def _experts(row: dict[str, str], extra: dict[str, str]) -> Experts | None:
    if not row["n_expert"]:
        return None
    return Experts(
        n_expert=int(row["n_expert"]),
        n_used=int(row["n_expert_used"]),
        n_ff=int(row["d_ff_expert"]),
        n_shared=int(row["n_shared_expert"] or 0),
        n_ff_shared=_whole(extra.get("shared_ff", "")),
        n_dense_first=int(row["n_dense_layers_first"] or 0),
    )


def _whole(text: str) -> int | None:
    return int(text) if text.strip() else None


def _billions(text: str) -> int:
    return round(float(text) * GIGA)
