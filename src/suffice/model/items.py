"""Items: questions of the user's with the answers that count as right, and how an answer is scored."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ScoreKind(StrEnum):
    """How the text, or the choice, that a model gave becomes a score from 0 to 1."""

    EXACT = "exact"
    REGEX = "regex"
    MULTIPLE_CHOICE = "multiple_choice"
    JSON = "json"
    NUMBER = "number"
    CONTAINS = "contains"
    FUNCTION = "function"


BINARY_KINDS: Final = frozenset(
    {ScoreKind.EXACT, ScoreKind.REGEX, ScoreKind.MULTIPLE_CHOICE, ScoreKind.NUMBER, ScoreKind.CONTAINS}
)
"""Kinds whose scores are 0 or 1 only. JSON is a share of fields; a function may return any number from 0 to 1."""


class Pick(StrEnum):
    """Which one counts when the text holds several: numbers, or matches of a pattern."""

    FIRST = "first"
    LAST = "last"


class ChoiceLength(StrEnum):
    """What a choice's summed log-probability is divided by before the largest is taken.

    ``NONE``, ``CHARACTER`` and ``BYTE`` are lm-evaluation-harness's acc, acc_norm and acc_bytes; ``TOKEN`` is like
    llama-perplexity's, which counts the tokens from where the choices begin to differ.
    """

    NONE = "none"
    TOKEN = "token"  # noqa: S105  # of a model
    CHARACTER = "character"
    BYTE = "byte"


class Role(StrEnum):
    """Who says a message of a conversation."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a conversation."""

    role: Role
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreRule:
    """A kind of score with its settings; those of other kinds are not looked at.

    ``ignore_case``: exact, contains, json and the texts that a pattern found. ``pattern``: of Python's ``re``. ``pick``: None stands for
    the first match of a pattern, and for the last number. ``tolerance`` is in the number's own unit, ``relative_tolerance`` a share of
    the expected number; the wider of the two counts, for number and for numbers in json. ``fields``: dotted paths in the expected
    object, empty for all of it. ``function``: ``module:function``.
    """

    kind: ScoreKind
    ignore_case: bool = False
    pattern: str | None = None
    pick: Pick | None = None
    tolerance: float = 0.0
    relative_tolerance: float = 0.0
    fields: tuple[str, ...] = ()
    length: ChoiceLength = ChoiceLength.NONE
    function: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One question: a prompt, or messages whose last is the user's.

    ``answers`` are the texts of which each is right (exact, regex, contains), ``numbers`` those of a number, ``correct`` indices into
    ``choices``; ``answer_json`` is the expected object (json), or whatever the function is to be given, as JSON text. An item without
    any of them is unlabelled: its answers can be compared between models, not scored. ``max_tokens`` is None where the run decides.
    ``group`` names the document that items share; ``line`` is where it stands in its file, counted from 1.
    """

    id: str
    line: int
    rule: ScoreRule
    prompt: str | None = None
    messages: tuple[Message, ...] = ()
    answers: tuple[str, ...] = ()
    numbers: tuple[float, ...] = ()
    choices: tuple[str, ...] = ()
    correct: tuple[int, ...] = ()
    answer_json: str | None = None
    group: str | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @property
    def is_labelled(self) -> bool:
        """Whether it is known what a right answer is."""
        if self.rule.kind in (ScoreKind.REGEX, ScoreKind.FUNCTION):
            return True  # a match alone is right where no answer is given, and a function knows by itself
        return bool(self.answers or self.numbers or self.correct or self.answer_json is not None)

    @property
    def cluster(self) -> str:
        """What the item belongs to when intervals are made: its group, or itself."""
        return f"group {self.group}" if self.group is not None else f"item {self.id}"

    @property
    def asks_choices(self) -> bool:
        """Whether the log-probability of each choice is asked for, and not a text."""
        return self.rule.kind is ScoreKind.MULTIPLE_CHOICE
