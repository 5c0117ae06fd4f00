"""Which machines could do a training, in what time and for how much: the verdict's rule on hours, memory and money.

Time is operations over (rated dense speed x utilisation x devices). Utilisations are what others published (:data:`UTILISATIONS`): a range, so
that an option is enough only at its low end with the whole margin, and not enough only at its high end. Options between are open, and a few
steps on the machine itself settle them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.constraint import Constraint, Sense
from suffice.decide.prospects import GPU_RESERVE_BYTES
from suffice.decide.quantity import Quantity
from suffice.decide.training_types import TrainingCost, TrainingMachine, TrainingOption, TrainingPlace
from suffice.decide.training_words import here_note, option_notes, reason_text
from suffice.decide.verdict import WORST_FIRST, Grade, GradedConstraint, binding_of, grade_constraint, plain_grade
from suffice.model.basis import Basis, weakest
from suffice.model.training_memory import training_memory
from suffice.model.training_work import training_flop
from suffice.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.catalogue.entries import Price
    from suffice.decide.evidence import MachineEvidence
    from suffice.model.training import TrainingDemand
    from suffice.model.training_memory import Bytes
    from suffice.model.training_work import TrainingFlop, TrainingShape

_FLOPS_PER_PARAMETER: Final = 2
_CLUSTER_DEVICES: Final = 8  # of the machines of which published clusters are made


@dataclass(frozen=True, slots=True, kw_only=True)
class Utilisation:
    """Share of the rated dense speed that trainings get: the range of what was published, and a value to plan with."""

    low: float
    point: float
    high: float
    source: str


_A100: Final = "Ampere GA100"
_HOPPER: Final = "Hopper"
# By architecture, for trainings of all weights. docs/training.md lists the runs. Others, and adapters, whose thin matrices and 4-bit weights
# nobody published such figures of, get the range of all.
UTILISATIONS: Final = {
    _A100: Utilisation(
        low=0.40,
        point=0.50,
        high=0.80,
        source="Llama 2: 0.42 to 0.46 of whole runs; llm-foundry on A100: 0.42 to 0.79 with recomputation",
    ),
    _HOPPER: Utilisation(
        low=0.15,
        point=0.35,
        high=0.60,
        source="Llama 3.1: 0.17, 0.29 and 0.37 of whole runs; llm-foundry on H100: 0.32 to 0.59 with recomputation",
    ),
}
ANY_UTILISATION: Final = Utilisation(
    low=0.15, point=0.35, high=0.80, source="all published runs on A100 and H100: 0.17 to 0.79"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A training of one model: what is asked of every machine."""

    demand: TrainingDemand
    training: TrainingShape
    flop: TrainingFlop

    @classmethod
    def of(cls, demand: TrainingDemand, training: TrainingShape) -> Task | None:
        """None where the operations of the model are not known."""
        flop = training_flop(training, demand)
        return None if flop is None else cls(demand=demand, training=training, flop=flop)

    def total_flop(self, *, checkpointing: bool) -> float:
        """Of the whole training."""
        return self.demand.tokens * self.flop.per_token(checkpointing=checkpointing)

    def memory(self, devices: int, *, checkpointing: bool) -> Bytes:
        """That each of so many devices needs."""
        return training_memory(self.training, self.demand, checkpointing=checkpointing, devices=devices).total

    def checkpointing(self, devices: int, usable_bytes: float | None) -> bool:
        """The stated choice; else whether activations do not surely fit without it."""
        stated = self.demand.gradient_checkpointing
        if stated is not None:
            return stated
        return usable_bytes is None or self.memory(devices, checkpointing=False).high > usable_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Figures:
    """Of one option. ``cost`` and ``time_s`` None: not known. ``is_here``: it is paid for already."""

    time_s: Quantity | None
    memory: Bytes
    usable_bytes: float | None
    checkpointing: bool
    cost: TrainingCost | None = None
    is_here: bool = False


def utilisation_of(demand: TrainingDemand, machine: TrainingMachine) -> Utilisation:
    """The range for a machine and the method; that of an architecture was published of its fastest form alone, in joined machines."""
    if demand.method.has_adapters or not machine.fast_links:
        return ANY_UTILISATION
    return UTILISATIONS.get(machine.architecture or "", ANY_UTILISATION)


def judge_machine(task: Task, machine: TrainingMachine, most_machines: int) -> TrainingOption:
    """The fewest machines of a kind that are enough; where none are, the fewest of those that stand best."""
    demand = task.demand
    share = demand.most_devices
    counts = [count for count in range(2, most_machines + 1) if share is None or count * machine.devices <= share]
    best = _judged(task, machine, 1)
    for count in counts:
        if best.grade is Grade.ENOUGH:
            break
        option = _judged(task, machine, count)
        if WORST_FIRST.index(option.grade) > WORST_FIRST.index(best.grade):
            best = option
    return best


def _judged(task: Task, machine: TrainingMachine, count: int) -> TrainingOption:
    demand = task.demand
    total = count * machine.devices
    devices = total if demand.most_devices is None else min(total, demand.most_devices)
    usable = None if machine.memory_bytes is None else max(machine.memory_bytes - GPU_RESERVE_BYTES, 0.0)
    checkpointing = task.checkpointing(devices, usable)
    at_full_s = task.total_flop(checkpointing=checkpointing) / (devices * machine.flop_per_s)
    joined = devices == 1 or demand.method.has_adapters or _links_known(machine, count)
    time_s = _time_at(at_full_s, utilisation_of(demand, machine), joined=joined)
    figures = _Figures(
        time_s=time_s,
        memory=task.memory(devices, checkpointing=checkpointing),
        usable_bytes=usable,
        checkpointing=checkpointing,
        cost=None if machine.price is None else _cost(time_s, machine.price, count),
    )
    graded = [GradedConstraint(constraint=one, grade=plain_grade(one)) for one in _constraints(demand, figures)]
    notes = option_notes(
        demand, machine, devices=devices, idle=total - devices, joined=joined, checkpointing=checkpointing
    )
    option = _option(machine, graded, figures)
    name = machine.name if count == 1 else f"{count} x {machine.name}"
    return replace(option, name=name, count=count, devices=devices, notes=notes)


def _time_at(at_full_s: float, used: Utilisation, *, joined: bool) -> Quantity:
    """Seconds from those at the full rated speed; without an upper end where nobody knows how the devices are joined."""
    return Quantity(
        point=at_full_s / used.point,
        low=at_full_s / used.high,
        high=at_full_s / used.low if joined else None,
        basis=Basis.PREDICTED,
    )


def _links_known(machine: TrainingMachine, count: int) -> bool:
    """Whether gradients of all weights travel as fast as in the published runs."""
    return machine.fast_links and (count == 1 or machine.devices >= _CLUSTER_DEVICES)


def _option(machine: TrainingMachine, graded: list[GradedConstraint], figures: _Figures) -> TrainingOption:
    """Of one machine of a kind."""
    judged = [item for item in graded if item.constraint.judged]
    binding = binding_of(judged)
    bases = [item.constraint.available.basis for item in judged if item.constraint.available is not None]
    return TrainingOption(
        place=machine.place,
        name=machine.name,
        count=1,
        devices=machine.devices,
        device=machine.device,
        grade=min((item.grade for item in judged), key=WORST_FIRST.index, default=Grade.OPEN),
        reason=reason_text(binding, graded),
        binding=None if binding is None else binding.constraint.name,
        headroom=None if binding is None else binding.constraint.headroom,
        basis=weakest(bases),
        constraints=tuple(graded),
        time_s=figures.time_s,
        memory=figures.memory,
        memory_usable_bytes=figures.usable_bytes,
        checkpointing=figures.checkpointing,
        cost=figures.cost,
    )


def _cost(time_s: Quantity, price: Price, count: int) -> TrainingCost:
    per_second = price.per_hour * count / SECONDS_PER_HOUR
    return TrainingCost(
        amount=time_s.point * per_second,
        low=(time_s.point if time_s.low is None else time_s.low) * per_second,
        high=None if time_s.high is None else time_s.high * per_second,
        currency=price.currency,
        price=price,
        hours_of_machines=time_s.point * count / SECONDS_PER_HOUR,
    )


def _constraints(demand: TrainingDemand, figures: _Figures) -> list[Constraint]:
    """Those that the demand states, and memory."""
    found = [_memory(figures.memory, figures.usable_bytes)]
    if demand.window_s is not None:
        found.insert(0, _time(demand, demand.window_s, figures.time_s))
    budget = demand.budget_of_one
    if budget is not None:
        found.append(_budget(budget, demand.currency or "", figures))
    return found


def _time(demand: TrainingDemand, window_s: float, time_s: Quantity | None) -> Constraint:
    return Constraint(
        name="wall_time_s",
        unit="s",
        sense=Sense.AT_MOST,
        required=window_s,
        available=time_s,
        margin=demand.margin,
        unbounded="no lower end and no upper end known",
    )


def _memory(memory: Bytes, usable: float | None) -> Constraint:
    """What the training takes of a device against what the device has: the need is the range here."""
    need = Quantity(point=(memory.low + memory.high) / 2, low=memory.low, high=memory.high, basis=Basis.PREDICTED)
    return Constraint(
        name="memory_bytes",
        unit="bytes",
        sense=Sense.AT_MOST,
        required=usable,
        available=need,
        margin=1.0,
        of_speed=False,
        note="" if usable is not None else "how much memory the device has is not known",
    )


def _budget(budget: float, currency: str, figures: _Figures) -> Constraint:
    """What is here already is not judged by it; a price that is not known, or in another currency, leaves it open: nothing is converted."""
    cost, available, note = figures.cost, None, "no price is known"
    if figures.is_here:
        note = "the machine is there already; what it costs is not counted"
    elif cost is not None and cost.currency == currency:
        note = ""
        available = Quantity(point=cost.amount, low=cost.low, high=cost.high, basis=Basis.PREDICTED)
    elif cost is not None:
        note = f"its price is in {cost.currency}, and nothing is converted"
    return Constraint(
        name="budget",
        unit=currency,
        sense=Sense.AT_MOST,
        required=budget,
        available=available,
        margin=1.0,
        of_speed=False,
        judged=not figures.is_here,
        note=note,
    )


def judge_here(task: Task, evidence: MachineEvidence) -> TrainingOption:
    """The machine of a run record.

    Its speed is known at reading prompts, a forward pass. A training has three passes or more of the same kind of work, so that the time
    follows at that rate: the least that it takes with kernels no better than those of the engine. How much longer it takes is not known.
    """
    checkpointing = task.checkpointing(1, evidence.memory_usable_bytes)
    rate, active = evidence.prefill_rate, evidence.active_parameters
    time_s = None
    if rate is not None and active:
        fastest = rate.high if rate.high is not None else rate.point
        least_s = task.total_flop(checkpointing=checkpointing) / (_FLOPS_PER_PARAMETER * active * fastest)
        time_s = Quantity(point=least_s, low=least_s, high=None, basis=Basis.EXTRAPOLATED)
    figures = _Figures(
        time_s=time_s,
        memory=task.memory(1, checkpointing=checkpointing),
        usable_bytes=evidence.memory_usable_bytes,
        checkpointing=checkpointing,
        is_here=True,
    )
    graded = [
        GradedConstraint(constraint=one, grade=grade_constraint(one, evidence))
        for one in _constraints(task.demand, figures)
    ]
    machine = TrainingMachine(
        place=TrainingPlace.HERE,
        name=evidence.name,
        device=evidence.name,
        devices=1,
        memory_bytes=evidence.memory_usable_bytes,
        flop_per_s=0.0,
    )
    return replace(_option(machine, graded, figures), notes=(here_note(time_known=time_s is not None),))


def ranked(options: Iterable[TrainingOption], currency: str | None) -> tuple[TrainingOption, ...]:
    """The best first: those that are enough by cost, then thin ones, open ones, and those that are not enough.

    Within a grade, what is here already comes first, then prices in ``currency``, those in others by themselves, and what has no price.
    """

    def place(option: TrainingOption) -> tuple[int, int, str, float, str]:
        cost = option.cost
        if cost is None:
            group = 0 if option.place is TrainingPlace.HERE else 3
            by = 0.0 if option.time_s is None else option.time_s.point
            return -WORST_FIRST.index(option.grade), group, "", by, option.name
        group = 1 if cost.currency == currency else 2
        return -WORST_FIRST.index(option.grade), group, cost.currency, cost.amount, option.name

    return tuple(sorted(options, key=place))
