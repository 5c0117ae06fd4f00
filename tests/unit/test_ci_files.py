"""The files for CI systems: the action's own scripts are run, the examples are read, and neither asks for what is not there."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import typer.main

from helpers.composite import run_action
from helpers.records import run_record
from suffice.cli.app import build_app
from suffice.pytest_plugin import pytest_addoption
from suffice.records.store import save_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from helpers.composite import Ran

yaml = pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "ci"
# Stands for `suffice measure` where a test must not measure: it writes down what it was asked for.
STUB = '#!/bin/sh\nfor argument in "$@"; do printf "%s\\n" "[$argument]"; done > asked.txt\ncp made.json suffice-results/run.json\n'


def _yaml(path: Path) -> Any:  # noqa: ANN401  # a YAML document
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture
def act(tmp_path: Path) -> Callable[..., Ran]:
    """Runs the action in a folder with a record that decodes at 20 tokens/s; ``suffice`` is the one under test."""
    folder, temporary, programs = (tmp_path / name for name in ("work", "temp", "bin"))
    for made in (folder, temporary, programs):
        made.mkdir()
    save_record(run_record(decode=20), folder / "run.json")
    save_record(run_record(decode=20), folder / "made.json")
    script = programs / "suffice"
    own = f"exec {shlex.quote(sys.executable)} -m suffice"
    script.write_text(f'#!/bin/sh\nif [ "$1" = measure ]; then exec {programs}/stub "$@"; fi\n{own} "$@"\n')
    (programs / "stub").write_text(STUB)
    for program in programs.iterdir():
        program.chmod(0o755)

    def run(**inputs: str) -> Ran:
        given = {name.replace("_", "-"): value for name, value in {"engine": "none", **inputs}.items()}
        return run_action(
            _yaml(ROOT / "action.yml"), given, folder=folder, temporary=temporary, path=f"{programs}:/usr/bin:/bin"
        )

    return run


@pytest.mark.parametrize(
    ("floor", "inconclusive", "outcome"),
    [
        ("25", "warn", "fail"),
        ("decode=19.7", "fail", "inconclusive"),
        ("19.7", "warn", "inconclusive"),
        ("decode=8\nprefill=90", "fail", "pass"),
    ],
)
def test_the_action_guards_a_record(
    act: Callable[..., Ran], tmp_path: Path, floor: str, inconclusive: str, outcome: str
) -> None:
    """Its outcome, its exit and its reports are the guard's; what cannot be told fails the job unless it is to warn."""
    ran = act(record="run.json", floor=floor, inconclusive=inconclusive)

    assert ran.outputs["outcome"] == outcome, ran.output
    assert ran.failed is not (outcome == "pass" or (outcome, inconclusive) == ("inconclusive", "warn"))
    assert ran.summary.startswith("### suffice guard: ")
    assert ("::error" in ran.output, "::warning" in ran.output) == (outcome == "fail", outcome == "inconclusive")
    suite = ET.parse(tmp_path / "work" / ran.outputs["junit"]).getroot()[0]  # noqa: S314  # our own
    assert int(suite.get("tests", "0")) == len(floor.split())
    assert "suffice_check_outcome{" in (tmp_path / "work" / ran.outputs["prometheus"]).read_text(encoding="utf-8")


def test_the_reports_are_kept_also_when_the_guard_fails(act: Callable[..., Ran]) -> None:
    """The upload is the last step and always runs, unless no artifact is wanted."""
    ran = act(record="gone.json", floor="25")

    assert ran.failed
    assert ran.used == {
        "actions/upload-artifact@v4": {
            "name": "suffice-results",
            "path": "suffice-results",
            "if-no-files-found": "warn",
        }
    }
    assert act(artifact="").used == {}


def test_the_action_measures_what_it_is_told_to(act: Callable[..., Ran], tmp_path: Path) -> None:
    """Model, budget and further arguments, one a line; the record is an output and is guarded."""
    ran = act(model="my model.gguf", budget="9s", measure_args="--threads\n2\n\n--engine\nxllamacpp", floor="8")

    assert ran.outputs["record"] == "suffice-results/run.json"
    assert ran.outputs["outcome"] == "pass"
    assert (tmp_path / "work" / "asked.txt").read_text() == "".join(
        f"[{argument}]\n"
        for argument in shlex.split(
            "measure 'my model.gguf' --out suffice-results/run.json --budget 9s --threads 2 --engine xllamacpp"
        )
    )


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({}, "give model, or record"),
        ({"model": "m.gguf", "record": "run.json"}, "not both"),
        ({"record": "run.json", "floor": "8", "inconclusive": "pass"}, "choose fail or warn"),
        ({"record": "run.json", "floor": "fast"}, "suffice: "),
        ({"record": "gone.json", "floor": "8"}, "does not exist"),
    ],
)
def test_what_cannot_be_fails_and_says_why(act: Callable[..., Ran], inputs: dict[str, str], message: str) -> None:
    """A mistake is no outcome."""
    ran = act(**inputs)

    assert ran.failed
    assert ran.outputs["outcome"] == ""
    assert message in ran.output


def test_what_stands_in_an_input_is_not_run(act: Callable[..., Ran], tmp_path: Path) -> None:
    """Quotes, substitutions and stars are text, in every input that reaches a script."""
    evil = "x\"; touch owned; $(touch owned) `touch owned` * '\ntouch owned"
    (tmp_path / "bin" / "suffice").write_text("#!/bin/sh\nexit 0\n")  # the scripts are tested, not the program

    for name in ("record", "floor", "ceiling", "baseline", "guard_args", "inconclusive", "folder", "engine"):
        act(**{"record": "run.json", "floor": "8", name: evil})
    act(model=evil, budget=evil, measure_args=evil)

    assert not list(tmp_path.rglob("owned"))


def test_the_action_is_written_as_github_wants_it() -> None:
    """Every input and output is described and has a default or a value; every script names its shell."""
    action = _yaml(ROOT / "action.yml")

    assert action["runs"]["using"] == "composite"
    assert all(told["description"] and isinstance(told["default"], str) for told in action["inputs"].values())
    assert all(told["description"] and told["value"] for told in action["outputs"].values())
    assert all(("uses" in step) or step["shell"] == "bash" for step in action["runs"]["steps"])
    expressions = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert expressions == set(action["inputs"])


def test_the_workflow_gives_the_action_what_it_takes() -> None:
    """The example for GitHub uses inputs and outputs that there are."""
    action, workflow = _yaml(ROOT / "action.yml"), _yaml(EXAMPLES / "github.yml")
    steps = workflow["jobs"]["speed"]["steps"]

    (own,) = (step for step in steps if step.get("uses", "").startswith("./"))

    assert set(own["with"]) <= set(action["inputs"])
    used = re.findall(r"steps\.suffice\.outputs\.(\w+)", (EXAMPLES / "github.yml").read_text(encoding="utf-8"))
    assert set(used) <= set(action["outputs"])
    assert used


def _known_options(command: str) -> set[str]:
    group = typer.main.get_command(build_app())
    found = group.commands[command]  # type: ignore[attr-defined]  # Typer's own type hides that it is a group
    return {option for parameter in found.params for option in parameter.opts}


def _commands(text: str) -> list[list[str]]:
    lines = re.findall(r"^\s*(?:-|\$)?\s*(suffice (?:measure|guard) .*)$", text, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("file", ["examples/ci/gitlab.yml", "docs/ci.md"])
def test_commands_in_the_files_have_options_that_there_are(file: str) -> None:
    """What readers paste is understood by the program."""
    commands = _commands((ROOT / file).read_text(encoding="utf-8"))

    assert commands
    for _, command, *arguments in commands:
        assert {argument for argument in arguments if argument.startswith("--")} <= _known_options(command)


def test_the_gitlab_job_keeps_its_reports() -> None:
    """The files that the job shows are those that its commands write, and inconclusive is a warning."""
    job = _yaml(EXAMPLES / "gitlab.yml")["speed"]

    (guard,) = (line for line in job["script"] if line.startswith("suffice guard"))
    assert f"--junit {job['artifacts']['reports']['junit']}" in guard
    assert f"--prometheus {job['artifacts']['reports']['metrics']}" in guard
    assert job["allow_failure"]["exit_codes"] == [3]


def test_yaml_blocks_of_the_page_are_yaml() -> None:
    """The snippets in docs/ci.md can be read, and the action's inputs in its table are those that there are."""
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")

    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert blocks
    assert all(yaml.safe_load(block) for block in blocks)
    table = set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE))
    assert set(_yaml(ROOT / "action.yml")["inputs"]) <= table


def test_options_of_the_plugin_on_the_page_are_those_that_there_are() -> None:
    """docs/ci.md names each option of the plugin, and no other."""
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    (group,) = (group for group in parser._groups if group.name == "suffice")

    names = {option.names()[0] for option in group.options}
    text = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--suffice-[a-z]+", text)) == names
