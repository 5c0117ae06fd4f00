"""A guard's result as JUnit XML, the format that CI systems show."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from suffice.report.tables import one_line

if TYPE_CHECKING:
    from suffice.decide.guard import GuardResult


def junit_xml(result: GuardResult, *, name: str) -> str:
    """One test suite with one test case; an inconclusive guard is an error, so that no dashboard shows it green."""
    outcome = result.outcome.value
    suite = ET.Element(
        "testsuite",
        name="suffice guard",
        tests="1",
        failures="1" if outcome == "fail" else "0",
        errors="1" if outcome == "inconclusive" else "0",
        skipped="0",
    )
    case = ET.SubElement(suite, "testcase", classname="suffice.guard", name=f"decode floor of {one_line(name)}")
    reason = one_line(result.reason)
    if outcome != "pass":
        ET.SubElement(case, "failure" if outcome == "fail" else "error", message=reason, type=outcome).text = reason
    else:
        ET.SubElement(case, "system-out").text = reason
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    # ElementTree would declare the encoding of the locale; the file is written as UTF-8 everywhere.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"
