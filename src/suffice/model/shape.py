"""The shape of a model: what it weighs, reads and computes for each token."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.attention import kv_layout, layers_with_own_kv
from suffice.model.consistency import check_against_tensors
from suffice.model.kv_cache import DEFAULT_KV_TYPE, KvLayout
from suffice.model.metadata import array_length, metadata_of, plain_layers
from suffice.model.weights import TOKEN_EMBEDDING, WeightGroup, WeightUse, weight_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from suffice.model.gguf_header import GgufHeader
    from suffice.model.metadata import Metadata

_FLOPS_PER_MULTIPLY_ADD: Final = 2
_DEFAULT_MICRO_BATCH: Final = 512  # llama.cpp's n_ubatch


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A model as the roofline sees it. Where its cache layout is unknown, cache and FLOP figures are None, never a guess."""

    name: str
    architecture: str
    n_layer: int  # that run in plain decoding: layers for multi-token prediction are not counted
    n_embd: int
    n_vocab: int | None
    context_length: int | None  # that it was trained for; None: the file does not say
    weights: tuple[WeightGroup, ...]
    kv: KvLayout
    file_bytes: int | None = None  # of all parts; None for a shape without a file

    @property
    def parameters(self) -> int:
        """All numbers in all tensors, also those that plain decoding does not use."""
        return sum(group.elements for group in self.weights)

    @property
    def tensor_bytes(self) -> int:
        """Bytes of all tensors: what must fit into memory."""
        return sum(group.n_bytes for group in self.weights)

    @property
    def bytes_by_type(self) -> Mapping[str, int]:
        """Bytes of the tensors of each ggml type, as in the file: a label such as Q4_K_M is a recipe, this is what is there."""
        return _sums((group.type_name, group.n_bytes) for group in self.weights)

    @property
    def elements_by_type(self) -> Mapping[str, int]:
        """Numbers in the tensors of each ggml type."""
        return _sums((group.type_name, group.elements) for group in self.weights)

    @property
    def is_moe(self) -> bool:
        """Whether a token uses a part of the weights only."""
        return any(group.use is WeightUse.EXPERT for group in self.weights)

    @property
    def active_parameters(self) -> float:
        """Numbers that one token's step reads, looked-up rows not counted: experts by the k of E that it uses."""
        return sum(group.elements * group.share_read(1) for group in self._read_groups)

    @property
    def active_bytes(self) -> float:
        """Bytes of the active parameters."""
        return sum(group.n_bytes * group.share_read(1) for group in self._read_groups)

    @property
    def kv_known(self) -> bool:
        """Whether the cache layout is known; when not, ``kv.unknown_reason`` says why."""
        return self.kv.unknown_reason is None

    def streamed_bytes(self, batch: int = 1) -> float:
        """Weight bytes that one decode step of ``batch`` sequences reads, in expectation.

        All repeating layers, norms and the output head (the embedding when it doubles as the head); of experts those touched,
        E(1-(1-k/E)^B); of plain embeddings one row per token.

        Raises:
            ValueError: ``batch`` is not positive.
        """
        _raise_unless_positive(batch, "batch")
        return float(sum(group.n_bytes * group.share_read(batch) for group in self.weights))

    def expert_coverage(self, batch: int = 1) -> tuple[float, int] | None:
        """Experts of a layer that a step of ``batch`` tokens reads, E(1-(1-k/E)^B), and E; of the layers with most. None without experts.

        Raises:
            ValueError: ``batch`` is not positive.
        """
        _raise_unless_positive(batch, "batch")
        groups = [group for group in self.weights if group.use is WeightUse.EXPERT]
        largest = max(groups, key=lambda group: group.parts, default=None)
        return None if largest is None else (largest.parts * largest.share_read(batch), largest.parts)

    def kv_bytes_per_token(self, type_k: str = DEFAULT_KV_TYPE, type_v: str = DEFAULT_KV_TYPE) -> float | None:
        """Growth of one sequence's cache per token, while no sliding window is full yet; None when unknown."""
        return self.kv.bytes_per_token(type_k, type_v)

    def kv_bytes_per_token_beyond_windows(
        self, type_k: str = DEFAULT_KV_TYPE, type_v: str = DEFAULT_KV_TYPE
    ) -> float | None:
        """Growth per token once all sliding windows are full; equal to the above without windows; None when unknown."""
        return self.kv.bytes_per_token_beyond_windows(type_k, type_v)

    def kv_cache_bytes(
        self,
        context: int,
        type_k: str = DEFAULT_KV_TYPE,
        type_v: str = DEFAULT_KV_TYPE,
        *,
        sequences: int = 1,
        micro_batch: int = _DEFAULT_MICRO_BATCH,
    ) -> float | None:
        """Bytes that llama.cpp allocates for ``sequences`` sequences of ``context`` tokens each; None when unknown."""
        _raise_unless_positive(context, "context")
        _raise_unless_positive(sequences, "sequences")
        per_sequence = self.kv.cache_bytes(context, type_k, type_v, micro_batch)
        return None if per_sequence is None else sequences * per_sequence

    def kv_read_bytes(self, depth: int, type_k: str = DEFAULT_KV_TYPE, type_v: str = DEFAULT_KV_TYPE) -> float | None:
        """Cache bytes that one decode step reads for one sequence with ``depth`` tokens of context; None when unknown."""
        _raise_if_negative(depth, "depth")
        return self.kv.read_bytes(depth, type_k, type_v)

    def flops_per_token(self, context: int) -> float | None:
        """FLOPs of one decode step for one sequence: 2 per active matrix element, and attention over ``context`` tokens.

        Attention takes 4·heads·head_length per visible token and layer (Kaplan et al., arXiv:2001.08361, table 1: "mask").
        The state update of recurrent layers, norms and activations are left out: they are small. None when the layout is unknown.
        """
        _raise_unless_positive(context, "context")
        attention = self.kv.flops(1, context - 1)
        return None if attention is None else self._layer_flops + self._head_flops + attention

    def prefill_flops(self, n_tokens: int, start_depth: int = 0) -> float | None:
        """FLOPs to evaluate ``n_tokens`` tokens that follow ``start_depth`` earlier ones.

        Each token sees those before it and itself (the causal triangle); the head runs for the last token only, as servers do.
        None when the layout is unknown.
        """
        _raise_unless_positive(n_tokens, "n_tokens")
        _raise_if_negative(start_depth, "start_depth")
        attention = self.kv.flops(n_tokens, start_depth)
        return None if attention is None else n_tokens * self._layer_flops + self._head_flops + attention

    @property
    def _read_groups(self) -> tuple[WeightGroup, ...]:
        return tuple(group for group in self.weights if group.use is not WeightUse.LOOKUP)

    @property
    def _layer_flops(self) -> float:
        groups = (group for group in self._read_groups if group.use is not WeightUse.HEAD)
        return sum(_FLOPS_PER_MULTIPLY_ADD * group.matmul_elements * group.share_read(1) for group in groups)

    @property
    def _head_flops(self) -> float:
        groups = (group for group in self.weights if group.use is WeightUse.HEAD)
        return float(sum(_FLOPS_PER_MULTIPLY_ADD * group.matmul_elements for group in groups))


_MAX_NAME_CHARACTERS: Final = 200  # a longer name is no name, and would be repeated in every table


def shape_from_header(header: GgufHeader) -> ModelShape:
    """The shape of the model in a GGUF file.

    Raises:
        ModelFileError: the file has no tensors (a vocabulary only), or lacks a key that the shape needs.
    """
    metadata = metadata_of(header)
    if not header.tensors:
        raise ModelFileError(
            f"{header.source}: holds no tensors, only a vocabulary or metadata; name the GGUF file of the whole model"
        )
    n_layer = plain_layers(metadata)
    with_kv = layers_with_own_kv(metadata, n_layer)
    name = header.metadata.get("general.name")
    kv = kv_layout(metadata, n_layer, (tensor.name for tensor in header.tensors))
    check_against_tensors(header, metadata, n_layer, kv)
    return ModelShape(
        name=(name if isinstance(name, str) and name.strip() else header.source)[:_MAX_NAME_CHARACTERS],
        architecture=metadata.architecture,
        n_layer=n_layer,
        n_embd=metadata.required_count("embedding_length"),
        n_vocab=_vocabulary(header, metadata),
        context_length=metadata.count("context_length") or None,
        weights=weight_groups(header, metadata, n_layer, with_kv),
        kv=kv,
        file_bytes=header.file_bytes,
    )


def _vocabulary(header: GgufHeader, metadata: Metadata) -> int | None:
    """Rows of the embedding; else what the metadata say."""
    for tensor in header.tensors:
        if tensor.name == TOKEN_EMBEDDING and len(tensor.dims) > 1:
            return tensor.dims[1]
    return metadata.count("vocab_size") or array_length(header.metadata.get("tokenizer.ggml.tokens"))


def _sums(pairs: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: dict[str, int] = defaultdict(int)
    for name, value in pairs:
        sums[name] += value
    return dict(sums)


def _raise_unless_positive(value: int, what: str) -> None:
    if value < 1:
        raise ValueError(f"{what} must be at least 1, not {value}")


def _raise_if_negative(value: int, what: str) -> None:
    if value < 0:
        raise ValueError(f"{what} must not be negative, but is {value}")
