"""What follows from a form: the verdict on the records of the start and the plan over the catalogue, by the functions of the command line.

Users and rates are simulated, which can take seconds. So an answer comes in parts: within a moment what can be said by then, marked as
provisional (:mod:`suffice.web.early`), then the final verdict, the final plan and the table of loads, each as it is ready. Final parts are kept
under all that they were computed from; what the page was started with does not change while it runs.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.compare import decide
from suffice.decide.service_table import load_table
from suffice.errors import SufficeError
from suffice.loaders.demand import parse_demand
from suffice.loaders.planning import PlanRequest
from suffice.web.choices import is_of
from suffice.web.costs import here_cost_of, own_price_of, repriced
from suffice.web.early import Leaders, Outlooks, Rests, coarse_decision, decided_from, full_plan
from suffice.web.fields import MODEL, QUANTIZATION
from suffice.web.form import SOURCE, Form, demand_toml
from suffice.web.jobs import Job, Question, early_result
from suffice.web.lanes import Lane, done, known
from suffice.web.runs import named_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.compare import Decision
    from suffice.decide.plan_types import Plan
    from suffice.decide.verdict import Verdict
    from suffice.model.demand import Demand
    from suffice.report.page.given import NamedRun
    from suffice.web.choices import Chosen, Models
    from suffice.web.costs import OwnPrice
    from suffice.web.runs import NamedRecord
    from suffice.web.toml_text import Value

_MOST_JOBS: Final = 64  # whose answers are kept
_VERDICTS_AT_ONCE: Final = 2  # so that one that nobody waits for any more does not hold up the next
_FIRST_S: Final = 0.13  # for the parts of a first answer; drawing them takes time as well
_FIRST_UNDER_LOAD_S: Final = 0.2  # less is drawn there, and nothing else is computed meanwhile
_NEXT_S: Final = 10.0
_ALL_S: Final = 30.0  # then the page's script asks for the rest


class Wait(StrEnum):
    """What an answer waits for."""

    NOTHING = "nothing"  # nor is anything computed: only what is wrong with the form is said
    FIRST = "first"  # what there is after a moment
    NEXT = "next"  # something new
    ALL = "all"  # for half a minute


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Why a part of an answer is missing: the key of a word, and what stands in it."""

    key: str
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What follows from a form.

    Attributes:
        demand: as it was judged.
        toml: the same as a file.
        model: for a reader.
        runs: the records of that model.
        decision: over them; None: there is none (yet), and ``no_decision`` says why.
        rests: what the decision rests on.
        plan: over the catalogue; None: there is none (yet), and ``no_plan`` says why.
        plan_machines: of how many machines alone the plan is; None: of the whole catalogue.
        catalogue_machines: that the plan will be of.
        has_load: the table of loads is known.
        is_whole: nothing more comes.
    """

    demand: Demand
    toml: str
    model: str
    runs: tuple[NamedRun, ...]
    decision: Decision | None = None
    rests: Rests = Rests.FINAL
    no_decision: Note | None = None
    plan: Plan | None = None
    plan_machines: int | None = None
    no_plan: Note | None = None
    catalogue_machines: int = 0
    has_load: bool = True
    is_whole: bool = True


class Bench:
    """Judges forms.

    Args:
        records: of the start.
        catalogue: of the start.
        models: that can be asked for.
        kept: keys of the demand's file for which the form has no field.
        today: the day, for the age of prices.
    """

    def __init__(
        self,
        *,
        records: Sequence[NamedRecord],
        catalogue: Catalogue,
        models: Models,
        kept: Mapping[str, Value],
        today: Callable[[], date] = lambda: datetime.now(UTC).date(),
    ) -> None:
        self._runs = named_runs(records)
        self._catalogue = catalogue
        self._models = models
        self._kept = kept
        self._today = today
        self._lock = threading.Lock()
        self._jobs: OrderedDict[tuple[object, ...], Job] = OrderedDict()
        self._priced: tuple[tuple[OwnPrice, date], Catalogue] | None = None
        self._outlooks, self._leaders = Outlooks(), Leaders()
        self._early = Lane("early", at_once=2)
        self._verdicts = Lane("verdict", at_once=_VERDICTS_AT_ONCE)
        self._plans = Lane("plan", at_once=1)
        self._closing: Future[None] = Future()

    def close(self) -> None:
        """Begin nothing more, and let nobody wait."""
        for lane in (self._early, self._verdicts, self._plans):
            lane.close()
        if not self._closing.done():
            self._closing.set_result(None)

    def answer(self, form: Form, waits: Wait = Wait.ALL) -> Answer:
        """The answer to a form.

        Args:
            form: what is asked.
            waits: for what. Final parts with users or rates are begun once somebody waits for more than a moment: a form that is being
                typed in would begin one with each key.

        Raises:
            SufficeError: one sentence about what is wrong with the form.
        """
        if waits is Wait.NOTHING:
            with self._lock:
                return self._answer(Job(question=self._question(form, self._today())))
        with self._lock:
            job = self._job(form)
            job.waiting += 1
            if waits is not Wait.FIRST or not job.question.is_loaded:
                self._begin(job)
        try:
            self._wait(job, waits)
        finally:
            with self._lock:
                job.waiting -= 1
        return self._answer(job)

    def _wait(self, job: Job, waits: Wait) -> None:
        if waits is Wait.ALL:
            self._until(job.final, _ALL_S)
        elif waits is Wait.NEXT:
            self._until(job.next, _NEXT_S, first=True)
        elif job.question.is_loaded:
            self._until(job.early, _FIRST_UNDER_LOAD_S)
        else:
            self._until(job.final, _FIRST_S)

    def _until(self, parts: Sequence[Future[Any]], seconds: float, *, first: bool = False) -> None:
        """Wait for all of some parts, or for the first of them, so long at most; and not at all once it closes."""
        end_s = time.monotonic() + seconds
        missing = [part for part in parts if not part.done()]
        while missing and not self._closing.done():
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                return
            found = wait([*missing, self._closing], timeout=left_s, return_when=FIRST_COMPLETED).done
            if first and found:
                return
            missing = [part for part in missing if not part.done()]

    def _answer(self, job: Job) -> Answer:
        asked = job.question
        early = early_result(job.early_decision)
        decision, rests = done(job.decision), Rests.FINAL
        if decision is None and early is not None:
            decision, rests = early.decision, early.rests
        plan, plan_machines, no_plan = self._plan_of(job)
        return Answer(
            demand=asked.demand,
            toml=asked.toml,
            model=asked.chosen.label,
            runs=asked.runs,
            decision=decision,
            rests=rests,
            no_decision=None if asked.runs else self._no_decision(asked.chosen),
            plan=plan,
            plan_machines=plan_machines,
            no_plan=no_plan,
            catalogue_machines=0 if asked.request is None else len(asked.request.catalogue.instances),
            has_load=job.load is not None and job.load.done(),
            is_whole=job.is_whole,
        )

    def _plan_of(self, job: Job) -> tuple[Plan | None, int | None, Note | None]:
        if job.question.request is None:
            return None, None, Note(key="note.no_shape", values={"model": job.question.chosen.label})
        try:
            plan = done(job.plan)
        except SufficeError as error:
            return None, None, Note(key="note.refused", values={"message": str(error)})
        early = early_result(job.early_plan)
        if plan is not None or early is None or early.plan is None:
            return plan, None, None
        return early.plan, early.machines, None

    def _no_decision(self, chosen: Chosen) -> Note:
        if not self._runs:
            return Note(key="note.no_records")
        return Note(key="note.other_model", values={"model": chosen.label})

    def _job(self, form: Form) -> Job:
        """The job of a form; what nobody has begun and nobody waits for is called off."""
        today = self._today()
        key = (form.key, today)
        found = self._jobs.pop(key, None) or self._prepared(self._question(form, today))
        for other, job in list(self._jobs.items()):
            if not job.waiting and job.call_off():
                del self._jobs[other]
        self._jobs[key] = found
        if len(self._jobs) > _MOST_JOBS:
            self._jobs.popitem(last=False)
        return found

    def _question(self, form: Form, today: date) -> Question:
        chosen = self._models.chosen(form[MODEL], form[QUANTIZATION])
        toml = demand_toml(form, self._kept, chosen.reference)
        demand = parse_demand(toml, source=SOURCE)
        stated, catalogue = here_cost_of(form, today), self._priced_by(own_price_of(form), today)
        runs = tuple(run for run in self._runs if is_of(run.record, chosen))
        request = None
        if chosen.model is not None:
            request = PlanRequest(
                demand=demand,
                model=chosen.model,
                catalogue=catalogue,
                today=today,
                here=tuple(run.evidence for run in runs),
                here_cost=stated,
            )
        return Question(demand=demand, toml=toml, chosen=chosen, runs=runs, request=request)

    def _prepared(self, asked: Question) -> Job:
        """With what is said within a moment."""
        job = Job(question=asked)
        if asked.evidences and not asked.is_loaded:
            job.decision = self._verdicts.submit(partial(decide, asked.demand, asked.evidences))
        elif asked.lone_cpu is not None:
            before = self._outlooks.adapted(asked.demand, asked.lone_cpu)
            if before is not None:
                job.early_decision = known(decided_from(asked.demand, asked.lone_cpu, before, Rests.BEFORE))
            else:
                job.early_decision = self._early.submit(partial(coarse_decision, asked.demand, asked.lone_cpu))
        if asked.request is not None:
            job.early_plan = self._early.submit(partial(self._leaders.plan, asked.request), after=job.early_decision)
        return job

    def _begin(self, job: Job) -> None:
        """Compute the final parts: the verdict first, then the plan, then the table of loads; side by side each would only be slower."""
        if job.has_begun:
            return
        job.has_begun = True
        asked = job.question
        last: Future[Any] | None = job.early_decision
        if asked.evidences and job.decision is None:
            last = job.decision = self._verdicts.submit(partial(self._decided, asked), after=last)
        if asked.request is not None:
            last = job.plan = self._plans.submit(partial(self._planned, asked.request), after=last)
        job.load = self._verdicts.submit(partial(_load_known, job), after=last)

    def _decided(self, asked: Question) -> Decision:
        decision = decide(asked.demand, asked.evidences)
        if asked.lone_cpu is not None:
            self._outlooks.note(asked.demand, asked.lone_cpu, decision.verdict.service)
        return decision

    def _planned(self, request: PlanRequest) -> Plan:
        plan = full_plan(request)
        self._leaders.note(plan)
        return plan

    def _priced_by(self, own: OwnPrice | None, today: date) -> Catalogue:
        """The catalogue under the user's price; the last one is kept."""
        if own is None:
            return self._catalogue
        if self._priced is None or self._priced[0] != (own, today):
            self._priced = ((own, today), repriced(self._catalogue, own, today))
        return self._priced[1]


def best_verdict(plan: Plan | None) -> Verdict | None:
    """Of the best option of which there is one."""
    options = () if plan is None else plan.options
    return next((one.verdict for one in options if one.verdict is not None), None)


def _load_known(job: Job) -> None:
    """Simulate the table of loads, which is remembered: drawing it would take as long."""
    try:
        decision = done(job.decision)
        verdict = best_verdict(done(job.plan)) if decision is None else decision.verdict
    except SufficeError:  # said in the answer
        return
    if verdict is not None and verdict.service is not None and verdict.service.served is not None:
        load_table(verdict.service.served)
