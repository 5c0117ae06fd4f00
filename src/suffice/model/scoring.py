"""Scores of answers, as functions of plain values: the same answer gets the same score, always from 0 to 1.

A wrong, missing or unreadable answer of the model's scores 0, with the reason beside it: to a user it is as useless as a wrong one. A
score is unknown (None) only where measuring failed: no answer came, or the rule could not be applied. Nothing unknown becomes a 0.
Texts are expected in Unicode's composed form (NFC); :mod:`suffice.loaders.scores` sees to that.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import UsageError
from suffice.model.items import ChoiceLength, Pick

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from suffice.model.answers import ChoiceLogprob
    from suffice.model.items import ScoreRule

MAX_PATTERN_CHARACTERS: Final = 2_000
_SHOWN: Final = 60
_PERCENT: Final = 100
_ROUNDING_STEPS: Final = 8  # of a double, so that |0.4 - 0.3| is within a tolerance of 0.1
_FULL_WIDTH: Final = str.maketrans("０１２３４５６７８９．％＋－−", "0123456789.%+--")
_FULL_WIDTH_THOUSANDS: Final = re.compile("(?<=[０-９])，(?=[０-９]{3})")
# No digit of a name (Q4, GPT-4, 1.5.2), a comma only before groups of three digits, an exponent only with its digits.
_NUMBER: Final = re.compile(
    r"(?<![0-9A-Za-z_.])(?<![A-Za-z]-)(?:(?<![0-9])-|\+)?"
    r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+|(?=\.[0-9]))(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?(\s?%)?",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """A score from 0 to 1, or None with the reason why it is unknown.

    ``found`` is what was taken out of the answer; ``reason`` says why a score is 0 without a comparison, or unknown.
    """

    value: float | None
    found: str | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.value is not None and not 0 <= self.value <= 1:
            raise ValueError(f"a score is from 0 to 1, not {self.value}")


def unknown(reason: str) -> Score:
    """The score of an answer that could not be judged."""
    return Score(value=None, reason=reason)


def tidy(text: str, *, ignore_case: bool) -> str:
    """The text as it is compared: no white space around it, line ends made one kind, and case folded where it does not matter."""
    tidied = text.replace("\r\n", "\n").strip()
    return tidied.casefold() if ignore_case else tidied


def exact_score(text: str, answers: Sequence[str], *, ignore_case: bool = False) -> Score:
    """1 when the whole text is one of the answers. White space inside, punctuation and case count."""
    wanted = {tidy(answer, ignore_case=ignore_case) for answer in answers}
    found = tidy(text, ignore_case=ignore_case)
    return Score(value=float(found in wanted), found=found)


def contains_score(text: str, answers: Sequence[str], *, ignore_case: bool = False) -> Score:
    """1 when one of the answers stands anywhere in the text, inside a word as well: "art" is in "heart"."""
    searched = tidy(text, ignore_case=ignore_case)
    for answer in answers:
        if tidy(answer, ignore_case=ignore_case) in searched:
            return Score(value=1.0, found=answer)
    return Score(value=0.0, reason="none of the answers is in the text")


def check_pattern(pattern: str) -> None:
    """Refuse a pattern that is none.

    Raises:
        UsageError: too long, or not a pattern of Python's ``re``.
    """
    if len(pattern) > MAX_PATTERN_CHARACTERS:
        raise UsageError(
            f"the pattern has {len(pattern)} characters, more than the {MAX_PATTERN_CHARACTERS} that one may have"
        )
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        raise UsageError(f"{shown(pattern)} is not a pattern of Python's re: {error}") from error


def find_pattern(pattern: str, text: str, pick: Pick | None = None) -> str | None:
    """What a pattern finds: its first group that took part, else the whole match; of the first match unless ``pick`` says the last.

    It may take very long: Python's ``re`` tries every way to match, and knows no limit of time. Whoever has a pattern of the user's
    runs it where it can be stopped (:mod:`suffice.loaders.pattern_search`).
    """
    chosen = None
    for match in re.finditer(pattern, text):
        chosen = match
        if pick is not Pick.LAST:
            break
    if chosen is None:
        return None
    return next((group for group in chosen.groups() if group is not None), chosen.group())


def found_score(found: str | None, answers: Sequence[str], *, ignore_case: bool = False) -> Score:
    """The score of what a pattern found: 1 when it is one of the answers, or when there are none to compare with."""
    if found is None:
        return Score(value=0.0, reason="the pattern is not in the text")
    if not answers:
        return Score(value=1.0, found=found)
    return exact_score(found, answers, ignore_case=ignore_case)


def numbers_in(text: str) -> tuple[tuple[float, bool], ...]:
    """The numbers of a text in order, each with whether a percent sign follows it.

    ``1,234.5`` is one number (groups of three digits), ``3,5`` is two; ``1/2`` is two; ``10-20`` is two positive ones; digits that belong
    to a name (Q4, GPT-4) are none. Full-width digits (３０％) are read as others are; numbers in words or in Chinese numerals are not.
    """
    plain = _FULL_WIDTH_THOUSANDS.sub(",", text).translate(_FULL_WIDTH)
    found = []
    for match in _NUMBER.finditer(plain):
        percent = match.group(1) is not None
        value = float(match.group().rstrip("% \t\n").replace(",", ""))
        if math.isfinite(value):
            found.append((value, percent))
    return tuple(found)


def number_score(text: str, expected: Sequence[float], rule: ScoreRule) -> Score:
    """1 when the last number of the text (``pick``: or the first) is within the tolerance of one of the expected.

    A number with a percent sign may be meant either way: ``45 %`` is 45 and 0.45.
    """
    numbers = numbers_in(text)
    if not numbers:
        return Score(value=0.0, reason="no number is in the text")
    value, percent = numbers[0 if rule.pick is Pick.FIRST else -1]
    readings = (value, value / _PERCENT) if percent else (value,)
    right = any(is_close(reading, wanted, rule) for reading in readings for wanted in expected)
    return Score(value=float(right), found=f"{value:.15g}{' %' if percent else ''}")


def is_close(value: float, expected: float, rule: ScoreRule) -> bool:
    """Whether a number is within the wider of the two tolerances of the expected one."""
    try:
        value, expected = float(value), float(expected)
    except OverflowError:  # an integer of JSON that no double holds
        return value == expected
    allowed = max(rule.tolerance, rule.relative_tolerance * abs(expected))
    if math.isinf(value) or math.isinf(expected):
        return value == expected
    return abs(value - expected) <= allowed + _ROUNDING_STEPS * math.ulp(max(abs(value), abs(expected))) * (allowed > 0)


def json_score(found: object, expected: dict[str, Any], rule: ScoreRule) -> Score:
    """The share of the expected fields that the found object has with the expected value.

    A field is a value at the end of a path of names; a list is one value, with its order. Types count: "12" is not 12. Texts are compared
    as ``exact`` does, numbers within the rule's tolerance. Fields that were not expected are ignored, at every depth.
    """
    if not isinstance(found, dict):
        return Score(value=0.0, reason="no JSON object is in the text")
    fields = [(path, value) for path, value in leaves(expected) if _is_asked(path, rule.fields)]
    if not fields:
        return unknown("none of the expected fields is asked for")
    wrong = [path for path, value in fields if not _has(found, path, value, rule)]
    reason = f"not as expected: {shown(', '.join('.'.join(path) for path in wrong))}" if wrong else None
    return Score(value=(len(fields) - len(wrong)) / len(fields), reason=reason)


def leaves(value: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The fields of an object with their paths; an empty object is a value."""
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from leaves(inner, (*path, name))
        else:
            yield (*path, name), inner


def _is_asked(path: tuple[str, ...], fields: Iterable[str]) -> bool:
    dotted = ".".join(path)
    return not fields or any(dotted == field or dotted.startswith(f"{field}.") for field in fields)


def _has(found: object, path: tuple[str, ...], value: object, rule: ScoreRule) -> bool:
    for name in path:
        if not isinstance(found, dict) or name not in found:
            return False
        found = found[name]
    return _is_same(found, value, rule)


def _is_same(found: object, expected: object, rule: ScoreRule) -> bool:
    if isinstance(expected, bool) or expected is None:
        return found is expected
    if isinstance(expected, int | float):
        return isinstance(found, int | float) and not isinstance(found, bool) and is_close(found, expected, rule)
    if isinstance(expected, str):
        fold = rule.ignore_case
        return isinstance(found, str) and tidy(found, ignore_case=fold) == tidy(expected, ignore_case=fold)
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return False
        return all(_is_same(one, other, rule) for one, other in zip(found, expected, strict=True))
    assert isinstance(expected, dict)  # noqa: S101  # JSON has no other type
    return isinstance(found, dict) and all(
        name in found and _is_same(found[name], value, rule) for name, value in expected.items()
    )


def choice_score(
    logprobs: Sequence[ChoiceLogprob], choices: Sequence[str], correct: Sequence[int], length: ChoiceLength
) -> Score:
    """1 when the choice with the largest log-probability, divided by its length as ``length`` says, is a correct one.

    A tie is right only when all its choices are: the order of the choices never decides. (lm-evaluation-harness takes the first.)
    """
    if len(logprobs) != len(choices):
        return unknown(f"there are {len(logprobs)} log-probabilities for {len(choices)} choices")
    weighed = [_weighed(logprob, choice, length) for logprob, choice in zip(logprobs, choices, strict=True)]
    values = [value for value in weighed if value is not None and not math.isnan(value)]
    if len(values) != len(choices):
        return unknown("a choice has no log-probability, or no number of tokens to divide it by")
    best = max(values)
    if best == -math.inf:
        return unknown("no choice has a probability above 0")
    top = [index for index, value in enumerate(values) if value == best]
    reason = None if len(top) == 1 else f"{len(top)} choices are equally likely"
    return Score(value=float(set(top) <= set(correct)), found=choices[top[0]], reason=reason)


def _weighed(logprob: ChoiceLogprob, choice: str, length: ChoiceLength) -> float | None:
    divisors = {
        ChoiceLength.NONE: 1,
        ChoiceLength.TOKEN: logprob.tokens,
        ChoiceLength.CHARACTER: len(choice),
        ChoiceLength.BYTE: len(choice.encode("utf-8", "surrogatepass")),
    }
    divisor = divisors[length]
    return logprob.total / divisor if divisor else None


def shown(text: str) -> str:
    """The beginning of a text of any length, quoted, for a message."""
    quoted = repr(text[: _SHOWN + 1])
    return quoted if len(text) <= _SHOWN else f"{quoted[:-2]}…'"
