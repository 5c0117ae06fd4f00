"""What rules write in English is said in Chinese where all of it is known, with the same numbers, and else stays as it is."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace

import pytest

from helpers.pages import all_kinds, given, one_stream, record, with_latency
from helpers.plans import CHAT, job_plan, request
from helpers.served import load, rate_demand, server
from suffice.decide.constraint import Constraint, Sense
from suffice.decide.quantity import Quantity
from suffice.decide.verdict import GradedConstraint, plain_grade
from suffice.decide.wording import grade_sentence
from suffice.loaders.planning import make_plan
from suffice.model.basis import Basis
from suffice.report.page.language import Language
from suffice.report.page.model import english
from suffice.report.page.phrase_book import ADVICE, NOTES
from suffice.report.page.phrases import told, told_reason, translated
from suffice.report.page.quantities import available_text
from suffice.report.page.why import grade_sentence as chinese_sentence
from suffice.report.page.words import words_for
from suffice.units import GIB

EN, ZH = words_for(Language.EN), words_for(Language.ZH)
_NUMBERS = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")


def _numbers(text: str) -> Counter[str]:
    return Counter(_NUMBERS.findall(text))


def test_advice_and_notes_of_every_kind_of_verdict_are_known() -> None:
    """Each sentence of what to do next, and each note of a constraint, has a Chinese one with the same numbers."""
    cases = [
        *all_kinds().values(),
        given(with_latency(requests_per_second=2.0), record()),
        given(with_latency(requests_per_second=None, concurrent_users=3), record()),
        given(one_stream(budget_per_month=9.0, currency="CNY"), record()),
    ]
    lines = [one.decision.verdict.settle for one in cases]
    lines += [item.constraint.note for one in cases for item in one.decision.verdict.constraints]
    known = {line for line in lines if line}

    assert len(known) > 12
    for line in known:
        said = translated(line, ZH)
        assert said is not None, line
        assert _numbers(said) == _numbers(line)


@pytest.mark.parametrize(("plain", "chinese"), [*ADVICE, *NOTES])
def test_a_phrase_keeps_its_values_and_its_commands(plain: str, chinese: str) -> None:
    """Placeholders and commands are the same on both sides, and the Chinese side is Chinese."""
    for pattern in (r"\{\w+\}", r"`[^`]*`", r"--[a-z-]+"):
        assert Counter(re.findall(pattern, plain)) == Counter(re.findall(pattern, chinese))
    assert re.search(r"[\u4e00-\u9fff]", chinese) or plain == chinese


@pytest.mark.parametrize(
    "line",
    [
        "a build ran",
        "simulated: llama-server, and something that nobody knows",
        "Measure it: the record has no evidence about {label}.",
        "Measure it: the record has no evidence about decode. And dance.",
        "",
    ],
)
def test_a_text_that_is_not_known_whole_stays_english(line: str) -> None:
    """No half sentences: one part that is not known, and all of it is left as it is and marked."""
    assert told(line, ZH) == english(line)


def test_advice_of_several_machines_and_of_servers_is_known() -> None:
    """What a comparison adds, and the command for a server, whose words go on to the end."""
    card = record(decode=90.0, machine="Card", device_kind="gpu")
    cases = [
        given(one_stream(), record(decode=4.0), record(decode=3.0, machine="Other")),
        given(one_stream(), card),
        given(rate_demand(), servers=(server(load(4.0), is_gpu=None),)),
    ]
    lines = [one.decision.verdict.settle for one in cases]

    assert all(lines)
    assert [line for line in lines if line and translated(line, ZH) is None] == []


def test_a_time_without_end_has_no_range() -> None:
    """At least without end is no English, and no Chinese."""
    never = Quantity(point=math.inf, low=math.inf, high=None, basis=Basis.EXTRAPOLATED)
    constraint = Constraint(name="ttft_s", unit="s", sense=Sense.AT_MOST, required=3.0, available=never, margin=1.0)

    assert available_text(constraint, EN) == "without end (extrapolated)"
    assert available_text(constraint, ZH) == "无限长（外推）"


def test_an_english_page_has_the_rules_own_words() -> None:
    """Nothing is looked up for it."""
    assert told("--parallel 4", EN).text == "--parallel 4"
    assert told_reason("Enough.", EN) is None


def test_a_text_without_end_is_not_looked_up() -> None:
    """A file may hold anything: what is longer than any rule's text stays as it is, and costs no time."""
    line = "machine hours, " + "a" * 100_000

    assert translated(line, ZH) is None
    assert told_reason(line, ZH) is None


def test_names_in_a_phrase_are_kept_as_they_are() -> None:
    """Braces and group references of a name from outside are no templates."""
    assert translated(r"machine hours, {x} \1 \g<0>", ZH) == r"机器时长，{x} \1 \g<0>"


def test_the_reason_of_an_option_is_that_of_a_verdict() -> None:
    """A plan's document holds the sentence only; read back it says in Chinese what is built from the constraint itself."""
    quantities = [
        Quantity(point=31.0, low=30.0, high=32.5, basis=Basis.MEASURED),
        Quantity(point=10.0, low=10.0, high=10.0, basis=Basis.STATED),
        Quantity(point=10.0, low=9.0, high=None, basis=Basis.PREDICTED),
        Quantity(point=10.0, low=None, high=11.0, basis=Basis.MEASURED_ELSEWHERE),
        Quantity(point=4.0, low=3.9, high=4.1, basis=Basis.MEASURED),
        Quantity(point=16.0, low=13.0, high=16.0, basis=Basis.PREDICTED, more_untried=True),
    ]
    constraints = [item.constraint for item in given(one_stream(), record()).decision.verdict.constraints]
    constraints += [
        item.constraint for item in given(one_stream(memory_bytes=GIB), record()).decision.verdict.constraints
    ]
    cases = [replace(one, available=quantity, note="") for one in constraints for quantity in quantities]
    assert len(cases) > 20
    for one in cases:
        grade = plain_grade(one)
        said = told_reason(grade_sentence(one, grade.value), ZH)
        assert said == chinese_sentence(GradedConstraint(constraint=one, grade=grade), ZH)


def test_reasons_and_notes_of_a_real_plan_are_known() -> None:
    """Each option that is enough, each that is open for want of a measurement, and what was left out: with the same numbers."""
    made = job_plan()
    users = make_plan(
        request(replace(CHAT, requests_per_second=None, concurrent_users=7, ttft=None, tokens_per_second_per_user=2.0))
    )
    reasons = [
        one.reason
        for one in (*made.options, *users.options)
        if one.is_enough or one.reason.startswith("Not settled: by arithmetic")
    ]

    assert len(reasons) > 2
    assert any("users with the margin of 1.5 are 11" in reason for reason in reasons)
    for reason in reasons:
        said = told_reason(reason, ZH)
        assert said is not None, reason
        assert _numbers(said) == _numbers(reason)
    left_out = [note for note in made.notes if note.startswith("left out")]
    assert [note for note in left_out if translated(note, ZH) is None] == []
