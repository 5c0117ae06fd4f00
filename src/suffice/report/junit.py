"""What checks found as JUnit XML, the format that CI systems show."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from suffice.decide.guard import Outcome
from suffice.report.check_rows import count, distinct, known, rows_of_result, several_lines
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from suffice.decide.guard import GuardResult
    from suffice.report.check_rows import CheckRow, PropertyValue

_CLASS = "suffice.guard"
_ELEMENTS = {Outcome.PASS: "system-out", Outcome.FAIL: "failure", Outcome.INCONCLUSIVE: "error"}


def junit_report(
    rows: Sequence[CheckRow], *, suite: str = "suffice guard", properties: Mapping[str, PropertyValue] | None = None
) -> str:
    """One test suite with a test case for each row; an inconclusive check is an error, so that no dashboard shows it green.

    ``properties`` are those of the run, beside the rows' own; unknown ones are left out.
    """
    element = ET.Element(
        "testsuite",
        name=one_line(suite),
        tests=str(len(rows)),
        failures=str(count(rows, Outcome.FAIL)),
        errors=str(count(rows, Outcome.INCONCLUSIVE)),
        skipped="0",
    )
    _add_properties(element, {} if properties is None else properties)
    for row in distinct(rows):
        _add_case(element, row)
    root = ET.Element("testsuites")
    root.append(element)
    ET.indent(root)
    # ElementTree would declare the encoding of the locale; the file is written as UTF-8 everywhere.
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def junit_xml(result: GuardResult, *, name: str) -> str:
    """The report of one guard, a test case for each of its checks; ``name``: of the record."""
    return junit_report(rows_of_result(result, of=name))


def _add_case(suite: ET.Element, row: CheckRow) -> None:
    case = ET.SubElement(suite, "testcase", classname=_CLASS, name=row.name)
    _add_properties(case, row.properties)
    reason = one_line(row.reason)
    found = ET.SubElement(case, _ELEMENTS[row.outcome])
    if row.outcome is not Outcome.PASS:
        found.set("message", reason)
        found.set("type", row.outcome.value)
    found.text = f"{reason}\n{several_lines(row.message)}" if row.message else reason


def _add_properties(parent: ET.Element, properties: Mapping[str, PropertyValue]) -> None:
    told = known(properties)
    if not told:
        return
    element = ET.SubElement(parent, "properties")
    for name, value in told.items():
        ET.SubElement(element, "property", name=name, value=value)
