"""Write a GGUF file of random Q4_0 weights in the shape of a Llama-like model of 1.1 billion parameters (620 MB).

Its text would be noise; its speed is that of a real model of this shape. Usage: python benchmarks/make_model.py FILE
"""

from __future__ import annotations

import sys
from typing import Final

import gguf
import numpy as np

LAYERS: Final = 16
WIDTH: Final = 2048
HEADS: Final = 32
KV_HEADS: Final = 8
FEED_FORWARD: Final = 8192
VOCABULARY: Final = 32000
BLOCK_ELEMENTS: Final = 32  # of Q4_0: 16 bytes of nibbles and a half-precision scale


def q4_0(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Random Q4_0 data of a matrix, with a scale that keeps activations finite."""
    blocks = columns // BLOCK_ELEMENTS
    data = np.empty((rows, blocks, 18), dtype=np.uint8)
    data[:, :, :2] = np.frombuffer(np.float16(0.002).tobytes(), dtype=np.uint8)
    data[:, :, 2:] = rng.integers(0, 256, (rows, blocks, 16), dtype=np.uint8)
    return data.reshape(rows, blocks * 18)


def main(path: str) -> None:
    """Write the file."""
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("random 1.1B")
    writer.add_block_count(LAYERS)
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("no_vocab")
    kv_width = WIDTH // HEADS * KV_HEADS

    def matrix(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(name, q4_0(rng, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    matrix("token_embd.weight", VOCABULARY, WIDTH)
    matrix("output.weight", VOCABULARY, WIDTH)
    writer.add_tensor("output_norm.weight", np.ones(WIDTH, dtype=np.float32))
    for layer in range(LAYERS):
        prefix = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{prefix}.{norm}.weight", np.ones(WIDTH, dtype=np.float32))
        matrix(f"{prefix}.attn_q.weight", WIDTH, WIDTH)
        matrix(f"{prefix}.attn_k.weight", kv_width, WIDTH)
        matrix(f"{prefix}.attn_v.weight", kv_width, WIDTH)
        matrix(f"{prefix}.attn_output.weight", WIDTH, WIDTH)
        matrix(f"{prefix}.ffn_gate.weight", FEED_FORWARD, WIDTH)
        matrix(f"{prefix}.ffn_up.weight", FEED_FORWARD, WIDTH)
        matrix(f"{prefix}.ffn_down.weight", WIDTH, FEED_FORWARD)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
