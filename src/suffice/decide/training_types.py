"""What a training is judged on, and what is said of each option."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from suffice.decide.verdict import Grade

if TYPE_CHECKING:
    from suffice.catalogue.entries import Price
    from suffice.decide.quantity import Quantity
    from suffice.decide.verdict import GradedConstraint
    from suffice.model.basis import Basis
    from suffice.model.training_memory import Bytes


class TrainingPlace(StrEnum):
    """Where a training would run."""

    HERE = "this machine"  # one that a run record is of
    INSTANCE = "gpu instance"  # to rent
    DEVICE = "gpu"  # an accelerator of the catalogue, to buy or at hand


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingMachine:
    """What a training could run on.

    Attributes:
        place: whose it is.
        name: as the catalogue calls it.
        device: name of its accelerator.
        devices: of them.
        memory_bytes: of each; None: not known.
        flop_per_s: rated and dense, of each, in the precision of the training.
        architecture: of the accelerator; None: not known.
        fast_links: whether its devices, and several such machines, are joined as those of published runs are.
        price: of an hour; None: not known.
        computes_in: what the device computes in, where it lacks the precision that was asked for.
    """

    place: TrainingPlace
    name: str
    device: str
    devices: int
    memory_bytes: float | None
    flop_per_s: float
    architecture: str | None = None
    fast_links: bool = False
    price: Price | None = None
    computes_in: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCost:
    """Of one training, on demand. ``low`` and ``high`` follow the range of the time; ``high`` None: no end is known."""

    amount: float
    low: float
    high: float | None
    currency: str
    price: Price
    hours_of_machines: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingOption:
    """One way to do a training.

    Attributes:
        place: see there.
        name: "aws/p4d.24xlarge", "3 x aws/p4d.24xlarge".
        count: machines of it.
        devices: accelerators that work, of all machines together.
        device: name of the accelerator; the machine's own where it has none.
        grade: how it stands; OPEN where what is known decides nothing.
        reason: in a sentence or two, why.
        binding: the constraint with the least headroom; None: nothing is asked.
        headroom: of it; None: not known.
        basis: the weakest basis of what was judged.
        constraints: time, memory and budget, as far as they are stated.
        time_s: of the training; None: not known.
        memory: that each device needs.
        memory_usable_bytes: of each device; None: not known.
        checkpointing: whether activations are computed again.
        cost: of one training; None: no price is known.
        notes: what has to be known about it.
    """

    place: TrainingPlace
    name: str
    count: int
    devices: int
    device: str
    grade: Grade
    reason: str
    binding: str | None
    headroom: float | None
    basis: Basis | None
    constraints: tuple[GradedConstraint, ...]
    time_s: Quantity | None
    memory: Bytes
    memory_usable_bytes: float | None
    checkpointing: bool
    cost: TrainingCost | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingPlan:
    """All options of a training, the best first.

    Attributes:
        options: ranked.
        model: as the catalogue or the file calls it.
        parameters: of the model.
        trained_parameters: of them, or of the adapters.
        flop: of the whole training, as utilisations count them.
        currency: of the ranking.
        judged: how many options were looked at.
        notes: of the whole plan.
    """

    options: tuple[TrainingOption, ...]
    model: str
    parameters: int
    trained_parameters: int
    flop: float
    currency: str
    judged: int
    notes: tuple[str, ...] = ()

    @property
    def grade(self) -> Grade:
        """Of the plan: that of its best option."""
        return self.options[0].grade if self.options else Grade.OPEN
