"""The words of a page: both languages have the same texts, and English says what the command line says."""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING

import pytest

from helpers.pages import all_kinds
from suffice.decide.verdict import plain_grade
from suffice.decide.wording import available_text as said_available
from suffice.decide.wording import format_value
from suffice.decide.wording import grade_sentence as said_grade
from suffice.decide.wording import required_text as said_required
from suffice.report.page import words_en, words_zh
from suffice.report.page.flips import flip_sentences
from suffice.report.page.model import Language
from suffice.report.page.quantities import available_text, required_text
from suffice.report.page.why import grade_sentence
from suffice.report.page.words import words_for

if TYPE_CHECKING:
    from suffice.report.page.given import PageInput

EN, ZH = words_for(Language.EN), words_for(Language.ZH)


def _placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name is not None}


@pytest.fixture(scope="module")
def cases() -> dict[str, PageInput]:
    """Inputs of all kinds of constraints and grades."""
    return all_kinds()


def test_both_languages_have_the_same_texts() -> None:
    """Each key stands in both dictionaries, with the same placeholders."""
    assert set(words_en.TEXTS) == set(words_zh.TEXTS)
    differing = {
        key for key, text in words_en.TEXTS.items() if _placeholders(text) != _placeholders(words_zh.TEXTS[key])
    }
    assert differing == set()


def test_chinese_texts_are_chinese() -> None:
    """Nothing was forgotten: but for names of metrics and bare patterns, each text has Chinese characters."""
    foreign = {
        key
        for key, text in words_zh.TEXTS.items()
        if not re.search(r"[\u4e00-\u9fff]", text) and re.search(r"[A-Za-z]{2}", re.sub(r"\{\w*\}", "", text))
    }

    assert foreign == {"metric.ttft_s", "metric.tpot_s", "kind.api"}


@pytest.mark.parametrize("value", [0.0, 1.0, 8.0, 31.24, 12345.6])
@pytest.mark.parametrize("unit", ["tokens/s", "users", "requests/s", "s", "bytes", "share", "tokens"])
def test_a_unit_in_chinese_changes_no_digit(value: float, unit: str) -> None:
    """Only what follows the number is translated."""
    numbers = [
        re.findall(r"\d[\d.]*(?:e[+-]\d+)?", text) for text in (format_value(value, unit), ZH.number(value, unit))
    ]

    assert numbers[0] == numbers[1]


def test_values_are_never_templates() -> None:
    """Braces in a name from outside stay braces."""
    assert EN("colon", what="{0} {x}", told="{{") == "{0} {x}: {{"


def test_english_quantities_read_as_on_the_command_line(cases: dict[str, PageInput]) -> None:
    """Required, available and the sentence of a grade are those of the wording, for all constraints and grades."""
    seen = set()
    for one in cases.values():
        for item in one.decision.verdict.constraints:
            constraint = item.constraint
            seen.add((constraint.name, item.grade))
            assert required_text(constraint, EN) == said_required(constraint)
            assert available_text(constraint, EN) == said_available(constraint)
            plain = plain_grade(constraint)
            told = said_grade(constraint, plain, weakened=plain is not item.grade)
            assert told.startswith(grade_sentence(item, EN))
    assert len(seen) > 8


def test_english_flips_are_those_of_the_verdict(cases: dict[str, PageInput]) -> None:
    """What would change the verdict is said in the same words, and in Chinese with the same numbers."""
    found = 0
    for one in cases.values():
        told = flip_sentences(one, EN)
        assert told == list(one.decision.verdict.flips)
        found += len(told)
        assert [sorted(re.findall(r"[\d.]+", text)) for text in flip_sentences(one, ZH)] == [
            sorted(re.findall(r"[\d.]+", text)) for text in told
        ]
    assert found > 6
