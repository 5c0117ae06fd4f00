"""The shape of a model from its ``config.json``, as Hugging Face's library writes it. Nothing of the model is downloaded or run."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError, RecordError
from suffice.loaders.files import read_small_file
from suffice.loaders.gguf_values import shown
from suffice.loaders.hf_facts import attention_facts, rope_facts
from suffice.loaders.hf_families import ALIASES, CLASSES, FAMILIES, REFUSED, WRAPPERS, Family, Mixture
from suffice.loaders.hf_fields import MAX_LAYERS, Fields
from suffice.loaders.hf_layers import experts_of, window_of
from suffice.loaders.strict_json import parse_json
from suffice.model.spec import FeedForward, LatentAttention, ModelSpec
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MAX_CONFIG_BYTES: Final = 4 * MIB  # those of quantized models list thousands of modules
_MAX_NAME_CHARACTERS: Final = 120
_MAX_VOCABULARY: Final = 1 << 21  # eight times Gemma's; a stand-in must name every token
_MAX_HEADS: Final = 4096
_MAX_HEAD_LENGTH: Final = 65_536
_MAX_CONTEXT: Final = 1 << 36
_FILE_NAME: Final = "config.json"
_FALCON_FF_RATIO: Final = 4  # of the feed-forward part's width to the embedding's, when the config does not say it
_ACTIVATIONS: Final[Mapping[FeedForward, frozenset[str]]] = MappingProxyType(
    {
        FeedForward.SWIGLU: frozenset({"silu", "swish", "swiglu"}),
        FeedForward.GEGLU: frozenset({"gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast"}),
        FeedForward.GELU: frozenset({"gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast"}),
    }
)


def read_config(path: Path) -> ModelSpec:
    """The shape in a ``config.json``, or in the one that lies in a folder.

    Raises:
        ModelFileError: no such file, no config of a language model, or one of a model that suffice cannot describe.
    """
    file = path / _FILE_NAME if path.is_dir() else path
    return spec_of_file(file, name=_name_of(file), source=str(file))


def spec_of_file(file: Path, *, name: str, source: str) -> ModelSpec:
    """The same for a model that has a name already; ``source`` is what messages call the file.

    Raises:
        ModelFileError: as :func:`read_config`.
    """
    text = read_small_file(file, limit_bytes=_MAX_CONFIG_BYTES, error=ModelFileError)
    return _spec(parse_config(text, source=source), name=name, source=source)


def parse_config(text: str, *, source: str) -> dict[str, object]:
    """The table in the text of a ``config.json``; ``source`` names it in messages.

    Raises:
        ModelFileError: it is no JSON object.
    """
    try:
        document = parse_json(text)
    except RecordError as error:
        reason = str(error).partition(": ")[2]
        raise ModelFileError(
            f"{source}: is not valid JSON ({reason}); get the config.json of the model again"
        ) from None
    if not isinstance(document, dict):
        raise ModelFileError(f"{source}: holds no JSON object; get the config.json of the model again")
    return document


def spec_from_config(document: Mapping[str, object], *, name: str) -> ModelSpec:
    """The shape that the fields of a ``config.json`` describe; ``name`` becomes the model's.

    Of a model with more than text, the part that writes text. Quantization is not looked at: a shape has no types.

    Raises:
        ModelFileError: the model is of an unknown kind, or a field is missing, wrong, or says what cannot be described.
    """
    return _spec(document, name=name, source=f"config of {name}"[:_MAX_NAME_CHARACTERS])


def _name_of(file: Path) -> str:
    """The name of its folder; in a cache of Hugging Face's, that of the model."""
    folder = file.absolute().parent
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2] or folder.name
    return folder.name if file.name == _FILE_NAME else file.stem


def _spec(document: Mapping[str, object], *, name: str, source: str) -> ModelSpec:
    outer = Fields(source=source, values=document)
    inner = outer.table("text_config") or outer
    family = _family(outer, inner)
    fields = Fields(source=source, values={**family.defaults, **inner.values}, path=inner.path)
    _check_flags(fields, family)
    n_head = fields.needed("num_attention_heads", "n_head", largest=_MAX_HEADS)
    n_layer = fields.needed("num_hidden_layers", "n_layer", "num_layers", largest=MAX_LAYERS)
    n_embd = fields.needed("hidden_size")
    latent = _latent(fields) if family.latent else None
    experts = experts_of(fields, family, n_layer)
    context_length = _context_length(fields)
    window, pattern = window_of(fields, family, n_layer, context_length)
    has_dense = experts is None or experts.n_dense_first > 0 or family.mixture is Mixture.LLAMA4
    qkv_bias = family.bias if family.bias_field is None else fields.flag(family.bias_field, default=family.bias)
    return ModelSpec(
        name=name[:_MAX_NAME_CHARACTERS],
        architecture=family.architecture,
        n_layer=n_layer,
        n_embd=n_embd,
        n_head=n_head,
        n_head_kv=n_head if latent else _n_head_kv(fields, family, n_head),
        head_length=_head_length(fields, latent, n_embd, n_head),
        n_vocab=fields.needed("padded_vocab_size", "vocab_size", largest=_MAX_VOCABULARY),
        tied=_tied(outer, inner, family),
        n_ff=_n_ff(fields, family, n_embd) if has_dense else None,
        feed_forward=family.feed_forward,
        context_length=context_length,
        qkv_bias=qkv_bias,
        latent=latent,
        experts=experts,
        sliding_window=window,
        sliding_pattern=pattern,
        extra=MappingProxyType(
            {**family.extra, **attention_facts(fields, family, n_layer, qkv_bias=qkv_bias), **rope_facts(fields)}
        ),
    )


def _family(outer: Fields, inner: Fields) -> Family:
    wrapper, kind = outer.text("model_type"), inner.text("model_type")
    if wrapper is not None and inner is not outer and wrapper in WRAPPERS:
        return FAMILIES[WRAPPERS[wrapper]]
    # Some repositories invent a model_type; the class of the model is then what is known.
    classes = outer.texts("architectures")
    for candidate in filter(None, (kind, wrapper, *(CLASSES.get(name) for name in classes))):
        known = ALIASES.get(candidate, candidate)
        if known in REFUSED:
            raise outer.error("model_type", f"is {shown(known)}, which cannot be described: {REFUSED[known]}")
        if known in FAMILIES:
            return FAMILIES[known]
    raise inner.error(
        "model_type",
        f"is {shown(kind or next(iter(classes), None))}, which suffice does not know; it knows {', '.join(sorted(FAMILIES))}. "
        "Give the model's GGUF file, or its URL, instead",
    )


def _check_flags(fields: Fields, family: Family) -> None:
    """What llama.cpp has no place for is refused, not left out."""
    for key in family.refused_flags:
        if fields.flag(key, default=False):
            raise fields.error(key, f"is true, which llama.cpp's {family.architecture} cannot express")
    for key in family.needed_flags:
        if not fields.flag(key, default=True):
            raise fields.error(key, f"is false, which llama.cpp's {family.architecture} cannot express")
    for key in ("hidden_activation", "hidden_act", "activation_function"):
        activation = fields.text(key)
        if activation is not None:  # the first counts: Gemma's hidden_act is not used
            if activation not in _ACTIVATIONS[family.feed_forward]:
                raise fields.error(
                    key, f"is {shown(activation)}, and llama.cpp's {family.architecture} has another one"
                )
            return


def _n_head_kv(fields: Fields, family: Family, n_head: int) -> int:
    if family.architecture == "falcon":
        return _falcon_heads(fields, n_head)
    if family.architecture == "chatglm" and "multi_query_attention" in fields.values:
        shared = fields.flag("multi_query_attention", default=False)
        return fields.needed("multi_query_group_num", largest=n_head) if shared else n_head
    n_head_kv = fields.count("num_key_value_heads", largest=n_head) or n_head
    if n_head % n_head_kv:
        raise fields.error(
            "num_key_value_heads", f"is {n_head_kv}, which does not divide the {n_head} heads; check the file"
        )
    return n_head_kv


def _falcon_heads(fields: Fields, n_head: int) -> int:
    if fields.flag("new_decoder_architecture", default=False):
        return fields.count("num_kv_heads", "n_head_kv", largest=n_head) or n_head
    return 1 if fields.flag("multi_query", default=True) else n_head


def _head_length(fields: Fields, latent: LatentAttention | None, n_embd: int, n_head: int) -> int:
    if latent is not None:
        return latent.nope_length + latent.rope_length
    stated = fields.count("head_dim", "kv_channels", largest=_MAX_HEAD_LENGTH)
    if stated is None and n_embd % n_head:
        raise fields.error(
            "hidden_size", f"is {n_embd}, no multiple of the {n_head} heads, and head_dim is missing; check the file"
        )
    return stated or n_embd // n_head


def _n_ff(fields: Fields, family: Family, n_embd: int) -> int:
    stated = fields.count("intermediate_size_mlp", "intermediate_size", "ffn_hidden_size")
    if stated is None and family.architecture == "falcon":
        return _FALCON_FF_RATIO * n_embd
    return stated or fields.needed("intermediate_size")


def _latent(fields: Fields) -> LatentAttention:
    return LatentAttention(
        kv_rank=fields.needed("kv_lora_rank"),
        rope_length=fields.needed("qk_rope_head_dim", largest=_MAX_HEAD_LENGTH),
        nope_length=fields.needed("qk_nope_head_dim", largest=_MAX_HEAD_LENGTH),
        value_length=fields.needed("v_head_dim", largest=_MAX_HEAD_LENGTH),
        q_rank=fields.count("q_lora_rank"),
    )


def _tied(outer: Fields, inner: Fields, family: Family) -> bool:
    """The outermost statement counts."""
    return outer.flag("tie_word_embeddings", default=inner.flag("tie_word_embeddings", default=family.tied))


def _context_length(fields: Fields) -> int | None:
    return fields.count(
        "max_position_embeddings", "seq_length", "model_max_length", "n_positions", largest=_MAX_CONTEXT
    )
