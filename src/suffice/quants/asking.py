"""Ask a model all items: what is not answered yet, each answer kept as it comes, and what they score."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.loaders.answers import AnswerStore, answers_header, answers_path
from suffice.loaders.items import item_hash
from suffice.loaders.scores import Scorer, score_answers
from suffice.model.answers import FinishReason
from suffice.model.items import ScoreKind
from suffice.model.quants import AskedModel, Outcome, Task
from suffice.model.scoring import choice_score
from suffice.quants.respondent import different
from suffice.quants.time_left import about

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from suffice.loaders.item_functions import ScoreFunction
    from suffice.model.answers import Answer, Scored
    from suffice.model.items import Item
    from suffice.quants.respondent import Respondent

ANSWERS_FOLDER: Final = "answers"
_BETWEEN_TELLINGS_S: Final = 0.5
_FEW: Final = 5  # answers before which nothing is foretold


def tasks_of(items: Sequence[Item]) -> tuple[Task, ...]:
    """The items as conclusions need them, in their order."""
    return tuple(
        Task(
            item_id=item.id,
            item_hash=item_hash(item),
            cluster=item.cluster,
            kind=item.rule.kind,
            is_labelled=item.is_labelled,
            choices=len(item.choices) or None,
        )
        for item in items
    )


def ask_all(
    respondent: Respondent,
    items: Sequence[Item],
    folder: Path,
    *,
    progress: Callable[[str], None] = lambda _: None,
    functions: Mapping[str, ScoreFunction] | None = None,
    resume: bool = False,
    clock: Callable[[], float] = time.monotonic,
) -> tuple[AskedModel, dict[str, Answer]]:
    """Ask a model what it was not asked yet, and score everything.

    Answers are kept in ``folder/answers``, in a file of their own for each model and settings, each one as soon as it is there: whatever
    ends the process, none is lost. Items that failed are asked again by the next run. The respondent stays open, unless asking it
    is interrupted; then it is closed.

    Args:
        respondent: the model.
        items: what is asked.
        folder: of the comparison.
        progress: gets "q4_k_m: 120 of 1000 items, 3 errors, about 40 s left" now and then.
        functions: score functions by name, see :func:`suffice.loaders.item_functions.load_functions`.
        resume: go on with answers that are there already.
        clock: seconds, to foretell what is left.

    Returns:
        The model with its outcomes in the order of the items, and its answers by the hash of what was asked, errors too.

    Raises:
        UsageError: there are answers already, and ``resume`` is not set.
        RecordError, OutputError: the answers cannot be read or kept.
    """
    header = answers_header(
        model_hash=respondent.subject.identity, model=respondent.subject.name, settings=respondent.settings
    )
    failed: dict[str, Answer] = {}
    with AnswerStore(answers_path(folder / ANSWERS_FOLDER, header), header) as store:
        if store.done and not resume:
            raise UsageError(
                f"{store.path} holds {len(store.done)} answers of {respondent.subject.name} already; "
                "go on with them by --resume, or give another folder"
            )
        notes = store.notes
        missing = tuple(item for asked, item in different(items).items() if asked not in store.done)
        told = _Progress(respondent.subject.name, items, missing, progress, clock)
        try:
            with closing(respondent.ask(missing)) as answers:  # type: ignore[type-var]  # all of ours are generators
                for answer in answers:
                    store.append(answer)
                    if not answer.answered:
                        failed[answer.item_hash] = answer
                    told.one(is_error=not answer.answered)
        except BaseException:
            respondent.close()
            raise
        found = {**failed, **store.done}
    outcomes = outcomes_of(items, found, functions)
    model = AskedModel(subject=respondent.subject, outcomes=outcomes, notes=(*respondent.notes, *notes))
    return model, found


def outcomes_of(
    items: Sequence[Item], answers: Mapping[str, Answer], functions: Mapping[str, ScoreFunction] | None = None
) -> tuple[Outcome, ...]:
    """What answers, by the hash of what was asked, are worth; in the order of the items."""
    with Scorer(functions=functions) as scorer:
        scores = score_answers(items, answers, scorer)
    return tuple(_outcome(item, row, answers.get(row.item_hash)) for item, row in zip(items, scores, strict=True))


def _outcome(item: Item, row: Scored, answer: Answer | None) -> Outcome:
    if answer is None or not answer.answered:
        return Outcome(score=None, reason=row.score.reason)
    return Outcome(
        score=row.score.value,
        text=_said(item, row, answer),
        reason=row.score.reason,
        tokens=answer.tokens,
        is_cut=answer.finish is FinishReason.LENGTH,
    )


def _said(item: Item, row: Scored, answer: Answer) -> str | None:
    """The choice that was taken, where it is clear; else the answer's text."""
    if item.rule.kind is not ScoreKind.MULTIPLE_CHOICE:
        return answer.text
    if answer.choices and row.score.found is None:  # without a right answer nothing was compared
        return choice_score(answer.choices, item.choices, (), item.rule.length).found
    return row.score.found or answer.text


class _Progress:
    """Tells how far it is, at most twice a second, and at the end."""

    def __init__(
        self,
        name: str,
        items: Sequence[Item],
        missing: Sequence[Item],
        tell: Callable[[str], None],
        clock: Callable[[], float],
    ) -> None:
        self._name, self._tell, self._clock = name, tell, clock
        self._total, self._left = len(different(items)), len(missing)
        self._answered = self._errors = 0
        self._began_s = clock()
        self._told_s: float | None = None
        self._say()

    def one(self, *, is_error: bool) -> None:
        """One more answer is there."""
        self._left -= 1
        self._answered += 1
        self._errors += is_error
        now_s = self._clock()
        if self._left <= 0 or self._told_s is None or now_s - self._told_s >= _BETWEEN_TELLINGS_S:
            self._say()

    def _say(self) -> None:
        now_s = self._clock()
        self._told_s = now_s
        words = [f"{self._name}: {self._total - self._left} of {self._total} items"]
        if self._errors:
            words.append("1 error" if self._errors == 1 else f"{self._errors} errors")
        if self._answered >= _FEW and self._left > 0:
            left_s = (now_s - self._began_s) / self._answered * self._left
            words.append(f"{about(left_s)} left")
        self._tell(", ".join(words))
