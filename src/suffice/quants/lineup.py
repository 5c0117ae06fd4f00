"""Everyone who takes part is looked at before anybody is asked: files, servers, and what is to be made.

What can be wrong at once (a name that is no file, a server that is not there, a matrix of another model, no quantizer) is said at once, and
not after the reference has answered for an hour.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from suffice.errors import EngineError, EngineMissingError, ModelFileError, SufficeError, UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import open_model_file
from suffice.quants.imatrix import read_imatrix
from suffice.quants.kept import kept_subject
from suffice.quants.recipe_plan import plan_recipe
from suffice.quants.remake import make_candidate
from suffice.quants.server import ServerRespondent, server_endpoint
from suffice.quants.server_names import named_by_model
from suffice.quants.speeds import grouped
from suffice.quants.subjects import local_model

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from suffice.measure.engine.quantizer import Quantizer
    from suffice.model.quants import QuantsRecord, Subject
    from suffice.quants.job import Around, Job
    from suffice.quants.made_store import MadeStore
    from suffice.quants.parties import Party
    from suffice.quants.subjects import LocalModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """A party that was looked at: with its file or its server, or with what is wrong with it.

    ``before`` is whom it was in an earlier run, where it cannot be looked at now.
    """

    party: Party
    model: LocalModel | None = None
    server: ServerRespondent | None = None
    problem: SufficeError | None = None
    before: Subject | None = None

    @property
    def subject(self) -> Subject | None:
        """Who it is; None: that is not known."""
        if self.model is not None:
            return self.model.subject
        found = self.before if self.server is None else self.server.subject
        return None if found is None else replace(found, name=self.party.name)


def line_up(job: Job, around: Around, earlier: QuantsRecord | None) -> tuple[Entrant, ...]:
    """All parties, the reference first, with what is to be made made.

    With an ``earlier`` comparison, who cannot be looked at now is there as it was then. A candidate whose file is damaged, or whose making
    ends in the engine's failure, has its problem with it; all else that is wrong is an error.

    Raises:
        UsageError: no such file or server, a matrix or recipe that does not fit, or no candidate that can be asked.
        SufficeError: the reference cannot be used, or there is no quantizer.
    """
    first, *others = named_by_model(job.parties, ca_file=job.ca_file)
    _check_paths(job, earlier)
    look = _Look(job, around, earlier)
    reference = look.at(first)
    if reference.problem is not None and reference.before is None:
        raise reference.problem
    look.reference = reference
    look.check_making()
    found = [reference, *map(look.at, others)]
    problems = [one for one in found[1:] if one.problem is not None and one.before is None]
    if len(problems) == len(others):
        raise nobody_asked([(one.party.name, str(one.problem)) for one in problems])
    return tuple(found)


def nobody_asked(problems: Sequence[tuple[str, str]]) -> UsageError:
    """That there is nobody to compare with, by the name of each candidate and what is wrong; the same words stand once."""
    words = "; ".join(f"{names}: {why}" for names, why in grouped(problems))
    return UsageError(f"no candidate could be asked. {words}")


def _check_paths(job: Job, earlier: QuantsRecord | None) -> None:
    """All names that are no files, at once: the first of them is seldom the only one."""
    paths = [party.path for party in job.parties if party.path is not None]
    missing = [str(path) for path in paths if not _is_there(path)]
    if missing and earlier is None:
        raise UsageError(f"there is no file {', '.join(missing)}; check the name")


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


class _Look:
    def __init__(self, job: Job, around: Around, earlier: QuantsRecord | None) -> None:
        self._job, self._around, self._earlier = job, around, earlier
        self.reference: Entrant | None = None
        self._taken: set[str] = set()  # names of the earlier run that were given to somebody

    def at(self, party: Party) -> Entrant:
        """One party."""
        if party.url is not None:
            return self._or_before(party, lambda: Entrant(party=party, server=self._server(party)), fatal=True)
        if party.recipe is not None:
            return self._or_before(party, lambda: Entrant(party=party, model=self._made(party)))
        return self._or_before(party, lambda: Entrant(party=party, model=self._file(party)))

    def _or_before(self, party: Party, find: Callable[[], Entrant], *, fatal: bool = False) -> Entrant:
        """What was found; else whom it was before, else the problem."""
        try:
            return find()
        except (EngineError, ModelFileError, UsageError) as error:
            known = None if self.reference is None else self.reference.subject
            before = None if self._earlier is None else kept_subject(self._earlier, party, known, self._taken)
            if before is None and (fatal or isinstance(error, UsageError | EngineMissingError)):
                raise
            if before is not None:
                self._taken.add(before.name)
                if party.url is not None and before.name not in {one.name for one in self._job.parties}:
                    party = replace(party, name=before.name)  # it does not tell its model's name now
            return Entrant(party=party, problem=error, before=before)

    def _server(self, party: Party) -> ServerRespondent:
        job = self._job
        endpoint, warnings = server_endpoint(party.url or "", model=party.model, ca_file=job.ca_file)
        return ServerRespondent(
            endpoint,
            job.items.items,
            job.asking,
            name=party.name,
            warnings=warnings,
            progress=self._around.progress,
        )

    def _file(self, party: Party) -> LocalModel:
        assert party.path is not None  # noqa: S101  # one of the three is there
        if not _is_there(party.path):
            raise UsageError(f"there is no file {party.path}; check the name")
        self._around.progress(f"{party.name}: reading the file")
        return local_model(party.path, name=party.name)

    def check_making(self) -> None:
        """Refuse recipes and a matrix that do not fit, and look for the quantizer, before the first of them is made.

        Raises:
            UsageError: see :func:`suffice.quants.remake.make_candidate`.
            EngineMissingError: there is no quantizer.
        """
        recipes = [party.recipe for party in self._job.parties if party.recipe is not None]
        reference = None if self.reference is None else self.reference.model
        if not recipes or reference is None:
            return
        header, imatrix = read_gguf_header(reference.path), self._job.imatrix
        for recipe in recipes:
            plan_recipe(header, recipe, has_imatrix=imatrix is not None)
        if imatrix is not None:
            read_imatrix(imatrix, header)
        if self._earlier is None:
            self._around.quantizer()

    def _made(self, party: Party) -> LocalModel:
        around, job = self._around, self._job
        reference = None if self.reference is None else self.reference.model
        if reference is None:
            raise UsageError(f"{party.name} is made of the reference, whose file is not there")
        quantizer: Quantizer = around.quantizer()
        store: MadeStore = around.store()
        made = make_candidate(
            open_model_file(reference.path),
            party.recipe or "",
            quantizer,
            store,
            imatrix=job.imatrix,
            identity=reference.subject.identity,
            n_threads=job.options.threads,
            progress=around.progress,
        )
        return local_model(made.path, subject=replace(made.subject, name=party.name))
