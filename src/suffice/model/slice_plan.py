"""Which slices to make of a model within a limit of bytes: which layers in which order, three lengths, how much of the vocabulary."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError, UsageError
from suffice.model.attention import layer_windows
from suffice.model.extrapolation import LEAST_SLICES
from suffice.model.metadata import Metadata, metadata_of, plain_layers
from suffice.model.slice_rules import refusal
from suffice.model.slices import (
    BLOCK,
    DENSE_FIRST,
    LayerKind,
    SliceDesign,
    SlicePlan,
    layer_kinds,
    tensors_by_layer,
    vocabulary_rows,
)
from suffice.model.weights import OUTPUT_HEAD, TOKEN_EMBEDDING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.gguf_header import GgufHeader

# Slices keep a part of the vocabulary when embedding and head of all of them together would take more than this share of the limit.
_OUTER_SHARE: Final = 0.35
_SMALL_VOCABULARY: Final = 16  # then most slices have a 16th of it ...
_LARGE_VOCABULARIES: Final = (1, 2, 4)  # ... and one has as much as fits, which gives the time of the head
_LEAST_ROWS: Final = 2048
_ROW_STEP: Final = 256
_SIZES: Final = 3


def plan_slices(header: GgufHeader, limit_bytes: int) -> SliceDesign:
    """The slices that fit together into ``limit_bytes``: three lengths as far apart as possible.

    When embedding and head are large, the slices keep a 16th of the vocabulary and a fourth one keeps more, so that the head's
    time can be told from the layers'.

    Raises:
        ModelFileError: the engine cannot run a slice of this architecture, with the reason, or it has too few layers.
    """
    _metadata, kinds, order = _ordered(header)
    n_vocab = vocabulary_rows(header)
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


def plan_again(header: GgufHeader, made: Sequence[tuple[int, int]]) -> SliceDesign:
    """The slices that an interrupted run has made: (layers, rows of the vocabulary) of each.

    Raises:
        ModelFileError: as of :func:`plan_slices`.
        UsageError: this model has no such slices.
    """
    _metadata, kinds, order = _ordered(header)
    n_vocab = vocabulary_rows(header)
    if any(not 0 < length <= len(order) or not 0 < rows <= n_vocab for length, rows in made):
        raise UsageError("the record to resume is of slices that this model does not have; leave out --resume")
    plans = tuple(SlicePlan(layers=order[:length], n_vocab=rows) for length, rows in made)
    return SliceDesign(header=header, kinds=kinds, n_vocab=n_vocab, plans=plans)


def _ordered(header: GgufHeader) -> tuple[Metadata, tuple[LayerKind, ...], tuple[int, ...]]:
    """Metadata, kinds, and the order in which slices take the layers; refusals are here."""
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
    return metadata, kinds, order


# -- which layers stand where ---------------------------------------------------------------------------------------------


def _layer_order(metadata: Metadata, kinds: Sequence[LayerKind]) -> tuple[int, ...]:
    """The model's layers in the order in which slices take them: every slice is a beginning of it.

    llama.cpp derives a layer's structure from its position (windows, recurrent layers, dense layers before experts), so position
    p holds a layer of the structure that position p has in the model; of leading dense layers one is kept. Among layers of a
    structure the kinds alternate so that every beginning has about the mix of the whole.
    """
    kind_at = {layer: kind for kind in kinds for layer in kind.layers}
    n_layer = len(kind_at)
    dense = min(metadata.count(DENSE_FIRST) or 0, n_layer)
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
        by_layer = tensors_by_layer(header)
        layers = [sum(tensor.n_bytes for tensor in by_layer[layer].values()) for layer in order]
        outer = [tensor for tensor in header.tensors if BLOCK.fullmatch(tensor.name) is None]
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
    others = [t for t in header.tensors if BLOCK.fullmatch(t.name) is None and t.name not in plain]
    return None if any(n_vocab in tensor.dims for tensor in others) else rows


def _large_vocabulary(sizes: _Sizes, length: int, limit_bytes: int) -> int:
    for share in _LARGE_VOCABULARIES:
        rows = sizes.n_vocab if share == 1 else sizes.n_vocab // share // _ROW_STEP * _ROW_STEP
        if sizes.n_bytes(length, rows) <= limit_bytes or share == _LARGE_VOCABULARIES[-1]:
            return rows
    raise AssertionError("the loop ends in a return")
