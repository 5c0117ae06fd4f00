"""Which choice a text means, for servers that give no log-probabilities: "B", "The answer is (B).", "答案是B", or the choice's own words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.model.scoring import Score

if TYPE_CHECKING:
    from collections.abc import Sequence

LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_PLAIN: Final = str.maketrans(
    {ord("Ａ") + i: letter for i, letter in enumerate(LETTERS)}
    | {ord("ａ") + i: letter.lower() for i, letter in enumerate(LETTERS)}
    | dict(zip(map(ord, "（）［］【】：．"), "()[][]:.", strict=True))
)
_MARKS: Final = " \t\r\n.,:;!?*_`'\"()[]{}$。，；！？、"
_END: Final = r"(?![A-Za-z0-9'’])"
_LETTER: Final = rf"(?:[(\[]([A-Za-z])[)\]]|([A-Z]){_END})"  # a small letter without brackets may be the word "a"
# In the order in which they are believed; of several matches of one, the last counts: a model that thinks aloud concludes at the end.
_SAYS_SO: Final = tuple(
    re.compile(text)
    for text in (
        rf"\\boxed\{{\s{{0,4}}(?:\\text\{{)?\s{{0,4}}([A-Za-z]){_END}",
        rf"(?i:\b(?:answer|choice|option)\b(?:\s+(?:is|would\s+be|should\s+be))?)[\s:=*_]{{1,6}}(?:(?i:option|choice)\s+)?{_LETTER}",
        rf"(?:答案|选项|选择|應選|应选|正确的?是|选|選)(?:应该|應該)?(?:是|为|為)?[\s:*_]{{0,4}}(?:选项|選項)?{_LETTER}",
    )
)
_STARTS_LINE: Final = re.compile(r"(?m)^[ \t*_`]*(?:[(\[]([A-Za-z])[)\]]|([A-Z])(?:[).:、]|[*_`]*$))")
_IN_BRACKETS: Final = re.compile(r"[(\[]([A-Z])[)\]]")


def choice_in(text: str, choices: Sequence[str]) -> int | None:
    r"""The index of the choice that a text means, or None when it is not clear.

    In this order: the whole text is a choice or a letter; it says so ("the answer is C", "答案：C", ``\boxed{C}``); one letter
    only stands in brackets or at the start of a line as in a list ("C) Paris", "C."), and not before another choice's words; the words of one choice only stand in it.
    """
    plain = text.translate(_PLAIN)
    letters = _letters_of(choices)
    whole = plain.strip(_MARKS)
    same = [index for index, choice in enumerate(choices) if whole and _fold(choice) == whole.casefold()]
    if len(same) == 1:
        return same[0]
    if len(whole) == 1 and whole.upper() in letters:
        return letters.index(whole.upper())
    for pattern in _SAYS_SO:
        said = [letter for letter in _letters(pattern, plain) if letter in letters]
        if said:
            return letters.index(said[-1])
    named = {letter for pattern in (_STARTS_LINE, _IN_BRACKETS) for letter in _letters(pattern, plain)} & set(letters)
    if named:  # of several letters none counts: it repeats the choices
        return _unless_contradicted(letters.index(named.pop()), plain, choices) if len(named) == 1 else None
    return _words_of_one(plain.casefold(), choices)


def _unless_contradicted(index: int, plain: str, choices: Sequence[str]) -> int | None:
    """None where the line of the letter has the words of another choice behind it: "A) Rome" where A is Paris."""
    for match in _STARTS_LINE.finditer(plain):
        words = _words_of_one(plain[match.end() :].partition("\n")[0].casefold(), choices)
        if words not in (None, index):
            return None
    return index


def choice_text_score(text: str, choices: Sequence[str], correct: Sequence[int]) -> Score:
    """1 when the text means a correct choice; 0 with the reason when it means none, or it is not clear which."""
    index = choice_in(text, choices)
    if index is None:
        return Score(value=0.0, reason="the text names none of the choices clearly")
    return Score(value=float(index in correct), found=choices[index])


def _letters_of(choices: Sequence[str]) -> str:
    """A, B, C, ... in the order of the choices, or the choices themselves where they are letters."""
    own = [_fold(choice).upper() for choice in choices]
    return "".join(own) if all(len(letter) == 1 and letter in LETTERS for letter in own) else LETTERS[: len(choices)]


def _letters(pattern: re.Pattern[str], text: str) -> list[str]:
    return [next(group for group in match.groups() if group).upper() for match in pattern.finditer(text)]


def _fold(choice: str) -> str:
    return choice.translate(_PLAIN).strip(_MARKS).casefold()


def _words_of_one(text: str, choices: Sequence[str]) -> int | None:
    """The only choice whose words are in the text; a choice inside a longer one that is there as well does not count."""
    folded = [_fold(choice) for choice in choices]
    here = [index for index, choice in enumerate(folded) if choice and _has_words(text, choice)]
    longest = [index for index in here if not any(index != i and folded[index] in folded[i] for i in here)]
    return longest[0] if len(longest) == 1 else None


def _has_words(text: str, words: str) -> bool:
    """Whether the words stand in the text as words of their own; Chinese has no spaces, so only ASCII letters and digits join."""
    start = text.find(words)
    while start >= 0:
        end = start + len(words)
        before, after = text[max(0, start - 1) : start], text[end : end + 1]
        if not (_joins(before, words[0]) or _joins(words[-1], after)):
            return True
        start = text.find(words, start + 1)
    return False


def _joins(left: str, right: str) -> bool:
    return left.isascii() and right.isascii() and left.isalnum() and right.isalnum()
