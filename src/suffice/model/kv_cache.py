"""Bytes and FLOPs of attention: the cache of keys and values, and the state of recurrent layers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from suffice.errors import UsageError
from suffice.model.ggml_types import row_bytes

DEFAULT_KV_TYPE: Final = "f16"  # llama.cpp's default for both
_CELL_PADDING: Final = 256  # llama-kv-cache-iswa.cpp pads the windowed cache to it
_FLOPS_PER_MULTIPLY_ADD: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionLayer:
    """What one attention layer keeps and reads for each token of context."""

    k_elements: int  # numbers in one token's row of keys: KV heads x head length, or the latent of MLA
    v_elements: int  # the same for values; 0 where the values are a view of the keys (MLA)
    n_head: int
    k_head_length: int  # numbers that one head multiplies per token to score it
    v_head_length: int  # numbers that one head adds up per token
    window: int | None = None  # tokens that it can see; None: all
    stores: bool = True  # False: it reads the cache of an earlier layer (Gemma 3n, Gemma 4)

    def row_bytes(self, type_k: str, type_v: str) -> int:
        """Bytes of one token's keys and values.

        Raises:
            UsageError: ggml has no such format, or its blocks do not fit into the row.
        """
        try:
            return row_bytes(type_k, self.k_elements) + row_bytes(type_v, self.v_elements)
        except ValueError as error:
            raise UsageError(f"this model's cache cannot be {type_k} / {type_v}: {error}; choose f16 or q8_0") from None

    def visible(self, depth: int) -> int:
        """How many of ``depth`` tokens the layer sees."""
        return depth if self.window is None else min(depth, self.window)

    def visible_sum(self, n_tokens: int, start_depth: int) -> int:
        """Sum of what ``n_tokens`` tokens see that follow ``start_depth`` earlier ones, each itself included.

        The causal triangle, cut off at the window: sum of min(p, window) for p = start_depth + 1 ... start_depth + n_tokens.
        """
        end = start_depth + n_tokens
        return self._visible_up_to(end) - self._visible_up_to(start_depth)

    def _visible_up_to(self, depth: int) -> int:
        growing = self.visible(depth)
        return growing * (growing + 1) // 2 + (depth - growing) * growing

    @property
    def flops_per_visible_token(self) -> int:
        """FLOPs to score one token and to add its value: 4 x heads x head length when both lengths are equal."""
        return _FLOPS_PER_MULTIPLY_ADD * self.n_head * (self.k_head_length + self.v_head_length)


@dataclass(frozen=True, slots=True, kw_only=True)
class KvLayout:
    """All attention layers of a model, and the state of its recurrent ones.

    When ``unknown_reason`` is not None, the layout is not known and every method returns None.
    """

    layers: tuple[AttentionLayer, ...] = ()
    state_bytes_per_sequence: int = 0  # recurrent state, F32 in llama.cpp, whatever the context
    unknown_reason: str | None = None
    _kinds: tuple[tuple[AttentionLayer, int], ...] = field(
        init=False, repr=False, compare=False
    )  # layers that are alike, counted

    def __post_init__(self) -> None:
        object.__setattr__(self, "_kinds", tuple(Counter(self.layers).items()))

    def bytes_per_token(self, type_k: str, type_v: str) -> float | None:
        """Growth per token while no window is full yet: GQA 2·L·n_kv·d_head·b, MLA L·(kv_lora_rank + rope_dim)·b."""
        if self.unknown_reason is not None:
            return None
        return float(sum(count * layer.row_bytes(type_k, type_v) for layer, count in self._kinds if layer.stores))

    def bytes_per_token_beyond_windows(self, type_k: str, type_v: str) -> float | None:
        """Growth per token once all windows are full: the full layers only."""
        if self.unknown_reason is not None:
            return None
        return float(
            sum(
                count * layer.row_bytes(type_k, type_v)
                for layer, count in self._kinds
                if layer.stores and layer.window is None
            )
        )

    def cache_bytes(self, context: int, type_k: str, type_v: str, micro_batch: int) -> float | None:
        """Bytes that llama.cpp allocates for one sequence of ``context`` tokens, recurrent state included.

        A windowed layer has cells for its window and one micro-batch, rounded up to 256 (llama-kv-cache-iswa.cpp).
        """
        if self.unknown_reason is not None:
            return None
        cells = sum(
            count * layer.row_bytes(type_k, type_v) * _cells(context, layer.window, micro_batch)
            for layer, count in self._kinds
            if layer.stores
        )
        return float(self.state_bytes_per_sequence + cells)

    def read_bytes(self, depth: int, type_k: str, type_v: str) -> float | None:
        """Bytes that one decode step of one sequence reads at ``depth`` tokens of context, recurrent state included.

        Each layer reads what it sees, also a layer that uses another one's cache. MLA reads its latent once.
        """
        if self.unknown_reason is not None:
            return None
        attention = sum(count * layer.visible(depth) * layer.row_bytes(type_k, type_v) for layer, count in self._kinds)
        return float(attention + self.state_bytes_per_sequence)

    def flops(self, n_tokens: int, start_depth: int) -> float | None:
        """FLOPs of attention alone, weights not counted, for ``n_tokens`` tokens that follow ``start_depth`` earlier ones."""
        if self.unknown_reason is not None:
            return None
        return float(
            sum(
                count * layer.flops_per_visible_token * layer.visible_sum(n_tokens, start_depth)
                for layer, count in self._kinds
            )
        )


def _cells(context: int, window: int | None, micro_batch: int) -> int:
    if window is None:
        return context
    padded = -(-(window + micro_batch) // _CELL_PADDING) * _CELL_PADDING
    return min(context, padded)
