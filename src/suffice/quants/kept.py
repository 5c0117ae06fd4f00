"""What an earlier run left in a folder, as far as it holds for this one: answers, distances, speeds."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError, UsageError
from suffice.loaders.answers import answers_path, read_answers
from suffice.model.quants import AskedModel, SubjectKind
from suffice.quants.asking import ANSWERS_FOLDER, outcomes_of
from suffice.quants.respondent import different
from suffice.quants.server import server_endpoint
from suffice.records.store import load_record
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from suffice.loaders.answers import AnswersHeader
    from suffice.loaders.item_functions import ScoreFunction
    from suffice.model.items import Item
    from suffice.model.quants import Distance, Measured, QuantsRecord, Subject
    from suffice.quants.parties import Party

ANSWERS_SETTING: Final = "answers"
"""In the settings of a comparison: the file of each model's answers, beside it."""
_MAX_HEADER_BYTES: Final = MIB
_SHOWN_CHARACTERS: Final = 40


def same_asking(first: Mapping[str, object], second: Mapping[str, object]) -> bool:
    """Whether two comparisons ask in the same way, by their settings."""
    return {**first, ANSWERS_SETTING: None} == {**second, ANSWERS_SETTING: None}


def kept_subject(
    earlier: QuantsRecord, party: Party, reference: Subject | None, taken: Collection[str] = ()
) -> Subject | None:
    """Whom a party was in an earlier run, where it cannot be looked at now; none of those whose names are ``taken``."""
    for model in earlier.models:
        subject = model.subject
        if subject.name in taken:
            continue
        if party.recipe is not None:
            same = subject.kind is SubjectKind.MADE and subject.quantization == party.recipe.upper()
            same = same and reference is not None and subject.made_from == reference.identity
        elif party.url is not None:
            same = subject.kind is SubjectKind.SERVER and _is_at(party, subject)
        else:
            same = subject.kind is SubjectKind.FILE and subject.place == str(party.path)
        if same:
            return subject
    return None


def _is_at(party: Party, subject: Subject) -> bool:
    try:
        endpoint, _ = server_endpoint(party.url or "", model=party.model)
    except UsageError:
        return False
    is_model = party.model is None or f" {party.model}" in subject.identity
    return endpoint.base == subject.place and is_model


def kept_answers(
    folder: Path,
    earlier: QuantsRecord,
    subject: Subject,
    items: Sequence[Item],
    functions: Mapping[str, ScoreFunction] | None = None,
) -> tuple[AskedModel, str] | None:
    """A model with its answers of an earlier run, scored anew, and the place of their file; None where one of them is missing.

    Raises:
        RecordError: the answers that should be there are damaged.
    """
    places = earlier.settings.get(ANSWERS_SETTING)
    place = places.get(subject.name) if isinstance(places, dict) else None
    if not isinstance(place, str) or not (folder / place).is_file():
        return None
    found = read_answers(folder / place)
    answers = found.by_hash()
    if found.header.model_hash != subject.identity or not set(different(items)) <= set(answers):
        return None
    notes = next((model.notes for model in earlier.models if model.subject.name == subject.name), ())
    return AskedModel(subject=subject, outcomes=outcomes_of(items, answers, functions), notes=notes), place


def kept_distances(records: Iterable[QuantsRecord], subjects: Sequence[Subject]) -> tuple[Distance, ...]:
    """The distances of these very files from this very reference, the first subject; of several of one name the last."""
    reference, *candidates = subjects
    identities = {subject.name: subject.identity for subject in candidates}
    found: dict[tuple[str, bool], Distance] = {}
    for record in records:
        for one in record.distances:
            identity = reference.identity if one.is_self else identities.get(one.candidate)
            same = one.settings.get("reference") == reference.identity and one.settings.get("candidate") == identity
            if same and identity is not None and (not one.is_self or one.candidate == reference.name):
                found[one.candidate, one.is_self] = one
    return tuple(found.values())


def kept_measured(
    folder: Path, records: Iterable[QuantsRecord], subjects: Sequence[Subject], places: Mapping[str, str]
) -> tuple[Measured, ...]:
    """The speeds whose run records are of these very files and stand where they would be written now."""
    identities = {subject.name: subject.identity for subject in subjects}
    found: dict[str, Measured] = {}
    for record in records:
        for one in record.measured:
            if one.subject not in identities or places.get(one.subject) != one.record:
                continue
            with suppress(RecordError):  # what cannot be read is measured again
                if load_record(folder / one.record).model.identity == identities[one.subject]:
                    found[one.subject] = one
    return tuple(found.values())


def without_problem(asked: AskedModel, problem: str) -> AskedModel:
    """A kept model, with the reason why it was not asked now."""
    note = f"it could not be asked now ({problem}); its answers are those of the earlier run"
    return replace(asked, notes=(*asked.notes, note))


def changed_settings(folder: Path, header: AnswersHeader) -> tuple[str, ...]:
    """What is asked otherwise than in the last earlier asking of a model, such as "max_tokens is 64 and was 256".

    Empty where there was none, or where answers of these very settings are there.
    """
    path = answers_path(folder / ANSWERS_FOLDER, header)
    pattern = path.name.rpartition("-")[0] + "-*.jsonl"
    try:
        others = sorted(path.parent.glob(pattern), key=lambda one: one.stat().st_mtime)
    except OSError:
        return ()
    if path in others or not others:
        return ()
    before, now = _settings_in(others[-1]), json.loads(header.settings_json)
    names = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    return tuple(f"{name} is {_shown(now.get(name))} and was {_shown(before.get(name))}" for name in names)


def _settings_in(path: Path) -> dict[str, Any]:
    """Those in the first line of an answers file; none where it has none."""
    try:
        with path.open("rb") as file:
            document = json.loads(file.readline(_MAX_HEADER_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    settings = document.get("settings") if isinstance(document, dict) else None
    return settings if isinstance(settings, dict) else {}


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
