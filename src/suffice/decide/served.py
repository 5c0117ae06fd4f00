"""A demand judged by loads that somebody put on a server: what load tools wrote, with no machine at hand.

The rules, beside those of :mod:`suffice.decide.verdict`:

1. A load shows that the demand holds when it was at least as heavy (users or rate, and lengths) and each limit held at the upper end of its
   percentile over all attempts. It shows that the demand does not hold when it was at most as heavy and a limit failed at the lower end.
2. The highest load that held and the lowest that failed bracket the capacity, and nothing is interpolated between them. The margin is one of
   load: enough needs a load of margin x the demanded one, thin one of the demanded.
3. A closed loop says nothing of a rate, because a slow server is sent less; an open loop says nothing of users who never pause.
4. A server may be a CPU or a GPU, and no tool says which: without being told, the verdict stays undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide import words
from suffice.decide.constraint import Constraint, Sense
from suffice.decide.quantity import Quantity
from suffice.decide.served_load import LoadStanding, ServedNeed, judge_load, need_of
from suffice.decide.served_words import (
    KIND_ADVICE,
    PREBUILT,
    constraint_note,
    kind_missing,
    settle_command,
    unstated_lengths,
)
from suffice.decide.verdict import (
    WORST_FIRST,
    Grade,
    GradedConstraint,
    Verdict,
    binding_of,
    plain_grade,
    word_of,
)
from suffice.decide.wording import flip_sentence, grade_sentence, label
from suffice.model.basis import Basis
from suffice.model.demand import DemandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.model.demand import Demand
    from suffice.model.served import ServedLoad
    from suffice.model.served_range import ServedRange
    from suffice.serving.search import LatencyLimit


LEAST_DONE: Final = 30  # requests that must have been answered before their number over the time is called a rate
_NOTHING_AS_LONG: Final = (
    f"no load with prompts and answers as long as the demand's says how much was done, of {LEAST_DONE} requests or more"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedEvidence:
    """The loads on one server. ``is_gpu`` None: nobody said what it runs on."""

    name: str
    is_gpu: bool | None
    loads: tuple[ServedLoad, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedVerdict:
    """The verdict on one server, and how each of its loads stands."""

    evidence: ServedEvidence
    need: ServedNeed
    standings: tuple[LoadStanding, ...]
    verdict: Verdict


def servers_of(loads: Sequence[ServedLoad], kinds: Sequence[bool | None] = ()) -> tuple[ServedEvidence, ...]:
    """Loads by server and model, in order of appearance; a file without an address is of the server of its model's name.

    ``kinds`` says of each server whether it is a GPU; one entry stands for all.
    """
    groups: dict[tuple[str | None, str | None], list[ServedLoad]] = {}
    for load in loads:
        groups.setdefault((load.server, load.model), []).append(load)
    told = list(kinds) * len(groups) if len(kinds) == 1 else list(kinds)
    told += [None] * (len(groups) - len(told))
    return tuple(
        ServedEvidence(name=_name(server, model, group[0]), is_gpu=told[i], loads=tuple(group))
        for i, ((server, model), group) in enumerate(groups.items())
    )


def _name(server: str | None, model: str | None, first: ServedLoad) -> str:
    place = server or f"server in {first.source}"
    return f"{place} ({model})" if model else place


def decide_served(demand: Demand, evidence: ServedEvidence) -> ServedVerdict:
    """The verdict on one server."""
    need = need_of(demand)
    standings = tuple(judge_load(need, load) for load in evidence.loads)
    constraints = _constraints(demand, need, standings)
    graded = tuple(GradedConstraint(constraint=item, grade=plain_grade(item)) for item in constraints)
    judged = [item for item in graded if item.constraint.judged]
    contradiction = _contradiction(standings)
    grade = min((item.grade for item in judged), key=WORST_FIRST.index, default=Grade.OPEN)
    if contradiction:
        grade = Grade.OPEN
    binding = binding_of(judged)
    word = words.UNDECIDED if evidence.is_gpu is None else word_of(grade, is_gpu=evidence.is_gpu)
    verdict = Verdict(
        verdict=word,
        reason=" ".join(
            text
            for text in (
                _reason(evidence, standings, graded, binding, contradiction),
                unstated_lengths(need, standings),
                _about_model(demand, evidence),
            )
            if text
        ),
        binding=None if binding is None else binding.constraint.name,
        basis=Basis.MEASURED if any(item.constraint.available is not None for item in judged) else None,
        constraints=graded,
        grade=grade,
        flips=()
        if contradiction
        else tuple(text for item in judged if (text := flip_sentence(item.constraint, lower_bound=False))),
        settle=_settle(demand, need, evidence, grade),
        machine=evidence.name,
    )
    return ServedVerdict(evidence=evidence, need=need, standings=standings, verdict=verdict)


def _about_model(demand: Demand, evidence: ServedEvidence) -> str:
    """Servers name models as they like, so another name is no contradiction, and is said."""
    served = next((load.model for load in evidence.loads if load.model), None)
    if demand.model is None or demand.model.startswith("sample:"):
        return ""
    if served is not None and _base_name(served) == _base_name(demand.model):
        return ""
    return f"The demand is about {demand.model}, the server calls its model {served or 'nothing'}: that they are the same is not checked."


def _base_name(model: str) -> str:
    return model.replace("\\", "/").rpartition("/")[2]


def _settle(demand: Demand, need: ServedNeed, evidence: ServedEvidence, grade: Grade) -> str | None:
    steps = [KIND_ADVICE] if evidence.is_gpu is None else []
    if grade in (Grade.OPEN, Grade.THIN):
        steps.append(settle_command(demand, need, evidence.loads))
    return " ".join(steps) or None


def _constraints(demand: Demand, need: ServedNeed, standings: Sequence[LoadStanding]) -> list[Constraint]:
    found = [_capacity(demand, need, standings)] if need.has_capacity else []
    found += [_limit(demand, need, limit, standings) for limit in need.limits]
    throughput = _throughput(demand, need, standings)
    return [*found, *([] if throughput is None else [throughput]), *_not_judged(demand)]


def _capacity(demand: Demand, need: ServedNeed, standings: Sequence[LoadStanding]) -> Constraint:
    """The highest load at which every limit held, and the lowest at which one failed."""
    held = max((one.level_low for one in standings if one.shows_holding and one.level_low is not None), default=None)
    failed = min(
        (one.level_high for one in standings if one.shows_failing and one.level_high is not None), default=None
    )
    most = None if failed is None else _below(failed, whole=need.counts_users)
    point = most if held is None else held
    return Constraint(
        name="capacity_users" if need.counts_users else "capacity_requests_per_second",
        unit="users" if need.counts_users else "requests/s",
        sense=Sense.AT_LEAST,
        required=need.demanded,
        available=None if point is None else Quantity(point=point, low=held, high=most, basis=Basis.MEASURED),
        margin=demand.margin,
        note=constraint_note(standings),
        several=True,
    )


def _below(failed: float, *, whole: bool) -> float:
    """The most that may hold where ``failed`` does not: a user less, or the next smaller number."""
    return max(0.0, math.ceil(failed) - 1.0) if whole else math.nextafter(failed, 0.0)


def _limit(demand: Demand, need: ServedNeed, limit: LatencyLimit, standings: Sequence[LoadStanding]) -> Constraint:
    """One limit at the demanded load: at most what a heavier load showed, at least what a lighter one did."""
    heavier = [one for one in standings if one.is_as_heavy and one.range_of(limit) is not None]
    lighter = [one for one in standings if one.is_as_light and one.range_of(limit) is not None]
    least = min(heavier, key=lambda one: _or_infinity(one.high_of(limit)), default=None)
    most = max(lighter, key=lambda one: one.low_of(limit) or 0.0, default=None)
    shown = least or most
    seen, quantity = None if shown is None else shown.range_of(limit), None
    if seen is not None:
        quantity = Quantity(
            point=seen.point,
            low=None if most is None else most.low_of(limit),
            high=_finite(None if least is None else least.high_of(limit)),
            basis=Basis.MEASURED,
        )
    is_ttft = limit.metric == "ttft_s"
    several = need.has_capacity
    return Constraint(
        name="ttft_s" if is_ttft else "decode_tokens_per_second",
        unit="s" if is_ttft else "tokens/s",
        sense=Sense.AT_MOST if is_ttft else Sense.AT_LEAST,
        required=limit.seconds if is_ttft else 1 / limit.seconds,
        available=quantity if quantity is None or is_ttft else quantity.inverted(),
        margin=1.0 if several else demand.margin,
        note=_limit_note(limit, shown, seen),
        unbounded=_unbounded(seen, is_ttft=is_ttft),
        several=several,
    )


def _limit_note(limit: LatencyLimit, shown: LoadStanding | None, seen: ServedRange | None) -> str:
    note = f"P{limit.percent:g} of all attempts" + (f", in {shown.load.source}" if shown is not None else "")
    failed = shown is not None and shown.load.of_prebuilt and seen is not None and seen.point > limit.seconds
    return f"{note}; {PREBUILT}" if failed else note


def _finite(value: float | None) -> float | None:
    """Failures have no end that anybody knows: without end is no number to compare with."""
    return None if value == math.inf else value


def _unbounded(seen: ServedRange | None, *, is_ttft: bool) -> str:
    """Why a percentile has no end on either side."""
    if seen is not None and not seen.supported:
        return f"{seen.attempts} attempts, no interval"
    return f"no {'upper' if is_ttft else 'lower'} end known"


def _or_infinity(value: float | None) -> float:
    return float("inf") if value is None else value


def _done_per_s(load: ServedLoad) -> float | None:
    """Requests/s that a load got done, for certain: no more than its successes over its time; None of too few to be a rate."""
    succeeded = load.succeeded
    if load.requests_per_s is None or succeeded is None or succeeded < LEAST_DONE:
        return None
    return load.requests_per_s if not load.duration_s else min(load.requests_per_s, succeeded / load.duration_s)


def _throughput(demand: Demand, need: ServedNeed, standings: Sequence[LoadStanding]) -> Constraint | None:
    """Work that nobody waits for: the most requests/s that any load of such lengths got done is what the server does at least."""
    if need.needed_requests_per_s is None or demand.prompt_tokens is None or demand.output_tokens is None:
        return None
    best = max(
        (one for one in standings if one.long_enough and _done_per_s(one.load)),
        key=lambda one: _done_per_s(one.load) or 0,
        default=None,
    )
    done = None if best is None else _done_per_s(best.load)
    note = (
        _NOTHING_AS_LONG
        if best is None
        else f"the most that was done, in {best.load.source}; a heavier load might do more"
    )
    if demand.kind is DemandKind.SCHEDULED:
        requests = demand.requests_per_day or 0.0
        time_s = None if not done else requests / done
        quantity = None if time_s is None else Quantity(point=time_s, low=None, high=time_s, basis=Basis.MEASURED)
        return Constraint(
            name="wall_time_s", unit="s", sense=Sense.AT_MOST, required=demand.window_s, available=quantity, margin=demand.margin, note=note, several=True,
        )  # fmt: skip
    tokens = demand.prompt_tokens.mean + demand.output_tokens.mean
    rate = None if not done else done * tokens
    quantity = None if rate is None else Quantity(point=rate, low=rate, high=None, basis=Basis.MEASURED)
    return Constraint(
        name="sustained_tokens_per_second",
        unit="tokens/s",
        sense=Sense.AT_LEAST,
        required=need.needed_requests_per_s * tokens,
        available=quantity,
        margin=demand.margin,
        note=note,
        several=True,
    )


def _not_judged(demand: Demand) -> list[Constraint]:
    """Stated, and nothing that a load tool writes says anything of it."""
    stated = (
        ("memory_bytes", "bytes", Sense.AT_MOST, demand.memory_bytes),
        ("quality_floor", "share", Sense.AT_LEAST, demand.quality_floor),
        (
            "quality_kept",
            "share",
            Sense.AT_LEAST,
            None if demand.quality_max_loss is None else 1 - demand.quality_max_loss,
        ),
        ("budget_per_month", demand.currency or "money", Sense.AT_MOST, demand.budget_per_month),
    )
    return [
        Constraint(
            name=name, unit=unit, sense=sense, required=value, available=None, margin=1.0, of_speed=False, judged=False,
            note="a load tool's file says nothing of it",
        )
        for name, unit, sense, value in stated
        if value is not None
    ]  # fmt: skip


def _contradiction(standings: Sequence[LoadStanding]) -> str:
    """A load that held and is heavier than one that failed: one of the two is wrong, or the server changed in between."""
    held = [one for one in standings if one.shows_holding and one.level_low is not None]
    failed = [one for one in standings if one.shows_failing and one.level_high is not None]
    for fine in held:
        for bad in failed:
            if (bad.level_high or 0.0) <= (fine.level_low or 0.0) and fine.load is not bad.load:
                return (
                    f"The loads contradict each other: {bad.load.source} failed at {bad.level_high:g}, "
                    f"{fine.load.source} held at {fine.level_low:g}."
                )
    return ""


def _reason(
    evidence: ServedEvidence,
    standings: Sequence[LoadStanding],
    graded: Sequence[GradedConstraint],
    binding: GradedConstraint | None,
    contradiction: str,
) -> str:
    sentences = [kind_missing(evidence.name)] if evidence.is_gpu is None else []
    if contradiction:
        sentences.append(contradiction)
    if binding is None:
        sentences.append("The demand states nothing that a load on a server could show.")
    else:
        sentences.append(grade_sentence(binding.constraint, binding.grade.value))
    sentences += [f"{one.load.source}: {text}." for one in standings if not one.shows_holding for text in one.failures]
    not_judged = [label(item.constraint.name) for item in graded if not item.constraint.judged]
    if not_judged:
        sentences.append(f"Not judged here: {', '.join(not_judged)}.")
    return " ".join(sentences)
