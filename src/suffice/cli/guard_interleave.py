"""``suffice guard --interleave``: two builds, models or settings measured in turns, and the ratio of each round.

What drifts on a machine drifts for both of a round alike, so this tells a loss from noise where two runs one after the other cannot.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from suffice.decide.guard_fingerprint import Comparison
    from suffice.decide.guard_types import GuardCheck, GuardResult, Metric
    from suffice.decide.paired_speed import EvenSteps
    from suffice.measure.request import RunRequest
    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate

    Steps = dict[int, list[tuple[float, ...]]]  # seconds of the steps of each repetition, by round

BASE, HEAD = "base", "head"
_MODEL_FLAGS: Final = ("--threads", "--ubatch", "--kv-type", "--flash-attention", "--prompt-tokens", "--depth")
_GGUF: Final = ".gguf"
MOST_ROUNDS: Final = 500  # of two files within a stated budget
DEFAULT_ROUNDS: Final = 12  # of commands: the least number of which one wild round moves neither end of the interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaving:
    """Two sides, how often, for how long, where their records are kept (None: nowhere), and what is compared. What nobody stated is None."""

    sides: tuple[str, str]
    rounds: int | None
    budget_s: float | None
    folder: Path | None
    metrics: tuple[Metric, ...] | None
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What two sides showed: their records, the ratios of their rounds, and what is in the way of all figures, or of some."""

    bases: Sequence[RunRecord]
    heads: Sequence[RunRecord]
    ratios: Mapping[Metric, Estimate | None]
    even: EvenSteps | None
    of_openings: float = 0.0
    lasting: float = 0.0  # scatter that more rounds leave as it is
    obstacle: str = ""
    shortened: Mapping[Metric, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def judge_interleaved(asked: Interleaving, progress: Callable[[str], None]) -> GuardResult:
    """Measure both sides in turns and judge the head against the base.

    Raises:
        UsageError: sides that cannot be measured in turns.
        SufficeError: whatever measuring raises.
    """
    models = [_is_model(side) for side in asked.sides]
    if len(set(models)) > 1:
        raise UsageError("--interleave: give two commands, or two GGUF files with their flags, not one of each")
    _check_flags(asked, are_files=models[0])
    with ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suffice-guard-")))
        if models[0]:
            return _of_models(asked, folder, progress)
        return _of_commands(asked, folder, progress)


def _check_flags(asked: Interleaving, *, are_files: bool) -> None:
    """Refuse what would be ignored."""
    if not are_files and asked.budget_s is not None:
        raise UsageError("--budget is about files; a command's own flags say how long it measures")
    if are_files and asked.rounds is not None:
        raise UsageError("--rounds is about commands; two files have as many rounds as --budget allows")
    known = _in_turns()
    other = [metric.value for metric in asked.metrics or () if metric not in known]
    if are_files and other:
        raise UsageError(
            f"--compare {','.join(other)}: of two files in turns {', '.join(known)} can be compared; give those, or two commands"
        )


def _in_turns() -> tuple[Metric, ...]:
    """What a round of two files has a ratio of: the rest is not measured step by step."""
    from suffice.decide.guard_types import Metric

    return (Metric.DECODE, Metric.PREFILL)


def _is_model(side: str) -> bool:
    """Whether a side is a GGUF file with flags, and no command."""
    from suffice.cli.guard_asked import words_of

    return next(iter(words_of(side, "--interleave")), "").lower().endswith(_GGUF)


# -- two models or settings: one process, one engine ---------------------------------------------------------------------


def _of_models(asked: Interleaving, folder: Path, progress: Callable[[str], None]) -> GuardResult:
    from suffice.cli.session import EngineChoice, Workbench
    from suffice.records.store import save_record

    flags = {name: _flags(side) for name, side in zip((BASE, HEAD), asked.sides, strict=True)}
    stated = _stated_lengths(flags.values())
    requests = {
        name: replace(_request(side, flags[name]), lengths_stated=bool(stated))
        for name, side in zip((BASE, HEAD), asked.sides, strict=True)
    }
    budget_s = asked.budget_s or sum(request.budget_s for request in requests.values())

    def save(name: str, record: RunRecord) -> None:
        save_record(record, folder / f"{name}.json")

    with Workbench(EngineChoice(name=None, library=None), longest_budget_s=budget_s, shared=True) as bench:
        most = None if asked.budget_s is None else MOST_ROUNDS
        records = bench.side_by_side(
            requests, save, progress, budget_s=budget_s, earlier={}, most_rounds=most, needs_all=True
        )
    return _judge_records(records[BASE], records[HEAD], asked, stated)


def _request(side: str, flags: Mapping[str, str]) -> RunRequest:
    from suffice.cli.asked import RunOptions
    from suffice.cli.guard_asked import words_of
    from suffice.loaders.reference import resolve_model

    whole = {name: _whole(flags.get(name), name) for name in ("--threads", "--ubatch", "--prompt-tokens", "--depth")}
    options = RunOptions(
        threads=whole["--threads"],
        ubatch=whole["--ubatch"] or RunOptions().ubatch,
        prompt_tokens=whole["--prompt-tokens"],
        depth=whole["--depth"] or 0,
        kv_type=flags.get("--kv-type", RunOptions().kv_type),
        flash_attention=flags.get("--flash-attention", RunOptions().flash_attention),
    )
    return options.request(resolve_model(words_of(side, "--interleave")[0]), None)


def _flags(side: str) -> dict[str, str]:
    """What stands behind the file of a side."""
    from suffice.cli.guard_asked import words_of

    words = words_of(side, "--interleave")[1:]
    flags = dict(zip(words[::2], words[1::2], strict=False))
    unknown = [name for name in words[::2] if name not in _MODEL_FLAGS]
    if unknown or len(words) % 2:
        raise UsageError(f"--interleave {side!r}: behind a file stand {', '.join(_MODEL_FLAGS)}, each with a value")
    return flags


def _stated_lengths(flags: Iterable[Mapping[str, str]]) -> dict[str, int]:
    """Lengths that one of the sides states; both have the same, or are refused."""
    names = {"prompt_tokens": "--prompt-tokens", "depth": "--depth"}
    told = {name: _whole(one.get(flag), flag) for one in flags for name, flag in names.items() if flag in one}
    return {name: tokens for name, tokens in told.items() if tokens is not None}


def _whole(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < (0 if flag == "--depth" else 1):
        raise UsageError(f"--interleave: {flag} {text} is not a whole number")
    return int(text)


def _judge_records(base: RunRecord, head: RunRecord, asked: Interleaving, stated: Mapping[str, int]) -> GuardResult:
    """Two records of one measurement side by side, by the rounds that they tell; ``stated``: lengths, as they were asked for."""
    from suffice.decide.guard_lengths import shortened_lengths
    from suffice.decide.guard_types import Metric
    from suffice.decide.paired_speed import (
        lasting_scatter,
        paired_decode,
        paired_even_steps,
        paired_prefill,
        scatter_of_openings,
    )

    ratios = {Metric.DECODE: paired_decode, Metric.PREFILL: paired_prefill}
    lengths = {"prompt_tokens": stated.get("prompt_tokens"), "depth": stated.get("depth")}
    found = _Found(
        bases=[base],
        heads=[head],
        ratios={metric: ratios[metric](base, head) for metric in asked.metrics or _in_turns()},
        even=paired_even_steps(base, head),
        of_openings=scatter_of_openings(base),
        lasting=lasting_scatter(base),
        shortened=shortened_lengths(head, **lengths) | shortened_lengths(base, **lengths),
        notes=_warnings_of({BASE: base, HEAD: head}),
    )
    return _result(found, asked.tolerance)


def _warnings_of(records: Mapping[str, RunRecord]) -> tuple[str, ...]:
    """What the records warn of, each once, with the side."""
    sides: dict[str, list[str]] = {}
    for name, record in records.items():
        for text in dict.fromkeys(record.warnings):
            sides.setdefault(text, []).append(name)
    return tuple(f"{' and '.join(names)}: {text}" for text, names in sides.items())


# -- two commands: a process each, once a round ---------------------------------------------------------------------------


def _of_commands(asked: Interleaving, folder: Path, progress: Callable[[str], None]) -> GuardResult:
    from suffice.cli.guard_asked import check_command, run_command
    from suffice.stats.rounds import balanced_order

    rounds = asked.rounds or DEFAULT_ROUNDS
    commands = [check_command(side, "--interleave") for side in asked.sides]
    records: dict[str, list[RunRecord]] = {BASE: [], HEAD: []}
    for number in range(rounds):
        for place in balanced_order(2, number):
            name = (BASE, HEAD)[place]
            progress(f"{name}: round {number + 1} of {rounds}")
            out = folder / f"{name}-{number + 1}.json"
            records[name].append(run_command(commands[place], out, "--interleave"))
    return _judge_rounds(records[BASE], records[HEAD], asked)


def _judge_rounds(bases: Sequence[RunRecord], heads: Sequence[RunRecord], asked: Interleaving) -> GuardResult:
    """A figure of each side a round, and the ratios of the rounds that are comparable."""
    from suffice.decide.compare_runs import DEFAULT_METRICS
    from suffice.decide.guard_fingerprint import fingerprint_of
    from suffice.decide.guard_rounds import alike_rounds

    alike = alike_rounds([fingerprint_of(one) for one in bases], [fingerprint_of(one) for one in heads])
    metrics = asked.metrics or DEFAULT_METRICS
    if alike.obstacle:
        nothing = dict.fromkeys(metrics)
        return _result(
            _Found(bases=bases, heads=heads, ratios=nothing, even=None, obstacle=alike.obstacle), asked.tolerance
        )
    kept = [[records[number] for number in alike.numbers] for records in (bases, heads)]
    ratios, even = _ratios_of_rounds(kept[0], kept[1], metrics)
    notes = (alike.note,) if alike.note else ()
    found = _Found(bases=kept[0], heads=kept[1], ratios=ratios, even=even, notes=notes)
    return _result(found, asked.tolerance)


def _ratios_of_rounds(
    bases: Sequence[RunRecord], heads: Sequence[RunRecord], metrics: Sequence[Metric]
) -> tuple[dict[Metric, Estimate | None], EvenSteps | None]:
    """By all that a record tells and, of decode, by the even steps; both rest on the same rounds."""
    from suffice.decide.guard_facts import facts_of
    from suffice.decide.guard_types import Metric
    from suffice.decide.paired_speed import even_steps
    from suffice.stats.rounds import paired_ratio

    base_steps, head_steps = _steps_of_rounds(bases, heads)
    even = even_steps(base_steps, head_steps)
    sides = [[facts_of(record, "") for record in records] for records in (bases, heads)]
    ratios: dict[Metric, Estimate | None] = {}
    for metric in metrics:
        rounds = base_steps.keys() if metric is Metric.DECODE and even is not None else range(len(bases))
        values = [
            {
                number: [figure.quantity.point]
                for number, facts in enumerate(side)
                if number in rounds
                and (figure := facts.figures.get(metric)) is not None
                and figure.quantity is not None
            }
            for side in sides
        ]
        ratios[metric] = paired_ratio(values[0], values[1])
    return ratios, even


def _steps_of_rounds(bases: Sequence[RunRecord], heads: Sequence[RunRecord]) -> tuple[Steps, Steps]:
    """The steps of each round's records, of rounds in which both have some: a plain number has none."""
    decodes = [[record.measurement.decode[:1] for record in records] for records in (bases, heads)]
    both = [
        number
        for number, (old, new) in enumerate(zip(*decodes, strict=True))
        if old and new and old[0].step_s and new[0].step_s
    ]
    base, head = ({number: list(side[number][0].step_s) for number in both} for side in decodes)
    return base, head


# -- both ---------------------------------------------------------------------------------------------------------------


def _result(found: _Found, tolerance: float) -> GuardResult:
    """The checks of all metrics, with what differs between the sides."""
    from suffice.decide.guard import causes_between_sides, result_of
    from suffice.decide.guard_facts import facts_of
    from suffice.decide.guard_fingerprint import compare_fingerprints
    from suffice.decide.guard_lengths import at_asked_length
    from suffice.decide.guard_limits import unjudged

    base, head = facts_of(found.bases[-1], BASE), facts_of(found.heads[-1], HEAD)
    comparison = compare_fingerprints(base.fingerprint, head.fingerprint)
    checks = [_check(metric, found, tolerance) for metric in found.ratios]
    obstacle = found.obstacle or _obstacle([*found.bases, *found.heads], comparison)
    if obstacle:
        checks = [unjudged(check, obstacle) for check in checks]
    checks = [at_asked_length(check, found.shortened) for check in checks]
    result = result_of(checks, _middle(found.heads, _decode()), causes_between_sides(comparison))
    notes = (*_busy(found), *found.notes, *_longer(checks, found.lasting))
    return replace(result, comparison=comparison, notes=notes)


def _check(metric: Metric, found: _Found, tolerance: float) -> GuardCheck:
    from suffice.decide.compare_runs import check_interleaved

    return check_interleaved(
        metric,
        found.ratios[metric],
        _middle(found.bases, metric),
        _middle(found.heads, metric),
        tolerance=tolerance,
        even=found.even if metric is _decode() else None,
        of_openings=found.of_openings,
    )


def _busy(found: _Found) -> tuple[str, ...]:
    records = [*found.bases, *found.heads]
    busy = sum(record.disturbed is True for record in records)
    return (f"{busy} of {len(records)} records were made on a busy machine, which met both sides",) if busy else ()


def _longer(checks: Sequence[GuardCheck], lasting: float) -> tuple[str, ...]:
    """How much more it takes, where the rounds say too little; ``lasting``: scatter that more rounds leave as it is."""
    from suffice.decide.compare_runs import times_as_many_rounds
    from suffice.decide.guard_types import Outcome

    needed = {
        check.metric.value: factor
        for check in checks
        if check.outcome is Outcome.INCONCLUSIVE
        and check.metric
        and (factor := times_as_many_rounds(check, lasting)) is not None
    }
    if not needed:
        return ()
    told = ", ".join(
        f"about {factor:.0f} times as many for {name}"
        if math.isfinite(factor)
        else f"no number of them for {name}, at this tolerance and with so few openings of the models"
        for name, factor in needed.items()
    )
    options = "--budget with files, --rounds with commands; --compare names what is judged"
    return (f"two equal sides would be shown to be so, four times of five, with more rounds: {told} ({options})",)


def _decode() -> Metric:
    from suffice.decide.guard_types import Metric

    return Metric.DECODE


def _middle(records: Sequence[RunRecord], metric: Metric) -> float | None:
    from suffice.decide.guard_facts import facts_of
    from suffice.stats.intervals import median

    figures = [facts_of(record, "").figures.get(metric) for record in records]
    points = [one.quantity.point for one in figures if one is not None and one.quantity is not None]
    return median(points) if points else None


def _obstacle(records: Sequence[RunRecord], comparison: Comparison) -> str:
    """Why the two sides are no comparison at all, whatever the ratio. Busy moments are none: they met both."""
    from suffice.decide.guard_fingerprint import Comparability
    from suffice.decide.plausibility import contradictions_in

    if comparison.comparability is Comparability.NOT_COMPARABLE:
        return f"not comparable: {comparison.reason}"
    if any(not record.complete for record in records):
        return "a run was not finished"
    return next((text for record in records for text in contradictions_in(record)), "")
