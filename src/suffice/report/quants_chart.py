"""Speed against quality as a picture: a point for each model with its intervals, the demand's floor and need as lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.quants_speed import Front
from suffice.decide.quants_words import score_word
from suffice.errors import OutputError
from suffice.report.pictures import drawing, save
from suffice.report.tables import one_line, shortened

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

    from suffice.decide.quants_conclusion import Conclusions

_NAME_CHARACTERS: Final = 28
_POINTS_PER_INCH: Final = 72
_BAR_COST: Final = 0.1  # of crossing a bar, which a name may where there is no other place
_FRONT, _DOMINATED, _LIMIT = "#4c78a8", "#888888", "#e45756"
# Where a name may stand beside its point, in points: near ones first, each with the corner that touches.
_PLACES: Final = tuple(
    (dx * reach, dy * reach, "left" if dx > 0 else "right" if dx < 0 else "center")
    for reach in (7, 16, 28, 42, 60, 80)
    for dx, dy in ((1, 1), (1, -1), (-1, 1), (-1, -1), (0, 1.4), (0, -1.4), (1.4, 0), (-1.4, 0))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Point:
    """One model: ``x`` tokens/s, ``y`` its score, each as (low, value, high)."""

    name: str
    x: tuple[float, float, float]
    y: tuple[float, float, float]
    dominated: bool
    busy: bool


def is_drawable(conclusions: Conclusions) -> bool:
    """Whether there is a model of which both decode speed and score are known."""
    return bool(_points(conclusions))


def write_quants_chart(
    path: Path, conclusions: Conclusions, need_tokens_per_second: float | None = None, margin: float = 1.0
) -> None:
    """Decode speed against mean score with their intervals; the policy's floor and the needed speed are lines.

    Models of which speed or score is unknown are not drawn, and counted in the title; those that were measured on a busy machine are hollow.

    Args:
        path: ends with .svg or .png.
        conclusions: what is drawn.
        need_tokens_per_second: the demand's decode rate; None: nobody said.
        margin: the demand's; a second line stands at the need times this.

    Raises:
        OutputError: it cannot be written, or there is nothing to draw (:func:`is_drawable`).
    """
    from matplotlib import rc_context  # noqa: PLC0415  # an optional extra, and slow to import

    if not is_drawable(conclusions):
        raise OutputError(
            f"{path} is not written: of no model both decode speed and score are known, so there is nothing to draw"
        )
    with drawing(), rc_context({"svg.hashsalt": "suffice"}):  # the same names of shapes for the same figure
        save(_figure(conclusions, need_tokens_per_second, margin), path)


def _points(conclusions: Conclusions) -> list[_Point]:
    points = []
    for model, speed, front in zip(conclusions.quality.models, conclusions.speeds, conclusions.fronts, strict=True):
        if model.mean is None or speed.decode is None:
            continue
        rate, ends = speed.decode, model.interval
        points.append(
            _Point(
                name=shortened(one_line(model.name), _NAME_CHARACTERS),
                x=(
                    rate.point if rate.low is None else rate.low,
                    rate.point,
                    rate.point if rate.high is None else rate.high,
                ),
                y=(model.mean, model.mean, model.mean) if ends is None else (ends.low, model.mean, ends.high),
                dominated=front.standing is Front.DOMINATED,
                busy=speed.disturbed is True,
            )
        )
    return points


def _figure(conclusions: Conclusions, need: float | None, margin: float = 1.0) -> Figure:
    from matplotlib.figure import Figure  # noqa: PLC0415  # an optional extra, and slow to import

    points = _points(conclusions)
    figure = Figure(figsize=(8, 5.5), layout="constrained")
    axes = figure.subplots()
    for point in points:
        _draw(axes, point)
    _lines(axes, conclusions.quality.policy.floor, need, margin)
    if any(point.busy for point in points):
        axes.plot([], [], "o", color=_FRONT, markerfacecolor="none", label="hollow: busy machine, at least this fast")
    binary = all(model.is_binary for model in conclusions.quality.models)
    axes.set_xlabel("decode, tokens/s of one stream (95 % interval)")
    axes.set_ylabel(f"{score_word(is_binary=binary)} ({conclusions.quality.policy.confidence:.0%} interval)")
    axes.yaxis.set_major_formatter(_percent)
    missing = len(conclusions.quality.models) - len(points)
    title = f"Speed against quality, {conclusions.quality.labelled:,} labelled items"
    title += f"; {missing} of {missing + len(points)} models not drawn: speed or score unknown" if missing else ""
    axes.set_title(title, fontsize="medium")
    axes.grid(visible=True, alpha=0.25)
    axes.margins(0.12)
    _keep_in_range(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower left", framealpha=0.85)
    _name(figure, axes, points)
    return figure


def _percent(value: float, _position: object) -> str:
    return f"{100 * value:g} %"


def _draw(axes: Axes, point: _Point) -> None:
    colour = _DOMINATED if point.dominated else _FRONT
    (x_low, x, x_high), (y_low, y, y_high) = point.x, point.y
    errors: dict[str, Any] = {
        "xerr": ([max(0.0, x - x_low)], [max(0.0, x_high - x)]),
        "yerr": ([max(0.0, y - y_low)], [max(0.0, y_high - y)]),
    }
    axes.errorbar(
        [x],
        [y],
        **errors,
        fmt="o",
        color=colour,
        ecolor=colour,
        elinewidth=1,
        capsize=3,
        alpha=0.9,
        mfc="none" if point.busy else colour,
    )


def _lines(axes: Axes, floor: float | None, need: float | None, margin: float) -> None:
    if floor is not None and floor > 0:
        axes.axhline(floor, color=_LIMIT, linestyle="--", label=f"floor {100 * floor:.4g} %")
    if need is not None:
        axes.axvline(need, color=_LIMIT, label=f"need {need:.4g} tokens/s")
    if need is not None and margin > 1:
        with_margin = f"with the margin of {margin:g}: {need * margin:.4g} tokens/s"
        axes.axvline(need * margin, color=_LIMIT, linestyle=":", label=with_margin)


def _keep_in_range(axes: Axes) -> None:
    """Speeds from 0 on, so that twice as far is twice as fast; scores no further than they can be, with room for the marks."""
    axes.set_xlim(0, 1.1 * axes.get_xlim()[1])
    low, high = axes.get_ylim()
    axes.set_ylim(max(low, -0.03), min(high, 1.03))


def _name(figure: Figure, axes: Axes, points: Sequence[_Point]) -> None:
    """Each name where it covers no other name, point or legend, with a thin line to its point where that is not near."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415  # as above

    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # type: ignore[no-untyped-call]
    figure.set_layout_engine("none")  # names are placed in the layout as it is now
    taken = [_around(axes, point) for point in points]
    bars = [bar for point in points for bar in _bars(axes, point)]
    legend = axes.get_legend()
    if legend is not None:
        taken.append(legend.get_window_extent())
    inside = axes.get_window_extent()

    def cost(box: Bbox) -> float:
        covered = sum(_overlap(box, other) for other in taken) + box.width * box.height - _overlap(box, inside)
        return covered + _BAR_COST * max(_overlap(box, bar) for bar in bars)

    for point in points:
        label = axes.annotate(
            point.name,
            (point.x[1], point.y[1]),
            xytext=(0, 0),
            textcoords="offset points",
            fontsize="small",
            parse_math=False,  # a $ in a name is a $
        )
        size = label.get_window_extent()
        boxes = {place: _beside(axes, point, size, place) for place in _PLACES}
        best = min(_PLACES, key=lambda place, boxes=boxes: cost(boxes[place]))  # type: ignore[misc]  # the first of equals
        taken.append(boxes[best])
        label.remove()
        _label(axes, point, best)


def _beside(axes: Axes, point: _Point, size: Bbox, place: tuple[float, float, str]) -> Bbox:
    """Where a name of that size is, in pixels, when it stands at a place beside its point."""
    from matplotlib.transforms import Bbox  # noqa: PLC0415  # as above

    dx, dy, side = place
    pixels_per_point = axes.figure.dpi / _POINTS_PER_INCH
    x, y = axes.transData.transform((point.x[1], point.y[1]))
    left = x + dx * pixels_per_point - size.width * {"left": 0.0, "center": 0.5, "right": 1.0}[side]
    bottom = y + dy * pixels_per_point - size.height * (0.0 if dy > 0 else 1.0 if dy < 0 else 0.5)
    return Bbox.from_bounds(left, bottom, size.width, size.height)


def _label(axes: Axes, point: _Point, place: tuple[float, float, str]) -> None:
    dx, dy, side = place
    far = abs(dx) + abs(dy) > 2 * _PLACES[0][0]
    axes.annotate(
        point.name,
        (point.x[1], point.y[1]),
        xytext=(dx, dy),
        textcoords="offset points",
        ha=side,
        va="bottom" if dy > 0 else "top" if dy < 0 else "center",
        fontsize="small",
        parse_math=False,
        arrowprops={"arrowstyle": "-", "color": "#888888", "linewidth": 0.6, "shrinkA": 0} if far else None,
    )


def _around(axes: Axes, point: _Point) -> Bbox:
    """The mark of a point with a little room, in pixels."""
    from matplotlib.transforms import Bbox  # noqa: PLC0415  # as above

    x, y = axes.transData.transform((point.x[1], point.y[1]))
    return Bbox.from_extents(x - 6, y - 6, x + 6, y + 6)


def _bars(axes: Axes, point: _Point) -> list[Bbox]:
    """The two bars of a point, in pixels, some pixels wide."""
    from matplotlib.transforms import Bbox  # noqa: PLC0415  # as above

    (x_low, y_low), (x, y), (x_high, y_high) = (
        axes.transData.transform((x, y)) for x, y in zip(point.x, point.y, strict=True)
    )
    return [Bbox.from_extents(x - 2, y_low, x + 2, y_high), Bbox.from_extents(x_low, y - 2, x_high, y + 2)]


def _overlap(one: Bbox, other: Bbox) -> float:
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return width * height if width > 0 and height > 0 else 0.0
