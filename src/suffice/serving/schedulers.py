"""How a server shares its engine among requests: llama.cpp's slots and a vLLM-like block scheduler, as settings."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

_CHECKPOINT_TOKENS: Final = 4  # llama.cpp keeps the state so many tokens before the end of a prompt


class KvLayout(StrEnum):
    """How llama.cpp keeps the caches of its slots."""

    UNIFIED = "unified"  # one pool for all slots (--kv-unified, and the default when the number of slots is not given)
    PER_SLOT = "per slot"  # each slot has its share (the default with an explicit --parallel)


class PromptEnd(StrEnum):
    """How llama.cpp reads the end of a prompt."""

    WHOLE = "whole"  # plain attention: in one go
    CHECKPOINTS = "checkpoints"  # sliding windows and recurrent layers: steps end 4 + n_ubatch and 4 tokens before it


class BlockPolicy(StrEnum):
    """When a vLLM-like server takes cache blocks."""

    GROW = "grow"  # as tokens come; when none is left, the youngest request is put back and computed anew
    RESERVE = "reserve"  # for the whole request when it is admitted; nothing is ever put back


@dataclass(frozen=True, slots=True, kw_only=True)
class LlamaCppScheduler:
    """llama-server: a fixed number of slots; each step holds one token of every generating slot, then prompts.

    Attributes:
        slots: ``--parallel``.
        context_tokens: ``--ctx-size``, of all slots together.
        batch_tokens: ``--batch-size``: most tokens of one step.
        micro_batch_tokens: ``--ubatch-size``: most tokens of one pass over the weights.
        layout: who shares the cache.
        prompt_end: whether the engine stops before the end of a prompt.
    """

    slots: int
    context_tokens: int
    batch_tokens: int = 2048
    micro_batch_tokens: int = 512
    layout: KvLayout = KvLayout.PER_SLOT
    prompt_end: PromptEnd = PromptEnd.WHOLE

    def __post_init__(self) -> None:
        if min(self.slots, self.batch_tokens, self.micro_batch_tokens) < 1:
            raise ValueError("slots, batch tokens and micro-batch tokens are at least 1")
        if self.slots > min(self.micro_batch_tokens, self.batch_tokens):
            raise ValueError(
                f"{self.slots} slots need a batch and a micro-batch of as many tokens, "
                f"not {self.batch_tokens} and {self.micro_batch_tokens}"
            )
        if self.request_tokens < 2:  # noqa: PLR2004  # one token of a prompt and one of an answer
            raise ValueError(f"{self.context_tokens} tokens of context are too few for {self.slots} slots")

    @property
    def pass_tokens(self) -> int:
        """Most tokens of one pass."""
        return min(self.micro_batch_tokens, self.batch_tokens)

    @property
    def kept_tokens(self) -> int:
        """So many tokens at most before the end of a prompt steps no longer fill themselves with it."""
        return 1 if self.prompt_end is PromptEnd.WHOLE else _CHECKPOINT_TOKENS + self.pass_tokens

    def chunk_tokens(self, left: int, room: int) -> int:
        """What a step reads of a prompt of which ``left`` tokens are not read yet, where ``room`` of them fit into it."""
        if self.prompt_end is PromptEnd.CHECKPOINTS:
            for before_end in (_CHECKPOINT_TOKENS + self.pass_tokens, _CHECKPOINT_TOKENS):
                if left > before_end:
                    return min(left - before_end, room)
        return min(left, room)

    @property
    def capacity_tokens(self) -> int:
        """Tokens that the cache holds at most."""
        return self.context_tokens

    @property
    def most_requests(self) -> int:
        """Requests that run at the same time at most."""
        return self.slots

    @property
    def request_tokens(self) -> int:
        """Prompt and answer of one request fit into this."""
        return self.context_tokens if self.layout is KvLayout.UNIFIED else self.context_tokens // self.slots


@dataclass(frozen=True, slots=True, kw_only=True)
class VllmScheduler:
    """Chunked prefill under a budget of tokens a step, and a pool of cache blocks (vLLM's V1 scheduler, first come first served).

    Attributes:
        max_sequences: ``--max-num-seqs``.
        batched_tokens: ``--max-num-batched-tokens``.
        blocks: cache blocks of the pool.
        block_tokens: tokens of a block.
        context_tokens: ``--max-model-len``.
        policy: when blocks are taken.
    """

    max_sequences: int
    context_tokens: int
    blocks: int
    batched_tokens: int = 2048
    block_tokens: int = 16
    policy: BlockPolicy = BlockPolicy.GROW

    def __post_init__(self) -> None:
        if min(self.max_sequences, self.batched_tokens, self.blocks, self.block_tokens) < 1:
            raise ValueError("sequences, batched tokens, blocks and tokens of a block are at least 1")
        if self.max_sequences > self.batched_tokens:
            raise ValueError(
                f"{self.max_sequences} sequences need a budget of as many tokens a step, not {self.batched_tokens}"
            )
        if self.context_tokens < 2:  # noqa: PLR2004  # one token of a prompt and one of an answer
            raise ValueError("a context holds at least 2 tokens")
        if self.blocks * self.block_tokens < self.context_tokens:
            raise ValueError(
                f"{self.blocks} blocks of {self.block_tokens} tokens do not hold one request of {self.context_tokens}; "
                "give more blocks or a shorter context"
            )

    @property
    def capacity_tokens(self) -> int:
        """Tokens that the cache holds at most."""
        return self.blocks * self.block_tokens

    @property
    def most_requests(self) -> int:
        """Requests that run at the same time at most."""
        return self.max_sequences

    @property
    def request_tokens(self) -> int:
        """Prompt and answer of one request fit into this."""
        return self.context_tokens


Scheduler = LlamaCppScheduler | VllmScheduler
