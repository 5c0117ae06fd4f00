"""Laws of the reports for CI systems, for any text in them."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.hostile import read_command
from suffice.cli.pytest_run import file_stem
from suffice.decide.guard import Outcome
from suffice.report.check_rows import CheckRow, distinct_names
from suffice.report.github import annotation_lines, inert_line, step_summary
from suffice.report.junit import junit_report
from suffice.report.prometheus import prometheus_text

# Everything that a file name or a parameter can hold on some system, with what the formats give a meaning more often.
TEXTS = st.text(st.characters() | st.sampled_from('\n\r:,%#[]"\\|`$@<>&;='), max_size=20)
SURROGATES = st.text(st.characters(categories=["Cs", "Cc", "Ll"]), max_size=10)
ROWS = st.lists(
    st.builds(
        CheckRow,
        name=TEXTS | SURROGATES,
        outcome=st.sampled_from(Outcome),
        reason=TEXTS,
        message=TEXTS,
        properties=st.dictionaries(TEXTS, TEXTS | st.none(), max_size=1),
    ),
    max_size=3,
)
few = settings(max_examples=25, deadline=None)


@few
@given(ROWS)
def test_junit_is_well_formed_with_a_case_for_each_row(rows: list[CheckRow]) -> None:
    """Whatever stands in it: as many cases as checks, under names that differ."""
    suite = ET.fromstring(junit_report(rows).encode())[0]  # noqa: S314  # our own text

    names = [case.get("name") for case in suite.iter("testcase")]
    assert len(set(names)) == len(rows)


@few
@given(ROWS, TEXTS)
def test_each_annotation_is_one_command_of_ours(rows: list[CheckRow], file: str) -> None:
    """No text ends a line, adds a property or starts another command."""
    lines = annotation_lines(rows, file=file)

    assert len(lines) == sum(row.outcome is not Outcome.PASS for row in rows)
    for line in lines:
        command = read_command(line)
        assert len(line.splitlines()) == 1
        assert command is not None
        assert command.name in {"error", "warning"}
        assert set(command.properties) <= {"file", "title"}


@few
@given(TEXTS)
def test_no_line_for_the_log_is_a_command(text: str) -> None:
    """Neither alone nor behind a word of ours."""
    assert read_command(inert_line(text)) is None
    assert read_command(inert_line(f"fail: {text}")) is None


@few
@given(ROWS)
def test_a_summary_has_a_line_for_each_row(rows: list[CheckRow]) -> None:
    """No text makes a row of its own, and all of it can be written as UTF-8."""
    text = step_summary(rows)

    assert text.encode()
    assert sum(line.startswith(("| **", "| pass |")) for line in text.split("\n")) == len(rows)


@few
@given(ROWS)
def test_prometheus_has_three_outcomes_a_row(rows: list[CheckRow]) -> None:
    """Lines are split by line feeds alone, and each check has its three samples, one of which is 1."""
    samples = [line for line in prometheus_text([], rows).split("\n") if line.startswith("suffice_check_outcome{")]

    assert len(samples) == 3 * len(rows)
    assert sum(line.endswith(" 1.0") for line in samples) == len(rows)
    assert len({line.rpartition(" ")[0] for line in samples}) == len(samples)


@few
@given(st.lists(st.sampled_from(["a", "b", "a (2)", "a (3)", "a (2) (2)"]) | TEXTS, max_size=8))
def test_names_differ_after_all(names: list[str]) -> None:
    """Also those that look like numbered ones already, and names that nobody repeats stay."""
    found = distinct_names(names)

    assert len(set(found)) == len(names)


@few
@given(TEXTS | SURROGATES, TEXTS | SURROGATES)
def test_files_of_two_tests_differ(first: str, second: str) -> None:
    """One test, one file, of plain characters."""
    assert (file_stem(first) == file_stem(second)) is (first == second)
    assert file_stem(first).isascii()
