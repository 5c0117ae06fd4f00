"""The comparison as a picture, by matplotlib where it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.records.store import write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.decide.ranking import Candidate
    from suffice.model.demand import Demand

_FORMATS: Final = (".svg", ".png")


def check_chart(path: Path) -> None:
    """Refuse what cannot be drawn, before anything is measured.

    Raises:
        UsageError: another format, or matplotlib is not installed.
    """
    if path.suffix.lower() not in _FORMATS:
        raise UsageError(f"--chart {path}: draws {' or '.join(_FORMATS)}; give the file such a name")
    if find_spec("matplotlib") is None:
        raise UsageError("--chart needs matplotlib; install it with: pip install 'suffice[charts]'")


def write_chart(path: Path, candidates: Sequence[Candidate], demand: Demand | None) -> None:
    """Bars of decode rates with their intervals, lines for the need and the need times the margin."""
    from matplotlib.figure import Figure  # noqa: PLC0415  # an optional extra, and slow to import

    known = [(one.name, one.decode) for one in candidates if one.decode is not None]
    figure = Figure(figsize=(8, 1.5 + 0.45 * len(known)), layout="constrained")
    axes = figure.subplots()
    points = [rate.point for _, rate in known]
    low = [rate.point - (rate.point if rate.low is None else rate.low) for _, rate in known]
    high = [(rate.point if rate.high is None else rate.high) - rate.point for _, rate in known]
    positions = range(len(known))
    axes.barh(positions, points, xerr=(low, high), capsize=3, color="#4c78a8")
    # No mathematics in names of models: a $ in one is a $.
    axes.set_yticks(positions, labels=[name.replace("$", r"\$") for name, _ in known])
    axes.invert_yaxis()
    axes.set_xlabel("decode, tokens/s of one stream (95 % interval)")
    need = None if demand is None else demand.required_decode_tokens_per_second
    if need is not None and demand is not None:
        axes.axvline(need, color="#e45756", label=f"need {need:g}")
        axes.axvline(need * demand.margin, color="#e45756", linestyle="--", label=f"with margin {demand.margin:g}")
        axes.legend()
    picture = BytesIO()
    figure.savefig(
        picture,
        format=path.suffix.lower().removeprefix("."),
        metadata={"Date": None} if path.suffix.lower() == ".svg" else None,
    )
    write_atomically(path, picture.getvalue())
