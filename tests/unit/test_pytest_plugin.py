"""The pytest plugin, run by pytest on small test suites of its own: a fake measures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from helpers.records import bare_record, run_record
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest_plugins = ["pytester"]

# Decode rates by what stands for the model; "busy" is disturbed and slow, and each further measurement of "rising" is faster.
CONFTEST = """
import pytest
from helpers.records import run_record
from suffice.records.schema import ContentionRecord
from suffice.records.store import save_record

class FakeBench:
    def __init__(self):
        self.measured = []

    def measure(self, asked, out):
        self.measured.append(asked.model)
        decode = 5.0 if self.measured == ["rising"] else 20.0
        busy = ContentionRecord(disturbed=True, reasons=("another process ran",))
        record = run_record(decode=5.0, disturbed=True, contention=busy) if asked.model == "busy" else run_record(decode=decode)
        save_record(record, out)
        return record

@pytest.fixture(scope="session")
def suffice_bench():
    return FakeBench()
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pytest.RunResult]:
    """Run pytest on one test file with the plugin and the fake, whatever else is installed here."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    pytester.makeconftest(CONFTEST)

    def run_it(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(test_speed=f"import pytest\n{source}")
        return pytester.runpytest_inprocess(
            "-p", "suffice.pytest_plugin", "-p", "no:cacheprovider", "-ra", "--strict-markers", *arguments
        )

    return run_it


def marked(arguments: str, body: str = "suffice_measure()") -> str:
    """A test file with one marked test."""
    return f"@pytest.mark.suffice({arguments})\ndef test_it(suffice_measure):\n    {body}\n"


def outcomes(result: pytest.RunResult) -> dict[str, int]:
    """How many tests ended how."""
    return {name: number for name, number in result.parseoutcomes().items() if name != "warnings"}


DECISIONS = {
    "model='fast', floor=8": "passed",
    "model='fast', floor=80": "failed",
    "model='fast', floor=19.7": "skipped",
    "model='busy', floor=8": "skipped",
    "model='busy', floor=4": "passed",
    "model='busy', floor=80, inconclusive='xfail'": "skipped",  # pytest's own word for it in a report
    "model='busy', floor=8, inconclusive='fail'": "failed",
    "model='fast'": "passed",
    "model='fast', floor={'decode': 8, 'prefill': 90}, ceiling={'ttft': 10}": "passed",
    "model='fast', floor={'decode': 8, 'prefill': 900}": "failed",
    "model='fast', ceiling={'ttft': 0.001}": "failed",
    "model='fast', ceiling={'memory': 4 * 2**30}": "skipped",
    "model='fast', baseline='same.json'": "passed",
    "model='fast', baseline='faster.json'": "failed",
    "model='fast', baseline='other.json'": "skipped",
    "record='bare.json', floor=8": "skipped",
    "record='gone.json', floor=8": "failed",
    "model='fast', baseline='gone.json'": "failed",
}


def test_a_check_decides_the_test(pytester: pytest.Pytester, run: Callable[..., pytest.RunResult]) -> None:
    """Pass passes, fail fails, inconclusive skips, xfails or fails by choice, no floor is no check, a missing file is a failure."""
    save_record(run_record(decode=20), pytester.path / "same.json")
    save_record(run_record(decode=30), pytester.path / "faster.json")
    save_record(run_record(decode=20, depth=2048), pytester.path / "other.json")
    save_record(bare_record(None), pytester.path / "bare.json")
    tests = [marked(one).replace("test_it", f"test_{number}") for number, one in enumerate(DECISIONS)]

    result = run("\n".join(tests), "--suffice-dir=kept", "--junit-xml=junit.xml")

    cases = ET.parse(pytester.path / "junit.xml").getroot().iter("testcase")  # noqa: S314  # pytest's own
    ended = [next((child.tag for child in case if child.tag in _ENDS), "passed") for case in cases]
    assert dict(zip(DECISIONS, map(_ENDS.get, ended), strict=True)) == DECISIONS
    assert outcomes(result) == {"passed": 5, "failed": 7, "skipped": 5, "xfailed": 1}
    result.stdout.fnmatch_lines(["suffice: *gone.json*does not exist*"])
    assert len(list((pytester.path / "kept").glob("*.json"))) == 2  # one for each model


_ENDS = {"failure": "failed", "error": "failed", "skipped": "skipped", "passed": "passed"}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--suffice-inconclusive=xfail"], {"xfailed": 1}),
        (["--suffice-inconclusive=fail"], {"failed": 1}),
        (["-o", "suffice_inconclusive=xfail"], {"xfailed": 1}),
        (["--suffice-inconclusive=xfail", "--runxfail"], {"failed": 1}),
    ],
)
def test_what_inconclusive_means_is_a_choice(
    run: Callable[..., pytest.RunResult], options: list[str], expected: dict[str, int]
) -> None:
    """By option or ini file; and where --runxfail turns xfail off, no test passes for lack of evidence."""
    assert outcomes(run(marked("model='busy', floor=8"), *options)) == expected


def test_the_test_gets_the_record(run: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    """Figures can be asserted on, the record is on disk, and the run tells where."""
    result = run(
        marked(
            "model='fast', floor=8",
            "measured = suffice_measure()\n    assert measured.record.decode_tokens_per_second == pytest.approx(20, rel=0.01)"
            "\n    assert measured.path.exists()\n    assert [row.outcome for row in measured.rows] == ['pass']",
        )
    )

    assert outcomes(result) == {"passed": 1}
    (path,) = (pytester.path / "suffice-runs").glob("*.json")
    assert load_record(path).decode_tokens_per_second == run_record().decode_tokens_per_second
    result.stdout.fnmatch_lines(["*= suffice =*", f"pass: test_speed.py::test_it: decode floor: *record: {path})"])


def test_the_reason_is_told(run: Callable[..., pytest.RunResult]) -> None:
    """A failure is the guard's sentence, without a traceback of ours."""
    result = run(marked("model='fast', floor=80"))

    result.stdout.fnmatch_lines(["suffice: decode floor: *floor 80: below the floor*"])
    assert "pytest_plugin.py" not in result.stdout.str()


def test_arguments_of_the_call_replace_those_of_the_markers(run: Callable[..., pytest.RunResult]) -> None:
    """The class names the model, the test the floor, and the call has the last word."""
    source = """
@pytest.mark.suffice(model="busy", floor=8)
class TestSpeed:
    @pytest.mark.suffice(floor=80)
    def test_floor_of_the_test(self, suffice_measure):
        suffice_measure(model="fast")

    def test_model_of_the_class(self, suffice_measure):
        suffice_measure()

    @pytest.mark.parametrize("model", ["fast", "faster"])
    def test_call(self, suffice_measure, model):
        suffice_measure(model=model)
"""

    assert outcomes(run(source)) == {"failed": 1, "skipped": 1, "passed": 2}


def test_without_a_marker_the_call_says_all(run: Callable[..., pytest.RunResult]) -> None:
    """The fixture works on its own."""
    assert outcomes(run("def test_it(suffice_measure):\n    suffice_measure(model='fast', floor=80)\n")) == {
        "failed": 1
    }


def test_one_thing_is_measured_once(run: Callable[..., pytest.RunResult]) -> None:
    """Two floors of one model share its record; another depth is another measurement."""
    source = """
@pytest.mark.suffice(model="fast", floor=8)
def test_first(suffice_measure):
    suffice_measure()

@pytest.mark.suffice(model="fast", floor=9)
def test_second(suffice_measure, suffice_bench):
    first, deeper = suffice_measure(), suffice_measure(depth=100)
    assert first.path != deeper.path
    assert suffice_bench.measured == ["fast", "fast"]
"""

    assert outcomes(run(source)) == {"passed": 2}


@pytest.mark.parametrize(("floor", "expected"), [(8, {"skipped": 1}), (80, {"failed": 1})])
def test_a_rerun_confirms_a_failure(
    run: Callable[..., pytest.RunResult], floor: float, expected: dict[str, int]
) -> None:
    """A floor that is missed twice fails; one that is missed once is inconclusive, and both figures are told."""
    result = run(marked(f"model='rising', floor={floor}, rerun=True"))

    assert outcomes(result) == expected
    if floor == 8:
        result.stdout.fnmatch_lines(["*failed (*below the floor), and not when it was run again*"])


@pytest.mark.parametrize("order", [("first", "second"), ("second", "first")])
def test_a_rerun_is_of_its_own_test_alone(run: Callable[..., pytest.RunResult], order: tuple[str, str]) -> None:
    """A test that does not ask for one is held against the first record, whichever of the two comes first."""
    tests = {
        "first": marked("model='rising', floor=8, rerun=True").replace("test_it", "test_again"),
        "second": marked("model='rising', floor=8").replace("test_it", "test_once"),
    }

    result = run("\n".join(tests[name] for name in order), "-rA")

    assert outcomes(result) == {"skipped": 1, "failed": 1}
    result.stdout.fnmatch_lines(["FAILED test_speed.py::test_once*"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("floor=8, depth=512", {"passed": 1}),
        ("floor=8, depth=4096", {"skipped": 1}),
        ("floor=80, depth=4096", {"failed": 1}),  # missed behind a shorter cache, and behind a longer one all the more
        ("floor={'prefill': 8}, depth=4096", {"passed": 1}),
        ("floor={'prefill': 8}, prompt_tokens=900", {"skipped": 1}),
        ("floor={'prefill': 800}, prompt_tokens=900", {"skipped": 1}),  # longer prompts may be read at a better rate
        ("ceiling={'ttft': 10}, prompt_tokens=900", {"skipped": 1}),
    ],
)
def test_a_floor_that_is_held_at_a_shorter_length_is_not_green(
    run: Callable[..., pytest.RunResult], arguments: str, expected: dict[str, int]
) -> None:
    """The fake measures 512 tokens, as a short budget would; what the test states is more."""
    result = run(marked(f"model='fast', {arguments}"))

    assert outcomes(result) == expected
    if "skipped" in expected:
        result.stdout.fnmatch_lines(["*tokens was asked for and one of 512 was measured: a longer --budget is needed*"])


def test_what_a_record_warns_of_is_told(run: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    """Once for all tests that have it, and where nothing was run the check says why."""
    not_run = "not run: the model needs 9.0 GiB and 4.0 GiB can be used"
    save_record(run_record(warnings=("the prompt was shortened",)), pytester.path / "run.json")
    save_record(bare_record(None, warnings=(not_run,)), pytester.path / "huge.json")
    tests = [
        marked("record='run.json', floor=8"),
        marked("record='run.json', floor=9"),
        marked("record='huge.json', floor=8"),
    ]

    result = run("\n".join(test.replace("test_it", f"test_{number}") for number, test in enumerate(tests)))

    assert outcomes(result) == {"passed": 2, "skipped": 1}
    notes = [line for line in result.outlines if line.startswith("note: the prompt was shortened (record: ")]
    assert len(notes) == 1
    result.stdout.fnmatch_lines([f"inconclusive: *decode: {not_run} (record: *"])


def test_a_record_is_read_in_place_of_measuring(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    """A record that an earlier job made, from the root of the tests; nothing is measured."""
    save_record(run_record(decode=20), pytester.path / "run.json")

    result = run(marked("record='run.json', floor=8", "assert suffice_measure().path.name == 'run.json'"))

    assert outcomes(result) == {"passed": 1}
    assert not (pytester.path / "suffice-runs").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("model='fast', flor=8", "*suffice knows no argument flor; there is baseline, budget,*"),
        ("model='fast', floor={'decod': 8}", "*no metric is called 'decod'; there is decode, prefill,*"),
        ("model='fast', inconclusive='pass'", "*choose fail, skip, xfail*"),
        ("'fast'", "*takes arguments by name only*"),
    ],
)
def test_a_marker_that_cannot_be_ends_the_run_before_it_begins(
    run: Callable[..., pytest.RunResult], arguments: str, message: str
) -> None:
    """A misspelt floor checks nothing: it is refused while tests are collected, with the test's name."""
    result = run(marked(arguments))

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*test_speed.py::test_it: {message}"])


def test_a_wrong_ini_value_is_refused(run: Callable[..., pytest.RunResult]) -> None:
    """As a wrong option is."""
    assert run(marked("model='fast'"), "-o", "suffice_inconclusive=pass").ret == pytest.ExitCode.USAGE_ERROR


@pytest.mark.parametrize("body", ["pass", "pytest.raises(SystemExit, exit, 1)"])
def test_a_marked_test_that_never_measures_fails(run: Callable[..., pytest.RunResult], body: str) -> None:
    """It has a floor and checks nothing: green would be a lie."""
    result = run(marked("model='fast', floor=8", body))

    assert outcomes(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["*never called suffice_measure*"])


def test_a_marked_test_may_skip_itself(run: Callable[..., pytest.RunResult]) -> None:
    """A test that says why it does not run has said it."""
    assert outcomes(run(marked("model='fast', floor=8", "pytest.skip('not here')"))) == {"skipped": 1}


def test_figures_are_in_the_report(run: Callable[..., pytest.RunResult], pytester: pytest.Pytester) -> None:
    """``report.suffice`` for other plugins, in plain values; properties for pytest's own JUnit XML."""
    pytester.makeconftest(
        CONFTEST
        + """
import json

def pytest_runtest_logreport(report):
    if hasattr(report, "suffice"):
        with open("seen.json", "w") as file:
            json.dump(report.suffice, file)
"""
    )

    run(marked("model='fast', floor=8"), "--junit-xml=junit.xml")

    (seen,) = json.loads((pytester.path / "seen.json").read_text())
    assert (seen["test"], seen["check"], seen["outcome"]) == ("test_speed.py::test_it", "decode floor", "pass")
    properties = _properties(pytester.path / "junit.xml")
    assert properties["suffice.record"] == seen["record"]
    assert properties["suffice.decode floor.outcome"] == "pass"


def _properties(path: Path) -> dict[str, str]:
    root = ET.parse(path).getroot()  # noqa: S314  # pytest's own
    return {str(p.get("name")): str(p.get("value")) for p in root.iter("property")}


def test_prometheus_and_github_are_written_when_asked(
    run: Callable[..., pytest.RunResult], pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One file of all runs and checks, one summary, and an annotation for the check that failed."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "summary.md"))
    source = marked("model='fast', floor=8") + marked("model='other', floor=80").replace("test_it", "test_that")

    result = run(source, "--suffice-prometheus=runs.prom", "--suffice-github")

    told = (pytester.path / "runs.prom").read_text(encoding="utf-8")
    assert told.count("\nsuffice_decode_tokens_per_second{") == 2
    assert 'suffice_check_outcome{check="decode floor in test_speed.py::test_that",outcome="fail"} 1.0' in told
    assert "1 fail, 1 pass" in (pytester.path / "summary.md").read_text(encoding="utf-8")
    result.stdout.fnmatch_lines(["::error title=decode floor in test_speed.py%3A%3Atest_that::decode *"])


def test_a_report_that_cannot_be_written_is_no_green_run(run: Callable[..., pytest.RunResult]) -> None:
    """All tests pass, the Prometheus file is a folder: the run ends with an error and says why."""
    result = run(marked("model='fast', floor=8"), "--suffice-prometheus=.")

    assert outcomes(result) == {"passed": 1}
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stdout.fnmatch_lines(["suffice: cannot write *it is a folder*"])


def test_names_of_tests_are_no_commands(run: Callable[..., pytest.RunResult]) -> None:
    """Parameters stand in names: none of them speaks to GitHub's runner or leaves the folder of the records."""
    source = """
@pytest.mark.parametrize("name", ["##[error]x", "../../x", "::error::x"])
@pytest.mark.suffice(model="fast", floor=8)
def test_it(suffice_measure, name):
    measured = suffice_measure(depth=len(name))
    assert measured.path.parent.name == "suffice-runs"
"""

    result = run(source)

    assert outcomes(result) == {"passed": 3}
    assert not [line for line in result.outlines if "##[" in line]


def test_a_run_without_suffice_loads_nothing_of_it(tmp_path: Path) -> None:
    """The plugin is there in every run of pytest: it costs two modules, and neither NumPy nor Pydantic, where no test asks for it."""
    (tmp_path / "test_plain.py").write_text("def test_it():\n    assert True\n")
    script = (
        "import sys, pytest; code = pytest.main(['-q', '-p', 'suffice.pytest_plugin', '-p', 'no:cacheprovider', 'test_plain.py']);"
        "print(code, *sorted(name for name in sys.modules if name.split('.')[0] in ('suffice', 'numpy', 'pydantic', 'typer', 'rich')))"
    )

    told = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=_bare_environment(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert told.splitlines()[-1] == "0 suffice suffice.pytest_plugin"


def _bare_environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    return {**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


XDIST = """
@pytest.mark.suffice(model="fast", floor=8)
def test_first(suffice_measure):
    suffice_measure()

@pytest.mark.suffice(model="fast", floor=80)
def test_second(suffice_measure):
    suffice_measure()

@pytest.mark.suffice(model="busy", floor=8)
def test_third(suffice_measure, request):
    assert request.node.get_closest_marker("xdist_group").args == ("suffice",)
    suffice_measure()
"""


def test_workers_report_to_the_one_that_asked(
    pytester: pytest.Pytester, run: Callable[..., pytest.RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With pytest-xdist the checks of all workers are told in one place, and what one of them measured serves all."""
    pytest.importorskip("xdist")
    monkeypatch.setenv("PYTHONPATH", _bare_environment()["PYTHONPATH"])

    result = run(XDIST, "-p", "xdist", "-n2", "--dist=loadgroup", "--suffice-prometheus=runs.prom")

    assert outcomes(result) == {"passed": 1, "failed": 1, "skipped": 1}
    result.stdout.fnmatch_lines(["pass: test_speed.py::test_first: decode floor: *"])
    told = (pytester.path / "runs.prom").read_text(encoding="utf-8")
    assert told.count("\nsuffice_check_outcome{") == 9
    assert (
        len(list((pytester.path / "suffice-runs").glob("*.json"))) == 2
    )  # of "fast" and of "busy", whoever measured them
    assert (
        sum(line.startswith("fail: ") for line in result.outlines) == 2
    )  # in the test's report and in our own section


def test_no_group_is_added_without_xdist(run: Callable[..., pytest.RunResult]) -> None:
    """The marker of pytest-xdist is unknown where it is not installed, and strict markers would refuse it."""
    body = "suffice_measure(); assert request.node.get_closest_marker('xdist_group') is None"

    result = run(marked("model='fast', floor=8", body).replace("(suffice_measure)", "(suffice_measure, request)"))

    assert outcomes(result) == {"passed": 1}


def test_options_are_in_the_help(run: Callable[..., pytest.RunResult]) -> None:
    """And the marker is among the known ones."""
    run("", "--help").stdout.fnmatch_lines(["measuring models with suffice:", "*--suffice-dir=DIR*"])
    run("", "--markers").stdout.fnmatch_lines(["@pytest.mark.suffice(model, floor,*"])
