"""Several machines against one demand: the least that is enough, and the ratios between them.

The same script run on a CPU box and on a GPU box gives two records; the ratio of the two is the answer to "what would the
GPU buy us", and the verdict says whether that is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.decide.verdict import Grade, Verdict, decide_machine
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.model.demand import Demand


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
    """The verdict over all machines, the machine that it rests on, and each machine's own verdict."""

    verdict: Verdict
    machines: tuple[Verdict, ...]
    ratios: tuple[MachineRatio, ...]
    least_machine: str | None  # the least one that is enough, with the margin or without; None: none is


def decide(demand: Demand, evidences: Sequence[MachineEvidence]) -> Decision:
    """Judge every machine and name the least that is enough: a CPU before a GPU, and the slower before the faster.

    Raises:
        UsageError: no evidence.
        DemandError: see :func:`~suffice.decide.verdict.decide_machine`.
    """
    if not evidences:
        raise UsageError(
            "no machine: give a run record, made with `suffice measure --out run.json`, or --instance or --device"
        )
    machines = [decide_machine(demand, evidence) for evidence in evidences]
    pairs = sorted(zip(evidences, machines, strict=True), key=lambda pair: _size(pair[0]))
    chosen = _choose(pairs)
    verdict = chosen
    if len(machines) > 1:
        verdict = replace(chosen, reason=_joint_reason(pairs, chosen))
    no_cpu = all(evidence.is_gpu for evidence in evidences)
    if chosen.verdict == words.GPU and no_cpu:
        verdict = replace(
            verdict,
            verdict=words.UNDECIDED,
            reason=f"No CPU is among them, so whether a GPU is needed is not known; {chosen.machine} is {chosen.grade}. {chosen.reason}",
            settle="Measure a CPU machine with the same model: `suffice measure MODEL --out cpu.json`, and decide with both records.",
        )
    elif chosen.verdict == words.GPU and not any(evidence.is_gpu for evidence in evidences):
        verdict = replace(verdict, settle=" ".join(text for text in (chosen.settle, _MEASURE_A_GPU) if text))
    if _all_fail(pairs):
        verdict = replace(
            verdict,
            verdict=words.UNDECIDED,
            grade=Grade.OPEN,
            settle="Measure a faster machine, or several of them.",
        )
    least = next((v.machine for grade in (Grade.ENOUGH, Grade.THIN) for _, v in pairs if v.grade is grade), None)
    return Decision(verdict=verdict, machines=tuple(machines), ratios=_ratios(evidences), least_machine=least)


def _size(evidence: MachineEvidence) -> tuple[bool, float]:
    rate = evidence.decode_rate(None)
    return evidence.is_gpu, math.inf if rate is None else rate.point


def _choose(pairs: list[tuple[MachineEvidence, Verdict]]) -> Verdict:
    """The verdict that speaks for all: the least CPU that is enough, else thin, else open, else a GPU."""
    cpus = [verdict for evidence, verdict in pairs if not evidence.is_gpu]
    gpus = [verdict for evidence, verdict in pairs if evidence.is_gpu]
    order = [(cpus, Grade.ENOUGH), (cpus, Grade.THIN), (cpus, Grade.OPEN), (gpus, Grade.ENOUGH), (gpus, Grade.THIN)]
    for group, grade in order:
        for verdict in group:
            if verdict.grade is grade:
                return verdict
    return (gpus or cpus)[-1]


def _all_fail(pairs: list[tuple[MachineEvidence, Verdict]]) -> bool:
    """A GPU was measured too, and nothing is enough: naming "gpu" would send money after a machine that fails."""
    has_gpu = any(evidence.is_gpu for evidence, _ in pairs)
    return has_gpu and all(verdict.grade is Grade.NOT_ENOUGH for _, verdict in pairs)


def _joint_reason(pairs: list[tuple[MachineEvidence, Verdict]], chosen: Verdict) -> str:
    stands = "; ".join(f"{verdict.machine}: {verdict.grade.value}" for _, verdict in pairs)
    if _all_fail(pairs):
        return f"No measured machine is enough ({stands}). {chosen.reason}"
    return f"{chosen.machine} decides ({stands}). {chosen.reason}"


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
