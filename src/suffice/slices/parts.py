"""Which part file holds what: a slice is a split GGUF whose parts can belong to several slices.

Part 0 has the metadata and the vocabulary, part 1 the tensors outside of layers, part 2 + i layer i. llama.cpp takes the metadata and the
number of parts from the first part and only the part's own number from the others, so a part is the same in every slice that has
the same layer in the same place. It is called by a hash of its header, which says everything about it.

Every part repeats the number of parts (suffice's own reader insists on it), which therefore must not depend on the number of
layers: it is 16, 64 or 256, and the parts beyond the last layer are empty files of some hundred bytes.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.gguf_header import LongArray, LongText
from suffice.model.metadata import metadata_of
from suffice.slices.contents import CONTENTS_VERSION
from suffice.slices.gguf_write import GgufLayout, Typed, ValueKind, lay_out
from suffice.slices.vocabulary import synthetic_vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.gguf_header import GgufHeader, TensorInfo

_FORMAT_VERSION: Final = 1  # of the parts; raise it when the same header may mean another file
_PART_COUNTS: Final = (16, 64, 256)
_LAYER: Final = re.compile(r"blk\.(\d+)\.")
_EMBEDDING: Final = "token_embd.weight"
_BEFORE_LAYERS: Final = 2  # parts without layers
# What llama.cpp computes by. Names are for people, and yet it gives tokens traits by them: a "phi-3" must have "<|endoftext|>".
_GENERAL: Final = frozenset({"general.architecture", "general.file_type", "general.quantization_version"})
_EMBEDDING_DIMS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class PartPlan:
    """One part file: its name in the cache's folder of parts, and what it will hold."""

    key: str
    role: str  # for people: "vocabulary", "outer tensors", "layer 3", "empty"
    layout: GgufLayout

    @property
    def n_bytes(self) -> int:
        """Size of the file."""
        return self.layout.file_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceFiles:
    """All parts of a slice, in order."""

    key: str
    name: str
    architecture: str
    layers: int
    parts: tuple[PartPlan, ...]

    def file_name(self, index: int) -> str:
        """The name of a part in the slice's folder, as llama.cpp expects it."""
        return f"slice-{index + 1:05d}-of-{len(self.parts):05d}.gguf"

    @property
    def n_bytes(self) -> int:
        """Size of all parts."""
        return sum(part.n_bytes for part in self.parts)


def plan_files(header: GgufHeader) -> SliceFiles:
    """The parts of a slice with this header, which may have any offsets.

    Raises:
        ModelFileError: the header is not that of a complete model, or holds what cannot be written.
    """
    metadata = metadata_of(header)
    layers = metadata.required_count("block_count")
    count = _part_count(header, layers)
    groups = _groups(header, layers)
    layouts = [lay_out(_first_metadata(header, count), [])]
    layouts += [lay_out(_split_keys(number, count), groups.get(number, [])) for number in range(1, count)]
    roles = ["vocabulary", "outer tensors", *(f"layer {layer}" for layer in range(layers))]
    parts = tuple(
        PartPlan(key=_key(layout), role=roles[number] if number < len(roles) else "empty", layout=layout)
        for number, layout in enumerate(layouts)
    )
    name = header.metadata.get("general.name")
    return SliceFiles(
        key=hashlib.sha256("\n".join(part.key for part in parts).encode()).hexdigest(),
        name=name if isinstance(name, str) and name else header.source,
        architecture=metadata.architecture,
        layers=layers,
        parts=parts,
    )


def _part_count(header: GgufHeader, layers: int) -> int:
    for count in _PART_COUNTS:
        if layers + _BEFORE_LAYERS <= count:
            return count
    raise ModelFileError(f"{header.source}: {layers} layers are more than suffice writes; ask for a shorter slice")


def _groups(header: GgufHeader, layers: int) -> dict[int, list[TensorInfo]]:
    groups: dict[int, list[TensorInfo]] = {}
    for tensor in header.tensors:
        match = _LAYER.match(tensor.name)
        layer = -1 if match is None else int(match[1])
        if layer >= layers:
            raise ModelFileError(f"{header.source}: tensor {tensor.name} is beyond the {layers} layers of the model")
        groups.setdefault(_BEFORE_LAYERS + layer, []).append(tensor)
    return groups


def _split_keys(number: int, count: int) -> dict[str, object]:
    return {"split.no": Typed(ValueKind.UINT16, number), "split.count": Typed(ValueKind.UINT16, count)}


def _first_metadata(header: GgufHeader, count: int) -> dict[str, object]:
    """The model's metadata with a vocabulary of ours; what only a tokenizer or a person needs is left out."""
    values: dict[str, object] = {}
    for key, value in header.metadata.items():
        if key.startswith(("tokenizer.", "split.")) or (key.startswith("general.") and key not in _GENERAL):
            continue
        if isinstance(value, LongArray | LongText):
            raise ModelFileError(f"{header.source}: metadata key {key!r} is too long to be copied into a slice")
        values[key] = value
    architecture = metadata_of(header).architecture
    values |= synthetic_vocabulary(_n_vocab(header), architecture)
    values |= _split_keys(0, count)
    values["split.tensors.count"] = Typed(ValueKind.INT32, len(header.tensors))
    return values


def _n_vocab(header: GgufHeader) -> int:
    dims: Sequence[int] = next((tensor.dims for tensor in header.tensors if tensor.name == _EMBEDDING), ())
    if len(dims) != _EMBEDDING_DIMS:
        raise ModelFileError(f"{header.source}: tensor {_EMBEDDING} is missing; a slice needs an embedding")
    return dims[1]


def _key(layout: GgufLayout) -> str:
    versions = f"suffice part {_FORMAT_VERSION} {CONTENTS_VERSION}\n".encode()
    return hashlib.sha256(versions + layout.header).hexdigest()
