"""Catalogue entries: values in SI units, each with its source, its date and its kind. Pure: the loaders are modules beside this one.

None always means: not found, or not trusted. It never means 0.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.units import BITS_PER_BYTE, MEGA

if TYPE_CHECKING:
    from collections.abc import Mapping

HOURS_PER_MONTH: Final = 730  # 8760 / 12, as cloud price lists count
SHIPPED: Final = "shipped with suffice"  # the origin of a price that no file of the user and no refresh replaced
DEFAULT_CHANNEL_BITS: Final = 64  # of DDR4 and DDR5 (two halves of 32), and of platforms that count in 64-bit channels


# As the providers document them.
_BURSTABLE: Final = MappingProxyType(
    {
        "aws": re.compile(r"t\d"),
        "azure": re.compile(r"(Standard_)?B\d", re.IGNORECASE),
        "gcp": re.compile(r"e2-(micro|small|medium)|f1-|g1-"),
        "alicloud": re.compile(r"(ecs\.)?t\d"),
    }
)


class Dtype(StrEnum):
    """A type in which a device multiplies. Not a storage format: q4_k weights are multiplied in int8, fp16 or bf16."""

    FP32 = "fp32"
    BF16 = "bf16"
    FP16 = "fp16"
    FP8 = "fp8"
    FP4 = "fp4"
    INT8 = "int8"
    INT4 = "int4"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sourced:
    """A number with where and when it was seen, and of what kind it is ("datasheet", "derived ...", "measured ...")."""

    value: float
    kind: str
    source: str
    seen: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """A processor or accelerator, as rated.

    ``bandwidth_bytes_per_s`` is rated, not measured: a virtual machine, or a single process, gets less. Memory that is sold in several
    sizes has a least and a most. Plain numbers (memory, TDP, cores, channels) share ``source`` and ``seen`` of the entry.
    """

    id: str
    name: str
    kind: str  # "gpu", "npu", "cpu", "soc" or "cpu-class" (a kind of memory, for any processor)
    source: str
    seen: str
    vendor: str | None = None
    architecture: str | None = None
    bandwidth_bytes_per_s: Sourced | None = None
    measured_read_bytes_per_s: Sourced | None = None  # of one socket, by others
    flop_per_s: Mapping[Dtype, Sourced] = field(
        default_factory=lambda: MappingProxyType({})
    )  # dense; operations for integers
    dtype_support: Mapping[Dtype, bool] = field(default_factory=lambda: MappingProxyType({}))
    memory_type: str | None = None
    memory_min_bytes: float | None = None
    memory_max_bytes: float | None = None
    tdp_w: float | None = None
    cores: str | None = None  # "64" of a CPU, "6912 CUDA", "24 cube + 48 vector"
    threads: int | None = None
    channels: int | None = None
    channel_bits: int = DEFAULT_CHANNEL_BITS
    mega_transfers_per_s: float | None = None
    isa: str | None = None
    chips: int = 1  # over one, memory and rates are sums, and one process on one chip gets its share
    aliases: tuple[str, ...] = ()
    note: str | None = None
    origin: str = SHIPPED

    @property
    def memory_bytes(self) -> float | None:
        """Memory where there is one size; None where it is unknown or sold in several."""
        return self.memory_min_bytes if self.memory_min_bytes == self.memory_max_bytes else None

    @property
    def dense_bf16_flop_per_s(self) -> Sourced | None:
        """The dense BF16 rate, accumulated in FP32."""
        return self.flop_per_s.get(Dtype.BF16)

    @property
    def channel_bandwidth_bytes_per_s(self) -> float | None:
        """Channels x transfers/s x bus width, where all are known: a check of the rated figure."""
        if self.channels is None or self.mega_transfers_per_s is None:
            return None
        return self.channels * self.mega_transfers_per_s * MEGA * self.channel_bits / BITS_PER_BYTE

    @property
    def chip_bandwidth_bytes_per_s(self) -> float | None:
        """What one process on one chip can draw at most: the rated bandwidth over the number of chips."""
        return None if self.bandwidth_bytes_per_s is None else self.bandwidth_bytes_per_s.value / self.chips

    @property
    def chip_memory_bytes(self) -> float | None:
        """Memory of one chip, where there is one size."""
        return None if self.memory_bytes is None else self.memory_bytes / self.chips

    def supports(self, dtype: Dtype | str) -> bool | None:
        """Whether the device multiplies in this type by itself: a rated speed or the architecture says so.

        False is a hard filter for engines that compute in this type; None: no source says it. Storing weights in a type is another
        matter: a CPU without BF16 instructions runs BF16 files by converting them.

        Raises:
            ValueError: no such type.
        """
        wanted = Dtype(dtype)
        return True if wanted in self.flop_per_s else self.dtype_support.get(wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What an hour costs on demand, in one region and currency, as somebody saw it at a date.

    ``date`` is as exact as the source is: "2026-07-20", "2026-09" or "2022". ``origin`` says through which file it came here.
    """

    per_hour: float
    currency: str
    region: str
    date: str
    source: str
    kind: str = "list price, on demand, Linux"
    origin: str = SHIPPED
    note: str | None = None

    @property
    def per_month(self) -> float:
        """730 hours of it."""
        return self.per_hour * HOURS_PER_MONTH


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """A machine to rent: what the provider says, and what others saw on one of them.

    A machine of the same name may have another CPU tomorrow: where a run landed on another one than the first look, it is in
    ``other_cpu_model``. Topology is what the virtual machine shows; hypervisors may hide NUMA.
    """

    provider: str  # "aws", "azure", "gcp", "alicloud", "tencent", "huawei", ...
    name: str
    source: str
    seen: str
    vcpu: int | None = None
    memory_bytes: float | None = None
    memory_floor_bytes: float | None = (
        None  # the largest model that ran there; mapped from disk, it may have more bytes than the memory
    )
    cpu_model: str | None = None
    other_cpu_model: str | None = None
    arch: str | None = None
    threads_per_core: int | None = None
    cores_per_socket: int | None = None
    sockets: int | None = None
    numa_nodes: int | None = None
    isa: tuple[str, ...] | None = None
    read_bytes_per_s: Sourced | None = None  # all vCPUs reading
    llama_7b_decode_tokens_per_second: Sourced | None = (
        None  # Llama-7B Q4_K_M, batch 1, llama.cpp build 4753, by others
    )
    llama_7b_prefill_tokens_per_second: Sourced | None = None  # the same, a prompt of 128 tokens
    accelerator: str | None = None
    accelerator_count: float | None = None  # below one: a slice of it
    accelerator_memory_bytes: float | None = None  # of each
    accelerator_device: str | None = None  # id in the catalogue of devices, where it is unambiguous
    price: Price | None = None
    note: str | None = None
    origin: str = SHIPPED

    @property
    def key(self) -> str:
        """``aws/c7i.4xlarge``: names of different providers may be equal."""
        return f"{self.provider}/{self.name}"

    @property
    def is_burstable(self) -> bool:
        """Whether its CPU time is earned as credits (AWS T, Azure B, Google's shared cores, Alibaba t5 and t6): a short test flatters it."""
        pattern = _BURSTABLE.get(self.provider)
        return pattern is not None and pattern.match(self.name) is not None

    @property
    def is_family(self) -> bool:
        """Whether this is a whole family, of which no size is known here."""
        return self.vcpu is None and self.name.endswith(" family")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiPrice:
    """The price of a million tokens of a serverless API. A model has one for each tier, currency and platform."""

    platform: str
    model: str
    input_per_million: float
    output_per_million: float
    currency: str
    date: str
    source: str
    seen: str
    cached_input_per_million: float | None = None
    tier: str | None = None
    context_tokens: int | None = None
    kind: str = "list price"
    note: str | None = None
    origin: str = SHIPPED

    @property
    def key(self) -> tuple[str, str, str, str]:
        """Platform, model, tier and currency: what makes two prices two."""
        return (self.platform, self.model, self.tier or "", self.currency)
