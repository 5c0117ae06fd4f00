"""A form that is understood, with the parts of its answer that are computed, or will be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from suffice.web.lanes import done

if TYPE_CHECKING:
    from concurrent.futures import Future

    from suffice.decide.compare import Decision
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.plan_types import Plan
    from suffice.loaders.planning import PlanRequest
    from suffice.model.demand import Demand
    from suffice.report.page.given import NamedRun
    from suffice.web.choices import Chosen
    from suffice.web.early import EarlyDecision, EarlyPlan

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a form asks.

    Attributes:
        demand: as it is judged.
        toml: the same as a file.
        chosen: the model.
        runs: the records of that model.
        request: for the plan; None: nothing can be predicted of the model.
    """

    demand: Demand
    toml: str
    chosen: Chosen
    runs: tuple[NamedRun, ...]
    request: PlanRequest | None

    @property
    def evidences(self) -> list[MachineEvidence]:
        """Of the records."""
        return [run.evidence for run in self.runs]

    @property
    def lone_cpu(self) -> MachineEvidence | None:
        """The machine of which an early verdict can be told: with several, or a GPU, the verdicts are weighed against each other first."""
        evidences = self.evidences
        return evidences[0] if len(evidences) == 1 and evidences[0].is_gpu is False else None

    @property
    def is_loaded(self) -> bool:
        """Whether users, a queue or a rate are simulated for it; one stream is arithmetic."""
        return self.demand.margin_is_of_load


@dataclass(slots=True, kw_only=True)
class Job:
    """The parts of an answer; None: there is nothing to compute them from, or nobody has asked for them yet.

    Attributes:
        question: see :class:`Question`.
        early_decision: a provisional verdict.
        early_plan: a provisional plan.
        decision: on the records.
        plan: over the catalogue.
        load: done once the table of loads is known, which is drawn beside the verdict.
        has_begun: whether the final parts are being computed.
        waiting: requests that wait for it.
    """

    question: Question
    early_decision: Future[EarlyDecision] | None = None
    early_plan: Future[EarlyPlan] | None = None
    decision: Future[Decision] | None = None
    plan: Future[Plan] | None = None
    load: Future[None] | None = None
    has_begun: bool = False
    waiting: int = 0

    @property
    def early(self) -> list[Future[Any]]:
        """Provisional parts."""
        return [part for part in (self.early_decision, self.early_plan) if part is not None]

    @property
    def final(self) -> list[Future[Any]]:
        """Parts that stay."""
        return [part for part in (self.decision, self.plan, self.load) if part is not None]

    @property
    def is_whole(self) -> bool:
        """Whether nothing more comes."""
        return self.has_begun and all(part.done() and not part.cancelled() for part in self.final)

    @property
    def next(self) -> list[Future[Any]]:
        """Parts of which each would bring something new."""
        final = [part for part in self.final if not part.done()]
        early = [
            one
            for one, whole in ((self.early_decision, self.decision), (self.early_plan, self.plan))
            if one is not None and not one.done() and (whole is None or not whole.done())
        ]
        return early + final

    def call_off(self) -> bool:
        """Call off what nobody has begun; whether a part was."""
        return any([part.cancel() for part in (*self.early, *self.final) if not part.done()])  # noqa: C419  # all of them


def early_result(part: Future[_Result] | None) -> _Result | None:
    """A provisional part; None where there is none, or it was refused, which the final part says."""
    if part is None or not part.done() or part.cancelled() or part.exception() is not None:
        return None
    return done(part)
