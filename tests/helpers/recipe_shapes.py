"""Toy models that between them reach every rule of the quantization recipes: names and dims of tensors, no weights."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from helpers.gguf_writer import ToyTensor, encode_header, write_gguf
from suffice.model.gguf_header import GgufHeader, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

Dims = tuple[int, ...]
WIDTH, VOCABULARY = 256, 512
ANSWERS = (
    Path(__file__).parents[1] / "data" / "recipe_answers.csv"
)  # of the dry run, written by benchmarks/recipes.py --record


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeShape:
    """One toy model. ``layer`` gives the tensors of a layer, by name without ``blk.N.`` and ``.weight``."""

    architecture: str
    n_layer: int
    layer: Callable[[int], Mapping[str, Dims]]
    n_embd: int = WIDTH
    n_head: int | tuple[int, ...] = 8
    n_head_kv: int | tuple[int, ...] = 8
    tied: bool = False
    facts: Mapping[str, object] = field(default_factory=dict)  # more metadata, without the architecture
    outside: Mapping[str, Dims] = field(default_factory=dict)  # more tensors outside layers, by full name

    def metadata(self) -> dict[str, object]:
        """What llama.cpp's quantizer asks of such a model's metadata."""
        first = next(n for n in (self.n_head if isinstance(self.n_head, tuple) else (self.n_head,)) if n)
        facts: dict[str, object] = {
            "block_count": self.n_layer,
            "context_length": 4096,
            "embedding_length": self.n_embd,
            "feed_forward_length": 512,
            "attention.head_count": self.n_head,
            "attention.head_count_kv": self.n_head_kv,
            "attention.layer_norm_epsilon": 1e-5,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": self.n_embd // first,
            **self.facts,
        }
        named = {f"{self.architecture}.{key}": value for key, value in facts.items()}
        general = {"general.architecture": self.architecture, "general.file_type": 1, "general.quantization_version": 2}
        return {**general, **named}

    def tensors(self) -> list[ToyTensor]:
        """All tensors, in an order that is not the quantizer's."""
        every: dict[str, Dims] = {"token_embd.weight": (self.n_embd, VOCABULARY)}
        for number in range(self.n_layer):
            every |= {f"blk.{number}.{name}.weight": dims for name, dims in self.layer(number).items()}
        every |= {"output_norm.weight": (self.n_embd,), **self.outside}
        if not self.tied:
            every["output.weight"] = (self.n_embd, VOCABULARY)
        return [ToyTensor(name, dims, _float_type(name, dims)) for name, dims in every.items()]

    def header(self) -> GgufHeader:
        """As the reader would give it."""
        _, file_bytes = encode_header(self.metadata(), self.tensors())
        offset, tensors = 0, []
        for tensor in self.tensors():
            info = {"name": tensor.name, "dims": tensor.dims, "type_name": tensor.type_name}
            tensors.append(TensorInfo(**info, offset=offset, n_bytes=tensor.n_bytes))  # type: ignore[arg-type]
            offset += -(-tensor.n_bytes // 32) * 32
        return GgufHeader(
            source="toy.gguf",
            version=3,
            big_endian=False,
            alignment=32,
            metadata=self.metadata(),  # type: ignore[arg-type]
            tensors=tuple(tensors),
            file_bytes=file_bytes,
        )

    def write(self, path: Path) -> Path:
        """Write it to ``path``."""
        return write_gguf(path, self.metadata(), self.tensors())


def _float_type(name: str, dims: Dims) -> str:
    return "f32" if len(dims) == 1 or "ffn_gate_inp" in name or "ssm_conv1d" in name else "f16"


def _dense(width: int = WIDTH, kv_width: int = WIDTH, n_ff: int = 512) -> Callable[[int], dict[str, Dims]]:
    return lambda _layer: {
        "attn_norm": (width,),
        "attn_q": (width, width),
        "attn_k": (width, kv_width),
        "attn_v": (width, kv_width),
        "attn_output": (width, width),
        "ffn_norm": (width,),
        "ffn_gate": (width, n_ff),
        "ffn_up": (width, n_ff),
        "ffn_down": (n_ff, width),
    }


def _slim(*, n_expert: int | None = None) -> Callable[[int], dict[str, Dims]]:
    """For many layers: only the tensors whose type depends on their position."""
    down = (256, WIDTH) if n_expert is None else (256, WIDTH, n_expert)
    name = "ffn_down" if n_expert is None else "ffn_down_exps"
    return lambda _layer: {"attn_v": (WIDTH, 64), "attn_output": (WIDTH, WIDTH), name: down}


def _experts(n_expert: int, *, shared: bool = False, dense_first: int = 0) -> Callable[[int], dict[str, Dims]]:
    dense = _dense(kv_width=64)

    def layer(number: int) -> dict[str, Dims]:
        whole = dense(number)
        if number < dense_first:
            return whole
        parts = {name: dims for name, dims in whole.items() if not name.startswith("ffn_")}
        parts |= {
            "ffn_gate_inp": (WIDTH, n_expert),
            "ffn_gate_exps": (WIDTH, 256, n_expert),
            "ffn_up_exps": (WIDTH, 256, n_expert),
            "ffn_down_exps": (256, WIDTH, n_expert),
        }
        if shared:
            parts |= {
                "ffn_gate_shexp": (WIDTH, 256),
                "ffn_up_shexp": (WIDTH, 256),
                "ffn_down_shexp": (256, WIDTH),
                "ffn_gate_inp_shexp": (WIDTH,),
            }
        return parts

    return layer


def _latent(*, split_kv_b: bool) -> Callable[[int], dict[str, Dims]]:
    ffn = _experts(16, shared=True, dense_first=1)

    def layer(number: int) -> dict[str, Dims]:
        parts = {name: dims for name, dims in ffn(number).items() if name.startswith("ffn_")}
        parts |= {
            "attn_q_a": (WIDTH, 96),
            "attn_q_b": (96, 8 * 48),
            "attn_kv_a_mqa": (WIDTH, 128 + 16),
            "attn_output": (8 * 32, WIDTH),
        }
        if split_kv_b:
            return parts | {"attn_k_b": (32, 128, 8), "attn_v_b": (128, 32, 8)}
        return parts | {"attn_kv_b": (128, 8 * 64)}

    return layer


def _fused(layer: int) -> dict[str, Dims]:
    del layer
    return {
        "attn_norm": (WIDTH,),
        "attn_qkv": (WIDTH, WIDTH + 64),
        "attn_output": (WIDTH, WIDTH),
        "ffn_up": (WIDTH, 1024),
        "ffn_down": (1024, WIDTH),
    }


def _hybrid(layer: int) -> dict[str, Dims]:
    """Every third layer has attention, every fourth no feed-forward part."""
    parts = {name: dims for name, dims in _dense(kv_width=64)(layer).items() if layer % 3 == 2 or "attn" not in name}
    if layer % 4 == 0:
        parts = {name: dims for name, dims in parts.items() if "ffn" not in name}
    return parts | {"ssm_conv1d": (4, 512), "ssm_in": (WIDTH, 640), "ssm_out": (512, WIDTH)}


def _odd_names(layer: int) -> dict[str, Dims]:
    names = (
        "altup_router laurel_l attn_rel_b indexer.k_proj indexer.q_proj indexer.attn_k shortconv.conv ffn_gate_tid2eid attn_q_a "
        "ssm_beta hc_attn inp_gate per_layer_model_proj attn_v_norm cross_attn_v exp_probs time_mix_first time_mix_w0 time_mix_w1 "
        "time_mix_w2 time_mix_v0 time_mix_v1 time_mix_v2 time_mix_a0 time_mix_a1 time_mix_a2 time_mix_g1 time_mix_g2 time_mix_key "
        "time_mix_decay_w1 time_mix_decay_w2 time_mix_lerp_fused"
    ).split()
    dense = _dense()(layer)
    return dense | dict.fromkeys(names, (WIDTH, 64)) | {"single_row": (WIDTH, 1), "three_d": (WIDTH, 1, 4)}


_PICTURES_AND_SOUND = (
    "v.position_embd v.patch_embd v.patch_merger v.rel_pos v.sam.pos_embd v.sam.neck.1 v.sam.net_2 a.rvq.codebook mm.a.code_embd mm.1"
).split()
_EIGHT = {"expert_count": 8, "expert_used_count": 2}
_DEEPSEEK = {
    "expert_count": 16,
    "expert_used_count": 4,
    "expert_shared_count": 1,
    "expert_feed_forward_length": 256,
    "leading_dense_block_count": 1,
    "attention.q_lora_rank": 96,
    "attention.kv_lora_rank": 128,
}
_LING = _DEEPSEEK | {
    "attention.key_length_mla": 48,
    "attention.value_length_mla": 32,
    "ssm.conv_kernel": 4,
    "kda.head_dim": 32,
    "kda.safe_gate": True,
    "kda.gate_lower_bound": -5.0,
    "expert_gating_func": 2,
}
_HYBRID_HEADS = tuple(8 if layer % 3 == 2 else 0 for layer in range(12))
_HYBRID_HEADS_KV = tuple(2 if layer % 3 == 2 else 0 for layer in range(12))

SHAPES = {
    "heads shared by 1": RecipeShape(architecture="llama", n_layer=24, layer=_dense()),
    "heads shared by 4, tied": RecipeShape(
        architecture="qwen3", n_layer=19, n_head_kv=2, tied=True, layer=_dense(kv_width=64)
    ),
    "heads shared by 8": RecipeShape(architecture="llama", n_layer=9, n_head_kv=1, layer=_dense(kv_width=32)),
    "rows of 288 and 90": RecipeShape(
        architecture="llama", n_layer=5, n_embd=288, n_head=6, n_head_kv=6, layer=_dense(288, 288, 90)
    ),
    "rows of 100, tied": RecipeShape(
        architecture="llama", n_layer=3, n_embd=100, n_head=5, n_head_kv=5, tied=True, layer=_dense(100, 100, 256)
    ),
    "8 experts": RecipeShape(architecture="llama", n_layer=16, n_head_kv=2, layer=_experts(8), facts=_EIGHT),
    "8 experts, 80 layers": RecipeShape(
        architecture="llama", n_layer=80, n_head_kv=2, layer=_slim(n_expert=8), facts=_EIGHT
    ),
    "llama of 80 layers and one more to look ahead": RecipeShape(
        architecture="llama", n_layer=81, layer=_slim(), n_head_kv=2, facts={"nextn_predict_layers": 1}
    ),
    "128 experts": RecipeShape(
        architecture="qwen3moe",
        n_layer=12,
        n_head_kv=1,
        layer=_experts(128),
        facts={"expert_count": 128, "expert_used_count": 8},
    ),
    "2 experts and a shared one": RecipeShape(
        architecture="qwen2moe",
        n_layer=9,
        tied=True,
        layer=_experts(2, shared=True, dense_first=2),
        facts={"expert_count": 2, "expert_used_count": 1},
    ),
    "latent attention": RecipeShape(
        architecture="deepseek2", n_layer=10, n_head_kv=1, layer=_latent(split_kv_b=True), facts=_DEEPSEEK
    ),
    "latent attention, one matrix": RecipeShape(
        architecture="deepseek2", n_layer=10, layer=_latent(split_kv_b=False), facts=_DEEPSEEK
    ),
    "falcon": RecipeShape(architecture="falcon", n_layer=32, n_head_kv=1, layer=_fused),
    "falcon, tied": RecipeShape(architecture="falcon", n_layer=6, tied=True, layer=_fused),
    "fused": RecipeShape(architecture="phi3", n_layer=24, layer=_fused),
    "positions": RecipeShape(
        architecture="gpt2",
        n_layer=3,
        layer=_fused,
        outside={"position_embd.weight": (WIDTH, 64), "token_types.weight": (WIDTH, 2)},
    ),
    "llama of 80 layers": RecipeShape(architecture="llama", n_layer=80, n_head_kv=1, layer=_slim()),
    "llama of 80 layers, heads not shared": RecipeShape(architecture="llama", n_layer=80, layer=_slim()),
    "qwen2 of 80 layers": RecipeShape(architecture="qwen2", n_layer=80, layer=_slim()),
    "jais2 of 68 layers": RecipeShape(architecture="jais2", n_layer=68, layer=_slim()),
    "hybrid": RecipeShape(
        architecture="deci", n_layer=12, n_head=_HYBRID_HEADS, n_head_kv=_HYBRID_HEADS_KV, layer=_hybrid
    ),
    "odd names": RecipeShape(
        architecture="llama",
        n_layer=2,
        tied=True,
        layer=_odd_names,
        outside={
            "per_layer_token_embd.weight": (WIDTH, 300),
            "per_layer_model_proj.weight": (WIDTH, 300),
            "enc.blk.10.attn_v.weight": (WIDTH, WIDTH),
            "enc.blk.2.attn_v.weight": (WIDTH, WIDTH),
            **{f"{name}.weight": (WIDTH, 64) for name in _PICTURES_AND_SOUND},
        },
    ),
    "bailingmoe3": RecipeShape(
        architecture="bailingmoe3", n_layer=8, n_head_kv=1, layer=_latent(split_kv_b=True), facts=_LING
    ),
    "glm5-next": RecipeShape(
        architecture="glm5-next",
        n_layer=2,
        n_head_kv=1,
        layer=lambda layer: _latent(split_kv_b=True)(layer) | _odd_names(layer),
        facts=_LING
        | {
            "attention.indexer.head_count": 4,
            "attention.indexer.key_length": 32,
            "attention.indexer.top_k": 64,
            "attention.indexer.kpool": 4,
            "hyper_connection.count": 4,
            "hyper_connection.sinkhorn_iterations": 4,
            "hyper_connection.epsilon": 1e-5,
        },
    ),
}


def fingerprint(types: Iterable[Iterable[tuple[str, str]]]) -> str:
    """Eight characters that stand for names and types of the tensors of some headers, in their order."""
    text = "\n".join(f"{name} {type_name.lower()}" for header in types for name, type_name in header)
    return hashlib.sha256(text.encode()).hexdigest()[:8]
