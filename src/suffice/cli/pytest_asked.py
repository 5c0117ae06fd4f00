"""What a test asks of ``suffice_measure``: the arguments of its marker and of the call, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import UsageError
from suffice.units import LARGEST_FIGURE, parse_duration_s

if TYPE_CHECKING:
    from collections.abc import Iterable

DECODE: Final = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A measurement and what it is held against; None: not said.

    Attributes:
        model: as in ``suffice measure``: a GGUF file, a sample, or a shape under a quantization.
        record: a run record to read in place of measuring.
        floor: least decode rate in tokens per second, or least values by metric: ``{"decode": 8, "prefill": 100}``.
        ceiling: most by metric, in seconds or bytes: ``{"ttft": 2.0}``.
        baseline: a record to compare with.
        budget: time to plan with, such as "20s", or in seconds.
        threads: to use; None: swept.
        depth: tokens in the cache while decoding is timed.
        prompt_tokens: of the prompt whose prefill is timed.
        engine: llama-cpp-python or xllamacpp.
        in_slices: measure a local file like a model that is not here.
        rerun: measure once more before a failure; a failure that is not seen again is inconclusive.
        inconclusive: fail, skip or xfail, for this test.
    """

    model: str | None = None
    record: str | None = None
    floor: float | Mapping[str, float] | None = None
    ceiling: Mapping[str, float] | None = None
    baseline: str | None = None
    budget: str | float | None = None
    threads: int | None = None
    depth: int | None = None
    prompt_tokens: int | None = None
    engine: str | None = None
    in_slices: bool = False
    rerun: bool = False
    inconclusive: str | None = None

    @property
    def floors(self) -> dict[str, float]:
        """Least values by metric; a plain number is the decode rate's."""
        return _by_metric({} if self.floor is None else self.floor)

    @property
    def ceilings(self) -> dict[str, float]:
        """Most by metric."""
        return _by_metric({} if self.ceiling is None else self.ceiling)

    @property
    def budget_s(self) -> float | None:
        """Seconds to plan with; None: the default of the model."""
        return None if self.budget is None else _budget_s(self.budget)

    @property
    def measurement(self) -> Asked:
        """What decides the measurement alone: two that share it can share a record."""
        return replace(self, floor=None, ceiling=None, baseline=None, rerun=False, inconclusive=None)


def asked_of(layers: Iterable[Mapping[str, Any]]) -> Asked:
    """The arguments of several markers or calls, the outermost first: later ones replace earlier ones.

    Raises:
        UsageError: an unknown name, or a value that cannot be.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        # What is measured is one thing: an inner layer that reads a record does not measure the outer one's model as well.
        if layer.keys() & {"model", "record"}:
            merged = {name: value for name, value in merged.items() if name not in {"model", "record"}}
        merged.update(layer)
    names = {field.name for field in fields(Asked)}
    unknown = sorted(set(merged) - names)
    if unknown:
        raise UsageError(f"suffice knows no argument {', '.join(unknown)}; there is {', '.join(sorted(names))}")
    for name, value in merged.items():
        _check(name, value)
    merged = {name: str(value) if isinstance(value, Path) else value for name, value in merged.items()}
    asked = Asked(**merged)
    if asked.model is not None and asked.record is not None:
        raise UsageError("suffice measures a model or reads a record: give one of the two")
    return asked


def _check(name: str, value: object) -> None:
    """Refuse a wrong type before it is compared with anything."""
    if value is None:
        return
    if name in {"floor", "ceiling"}:
        _check_limits(name, value)
    elif name == "budget":
        if not isinstance(value, str | float | int) or isinstance(value, bool):
            raise UsageError(f"suffice(budget={value!r}): write a time such as '20s', or seconds")
        _budget_s(value)
    elif name in {"threads", "depth", "prompt_tokens"}:
        least = 0 if name == "depth" else 1
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise UsageError(f"suffice({name}={value!r}): a whole number, {least} at least")
    elif name in {"in_slices", "rerun"}:
        if not isinstance(value, bool):
            raise UsageError(f"suffice({name}={value!r}): True or False")
    elif not isinstance(value, str | Path):
        raise UsageError(f"suffice({name}={value!r}): a text")


def _check_limits(name: str, value: object) -> None:
    if name == "ceiling" and not isinstance(value, Mapping):
        raise UsageError(f"suffice(ceiling={value!r}): values by metric, such as {{'ttft': 2.0}}")
    for metric, number in _by_metric(value).items():
        usable = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number <= LARGEST_FIGURE
        # Bytes go beyond what a rate or a time may be.
        if not usable and not (name == "ceiling" and isinstance(number, int) and number > 0):
            raise UsageError(f"suffice({name}={value!r}): {metric} is no positive number")


def _by_metric(value: Any) -> dict[str, float]:  # noqa: ANN401  # a number or a mapping; checked by its caller
    return {str(metric): number for metric, number in value.items()} if isinstance(value, Mapping) else {DECODE: value}


def _budget_s(budget: str | float) -> float:
    try:
        return parse_duration_s(str(budget))
    except ValueError as error:
        raise UsageError(f"suffice(budget={budget!r}): {error}") from error
