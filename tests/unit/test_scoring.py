"""Scores of texts and of choices, by rules that are functions of values alone."""

from __future__ import annotations

import math
from typing import Any

import pytest

from suffice.errors import UsageError
from suffice.model.answers import ChoiceLogprob
from suffice.model.choice_text import choice_in, choice_text_score
from suffice.model.items import ChoiceLength, Pick, ScoreKind, ScoreRule
from suffice.model.scoring import (
    Score,
    check_pattern,
    choice_score,
    contains_score,
    exact_score,
    find_pattern,
    found_score,
    json_score,
    number_score,
    numbers_in,
)

NUMBER = ScoreRule(kind=ScoreKind.NUMBER)
JSON = ScoreRule(kind=ScoreKind.JSON)
ANIMALS = ["cat", "dog", "bird", "New York"]


@pytest.mark.parametrize(
    ("text", "fold", "value"),
    [
        ("Paris", False, 1),
        ("  Paris\n", False, 1),
        ("paris", False, 0),
        ("PARIS", True, 1),
        ("Paris.", False, 0),
        ("Paris is it", False, 0),
        ("", False, 0),
    ],
)
def test_exact(text: str, fold: bool, value: float) -> None:  # noqa: FBT001  # a table of cases
    """The whole text without the white space around it; case only when asked, punctuation always."""
    assert exact_score(text, ["Rome", "Paris"], ignore_case=fold).value == value


def test_exact_folds_case_as_unicode_does() -> None:
    """STRASSE is straße, and line ends of Windows are line ends."""
    assert exact_score("STRASSE", ["straße"], ignore_case=True).value == 1
    assert exact_score("a\r\nb", ["a\nb"]).value == 1


def test_contains_looks_inside_words() -> None:
    """The word "art" is in "heart", as documented; what is not there scores 0 with the reason."""
    assert contains_score("my heart", ["head", "art"]) == Score(value=1.0, found="art")
    assert contains_score("my Heart", ["heart"]).reason == "none of the answers is in the text"
    assert contains_score("我住在北京。", ["北京"]).value == 1


def test_a_pattern_gives_its_group_or_its_match() -> None:
    """The first group that took part, else the whole match; the first match, or the last when asked."""
    text = "score: 3, score: 5"

    assert find_pattern(r"score: (\d)", text) == "3"
    assert find_pattern(r"score: (\d)", text, Pick.LAST) == "5"
    assert find_pattern(r"score: \d", text) == "score: 3"
    assert find_pattern(r"(x)|(\d)", text) == "3"
    assert find_pattern("z", text) is None


def test_what_a_pattern_found_is_compared() -> None:
    """It scores as ``exact`` does; without answers a match is enough, and without a match it is 0."""
    assert found_score("Yes ", ["yes"], ignore_case=True).value == 1
    assert found_score("no", ["yes"]).value == 0
    assert found_score("anything", []).value == 1
    assert found_score(None, []) == Score(value=0.0, reason="the pattern is not in the text")


def test_patterns_are_checked_when_they_are_read() -> None:
    """A broken pattern is a usage error, not one of the first answer."""
    check_pattern(r"(?i)answer: (\w+)")
    with pytest.raises(UsageError, match="is not a pattern"):
        check_pattern("(a")
    with pytest.raises(UsageError, match="3000 characters"):
        check_pattern("a" * 3000)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("1,234.5 and 3,5", [1234.5, 3, 5]),
        ("12,34,567", [12, 34567]),
        ("10-20", [10, 20]),
        ("-5 or x=-6 or −7", [-5, -6, -7]),
        ("GPT-4, Q4_K, v1.5.2", []),
        ("1e5 .5 -.5 +3 2.5E-3", [1e5, 0.5, -0.5, 3, 0.0025]),
        ("共３０个，１，２３４元", [30, 1234]),
        ("100，200", [100, 200]),
        (r"\boxed{42}", [42]),
        ("$1,000.", [1000]),
        ("1/2", [1, 2]),
        ("1e999 and 7", [7]),
        ("9" * 5000, []),
        ("no number", []),
        ("٣", []),
    ],
)
def test_numbers_of_a_text(text: str, values: list[float]) -> None:
    """Thousands, signs, exponents and full-width digits are read; digits of names and numbers beyond a double are none."""
    assert [value for value, _ in numbers_in(text)] == values


def test_the_last_number_counts_unless_the_first_is_asked_for() -> None:
    """A model that thinks aloud ends with its answer."""
    text = "6 * 7 = 42"

    assert number_score(text, [42], NUMBER) == Score(value=1.0, found="42")
    assert number_score(text, [6], ScoreRule(kind=ScoreKind.NUMBER, pick=Pick.FIRST)).value == 1
    assert number_score("none", [1], NUMBER) == Score(value=0.0, reason="no number is in the text")


@pytest.mark.parametrize("text", ["45%", "45 %", "４５％", "0.45", "45"])
@pytest.mark.parametrize("expected", [45, 0.45])
def test_a_percentage_is_read_both_ways(text: str, expected: float) -> None:
    """45 % is 45 and 0.45; without the sign it is what it says."""
    either = text not in ("0.45", "45")
    same = float(text) == expected if not either else True

    assert number_score(text, [expected], NUMBER).value == float(same)


@pytest.mark.parametrize(
    ("value", "absolute", "relative", "right"),
    [
        (0.4, 0.1, 0, True),
        (0.2, 0.1, 0, True),
        (0.41, 0.1, 0, False),
        (0.3, 0, 0, True),
        (0.30000001, 0, 0, False),
        (0.33, 0, 0.1, True),
        (0.34, 0, 0.1, False),
        (0.34, 0.05, 0.1, True),
    ],
)
def test_tolerances_around_three_tenths(value: float, absolute: float, relative: float, right: bool) -> None:  # noqa: FBT001
    """The wider of both tolerances counts, its edge belongs to it, and rounding of doubles does not move the edge."""
    rule = ScoreRule(kind=ScoreKind.NUMBER, tolerance=absolute, relative_tolerance=relative)

    assert number_score(str(value), [0.3], rule).value == float(right)


EXPECTED = {
    "name": "Ann",
    "age": 30,
    "member": True,
    "none": None,
    "tags": ["a", "b"],
    "home": {"city": "Rome", "no": 5},
}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({}, 0),
        ({"extra": 1}, 0),
        ({"name": " Ann "}, 0),
        ({"name": "ann"}, 1),
        ({"age": 30.0}, 0),
        ({"age": "30"}, 1),
        ({"age": True}, 1),
        ({"member": 1}, 1),
        ({"none": "x"}, 1),
        ({"tags": ["b", "a"]}, 1),
        ({"tags": ["a", "b", "c"]}, 1),
        ({"home": {"city": "Rome", "no": 6, "more": 1}}, 1),
        ({"home": "Rome"}, 2),
        ({"home": None, "name": None, "age": None}, 4),
    ],
)
def test_json_is_the_share_of_fields(change: dict[str, Any], wrong: int) -> None:
    """Each value at the end of a path is one field of seven; types count, more fields do not, and a list is one value."""
    assert json_score(EXPECTED | change, EXPECTED, JSON).value == (7 - wrong) / 7


def test_json_misses_a_field_that_is_not_there() -> None:
    """A field that is missing is not null: it is wrong, and named."""
    found = {name: value for name, value in EXPECTED.items() if name != "none"}

    assert json_score(found, EXPECTED, JSON) == Score(value=6 / 7, reason="not as expected: 'none'")


def test_json_settings() -> None:
    """Only the fields asked for count, with their parts; case and tolerances are as the rule says."""
    rule = ScoreRule(kind=ScoreKind.JSON, fields=("home", "name"), ignore_case=True, relative_tolerance=0.5)

    assert json_score({"name": "ANN", "home": {"city": "ROME", "no": 7}}, EXPECTED, rule).value == 1
    assert json_score({"a": [{"b": 1, "c": 2}]}, {"a": [{"b": 1}]}, JSON).value == 1, (
        "fields in lists may have more as well"
    )


@pytest.mark.parametrize("found", [None, [], "x", 3])
def test_json_that_is_no_object(found: object) -> None:
    """Without an object the score is 0: the model was asked for one."""
    assert json_score(found, EXPECTED, JSON).value == 0


def logprobs(*totals: float, tokens: int | None = 1) -> list[ChoiceLogprob]:
    """Log-probabilities of choices of the same number of tokens."""
    return [ChoiceLogprob(total=total, tokens=tokens) for total in totals]


@pytest.mark.parametrize(
    ("length", "right"),
    [(ChoiceLength.NONE, 0), (ChoiceLength.TOKEN, 1), (ChoiceLength.CHARACTER, 2), (ChoiceLength.BYTE, 3)],
)
def test_lengths_decide_between_choices(length: ChoiceLength, right: int) -> None:
    """One set of log-probabilities that each of the four rules decides in its own way, worked by hand.

    Sums -4, -5, -6, -7: the first. Per token -4/1, -5/5, -6/2, -7/4: the second. Per character -4/1, -5/2, -6/9, -7/7: the third.
    Per byte (the last choice has three to a character) -4/1, -5/2, -6/9, -7/21: the last.
    """
    choices = ["a", "bb", "ccccccccc", "一二三四五六七"]
    sums = [ChoiceLogprob(total=t, tokens=n) for t, n in ((-4.0, 1), (-5.0, 5), (-6.0, 2), (-7.0, 4))]

    assert choice_score(sums, choices, [right], length).value == 1
    assert choice_score(sums, choices, [(right + 1) % 4], length).value == 0


def test_ties_are_not_decided_by_the_order() -> None:
    """A tie with a wrong choice is wrong, in either order; one among right choices is right."""
    tied = logprobs(-1.0, -1.0, -2.0)

    for correct in ([0], [1]):
        score = choice_score(tied, ANIMALS[:3], correct, ChoiceLength.NONE)
        assert (score.value, score.reason) == (0.0, "2 choices are equally likely")
    assert choice_score(tied, ANIMALS[:3], [0, 1], ChoiceLength.NONE).value == 1


@pytest.mark.parametrize(
    ("given", "length", "reason"),
    [
        (logprobs(-1.0), ChoiceLength.NONE, "there are 1 log-probabilities for 2 choices"),
        (logprobs(-1.0, math.nan), ChoiceLength.NONE, "a choice has no log-probability"),
        (logprobs(-1.0, -2.0, tokens=None), ChoiceLength.TOKEN, "no number of tokens"),
        (logprobs(-math.inf, -math.inf), ChoiceLength.NONE, "no choice has a probability above 0"),
    ],
)
def test_choices_that_cannot_be_scored(given: list[ChoiceLogprob], length: ChoiceLength, reason: str) -> None:
    """What was not measured has no score, with the reason; it is not wrong."""
    score = choice_score(given, ["a", "b"], [0], length)

    assert score.value is None
    assert reason in str(score.reason)


def test_an_impossible_choice_loses() -> None:
    """A log-probability of minus infinity is a measurement like any other."""
    assert choice_score(logprobs(-math.inf, -50.0), ["a", "b"], [1], ChoiceLength.NONE).value == 1


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("B", 1),
        ("b.", 1),
        (" (b) ", 1),
        ("Ｂ", 1),
        ("The answer is (B).", 1),
        ("The answer is B because it barks.", 1),
        ("The correct answer is:\n\nC", 2),
        ("**Answer:** C", 2),
        ("I would go with option B because", 1),
        (r"So it is \boxed{C}.", 2),
        (r"\boxed{\text{C}}", 2),
        ("答案是B", 1),
        ("答案：Ｂ", 1),
        ("正确答案是 (C)", 2),
        ("应该选择D。", 3),
        ("选项C是对的", 2),
        ("選Ｂ", 1),
        ("B) Paris", 1),
        ("B\nIt barks.", 1),
        ("Not A but (C)", 2),
        ("The answer is A. No, wait: the answer is D.", 3),
        ("New York.", 3),
        ("I think that it's a dog.", 1),
        ("It is new york, of course", 3),
        ("The answer is a dog.", 1),
        ("A dog or a cat", None),
        ("A good question", None),
        ("cats", None),
        ("E", None),
        ("(A) or (B)", None),
        ("A. cat\nB. dog\nC. bird", None),
        ("(A) cat, (B) dog. The answer is (B).", 1),
        ("", None),
    ],
)
def test_the_choice_that_a_text_means(text: str, index: int | None) -> None:
    """Letters and words of choices in English and Chinese; what is not clear is none."""
    assert choice_in(text, ANIMALS) == index


def test_a_choice_inside_a_longer_one() -> None:
    """The choice "not spam" is not "spam", though it holds it."""
    assert choice_in("This is not spam.", ["spam", "not spam"]) == 1
    assert choice_in("这是正面评论", ["正面", "负面"]) == 0


def test_a_letter_before_another_choices_words_is_not_clear() -> None:
    """The text "A) dog" where A is the cat names two choices, so none; with its own words, or with a reason behind it, the letter stands."""
    animals = ["cat", "dog", "horse"]

    assert choice_in("A) dog", animals) is None
    assert choice_in("B) dog", animals) == 1
    assert choice_in("B) It barks.\nA cat does not.", animals) == 1


def test_choices_that_are_letters() -> None:
    """Of the choices "B", "A" and "C" the text "A" means the second, by whatever way it is said."""
    for text in ("A", "The answer is A.", "(A)"):
        assert choice_in(text, ["B", "A", "C"]) == 1


def test_choices_by_text_are_scored() -> None:
    """A right choice is 1, a wrong one 0; a text that names none is 0 with the reason."""
    assert choice_text_score("B", ANIMALS, [1]) == Score(value=1.0, found="dog")
    assert choice_text_score("A", ANIMALS, [1]).value == 0
    assert choice_text_score("?", ANIMALS, [1]).reason == "the text names none of the choices clearly"


@pytest.mark.parametrize("value", [-0.1, 1.1, math.nan])
def test_a_score_is_from_0_to_1(value: float) -> None:
    """Nothing else can be made one."""
    with pytest.raises(ValueError, match="from 0 to 1"):
        Score(value=value)
