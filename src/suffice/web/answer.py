"""What follows from a form: the verdict on the records of the start and the plan over the catalogue, by the functions of the command line.

Users and rates are simulated, which can take seconds. So an answer comes in parts: whoever is patient gets all of it, a form that somebody
is typing in gets what there is after a moment, and asks again. Parts are kept under all that they were computed from; what the page was started
with does not change while it runs.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.errors import SufficeError
from suffice.loaders.demand import parse_demand
from suffice.loaders.planning import PlanRequest, make_plan
from suffice.report.page.given import NamedRun
from suffice.web.choices import is_of
from suffice.web.costs import here_cost_of, own_price_of, repriced
from suffice.web.fields import MODEL, QUANTIZATION
from suffice.web.form import SOURCE, Form, demand_toml

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import date

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.compare import Decision
    from suffice.decide.plan_types import Plan
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord
    from suffice.web.choices import Chosen, Models
    from suffice.web.costs import OwnPrice
    from suffice.web.toml_text import Value

_MOST_JOBS: Final = 64  # whose answers are kept
_VERDICTS_AT_ONCE: Final = 2  # so that one that nobody waits for any more does not hold up the next

_Part = TypeVar("_Part")


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
        plan: over the catalogue; None: there is none (yet), and ``no_plan`` says why.
        is_whole: nothing is being computed any more.
    """

    demand: Demand
    toml: str
    model: str
    runs: tuple[NamedRun, ...]
    decision: Decision | None = None
    no_decision: Note | None = None
    plan: Plan | None = None
    no_plan: Note | None = None
    is_whole: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedRecord:
    """A record of the start, with the name of its file."""

    file: str
    record: RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """A form that is understood, and the parts of its answer that are computed; None: there is nothing to compute them from."""

    demand: Demand
    toml: str
    chosen: Chosen
    runs: tuple[NamedRun, ...]
    decision: Future[Decision] | None
    plan: Future[Plan] | None

    @property
    def parts(self) -> list[Future[Any]]:
        """What is waited for."""
        return [part for part in (self.decision, self.plan) if part is not None]

    @property
    def is_given_up(self) -> bool:
        """Whether a part was called off before it was begun."""
        return any(part.cancelled() for part in self.parts)


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
        self._runs = _named_runs(records)
        self._catalogue = catalogue
        self._models = models
        self._kept = kept
        self._today = today
        self._lock = threading.Lock()
        self._jobs: OrderedDict[tuple[object, ...], _Job] = OrderedDict()
        self._priced: tuple[tuple[OwnPrice, date], Catalogue] | None = None
        self._verdicts = ThreadPoolExecutor(max_workers=_VERDICTS_AT_ONCE, thread_name_prefix="verdict")
        # One at a time: plans share what they have simulated, and do not guard it.
        self._plans = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan")

    def close(self) -> None:
        """Begin nothing more."""
        self._verdicts.shutdown(wait=False, cancel_futures=True)
        self._plans.shutdown(wait=False, cancel_futures=True)

    def answer(self, form: Form, patience_s: float | None = None) -> Answer:
        """The answer to a form.

        Args:
            form: what is asked.
            patience_s: how long parts are waited for; None: until they are there.

        Raises:
            SufficeError: one sentence about what is wrong with the form.
        """
        job = self._job(form)
        wait(job.parts, timeout=patience_s)
        decision = _done(job.decision)
        plan, no_plan = self._plan_of(job)
        return Answer(
            demand=job.demand,
            toml=job.toml,
            model=job.chosen.label,
            runs=job.runs,
            decision=decision,
            no_decision=None if job.decision is not None else self._no_decision(job.chosen),
            plan=plan,
            no_plan=no_plan,
            is_whole=all(part.done() and not part.cancelled() for part in job.parts),
        )

    def _plan_of(self, job: _Job) -> tuple[Plan | None, Note | None]:
        if job.plan is None:
            return None, Note(key="note.no_shape", values={"model": job.chosen.label})
        try:
            return _done(job.plan), None
        except SufficeError as error:
            return None, Note(key="note.refused", values={"message": str(error)})

    def _no_decision(self, chosen: Chosen) -> Note:
        if not self._runs:
            return Note(key="note.no_records")
        return Note(key="note.other_model", values={"model": chosen.label})

    def _job(self, form: Form) -> _Job:
        """The job of a form; those that nobody has begun for other forms are called off."""
        today = self._today()
        key = (form.key, today)
        with self._lock:
            found = self._jobs.pop(key, None)
            if found is None or found.is_given_up:
                found = self._begun(form, today)
            for other in self._jobs.values():
                for part in other.parts:
                    part.cancel()
            self._jobs[key] = found
            if len(self._jobs) > _MOST_JOBS:
                self._jobs.popitem(last=False)
            return found

    def _begun(self, form: Form, today: date) -> _Job:
        chosen = self._models.chosen(form[MODEL], form[QUANTIZATION])
        toml = demand_toml(form, self._kept, chosen.reference)
        demand = parse_demand(toml, source=SOURCE)
        stated, own = here_cost_of(form, today), own_price_of(form)
        catalogue = self._priced_by(own, today)
        runs = tuple(run for run in self._runs if is_of(run.record, chosen))
        evidences = [run.evidence for run in runs]
        plan = None
        if chosen.model is not None:
            request = PlanRequest(
                demand=demand,
                model=chosen.model,
                catalogue=catalogue,
                today=today,
                here=tuple(evidences),
                here_cost=stated,
            )
            plan = self._plans.submit(make_plan, request)
        decision = self._verdicts.submit(decide, demand, evidences) if evidences else None
        return _Job(demand=demand, toml=toml, chosen=chosen, runs=runs, decision=decision, plan=plan)

    def _priced_by(self, own: OwnPrice | None, today: date) -> Catalogue:
        """The catalogue under the user's price; the last one is kept."""
        if own is None:
            return self._catalogue
        if self._priced is None or self._priced[0] != (own, today):
            self._priced = ((own, today), repriced(self._catalogue, own, today))
        return self._priced[1]


def _done(part: Future[_Part] | None) -> _Part | None:
    """What came out; None: it is being computed, or was called off."""
    return None if part is None or not part.done() or part.cancelled() else part.result()


def _named_runs(records: Sequence[NamedRecord]) -> tuple[NamedRun, ...]:
    """Records with their evidence, under the name of the machine; under the file's as well where two are of one machine."""
    machines = [one.record.machine or one.file for one in records]
    names = [
        f"{machine} ({one.file})" if machines.count(machine) > 1 else machine
        for machine, one in zip(machines, records, strict=True)
    ]
    return tuple(
        NamedRun(file=one.file, record=one.record, evidence=evidence_from(one.record, name))
        for one, name in zip(records, names, strict=True)
    )
