"""From calibrated parameters to seconds: the law of :mod:`suffice.predict.device_terms`, with its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.predict.device_terms import HOST_OVERLAP, REFERENCE_LAYERS, DeviceCase, Parameter, factors, layer_exponent

if TYPE_CHECKING:
    from collections.abc import Mapping

_CACHE_CASES: Final = 65_536
_HANDOVER: Final = 0.2  # of the fixed cost, for each doubling of the devices that a token passes: seen on rented machines with 2 to 8 GPUs


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What one decode step, or one prompt, has to do.

    Attributes:
        bandwidth_bytes_per_s: the device's rated bandwidth.
        weight_bytes: read for each step.
        kv_bytes: of the cache, read for each step (0 in prefill: its FLOP say it).
        layers: that a token passes.
        flop: of a whole prompt; 0 in decode.
        peak_ratio: FLOP that the device can do for each byte of bandwidth, relative to a common one; 1 where it is not known.
        count: devices that share the layers. They work one after the other for one stream: more memory, no more speed.
    """

    bandwidth_bytes_per_s: float
    weight_bytes: float
    kv_bytes: float = 0.0
    layers: float = REFERENCE_LAYERS
    flop: float = 0.0
    peak_ratio: float = 1.0
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """The parameters of a case: products of their factors."""

    efficiency: float
    cache_cost: float
    overhead_s: float
    intensity_flop_per_byte: float
    start_s: float


@dataclass(frozen=True, eq=False)  # compared by identity, so that it can key a cache
class DeviceParameters:
    """All factors of a calibration, as logarithms, by parameter and name; unknown factors are 1.

    Attributes:
        logs: natural logarithms of the factors; those called "root" hold the parameter itself, in SI units.
        peak_exponent: how prefill follows the dense peak where that is known.
    """

    logs: Mapping[Parameter, Mapping[str, float]]
    peak_exponent: float = 1.0

    def resolve(self, case: DeviceCase, *, device_known: bool = True) -> Resolved:
        """The parameters of a case; without those of the very device when ``device_known`` is False."""
        sums = dict.fromkeys(Parameter, 0.0)
        for factor in factors(case):
            if device_known or not factor.name.startswith("device:"):
                sums[factor.parameter] += self.logs[factor.parameter].get(factor.name, 0.0)
        return Resolved(
            efficiency=math.exp(sums[Parameter.EFFICIENCY]),
            cache_cost=math.exp(sums[Parameter.CACHE_COST]),
            overhead_s=math.exp(sums[Parameter.OVERHEAD]),
            intensity_flop_per_byte=math.exp(sums[Parameter.INTENSITY]),
            start_s=math.exp(sums[Parameter.START]),
        )


def decode_seconds(case: DeviceCase, resolved: Resolved, work: Work) -> float:
    """Time of one decode step of one stream."""
    moved_s = (work.weight_bytes + resolved.cache_cost * work.kv_bytes) / (
        resolved.efficiency * work.bandwidth_bytes_per_s
    )
    fixed_s = resolved.overhead_s * fixed_scale(case, work)
    if case.waits_for_host:
        return float((moved_s**HOST_OVERLAP + fixed_s**HOST_OVERLAP) ** (1 / HOST_OVERLAP))
    return moved_s + fixed_s


def fixed_scale(case: DeviceCase, work: Work) -> float:
    """How much of the fixed cost of 32 layers on one device a case has."""
    of_layers = (work.layers / REFERENCE_LAYERS) ** layer_exponent(case.engine)
    return float(of_layers * (1 + _HANDOVER * math.log2(work.count)))


def prefill_seconds(resolved: Resolved, work: Work, peak_exponent: float) -> float:
    """Time of one prompt: its operations, and what starting it costs."""
    rate = resolved.intensity_flop_per_byte * work.bandwidth_bytes_per_s * work.peak_ratio**peak_exponent
    return float(work.flop / rate + resolved.start_s)


@lru_cache(maxsize=_CACHE_CASES)
def resolve_cached(parameters: DeviceParameters, case: DeviceCase) -> Resolved:
    """:meth:`DeviceParameters.resolve`, remembered: a table of machines has few cases and many rows."""
    return parameters.resolve(case)
