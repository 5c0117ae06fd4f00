"""Several machines, or several models of one, against one demand: the least that is enough, and the ratios between them.

The same script run on a CPU box and on a GPU box gives two records; the ratio of the two is the answer to "what would the
GPU buy us", and the verdict says whether that is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.decide.served import decide_served
from suffice.decide.verdict import Grade, Verdict, decide_machine
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.served import ServedEvidence, ServedVerdict
    from suffice.model.demand import Demand


_REACHING: Final = (Grade.ENOUGH, Grade.THIN)
_MEASURE_A_GPU: Final = (
    "No GPU is among them: rent one for an hour, run `suffice measure MODEL --gpu-layers 999 --out gpu.json` there, and decide with "
    "both records; `suffice ceiling --device NAME --model MODEL` gives its ceiling beforehand."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRatio:
    """How many times faster a machine is than the first one; None where one of the two numbers is missing."""

    machine: str
    decode: float | None
    prefill: float | None
    comparable: bool  # same model file; a ratio of different models is not one of machines


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The verdict over all machines and servers, the one that it rests on, and each one's own verdict; ``served`` has the servers' loads."""

    verdict: Verdict
    machines: tuple[Verdict, ...]
    ratios: tuple[MachineRatio, ...]
    least_machine: str | None  # the least one that is enough, with the margin or without; None: none is
    served: tuple[ServedVerdict, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """A machine or a server among the others. ``is_gpu`` None: nobody said what a server runs on."""

    verdict: Verdict
    is_gpu: bool | None
    rate: float  # of one stream; infinite where nobody measured it, so that it is taken for the greater machine


def decide(demand: Demand, evidences: Sequence[MachineEvidence], servers: Sequence[ServedEvidence] = ()) -> Decision:
    """Judge every machine and server and name the least that is enough: a CPU before a GPU, and the slower before the faster.

    A model that was shown to miss the demanded quality speaks for no machine where another one is there. Of several models of one machine that
    are enough the slowest is named, as the one of which least was taken away, and the reason says so.

    Raises:
        UsageError: no evidence.
        DemandError: see :func:`~suffice.decide.verdict.decide_machine`.
    """
    if not evidences and not servers:
        raise UsageError(
            "no machine: give a run record, made with `suffice measure --out run.json`, a load tool's result, or --instance or --device"
        )
    machines = [decide_machine(demand, evidence) for evidence in evidences]
    served = tuple(decide_served(demand, evidence) for evidence in servers)
    entries = [
        _Entry(verdict=verdict, is_gpu=evidence.is_gpu, rate=_rate(evidence))
        for evidence, verdict in zip(evidences, machines, strict=True)
    ]
    entries += [_Entry(verdict=one.verdict, is_gpu=one.evidence.is_gpu, rate=math.inf) for one in served]
    entries.sort(key=lambda entry: (entry.is_gpu is True, entry.rate))
    least = next((e.verdict.machine for grade in _REACHING for e in entries if e.verdict.grade is grade), None)
    several_models = len({evidence.model_identity for evidence in evidences}) > 1
    return Decision(
        verdict=_joint(entries, several_models=several_models),
        machines=(*machines, *(one.verdict for one in served)),
        ratios=_ratios(evidences) if evidences else (),
        least_machine=least,
        served=served,
    )


def _rate(evidence: MachineEvidence) -> float:
    rate = evidence.decode_rate(None)
    return math.inf if rate is None else rate.point


def _misses_quality(verdict: Verdict) -> bool:
    return any(item.constraint.by_test and item.grade is Grade.NOT_ENOUGH for item in verdict.constraints)


def _joint(entries: list[_Entry], *, several_models: bool) -> Verdict:
    """The verdict that speaks for all, and what has to be said because the others are as they are."""
    everybody = entries
    entries = [entry for entry in everybody if not _misses_quality(entry.verdict)] or everybody
    chosen = _choose(entries)
    verdict = chosen
    if len(everybody) > 1:
        verdict = replace(chosen, reason=_joint_reason(everybody, chosen, several_models=several_models))
    if chosen.verdict == words.GPU and all(entry.is_gpu for entry in entries):
        verdict = replace(
            verdict,
            verdict=words.UNDECIDED,
            reason=f"No CPU is among them, so whether a GPU is needed is not known; {chosen.machine} is {chosen.grade}. {chosen.reason}",
            settle="Measure a CPU machine with the same model: `suffice measure MODEL --out cpu.json`, and decide with both records.",
        )
    elif chosen.verdict == words.GPU and not any(entry.is_gpu for entry in entries):
        verdict = replace(verdict, settle=" ".join(text for text in (chosen.settle, _MEASURE_A_GPU) if text))
    if _all_fail(entries):
        verdict = replace(
            verdict,
            verdict=words.UNDECIDED,
            grade=Grade.OPEN,
            settle="Measure a faster machine, or several of them.",
        )
    return verdict


def _choose(entries: list[_Entry]) -> Verdict:
    """The verdict that speaks for all: the least CPU that is enough, else thin, else open, else a GPU; else one of an unknown kind."""
    cpus = [entry.verdict for entry in entries if entry.is_gpu is False]
    gpus = [entry.verdict for entry in entries if entry.is_gpu]
    untold = [entry.verdict for entry in entries if entry.is_gpu is None]
    order = [(cpus, Grade.ENOUGH), (cpus, Grade.THIN), (cpus, Grade.OPEN), (gpus, Grade.ENOUGH), (gpus, Grade.THIN)]
    if not cpus and not gpus:
        order = [(untold, grade) for grade in (*_REACHING, Grade.OPEN, Grade.NOT_ENOUGH)]
    for group, grade in order:
        for verdict in group:
            if verdict.grade is grade:
                return verdict
    return (gpus or cpus)[-1]


def _all_fail(entries: list[_Entry]) -> bool:
    """A GPU was measured too, and nothing is enough: naming "gpu" would send money after a machine that fails."""
    has_gpu = any(entry.is_gpu for entry in entries)
    return has_gpu and all(entry.verdict.grade is Grade.NOT_ENOUGH for entry in entries)


def _joint_reason(entries: list[_Entry], chosen: Verdict, *, several_models: bool) -> str:
    stands = "; ".join(
        f"{entry.verdict.machine}: {'misses the quality' if _misses_quality(entry.verdict) else entry.verdict.grade.value}"
        for entry in entries
    )
    if _all_fail(entries):
        return f"No measured machine is enough ({stands}). {chosen.reason}"
    alike = [entry for entry in entries if entry.verdict.grade is chosen.grade and not _misses_quality(entry.verdict)]
    why = ""
    if several_models and chosen.grade in _REACHING and len(alike) > 1:
        why = " Several models are: the slowest is named, as the one of which least was taken away; the others are as well."
    return f"{chosen.machine} decides ({stands}).{why} {chosen.reason}"


def _ratios(evidences: Sequence[MachineEvidence]) -> tuple[MachineRatio, ...]:
    first = evidences[0]
    ratios = []
    for other in evidences[1:]:
        decode_a, decode_b = first.decode_rate(None), other.decode_rate(None)
        prefill_a, prefill_b = first.prefill_rate, other.prefill_rate
        same = first.model_identity is not None and first.model_identity == other.model_identity
        ratios.append(
            MachineRatio(
                machine=other.name,
                decode=None if decode_a is None or decode_b is None else decode_b.point / decode_a.point,
                prefill=None if prefill_a is None or prefill_b is None else prefill_b.point / prefill_a.point,
                comparable=same,
            )
        )
    return tuple(ratios)
