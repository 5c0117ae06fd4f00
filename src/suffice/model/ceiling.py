"""The ceiling of a model on a machine: both roofs applied to decode and to prefill."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.model.roofline import Bound, PhaseWork, Roofs, decode_work, least_time, prefill_work

if TYPE_CHECKING:
    from suffice.model.shape import ModelShape

DEFAULT_UBATCH = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Where on its roofline a model works.

    ``depth`` is the number of tokens in the cache of each of ``batch`` sequences while they decode.
    """

    depth: int = 0
    batch: int = 1
    prompt_tokens: int = 512
    n_ubatch: int = DEFAULT_UBATCH
    type_k: str = "f16"
    type_v: str = "f16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """What cannot be exceeded. Rates are of all sequences of the batch together; None: not known.

    Attributes:
        decode_tokens_per_second: of the whole batch.
        prefill_tokens_per_second: of one prompt.
        ttft_s: least time to first token: prefill and one decode step.
        streamed_bytes: weight bytes of one decode step of this batch.
        kv_read_bytes: KV bytes read per sequence and step at this depth.
        kv_bytes_per_token: growth of the cache.
        bound: what limits decode.
        prefill_bound: what limits prefill.
    """

    decode_tokens_per_second: float
    prefill_tokens_per_second: float | None
    ttft_s: float | None
    streamed_bytes: float
    kv_read_bytes: float | None
    kv_bytes_per_token: float | None
    bound: Bound
    prefill_bound: Bound | None


def ceiling_of_bytes(weight_bytes: float, roofs: Roofs) -> Ceiling:
    """The ceiling when only the streamed bytes are known: bandwidth over bytes, one stream, empty cache."""
    floor = least_time(decode_work(weight_bytes=weight_bytes, kv_bytes=0.0), roofs)
    return Ceiling(
        decode_tokens_per_second=1 / floor.seconds,
        prefill_tokens_per_second=None,
        ttft_s=None,
        streamed_bytes=weight_bytes,
        kv_read_bytes=None,
        kv_bytes_per_token=None,
        bound=floor.bound,
        prefill_bound=None,
    )


def ceiling_of_model(shape: ModelShape, roofs: Roofs, workload: Workload) -> Ceiling:
    """The ceiling of a model: decode of a batch at a depth, and prefill of one prompt.

    A KV cache whose layout is not known is taken as empty: the true ceiling is then lower, never higher.
    """
    streamed = shape.streamed_bytes(workload.batch)
    kv_read = shape.kv_read_bytes(workload.depth, workload.type_k, workload.type_v)
    decode = least_time(decode_phase(shape, workload), roofs)
    prefill = least_time(prefill_phase(shape, workload), roofs)
    return Ceiling(
        decode_tokens_per_second=workload.batch / decode.seconds,
        prefill_tokens_per_second=workload.prompt_tokens / prefill.seconds,
        ttft_s=prefill.seconds + decode.seconds / workload.batch,
        streamed_bytes=streamed,
        kv_read_bytes=kv_read,
        kv_bytes_per_token=shape.kv_bytes_per_token(workload.type_k, workload.type_v),
        bound=decode.bound,
        prefill_bound=prefill.bound,
    )


def decode_phase(shape: ModelShape, workload: Workload) -> PhaseWork:
    """Bytes and operations of one decode step of the whole batch."""
    return decode_work(
        weight_bytes=shape.streamed_bytes(workload.batch),
        kv_bytes=shape.kv_read_bytes(workload.depth, workload.type_k, workload.type_v) or 0.0,
        flop_per_token=shape.flops_per_token(workload.depth + 1) or 0.0,
        batch=workload.batch,
    )


def prefill_phase(shape: ModelShape, workload: Workload) -> PhaseWork:
    """Bytes and operations of reading one prompt."""
    return prefill_work(
        # Experts: a micro-batch touches at least those of one token, which keeps this a true ceiling.
        weight_bytes=shape.streamed_bytes(1),
        flop=shape.prefill_flops(workload.prompt_tokens) or 0.0,
        n_tokens=workload.prompt_tokens,
        n_ubatch=workload.n_ubatch,
    )
