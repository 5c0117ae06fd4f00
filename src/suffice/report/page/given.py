"""All that a page is made from: a demand, a decision, and what was handed in beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.decide.verdict import grade_constraint

if TYPE_CHECKING:
    from suffice.decide.compare import Decision
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.model.demand import Demand
    from suffice.model.served import ServedLoad
    from suffice.records.schema import RunRecord
    from suffice.report.page.plan_view import PlanView
    from suffice.report.page.simulation_view import SimulationView


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRun:
    """A run record with the name of its file and the evidence that was judged."""

    file: str
    record: RunRecord
    evidence: MachineEvidence


@dataclass(frozen=True, slots=True, kw_only=True)
class PageInput:
    """What a page tells. Nothing here is read from disk any more.

    Attributes:
        demand: as it was judged, with the margin and the loss of the command line.
        demand_file: name of its file.
        decision: over all runs and servers.
        runs: the run records, in the order in which they were given.
        loads: further loads on servers, which are shown and not judged.
        quality: a comparison of quantizations; None: none was given.
        quality_file: its name.
        simulation: a document of ``suffice simulate``; None: none was given.
        plan: a document of ``suffice plan``; None: none was given.
        commands: that make the verdict and the page again.
        version: of suffice.
        left_out: where the options of the plan are that the page leaves out, with ``{count}``; None: in the plan's file.
    """

    demand: Demand
    demand_file: str
    decision: Decision
    runs: tuple[NamedRun, ...] = ()
    loads: tuple[ServedLoad, ...] = ()
    quality: Conclusions | None = None
    quality_file: str | None = None
    simulation: SimulationView | None = None
    plan: PlanView | None = None
    commands: tuple[str, ...] = ()
    version: str = ""
    left_out: str | None = None

    @property
    def chosen(self) -> NamedRun | None:
        """The run that the verdict rests on; None where it rests on loads on a server."""
        named = self.decision.verdict.machine
        return next((run for run in self.runs if run.evidence.name == named), None)

    @property
    def is_lower_bound(self) -> bool:
        """Whether the verdict takes the speeds of its run for lower bounds: it does not where the undisturbed speeds of a busy machine say the same."""
        run = self.chosen
        if run is None:
            return False
        return run.evidence.engine_lower_bound or (bool(run.evidence.disturbed) and self.disturbance_counts)

    @property
    def disturbance_counts(self) -> bool:
        """Whether the grades of the verdict are those of a machine that was found as it was, disturbed or not."""
        verdict, run = self.decision.verdict, self.chosen
        if run is None or verdict.undisturbed is None or verdict.undisturbed.verdict != verdict.verdict:
            return True
        return all(item.grade is grade_constraint(item.constraint, run.evidence) for item in verdict.constraints)
