"""Service curves as JSON documents; docs/serving.md has the form."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.model.basis import Basis
from suffice.serving.curve import DEFAULT_REACH, ServiceCurve, curve_of_physics, curve_of_points
from suffice.serving.surface import PassPhysics, Point
from suffice.units import GIGA, LARGEST_FIGURE, TERA

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CURVE_VERSION: Final = 1
_MOST_POINTS: Final = 10_000
_MOST_SIZE: Final = TERA  # tokens or sequences: what is over it is a slip
_HEAD: Final = frozenset({"schema_version", "name", "basis", "reach"})
_MEASURED: Final = _HEAD | {"decode", "prefill"}
_COMPUTED: Final = _HEAD | {"physics"}
_PHYSICS: Final = {
    "weight_bytes": "weight_bytes",
    "bandwidth_bytes_per_s": "bandwidth_bytes_per_s",
    "kv_bytes_per_token": "kv_bytes_per_token",
    "flop_per_token": "flop_per_token",
    "attention_flop_per_token_of_depth": "attention_flop",
    "flop_per_s": "flop_per_s",
    "fixed_s": "fixed_s",
    "expert_bytes": "expert_bytes",
    "expert_share": "expert_share",
}
_MOST_BYTES: Final = float(GIGA * GIGA)
_MOST_FLOP: Final = float(TERA * TERA)
# What no machine or model is beyond, whatever the unit: 0, or 1e-9 and more (of what is divided by: 1), up to these.
_MOST_PHYSICS: Final = {
    "weight_bytes": _MOST_BYTES,
    "bandwidth_bytes_per_s": _MOST_BYTES,
    "kv_bytes_per_token": _MOST_BYTES,
    "flop_per_token": _MOST_FLOP,
    "attention_flop_per_token_of_depth": _MOST_FLOP,
    "flop_per_s": _MOST_FLOP,
    "fixed_s": LARGEST_FIGURE,
    "expert_bytes": _MOST_BYTES,
    "expert_share": 1.0,
}
_RATES: Final = frozenset({"bandwidth_bytes_per_s", "flop_per_s"})
_NEEDED_PHYSICS: Final = ("weight_bytes", "bandwidth_bytes_per_s")


def curve_of_document(document: object, where: str) -> ServiceCurve:
    """A curve from a parsed JSON document.

    Args:
        document: of points (``decode``, ``prefill``) or of ``physics``.
        where: the file, for messages.

    Raises:
        RecordError: a field is missing, unknown, or of no sensible value; the sentence names it.
    """
    if not isinstance(document, dict):
        raise RecordError(f"{where} is no service curve: it needs a JSON object; see docs/serving.md")
    version = document.get("schema_version")
    if version != CURVE_VERSION or isinstance(version, bool):
        raise RecordError(
            f"{where}: schema_version is {version!r}; this suffice reads service curves of version {CURVE_VERSION}"
        )
    name, reach = _text(document.get("name", ""), f"{where}: name"), document.get("reach", DEFAULT_REACH)
    computed = "physics" in document
    _only(document, _COMPUTED if computed else _MEASURED, where)
    basis = _basis(document.get("basis", Basis.CEILING if computed else Basis.MEASURED), where)
    try:
        if computed:
            return curve_of_physics(_physics(document["physics"], where), basis=basis, name=name)
        return curve_of_points(
            _points(document.get("decode"), "decode", "batch", where),
            _points(document.get("prefill"), "prefill", "tokens", where),
            basis=basis,
            name=name,
            reach=_number(reach, f"{where}: reach"),
        )
    except ValueError as error:
        raise RecordError(f"{where}: {error}") from error


def document_of_curve(curve: ServiceCurve) -> dict[str, Any]:
    """The JSON document of a curve; ``curve_of_document`` reads it back to the same seconds."""
    head: dict[str, Any] = {"schema_version": CURVE_VERSION, "name": curve.name, "basis": curve.basis.value}
    if curve.physics is not None:
        values = asdict(curve.physics)
        return head | {"physics": {key: values[field] for key, field in _PHYSICS.items() if values[field] is not None}}
    return head | {
        "reach": curve.reach,
        "decode": _rows(curve.decode_points, "batch"),
        "prefill": _rows(curve.prefill_points, "tokens"),
    }


def _rows(points: Sequence[Point], size: str) -> list[dict[str, float]]:
    return [{size: point.size, "depth_tokens": point.depth, "seconds": point.seconds} for point in points]


def _physics(value: object, where: str) -> PassPhysics:
    if not isinstance(value, dict):
        raise RecordError(f"{where}: physics is an object with weight_bytes and bandwidth_bytes_per_s")
    _only(value, frozenset(_PHYSICS), f"{where}: physics")
    for key in _NEEDED_PHYSICS:
        if key not in value:
            raise RecordError(f"{where}: physics lacks {key}")
    return PassPhysics(**{_PHYSICS[key]: _amount(number, key, where) for key, number in value.items()})


def _amount(value: object, key: str, where: str) -> float:
    """A number of physics: 0, or what a machine can have."""
    number, name = _number(value, f"{where}: physics.{key}"), f"{where}: physics.{key}"
    least, most = 1.0 if key in _RATES else 1 / LARGEST_FIGURE, _MOST_PHYSICS[key]
    if number > most or 0 < number < least:
        raise RecordError(f"{name} is {number:g}; no machine or model is beyond {least:g} to {most:g}")
    return number


def _points(value: object, what: str, size: str, where: str) -> list[Point]:
    if not isinstance(value, list) or not value:
        raise RecordError(f"{where}: {what} is a list of points with {size}, depth_tokens and seconds")
    if len(value) > _MOST_POINTS:
        raise RecordError(f"{where}: {what} has {len(value)} points, more than {_MOST_POINTS}")
    return [_point(row, size, f"{where}: {what}[{place}]") for place, row in enumerate(value)]


def _point(row: object, size: str, where: str) -> Point:
    if not isinstance(row, dict):
        raise RecordError(f"{where} is no object with {size}, depth_tokens and seconds")
    _only(row, frozenset({size, "depth_tokens", "seconds"}), where)
    number = _number(row.get(size), f"{where}.{size}")
    if number != math.floor(number) or number > _MOST_SIZE:
        raise RecordError(f"{where}.{size} is {number:g}; it is a whole number up to {_MOST_SIZE:g}")
    depth, seconds = (
        _number(row.get("depth_tokens", 0), f"{where}.depth_tokens"),
        _number(row.get("seconds"), f"{where}.seconds"),
    )
    if depth > _MOST_SIZE or 0 < depth < 1 / LARGEST_FIGURE:
        raise RecordError(f"{where}.depth_tokens is {depth:g}; it is a number of tokens up to {_MOST_SIZE:g}")
    if not 1 / LARGEST_FIGURE <= seconds <= LARGEST_FIGURE:
        raise RecordError(
            f"{where}.seconds is {seconds:g}; a pass takes from {1 / LARGEST_FIGURE:g} to {LARGEST_FIGURE:g} s"
        )
    return Point(size=int(number), depth=depth, seconds=seconds)


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(f"{where} is {'missing' if value is None else repr(value)}; it is a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RecordError(f"{where} is not a finite number")
    return number


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise RecordError(f"{where} is {value!r}; it is a text")
    return value


def _basis(value: object, where: str) -> Basis:
    known = [basis.value for basis in Basis]
    if value not in known:
        raise RecordError(f"{where}: basis is {value!r}; it is one of {', '.join(known)}")
    return Basis(str(value))


def _only(document: Mapping[Any, object], known: frozenset[str], where: str) -> None:
    unknown = sorted(str(key) for key in document if key not in known)
    if unknown:
        raise RecordError(f"{where} has {unknown[0]!r}, which nobody reads; known are {', '.join(sorted(known))}")
