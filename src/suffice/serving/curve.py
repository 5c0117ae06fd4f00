"""The service curve of a machine and a model: what a decode step and a chunk of a prompt cost."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from suffice.model.basis import Basis
from suffice.serving.surface import (
    DecodePhysics,
    MeasuredSurface,
    PassPhysics,
    Point,
    PrefillPhysics,
    Surface,
    surface_of_points,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEFAULT_REACH: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """The largest sizes and depths that a simulation asked a curve for."""

    batch: float = 0.0
    depth: float = 0.0
    chunk: float = 0.0


def farthest(reached: Iterable[Reached]) -> Reached:
    """The largest of what several simulations asked a curve for; nothing of none."""
    runs = tuple(reached)
    return Reached(
        batch=max((run.batch for run in runs), default=0.0),
        depth=max((run.depth for run in runs), default=0.0),
        chunk=max((run.chunk for run in runs), default=0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCurve:
    """Seconds of decode steps and of prompt chunks.

    Attributes:
        decode: seconds of a step against sequences and their mean depth.
        prefill: seconds of a chunk against its tokens and the depth at which it starts.
        basis: where the seconds come from.
        name: of machine and model, for people.
        reach: a simulation that asks beyond ``reach`` times what was measured says so.
        physics: what the curve was computed from, if it was.
        decode_points: what the curve was measured from, if it was.
        prefill_points: the same for chunks.
        notes: what is doubtful in the measurement, a sentence each.
        fast_steps: decode points of the fast end, where those measured grow with depth as nothing can; empty: they are the same.
    """

    decode: Surface
    prefill: Surface
    basis: Basis
    name: str = ""
    reach: float = DEFAULT_REACH
    physics: PassPhysics | None = None
    decode_points: tuple[Point, ...] = ()
    prefill_points: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()
    fast_steps: tuple[Point, ...] = ()
    _hash: int | None = field(default=None, init=False, repr=False, compare=False)

    def __hash__(self) -> int:
        """Of the seconds, computed once: what is known of a curve is looked up by it for each run."""
        known = self._hash
        if known is None:
            known = hash((self.decode, self.prefill))
            object.__setattr__(self, "_hash", known)
        return known

    @property
    def fast_end(self) -> ServiceCurve:
        """What the machine does at best, by the same measurement: the curve itself, or with the growth over depth that physics asks for."""
        if not self.fast_steps:
            return self
        return curve_of_points(self.fast_steps, self.prefill_points, basis=self.basis, name=self.name, reach=self.reach)

    def __post_init__(self) -> None:
        if not 1 <= self.reach < float("inf"):
            raise ValueError(f"the reach of a curve is a factor of at least 1, not {self.reach:g}")

    def decode_s(self, batch: int, depth: float) -> float:
        """Seconds of one decode step of ``batch`` sequences with ``depth`` tokens in the cache of each, on average."""
        return self.decode.at(batch, depth)

    def prefill_s(self, tokens: int, depth: float = 0.0) -> float:
        """Seconds of one pass over ``tokens`` of a prompt, of which ``depth`` are in the cache already."""
        return self.prefill.at(tokens, depth)

    def beyond(self, reached: Reached) -> tuple[str, ...]:
        """What was asked beyond the reach of the measurements, in sentences; empty for a formula."""
        flat_depth = self._only_depth()
        asked = (
            ("decode batch", "sequences", reached.batch, self.decode.largest_size),
            ("decode depth", "tokens", reached.depth, self.decode.largest_depth if flat_depth is None else None),
            ("prompt chunk", "tokens", reached.chunk, self.prefill.largest_size),
        )
        notes = [
            f"{what} {value:.0f} {unit} is beyond the {measured:.0f} that were measured: extrapolated"
            for what, unit, value, measured in asked
            if measured is not None and value > self.reach * measured
        ]
        if flat_depth is not None and reached.depth > flat_depth:
            notes.append(
                f"the curve was measured at one depth ({flat_depth:.0f} tokens), {reached.depth:.0f} were reached: "
                "depth is taken to cost nothing"
            )
        return tuple(notes)

    def _only_depth(self) -> float | None:
        """The depth at which all decode steps were measured; None when there are several, or none was measured."""
        depths = {point.depth for point in self.decode_points}
        return next(iter(depths)) if len(depths) == 1 else None

    def slower(self, factor: float) -> ServiceCurve:
        """The curve of a machine that takes ``factor`` times as long for everything (under 1: a faster one)."""
        if not 0 < factor < float("inf"):
            raise ValueError(f"a factor of time is a positive number, not {factor:g}")
        if self.physics is not None:
            work = self.physics
            return curve_of_physics(
                replace(
                    work,
                    bandwidth_bytes_per_s=work.bandwidth_bytes_per_s / factor,
                    flop_per_s=None if work.flop_per_s is None else work.flop_per_s / factor,
                    fixed_s=work.fixed_s * factor,
                ),
                basis=self.basis,
                name=self.name,
            )
        return curve_of_points(
            [replace(point, seconds=point.seconds * factor) for point in self.decode_points],
            [replace(point, seconds=point.seconds * factor) for point in self.prefill_points],
            basis=self.basis,
            name=self.name,
            reach=self.reach,
        )


def curve_of_points(
    decode: Sequence[Point],
    prefill: Sequence[Point],
    *,
    basis: Basis = Basis.MEASURED,
    name: str = "",
    reach: float = DEFAULT_REACH,
) -> ServiceCurve:
    """A curve from measured points. A chunk of one token costs what a decode step of one sequence does, unless it was measured.

    Raises:
        ValueError: no decode or no prefill points, or a reach under 1.
    """
    if not decode or not prefill:
        raise ValueError("a service curve needs decode points and prefill points")
    decoded = surface_of_points(decode)
    return ServiceCurve(
        decode=decoded,
        prefill=_with_single_tokens(decoded, prefill),
        basis=basis,
        name=name,
        reach=reach,
        decode_points=tuple(decode),
        prefill_points=tuple(prefill),
    )


def _with_single_tokens(decode: MeasuredSurface, prefill: Sequence[Point]) -> MeasuredSurface:
    measured = surface_of_points(prefill)
    if measured.sizes[0] == 1:
        return measured
    # Not above the smallest chunk: a noisy single step must not lift all chunks.
    singles = tuple(
        min(decode.at(1, depth), row) for depth, row in zip(measured.depths, measured.seconds[0], strict=True)
    )
    return replace(measured, sizes=(1.0, *measured.sizes), seconds=(singles, *measured.seconds))


def curve_of_physics(work: PassPhysics, *, basis: Basis = Basis.CEILING, name: str = "") -> ServiceCurve:
    """A curve from bytes, operations and rates: what a machine that is not at hand would do at best, or is predicted to do."""
    return ServiceCurve(
        decode=DecodePhysics(work=work), prefill=PrefillPhysics(work=work), basis=basis, name=name, physics=work
    )
