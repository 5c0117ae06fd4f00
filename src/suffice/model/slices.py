"""Slices: short models that run at the speed of a long one's layers.

All layers of a kind take the same time, so a few short stand-ins of a model tell how long all of its layers take
(:mod:`suffice.model.extrapolation`). This module says what kinds of layers a model has and what the header of a slice is; which
slices to make is the business of :mod:`suffice.model.slice_plan`. Nothing is written here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.attention import layer_windows
from suffice.model.gguf_header import GgufHeader, TensorInfo
from suffice.model.metadata import Metadata, metadata_of, plain_layers
from suffice.model.slice_rules import added_keys
from suffice.model.weights import OUTPUT_HEAD, TOKEN_EMBEDDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from suffice.model.gguf_header import MetadataValue

BLOCK: Final = re.compile(r"blk\.(\d{1,6})\.(.+)", re.DOTALL)
_ALIGNMENT: Final = 32  # GGUF's default
DENSE_FIRST: Final = "leading_dense_block_count"
_DROPPED: Final = ("tokenizer.", "split.", "general.parameter_count")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """Layers that are alike: the same tensors, dimensions and types, the same window and heads."""

    layers: tuple[int, ...]  # their numbers in the model
    structure: int  # kinds of the same structure differ in their types only
    n_bytes: int  # of the tensors of one of them
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SlicePlan:
    """One slice: which of the model's layers stands at each position, and how many rows of the vocabulary it keeps."""

    layers: tuple[int, ...]
    n_vocab: int


@dataclass(frozen=True, kw_only=True)
class SliceDesign:
    """The slices of a model. ``header`` is that of the whole model."""

    header: GgufHeader
    kinds: tuple[LayerKind, ...]
    n_vocab: int
    plans: tuple[SlicePlan, ...]

    @cached_property
    def kind_of(self) -> Mapping[int, int]:
        """The kind of each layer of the model."""
        return {layer: index for index, kind in enumerate(self.kinds) for layer in kind.layers}

    @property
    def cuts_vocabulary(self) -> bool:
        """Whether slices keep different parts of the vocabulary, so that the head's time is a term of its own."""
        return len({plan.n_vocab for plan in self.plans}) > 1

    @property
    def full_counts(self) -> tuple[float, ...]:
        """Layers of each kind in the whole model, and one whole head where it is a term of its own."""
        counts = tuple(float(len(kind.layers)) for kind in self.kinds)
        return (*counts, 1.0) if self.cuts_vocabulary else counts

    def counts(self, plan: SlicePlan) -> tuple[float, ...]:
        """The same for a slice: layers of each kind, and its share of the head."""
        found = Counter(self.kind_of[layer] for layer in plan.layers)
        counts = tuple(float(found[index]) for index in range(len(self.kinds)))
        return (*counts, plan.n_vocab / self.n_vocab) if self.cuts_vocabulary else counts

    def slice_header(self, plan: SlicePlan) -> GgufHeader:
        """The header of a slice, as a whole model of its own."""
        return _slice_header(self.header, plan, self.n_vocab)


def layer_kinds(header: GgufHeader) -> tuple[LayerKind, ...]:
    """The kinds of the layers that run in plain decoding, in the order in which they first appear.

    Raises:
        ModelFileError: layers without tensors, or metadata that contradict themselves.
    """
    metadata = metadata_of(header)
    n_layer = plain_layers(metadata)
    tensors = tensors_by_layer(header)
    windows = layer_windows(metadata, n_layer)
    structures: dict[object, int] = {}
    found: dict[object, list[int]] = defaultdict(list)
    for layer in range(n_layer):
        own = tensors.get(layer)
        if not own:
            raise ModelFileError(f"{header.source}: layer {layer} of {n_layer} has no tensors; get the complete file")
        structure = (
            tuple(sorted((suffix, tensor.dims) for suffix, tensor in own.items())),
            windows[layer],
            _per_layer_values(metadata, layer),
        )
        number = structures.setdefault(structure, len(structures))
        found[number, tuple(sorted((suffix, tensor.type_name) for suffix, tensor in own.items()))].append(layer)
    kinds = []
    for (number, _types), layers in found.items():  # type: ignore[misc]  # the keys are the pairs above
        own = tensors[layers[0]]
        kinds.append(
            LayerKind(
                layers=tuple(layers),
                structure=number,
                n_bytes=sum(tensor.n_bytes for tensor in own.values()),
                label=_label(own, windows[layers[0]]),
            )
        )
    return tuple(kinds)


def design_bytes(design: SliceDesign) -> int:
    """Bytes of all slices together, as they are open at the same time."""
    return sum(design.slice_header(plan).tensor_bytes for plan in design.plans)


def whole_model(header: GgufHeader) -> SliceDesign:
    """The design with one "slice" that is the whole model: for models so small that a cache would hold their slices."""
    kinds = layer_kinds(header)
    n_vocab = vocabulary_rows(header)
    layers = tuple(range(plain_layers(metadata_of(header))))
    return SliceDesign(header=header, kinds=kinds, n_vocab=n_vocab, plans=(SlicePlan(layers=layers, n_vocab=n_vocab),))


# -- headers ----------------------------------------------------------------------------------------------------------------


def _slice_header(header: GgufHeader, plan: SlicePlan, n_vocab: int) -> GgufHeader:
    tensors = tuple(_with_offsets(_slice_tensors(header, plan, n_vocab)))
    last = tensors[-1] if tensors else None
    return GgufHeader(
        source=f"slice of {len(plan.layers)} layers of {header.source}",
        version=3,
        big_endian=False,
        alignment=_ALIGNMENT,
        metadata=_slice_metadata(header, plan),
        tensors=tensors,
        file_bytes=0 if last is None else last.offset + last.n_bytes,
    )


def _slice_tensors(header: GgufHeader, plan: SlicePlan, n_vocab: int) -> Iterator[TensorInfo]:
    for tensor in header.tensors:
        if BLOCK.fullmatch(tensor.name) is None:
            yield _with_rows(tensor, n_vocab, plan.n_vocab) if tensor.name in (TOKEN_EMBEDDING, OUTPUT_HEAD) else tensor
    by_layer = tensors_by_layer(header)
    for position, layer in enumerate(plan.layers):
        for suffix, tensor in by_layer[layer].items():
            yield TensorInfo(
                name=f"blk.{position}.{suffix}",
                dims=tensor.dims,
                type_name=tensor.type_name,
                offset=0,
                n_bytes=tensor.n_bytes,
            )


def _with_rows(tensor: TensorInfo, n_vocab: int, rows: int) -> TensorInfo:
    if rows == n_vocab:
        return tensor
    return TensorInfo(
        name=tensor.name,
        dims=(tensor.dims[0], rows),
        type_name=tensor.type_name,
        offset=0,
        n_bytes=tensor.n_bytes // n_vocab * rows,  # rows of one tensor have the same size
    )


def _with_offsets(tensors: Iterator[TensorInfo]) -> Iterator[TensorInfo]:
    offset = 0
    for tensor in tensors:
        yield TensorInfo(
            name=tensor.name,
            dims=tensor.dims,
            type_name=tensor.type_name,
            offset=offset,
            n_bytes=tensor.n_bytes,
        )
        offset += -(-tensor.n_bytes // _ALIGNMENT) * _ALIGNMENT


def _slice_metadata(header: GgufHeader, plan: SlicePlan) -> dict[str, MetadataValue]:
    metadata = metadata_of(header)
    name, blocks = metadata.architecture, metadata.required_count("block_count")
    values = {key: value for key, value in header.metadata.items() if not key.startswith(_DROPPED)}
    for key, value in values.items():
        if key.startswith(f"{name}.") and isinstance(value, tuple) and len(value) == blocks:
            values[key] = tuple(value[layer] for layer in plan.layers)
    dense = metadata.count(DENSE_FIRST)
    if dense:
        # Layers that the model has in front are dense; of them one is kept.
        values[f"{name}.{DENSE_FIRST}"] = sum(layer < dense for layer in plan.layers)
    values.pop(f"{name}.nextn_predict_layers", None)
    values |= {
        f"{name}.block_count": len(plan.layers),
        f"{name}.vocab_size": plan.n_vocab,
        "general.name": f"{_name(header)}, {len(plan.layers)} of {blocks} layers",
    }
    return {**added_keys(metadata), **values}


def _name(header: GgufHeader) -> str:
    name = header.metadata.get("general.name")
    return name if isinstance(name, str) and name.strip() else header.source


def tensors_by_layer(header: GgufHeader) -> dict[int, dict[str, TensorInfo]]:
    """The tensors of each layer by what follows its number: ``{0: {"attn_q.weight": ...}}``."""
    found: dict[int, dict[str, TensorInfo]] = defaultdict(dict)
    for tensor in header.tensors:
        match = BLOCK.fullmatch(tensor.name)
        if match is not None:
            found[int(match[1])][match[2]] = tensor
    return found


def _per_layer_values(metadata: Metadata, layer: int) -> tuple[object, ...]:
    """What the metadata say of this layer alone: heads, widths, windows."""
    blocks = metadata.required_count("block_count")
    prefix = f"{metadata.architecture}."
    return tuple(
        (key, value[layer])
        for key, value in sorted(metadata.values.items())
        if key.startswith(prefix) and isinstance(value, tuple) and len(value) == blocks
    )


def vocabulary_rows(header: GgufHeader) -> int:
    """Rows of the embedding.

    Raises:
        ModelFileError: there is none.
    """
    for tensor in header.tensors:
        if tensor.name == TOKEN_EMBEDDING and len(tensor.dims) > 1:
            return tensor.dims[1]
    raise ModelFileError(f"{header.source}: has no {TOKEN_EMBEDDING}; name the GGUF file of a whole text model")


def _label(own: Mapping[str, TensorInfo], window: int | None) -> str:
    """Types of a layer's matrices by their bytes, largest first: "q4_K, q6_K"; a window and experts are named."""
    sizes: Counter[str] = Counter()
    for tensor in own.values():
        if len(tensor.dims) > 1:
            sizes[tensor.type_name] += tensor.n_bytes
    text = ", ".join(name for name, _ in sizes.most_common()) or "no matrices"
    if any("_exps." in suffix for suffix in own):
        text += ", experts"
    if any(suffix.startswith(("ssm_", "shortconv.", "time_mix_")) for suffix in own):
        text += ", recurrent"
    return text if window is None else f"{text}, window {window}"
