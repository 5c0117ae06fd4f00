"""Toy models of 32-bit weights that a real engine can compute: their metadata and tensors, without a tokenizer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.gguf_writer import ToyLlama, ToyTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    Toy = tuple[dict[str, object], Sequence[ToyTensor]]


def dense(n_vocab: int) -> Toy:
    """A plain model."""
    shape = ToyLlama(n_vocab=n_vocab, type_name="f32")
    extra = {"llama.rope.dimension_count": 16, "llama.attention.layer_norm_rms_epsilon": 1e-5}
    return {**shape.metadata(), **extra}, shape.tensors()


def windowed(n_vocab: int) -> Toy:
    """A model of which every second layer sees the last 32 tokens only."""
    shape = ToyLlama(architecture="gemma2", n_vocab=n_vocab, type_name="f32", tied=True)
    metadata = {
        **shape.metadata(),
        "gemma2.attention.key_length": 16,
        "gemma2.attention.value_length": 16,
        "gemma2.attention.sliding_window": 32,
        "gemma2.attention.layer_norm_rms_epsilon": 1e-5,
    }
    norms = [
        ToyTensor(f"blk.{i}.{name}.weight", (64,), "f32")
        for i in range(2)
        for name in ("post_attention_norm", "post_ffw_norm")
    ]
    return metadata, [*shape.tensors(), *norms]


def recurrent(n_vocab: int) -> Toy:
    """A model that keeps one state for all tokens before."""
    width, inner, state, rank = 64, 128, 16, 4
    metadata = {
        "general.architecture": "mamba",
        "mamba.context_length": 4096,
        "mamba.embedding_length": width,
        "mamba.block_count": 2,
        "mamba.ssm.conv_kernel": 4,
        "mamba.ssm.inner_size": inner,
        "mamba.ssm.state_size": state,
        "mamba.ssm.time_step_rank": rank,
        "mamba.attention.layer_norm_rms_epsilon": 1e-5,
    }
    sizes = {
        "attn_norm.weight": (width,),
        "ssm_in.weight": (width, 2 * inner),
        "ssm_conv1d.weight": (4, inner),
        "ssm_conv1d.bias": (inner,),
        "ssm_x.weight": (inner, rank + 2 * state),
        "ssm_dt.weight": (rank, inner),
        "ssm_dt.bias": (inner,),
        "ssm_a": (state, inner),
        "ssm_d": (inner,),
        "ssm_out.weight": (inner, width),
    }
    tensors = [
        ToyTensor("token_embd.weight", (width, n_vocab), "f32"),
        ToyTensor("output_norm.weight", (width,), "f32"),
        *(ToyTensor(f"blk.{i}.{name}", dims, "f32") for i in range(2) for name, dims in sizes.items()),
    ]
    return metadata, tensors
