"""Ceilings of a toy model, worked by hand from its tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from helpers.gguf_writer import ToyLlama
from suffice import decode_ceiling
from suffice.loaders.model_file import open_model_file
from suffice.model.ceiling import Workload, ceiling_of_bytes, ceiling_of_model
from suffice.model.roofline import Bound, Roofs

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.shape import ModelShape

# Per layer, f16: q and output 64x64, k and v 64x32, gate, up and down 64x128, and two f32 norms of 64.
LAYER_BYTES = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) + 4 * 2 * 64
HEAD_BYTES = 2 * 64 * 256
FINAL_NORM_BYTES = 4 * 64
EMBEDDING_ROW_BYTES = 2 * 64  # a look-up of one row, not the table
STREAMED_BYTES = 2 * LAYER_BYTES + HEAD_BYTES + FINAL_NORM_BYTES + EMBEDDING_ROW_BYTES
# 2 layers x (k and v) x 2 heads x 16 x 2 bytes
KV_BYTES_PER_TOKEN = 2 * 2 * 2 * 16 * 2
ROOFS = Roofs(bandwidth_bytes_per_s=1e9)


@pytest.fixture
def shape(tmp_path: Path) -> ModelShape:
    """The toy model's shape, through a real file."""
    return open_model_file(ToyLlama().write(tmp_path / "toy.gguf")).shape


def test_bytes_alone_are_the_articles_division() -> None:
    """40 GB/s over 3.5 GB: the article's number, and nothing is claimed about prefill or the cache."""
    ceiling = ceiling_of_bytes(3.5e9, Roofs(bandwidth_bytes_per_s=40e9))

    assert ceiling.decode_tokens_per_second == pytest.approx(decode_ceiling(40, 3.5))
    assert ceiling.bound is Bound.MEMORY
    assert (ceiling.prefill_tokens_per_second, ceiling.ttft_s, ceiling.kv_bytes_per_token) == (None, None, None)


def test_decode_streams_layers_and_head_but_no_embedding_table(shape: ModelShape) -> None:
    """At depth 0: all layers, the final norm, the head and one row of the embedding, once per token."""
    ceiling = ceiling_of_model(shape, ROOFS, Workload())

    assert ceiling.streamed_bytes == STREAMED_BYTES
    assert ceiling.kv_bytes_per_token == KV_BYTES_PER_TOKEN
    assert ceiling.decode_tokens_per_second == pytest.approx(1e9 / STREAMED_BYTES)


def test_depth_adds_the_cache(shape: ModelShape) -> None:
    """At depth 1000 each step reads 1000 tokens of keys and values as well."""
    ceiling = ceiling_of_model(shape, ROOFS, Workload(depth=1000))

    assert ceiling.decode_tokens_per_second == pytest.approx(1e9 / (STREAMED_BYTES + 1000 * KV_BYTES_PER_TOKEN))


def test_a_batch_shares_the_weights(shape: ModelShape) -> None:
    """Eight sequences at depth 1000: eight tokens per pass over the weights, eight caches and eight embedding rows."""
    ceiling = ceiling_of_model(shape, ROOFS, Workload(depth=1000, batch=8))

    assert ceiling.decode_tokens_per_second == pytest.approx(
        8e9 / (STREAMED_BYTES + 7 * EMBEDDING_ROW_BYTES + 8000 * KV_BYTES_PER_TOKEN)
    )


def test_prefill_is_bound_by_compute_when_the_peak_is_low(shape: ModelShape) -> None:
    """With a peak of 1 MFLOP/s the operations of the prompt bind; the rate is their share of it."""
    flops = shape.prefill_flops(512)
    assert flops is not None

    ceiling = ceiling_of_model(shape, Roofs(bandwidth_bytes_per_s=1e9, peak_flop_per_s=1e6), Workload())

    assert ceiling.prefill_bound is Bound.COMPUTE
    assert ceiling.prefill_tokens_per_second == pytest.approx(512 * 1e6 / flops)


def test_first_token_takes_prefill_and_a_step(shape: ModelShape) -> None:
    """With memory alone: one pass for 512 prompt tokens and one for the first output token."""
    ceiling = ceiling_of_model(shape, ROOFS, Workload(prompt_tokens=512))

    assert ceiling.prefill_tokens_per_second == pytest.approx(512 * 1e9 / STREAMED_BYTES)
    assert ceiling.ttft_s == pytest.approx(2 * STREAMED_BYTES / 1e9)
