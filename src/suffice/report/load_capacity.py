"""A search for a server's capacity as text, with its curve, and as a picture."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from suffice.load.capacity_result import CapacityStatus
from suffice.model.capacity import LevelVerdict
from suffice.model.capacity_search import CapacityOf
from suffice.report.tables import one_line, plain_table
from suffice.units import format_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.load.capacity_result import CapacityResult, CapacitySettings, LevelResult, Metric, Times
    from suffice.model.capacity import Criterion

_BAR: Final = 40
_NUMBER: Final = re.compile(r"\d[\d.,]*")
_WHOLE: Final = 0.9  # of its duration: the last arrival of an open loop comes somewhat before its end
_MARKS: Final = {LevelVerdict.HOLDS: "holds", LevelVerdict.FAILS: "FAILS", LevelVerdict.UNDECIDED: "undecided"}


def capacity_text(result: CapacityResult) -> str:
    """The answer, the levels in order of load, the curve, and what is wrong with any of it."""
    settings = result.settings
    parts = [
        one_line(f"{settings.url}  model {settings.model or 'unnamed'}"),
        _load_words(settings),
        "limits: " + "; ".join(criterion_words(one) for one in settings.criteria),
    ]
    if result.interrupted:
        parts.append("INTERRUPTED: what follows is of the levels that were tried.")
    if result.ended_early:
        parts.append(one_line(f"ENDED EARLY: {result.ended_early}."))
    parts += ["", _answer(result)]
    levels = sorted(result.levels, key=lambda level: level.level)
    if result.idle is not None:
        parts += ["", _table(result.idle, levels), "", *_curve(levels)]
        parts += ["", *_reasons(result, levels), *_doubts(result, levels)]
    return "\n".join(parts).rstrip()


def criterion_words(criterion: Criterion) -> str:
    """A criterion in words: "TTFT within 2.00 s and TPOT within 100.0 ms for 95 % of the attempts"."""
    limits = criterion.limits
    pairs = (("TTFT", limits.ttft_s), ("TPOT", limits.tpot_s), ("E2E", limits.e2e_s))
    words = " and ".join(f"{name} within {format_seconds(limit)}" for name, limit in pairs if limit is not None)
    return f"{words} for {criterion.share * 100:g} % of the attempts"


def _load_words(settings: CapacitySettings) -> str:
    if settings.of is CapacityOf.USERS:
        how = "users of a closed loop"
    else:
        shape = f" (burstiness {settings.burstiness:g})" if settings.arrivals == "gamma" else ""
        how = f"rates of an open loop, {settings.arrivals} arrivals{shape}"
    length = "as the model likes" if settings.output_tokens is None else f"{settings.output_tokens} tokens"
    return f"{how}; prompts {settings.prompts}; answers {length}"


def _unit(result: CapacityResult) -> str:
    return "users" if result.settings.of is CapacityOf.USERS else "requests/s"


def _answer(result: CapacityResult) -> str:
    found, unit = result.capacity, _unit(result)
    confidence = f"confidence {result.settings.confidence:.0%}"
    if result.status is CapacityStatus.NONE_HOLDS:
        return f"capacity    none: {result.status} ({confidence})"
    held = "nothing proven" if found.held is None else f"{found.held:.4g} {unit}"
    failed = "nothing proven" if found.failed is None else f"{found.failed:.4g} {unit}"
    if result.status is CapacityStatus.FOUND:
        return f"capacity    holds at {held}, fails at {failed} ({confidence}); in between nothing is proven"
    return f"capacity    {result.status}; holds at: {held}; fails at: {failed}\nnext        {next_step(result)}"


def next_step(result: CapacityResult) -> str:
    """How a search that was left undecided goes on: with --resume, and with more of what it ran out of."""
    again = "the same command with --resume (it needs the file of --out)"
    if result.status is CapacityStatus.INTERRUPTED:
        return f"go on with {again}"
    if result.ended_early is not None:
        return f"find out what ails the server, then go on with {again}"
    open_ends = _open_ends(result)
    if open_ends and all(one.client_is_bottleneck for one in open_ends):
        if all(one.client_starved for one in open_ends):
            return "leave the client a core (fewer threads for the server: --threads with --spawn) or give it another machine, then search again"
        return "give the client a core of its own or another machine, then search again"
    return f"go on with {again} and {_more(result, open_ends)}"


def _open_ends(result: CapacityResult) -> list[LevelResult]:
    """Levels between what holds and what fails that were tried at length and told nothing."""
    found = result.capacity
    low, high = found.held or 0.0, math.inf if found.failed is None else found.failed
    tried = [one for one in result.levels if one.thorough and low < one.level < high]
    return [one for one in tried if one.verdict is LevelVerdict.UNDECIDED]


def _more(result: CapacityResult, open_ends: Sequence[LevelResult]) -> str:
    """The flags that give the search more of what it ran out of."""
    settings = result.settings
    short = [_ran_out_of_time(one) for one in open_ends]
    used_up = len(result.levels) >= settings.most_probes
    flags = []
    if not all(short) or not (short or used_up):
        flags.append(f"more --requests (had {settings.requests} a level)")
    if any(short):
        flags.append(f"a longer --duration (had {settings.duration_s:g} s a level)")
    if used_up or open_ends:
        flags.append(f"a higher --most-probes (had {settings.most_probes}, used {len(result.levels)})")
    return " and ".join(flags)


def _ran_out_of_time(level: LevelResult) -> bool:
    """Whether the level ended by its duration, before its requests were sent."""
    if level.most_s is None or level.most_requests is None:
        return False
    return level.attempted + level.cut_off < level.most_requests and level.length_s >= _WHOLE * level.most_s


def level_words(level: LevelResult, settings: CapacitySettings) -> str:
    """A level's load and how long it was tried."""
    unit = "users" if settings.of is CapacityOf.USERS else "requests/s"
    return f"{level.level:.4g} {unit}{'' if level.thorough else ', briefly'}"


def _table(idle: LevelResult, levels: Sequence[LevelResult]) -> str:
    head = ["load", "answered", "requests", "TTFT P50", "P95", "TPOT P50", "P95", "E2E P95"]
    head += ["tokens/s", "attained", "verdict"]
    rows = [_row(level) for level in levels]
    return plain_table([head, ["one user", *_row(idle)[1:-1], "-"], *rows]) + (
        "\nTimes of all attempts, failures infinitely slow; their intervals and P99 are in the JSON document."
        "\nThe interval of the attained share counts attempts that are late together as fewer."
    )


def _row(level: LevelResult) -> list[str]:
    worst = min(level.criteria, key=lambda one: one.attained if one.attained is not None else 0.0)
    attained = "-" if worst.attained is None else f"{worst.attained:.1%}"
    if worst.low is not None and worst.high is not None:
        attained += f" [{worst.low:.0%}, {worst.high:.0%}]"
    failed = level.attempted - level.succeeded
    return [
        f"{level.level:.4g}",
        "-" if level.requests_per_second is None else f"{level.requests_per_second:.4g}/s",
        f"{level.attempted}" + (f" ({failed} failed)" if failed else ""),
        *_cells(level.ttft),
        *_cells(level.tpot),
        _cells(level.e2e)[1],
        "-" if level.output_tokens_per_second is None else f"{level.output_tokens_per_second:.4g}",
        attained,
        _verdict(level),
    ]


def _verdict(level: LevelResult) -> str:
    words = _MARKS[level.verdict]
    if level.verdict is LevelVerdict.UNDECIDED and not level.thorough:
        words = "looks good" if level.good else "looks bad"
    return words + (" (client)" if level.client_is_bottleneck else "")


def _cells(metric: Metric | None) -> tuple[str, str]:
    return ("-", "-") if metric is None else (_cell(metric.p50), _cell(metric.p95))


def _cell(times: Times) -> str:
    return "unbounded" if times.observed_s is None else format_seconds(times.observed_s)


def _reasons(result: CapacityResult, levels: Sequence[LevelResult]) -> list[str]:
    """Why levels failed, why those that were tried at length were left undecided, and why some look bad though they keep the limits."""
    told = [
        one
        for one in levels
        if one.because and (one.thorough or one.verdict is LevelVerdict.FAILS or _kept(one, result))
    ]
    return [one_line(f"{level_words(one, result.settings)}: {one.because}") for one in told]


def _kept(level: LevelResult, result: CapacityResult) -> bool:
    """Whether a level that does not look good attained what the limits ask for."""
    pairs = zip(level.criteria, result.settings.criteria, strict=False)
    return not level.good and all(one.attained is not None and one.attained >= asked.share for one, asked in pairs)


def _doubts(result: CapacityResult, levels: Sequence[LevelResult]) -> list[str]:
    """What is doubtful about levels, each kind once, in the words of the first, with the loads at which it is so."""
    kinds: dict[str, dict[str, str]] = {}
    alone = [] if result.idle is None else [(result.idle, "one user alone")]
    for level, where in [*alone, *((one, f"{one.level:.4g}") for one in levels)]:
        for warning in level.warnings:
            kinds.setdefault(_NUMBER.sub("#", warning), {}).setdefault(where, warning)
    return [one_line(f"warning: {_where(said, _unit(result))}: {next(iter(said.values()))}") for said in kinds.values()]


def _where(said: dict[str, str], unit: str) -> str:
    """The loads at which something is so, and of which of them the numbers are that follow."""
    loads = [place for place in said if place[0].isdigit()]
    named = [place for place in said if place not in loads] + ([f"{', '.join(loads)} {unit}"] if loads else [])
    numbers = f" (the numbers are those of {next(iter(said))})" if len(set(said.values())) > 1 else ""
    return " and ".join(named) + numbers


def _curve(levels: Sequence[LevelResult]) -> list[str]:
    """Bars of the P95 of TTFT and TPOT, and of the throughput, against load."""
    lines = []
    levels = list({one.level: one for one in sorted(levels, key=lambda one: one.thorough)}.values())  # the longer try
    levels.sort(key=lambda one: one.level)
    pairs = (
        ("TTFT P95", [(one, None if one.ttft is None else one.ttft.p95.observed_s) for one in levels], format_seconds),
        ("TPOT P95", [(one, None if one.tpot is None else one.tpot.p95.observed_s) for one in levels], format_seconds),
        ("tokens/s", [(one, one.output_tokens_per_second) for one in levels], lambda value: f"{value:.4g}"),
    )
    for name, values, words in pairs:
        most = max((value for _, value in values if value is not None), default=0.0)
        if most <= 0:
            continue
        lines.append(name)
        for level, value in values:
            bar = "unbounded" if value is None else f"{'█' * max(1, round(_BAR * value / most))} {words(value)}"
            lines.append(f"{level.level:>8.4g}  {bar}")
    return lines
