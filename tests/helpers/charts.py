"""One chart of each kind, small and true to life, in English and in Chinese."""

from __future__ import annotations

from suffice.decide.verdict import Grade
from suffice.report.svg.types import (
    Along,
    Axis,
    Chart,
    CostBar,
    CostChart,
    Course,
    CrossoverChart,
    HeadroomChart,
    HeadroomRow,
    HistoryChart,
    LatencyChart,
    Limit,
    Mark,
    ParetoChart,
    Point,
    RooflineChart,
    Series,
)

LONG_NAME = "hybrid: azure/Standard_NC4as_T4_v3 and 2 x aws/c7g.8xlarge, for those that wait and for the rest"
QUANTS = (
    *(("Q2_K", 26.0, 0.68), ("Q3_K_M", 24.3, 0.79), ("Q4_0", 22.5, 0.831), ("Q4_K_M", 21.0, 0.842)),
    *(("IQ4_XS", 20.1, 0.845), ("Q5_K_M", 18.0, 0.853), ("Q6_K", 15.6, 0.856), ("Q8_0", 12.4, 0.858)),
)
_ENGLISH = (
    *("enough", "thin", "not enough", "open", "Roofline", "measured", "decode", "Headroom", "required"),
    *("required with margin", "time to first token", "users at once", "limit 8 s", "demand: 15 users"),
    *("Quality against speed", "on the front", "dominated", "mean score", "Cost of a month", "budget 900 USD"),
    *("this machine", "Cost over volume", "generated tokens a month", "same cost", "From run to run", "run", "level"),
)
_CHINESE = (
    *("足够", "偏紧", "不足", "未定", "屋顶线", "实测", "解码", "余量", "所需"),
    *("含裕量的所需", "首词元时间", "并发用户", "限值 8 秒", "需求：15 位用户"),
    *("质量与速度", "前沿", "被支配", "平均得分", "月成本", "预算 900 USD"),
    *("本机", "成本与用量", "每月生成词元", "成本相同", "各次运行", "运行", "水平"),
)


def example_charts(language: str = "en") -> tuple[Chart, ...]:
    """All kinds of charts."""
    words = dict(zip(_ENGLISH, _CHINESE if language == "zh" else _ENGLISH, strict=True))
    return (
        _roofline(words),
        _headroom(words),
        _latency(words),
        _pareto(words),
        _costs(words),
        _crossover(words),
        _history(words),
    )


def _grades(words: dict[str, str]) -> tuple[tuple[Grade, str], ...]:
    return tuple((grade, words[grade.value]) for grade in Grade)


def _roofline(words: dict[str, str]) -> RooflineChart:
    most = (Point(x=1.9, y=72, label=f"{words['decode']} 1"), Point(x=240, y=410, label="prefill 512"))
    reached = (Point(x=1.9, y=61, y_low=58, y_high=63), Point(x=240, y=212, y_low=180, y_high=240))
    return RooflineChart(
        title=words["Roofline"],
        description="Decode lies under the memory roof, prefill under the compute roof.",
        x=Axis(label="FLOP/byte"),
        y=Axis(label="GFLOP/s"),
        slope=38.2,
        peak=410,
        roof_label="38.2 GB/s, 410 GFLOP/s",
        points=(
            Series(name="ceiling", points=most, hollow=True),
            Series(name=words["measured"], points=reached),
        ),
    )


def _headroom(words: dict[str, str]) -> HeadroomChart:
    first = words["time to first token"]
    return HeadroomChart(
        title=words["Headroom"],
        description="Time to first token is thin, the sustained rate is not enough.",
        axis=Axis(label=words["Headroom"]),
        required_label=words["required"],
        margin_label=words["required with margin"],
        grade_words=_grades(words),
        rows=(
            HeadroomRow(
                label=words["decode"],
                text="31.2 tokens/s, at least 12 tokens/s",
                headroom=2.6,
                low=2.5,
                high=2.7,
                margin=1.25,
                grade=Grade.ENOUGH,
            ),
            HeadroomRow(
                label=first, text="2.61 s, at most 3.00 s", headroom=1.15, low=1.02, margin=1.25, grade=Grade.THIN
            ),
            HeadroomRow(
                label="tokens/s", text="9.1 of 12", headroom=0.76, high=0.8, margin=1.25, grade=Grade.NOT_ENOUGH
            ),
            HeadroomRow(label="memory", text="62.0 GiB of 5.1 GiB", headroom=12.1, grade=Grade.ENOUGH),
            HeadroomRow(label="quality", text="unknown", headroom=None, grade=Grade.OPEN),
        ),
    )


def _latency(words: dict[str, str]) -> LatencyChart:
    def curve(name: str, factor: float) -> Series:
        users = (1, 2, 4, 8, 12, 16, 20)
        times = [(n, factor * (0.4 + 0.02 * n * n)) for n in users]
        return Series(name=name, points=tuple(Point(x=n, y=t, y_low=0.9 * t, y_high=1.2 * t) for n, t in times))

    return LatencyChart(
        title=words["time to first token"],
        description="P90 passes 8 s above 15 users.",
        x=Axis(label=words["users at once"]),
        y=Axis(label=words["time to first token"], unit="s"),
        curves=(curve("P50", 1.0), curve("P90", 1.5), curve("P99", 2.3)),
        limits=(
            Limit(label=words["limit 8 s"], value=8),
            Limit(label=words["demand: 15 users"], value=15, along=Along.X),
        ),
    )


def _pareto(words: dict[str, str]) -> ParetoChart:
    def points(names: tuple[str, ...]) -> tuple[Point, ...]:
        return tuple(
            Point(
                x=x, y=y, x_low=0.97 * x, x_high=1.03 * x, y_low=y - 0.02, y_high=y + 0.02, label=f"Qwen2.5-7B-{name}"
            )
            for name, x, y in QUANTS
            if name in names
        )

    front = tuple(name for name, _, _ in QUANTS if name != "Q4_0")
    return ParetoChart(
        title=words["Quality against speed"],
        description="Q4_0 is dominated.",
        x=Axis(label=words["decode"], unit="tokens/s"),
        y=Axis(label=words["mean score"], percent=True, from_zero=False),
        groups=(
            Series(name=words["on the front"], points=points(front)),
            Series(name=words["dominated"], points=points(("Q4_0",)), hollow=True),
        ),
        limits=(Limit(label="80 %", value=0.8), Limit(label="15 tokens/s", value=15, along=Along.X)),
    )


def _costs(words: dict[str, str]) -> CostChart:
    return CostChart(
        title=words["Cost of a month"],
        description="This machine costs least.",
        axis=Axis(label=words["Cost of a month"], unit="USD"),
        grade_words=_grades(words),
        limits=(Limit(label=words["budget 900 USD"], value=900),),
        bars=(
            CostBar(label=words["this machine"], text="43.20 USD", amount=43.2, grade=Grade.ENOUGH),
            CostBar(
                label=LONG_NAME,
                text="1,622.00 USD (900.00 to 2,100.00)",
                amount=1622,
                low=900,
                high=2100,
                grade=Grade.THIN,
            ),
            CostBar(label="aws/g5.xlarge", text="734.38 USD", amount=734.38, grade=Grade.NOT_ENOUGH),
            CostBar(label="aws/p5.48xlarge", text="71,000.00 USD", amount=71_000, grade=Grade.ENOUGH),
            CostBar(label="deepseek-v3 (siliconflow)", text="no price", amount=None, grade=Grade.OPEN),
        ),
    )


def _crossover(words: dict[str, str]) -> CrossoverChart:
    volumes = [10 ** (5 + step / 8) for step in range(33)]
    steps = tuple(Point(x=volume, y=521.22 * (1 + int(volume / 2.5e8))) for volume in volumes)
    return CrossoverChart(
        title=words["Cost over volume"],
        description="The API is cheaper at the demand's volume.",
        x=Axis(label=words["generated tokens a month"], log=True),
        y=Axis(label=words["Cost of a month"], unit="USD"),
        lines=(
            Series(name="deepseek-v3", points=tuple(Point(x=volume, y=volume * 1.1e-6) for volume in volumes)),
            Series(name="n x aws/c7i.4xlarge", points=steps, course=Course.STEPS),
        ),
        crossings=(Mark(label=words["same cost"], x=9.5e8, y=1042.44),),
        limits=(Limit(label="60M", value=6e7, along=Along.X),),
    )


def _history(words: dict[str, str]) -> HistoryChart:
    values = [14 + 0.2 * (7 * run % 5) - (2 if run > 12 else 0) for run in range(1, 21)]
    runs = tuple(Point(x=run, y=value, y_low=value - 0.3, y_high=value + 0.3) for run, value in enumerate(values, 1))
    level = tuple(Point(x=x, y=y) for x, y in ((1, 14.4), (12, 14.4), (13, 12.4), (20, 12.4)))
    return HistoryChart(
        title=words["From run to run"],
        description="A step down after run 12.",
        x=Axis(label=words["run"], from_zero=False),
        y=Axis(label=words["decode"], unit="tokens/s", from_zero=False),
        series=(
            Series(name=words["run"], points=runs, course=Course.POINTS),
            Series(name=words["level"], points=level),
        ),
        limits=(Limit(label="10 tokens/s", value=10),),
    )
