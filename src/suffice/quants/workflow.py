"""A comparison from beginning to end: look at everybody, ask everybody, distances, speed; kept on disk after every step.

A folder holds all of it: see :mod:`suffice.quants.folder`. Whatever ends the process, a run with ``resume`` goes on where it was.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from suffice import __version__
from suffice.errors import EngineError, EngineMissingError, ModelFileError, UsageError
from suffice.loaders.answers import answers_header, answers_path
from suffice.model.quants import AskedModel, Measured, Outcome, QuantsRecord, Subject, SubjectKind
from suffice.quants.asking import ANSWERS_FOLDER, ask_all, tasks_of
from suffice.quants.distance_stage import DistanceStage
from suffice.quants.folder import RECORD_NAME, SPEED_FOLDER, ComparisonFolder, locked, record_stems
from suffice.quants.job import Around, Job
from suffice.quants.kept import (
    ANSWERS_SETTING,
    changed_settings,
    kept_answers,
    kept_distances,
    kept_measured,
    same_asking,
    without_problem,
)
from suffice.quants.lineup import Entrant, line_up, nobody_asked
from suffice.quants.local import LocalRespondent
from suffice.quants.respondent import comparison_notes, different
from suffice.quants.texts import documents_of
from suffice.quants.time_left import about

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from suffice.loaders.items import ItemSet
    from suffice.model.answers import Answer
    from suffice.model.quants import Distance
    from suffice.quants.server import ServerRespondent
    from suffice.quants.speeds import Speeds
    from suffice.quants.subjects import LocalModel
    from suffice.quants.texts import UserTexts
    from suffice.quants.tokens import TokenBook

__all__ = ["RECORD_NAME", "SPEED_FOLDER", "Around", "Job", "compare_models"]
_LEAST_MEASURED: Final = 2  # a reference, and somebody beside it


def compare_models(job: Job, around: Around) -> QuantsRecord:
    """Compare, and return the record, which is in the folder as well.

    Everybody is looked at, and what is to be made is made, before anybody is asked. A candidate that cannot be asked after all has no
    scores, and the reason stands in their place; the others go on. With ``resume``, answers are used that were given to the same question
    in the same way; who cannot be asked now keeps those of the earlier run where it has all of them. A comparison that is in the folder is
    replaced by one that has as much, never by less.

    Raises:
        UsageError: the folder holds a comparison and ``resume`` is not set; a file or server that is not there, a text that cannot be
            used, a matrix that does not fit; nobody could be asked.
        OutputError: something cannot be written, or another run has the folder.
        SufficeError: the reference could not be asked.
    """
    with locked(job.folder):
        return _Comparison(job, around).run()


class _Comparison:
    def __init__(self, job: Job, around: Around) -> None:
        self._job, self._around = job, around
        self._folder = ComparisonFolder(job.folder, resume=job.resume)
        self._texts: UserTexts | None = documents_of(job.items.items, job.texts) if job.distances else None
        self._files: dict[str, LocalModel] = {}  # by name, the reference's first; of those that answered
        self._book: TokenBook | None = None
        self._seen: Counter[str] = Counter()  # identities
        self._names: dict[str, str] = {}  # of the first party with an identity
        self._answers: dict[str, str] = {}
        self._entrants: tuple[Entrant, ...] = ()
        self._on_same_items: tuple[Distance, ...] = ()
        self._is_whole = True
        self._record = self._blank()

    def run(self) -> QuantsRecord:
        job = self._job
        if not job.resume and any(party.url is None for party in job.parties):
            self._around.engine()  # where there is none, nobody has to be read first
        self._entrants = line_up(job, self._around, self._folder.earlier)
        self._take_over()
        self._ask_everyone()
        if self._texts is not None:
            self._measure_distances(self._texts)
        if self._around.speed is not None:
            self._measure_speed(self._around.speed)
        self._update(complete=True)
        if not self._is_whole:
            where = job.folder / RECORD_NAME
            note = f"this run has fewer answers than the comparison in {where}, which stays as it was; this one is beside it"
            self._update(notes=(*self._record.notes, note))
        return self._record

    def _blank(self) -> QuantsRecord:
        job, earlier = self._job, self._folder.earlier
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return QuantsRecord(
            items_source=job.items.source,
            items_hash=job.items.file_hash,
            tasks=tasks_of(job.items.items),
            models=(),
            settings=job.settings,
            notes=(*_item_notes(job.items), *self._asking_notes()),
            created_at=now if earlier is None else earlier.created_at,
            suffice_version=__version__,
            complete=False,
        )

    def _asking_notes(self) -> tuple[str, ...]:
        job = self._job
        has_server = any(party.url is not None for party in job.parties)
        return comparison_notes(job.items.items, job.asking, has_server=has_server, has_demand=False)

    def _take_over(self) -> None:
        """Distances and speeds of these very files that are there already."""
        folder = self._folder
        records = [record for record in (folder.earlier, folder.partial) if record is not None]
        subjects = [self._subject_of(entrant) for entrant in self._entrants]
        # Whether distances are on the text of these items is seen when they are measured, and only then.
        self._on_same_items = kept_distances(
            [record for record in records if record.items_hash == self._record.items_hash], subjects
        )
        distances = self._on_same_items if self._texts is None else kept_distances(records, subjects)
        measured = kept_measured(folder.path, records, subjects, self._speed_places())
        self._record = replace(self._record, distances=distances, measured=measured)

    def _speed_places(self) -> dict[str, str]:
        stems = record_stems([entrant.party.name for entrant in self._entrants])
        return {name: f"{SPEED_FOLDER}/{stem}.json" for name, stem in stems.items()}

    def _update(self, **changes: object) -> None:
        self._record = replace(self._record, **changes)  # type: ignore[arg-type]  # fields of the record, by name
        if self._record.models:
            self._is_whole = self._folder.save(self._record)

    def _note(self, *notes: str) -> None:
        known = self._record.notes
        self._update(notes=(*known, *(note for note in dict.fromkeys(notes) if note not in known)))

    # -- asking -------------------------------------------------------------------------------------------------------

    def _ask_everyone(self) -> None:
        reference, *candidates = self._entrants
        progress, began_s = self._around.progress, self._around.clock()
        items = len(different(self._job.items.items))
        progress(f"asking {len(self._entrants)} models, one after the other; {items:,} items each")
        self._add(self._reference_asked(reference))
        if not self._job.resume:
            time_left = about((self._around.clock() - began_s) * len(candidates))
            progress(f"{reference.party.name} has answered; the others take {time_left} if they are as fast")
        problems = []
        for entrant in candidates:
            try:
                asked = self._asked(entrant)
            except (EngineError, ModelFileError, UsageError) as error:
                problems.append((entrant.party.name, str(error)))
                asked = self._unasked(entrant, str(error))
            self._add(asked)
        if len(problems) == len(candidates):
            raise nobody_asked(problems)

    def _add(self, asked: AskedModel) -> None:
        settings = {**self._job.settings, ANSWERS_SETTING: dict(self._answers)}
        self._update(models=(*self._record.models, asked), settings=settings)

    def _reference_asked(self, entrant: Entrant) -> AskedModel:
        asked = self._asked(entrant)
        if self._job.items.items and not _has_answers(asked):
            raise EngineError(f"{entrant.party.name}, the reference, answered nothing: {asked.outcomes[0].reason}")
        return asked

    def _asked(self, entrant: Entrant) -> AskedModel:
        """What a party says now, or where that is impossible, what it said in the same way before."""
        try:
            if entrant.problem is not None:
                raise entrant.problem
            return self._asked_now(entrant)
        except (EngineError, ModelFileError, UsageError) as error:
            kept = self._asked_before(entrant)
            if kept is None:
                raise
            return without_problem(kept, str(error))

    def _asked_before(self, entrant: Entrant) -> AskedModel | None:
        job, earlier, subject, name = self._job, self._folder.earlier, entrant.subject, entrant.party.name
        if earlier is None or subject is None or not same_asking(earlier.settings, job.settings):
            return None
        same = [one.subject for one in earlier.models if one.subject.identity == subject.identity]
        before = next((one for one in same if one.name == name), same[0] if same else None)
        kept = None if before is None else kept_answers(job.folder, earlier, before, job.items.items, job.functions)
        if kept is None:
            return None
        asked, self._answers[name] = kept
        return replace(asked, subject=replace(asked.subject, name=name))

    def _asked_now(self, entrant: Entrant) -> AskedModel:
        job, progress = self._job, self._around.progress
        name, items = entrant.party.name, job.items.items
        with self._respondent(entrant) as respondent:
            if isinstance(respondent, LocalRespondent):
                self._book = self._book or respondent.book
            identity = respondent.subject.identity
            again = self._seen[identity]
            self._seen[identity] += 1
            # The same model once more is asked anew: what a model answered before says nothing of what it answers now.
            folder = job.folder / f"again-{again}" if again else job.folder
            header = answers_header(model_hash=identity, model=name, settings=respondent.settings)
            notes = self._notes_before(entrant, identity, changed_settings(folder, header) if job.resume else ())
            asked, answers = ask_all(
                respondent, items, folder, progress=progress, functions=job.functions, resume=job.resume
            )
        path = answers_path(folder / ANSWERS_FOLDER, header)
        self._answers[name] = path.relative_to(job.folder).as_posix()
        if entrant.model is not None and any(answer.answered for answer in answers.values()):
            self._files[name] = entrant.model
        subject = replace(asked.subject, name=name)
        return replace(asked, subject=subject, notes=(*notes, *_shortened_notes(asked.notes, answers)))

    def _notes_before(self, entrant: Entrant, identity: str, changed: tuple[str, ...]) -> list[str]:
        """Why it is asked anew, and that it is a model that was asked already."""
        name, earlier, notes = entrant.party.name, self._folder.earlier, []
        if changed:
            notes.append(f"everything is asked again: {', '.join(changed)}")
        elif earlier is not None and any(
            one.subject.name == name and one.subject.identity != identity for one in earlier.models
        ):
            notes.append("it is another model than in the earlier run, and everything is asked again")
        for note in notes:
            self._around.progress(f"{name}: {note}")
        first = self._names.setdefault(identity, name)
        if first != name:
            notes.append(f"it is the same model as {first}: what differs between the two is noise")
        return notes

    def _respondent(self, entrant: Entrant) -> LocalRespondent | ServerRespondent:
        job, progress = self._job, self._around.progress
        if entrant.server is not None:
            return entrant.server
        assert entrant.model is not None  # noqa: S101  # one of the two is there where there is no problem
        engine = self._around.engine()
        return LocalRespondent(engine, entrant.model, job.items.items, job.asking, book=self._book, progress=progress)

    def _unasked(self, entrant: Entrant, problem: str) -> AskedModel:
        outcome = Outcome(score=None, reason=f"could not be asked: {problem}")
        return AskedModel(subject=self._subject_of(entrant), outcomes=(outcome,) * len(self._record.tasks))

    def _subject_of(self, entrant: Entrant) -> Subject:
        """Who it is, as far as that is known."""
        if entrant.subject is not None:
            return entrant.subject
        party = entrant.party
        kind = SubjectKind.SERVER if party.url else SubjectKind.MADE if party.recipe else SubjectKind.FILE
        return Subject(name=party.name, kind=kind, place=party.name, identity=f"not asked: {party.name}")

    # -- distances and speed ------------------------------------------------------------------------------------------

    def _measure_distances(self, texts: UserTexts) -> None:
        if not self._are_measurable:
            self._update(distances=self._on_same_items)
            return
        kept = self._record.distances
        try:
            engine = self._around.engine()
        except EngineMissingError as error:
            self._update(distances=self._on_same_items)
            self._note(f"distances were not measured: {error}")
            return
        stage = DistanceStage(
            engine=engine,
            texts=texts,
            threads=self._job.options.threads,
            max_tokens=self._job.text_tokens,
            chat_prompts=self._job.options.chat_prompts,
            progress=self._around.progress,
        )
        try:
            found = stage.measure(self._files, kept, self._keep_distances)
        except (EngineError, UsageError) as error:
            self._update(distances=())
            self._note(f"distances were left out: {error}")
            return
        self._update(distances=found.distances)
        self._note(*found.notes)

    @property
    def _are_measurable(self) -> bool:
        """Whether the reference's file and another one answered."""
        return self._entrants[0].party.name in self._files and len(self._files) >= _LEAST_MEASURED

    def _keep_distances(self, found: tuple[Distance, ...]) -> None:
        self._update(distances=found)

    def _measure_speed(self, speed: Callable[[Mapping[str, LocalModel], Mapping[str, Path]], Speeds]) -> None:
        if not self._are_measurable:
            return
        places = self._speed_places()
        paths = {name: self._job.folder / places[name] for name in self._files}
        try:
            found = speed(self._files, paths)
        except EngineMissingError as error:
            self._note(f"speed was not measured: {error}")
            return
        except (EngineError, UsageError) as error:
            self._update(measured=())
            self._note(f"speed was not measured: {error}")
            return
        away = [
            one for one in self._record.measured if one.subject not in self._files
        ]  # not there now, and measured before
        rows = [Measured(subject=name, record=places[name]) for name in found.names]
        self._update(measured=(*rows, *away))
        self._note(*found.notes)


def _has_answers(asked: AskedModel) -> bool:
    return any(outcome.text is not None or outcome.score is not None for outcome in asked.outcomes)


def _shortened_notes(notes: tuple[str, ...], answers: Mapping[str, Answer]) -> tuple[str, ...]:
    """Without what stands beside the answers that failed: an engine's long advice is read once."""
    problems = {answer.error for answer in answers.values() if answer.error}
    short = []
    for note in notes:
        text = note
        for problem in problems:
            text = text.replace(f" ({problem})", "")
        short.append(text)
    return tuple(short)


def _item_notes(items: ItemSet) -> tuple[str, ...]:
    skipped = [f"line {problem.line} was left out: {problem.what}" for problem in items.skipped]
    return (*skipped, *items.notes)
