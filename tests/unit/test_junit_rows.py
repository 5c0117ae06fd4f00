"""JUnit XML of several checks."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from helpers.hostile import HOSTILE
from suffice.decide.guard import Outcome
from suffice.report.check_rows import CheckRow
from suffice.report.junit import junit_report


def _parsed(text: str) -> ET.Element:
    return ET.fromstring(text.encode())[0]  # noqa: S314  # our own text


def test_each_check_is_a_test_case() -> None:
    """Three checks: counted by how they ended, each with its own element, reason and message."""
    rows = [
        CheckRow(name="decode floor", outcome=Outcome.PASS, reason="holds"),
        CheckRow(name="prefill floor", outcome=Outcome.FAIL, reason="below", message="engine 1 -> 2\nanother CPU"),
        CheckRow(name="memory", outcome=Outcome.INCONCLUSIVE, reason="not measured"),
    ]

    suite = _parsed(junit_report(rows))

    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [case.get("name") for case in suite] == ["decode floor", "prefill floor", "memory"]
    assert [case[0].tag for case in suite] == ["system-out", "failure", "error"]
    assert suite[1][0].get("message") == "below"
    assert suite[1][0].text == "below\nengine 1 -> 2\nanother CPU"


def test_properties_stand_with_the_run_and_with_each_case() -> None:
    """Known figures are properties; unknown ones are absent, and where there are none there is no element."""
    row = CheckRow(name="decode", outcome=Outcome.PASS, reason="holds", properties={"measured": 20.5, "limit": None})

    suite = _parsed(junit_report([row], properties={"machine": "Test CPU", "engine": None}))

    assert [(p.get("name"), p.get("value")) for p in suite.findall("properties/property")] == [("machine", "Test CPU")]
    assert [(p.get("name"), p.get("value")) for p in suite.findall("testcase/properties/property")] == [
        ("measured", "20.5")
    ]
    assert _parsed(junit_report([CheckRow(name="x", outcome=Outcome.PASS, reason="")])).find(".//properties") is None


def test_cases_of_one_name_are_told_apart() -> None:
    """Dashboards keep one of two cases with the same name: the second gets a number."""
    rows = [CheckRow(name="decode", outcome=Outcome.PASS, reason="")] * 2

    assert [case.get("name") for case in _parsed(junit_report(rows))] == ["decode", "decode (2)"]


def test_no_check_is_an_empty_suite() -> None:
    """Nothing was checked: a suite without cases, not a green one."""
    suite = _parsed(junit_report([]))

    assert (suite.get("tests"), len(suite)) == ("0", 0)


def test_hostile_texts_leave_the_document_whole() -> None:
    """Whatever stands in names, reasons, messages and properties: well-formed, one case a row, readable text kept."""
    rows = [
        CheckRow(name=text, outcome=outcome, reason=text, message=text, properties={text: text})
        for text in HOSTILE
        for outcome in Outcome
    ]

    suite = _parsed(junit_report(rows, suite=HOSTILE[0], properties={text: text for text in HOSTILE}))

    assert len(suite.findall("testcase")) == len(rows)
    assert "<script>alert(1)</script> & <b>" in {case.get("name") for case in suite}
