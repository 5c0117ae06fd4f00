"""Annotations and step summaries: read back by the runner's own rules."""

from __future__ import annotations

import pytest

from helpers.hostile import HOSTILE, read_command
from suffice.decide.guard import Outcome
from suffice.report.check_rows import CheckRow
from suffice.report.github import (
    MOST_ANNOTATIONS,
    MOST_SUMMARY_BYTES,
    annotation_lines,
    github_text,
    inert_line,
    step_summary,
)
from suffice.report.tables import one_line


def _row(
    outcome: Outcome = Outcome.FAIL, name: str = "decode floor", reason: str = "below", message: str = ""
) -> CheckRow:
    return CheckRow(name=name, outcome=outcome, reason=reason, message=message)


def test_a_failure_is_an_error_and_doubt_a_warning() -> None:
    """Errors first, then warnings; what passed says nothing."""
    lines = annotation_lines(
        [_row(Outcome.PASS), _row(Outcome.INCONCLUSIVE, "ttft"), _row()], file="perf/run.json", line=3
    )

    assert lines == [
        "::error file=perf/run.json,line=3,title=decode floor::below",
        "::warning file=perf/run.json,line=3,title=ttft::below",
    ]


def test_no_file_is_no_property() -> None:
    """An annotation of the whole run has a title alone."""
    assert annotation_lines([_row()]) == ["::error title=decode floor::below"]


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_are_one_command_and_come_back_whole(text: str) -> None:
    """One line, one command, and the runner undoes our escapes: no name adds a property, a command or a line."""
    (line,) = annotation_lines([_row(name=text, reason=text, message="second\nthird")], file=f"a,b:{one_line(text)}")

    command = read_command(line)

    assert len(line.splitlines()) == 1
    assert command is not None
    assert command.name == "error"
    assert command.message == f"{one_line(text)}\nsecond\nthird"
    assert command.properties["file"] == f"a,b:{one_line(text)}"
    assert command.properties.get("title", "") == one_line(text).rstrip()  # the runner trims the last one
    assert set(command.properties) <= {"file", "title"}


def test_more_than_github_shows_are_told_of() -> None:
    """GitHub drops the eleventh without a word: the tenth says how many there are."""
    lines = annotation_lines([_row(name=str(number)) for number in range(MOST_ANNOTATIONS + 5)])

    assert len(lines) == MOST_ANNOTATIONS
    assert lines[-1] == "::error title=6 more::the step's summary has all checks"
    assert len(annotation_lines([_row()] * MOST_ANNOTATIONS)) == MOST_ANNOTATIONS


@pytest.mark.parametrize("text", HOSTILE)
def test_a_line_for_the_log_is_never_a_command(text: str) -> None:
    """Names in ordinary output cannot speak to the runner."""
    assert read_command(inert_line(text)) is None
    assert read_command(inert_line(f"fail: {text}")) is None


def test_the_hostile_texts_would_be_commands() -> None:
    """The test above can fail: as they are, some of the texts are commands."""
    assert sum(read_command(line) is not None for text in HOSTILE for line in [text.split("\n")[0]]) >= 3


def test_the_summary_has_the_worst_first() -> None:
    """Counts in the heading, failed checks at the top of the table, messages and facts beside it."""
    text = step_summary(
        [_row(Outcome.PASS, "a"), _row(Outcome.FAIL, "b", message="engine 1 -> 2\nanother CPU")],
        title="speed",
        facts={"machine": "Test CPU", "engine": None},
    )

    assert text == (
        "### speed: 1 fail, 1 pass\n\n- machine: Test CPU\n\n| outcome | check | why |\n|---|---|---|\n"
        "| **fail** | b | below |\n| pass | a | below |\n\n**b**\n\nengine 1 -&gt; 2<br>\nanother CPU\n"
    )


def test_a_summary_of_nothing_says_so() -> None:
    """No check is not a pass."""
    assert step_summary([]).startswith("### suffice guard: no checks\n")


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_make_no_markup(text: str) -> None:
    """A row stays a row of three cells, without tags, links, formulas, mentions or code of its own."""
    summary = step_summary([_row(name=text, reason=text)])

    rows = [line for line in summary.splitlines() if line.startswith("| **fail**")]
    assert len(rows) == 1
    bare = rows[0].replace("<span>", "").replace("</span>", "")
    for escaped in ("\\\\", "\\|", "\\`", "\\*", "\\_", "\\[", "\\]", "\\#", "\\~"):
        bare = bare.replace(escaped, "")
    assert bare.count("|") == 4
    assert not set(bare.replace("**fail**", "")) & set("<>`*[]~#\\")
    for mark in ("$", "@", "://", "www."):
        assert mark not in rows[0].replace("<span>$</span>", "").replace("<span>@</span>", "")


def test_plain_text_stays_as_it_is() -> None:
    """What needs no escape gets none."""
    assert github_text("decode 5.00 tokens/s, floor 8: 大模型") == "decode 5.00 tokens/s, floor 8: 大模型"


def test_a_summary_is_never_too_large() -> None:
    """GitHub refuses a summary over 1 MiB as a whole: checks that do not fit are counted, the worst are kept."""
    rows = [_row(Outcome.PASS, f"p{number}", "$" * 500) for number in range(200)] + [_row(name="the failed one")]

    text = step_summary(rows)

    assert len(text.encode()) < MOST_SUMMARY_BYTES + 200
    assert "the failed one" in text
    assert text.rstrip().endswith("are left out: a summary has a largest size.")
