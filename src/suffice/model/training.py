"""What a training has to do, as a team wrote it down: tokens, method, and the time and money there is for it.

The arithmetic is in :mod:`suffice.model.training_work` (operations) and :mod:`suffice.model.training_memory` (bytes).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from suffice.model.demand import DEFAULT_MARGIN


class TrainingKind(StrEnum):
    """Where a training starts."""

    FINETUNE = "finetune"  # from weights that exist
    PRETRAIN = "pretrain"  # from nothing


class Method(StrEnum):
    """Which weights are trained."""

    FULL = "full"  # all of them
    LORA = "lora"  # two thin matrices beside each frozen one (Hu et al., arXiv:2106.09685)
    QLORA = "qlora"  # the same, with the frozen ones in 4 bits (Dettmers et al., arXiv:2305.14314)

    @property
    def has_adapters(self) -> bool:
        """Whether the model itself is frozen."""
        return self is not Method.FULL


class Optimizer(StrEnum):
    """What turns gradients into steps, and keeps states for it."""

    ADAMW = "adamw"  # two states of 4 bytes
    ADAMW_8BIT = "adamw_8bit"  # two states of a byte, with a scale for each block (Dettmers et al., arXiv:2110.02861)
    SGD = "sgd"  # without momentum: no state


class Precision(StrEnum):
    """In which numbers the model is trained."""

    BF16 = "bf16"  # mixed: computed in bf16, with a copy of the weights in fp32 (Micikevicius et al., arXiv:1710.03740)
    FP16 = "fp16"  # the same in fp16
    BF16_PURE = "bf16_pure"  # weights, gradients and states in bf16, without a copy
    FP32 = "fp32"


class LoraTargets(StrEnum):
    """Which matrices have adapters."""

    ALL = "all"  # of attention and feed-forward part, as in QLoRA; routed experts and their router have none
    ATTENTION = "attention"  # of attention alone
    QUERY_VALUE = "query_value"  # of queries and values alone, as in the paper of LoRA


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDemand:
    """A training, written down. None always means: not stated.

    Attributes:
        kind: where it starts.
        tokens: that are trained on in all: those of the data, times the epochs.
        sequence_tokens: length of one sequence; shorter examples are packed into it.
        method: which weights are trained.
        batch_tokens: of one step of the optimizer, over all devices; it bounds how many devices can share a step.
        sequences_at_once: that one device holds at a time; the rest of its share of a step comes after them.
        lora_rank: width of the adapters.
        lora_targets: which matrices have them.
        optimizer: see there.
        precision: see there.
        gradient_checkpointing: whether activations are computed again instead of kept; None: where they do not fit otherwise.
        window_s: time within which it must be done.
        margin: factor of time that is kept free.
        budget: money for one training in ``currency``.
        budget_per_month: money per month, for all trainings of a month.
        runs_per_month: how many there are; None: one, where it matters.
        currency: three-letter code.
        model: the model that is trained, as the user wrote it.
        tokens_per_example: of the data, where it is stated by examples.
    """

    kind: TrainingKind
    tokens: float
    sequence_tokens: int
    method: Method = Method.FULL
    batch_tokens: int | None = None
    sequences_at_once: int = 1
    lora_rank: int | None = None
    lora_targets: LoraTargets = LoraTargets.ALL
    optimizer: Optimizer = Optimizer.ADAMW
    precision: Precision = Precision.BF16
    gradient_checkpointing: bool | None = None
    window_s: float | None = None
    margin: float = DEFAULT_MARGIN
    budget: float | None = None
    budget_per_month: float | None = None
    runs_per_month: float | None = None
    currency: str | None = None
    model: str | None = None
    tokens_per_example: float | None = None

    def __post_init__(self) -> None:
        if self.tokens <= 0 or self.sequence_tokens < 1 or self.sequences_at_once < 1:
            raise ValueError("a training needs tokens, in sequences of at least one token")
        if self.method.has_adapters and not self.lora_rank:
            raise ValueError(f"{self.method} needs the rank of its adapters")

    @property
    def tokens_at_once(self) -> int:
        """That one device holds activations of."""
        return self.sequences_at_once * self.sequence_tokens

    @property
    def most_devices(self) -> int | None:
        """That can share a step: each needs a sequence of its own; None: the batch is not stated."""
        if self.batch_tokens is None:
            return None
        return max(1, self.batch_tokens // self.tokens_at_once)

    @property
    def budget_of_one(self) -> float | None:
        """Money for one training: the stated one, or a month's over its trainings, whichever is less."""
        stated = [] if self.budget is None else [self.budget]
        if self.budget_per_month is not None:
            stated.append(self.budget_per_month / (self.runs_per_month or 1))
        return min(stated, default=None)
