"""The time of a pass over a model on a CPU, from its bytes and its operations.

A pass over ``m`` tokens streams the weights (and the cache) once and multiplies every parameter with every token:

    memory time  = bytes / (efficiency of the core's generation x bandwidth)
    compute time = m x parameters / (rate of one core x cores ^ scaling)
    pass         = (memory time ^ p + compute time ^ p) ^ (1/p) + fixed

``p`` says how well the two overlap: 1 not at all, large: completely. Where no bandwidth was measured it is taken from the
generation of the cores: as many as there are draw what one can draw, up to what a socket gives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.predict.cpu_names import MICROARCHITECTURES
from suffice.units import GIGA, MEGA

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]

PASS_TOKENS: Final = 512  # llama.cpp's micro-batch: so many tokens of a prompt share one pass over the weights
_COUNTS: Final = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SOCKET_READ: Final = np.array(
    [200 * GIGA, *(core.socket_mega_bytes_per_s * MEGA for core in MICROARCHITECTURES.values())], dtype=np.float64
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthModel:
    """Read bandwidth of a virtual machine whose bandwidth nobody measured.

    Attributes:
        core_bytes_per_s: what one core of each generation draws alone; index as in ``CORES``.
        socket_share: of the socket's rated bandwidth, all cores together.
        sharpness: how suddenly the one gives way to the other.
    """

    core_bytes_per_s: Floats
    socket_share: float
    sharpness: float

    def read_bytes_per_s(self, core: Indices, cores: Floats) -> Floats:
        """What ``cores`` cores of a generation draw together."""
        by_cores = self.core_bytes_per_s[core] * cores
        by_socket = self.socket_share * _SOCKET_READ[core]
        combined: Floats = by_cores * (1 + (by_cores / by_socket) ** self.sharpness) ** (-1 / self.sharpness)
        return combined

    def cores_for(self, core: Indices, read_bytes_per_s: Floats) -> Floats:
        """How many cores a machine with a bandwidth usually has, for want of a count: of ``_COUNTS``, the nearest in logarithms."""
        usual = np.stack([self.read_bytes_per_s(core, np.full(len(core), float(count))) for count in _COUNTS], axis=1)
        miss = np.abs(np.log(usual) - np.log(read_bytes_per_s)[:, None])
        cores: Floats = np.array(_COUNTS, dtype=np.float64)[np.argmin(np.nan_to_num(miss), axis=1)]
        return np.where(np.isnan(read_bytes_per_s), np.nan, cores)


@dataclass(frozen=True, slots=True, kw_only=True)
class PassModel:
    """Parameters of one phase.

    Attributes:
        efficiency: share of the bandwidth that the weights are streamed with; index as in ``CORES``.
        rate: parameters times tokens that one core handles per second; index as in ``CORES``.
        scaling: exponent of the number of cores.
        overlap: the ``p`` of the two times.
        fixed_s: of each pass, per layer-free constant of the engine.
        attention: parameters that one more token before this one is worth, per square root of the model's parameters.
        trust: in one reading of the bandwidth, against what is usual for such cores; 1: full.
    """

    efficiency: Floats
    rate: Floats
    scaling: float
    overlap: float
    fixed_s: float
    attention: float
    trust: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PassWork:
    """What is to be done, one entry a row.

    Attributes:
        tokens: in the passes together.
        passes: over the weights.
        bytes_per_pass: weights and cache.
        parameters: that each token is multiplied with.
        depth: tokens before the average token.
    """

    tokens: Floats
    passes: Floats
    bytes_per_pass: Floats
    parameters: Floats
    depth: Floats


def pass_seconds(model: PassModel, work: PassWork, core: Indices, threads: Floats, read_bytes_per_s: Floats) -> Floats:
    """Time of the passes together, in seconds."""
    memory_s = work.passes * work.bytes_per_pass / (model.efficiency[core] * read_bytes_per_s)
    parameters = work.parameters + model.attention * work.depth * np.sqrt(work.parameters)
    compute_s = work.tokens * parameters / (model.rate[core] * threads**model.scaling)
    p = model.overlap
    together: Floats = (memory_s**p + compute_s**p) ** (1 / p) + work.passes * model.fixed_s
    return together


def believed_read(model: PassModel, read_bytes_per_s: Floats, modelled: Floats) -> Floats:
    """A reading drawn towards what is usual for the cores, in logarithms: one reading on a shared host is noisy."""
    believed: Floats = read_bytes_per_s**model.trust * modelled ** (1 - model.trust)
    return believed


def rated_read_bytes_per_s(core: Indices) -> Floats:
    """What a socket of a generation is rated at."""
    return _SOCKET_READ[core]
