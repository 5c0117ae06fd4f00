"""Write a GGUF file of random Q4_0 weights: a Llama-like model of 1.1 billion parameters (620 MB), or one with a vocabulary.

Its text is noise; its speed is that of a real model of this shape. With the file of a model whose vocabulary it takes over, it has the shape of
SmolLM2-360M (32 layers of width 960, 200 MB), and a server can run it.

    python benchmarks/make_model.py FILE [VOCABULARY.gguf]
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Final

import gguf
import numpy as np

BLOCK_ELEMENTS: Final = 32  # of Q4_0: 16 bytes of nibbles and a half-precision scale


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a Llama-like model."""

    name: str
    layers: int
    width: int
    heads: int
    kv_heads: int
    feed_forward: int


LARGE: Final = Shape("random 1.1B", 16, 2048, 32, 8, 8192)
SMALL: Final = Shape("random 360M", 32, 960, 15, 5, 2560)
NO_VOCABULARY: Final = 32000  # rows of the embedding without one


def copy_vocabulary(writer: gguf.GGUFWriter, path: str) -> int:
    """Take over the tokenizer of a file; the number of its tokens."""
    reader = gguf.GGUFReader(path)
    for name, field in reader.fields.items():
        if name.startswith("tokenizer."):
            kinds = field.types
            sub_type = kinds[-1] if kinds[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), kinds[0], sub_type=sub_type)
    return len(reader.fields["tokenizer.ggml.tokens"].data)


def q4_0(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Random Q4_0 data of a matrix, with a scale that keeps activations finite."""
    blocks = columns // BLOCK_ELEMENTS
    data = np.empty((rows, blocks, 18), dtype=np.uint8)
    data[:, :, :2] = np.frombuffer(np.float16(0.002).tobytes(), dtype=np.uint8)
    data[:, :, 2:] = rng.integers(0, 256, (rows, blocks, 16), dtype=np.uint8)
    return data.reshape(rows, blocks * 18)


def main(path: str, vocabulary_of: str | None = None) -> None:
    """Write the file."""
    shape = LARGE if vocabulary_of is None else SMALL
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(shape.name)
    writer.add_block_count(shape.layers)
    writer.add_context_length(8192)
    writer.add_embedding_length(shape.width)
    writer.add_feed_forward_length(shape.feed_forward)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(shape.width // shape.heads)
    if vocabulary_of is None:
        tokens = NO_VOCABULARY
        writer.add_tokenizer_model("no_vocab")
    else:
        tokens = copy_vocabulary(writer, vocabulary_of)
    writer.add_vocab_size(tokens)
    kv_width = shape.width // shape.heads * shape.kv_heads

    def matrix(name: str, rows: int, columns: int) -> None:
        writer.add_tensor(name, q4_0(rng, rows, columns), raw_dtype=gguf.GGMLQuantizationType.Q4_0)

    matrix("token_embd.weight", tokens, shape.width)
    matrix("output.weight", tokens, shape.width)
    writer.add_tensor("output_norm.weight", np.ones(shape.width, dtype=np.float32))
    for layer in range(shape.layers):
        prefix = f"blk.{layer}"
        for norm in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"{prefix}.{norm}.weight", np.ones(shape.width, dtype=np.float32))
        matrix(f"{prefix}.attn_q.weight", shape.width, shape.width)
        matrix(f"{prefix}.attn_k.weight", kv_width, shape.width)
        matrix(f"{prefix}.attn_v.weight", kv_width, shape.width)
        matrix(f"{prefix}.attn_output.weight", shape.width, shape.width)
        matrix(f"{prefix}.ffn_gate.weight", shape.feed_forward, shape.width)
        matrix(f"{prefix}.ffn_up.weight", shape.feed_forward, shape.width)
        matrix(f"{prefix}.ffn_down.weight", shape.width, shape.feed_forward)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(*sys.argv[1:3])
