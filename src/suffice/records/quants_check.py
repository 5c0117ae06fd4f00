"""Does a kept comparison agree with itself? What cannot be true of any comparison was edited, and is refused."""

from __future__ import annotations

from collections import Counter
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError
from suffice.model.items import BINARY_KINDS
from suffice.records.alike import RELATIVE_TOLERANCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.model.quants import AskedModel, Distance, QuantsRecord

_SHOWN: Final = 60


def check_quants(record: QuantsRecord, *, source: str) -> None:
    """Refuse a comparison that contradicts itself.

    Raises:
        RecordError: with the place.
    """
    names = [model.subject.name for model in record.models]
    _check_once(names, "model", source)
    _check_once((task.item_id for task in record.tasks), "item", source)
    for model in record.models:
        _check_model(record, model, source)
    own = [one for one in record.distances if not one.is_self]
    _check_once((one.candidate for one in own), "distance of", source)
    if record.complete:  # a run that goes on has what was measured before all models have answered again
        _check_known((one.candidate for one in own), names[1:], "a distance", source)
        _check_known((one.subject for one in record.measured), names, "a speed", source)
    for distance in record.distances:
        _check_distance(distance, source)
    _check_identities(record, source)
    _check_once((one.subject for one in record.measured), "speed of", source)
    for measured in record.measured:
        _check_beside(measured.record, "run record", source)
    answers = record.settings.get("answers")
    for place in answers.values() if isinstance(answers, dict) else ():
        _check_beside(str(place), "answers file", source)


def _check_beside(place: str, what: str, source: str) -> None:
    path = PurePosixPath(place)
    if path.is_absolute() or ".." in path.parts or "\\" in place or ":" in place:
        raise RecordError(f"{source}: the {what} {_shown(place)} is not beside the comparison; it was edited")


def _check_identities(record: QuantsRecord, source: str) -> None:
    """A distance says of which files it is: they are those of the models that are there."""
    identities = {model.subject.name: model.subject.identity for model in record.models}
    for one in record.distances:
        told = {"reference": record.reference.subject.identity, "candidate": identities.get(one.candidate)}
        for what, identity in told.items():
            said = one.settings.get(what, identity)
            if identity is not None and said != identity:
                raise RecordError(
                    f"{source}: the distance of {_shown(one.candidate)} is of another {what} than the one that is compared; it was edited"
                )


def _check_once(names: Iterable[str], what: str, source: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise RecordError(f"{source}: the {what} {_shown(twice[0])} stands there twice; it was edited")


def _check_known(names: Iterable[str], known: Iterable[str], what: str, source: str) -> None:
    strange = [name for name in names if name not in set(known)]
    if strange:
        raise RecordError(f"{source}: {what} is of {_shown(strange[0])}, which is none of its models; it was edited")


def _check_model(record: QuantsRecord, model: AskedModel, source: str) -> None:
    name = _shown(model.subject.name)
    if len(model.outcomes) != len(record.tasks):
        raise RecordError(
            f"{source}: {name} has {len(model.outcomes)} outcomes for {len(record.tasks)} items; it was edited"
        )
    for task, outcome in zip(record.tasks, model.outcomes, strict=True):
        if outcome.score is None:
            continue
        if not task.is_labelled:
            raise RecordError(
                f"{source}: {name} has a score for item {_shown(task.item_id)}, which has no label; it was edited"
            )
        if task.kind in BINARY_KINDS and outcome.score not in (0, 1):
            raise RecordError(
                f"{source}: {name} scores {outcome.score:g} on item {_shown(task.item_id)}, of which a score ({task.kind}) is 0 or 1; "
                "it was edited"
            )


def _check_distance(one: Distance, source: str) -> None:
    name = _shown(one.candidate)
    _check_once((document.name for document in one.documents), f"document of {name}", source)
    for document in one.documents:
        if document.same_top > document.tokens:
            raise RecordError(
                f"{source}: {name} has the same top token {document.same_top} times in the {document.tokens} tokens of document "
                f"{_shown(document.name)}; it was edited"
            )
    ends = [value for value in (one.p99.low, one.p99.value, one.p99.high) if value is not None]
    if ends != sorted(ends) or (one.p99.low is None) != (one.p99.high is None):
        raise RecordError(f"{source}: the P99 of {name} does not lie in its interval; it was edited")
    mean = max(document.divergence / document.tokens for document in one.documents)
    if one.largest * (1 + RELATIVE_TOLERANCE) < max(mean, *ends):
        raise RecordError(
            f"{source}: the largest divergence of {name} is {one.largest:g}, below a mean or P99 of its tokens; it was edited"
        )


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")
