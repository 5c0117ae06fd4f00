from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.errors import ModelFileError
from suffice.loaders.hf_config import parse_config, spec_from_config
from suffice.loaders.hf_families import FAMILIES
from suffice.model.spec import ModelSpec

KEYS = """
    hidden_size num_hidden_layers num_attention_heads num_key_value_heads head_dim intermediate_size vocab_size layer_types
    sliding_window use_sliding_window sliding_window_pattern tie_word_embeddings attention_bias num_experts num_local_experts
    n_routed_experts num_experts_per_tok moe_intermediate_size first_k_dense_replace kv_lora_rank q_lora_rank rope_scaling
    architectures text_config hidden_act max_position_embeddings interleave_moe_layer_step full_attention_interval multi_query
    new_decoder_architecture multi_query_attention multi_query_group_num partial_rotary_factor index_n_heads
""".split()
WORDS = st.sampled_from(
    ["silu", "gelu", "full_attention", "sliding_attention", "linear_attention", "LlamaForCausalLM", "\x1b[2J"]
)
LEAVES = st.none() | st.booleans() | st.integers(0, 64) | st.integers() | st.floats() | WORDS | st.text(max_size=5)
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3), max_leaves=5)  # fmt: skip
BASE = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 8, "intermediate_size": 96, "vocab_size": 320}


@settings(max_examples=300, deadline=None)
@given(kind=st.sampled_from(sorted(FAMILIES)), fields=st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4))
def test_any_fields_give_a_sensible_shape_or_a_sentence(kind: str, fields: dict[str, object]) -> None:
    """Whatever stands in a config, the answer is a shape of positive numbers or one printable sentence."""
    try:
        spec = spec_from_config({**BASE, "model_type": kind, **fields}, name="x")
    except ModelFileError as error:
        assert str(error).isprintable()  # noqa: PT017  # one claim of two
        return

    assert isinstance(spec, ModelSpec)
    assert min(spec.n_layer, spec.n_embd, spec.n_head, spec.n_head_kv, spec.head_length, spec.n_vocab) >= 1
    assert spec.n_head_kv <= spec.n_head
    assert spec.n_ff is not None or spec.experts is not None


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=40) | VALUES.map(json.dumps))
def test_any_text_gives_a_table_or_a_sentence(text: str) -> None:
    """Whatever the file holds, the answer is a table or one sentence."""
    try:
        document = parse_config(text, source="file")
    except ModelFileError as error:
        assert str(error).startswith("file: ")  # noqa: PT017  # one claim of two
    else:
        assert isinstance(document, dict)
