"""What may be measured side by side, and which earlier records it may go on with."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.paired_speed import interleaved_of
from suffice.errors import EngineError, UsageError
from suffice.loaders.model_file import ModelFile
from suffice.measure.base_run import context_to_open
from suffice.measure.numa import facts_on
from suffice.measure.request import check_same_figures, check_same_lengths
from suffice.measure.run_record import blank_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from suffice.measure.base_run import Surroundings
    from suffice.measure.request import RunRequest
    from suffice.records.schema import RunRecord

# What cannot differ between models of which one is said to be so many times as fast as the other.
_ALIKE: Final = ("prompt_tokens", "depth", "batch", "prompt", "nodes")
_NOT_TOGETHER: Final = "the records to resume were not measured side by side; leave out --resume"


def check_requests(requests: Mapping[str, RunRequest], rounds: int) -> None:
    """Refuse what cannot be measured side by side, before anything is.

    Raises:
        UsageError: with the name and what to do.
    """
    if not requests or rounds < 1:
        raise UsageError("side by side: give one model and one round at least")
    first = next(iter(requests.values()))
    for name, request in requests.items():
        file_of(name, request)
        if request.slots > 1:
            raise UsageError(
                f"{name}: --slots {request.slots}: side by side no service curve is measured; leave it out"
            )
        other = [field for field in _ALIKE if getattr(request, field) != getattr(first, field)]
        if other:
            raise UsageError(f"{name}: side by side all need the same {', '.join(other)}; measure it apart")


def file_of(name: str, request: RunRequest) -> ModelFile:
    """The file of a request; a UsageError where it has none."""
    if not isinstance(request.model, ModelFile):
        raise UsageError(f"{name}: side by side only files are measured, and this model has none; download it first")
    return request.model


def begun_of(requests: Mapping[str, RunRequest], earlier: Mapping[str, RunRecord]) -> dict[str, RunRecord]:
    """Records to go on with; none where one of those that had turns together has nothing: it was interrupted in the first round.

    Raises:
        UsageError: they are not of one measurement, or of other lengths.
    """
    known = {name: earlier[name] for name in requests if name in earlier}
    begun = {name: record for name, record in known.items() if any(one.step_s for one in record.measurement.decode)}
    told = [interleaved_of(record) for record in begun.values()]
    if len({one.get("session") for one in told}) > 1 or any(not isinstance(one.get("session"), str) for one in told):
        raise UsageError(_NOT_TOGETHER)
    for name, record in begun.items():
        with named(name):
            check_same_lengths(record, requests[name])
    partners = {other for one in told for other in one.get("with", ()) if other in requests}
    if not partners <= set(begun):
        return {}
    return {name: replace(record, complete=False) for name, record in begun.items()}


def check_finished(requests: Mapping[str, RunRequest], records: Mapping[str, RunRecord], around: Surroundings) -> None:
    """Refuse complete records that are not of these requests on this machine.

    Raises:
        UsageError: see :func:`suffice.measure.request.check_same_figures`; with the name.
    """
    for name, request in requests.items():
        now = blank_record(request, facts_on(around.machine.facts(), request.nodes), around.engine.identity)
        with named(name):
            check_same_figures(records[name], now, request, n_ctx=context_to_open(request))


@contextmanager
def named(name: str) -> Iterator[None]:
    """Errors say which of the models they are about."""
    try:
        yield
    except (UsageError, EngineError) as error:
        raise type(error)(f"{name}: {error}") from error


def whose(error: Exception, names: Iterable[str]) -> str | None:
    """Which of the models an error of :func:`named` is about; None: none of them."""
    found = [name for name in names if str(error).startswith(f"{name}: ")]
    return max(found, key=len, default=None)
