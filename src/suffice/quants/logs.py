"""A comparison from sample logs of lm-evaluation-harness: models that were asked and scored elsewhere."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from suffice import __version__
from suffice.errors import RecordError
from suffice.model.quants import AskedModel, Outcome, QuantsRecord, Subject, SubjectKind, Task

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.loaders.eval_samples import EvalSamples
    from suffice.model.answers import Scored


def record_of_logs(logs: Sequence[tuple[str, EvalSamples]]) -> QuantsRecord:
    """The comparison of named logs, the reference's first, document by document of the reference's.

    Raises:
        RecordError: two logs by different metrics or filters, one document id for two questions, or logs without a document in common.
    """
    (_, first), *others = logs
    for name, log in others:
        _check_same_way(first, name, log)
    tasks = tuple(_task(row) for row in first.scored)
    models = tuple(_model(name, log, tasks) for name, log in logs)
    alone = [name for name, log in others if not {row.item_id for row in log.scored} & {task.item_id for task in tasks}]
    if alone:
        raise RecordError(f"the log of {alone[0]} has no document in common with that of {logs[0][0]}")
    return QuantsRecord(
        items_source=f"documents of {first.source}",
        items_hash=None,
        tasks=tasks,
        models=models,
        settings={"metric": first.metric, "filter": first.filter},
        notes=_notes(logs, tasks),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        suffice_version=__version__,
    )


def _check_same_way(first: EvalSamples, name: str, log: EvalSamples) -> None:
    ways = [(log.metric, log.filter), (first.metric, first.filter)]
    if ways[0] != ways[1]:
        theirs, ours = (f"{metric} (filter {one or 'none'})" for metric, one in ways)
        raise RecordError(
            f"{name} is scored by {theirs} and the reference by {ours}; choose one with --log-metric and --log-filter"
        )


def _task(row: Scored) -> Task:
    return Task(item_id=row.item_id, item_hash=row.item_hash, cluster=row.cluster, kind=None, is_labelled=True)


def _model(name: str, log: EvalSamples, tasks: Sequence[Task]) -> AskedModel:
    rows = {row.item_id: row for row in log.scored}
    outcomes = tuple(_outcome(task, rows.get(task.item_id), name) for task in tasks)
    subject = Subject(name=name, kind=SubjectKind.LOG, place=log.source, identity=f"log {name}: {log.source}")
    return AskedModel(subject=subject, outcomes=outcomes, notes=log.notes)


def _outcome(task: Task, row: Scored | None, name: str) -> Outcome:
    if row is None:
        return Outcome(score=None, reason="the document is not in its log")
    if row.item_hash != task.item_hash:
        raise RecordError(
            f"document {task.item_id!r} is another question in the log of {name}; compare logs of one version of the task"
        )
    return Outcome(score=row.score.value, text=row.text, reason=row.score.reason)


def _notes(logs: Sequence[tuple[str, EvalSamples]], tasks: Sequence[Task]) -> tuple[str, ...]:
    """Documents that only a candidate has are named by their number: they are no part of the comparison."""
    known = {task.item_id for task in tasks}
    notes = []
    for name, log in logs[1:]:
        more = sum(row.item_id not in known for row in log.scored)
        if more:
            notes.append(f"{more} documents of {name} are not in the reference's log and are left out")
    return tuple(notes)
