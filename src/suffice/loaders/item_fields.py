"""One line of an items file: its fields checked, and made an :class:`suffice.model.items.Item`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, TypeVar

from suffice.errors import RecordError, UsageError
from suffice.loaders.json_lines import canonical_json
from suffice.loaders.strict_json import shown
from suffice.model.choice_text import LETTERS
from suffice.model.items import ChoiceLength, Item, Message, Pick, Role, ScoreKind, ScoreRule
from suffice.model.scoring import check_pattern, leaves

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import StrEnum

KNOWN_FIELDS: Final = frozenset(
    {"id", "prompt", "messages", "answer", "answers", "choices", "group", "score", "max_tokens", "stop"}
)
_SETTINGS: Final = {
    ScoreKind.EXACT: {"ignore_case"},
    ScoreKind.REGEX: {"pattern", "pick", "ignore_case"},
    ScoreKind.MULTIPLE_CHOICE: {"length"},
    ScoreKind.JSON: {"fields", "ignore_case", "tolerance", "relative_tolerance"},
    ScoreKind.NUMBER: {"pick", "tolerance", "relative_tolerance"},
    ScoreKind.CONTAINS: {"ignore_case"},
    ScoreKind.FUNCTION: {"function"},
}
_MAX_ID_CHARACTERS: Final = 200
_MIN_CHOICES: Final = 2
_MAX_STOPS: Final = 16
_MAX_TOKENS: Final = 10_000_000  # beyond the context of any model
_Word = TypeVar("_Word", bound="StrEnum")


def item_from(document: dict[str, Any], line: int) -> Item:
    """The item of one line.

    Raises:
        RecordError: a field is missing, of the wrong type, or contradicts another; the message names it.
    """
    choices = _texts(document, "choices")
    rule = _rule(document, has_choices=bool(choices))
    _check_choices(choices, rule.kind)
    prompt, messages = _question(document)
    given = _given_answers(document)
    return Item(
        id=_name(document, "id") or _missing("id"),
        line=line,
        rule=rule,
        prompt=prompt,
        messages=messages,
        choices=choices,
        group=_name(document, "group"),
        max_tokens=_max_tokens(document),
        stop=_stop(document),
        **_labels(given, rule, choices),
    )


def _missing(name: str) -> str:
    raise RecordError(f"'{name}' is missing")


def _wrong(name: str, value: object, wanted: str) -> RecordError:
    return RecordError(f"'{name}' is {shown(value)}, not {wanted}")


def _name(document: dict[str, Any], field: str) -> str | None:
    """An id or a group: a text or a whole number."""
    value = document.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise _wrong(field, value, "a text or a whole number")
    if len(str(value)) > _MAX_ID_CHARACTERS:
        raise RecordError(f"'{field}' has {len(str(value))} characters, more than {_MAX_ID_CHARACTERS}")
    return str(value).strip()


def _question(document: dict[str, Any]) -> tuple[str | None, tuple[Message, ...]]:
    prompt, messages = document.get("prompt"), document.get("messages")
    if (prompt is None) == (messages is None):
        raise RecordError(
            "'prompt' and 'messages' are both missing; give one"
            if prompt is None
            else "'prompt' and 'messages' are both given; keep one"
        )
    if prompt is not None:
        if not isinstance(prompt, str) or not prompt.strip():
            raise _wrong("prompt", prompt, "a text")
        return prompt, ()
    if not isinstance(messages, list) or not messages:
        raise _wrong("messages", messages, "a list of messages")
    said = tuple(_message(message, index) for index, message in enumerate(messages))
    if said[-1].role is not Role.USER:
        raise RecordError(f"'messages' ends with the {said[-1].role.value}; the last one has to be the user's")
    if any(message.role is Role.SYSTEM for message in said[1:]):
        raise RecordError("'messages' has a system message that is not the first")
    return None, said


def _message(message: object, index: int) -> Message:
    where = f"messages[{index}]"
    if not isinstance(message, dict) or set(message) != {"role", "content"}:
        raise _wrong(where, message, "an object with 'role' and 'content' and nothing else")
    if not isinstance(message["content"], str) or not message["content"]:
        raise _wrong(f"{where}.content", message["content"], "a text")
    return Message(role=_word(Role, message["role"], f"{where}.role"), content=message["content"])


def _word(words: type[_Word], value: object, name: str) -> _Word:
    for word in words:
        if word.value == value:
            return word
    raise _wrong(name, value, f"one of {', '.join(word.value for word in words)}")


def _texts(document: dict[str, Any], field: str) -> tuple[str, ...]:
    value = document.get(field)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(text, str) and text.strip() for text in value):
        raise _wrong(field, value, "a list of texts that are not empty")
    return tuple(value)


def _check_choices(choices: tuple[str, ...], kind: ScoreKind) -> None:
    if kind is ScoreKind.MULTIPLE_CHOICE and not choices:
        raise RecordError("'choices' is missing, which multiple_choice needs")
    if choices and not _MIN_CHOICES <= len(choices) <= len(LETTERS):
        raise RecordError(f"'choices' has {len(choices)} entries; {_MIN_CHOICES} to {len(LETTERS)} are possible")
    if len({choice.strip() for choice in choices}) != len(choices):
        raise RecordError("'choices' has the same entry twice")


def _rule(document: dict[str, Any], *, has_choices: bool) -> ScoreRule:
    """The rule that 'score' names: a word, ``module:function``, or an object with 'kind' and settings."""
    value = document.get("score")
    if value is None:
        value = ScoreKind.MULTIPLE_CHOICE.value if has_choices else ScoreKind.EXACT.value
    name = "score.kind" if isinstance(value, dict) else "score"
    if isinstance(value, str):
        value = {"kind": ScoreKind.FUNCTION.value, "function": value} if ":" in value else {"kind": value}
    if not isinstance(value, dict):
        raise _wrong("score", value, "a word or an object with 'kind'")
    kind = _word(ScoreKind, value.get("kind"), name)
    unknown = sorted(set(value) - {"kind"} - _SETTINGS[kind])
    if unknown:
        known = ", ".join(sorted(_SETTINGS[kind]))
        raise RecordError(f"'score' has {shown(unknown[0])}, which is no setting of {kind.value}; there is {known}")
    return ScoreRule(kind=kind, **{name: _setting(name, given) for name, given in value.items() if name != "kind"})


def _setting(name: str, value: object) -> Any:  # noqa: ANN401  # each setting has its own type
    if name in ("tolerance", "relative_tolerance"):
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise _wrong(f"score.{name}", value, "a number from 0 on")
        return float(value)
    if name == "ignore_case":
        if not isinstance(value, bool):
            raise _wrong("score.ignore_case", value, "true or false")
        return value
    if name == "pick":
        return _word(Pick, value, "score.pick")
    if name == "length":
        return _word(ChoiceLength, value, "score.length")
    if name == "fields":
        return _texts({"score.fields": value}, "score.fields")
    if not isinstance(value, str) or not value:
        raise _wrong(f"score.{name}", value, "a text")
    return value


def _given_answers(document: dict[str, Any]) -> list[Any] | None:
    """What 'answer' or 'answers' holds, as a list; None when neither is there."""
    answer, answers = document.get("answer"), document.get("answers")
    if answer is not None and answers is not None:
        raise RecordError("'answer' and 'answers' are both given; keep one")
    if answers is not None:
        if not isinstance(answers, list) or not answers:
            raise _wrong("answers", answers, "a list of answers of which each is right")
        return answers
    return None if answer is None else [answer]


def _labels(given: list[Any] | None, rule: ScoreRule, choices: tuple[str, ...]) -> dict[str, Any]:
    """The fields of an item that say what is right, for its kind of score."""
    _check_rule(rule)
    if given is None:
        return {}
    of_kind: dict[ScoreKind, Callable[[], dict[str, Any]]] = {
        ScoreKind.NUMBER: lambda: {"numbers": tuple(_number(value) for value in given)},
        ScoreKind.MULTIPLE_CHOICE: lambda: {"correct": tuple(sorted({_choice(value, choices) for value in given}))},
        ScoreKind.JSON: lambda: {"answer_json": _object(given, rule)},
        ScoreKind.FUNCTION: lambda: {"answer_json": canonical_json(given[0] if len(given) == 1 else given)},
    }
    return of_kind.get(rule.kind, lambda: {"answers": tuple(_text(value, choices) for value in given)})()


def _check_rule(rule: ScoreRule) -> None:
    if rule.kind is ScoreKind.REGEX:
        try:
            check_pattern(rule.pattern or _missing("score.pattern"))
        except UsageError as error:
            raise RecordError(f"'score.pattern': {error}") from error
    if rule.kind is ScoreKind.FUNCTION:
        module, _, function = (rule.function or _missing("score.function")).partition(":")
        if not all(part.isidentifier() for part in module.split(".")) or not function.isidentifier():
            raise _wrong("score.function", rule.function, "of the form module:function")


def _text(value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _wrong("answer", value, "a text; write numbers in quotes, or use the score number")
    if choices and value.strip() not in {choice.strip() for choice in choices}:
        raise RecordError(f"'answer' {shown(value)} is none of the choices")
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong("answer", value, "a number (without quotes)")
    return float(value)


def _choice(value: object, choices: tuple[str, ...]) -> int:
    """The index of a choice that is given as its text, as its letter, or as its place counted from 0."""
    if isinstance(value, int) and not isinstance(value, bool):
        if not 0 <= value < len(choices):
            raise RecordError(f"'answer' {value} is none of the places 0 to {len(choices) - 1}")
        if str(value) in choices and choices.index(str(value)) != value:
            raise RecordError(f"'answer' {value} may be a place or the choice '{value}'; write the choice in quotes")
        return value
    if not isinstance(value, str):
        raise _wrong("answer", value, "the text, the letter or the place of a choice")
    stripped = [choice.strip() for choice in choices]
    if value.strip() in stripped:
        return stripped.index(value.strip())
    letters = LETTERS[: len(choices)]
    if len(value.strip()) == 1 and value.strip() in letters:
        return letters.index(value.strip())
    raise RecordError(f"'answer' {shown(value)} is none of the choices")


def _object(given: list[Any], rule: ScoreRule) -> str:
    if len(given) != 1 or not isinstance(given[0], dict) or not given[0]:
        raise _wrong("answer", given[0] if len(given) == 1 else given, "one object with the expected fields")
    paths = {".".join(path[:length]) for path, _ in leaves(given[0]) for length in range(1, len(path) + 1)}
    for field in rule.fields:
        if field not in paths:
            raise RecordError(f"'score.fields' has {shown(field)}, which the answer has not")
    return canonical_json(given[0])


def _max_tokens(document: dict[str, Any]) -> int | None:
    value = document.get("max_tokens")
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MAX_TOKENS:
        raise _wrong("max_tokens", value, f"a whole number from 1 to {_MAX_TOKENS}")
    return value


def _stop(document: dict[str, Any]) -> tuple[str, ...]:
    value = document.get("stop")
    texts = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise _wrong("stop", value, "a text or a list of texts")
    if len(texts) > _MAX_STOPS:
        raise RecordError(f"'stop' has {len(texts)} entries, more than {_MAX_STOPS}")
    return tuple(texts)
