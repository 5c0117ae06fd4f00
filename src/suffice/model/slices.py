"""Slices: short models that run at the speed of a long one's layers.

All layers of a kind take the same time, so a few short stand-ins of a model tell how long all of its layers take
(:mod:`suffice.model.extrapolation`). This module says what kinds of layers a model has, which slices to make within a limit of
bytes, and what the header of each slice is. Nothing is written here.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.attention import layer_windows
from suffice.model.extrapolation import LEAST_SLICES
from suffice.model.gguf_header import GgufHeader, TensorInfo
from suffice.model.metadata import Metadata, metadata_of, plain_layers
from suffice.model.slice_rules import added_keys, refusal
from suffice.model.weights import OUTPUT_HEAD, TOKEN_EMBEDDING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from suffice.model.gguf_header import MetadataValue

_BLOCK: Final = re.compile(r"blk\.(\d{1,6})\.(.+)", re.DOTALL)
_ALIGNMENT: Final = 32  # GGUF's default
_DENSE_FIRST: Final = "leading_dense_block_count"
_DROPPED: Final = ("tokenizer.", "split.", "general.parameter_count")
# Slices keep a part of the vocabulary when embedding and head of all of them together would take more than this share of the limit.
_OUTER_SHARE: Final = 0.35
_SMALL_VOCABULARY: Final = 16  # then most slices have a 16th of it ...
_LARGE_VOCABULARIES: Final = (1, 2, 4)  # ... and one has as much as fits, which gives the time of the head
_LEAST_ROWS: Final = 2048
_ROW_STEP: Final = 256
_SIZES: Final = 3


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
    tensors = _tensors_by_layer(header)
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


def plan_slices(header: GgufHeader, limit_bytes: int) -> SliceDesign:
    """The slices that fit together into ``limit_bytes``: three lengths as far apart as possible.

    When embedding and head are large, the slices keep a 16th of the vocabulary and a fourth one keeps more, so that the head's
    time can be told from the layers'.

    Raises:
        ModelFileError: the engine cannot run a slice of this architecture, with the reason, or it has too few layers.
    """
    metadata = metadata_of(header)
    reason = refusal(metadata, plain_layers(metadata))
    if reason is not None:
        raise ModelFileError(f"{header.source}: cannot be measured in slices: {reason}")
    kinds = layer_kinds(header)
    order = _layer_order(metadata, kinds)
    if len(order) < LEAST_SLICES:
        raise ModelFileError(
            f"{header.source}: cannot be measured in slices: {len(order)} different lengths are possible, {LEAST_SLICES} are needed"
        )
    n_vocab = _vocabulary_rows(header)
    sizes = _Sizes.of(header, order, n_vocab)
    cut = _cut_vocabulary(header, sizes, n_vocab, limit_bytes)
    least = _least_length(kinds, order)
    reserve = 0 if cut is None else sizes.n_bytes(least, n_vocab // _LARGE_VOCABULARIES[-1])
    lengths = _lengths(sizes, least, _Mix.of(kinds, order), cut or n_vocab, limit_bytes - reserve)
    plans = [SlicePlan(layers=order[:length], n_vocab=cut or n_vocab) for length in lengths]
    if cut is not None:
        used = sum(sizes.n_bytes(length, cut) for length in lengths)
        plans.append(SlicePlan(layers=order[:least], n_vocab=_large_vocabulary(sizes, least, limit_bytes - used)))
    return SliceDesign(header=header, kinds=kinds, n_vocab=n_vocab, plans=tuple(plans))


def design_bytes(design: SliceDesign) -> int:
    """Bytes of all slices together, as they are open at the same time."""
    return sum(design.slice_header(plan).tensor_bytes for plan in design.plans)


def whole_model(header: GgufHeader) -> SliceDesign:
    """The design with one "slice" that is the whole model: for models so small that a cache would hold their slices."""
    kinds = layer_kinds(header)
    n_vocab = _vocabulary_rows(header)
    layers = tuple(range(plain_layers(metadata_of(header))))
    return SliceDesign(header=header, kinds=kinds, n_vocab=n_vocab, plans=(SlicePlan(layers=layers, n_vocab=n_vocab),))


# -- which layers stand where ---------------------------------------------------------------------------------------------


def _layer_order(metadata: Metadata, kinds: Sequence[LayerKind]) -> tuple[int, ...]:
    """The model's layers in the order in which slices take them: every slice is a beginning of it.

    llama.cpp derives a layer's structure from its position (windows, recurrent layers, dense layers before experts), so position
    p holds a layer of the structure that position p has in the model; of leading dense layers one is kept. Among layers of a
    structure the kinds alternate so that every beginning has about the mix of the whole.
    """
    kind_at = {layer: kind for kind in kinds for layer in kind.layers}
    n_layer = len(kind_at)
    dense = min(metadata.count(_DENSE_FIRST) or 0, n_layer)
    if len({kind_at[layer].structure for layer in range(dense)}) != 1 or _windows_by_position(metadata, n_layer):
        dense = 0  # they differ among themselves, or the others must stay where they are: all are kept
    positions = [layer for layer in range(n_layer) if not 1 <= layer < dense]
    uniform = len({kind.structure for kind in kinds}) == 1
    of_structure = Counter(kind_at[layer].structure for layer in range(n_layer))
    taken: Counter[int] = Counter()
    order = []
    for position in range(n_layer) if uniform else positions:
        structure = kind_at[position].structure
        choices = [kind for kind in kinds if kind.structure == structure]
        done = sum(taken[id(kind)] for kind in choices)
        share = (done + 1) / of_structure[structure]
        # The kind that is most behind its share; the first one on a tie.
        best = max(choices, key=lambda kind: len(kind.layers) * share - taken[id(kind)])
        order.append(best.layers[taken[id(best)] % len(best.layers)])
        taken[id(best)] += 1
    return tuple(order)


def _windows_by_position(metadata: Metadata, n_layer: int) -> bool:
    """Whether llama.cpp knows by a layer's number which window it has, and not from an array in the file."""
    windowed = any(window is not None for window in layer_windows(metadata, n_layer))
    return windowed and metadata.flags("attention.sliding_window_pattern", n_layer) is None


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Bytes of slices by their length and vocabulary."""

    n_vocab: int
    beginnings: tuple[int, ...]  # bytes of the first 0, 1, 2, ... layers of the order
    rows_bytes: int  # of embedding and head together
    other_bytes: int  # of what stands outside of the layers beside them

    @classmethod
    def of(cls, header: GgufHeader, order: Sequence[int], n_vocab: int) -> _Sizes:
        by_layer = _tensors_by_layer(header)
        layers = [sum(tensor.n_bytes for tensor in by_layer[layer].values()) for layer in order]
        outer = [tensor for tensor in header.tensors if _BLOCK.fullmatch(tensor.name) is None]
        rows_bytes = sum(tensor.n_bytes for tensor in outer if tensor.name in (TOKEN_EMBEDDING, OUTPUT_HEAD))
        return cls(
            n_vocab=n_vocab,
            beginnings=tuple(accumulate(layers, initial=0)),
            rows_bytes=rows_bytes,
            other_bytes=sum(tensor.n_bytes for tensor in outer) - rows_bytes,
        )

    def n_bytes(self, length: int, rows: int) -> int:
        return self.beginnings[length] + self.rows_bytes // self.n_vocab * rows + self.other_bytes

    def outer_bytes(self) -> int:
        return self.n_bytes(0, self.n_vocab)


def _least_length(kinds: Sequence[LayerKind], order: Sequence[int]) -> int:
    """The shortest slice with a layer of every structure."""
    structure_of = {layer: kind.structure for kind in kinds for layer in kind.layers}
    seen: set[int] = set()
    for position, layer in enumerate(order):
        seen.add(structure_of[layer])
        if len(seen) == len({kind.structure for kind in kinds}):
            return position + 1
    return len(order)


@dataclass(frozen=True, slots=True)
class _Mix:
    """How the kinds are mixed in the beginnings of an order."""

    kind_at: tuple[int, ...]

    @classmethod
    def of(cls, kinds: Sequence[LayerKind], order: Sequence[int]) -> _Mix:
        kind_of = {layer: index for index, kind in enumerate(kinds) for layer in kind.layers}
        return cls(tuple(kind_of[layer] for layer in order))

    def shares(self, length: int) -> dict[int, float]:
        return {kind: count / length for kind, count in Counter(self.kind_at[:length]).items()}

    def middles(self, first: int, last: int) -> list[int]:
        """Lengths halfway between, best first: those in which the kinds are mixed otherwise than at both ends."""
        ends = (self.shares(first), self.shares(last))
        halfway = [length for length in ((first + last) // 2, (first + last) // 2 + 1) if first < length < last]
        return sorted(halfway, key=lambda length: self.shares(length) in ends)


def _lengths(sizes: _Sizes, least: int, mix: _Mix, rows: int, limit_bytes: int) -> tuple[int, ...]:
    """Three lengths: the first short, the last as long as the limit allows, and one between that tells whether they lie on a line."""
    n_layer = len(mix.kind_at)
    if n_layer <= _SIZES:
        return tuple(range(1, n_layer + 1))
    for first in dict.fromkeys((max(least, 2), max(least, 1))):
        first_length = min(first, n_layer - 2)
        for last in range(n_layer, first_length + 1, -1):
            for middle in mix.middles(first_length, last):
                lengths = (first_length, middle, last)
                if sum(sizes.n_bytes(length, rows) for length in lengths) <= limit_bytes:
                    return lengths
    # Nothing fits: the shortest that can tell anything; whoever runs them sees what they take.
    first_length = min(least, n_layer - 2)
    return (first_length, first_length + 1, first_length + 2)


def _cut_vocabulary(header: GgufHeader, sizes: _Sizes, n_vocab: int, limit_bytes: int) -> int | None:
    """The rows that most slices keep, or None when they can keep all."""
    rows = max(_LEAST_ROWS, n_vocab // _SMALL_VOCABULARY // _ROW_STEP * _ROW_STEP)
    if _SIZES * sizes.outer_bytes() <= _OUTER_SHARE * limit_bytes or 4 * rows > n_vocab:
        return None
    plain = {TOKEN_EMBEDDING, OUTPUT_HEAD}
    others = [t for t in header.tensors if _BLOCK.fullmatch(t.name) is None and t.name not in plain]
    return None if any(n_vocab in tensor.dims for tensor in others) else rows


def _large_vocabulary(sizes: _Sizes, length: int, limit_bytes: int) -> int:
    for share in _LARGE_VOCABULARIES:
        rows = sizes.n_vocab if share == 1 else sizes.n_vocab // share // _ROW_STEP * _ROW_STEP
        if sizes.n_bytes(length, rows) <= limit_bytes or share == _LARGE_VOCABULARIES[-1]:
            return rows
    raise AssertionError("the loop ends in a return")


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
        if _BLOCK.fullmatch(tensor.name) is None:
            yield _with_rows(tensor, n_vocab, plan.n_vocab) if tensor.name in (TOKEN_EMBEDDING, OUTPUT_HEAD) else tensor
    by_layer = _tensors_by_layer(header)
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
    dense = metadata.count(_DENSE_FIRST)
    if dense:
        # Layers that the model has in front are dense; of them one is kept.
        values[f"{name}.{_DENSE_FIRST}"] = sum(layer < dense for layer in plan.layers)
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


def _tensors_by_layer(header: GgufHeader) -> dict[int, dict[str, TensorInfo]]:
    found: dict[int, dict[str, TensorInfo]] = defaultdict(dict)
    for tensor in header.tensors:
        match = _BLOCK.fullmatch(tensor.name)
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


def _vocabulary_rows(header: GgufHeader) -> int:
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
