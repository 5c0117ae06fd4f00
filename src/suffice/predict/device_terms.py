"""The law of a device's speed, and which parameters a case takes from the calibration.

Decode: ``step time = (weights + k x cache) / (e x bandwidth) + c``. Of the rated bandwidth a device draws the share ``e``; a byte of the cache costs
``k`` times a byte of weights; ``c`` is what a token costs before any byte is read (kernels that start, synchronisation, sampling).

Prefill: ``time = FLOP / (r x bandwidth) + s``: within a generation compute grows with bandwidth; where the dense peak is known, its ratio to that of the
generation counts as well (an L20 is an L40S with a third of the peak).

Each parameter is a product of factors, one for each step of the device's class, its format, its engine and, where it was measured, the very device.
A factor that nobody could estimate is 1: the case then takes the parameter of the step above.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.predict.device_words import EngineFamily

if TYPE_CHECKING:
    from suffice.predict.device_classes import DeviceClass
    from suffice.predict.device_words import QuantFamily

_CACHE_CASES: Final = 65_536


class Parameter(StrEnum):
    """What is calibrated."""

    EFFICIENCY = "e"  # share of the rated bandwidth that weights are read with
    CACHE_COST = "k"  # what a byte of the cache costs, in bytes of weights
    OVERHEAD = "c"  # seconds per token that no byte explains
    INTENSITY = "r"  # FLOP of prefill for each byte that the memory could have moved
    START = "s"  # seconds per prompt that no FLOP explains


class Prior(StrEnum):
    """How far a factor may be from 1 before data must insist: small steps are shrunk to the step above."""

    ROOT = "root"
    GROUP = "group"
    CLASS = "class"
    GENERATION = "generation"
    QUANT = "quant"
    QUANT_OF_GROUP = "quant of group"
    ENGINE = "engine"
    VARIANT = "engine variant"
    BACKEND = "backend"
    DEVICE = "device"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One factor of one parameter."""

    parameter: Parameter
    name: str
    prior: Prior


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceCase:
    """What decides which parameters hold: the device's class, the format, the engine."""

    device: DeviceClass
    quant: QuantFamily
    engine: EngineFamily
    backend: str | None = None
    moe: bool = False  # a token reads some experts only: small matrices, chosen late

    @property
    def waits_for_host(self) -> bool:
        """Whether a Python program starts each kernel, so that its time and the device's overlap instead of adding up."""
        return self.engine is EngineFamily.FRAMEWORK


# llama.cpp under its own name, as a server, in ollama's clothes: one engine with small differences.
_PARENT: Final = {
    EngineFamily.LLAMA_CPP: "ggml",
    EngineFamily.LLAMA_SERVER: "ggml",
    EngineFamily.OLLAMA: "ggml",
    EngineFamily.IK: "ggml",
}
_PYTHON: Final = frozenset({EngineFamily.FRAMEWORK, EngineFamily.SERVING})
_STEP_PRIORS: Final = (Prior.GROUP, Prior.CLASS, Prior.GENERATION)
_NATIVE_EXPONENT: Final = 0.5
HOST_OVERLAP: Final = 4.0  # exponent of the smooth maximum of host and device time
REFERENCE_LAYERS: Final = 32


def layer_exponent(engine: EngineFamily) -> float:
    """How the fixed cost grows with the number of layers: in proportion where Python starts the kernels, as the root elsewhere.

    Recorded graphs start many kernels at once; the exponents were chosen by cross-validation among 0, 1/2 and 1.
    """
    return 1.0 if engine in _PYTHON else _NATIVE_EXPONENT


@lru_cache(maxsize=_CACHE_CASES)
def factors(case: DeviceCase) -> tuple[Factor, ...]:
    """Every factor that the parameters of a case are products of."""
    made = [
        *_of_class(case, Parameter.EFFICIENCY),
        *_of_quant(case, Parameter.EFFICIENCY),
        *_of_engine(case, Parameter.EFFICIENCY),
        *_of_class(case, Parameter.OVERHEAD),
        *_of_engine(case, Parameter.OVERHEAD),
        Factor(parameter=Parameter.CACHE_COST, name="root", prior=Prior.ROOT),
        Factor(parameter=Parameter.CACHE_COST, name=f"step:{case.device.path[0]}", prior=Prior.GROUP),
        Factor(parameter=Parameter.CACHE_COST, name=f"engine:{_parent(case)}", prior=Prior.ENGINE),
        *_of_compute(case),
        *_of_quant(case, Parameter.INTENSITY),
        *_of_engine(case, Parameter.INTENSITY),
        Factor(parameter=Parameter.START, name="root", prior=Prior.ROOT),
        Factor(parameter=Parameter.START, name=f"step:{case.device.path[0]}", prior=Prior.GROUP),
        Factor(parameter=Parameter.START, name=f"engine:{_parent(case)}", prior=Prior.ENGINE),
    ]
    if case.moe:
        made.extend(
            Factor(parameter=parameter, name=f"moe:{case.device.path[0]}", prior=Prior.GROUP)
            for parameter in (Parameter.EFFICIENCY, Parameter.OVERHEAD, Parameter.INTENSITY)
        )
    if case.device.key is not None:
        made.extend(
            Factor(parameter=parameter, name=f"device:{case.device.key}", prior=Prior.DEVICE)
            for parameter in (Parameter.EFFICIENCY, Parameter.INTENSITY)
        )
    return tuple(made)


def _parent(case: DeviceCase) -> str:
    return _PARENT.get(case.engine, case.engine.value)


def _of_class(case: DeviceCase, parameter: Parameter) -> list[Factor]:
    steps = zip(case.device.path, _STEP_PRIORS, strict=False)
    return [
        Factor(parameter=parameter, name="root", prior=Prior.ROOT),
        *(Factor(parameter=parameter, name=f"step:{step}", prior=prior) for step, prior in steps),
    ]


def _of_compute(case: DeviceCase) -> list[Factor]:
    """As :func:`_of_class` for compute, where matrix units and kernels are a vendor's, whatever memory is beside them."""
    made = _of_class(case, Parameter.INTENSITY)
    path = case.device.path
    made[1] = Factor(parameter=Parameter.INTENSITY, name=f"step:{path[0].split()[0]}", prior=Prior.GROUP)
    if len(path) > 1:
        vendor = path[1].split()[0]
        made.append(Factor(parameter=Parameter.INTENSITY, name=f"vendor:{vendor}", prior=Prior.GROUP))
    return made


def _of_quant(case: DeviceCase, parameter: Parameter) -> list[Factor]:
    group = case.device.path[0]
    return [
        Factor(parameter=parameter, name=f"quant:{case.quant}", prior=Prior.QUANT),
        Factor(parameter=parameter, name=f"quant:{case.quant}:{group}", prior=Prior.QUANT_OF_GROUP),
    ]


def _of_engine(case: DeviceCase, parameter: Parameter) -> list[Factor]:
    parent = _parent(case)
    made = [Factor(parameter=parameter, name=f"engine:{parent}", prior=Prior.ENGINE)]
    if parent != case.engine.value:
        made.append(Factor(parameter=parameter, name=f"engine:{case.engine}", prior=Prior.VARIANT))
    if case.backend is not None and parameter is not Parameter.OVERHEAD:
        made.append(
            Factor(parameter=parameter, name=f"backend:{case.backend}:{case.device.path[0]}", prior=Prior.BACKEND)
        )
    return made
