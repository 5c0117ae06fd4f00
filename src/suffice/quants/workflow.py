"""A comparison from beginning to end: make what is to be made, ask everyone, distances, speed; kept on disk after every step.

A folder holds all of it: ``quants.json``, the answers of each model, and a run record of the speed of each. Whatever ends the process, a
run with ``resume`` goes on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from suffice import __version__
from suffice.errors import EngineError, ModelFileError, UsageError
from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.limits import read_cpu_limits
from suffice.model.quants import AskedModel, Measured, Outcome, QuantsRecord, Subject, SubjectKind
from suffice.quants.asking import ask_all, tasks_of
from suffice.quants.distances import DistanceRun, compared, measure_distances_of
from suffice.quants.local import LocalRespondent
from suffice.quants.remake import make_candidate
from suffice.quants.respondent import AskOptions
from suffice.quants.server import ServerRespondent, server_endpoint
from suffice.quants.subjects import LocalModel, local_model
from suffice.quants.texts import DEFAULT_MAX_TOKENS, documents_of
from suffice.quants.tokens import prompting_for
from suffice.records.quants_store import load_quants, save_quants

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from suffice.loaders.item_functions import ScoreFunction
    from suffice.loaders.items import ItemSet
    from suffice.measure.engine.quantizer import Quantizer
    from suffice.measure.engine.text_seam import TextEngine, TextSession
    from suffice.measure.prompting import Prompting
    from suffice.model.quants import Distance
    from suffice.quants.made_store import MadeStore
    from suffice.quants.parties import Party
    from suffice.quants.tokens import TokenBook

RECORD_NAME: Final = "quants.json"
SPEED_FOLDER: Final = "speed"
_ANY_CONTEXT: Final = 1  # whoever opens a session chooses it


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What is to be compared, and how.

    Attributes:
        parties: the reference first.
        items: the questions.
        functions: score functions by name.
        folder: where everything is kept.
        options: how models are asked.
        texts: files of the user's that distances are measured on; without any, the items.
        text_tokens: of them that are read.
        distances: measure how far next-token distributions are apart.
        imatrix: for what is made.
        ca_file: certificates that a server's is checked against.
        resume: go on with what is in the folder.
    """

    parties: tuple[Party, ...]
    items: ItemSet
    folder: Path
    functions: Mapping[str, ScoreFunction] = field(default_factory=dict)
    options: AskOptions = field(default_factory=AskOptions)
    texts: tuple[Path, ...] = ()
    text_tokens: int = DEFAULT_MAX_TOKENS
    distances: bool = True
    imatrix: Path | None = None
    ca_file: Path | None = None
    resume: bool = False

    @property
    def asking(self) -> AskOptions:
        """How all are asked: where a server takes part, which weighs no choices for us, everybody gets them as a list."""
        has_server = any(party.url is not None for party in self.parties)
        return replace(self.options, choices_as_text=True) if has_server else self.options

    @property
    def settings(self) -> dict[str, object]:
        """What decided the answers, for the record."""
        options = self.asking
        return {
            "slots": options.slots,
            "max_tokens": options.max_tokens,
            "chat_prompts": options.chat_prompts,
            "choices_as_text": options.choices_as_text,
            "threads": options.threads,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """The outside. The engine and the quantizer are looked for only where they are needed; ``speed`` None: speed is not measured.

    ``speed`` gets the model files by name, the reference's first, and the folder for their records; it returns the names it has records of.
    """

    engine: Callable[[], TextEngine]
    quantizer: Callable[[], Quantizer]
    store: Callable[[], MadeStore]
    progress: Callable[[str], None]
    speed: Callable[[Mapping[str, LocalModel], Path], Sequence[str]] | None = None


def compare_models(job: Job, around: Around) -> QuantsRecord:
    """Compare, and return the record, which is in the folder as well.

    A candidate that cannot be asked has no scores, and the reason stands in their place; the others go on.

    Raises:
        UsageError: the folder holds a comparison and ``resume`` is not set, or one of other items or settings; nobody could be asked.
        SufficeError: the reference could not be asked, or something could not be written.
    """
    return _Comparison(job, around).run()


def record_stem(name: str) -> str:
    """The file name of a model's speed record, without its end."""
    return "".join(letter if letter.isalnum() or letter in "-._()" else "_" for letter in name)


class _Comparison:
    def __init__(self, job: Job, around: Around) -> None:
        self._job, self._around = job, around
        self._path = job.folder / RECORD_NAME
        self._files: dict[str, LocalModel] = {}  # by name, the reference's first
        self._book: TokenBook | None = None
        self._seen: set[str] = set()  # identities
        self._record = self._begin()

    def run(self) -> QuantsRecord:
        self._ask_everyone()
        if self._job.distances:
            self._measure_distances()
        if self._around.speed is not None:
            self._measure_speed(self._around.speed)
        self._update(complete=True)
        return self._record

    def _begin(self) -> QuantsRecord:
        job = self._job
        record = QuantsRecord(
            items_source=job.items.source,
            items_hash=job.items.file_hash,
            tasks=tasks_of(job.items.items),
            models=(),
            settings=job.settings,
            notes=_item_notes(job.items),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            suffice_version=__version__,
            complete=False,
        )
        if not self._path.exists():
            return record
        if not job.resume:
            raise UsageError(f"{self._path} exists; go on with it by --resume, or give another --out")
        earlier = load_quants(self._path)
        if earlier.items_hash != record.items_hash:
            raise UsageError(f"{self._path} is a comparison on other items; give another --out")
        return replace(record, distances=earlier.distances, measured=earlier.measured, created_at=earlier.created_at)

    def _update(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]  # fields of the record, by name
        if self._record.models:
            save_quants(self._record, self._path)

    # -- asking -------------------------------------------------------------------------------------------------------

    def _ask_everyone(self) -> None:
        reference, *candidates = self._job.parties
        self._update(models=(self._asked(reference),))
        problems = []
        for party in candidates:
            try:
                asked = self._asked(party)
            except (EngineError, ModelFileError, UsageError) as error:
                problems.append(f"{party.name}: {error}")
                asked = self._unasked(party, str(error))
            self._update(models=(*self._record.models, asked))
        if len(problems) == len(candidates):
            raise UsageError(f"no candidate could be asked. {'; '.join(problems)}")

    def _asked(self, party: Party) -> AskedModel:
        job, progress = self._job, self._around.progress
        items = job.items.items
        with self._respondent(party) as respondent:
            if isinstance(respondent, LocalRespondent):
                self._book = self._book or respondent.book
            again = respondent.subject.identity in self._seen
            self._seen.add(respondent.subject.identity)
            # The same model once more is asked anew: what a model answered before says nothing of what it answers now.
            folder = job.folder / f"again-{len(self._record.models)}" if again else job.folder
            asked, _ = ask_all(respondent, items, folder, progress=progress, functions=job.functions, resume=job.resume)
        return asked

    def _respondent(self, party: Party) -> LocalRespondent | ServerRespondent:
        job, progress = self._job, self._around.progress
        items = job.items.items
        if party.url is not None:
            endpoint, warnings = server_endpoint(party.url, model=party.model, ca_file=job.ca_file)
            return ServerRespondent(endpoint, items, job.asking, name=party.name, warnings=warnings, progress=progress)
        model = self._file(party)
        self._files[party.name] = model
        return LocalRespondent(self._around.engine(), model, items, job.asking, book=self._book, progress=progress)

    def _file(self, party: Party) -> LocalModel:
        if party.recipe is not None:
            return self._made(party)
        assert party.path is not None  # noqa: S101  # one of the three is there
        self._around.progress(f"{party.name}: reading the file")
        return local_model(party.path, name=party.name)

    def _made(self, party: Party) -> LocalModel:
        around = self._around
        reference = next(iter(self._files.values()))
        made = make_candidate(
            open_model_file(reference.path),
            party.recipe or "",
            around.quantizer(),
            around.store(),
            imatrix=self._job.imatrix,
            identity=reference.subject.identity,
            n_threads=self._job.options.threads,
            progress=around.progress,
        )
        return local_model(made.path, subject=replace(made.subject, name=party.name))

    def _unasked(self, party: Party, problem: str) -> AskedModel:
        kind = SubjectKind.SERVER if party.url else SubjectKind.MADE if party.recipe else SubjectKind.FILE
        known = self._files.pop(party.name, None)
        subject = (
            known.subject
            if known is not None
            else Subject(name=party.name, kind=kind, place=party.name, identity=f"not asked: {party.name}")
        )
        outcome = Outcome(score=None, reason=f"could not be asked: {problem}")
        return AskedModel(subject=subject, outcomes=(outcome,) * len(self._record.tasks))

    # -- distances and speed ------------------------------------------------------------------------------------------

    def _measure_distances(self) -> None:
        job, around = self._job, self._around
        reference, *candidates = [self._files.get(party.name) for party in job.parties]
        known = [one for one in candidates if one is not None]
        if reference is None or not known:
            return
        threads = job.options.threads or read_cpu_limits().usable_cpus
        settings = EngineSettings(
            n_ctx=_ANY_CONTEXT,
            n_threads=threads,
            n_threads_batch=threads,
            # With it on, rounding depends on how a text is cut, by as much as eight bits differ from sixteen (docs/quality-statistics.md).
            flash_attention="off",
        )
        run = DistanceRun(
            engine=around.engine(),
            settings=settings,
            texts=documents_of(job.items.items, job.texts),
            prompting=self._prompting(reference),
            max_tokens=job.text_tokens,
            progress=around.progress,
            save=self._keep_distance,
        )
        first, *others = [
            compared(one.subject.name, open_model_file(one.path), settings) for one in (reference, *known)
        ]
        try:
            found = measure_distances_of(run, first, others, kept=self._record.distances)
        except UsageError as error:
            self._update(distances=(), notes=(*self._record.notes, f"distances were left out: {error}"))
            return
        self._update(distances=found.distances, notes=(*self._record.notes, *found.notes))

    def _prompting(self, reference: LocalModel) -> Callable[[TextSession], Prompting]:
        chat_prompts = self._job.options.chat_prompts

        def prompting(session: TextSession) -> Prompting:
            return prompting_for(session, reference.template, name=reference.subject.name, chat_prompts=chat_prompts)

        return prompting

    def _keep_distance(self, found: Distance) -> None:
        key = (found.candidate, found.is_self)
        others = [one for one in self._record.distances if (one.candidate, one.is_self) != key]
        self._update(distances=(*others, found))

    def _measure_speed(self, speed: Callable[[Mapping[str, LocalModel], Path], Sequence[str]]) -> None:
        reference = self._job.parties[0].name
        if reference not in self._files or len(self._files) < 2:  # noqa: PLR2004  # it and another one
            return
        try:
            measured = speed(self._files, self._job.folder / SPEED_FOLDER)
        except (EngineError, UsageError) as error:
            self._update(notes=(*self._record.notes, f"speed was not measured: {error}"))
            return
        rows = tuple(Measured(subject=name, record=f"{SPEED_FOLDER}/{record_stem(name)}.json") for name in measured)
        self._update(measured=rows)


def _item_notes(items: ItemSet) -> tuple[str, ...]:
    skipped = [f"line {problem.line} was left out: {problem.what}" for problem in items.skipped]
    return (*skipped, *items.notes)
