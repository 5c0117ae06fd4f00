"""The building blocks of a transformer's layer, as tensors of a GGUF file: names and dims, ``dims[0]`` the row length.

An architecture is put together from these parts (see :mod:`suffice.model.blueprint.table`). Names and dims are those that
llama.cpp's converter writes and its loader demands (``gguf-py/gguf/constants.py``, ``src/models/*.cpp``, late 2026).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.model.spec import FeedForward

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.model.spec import Experts, ModelSpec

Shapes = dict[str, tuple[int, ...]]

_GATED: Final = frozenset({FeedForward.SWIGLU, FeedForward.GEGLU})
_F32_NAMES: Final = ("ffn_gate_inp.", "ffn_gate_inp_shexp.", "ssm_conv1d.", "shortconv.conv.")


def converted_type(name: str, dims: tuple[int, ...]) -> str:
    """The type that ``convert_hf_to_gguf.py --outtype f16`` gives a tensor: F32 for vectors, norms, routers, and what is no weight."""
    keeps_f32 = len(dims) < 2 or name.endswith("_norm.weight") or not name.endswith(".weight")  # noqa: PLR2004
    return "f32" if keeps_f32 or any(part in name for part in _F32_NAMES) else "f16"


def whole(spec: ModelSpec, key: str) -> int | None:
    """A whole number among the spec's ``extra`` facts, or None."""
    text = spec.extra.get(key)
    return None if text is None else int(text)


def needed(spec: ModelSpec, key: str) -> int:
    """A whole number among the spec's ``extra`` facts.

    Raises:
        ValueError: it is not there.
    """
    value = whole(spec, key)
    if value is None:
        raise ValueError(f"the shape does not say {key}")
    return value


def has(spec: ModelSpec, key: str) -> bool:
    """Whether an ``extra`` fact is set and not 0."""
    return spec.extra.get(key, "0") != "0"


def norms(spec: ModelSpec, *names: str) -> Shapes:
    """Norms over the whole embedding: ``attn_norm``, ``ffn_norm``, ..., with biases where the spec has ``norm_bias``."""
    shapes: Shapes = {f"{name}.weight": (spec.n_embd,) for name in names}
    if has(spec, "norm_bias"):
        shapes |= {f"{name}.bias": (spec.n_embd,) for name in names}
    return shapes


@dataclass(frozen=True, slots=True, kw_only=True)
class Heads:
    """The heads of one attention layer."""

    n_head: int
    n_kv: int
    k_length: int
    v_length: int

    @classmethod
    def of(cls, spec: ModelSpec) -> Heads:
        """Those that the spec states for all layers."""
        v_length = whole(spec, "v_dim")
        return cls(
            n_head=spec.n_head,
            n_kv=spec.n_head_kv,
            k_length=spec.head_length,
            v_length=spec.head_length if v_length is None else v_length,
        )

    def with_length(self, length: int) -> Heads:
        """The same number of heads of another length."""
        return replace(self, k_length=length, v_length=length)

    @property
    def q_rows(self) -> int:
        """Rows of the query matrix."""
        return self.n_head * self.k_length

    @property
    def k_rows(self) -> int:
        """Rows of the key matrix."""
        return self.n_kv * self.k_length

    @property
    def v_rows(self) -> int:
        """Rows of the value matrix."""
        return self.n_kv * self.v_length


def attention(spec: ModelSpec, heads: Heads | None = None) -> Shapes:
    """Grouped-query attention with separate q, k and v (Ainslie et al., arXiv:2305.13245): biases and QK norms as the spec has them."""
    heads = heads or Heads.of(spec)
    shapes = projections(spec, attn_q=heads.q_rows, attn_k=heads.k_rows, attn_v=heads.v_rows)
    return shapes | attention_output(spec, heads) | qk_norm(spec, heads)


def fused_attention(spec: ModelSpec) -> Shapes:
    """The same with q, k and v in one matrix: ``attn_qkv``."""
    heads = Heads.of(spec)
    shapes = projections(spec, attn_qkv=heads.q_rows + heads.k_rows + heads.v_rows)
    return shapes | attention_output(spec, heads) | qk_norm(spec, heads)


def projections(spec: ModelSpec, **rows: int) -> Shapes:
    """Matrices from the embedding to so many rows, with biases where the spec has ``qkv_bias``."""
    shapes: Shapes = {f"{name}.weight": (spec.n_embd, count) for name, count in rows.items()}
    if spec.qkv_bias:
        shapes |= {f"{name}.bias": (count,) for name, count in rows.items()}
    return shapes


def attention_output(spec: ModelSpec, heads: Heads) -> Shapes:
    """The matrix from the heads back to the embedding."""
    shapes: Shapes = {"attn_output.weight": (heads.n_head * heads.v_length, spec.n_embd)}
    return shapes | ({"attn_output.bias": (spec.n_embd,)} if has(spec, "o_bias") else {})


def qk_norm(spec: ModelSpec, heads: Heads) -> Shapes:
    """Norms of queries and keys: over each head (``qk_norm=head``) or over all of them (``qk_norm=full``)."""
    kind = spec.extra.get("qk_norm")
    if kind == "head":
        return {"attn_q_norm.weight": (heads.k_length,), "attn_k_norm.weight": (heads.k_length,)}
    if kind == "full":
        return {"attn_q_norm.weight": (heads.q_rows,), "attn_k_norm.weight": (heads.k_rows,)}
    return {}


def dense(spec: ModelSpec, n_ff: int | None = None) -> Shapes:
    """A dense feed-forward part: with a gate (Shazeer, arXiv:2002.05202) or without.

    Raises:
        ValueError: the spec does not say how wide it is.
    """
    n_ff = n_ff or spec.n_ff
    if n_ff is None:
        raise ValueError("the shape does not say how wide the dense feed-forward part is")
    names = ("ffn_gate", "ffn_up") if spec.feed_forward in _GATED else ("ffn_up",)
    shapes: Shapes = {f"{name}.weight": (spec.n_embd, n_ff) for name in names}
    shapes["ffn_down.weight"] = (n_ff, spec.n_embd)
    if has(spec, "mlp_bias"):
        shapes |= {f"{name}.bias": (n_ff,) for name in names} | {"ffn_down.bias": (spec.n_embd,)}
    return shapes


def fused_dense(spec: ModelSpec) -> Shapes:
    """A gated feed-forward part whose gate is the first half of ``ffn_up``.

    Raises:
        ValueError: the spec does not say how wide it is.
    """
    if spec.n_ff is None:
        raise ValueError("the shape does not say how wide the dense feed-forward part is")
    return {"ffn_up.weight": (spec.n_embd, 2 * spec.n_ff), "ffn_down.weight": (spec.n_ff, spec.n_embd)}


def experts_of(spec: ModelSpec) -> Experts:
    """The mixture of experts.

    Raises:
        ValueError: the spec has none.
    """
    if spec.experts is None:
        raise ValueError("the shape does not say how many experts there are")
    return spec.experts


def moe(spec: ModelSpec) -> Shapes:
    """Router, experts, and shared experts (Shazeer et al., arXiv:1701.06538; DeepSeekMoE, arXiv:2401.06066)."""
    experts = experts_of(spec)
    shapes: Shapes = {"ffn_gate_inp.weight": (spec.n_embd, experts.n_expert)}
    if has(spec, "router_bias"):
        shapes["exp_probs_b.bias"] = (experts.n_expert,)
    names = ("ffn_gate_exps", "ffn_up_exps") if spec.feed_forward in _GATED else ("ffn_up_exps",)
    shapes |= {f"{name}.weight": (spec.n_embd, experts.n_ff, experts.n_expert) for name in names}
    shapes["ffn_down_exps.weight"] = (experts.n_ff, spec.n_embd, experts.n_expert)
    return shapes | shared_experts(spec)


def shared_experts(spec: ModelSpec) -> Shapes:
    """Experts that every token uses, as one matrix each; with a gate of their own where the spec has ``shared_gate``."""
    experts = experts_of(spec)
    width = shared_width(experts)
    if not width:
        return {}
    names = ("ffn_gate_shexp", "ffn_up_shexp") if spec.feed_forward in _GATED else ("ffn_up_shexp",)
    shapes: Shapes = {f"{name}.weight": (spec.n_embd, width) for name in names}
    shapes["ffn_down_shexp.weight"] = (width, spec.n_embd)
    return shapes | ({"ffn_gate_inp_shexp.weight": (spec.n_embd,)} if has(spec, "shared_gate") else {})


def shared_width(experts: Experts) -> int:
    """Width of all shared experts together; 0 when there are none."""
    return experts.n_shared * experts.n_ff if experts.n_ff_shared is None else experts.n_ff_shared


def feed_forward(spec: ModelSpec, index: int) -> Shapes:
    """What stands in layer ``index``: dense, or experts behind the leading dense layers."""
    if spec.experts is None or index < spec.experts.n_dense_first:
        return dense(spec)
    return moe(spec)


def embeddings(spec: ModelSpec) -> Shapes:
    """Tensors outside of the layers: embedding, final norm, and the head unless the embedding doubles as it."""
    shapes: Shapes = {"token_embd.weight": (spec.n_embd, spec.n_vocab)} | norms(spec, "output_norm")
    if not spec.tied:
        shapes["output.weight"] = (spec.n_embd, spec.n_vocab)
    if has(spec, "head_bias"):
        shapes["output.bias"] = (spec.n_vocab,)
    return shapes | rope_factors(spec)


def rope_factors(spec: ModelSpec) -> Shapes:
    """Factors of the rotary frequencies that some models store: those of Llama 3.1, or the two sets of LongRoPE (arXiv:2402.13753)."""
    half = rope_length(spec) // 2
    kind = spec.extra.get("rope_factors")
    if kind == "llama3":
        return {"rope_freqs.weight": (half,)}
    if kind == "longrope":
        return {"rope_factors_long.weight": (half,), "rope_factors_short.weight": (half,)}
    return {}


def rope_length(spec: ModelSpec) -> int:
    """Numbers of a head that are rotated: all, or the share that the spec has as ``rope_share``."""
    if spec.latent is not None:
        return spec.latent.rope_length
    return round(spec.head_length * float(spec.extra.get("rope_share", "1")))


def joined(parts: Iterable[Shapes]) -> Shapes:
    """Several parts as one."""
    return {name: dims for part in parts for name, dims in part.items()}
