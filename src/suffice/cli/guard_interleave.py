"""``suffice guard --interleave``: two builds, models or settings measured in turns, and the ratio of each round.

What drifts on a machine drifts for both of a round alike, so this tells a loss from noise where two runs one after the other cannot.
"""

from __future__ import annotations

import math
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.decide.guard_fingerprint import Comparison
    from suffice.decide.guard_types import GuardCheck, GuardResult, Metric
    from suffice.decide.paired_speed import EvenSteps
    from suffice.measure.request import RunRequest
    from suffice.records.schema import RunRecord
    from suffice.stats.estimate import Estimate

BASE, HEAD = "base", "head"
_MODEL_FLAGS: Final = ("--threads", "--ubatch", "--kv-type", "--flash-attention", "--prompt-tokens", "--depth")
_GGUF: Final = ".gguf"
MOST_ROUNDS: Final = 500  # of two files within a stated budget


@dataclass(frozen=True, slots=True, kw_only=True)
class Interleaving:
    """Two sides, how often, for how long, and where their records are kept; None: nowhere."""

    sides: tuple[str, str]
    rounds: int
    budget_s: float | None
    folder: Path | None
    metrics: tuple[Metric, ...]
    tolerance: float


def judge_interleaved(asked: Interleaving, progress: Callable[[str], None]) -> GuardResult:
    """Measure both sides in turns and judge the head against the base.

    Raises:
        UsageError: sides that cannot be measured in turns.
        SufficeError: whatever measuring raises.
    """
    models = [_is_model(side) for side in asked.sides]
    if len(set(models)) > 1:
        raise UsageError("--interleave: give two commands, or two GGUF files with their flags, not one of each")
    with ExitStack() as stack:
        folder = asked.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="suffice-guard-")))
        if models[0]:
            return _of_models(asked, folder, progress)
        return _of_commands(asked, folder, progress)


def _is_model(side: str) -> bool:
    """Whether a side is a GGUF file with flags, and no command."""
    from suffice.cli.guard_asked import words_of

    return next(iter(words_of(side, "--interleave")), "").lower().endswith(_GGUF)


# -- two models or settings: one process, one engine ---------------------------------------------------------------------


def _of_models(asked: Interleaving, folder: Path, progress: Callable[[str], None]) -> GuardResult:
    from suffice.cli.session import EngineChoice, Workbench
    from suffice.records.store import save_record

    requests = {name: _request(side) for name, side in zip((BASE, HEAD), asked.sides, strict=True)}
    budget_s = asked.budget_s or sum(request.budget_s for request in requests.values())

    def save(name: str, record: RunRecord) -> None:
        save_record(record, folder / f"{name}.json")

    with Workbench(EngineChoice(name=None, library=None), longest_budget_s=budget_s, shared=True) as bench:
        most = None if asked.budget_s is None else MOST_ROUNDS
        records = bench.side_by_side(requests, save, progress, budget_s=budget_s, earlier={}, most_rounds=most)
    return _judge_records(records[BASE], records[HEAD], asked)


def _request(side: str) -> RunRequest:
    from suffice.cli.asked import RunOptions
    from suffice.cli.guard_asked import words_of
    from suffice.loaders.reference import resolve_model

    words = words_of(side, "--interleave")
    flags = _flags(words[1:], side)
    whole = {name: _whole(flags.get(name), name) for name in ("--threads", "--ubatch", "--prompt-tokens", "--depth")}
    options = RunOptions(
        threads=whole["--threads"],
        ubatch=whole["--ubatch"] or RunOptions().ubatch,
        prompt_tokens=whole["--prompt-tokens"],
        depth=whole["--depth"] or 0,
        kv_type=flags.get("--kv-type", RunOptions().kv_type),
        flash_attention=flags.get("--flash-attention", RunOptions().flash_attention),
    )
    return options.request(resolve_model(words[0]), None)


def _flags(words: Sequence[str], side: str) -> dict[str, str]:
    flags = dict(zip(words[::2], words[1::2], strict=False))
    unknown = [name for name in words[::2] if name not in _MODEL_FLAGS]
    if unknown or len(words) % 2:
        raise UsageError(f"--interleave {side!r}: behind a file stand {', '.join(_MODEL_FLAGS)}, each with a value")
    return flags


def _whole(text: str | None, flag: str) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < (0 if flag == "--depth" else 1):
        raise UsageError(f"--interleave: {flag} {text} is not a whole number")
    return int(text)


def _judge_records(base: RunRecord, head: RunRecord, asked: Interleaving) -> GuardResult:
    """Two records of one measurement side by side, by the rounds that they tell."""
    from suffice.decide.guard_types import Metric
    from suffice.decide.paired_speed import paired_decode, lasting_scatter, paired_even_steps, paired_prefill, scatter_of_openings

    ratios = {Metric.DECODE: paired_decode, Metric.PREFILL: paired_prefill}
    paired = {metric: ratios[metric](base, head) for metric in asked.metrics if metric in ratios}
    return _result(
        [base],
        [head],
        paired,
        asked,
        {Metric.DECODE: paired_even_steps(base, head)},
        of_openings=scatter_of_openings(base),
        lasting=lasting_scatter(base),
    )


# -- two commands: a process each, once a round ---------------------------------------------------------------------------


def _of_commands(asked: Interleaving, folder: Path, progress: Callable[[str], None]) -> GuardResult:
    from suffice.cli.guard_asked import check_command, run_command
    from suffice.stats.rounds import balanced_order

    if asked.budget_s is not None:
        raise UsageError("--budget is about files; a command's own flags say how long it measures")
    commands = [check_command(side, "--interleave") for side in asked.sides]
    records: dict[str, list[RunRecord]] = {BASE: [], HEAD: []}
    for number in range(asked.rounds):
        for place in balanced_order(2, number):
            name = (BASE, HEAD)[place]
            progress(f"{name}: round {number + 1} of {asked.rounds}")
            out = folder / f"{name}-{number + 1}.json"
            records[name].append(run_command(commands[place], out, "--interleave"))
    return _judge_rounds(records[BASE], records[HEAD], asked)


def _judge_rounds(bases: Sequence[RunRecord], heads: Sequence[RunRecord], asked: Interleaving) -> GuardResult:
    """A figure of each side a round, and the ratios of the rounds."""
    from suffice.decide.guard_facts import facts_of
    from suffice.decide.guard_types import Metric
    from suffice.stats.rounds import paired_ratio

    sides = [[facts_of(record, name) for record in records] for name, records in ((BASE, bases), (HEAD, heads))]
    paired: dict[Metric, Estimate | None] = {}
    for metric in asked.metrics:
        values = [
            {
                number: [figure.quantity.point]
                for number, facts in enumerate(side)
                if (figure := facts.figures.get(metric)) is not None and figure.quantity is not None
            }
            for side in sides
        ]
        paired[metric] = paired_ratio(values[0], values[1])
    return _result(bases, heads, paired, asked, {Metric.DECODE: _even_steps(bases, heads)})


def _even_steps(bases: Sequence[RunRecord], heads: Sequence[RunRecord]) -> EvenSteps | None:
    """What the steps of each round's records say; a record without any has no round."""
    from suffice.decide.paired_speed import even_steps

    decodes = [[record.measurement.decode[:1] for record in records] for records in (bases, heads)]
    alike = [
        number
        for number, (old, new) in enumerate(zip(*decodes, strict=True))
        if old and new and (old[0].depth, old[0].batch) == (new[0].depth, new[0].batch)
    ]
    base, head = ({number: list(side[number][0].step_s) for number in alike} for side in decodes)
    return even_steps(base, head)


# -- both ---------------------------------------------------------------------------------------------------------------


def _result(
    bases: Sequence[RunRecord],
    heads: Sequence[RunRecord],
    paired: dict[Metric, Estimate | None],
    asked: Interleaving,
    even: dict[Metric, EvenSteps | None],
    *,
    of_openings: float = 0.0,
    lasting: float = 0.0,
) -> GuardResult:
    """The checks of all metrics, with what differs between the sides."""
    from suffice.decide.compare_runs import check_interleaved
    from suffice.decide.guard import causes_between_sides, result_of
    from suffice.decide.guard_facts import facts_of
    from suffice.decide.guard_fingerprint import compare_fingerprints

    base, head = facts_of(bases[-1], BASE), facts_of(heads[-1], HEAD)
    comparison = compare_fingerprints(base.fingerprint, head.fingerprint)
    checks = [
        check_interleaved(
            metric,
            ratio,
            _middle(bases, metric),
            _middle(heads, metric),
            tolerance=asked.tolerance,
            even=even.get(metric),
            of_openings=of_openings,
        )
        for metric, ratio in paired.items()
    ]
    obstacle = _obstacle([*bases, *heads], comparison)
    if obstacle:
        checks = [_blocked(check, obstacle) for check in checks]
    result = result_of(checks, _middle(heads, _decode()), causes_between_sides(comparison))
    busy = sum(record.disturbed is True for record in (*bases, *heads))
    notes = [f"{busy} of {len(bases) + len(heads)} records were made on a busy machine, which met both sides"]
    return replace(result, comparison=comparison, notes=(*(notes if busy else ()), *_longer(checks, lasting)))


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


def _blocked(check: GuardCheck, obstacle: str) -> GuardCheck:
    from suffice.decide.guard_types import Outcome

    reason = f"{check.reason}: {obstacle}"
    return replace(check, outcome=Outcome.INCONCLUSIVE, reason=reason, smallest_detectable_change=None)
