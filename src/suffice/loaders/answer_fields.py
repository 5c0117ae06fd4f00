"""One line of an answers file: an answer as JSON and back."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import RecordError
from suffice.loaders.strict_json import shown
from suffice.model.answers import Answer, ChoiceLogprob, FinishReason

if TYPE_CHECKING:
    from collections.abc import Callable

_IMPOSSIBLE: Final = "-inf"  # JSON has no infinity: the logarithm of a probability of 0
_MAX_COUNT: Final = 10_000_000_000


def whole_text(text: str) -> str:
    """A text with half characters (lone surrogates, as a cut-off answer may end with) replaced by U+FFFD: UTF-8 has no form for them.

    Two halves that stand together are the one character that they are.
    """
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def whole_answer(answer: Answer) -> Answer:
    """An answer as an answers file gives it back: texts without half characters, and no counts that none can be."""
    return replace(
        answer,
        item_id=whole_text(answer.item_id),
        text=None if answer.text is None else whole_text(answer.text),
        error=None if answer.error is None else whole_text(answer.error),
        tokens=answer.tokens if _is_count(answer.tokens) else None,
        prompt_tokens=answer.prompt_tokens if _is_count(answer.prompt_tokens) else None,
    )


def answer_line(answer: Answer) -> str:
    """The answer as one line of JSON without a line end; fields that are None are left out.

    Half a character becomes U+FFFD, see :func:`whole_text`.

    Raises:
        RecordError: a log-probability or a time is not a number.
    """
    row: dict[str, Any] = {
        "item_id": answer.item_id,
        "item_hash": answer.item_hash,
        "text": answer.text,
        "finish": answer.finish,
        "tokens": answer.tokens,
        "prompt_tokens": answer.prompt_tokens,
        "choices": [[_written(choice.total, answer), choice.tokens] for choice in answer.choices] or None,
        "time_s": answer.time_s,
        "error": answer.error,
    }
    known = {name: value for name, value in row.items() if value is not None}
    try:
        line = json.dumps(known, ensure_ascii=False, allow_nan=False)
    except ValueError as error:
        raise RecordError(f"the time of item {shown(answer.item_id)} is not a number") from error
    return whole_text(line)


def answer_from(document: dict[str, Any], where: str) -> Answer:
    """The answer of one line.

    Raises:
        RecordError: a field is missing or not what it has to be.
    """
    fields = _Fields(document, where)
    return Answer(
        item_id=fields.text("item_id") or fields.missing("item_id"),
        item_hash=fields.text("item_hash") or fields.missing("item_hash"),
        text=fields.text("text"),
        finish=fields.finish(),
        tokens=fields.count("tokens"),
        prompt_tokens=fields.count("prompt_tokens"),
        choices=fields.choices(),
        time_s=fields.time_s(),
        error=fields.text("error"),
    )


class _Fields:
    def __init__(self, document: dict[str, Any], where: str) -> None:
        self._document = document
        self._where = where

    def missing(self, name: str) -> str:
        raise RecordError(f"{self._where}: '{name}' is missing")

    def _get(self, name: str, wanted: str, is_right: Callable[[Any], bool]) -> Any:  # noqa: ANN401  # JSON
        value = self._document.get(name)
        if value is not None and not is_right(value):
            raise RecordError(f"{self._where}: '{name}' is {shown(value)}, not {wanted}")
        return value

    def text(self, name: str) -> str | None:
        value: str | None = self._get(name, "a text", lambda given: isinstance(given, str))
        return value

    def count(self, name: str) -> int | None:
        value: int | None = self._get(name, "a count", _is_count)
        return value

    def time_s(self) -> float | None:
        value = self._get("time_s", "a number of seconds", lambda given: _is_number(given) and given >= 0)
        return None if value is None else float(value)

    def finish(self) -> FinishReason | None:
        words = {reason.value: reason for reason in FinishReason}
        value = self._get(
            "finish", f"one of {', '.join(words)}", lambda given: isinstance(given, str) and given in words
        )
        return None if value is None else words[value]

    def choices(self) -> tuple[ChoiceLogprob, ...]:
        value = self._get(
            "choices", "a list of pairs", lambda given: isinstance(given, list) and all(map(_is_choice, given))
        )
        return tuple(ChoiceLogprob(total=_read(total), tokens=tokens) for total, tokens in value or ())


def _written(total: float, answer: Answer) -> float | str:
    if math.isnan(total) or total == math.inf:
        raise RecordError(f"a log-probability of item {shown(answer.item_id)} is {total}")
    return _IMPOSSIBLE if total == -math.inf else total


def _read(total: float | str) -> float:
    return -math.inf if total == _IMPOSSIBLE else float(total)


def _is_choice(value: object) -> bool:
    if not isinstance(value, list) or len(value) != len(("total", "tokens")):
        return False
    total, tokens = value
    return (total == _IMPOSSIBLE or _is_number(total)) and (tokens is None or _is_count(tokens))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MAX_COUNT


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_COUNT
