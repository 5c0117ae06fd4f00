"""What is asked of every way out of a model that is too big: the demand, the model, and the machines at hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.alternatives import LOAD, Room, graded, needed_bytes, one_stream, runs_the_same, with_other_model
from suffice.decide.plan_cost import machine_cost
from suffice.decide.plan_load import paid_hours
from suffice.decide.verdict import Grade, decide_machine
from suffice.loaders.model_file import ModelFile, describe_model
from suffice.loaders.plan_prices import hour_tag

if TYPE_CHECKING:
    from datetime import date

    from suffice.catalogue.entries import Price
    from suffice.decide.alternatives import Alternative
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.plan_types import MonthlyCost
    from suffice.decide.verdict import Verdict
    from suffice.loaders.alternatives_market import Market
    from suffice.loaders.alternatives_models import Known
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import Demand
    from suffice.model.rpc import Cluster

_ANSWER_TOKENS: Final = (
    256  # behind the depth, where the demand states no context; as in :mod:`suffice.decide.prospects`
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is asked, and of whom; see :func:`suffice.loaders.alternatives.alternatives_for`."""

    demand: Demand
    model: ModelFile | ShapeModel
    known: Known
    market: Market
    here: tuple[MachineEvidence, ...]
    kv_type: str
    cluster: Cluster
    today: date

    @property
    def name(self) -> str:
        """Of the model, as `--model` takes it."""
        return str(self.model.path) if isinstance(self.model, ModelFile) else self.model.reference

    @property
    def context_tokens(self) -> int:
        """Of each stream."""
        return self.demand.needed_context_tokens or self.market.lengths.depth + _ANSWER_TOKENS

    @property
    def cache_bytes(self) -> float | None:
        """Of all streams, for the model that is too big."""
        return self.cache_bytes_in(self.kv_type)

    def cache_bytes_in(self, kv_type: str) -> float | None:
        """The same in another type."""
        return self.model.shape.kv_cache_bytes(self.context_tokens, kv_type, kv_type, sequences=self.demand.streams)

    def seen_with(self, one: MachineEvidence, model: ModelFile | ShapeModel) -> MachineEvidence:
        """A machine at hand with a model, which may be another than it was measured with."""
        record = describe_model(model, type_k=self.kv_type, type_v=self.kv_type, with_hash=False)
        return one if runs_the_same(one, record) else with_other_model(one, record)

    def usable_bytes(self, one: MachineEvidence) -> float | None:
        """Memory for the model on a machine at hand: the stated one, else what was found."""
        return one.memory_usable_bytes if self.demand.memory_bytes is None else self.demand.memory_bytes

    def room(self, one: MachineEvidence) -> Room:
        """Whether a machine at hand holds the model."""
        needed, usable = needed_bytes(self.seen_with(one, self.model), self.demand), self.usable_bytes(one)
        fits = None if needed is None or usable is None else needed <= usable
        return Room(name=one.name, usable_bytes=usable, fits=fits)

    def judged_alone(self, evidence: MachineEvidence, *, keeps_memory: bool = True) -> Verdict:
        """One stream on a machine; ``keeps_memory``: a memory that the demand states is this machine's."""
        memory_bytes = self.demand.memory_bytes if keeps_memory else None
        return decide_machine(replace(one_stream(self.demand), memory_bytes=memory_bytes), evidence)

    def rent(self, price: Price, count: int = 1) -> MonthlyCost:
        """The bill of machines for the hours that the demand pays for."""
        return machine_cost(hour_tag(price, self.today), count, paid_hours(self.demand))

    def with_verdict(self, item: Alternative, verdict: Verdict) -> Alternative:
        """The alternative, graded."""
        grade, reason = graded(self.demand, verdict.grade, verdict.reason)
        enough_alone = grade is Grade.OPEN and verdict.grade in (Grade.ENOUGH, Grade.THIN)
        binding = LOAD if enough_alone else verdict.binding
        return replace(item, grade=grade, reason=reason, binding=binding, basis=verdict.basis)
