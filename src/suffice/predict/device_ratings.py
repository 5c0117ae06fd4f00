"""Loads rated bandwidth, memory and dense peak of accelerators, by the names that drivers and benchmark logs print.

The catalogue has the devices that can be chosen; this table also knows those that only occur in measurements and in lists of rented machines.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from statistics import median
from typing import TYPE_CHECKING, Final

from suffice.predict.device_classes import classify
from suffice.units import GIGA, TERA

if TYPE_CHECKING:
    from collections.abc import Mapping

_CACHE_NAMES: Final = 65_536
_COMMON_FLOP_PER_BYTE: Final = 60.0  # FP32, over GPUs of 2018 to 2025


@dataclass(frozen=True, slots=True, kw_only=True)
class Rating:
    """What a product is rated at. None: no source, or it is sold in several."""

    bandwidth_bytes_per_s: float
    memory_bytes: float | None
    dense_fp16_flop_per_s: float | None
    fp32_flop_per_s: float | None
    source: str


@cache
def _ratings() -> Mapping[str, tuple[tuple[str, Rating], ...]]:
    text = files("suffice.predict").joinpath("data/device_ratings.csv").read_text(encoding="utf-8")
    table: dict[str, list[tuple[str, Rating]]] = defaultdict(list)
    for row in csv.DictReader(text.splitlines()):
        table[row["key"]].append((row["words"], _rating(row)))
    return {key: tuple(variants) for key, variants in table.items()}


@lru_cache(maxsize=_CACHE_NAMES)
def rating_of(name: str, kind: str) -> Rating | None:
    """The rating of a device; None: its name is not known.

    >>> rating_of("NVIDIA A100-SXM4-40GB", "gpu").memory_bytes
    40000000000.0
    """
    key = classify(name, kind).key
    if key is None:
        return None
    lower = name.lower()
    return next((rating for words, rating in _ratings().get(key, ()) if re.search(words, lower)), None)


@cache
def _matrix_gain(generation: str) -> float | None:
    """How much faster a generation multiplies matrices in FP16 than it computes in FP32; None: no product of it has both figures."""
    seen = [
        rating.dense_fp16_flop_per_s / rating.fp32_flop_per_s
        for key, variants in _ratings().items()
        if classify(key, "gpu").path[-1] == generation
        for _, rating in variants
        if rating.dense_fp16_flop_per_s is not None and rating.fp32_flop_per_s is not None
    ]
    return median(seen) if seen else None


def peak_ratio(name: str, kind: str, bandwidth_bytes_per_s: float, dense_flop_per_s: float | None = None) -> float:
    """FLOP that a device can do for each byte of bandwidth, relative to a common one; 1 where its rates are not known.

    FP32 rates are known of nearly every product. Where the dense FP16 rate is known as well, a product that has less of it than its generation
    (an L20 beside an L40S) counts for so much less.
    """
    rating = rating_of(name, kind)
    plain = None if rating is None else rating.fp32_flop_per_s
    dense = dense_flop_per_s if rating is None else rating.dense_fp16_flop_per_s or dense_flop_per_s
    gain = _matrix_gain(classify(name, kind).path[-1])
    able = dense / gain if dense is not None and gain is not None else plain
    return 1.0 if able is None else able / bandwidth_bytes_per_s / _COMMON_FLOP_PER_BYTE


def _rating(row: Mapping[str, str]) -> Rating:
    memory, peak, plain = row["memory_gb"], row["dense_fp16_tflops"], row["fp32_tflops"]
    return Rating(
        bandwidth_bytes_per_s=float(row["bandwidth_gb_per_s"]) * GIGA,
        memory_bytes=float(memory) * GIGA if memory else None,
        dense_fp16_flop_per_s=float(peak) * TERA if peak else None,
        fp32_flop_per_s=float(plain) * TERA if plain else None,
        source=row["source"],
    )
