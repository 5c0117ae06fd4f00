"""Which weights a decode step reads: all, the touched experts, one row, or none."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, NamedTuple

from suffice.errors import ModelFileError
from suffice.model.ggml_types import type_by_name

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader, TensorInfo
    from suffice.model.metadata import Metadata

TOKEN_EMBEDDING: Final = "token_embd.weight"  # noqa: S105  # a tensor's name
OUTPUT_HEAD: Final = "output.weight"

_BLOCK: Final = re.compile(r"blk\.(\d{1,6})\.")
_EXPERT: Final = re.compile(r"_(ch)?exps\.")
_OLD_EXPERT: Final = re.compile(r"ffn_(gate|up|down)\.\d+\.")  # Mixtral files of early 2024: one tensor per expert
_OWN_KV: Final = re.compile(r"blk\.\d+\.attn_[kv](_norm)?\.")
_LOOKED_UP: Final = frozenset({"position_embd.weight", "token_types.weight", "per_layer_token_embd.weight"})
_OTHER_TOWERS: Final = ("v.", "mm.", "a.", "enc.")  # vision, projector, audio, encoder


class WeightUse(StrEnum):
    """How a decode step uses a weight."""

    STREAMED = "streamed"  # read for each step
    HEAD = "head"  # read for each step that needs logits: the output matrix
    EXPERT = "expert"  # read where the router sends a token
    LOOKUP = "lookup"  # one row per token
    IDLE = "idle"  # not read in plain decoding: multi-token prediction, vision, unused matrices


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightGroup:
    """Weights of one format and one use.

    ``parts`` is the number of experts (EXPERT) or rows (LOOKUP), ``parts_used`` how many of them one token needs.
    """

    use: WeightUse
    type_name: str
    elements: int
    n_bytes: int
    matmul_elements: int  # those that are multiplied with the token's vector: no norms, no biases
    parts: int = 1
    parts_used: int = 1

    def __post_init__(self) -> None:
        if not 0 <= self.parts_used <= self.parts or self.parts < 1:
            raise ValueError(f"{self.parts_used} of {self.parts} parts cannot be used")

    def share_read(self, batch: int) -> float:
        """Share of the group that one step reads for ``batch`` tokens, in expectation.

        Experts: 1 - (1 - k/E)^B, when each token picks k of E independently and evenly.
        """
        if self.use is WeightUse.IDLE:
            return 0.0
        if self.use is WeightUse.LOOKUP:
            return min(batch * self.parts_used, self.parts) / self.parts
        if self.use is WeightUse.EXPERT:
            return float(1 - (1 - self.parts_used / self.parts) ** batch) if batch > 1 else self.parts_used / self.parts
        return 1.0


class _Use(NamedTuple):
    use: WeightUse
    parts: int = 1
    parts_used: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Context:
    metadata: Metadata
    n_layer: int
    layers_with_kv: int
    tied: bool
    experts_used: tuple[int, ...]


def weight_groups(header: GgufHeader, metadata: Metadata, n_layer: int, layers_with_kv: int) -> tuple[WeightGroup, ...]:
    """The weights of a model, by use and format, in the order of the file.

    Raises:
        ModelFileError: there are experts, and the file does not say how many a token uses, or says nonsense.
    """
    context = _Context(
        metadata=metadata,
        n_layer=n_layer,
        layers_with_kv=layers_with_kv,
        tied=all(tensor.name != OUTPUT_HEAD for tensor in header.tensors),
        experts_used=metadata.per_layer("expert_used_count", n_layer, default=(0,) * n_layer),
    )
    sums: dict[tuple[_Use, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for tensor in header.tensors:
        entry = sums[_use_of(tensor, context), tensor.type_name]
        entry[0] += tensor.elements
        entry[1] += tensor.n_bytes
        entry[2] += tensor.elements if _is_matrix(tensor) else 0
    return tuple(
        WeightGroup(
            use=use.use,
            type_name=type_by_name(type_name).name,
            elements=elements,
            n_bytes=n_bytes,
            matmul_elements=matmul_elements,
            parts=use.parts,
            parts_used=use.parts_used,
        )
        for (use, type_name), (elements, n_bytes, matmul_elements) in sums.items()
    )


def _is_matrix(tensor: TensorInfo) -> bool:
    return len(tensor.dims) > 1 and not tensor.name.endswith(".bias")


def _use_of(tensor: TensorInfo, context: _Context) -> _Use:
    name = tensor.name
    block = _BLOCK.match(name)
    layer = None if block is None else int(block[1])
    if _is_idle(name, layer, context):
        return _Use(WeightUse.IDLE)
    if name == OUTPUT_HEAD or (name == TOKEN_EMBEDDING and context.tied):
        return _Use(WeightUse.HEAD)
    if name == TOKEN_EMBEDDING or name in _LOOKED_UP:
        return _Use(WeightUse.LOOKUP, parts=tensor.dims[-1] if len(tensor.dims) > 1 else 1)
    if layer is not None and _EXPERT.search(name):
        return _expert_use(tensor.dims[-1], layer, context)
    if layer is not None and _OLD_EXPERT.search(name):
        return _expert_use(context.metadata.required_count("expert_count"), layer, context)
    return _Use(WeightUse.STREAMED)


def _is_idle(name: str, layer: int | None, context: _Context) -> bool:
    if name.startswith(_OTHER_TOWERS) or "nextn." in name:
        return True
    if layer is None:
        return False
    return layer >= context.n_layer or (layer >= context.layers_with_kv and _OWN_KV.match(name) is not None)


def _expert_use(n_experts: int, layer: int, context: _Context) -> _Use:
    used = context.experts_used[layer]
    if used < 1 or n_experts < 1:
        raise ModelFileError(
            f"{context.metadata.source}: layer {layer} has {n_experts} experts, but the file does not say how many of them a token uses "
            f"({context.metadata.architecture}.expert_used_count); get a complete GGUF file of the model"
        )
    return _Use(WeightUse.EXPERT, parts=n_experts, parts_used=min(used, n_experts))
