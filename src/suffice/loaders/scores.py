"""From answers to scores: Unicode, JSON in texts, patterns and functions around the pure rules of :mod:`suffice.model.scoring`."""

from __future__ import annotations

import json
import unicodedata
from typing import TYPE_CHECKING, Any, Final, Self

from suffice.loaders.item_functions import close_functions, function_score
from suffice.loaders.items import item_hash
from suffice.loaders.pattern_search import LIMIT_S, PatternSearch, PatternTimeoutError
from suffice.model.answers import Scored
from suffice.model.choice_text import choice_text_score
from suffice.model.items import ScoreKind
from suffice.model.scoring import (
    Score,
    choice_score,
    contains_score,
    exact_score,
    found_score,
    json_score,
    number_score,
    unknown,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType

    from suffice.loaders.item_functions import ScoreFunction
    from suffice.model.answers import Answer
    from suffice.model.items import Item

MAX_ANSWER_CHARACTERS: Final = 100_000
"""Of a text that numbers, JSON, patterns and choices are looked for in; a longer one is not scorable. ``exact`` and ``contains`` take any."""
_MAX_OBJECT_STARTS: Final = 200
_NO_ANSWER: Final = "there is no answer"


class Scorer:
    """Scores answers. It may start processes, for patterns and for functions that it is given; close it, or use ``with``.

    Args:
        functions: what :func:`suffice.loaders.item_functions.load_functions` loaded; without them such items are not scorable.
        pattern_limit_s: how long a pattern may search in one answer.
    """

    def __init__(
        self, *, functions: Mapping[str, ScoreFunction] | None = None, pattern_limit_s: float = LIMIT_S
    ) -> None:
        self._functions = functions or {}
        self._search = PatternSearch(pattern_limit_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, where some run."""
        self._search.close()
        close_functions(self._functions)

    def score(self, item: Item, answer: Answer | None) -> Score:
        """The score of a model's answer to an item; None for the value when there is none, with the reason."""
        if answer is None or not answer.answered:
            return unknown(_NO_ANSWER if answer is None else f"{_NO_ANSWER}: {answer.error}")
        if not item.is_labelled:
            return unknown("the item has no answer to compare with")
        if item.rule.kind is ScoreKind.MULTIPLE_CHOICE and answer.choices:
            return choice_score(answer.choices, item.choices, item.correct, item.rule.length)
        return unknown(_NO_ANSWER) if answer.text is None else self.score_text(item, answer.text)

    def score_text(self, item: Item, text: str) -> Score:
        """The score of a text, by the item's rule."""
        if item.rule.kind is ScoreKind.FUNCTION:
            return function_score(self._functions, item, text)
        text = unicodedata.normalize("NFC", text)
        if item.rule.kind not in (ScoreKind.EXACT, ScoreKind.CONTAINS) and len(text) > MAX_ANSWER_CHARACTERS:
            return unknown(f"the answer has {len(text)} characters, more than {MAX_ANSWER_CHARACTERS}")
        return _regex_score(self._search, item, text) if item.rule.kind is ScoreKind.REGEX else _plain_score(item, text)


def _plain_score(item: Item, text: str) -> Score:
    """The score by a rule that is a function of text alone."""
    rule = item.rule
    of_kind: dict[ScoreKind, Callable[[], Score]] = {
        ScoreKind.EXACT: lambda: exact_score(text, _texts(item.answers), ignore_case=rule.ignore_case),
        ScoreKind.CONTAINS: lambda: contains_score(text, _texts(item.answers), ignore_case=rule.ignore_case),
        ScoreKind.NUMBER: lambda: number_score(text, item.numbers, rule),
        ScoreKind.JSON: lambda: json_score(first_object(text), _composed(json.loads(item.answer_json or "{}")), rule),
        ScoreKind.MULTIPLE_CHOICE: lambda: choice_text_score(text, _texts(item.choices), item.correct),
    }
    return of_kind[rule.kind]()


def _regex_score(search: PatternSearch, item: Item, text: str) -> Score:
    rule = item.rule
    try:
        found = search.find(rule.pattern or "", text, rule.pick)
    except PatternTimeoutError as error:
        return unknown(str(error))
    return found_score(found, _texts(item.answers), ignore_case=rule.ignore_case)


def _texts(texts: Iterable[str]) -> list[str]:
    return [unicodedata.normalize("NFC", text) for text in texts]


def score_answers(items: Iterable[Item], answers: Mapping[str, Answer], scorer: Scorer) -> tuple[Scored, ...]:
    """The scores of one model, in the order of the items. ``answers`` are by item hash, as an answers file holds them."""
    rows = []
    for item in items:
        asked = item_hash(item)
        answer = answers.get(asked)
        rows.append(
            Scored(
                item_id=item.id,
                item_hash=asked,
                cluster=item.cluster,
                score=scorer.score(item, answer),
                text=None if answer is None else answer.text,
            )
        )
    return tuple(rows)


def first_object(text: str) -> dict[str, Any] | None:
    """The first JSON object of a text, alone, between other words or in a fenced block; None when there is none.

    Braces that begin no JSON ({x}, code) are passed over, up to 200 of them.
    """
    decoder = json.JSONDecoder()
    start = text.find("{")
    for _ in range(_MAX_OBJECT_STARTS):
        if start < 0:
            return None
        try:
            found, _end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            start = text.find("{", start + 1)
        else:
            assert isinstance(found, dict)  # noqa: S101  # it began with a brace
            return _composed(found)
    return None


def _composed(document: dict[str, Any]) -> dict[str, Any]:
    """The same object with all its texts in Unicode's composed form, those as well that were written as escapes."""
    try:
        text = json.dumps(document, ensure_ascii=False)
    except RecursionError:
        return document
    composed = unicodedata.normalize("NFC", text)
    return document if composed == text else dict(json.loads(composed))
