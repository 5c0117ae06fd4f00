"""Loads that somebody put on servers: those that were judged, and those that are only shown."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from suffice.decide.served_load import judge_load, need_of
from suffice.decide.served_words import stands_text
from suffice.model.served import LoadKind
from suffice.model.served_range import served_range
from suffice.report.page.latency_charts import LEAST_POINTS, Curve, latency_picture
from suffice.report.page.model import Listing, Table, Text, english
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.served_load import LoadStanding
    from suffice.model.served import ServedLoad
    from suffice.model.served_range import ServedRange
    from suffice.report.page.given import PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words

_FRACTIONS: Final = (0.5, 0.95)
_PERCENT: Final = 100
_METRICS: Final = ("ttft_s", "tpot_s")
_LEVELS: Final = (LoadKind.USERS, LoadKind.RATE)


def loads_blocks(given: PageInput, words: Words) -> list[Block]:
    """One table of all loads, curves of those that are of one server, and what is to be said of them."""
    need = need_of(given.demand)
    standings = [one for served in given.decision.served for one in served.standings]
    known = {one.load.source for one in standings}
    standings += [judge_load(need, load) for load in given.loads if load.source not in known]
    if not standings:
        return []
    standings.sort(key=lambda one: (one.load.server or "", one.load.model or "", one.load.kind, one.load.asked or 0.0))
    blocks: list[Block] = [_table(standings, words)]
    limits = {limit.metric: limit.seconds for limit in need.limits}
    for level_loads in _groups([one.load for one in standings]):
        group, doubtful = _shown(level_loads)
        for metric in _METRICS:
            picture = latency_picture(
                metric,
                group[0].kind.value,
                _curves(group, metric),
                words,
                limit_s=limits.get(metric),
                doubtful=doubtful,
            )
            blocks += [] if picture is None else [picture]
    told = [f"{one.load.source}: {'; '.join(found)}" for one in standings if (found := (*one.reasons, *one.failures))]
    return [*blocks, Listing(items=tuple(english(one_line(one)) for one in told))] if told else blocks


def _groups(loads: Sequence[ServedLoad]) -> list[list[ServedLoad]]:
    """Loads that are points of one curve: of one server and model, of one kind."""
    groups: dict[tuple[str | None, str | None, LoadKind], list[ServedLoad]] = {}
    for load in loads:
        if load.kind in _LEVELS and load.asked is not None:
            groups.setdefault((load.server, load.model, load.kind), []).append(load)
    return [_longest_of_each_level(group) for group in groups.values()]


def _longest_of_each_level(group: Sequence[ServedLoad]) -> list[ServedLoad]:
    """In order of load; of a level that was tried several times the run with most attempts."""
    by_attempts = sorted(group, key=lambda load: load.attempted or 0)
    return sorted({load.asked: load for load in by_attempts}.values(), key=lambda load: load.asked or 0.0)


def _shown(group: list[ServedLoad]) -> tuple[list[ServedLoad], bool]:
    """Loads of which something can be judged, where they make a curve; else all of them, and that nothing can."""
    sound = [load for load in group if not load.problems]
    return (sound, False) if len(sound) >= LEAST_POINTS else (group, len(sound) < len(group))


def _curves(group: Sequence[ServedLoad], metric: str) -> tuple[Curve, ...]:
    return tuple(
        Curve(
            percent=f"{fraction * _PERCENT:g}",
            points=tuple(
                (load.asked or 0.0, seen.point) for load in group if (seen := _seen(load, metric, fraction)) is not None
            ),
        )
        for fraction in _FRACTIONS
    )


def _seen(load: ServedLoad, metric: str, fraction: float) -> ServedRange | None:
    """A percentile over all attempts, failures infinitely slow; None where the file has no such time."""
    times = load.ttft if metric == "ttft_s" else load.tpot
    return None if times is None else served_range(times, fraction, load.failed, load.cut_off)


def _table(standings: Sequence[LoadStanding], words: Words) -> Table:
    names = [f"{words(f'metric.{metric}')} P{fraction * _PERCENT:g}" for metric in _METRICS for fraction in _FRACTIONS]
    return Table(
        caption=words.text("load.measured.table"),
        header=(
            *(words.text(f"column.{name}") for name in ("file", "load", "attempts", "failed")),
            *(Text(text=name) for name in names),
            words.text("column.output"),
            words.text("column.shows"),
        ),
        rows=tuple(_row(one, words) for one in standings),
    )


def _row(standing: LoadStanding, words: Words) -> tuple[Text, ...]:
    load = standing.load
    level = words.number(load.asked, load.kind.value) if load.asked is not None else words("unknown")
    rate = load.output_tokens_per_s
    return (
        Text(text=one_line(load.source), is_code=True),
        Text(text=level, value=load.asked, unit=load.kind.value),
        _count(load.attempted, words),
        _count(load.failed, words),
        *(_cell(_seen(load, metric, fraction), words) for metric in _METRICS for fraction in _FRACTIONS),
        words.text("unknown") if rate is None else Text(text=f"{rate:.4g}", value=rate, unit="tokens/s"),
        words.text(f"shows.{stands_text(standing)}"),
    )


def _count(value: int | None, words: Words) -> Text:
    return words.text("unknown") if value is None else Text(text=f"{value}", value=float(value))


def _cell(found: ServedRange | None, words: Words) -> Text:
    if found is None:
        return words.text("unknown")
    text = words.number(found.point, "s")
    if not found.supported:
        text = words("percentile.unsupported", value=text, samples=f"{found.attempts}", needed=f"{found.needed}")
    elif found.low is None:
        text = words("brackets", outside=text, inside=words("range.none"))
    elif found.high is None:
        text = words("brackets", outside=text, inside=words("range.no_high", low=words.number(found.low, "s")))
    else:
        low, high = words.number(found.low, "s"), words.number(found.high, "s")
        text = words("percentile.range", value=text, low=low, high=high)
    return Text(text=text, value=found.point if math.isfinite(found.point) else None, unit="s")
