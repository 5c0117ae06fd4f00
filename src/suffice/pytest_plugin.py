"""The pytest plugin: measure in a test, hold the result against a floor or a baseline, and keep the record.

::

    @pytest.mark.suffice(model="sample:smollm2-135m", floor=8, budget="20s")
    def test_speed(suffice_measure):
        measured = suffice_measure()
        assert measured.record.ttft_s < 2

Loaded into every run of pytest where suffice is installed, so it imports nothing of suffice before a test asks for it. ``docs/ci.md`` has
the whole of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from suffice.cli.pytest_asked import Asked
    from suffice.cli.pytest_run import Bench, Measured, Measuring
    from suffice.report.check_rows import CheckRow
    from suffice.report.prometheus import NamedRun

MARKER: Final = "suffice"
DEFAULT_FOLDER: Final = "suffice-runs"
FAIL, SKIP, XFAIL = "fail", "skip", "xfail"
INCONCLUSIVE_CHOICES: Final = (FAIL, SKIP, XFAIL)

_TEST_NAME: Final = pytest.StashKey[str]()
_CALLED: Final = pytest.StashKey[bool]()
_FOUND: Final = pytest.StashKey[list[dict[str, Any]]]()
_MEASURING: Final = pytest.StashKey["Measuring"]()
_XDIST_GROUP: Final = "suffice"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of the plugin."""
    group = parser.getgroup("suffice", "measuring models with suffice")
    group.addoption(
        "--suffice-dir", metavar="DIR", default=DEFAULT_FOLDER, help="Where run records are kept. Default: %(default)s."
    )
    group.addoption(
        "--suffice-inconclusive",
        choices=INCONCLUSIVE_CHOICES,
        help="What becomes of a test whose check is inconclusive. Default: the ini option suffice_inconclusive, else skip.",
    )
    group.addoption("--suffice-prometheus", metavar="FILE", help="Write runs and checks as Prometheus text.")
    group.addoption(
        "--suffice-github", action="store_true", help="In GitHub Actions: annotate, and add to the step's summary."
    )
    parser.addini("suffice_inconclusive", "fail, skip or xfail a test whose check is inconclusive", default=SKIP)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker; gather results where they are reported, which is not in a worker of pytest-xdist."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(model, floor, ceiling, baseline, budget, ...): what suffice_measure measures and holds it against",
    )
    if config.getini("suffice_inconclusive") not in INCONCLUSIVE_CHOICES:
        raise pytest.UsageError(f"suffice_inconclusive: choose {', '.join(INCONCLUSIVE_CHOICES)}")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Gathered(config), "suffice-gathered")


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads its groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Refuse markers that cannot be before anything runs; keep measurements on one worker, where pytest-xdist groups tests."""
    has_groups = config.pluginmanager.hasplugin("xdist")
    for item in items:
        if item.get_closest_marker(MARKER) is None:
            continue
        item.stash[_TEST_NAME] = item.nodeid
        _check_marker(item)
        if has_groups and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(_XDIST_GROUP))


@pytest.fixture(scope="session")
def suffice_bench(pytestconfig: pytest.Config) -> Bench:
    """What measures for ``suffice_measure``. A test suite may put a fake in its place by a fixture of this name."""
    from suffice.cli.pytest_run import RealBench  # noqa: PLC0415  # nothing is loaded before a test asks for it

    return RealBench(pytestconfig.rootpath, _progress)


@pytest.fixture
def suffice_measure(request: pytest.FixtureRequest, suffice_bench: Bench) -> Callable[..., Measured]:
    """Call it to measure, or to read a record, as the test's marker and the arguments of the call say.

    It returns the record, its path and what was checked. A check that fails fails the test; one that is inconclusive skips or xfails it,
    or fails it, by choice.
    """
    item: pytest.Item = request.node

    def measure(**changes: Any) -> Measured:  # noqa: ANN401  # checked by asked_of
        from suffice.errors import SufficeError  # noqa: PLC0415  # as above

        item.stash[_CALLED] = True
        try:
            asked = _asked(item, changes)
            measured = _measuring(item.config)(asked, suffice_bench, _test_name(item))
        except SufficeError as error:
            pytest.fail(f"suffice: {error}", pytrace=False)
        _attach(item, measured)
        _settle(measured.rows, asked.inconclusive or _inconclusive(item.config))
        return measured

    return measure


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """A marked test that never measured has checked nothing, and must not look as if it had."""
    yield
    if item.get_closest_marker(MARKER) is not None and not item.stash.get(_CALLED, False):
        pytest.fail("suffice: the test is marked, and never called suffice_measure: nothing was checked", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Attach what was found to the report as ``report.suffice``, in plain values that pytest-xdist can send."""
    report = yield
    found = item.stash.get(_FOUND, [])
    if found:
        vars(report)["suffice"] = list(found)
        report.sections.append(("suffice", "\n".join(_line(one) for one in found)))
        found.clear()
    return report


class _Gathered:
    """What all tests found, where it is reported."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._found: list[dict[str, Any]] = []
        self._problem = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """From here, or from a worker."""
        self._found += getattr(report, "suffice", [])

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write what was asked for; what cannot be written is told, and no green run hides it."""
        prometheus, github = (self._config.getoption(f"suffice_{name}") for name in ("prometheus", "github"))
        if not (prometheus or github):
            return
        from suffice.errors import SufficeError  # noqa: PLC0415  # nothing is loaded unless it is asked for

        try:
            self._write(prometheus)
        except SufficeError as error:
            self._problem = str(error)
            if session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.USAGE_ERROR

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """A line for each check, with where the record is, and what the records warn of."""
        if not (self._found or self._problem):
            return
        terminalreporter.section("suffice")
        for found in self._found:
            terminalreporter.write_line(_line(found))
        for note in _notes(self._found):
            terminalreporter.write_line(note)
        if self._problem:
            terminalreporter.write_line(f"suffice: {self._problem}", red=True)
        if self._config.getoption("suffice_github"):
            from suffice.report.github import annotation_lines  # noqa: PLC0415  # as above

            for line in annotation_lines(_rows(self._found)):
                terminalreporter.write_line(line)

    def _write(self, prometheus: str | None) -> None:
        from suffice.cli.guard_outputs import append_step_summary  # noqa: PLC0415  # as above
        from suffice.records.store import write_atomically  # noqa: PLC0415  # as above
        from suffice.report.github import step_summary  # noqa: PLC0415  # as above
        from suffice.report.prometheus import prometheus_text  # noqa: PLC0415  # as above

        if prometheus:
            path = self._config.rootpath / prometheus
            write_atomically(path, prometheus_text(_runs(self._found), _rows(self._found)))
        if self._config.getoption("suffice_github"):
            append_step_summary(step_summary(_rows(self._found), title="suffice in pytest"))


def _rows(found: Sequence[dict[str, Any]]) -> list[CheckRow]:
    from suffice.decide.guard import Outcome  # noqa: PLC0415  # as above
    from suffice.report.check_rows import CheckRow  # noqa: PLC0415  # as above

    return [
        CheckRow(
            name=f"{one['check']} in {one['test']}",
            outcome=Outcome(one["outcome"]),
            reason=one["reason"],
            message=one["message"],
            properties=one["properties"],
        )
        for one in found
        if one["check"] is not None
    ]


def _runs(found: Sequence[dict[str, Any]]) -> list[NamedRun]:
    """The records of all tests, each once."""
    from suffice.loaders.any_record import load_any_record  # noqa: PLC0415  # as above
    from suffice.report.prometheus import NamedRun  # noqa: PLC0415  # as above

    tests: dict[str, str] = {}
    for one in found:
        tests.setdefault(one["record"], one["test"])
    return [NamedRun(name=test, record=load_any_record(Path(path))) for path, test in tests.items()]


def _attach(item: pytest.Item, measured: Measured) -> None:
    """Keep what was found for the report, and its figures among the properties that pytest's own JUnit XML shows."""
    from suffice.report.check_rows import known  # noqa: PLC0415  # as above

    base = {
        "test": _test_name(item),
        "record": str(measured.path),
        "warnings": [str(text) for text in measured.record.warnings],
    }
    found = [
        {
            **base,
            "check": row.name,
            "outcome": row.outcome.value,
            "reason": row.reason,
            "message": row.message,
            "properties": dict(row.properties),
        }
        for row in measured.rows
    ]
    item.stash.setdefault(_FOUND, []).extend(found or [{**base, "check": None}])
    item.user_properties.append(("suffice.record", str(measured.path)))
    for row in measured.rows:
        told = known({"outcome": row.outcome.value, **row.properties})
        item.user_properties += [(f"suffice.{row.name}.{name}", value) for name, value in told.items()]


def _settle(rows: Sequence[CheckRow], inconclusive: str) -> None:
    """Fail for what failed; then fail, skip or xfail for what is inconclusive."""
    from suffice.decide.guard import Outcome  # noqa: PLC0415  # as above

    failed, doubtful = (
        "; ".join(f"{row.name}: {row.reason}" for row in rows if row.outcome is outcome)
        for outcome in (Outcome.FAIL, Outcome.INCONCLUSIVE)
    )
    if failed:
        pytest.fail(f"suffice: {failed}", pytrace=False)
    if doubtful:
        _give_up(f"suffice: inconclusive: {doubtful}", inconclusive)


def _give_up(reason: str, inconclusive: str) -> NoReturn:
    if inconclusive == SKIP:
        pytest.skip(reason)
    if inconclusive == XFAIL:
        pytest.xfail(reason)
    pytest.fail(reason, pytrace=False)  # also under --runxfail, where xfail() does nothing


def _line(found: dict[str, Any]) -> str:
    from suffice.report.github import inert_line  # noqa: PLC0415  # as above

    if found["check"] is None:
        return inert_line(f"measured: {found['test']} (record: {found['record']})")
    told = f"{found['outcome']}: {found['test']}: {found['check']}: {found['reason']}"
    return inert_line(f"{told} (record: {found['record']})")


def _notes(found: Sequence[dict[str, Any]]) -> list[str]:
    """What the records warn of, such as lengths that the budget shortened; each once."""
    from suffice.report.github import inert_line  # noqa: PLC0415  # as above

    told = dict.fromkeys((text, one["record"]) for one in found for text in one["warnings"])
    return [inert_line(f"note: {text} (record: {record})") for text, record in told]


def _check_marker(item: pytest.Item) -> None:
    from suffice.cli.pytest_judge import limits_of  # noqa: PLC0415  # as above
    from suffice.errors import SufficeError  # noqa: PLC0415  # as above

    try:
        asked = _asked(item, {})
        limits_of(asked.floors, asked.ceilings)
    except SufficeError as error:
        raise pytest.UsageError(f"{item.nodeid}: {error}") from error


def _asked(item: pytest.Item, changes: dict[str, Any]) -> Asked:
    """What the markers of a test say, the outermost first, and then the call."""
    from suffice.cli.pytest_asked import asked_of  # noqa: PLC0415  # as above
    from suffice.errors import UsageError  # noqa: PLC0415  # as above

    markers = list(item.iter_markers(MARKER))[::-1]
    if any(marker.args for marker in markers):
        raise UsageError("the marker suffice takes arguments by name only, such as model=... and floor=...")
    asked = asked_of([*(marker.kwargs for marker in markers), changes])
    if asked.inconclusive not in {None, *INCONCLUSIVE_CHOICES}:
        raise UsageError(f"suffice(inconclusive={asked.inconclusive!r}): choose {', '.join(INCONCLUSIVE_CHOICES)}")
    return asked


def _measuring(config: pytest.Config) -> Measuring:
    from suffice.cli.pytest_run import Measuring  # noqa: PLC0415  # as above

    if _MEASURING not in config.stash:
        worker: dict[str, Any] = getattr(config, "workerinput", {})
        config.stash[_MEASURING] = Measuring(config.rootpath, _folder(config), worker.get("testrunuid"), _progress)
    return config.stash[_MEASURING]


def _test_name(item: pytest.Item) -> str:
    """As collected: pytest-xdist adds the group to it later."""
    return item.stash.get(_TEST_NAME, item.nodeid)


def _folder(config: pytest.Config) -> Path:
    return config.rootpath / str(config.getoption("suffice_dir"))


def _inconclusive(config: pytest.Config) -> str:
    return str(config.getoption("suffice_inconclusive") or config.getini("suffice_inconclusive"))


def _progress(step: str) -> None:
    """Into the captured output of the test."""
    print(f"suffice: {step}")  # noqa: T201  # pytest shows it with a failure
