"""The guard's report for CI systems: well-formed, and never green for lack of evidence."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from helpers.records import bare_record
from suffice.decide.guard import confirmed, guard_floor, result_of
from suffice.report.junit import junit_xml

HOSTILE = 'run "]]><x/>&\x00\x07\x1b[31m\ufffe\ud800 大模型\n.json'


@pytest.mark.parametrize(
    ("decode", "failures", "errors", "element"),
    [(20.0, "0", "0", "system-out"), (5.0, "1", "0", "failure"), (None, "0", "1", "error")],
)
def test_each_outcome_has_its_element(decode: float | None, failures: str, errors: str, element: str) -> None:
    """A pass has output, a fail a failure, and an inconclusive guard an error: no dashboard shows it green."""
    result = guard_floor(bare_record(decode), 8)

    suite = ET.fromstring(junit_xml(result, name="run.json"))[0]  # noqa: S314  # our own text

    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", failures, errors)
    (case,) = suite
    (told,) = (child for child in case if child.tag != "properties")
    assert (told.tag, told.text) == (element, result.reason)


def test_a_failure_that_a_rerun_did_not_confirm_is_no_green_report() -> None:
    """The rerun passed: the check is inconclusive, and its case an error."""
    first, again = guard_floor(bare_record(5.0), 8), guard_floor(bare_record(20.0), 8)

    suite = ET.fromstring(junit_xml(confirmed(first, again), name="run.json"))[0]  # noqa: S314  # our own text

    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
    assert [case.get("name") for case in suite] == ["decode floor of run.json"]


def test_a_guard_that_checked_nothing_is_no_green_report() -> None:
    """There is no check whose case could say so: the guard has one of its own."""
    suite = ET.fromstring(junit_xml(result_of([]), name="run.json"))[0]  # noqa: S314  # our own text

    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "1")
    assert [case.get("name") for case in suite] == ["guard of run.json"]


def test_hostile_names_stay_text() -> None:
    """Markup, control characters and lone surrogates in a file name leave the XML well-formed, with one test case."""
    text = junit_xml(guard_floor(bare_record(5.0), 8), name=HOSTILE)

    root = ET.fromstring(text.encode())  # noqa: S314  # our own text

    (case,) = root.iter("testcase")
    assert case.get("name") == 'decode floor of run "]]><x/>&[31m 大模型 .json'


def test_the_encoding_is_the_one_that_it_is_written_in() -> None:
    """The declaration says UTF-8 in every locale, because the file is written so."""
    assert junit_xml(guard_floor(bare_record(5.0), 8), name="x").startswith('<?xml version="1.0" encoding="UTF-8"?>\n')
