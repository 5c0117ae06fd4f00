"""What a training computes: operations per token, from the shape of the model and the method.

The convention is that of model FLOP utilisation (PaLM, arXiv:2204.02311, appendix B): 6 N per token, with attention over the whole sequence,
12 L H Q T. Published utilisations count so, and the time that follows from them is right only for operations that are counted alike. N counts
the matrices that a token is multiplied with: of experts those that it uses, the output head, and no embedding that is looked up.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.training import LoraTargets
from suffice.model.weights import WeightUse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.model.gguf_header import GgufHeader, TensorInfo
    from suffice.model.shape import ModelShape
    from suffice.model.training import TrainingDemand

_FLOPS_PER_MULTIPLY_ADD: Final = 2
# Forward, and backward in two parts that each take as long: through the activations, and into the weights.
_PASSES_TRAINED: Final = 3
_PASSES_FROZEN: Final = 2  # no gradient of the weights themselves
_LAYER: Final = re.compile(r"blk\.(\d+)\.")
_EXPERT: Final = re.compile(r"_(ch)?exps\.")
_ROUTER: Final = re.compile(r"ffn_gate_inp")
_ATTENTION: Final = re.compile(r"\.(attn_|ssm_|time_mix_|shortconv)")
_QUERY_VALUE: Final = re.compile(r"\.attn_(q|v|qkv)\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """One repeating layer: its weights, and the numbers that it keeps for each token until the backward pass."""

    elements: int
    kept: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingShape:
    """A model as a training sees it.

    Attributes:
        shape: of the model.
        layers: each one that runs.
        matrices: numbers in the matrices of the layers, which QLoRA stores in 4 bits.
        others: all further numbers: embedding, head, norms, biases.
        adapter_sides: inputs and outputs of the matrices that may have adapters, by choice: times the rank, the adapters' parameters.
    """

    shape: ModelShape
    layers: tuple[LayerSizes, ...]
    matrices: int
    others: int
    adapter_sides: dict[LoraTargets, int]

    @property
    def parameters(self) -> int:
        """All that are trained in a full training."""
        return self.matrices + self.others

    def adapter_parameters(self, demand: TrainingDemand) -> int:
        """Of the method's adapters; 0 where it has none: r (inputs + outputs) of each matrix (LoRA, arXiv:2106.09685, section 4.1)."""
        if not demand.method.has_adapters or demand.lora_rank is None:
            return 0
        return demand.lora_rank * self.adapter_sides[demand.lora_targets]


def training_shape(header: GgufHeader, shape: ModelShape) -> TrainingShape:
    """The sizes of a model that its tensors tell."""
    used = _experts_used(shape)
    by_layer: dict[int, list[TensorInfo]] = {layer: [] for layer in range(shape.n_layer)}
    for tensor in header.tensors:
        match = _LAYER.match(tensor.name)
        if match is not None and int(match[1]) in by_layer:
            by_layer[int(match[1])].append(tensor)
    in_layers = [tensor for tensors in by_layer.values() for tensor in tensors]
    matrices = sum(tensor.elements for tensor in in_layers if _is_matrix(tensor))
    idle = sum(group.elements for group in shape.weights if group.use is WeightUse.IDLE)
    return TrainingShape(
        shape=shape,
        layers=tuple(_layer_sizes(tensors, shape.n_embd, used) for tensors in by_layer.values()),
        matrices=matrices,
        others=max(0, shape.parameters - idle - matrices),
        adapter_sides={targets: _sides(in_layers, targets) for targets in LoraTargets},
    )


def _is_matrix(tensor: TensorInfo) -> bool:
    return len(tensor.dims) > 1 and tensor.name.endswith(".weight")


def _experts_used(shape: ModelShape) -> int:
    return max((group.parts_used for group in shape.weights if group.use is WeightUse.EXPERT), default=1)


def _layer_sizes(tensors: list[TensorInfo], n_embd: int, experts_used: int) -> LayerSizes:
    return LayerSizes(
        elements=sum(tensor.elements for tensor in tensors), kept=_kept_per_token(tensors, n_embd, experts_used)
    )


def _kept_per_token(tensors: list[TensorInfo], n_embd: int, experts_used: int) -> float:
    """Numbers that one layer keeps for each token, with attention that keeps no matrix of scores (flash attention).

    What a product gives is kept, and what goes into it unless it is kept already: norms' results (inputs of the first products), attention's
    result (of its output product) and the activation (of the last one); a gate keeps its own result as well. For a layer of GPT-3's kind, with
    4 h in its feed-forward part, that is 16 h or 32 h bytes, which is the 34 h of Korthikanti et al. (arXiv:2205.05198, section 4.1) without
    the two masks of dropout.
    """
    kept = 0.0
    for tensor in tensors:
        if not _is_matrix(tensor):
            if len(tensor.dims) == 1 and tensor.dims[0] == n_embd and tensor.name.endswith("norm.weight"):
                kept += n_embd
            continue
        times = experts_used if _EXPERT.search(tensor.name) else 1
        kept += times * tensor.dims[1]
        if ".attn_output." in tensor.name:
            kept += tensor.dims[0]
        elif ".ffn_down" in tensor.name:
            kept += times * tensor.dims[0] * (2 if _is_gated(tensors, tensor.dims[0]) else 1)
    return kept


def _is_gated(tensors: list[TensorInfo], width: int) -> bool:
    """Whether a gate of its own, or one in the same matrix (twice as many outputs as the last product has inputs), goes beside the product."""
    return any(
        (".ffn_gate" in other.name and not _ROUTER.search(other.name))
        or (".ffn_up" in other.name and _is_matrix(other) and other.dims[1] == 2 * width)
        for other in tensors
    )


def _sides(tensors: Iterable[TensorInfo], targets: LoraTargets) -> int:
    return sum(
        tensor.dims[0] + tensor.dims[1]
        for tensor in tensors
        if _is_matrix(tensor) and not _EXPERT.search(tensor.name) and _is_target(tensor.name, targets)
    )


def _is_target(name: str, targets: LoraTargets) -> bool:
    if targets is LoraTargets.QUERY_VALUE:
        return _QUERY_VALUE.search(name) is not None
    if targets is LoraTargets.ATTENTION:
        return _ATTENTION.search(name) is not None
    return _ROUTER.search(name) is None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFlop:
    """Operations for one token: ``model`` as utilisations count them, ``recomputed`` on top where activations are computed again."""

    model: float
    recomputed: float

    def per_token(self, *, checkpointing: bool) -> float:
        """Those that the device does."""
        return self.model + (self.recomputed if checkpointing else 0.0)


def training_flop(training: TrainingShape, demand: TrainingDemand) -> TrainingFlop | None:
    """Operations per token of a training; None where the attention of the model is not known.

    Full: 6 N + 12 L H Q T. Adapters: 4 N for the frozen model, 6 for each parameter of an adapter, and attention as before: its products
    have no frozen weights. Checkpointing computes the layers once more (Chen et al., arXiv:1604.06174).
    """
    attention = _attention_forward(training.shape, demand.sequence_tokens)
    if attention is None:
        return None
    layers, head = _matmul(training.shape)
    adapters = _FLOPS_PER_MULTIPLY_ADD * training.adapter_parameters(demand)
    passes = _PASSES_FROZEN if demand.method.has_adapters else _PASSES_TRAINED
    return TrainingFlop(
        model=passes * (layers + head) + _PASSES_TRAINED * (attention + adapters),
        recomputed=layers + attention + adapters,
    )


def _attention_forward(shape: ModelShape, sequence_tokens: int) -> float | None:
    """Of one token, over the whole sequence or window: half of it is masked out, and still counted by those who publish utilisations."""
    if not shape.kv_known:
        return None
    return float(sum(layer.flops_per_visible_token * layer.visible(sequence_tokens) for layer in shape.kv.layers))


def _matmul(shape: ModelShape) -> tuple[float, float]:
    """Forward operations of one token in the matrices of the layers, and in the head."""
    layers = head = 0.0
    for group in shape.weights:
        flop = _FLOPS_PER_MULTIPLY_ADD * group.matmul_elements * group.share_read(1)
        if group.use is WeightUse.HEAD:
            head += flop
        elif group.use is not WeightUse.LOOKUP:
            layers += flop
    return layers, head
