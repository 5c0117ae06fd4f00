"""What a training holds in the memory of its devices: weights, gradients, states of the optimizer, activations.

Model states are counted as ZeRO does (Rajbhandari et al., arXiv:1910.02054, section 3.1: 16 bytes a parameter for mixed precision with Adam),
activations as Korthikanti et al. (arXiv:2205.05198). Ends of a range are what frameworks make of it: the low one with fused kernels that keep
neither logits nor copies, the high one without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.model.training import Method, Optimizer, Precision
from suffice.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from suffice.model.training import TrainingDemand
    from suffice.model.training_work import TrainingShape

# QLoRA, arXiv:2305.14314, section 3: 4 bits, 8 bits for each block of 64, and 32 bits for each 256 of those: 4.127 bits a parameter.
NF4_BITS: Final = 4 + 8 / 64 + 32 / (64 * 256)
_WIDE_BYTES: Final = 4  # fp32
_NARROW_BYTES: Final = 2  # bf16 and fp16
_STATES: Final = 2  # of Adam: the mean of the gradients, and of their squares
_BYTE_STATE_BYTES: Final = 1 + 4 / 256  # a byte, and a scale in fp32 for each block of 256 (bitsandbytes)
# Logits in 16 bits, a copy of them in fp32 for the loss, and its gradient in fp32: what plain frameworks keep for each token.
_LOGIT_BYTES: Final = 2 + 4 + 4
_GATHERED_COPIES: Final = 2  # layers that sharded training holds whole at a time: the one that runs and the next


@dataclass(frozen=True, slots=True, kw_only=True)
class Bytes:
    """A range of bytes."""

    low: float
    high: float

    def __add__(self, other: Bytes) -> Bytes:
        """Ends are added."""
        return Bytes(low=self.low + other.low, high=self.high + other.high)

    def over(self, parts: int) -> Bytes:
        """An even part of it."""
        return Bytes(low=self.low / parts, high=self.high / parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMemory:
    """Of one device, in bytes. ``states`` are sharded over the devices; activations are of its own sequences."""

    states: Bytes  # weights, gradients, optimizer
    gathered: Bytes  # layers that are put together for a moment; none on a single device
    activations: Bytes

    @property
    def total(self) -> Bytes:
        """All of it."""
        return self.states + self.gathered + self.activations


def training_memory(
    training: TrainingShape, demand: TrainingDemand, *, checkpointing: bool, devices: int = 1
) -> TrainingMemory:
    """What each of ``devices`` holds.

    Several devices share the model states evenly (ZeRO stage 3, PyTorch's FSDP), and each computes on sequences of its own.
    """
    states = model_state_bytes(training, demand)
    return TrainingMemory(
        states=states.over(devices),
        gathered=_gathered(training, demand) if devices > 1 else Bytes(low=0.0, high=0.0),
        activations=activation_bytes(training, demand, checkpointing=checkpointing),
    )


def _gathered(training: TrainingShape, demand: TrainingDemand) -> Bytes:
    """What lies whole on each device for a moment.

    The low end is two layers. At the high one embedding and head stay together from the forward to the backward pass, as in FSDP's outermost
    unit, and a full training has the gradients of one layer until they are shared out.
    """
    number, layer = _compute_bytes(demand.precision), _largest_layer(training)
    low = float(_GATHERED_COPIES * number * layer)
    gradients = 0 if demand.method.has_adapters else number * layer
    return Bytes(low=low, high=low + number * training.others + gradients)


def _largest_layer(training: TrainingShape) -> int:
    return max((layer.elements for layer in training.layers), default=0)


def _compute_bytes(precision: Precision) -> int:
    return _WIDE_BYTES if precision is Precision.FP32 else _NARROW_BYTES


def trained_bytes_per_parameter(precision: Precision, optimizer: Optimizer) -> float:
    """Weights, gradients, the copy in fp32 and the optimizer's states: 16 for mixed precision with AdamW."""
    number = _compute_bytes(precision)
    mixed = precision in (Precision.BF16, Precision.FP16)
    state = {
        Optimizer.ADAMW: float(_STATES * (number if precision is Precision.BF16_PURE else _WIDE_BYTES)),
        Optimizer.ADAMW_8BIT: _STATES * _BYTE_STATE_BYTES,
        Optimizer.SGD: 0.0,
    }[optimizer]
    return 2 * number + (_WIDE_BYTES if mixed else 0) + state


def model_state_bytes(training: TrainingShape, demand: TrainingDemand) -> Bytes:
    """Of the whole model, whatever the devices.

    Adapters are small, and frameworks keep them in 16 bits without a copy (the low end) or in fp32 (the high one).
    """
    if not demand.method.has_adapters:
        total = training.parameters * trained_bytes_per_parameter(demand.precision, demand.optimizer)
        return Bytes(low=total, high=total)
    adapters = training.adapter_parameters(demand)
    plain = trained_bytes_per_parameter(Precision.FP32, demand.optimizer)
    low = plain - 2 * (_WIDE_BYTES - _NARROW_BYTES)
    frozen = _frozen_bytes(training, demand)
    return Bytes(low=frozen + adapters * low, high=frozen + adapters * plain)


def _frozen_bytes(training: TrainingShape, demand: TrainingDemand) -> float:
    number = _compute_bytes(demand.precision)
    if demand.method is Method.QLORA:
        return training.matrices * NF4_BITS / BITS_PER_BYTE + training.others * number
    return float(training.parameters * number)


def activation_bytes(training: TrainingShape, demand: TrainingDemand, *, checkpointing: bool) -> Bytes:
    """Of the sequences that one device holds at a time.

    Without checkpointing every layer keeps what its backward pass needs. With it each keeps its input alone, 2 h bytes a token, and one layer
    at a time is computed again (Korthikanti et al., table 2). Logits are kept at the high end.
    """
    number, tokens = _compute_bytes(demand.precision), demand.tokens_at_once
    kept = [layer.kept for layer in training.layers]
    per_token = sum(kept) if not checkpointing else len(kept) * training.shape.n_embd + max(kept, default=0.0)
    layers = float(number * tokens * per_token)
    logits = float(_LOGIT_BYTES * tokens * (training.shape.n_vocab or 0))
    return Bytes(low=layers, high=layers + logits)
