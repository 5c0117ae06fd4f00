"""Runs a composite action as GitHub's runner does, as far as ours needs it: its scripts are really run, other actions are noted."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_EXPRESSION = re.compile(r"\$\{\{\s*([a-z_][\w.-]*)\s*\}\}")
_TERM = re.compile(r"([a-z_][\w.-]*)\s*(==|!=)\s*'([^']*)'")


@dataclass(slots=True, kw_only=True)
class Ran:
    """What came of an action."""

    failed: bool = False
    output: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)  # names of those that ran
    used: dict[str, dict[str, str]] = field(default_factory=dict)  # other actions, with their inputs


def run_action(
    action: Mapping[str, Any], inputs: Mapping[str, str], *, folder: Path, temporary: Path, path: str
) -> Ran:
    """Run the steps of an action in ``folder``; ``path`` is where programs are looked for.

    Raises:
        ValueError: an expression, a condition or an input that this runner does not know.
    """
    declared = action["inputs"]
    unknown = set(inputs) - set(declared)
    if unknown:
        raise ValueError(f"no such inputs: {unknown}")
    context = {f"inputs.{name}": inputs.get(name, str(told["default"])) for name, told in declared.items()}
    context |= {"github.action_path": str(temporary / "action"), "runner.temp": str(temporary)}
    ran = Ran()
    for step in action["runs"]["steps"]:
        if not _applies(step.get("if"), context, failed=ran.failed):
            continue
        ran.steps.append(step["name"])
        if "uses" in step:
            ran.used[step["uses"]] = {name: _filled(value, context) for name, value in step["with"].items()}
        else:
            _run_step(step, context, ran, folder=folder, temporary=temporary, path=path)
    ran.outputs = {name: _filled(told["value"], context) for name, told in action["outputs"].items()}
    return ran


def _run_step(
    step: Mapping[str, Any], context: dict[str, str], ran: Ran, *, folder: Path, temporary: Path, path: str
) -> None:
    if step["shell"] != "bash" or "${{" in step["run"]:
        raise ValueError(f"{step['name']}: scripts are bash, and no expression stands in them")
    files = {name: temporary / name for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_STEP_SUMMARY")}
    for file in files.values():
        file.write_text("", encoding="utf-8")
    (temporary / "step.sh").write_text(step["run"], encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "SUFFICE_"))}
    environment |= {name: _filled(value, context) for name, value in step.get("env", {}).items()}
    environment |= {name: str(file) for name, file in files.items()} | {"PATH": path}
    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(temporary / "step.sh")],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    ran.output += done.stdout
    ran.summary += files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")
    for line in files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        context[f"steps.{step['id']}.outputs.{name}"] = value
    ran.failed = ran.failed or done.returncode != 0


def _filled(text: str, context: Mapping[str, str]) -> str:
    """Expressions replaced; an output that no step has set is empty, as on the runner."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name not in context and not name.startswith("steps."):
            raise ValueError(f"unknown expression {name}")
        return context.get(name, "")

    filled = _EXPRESSION.sub(value, text)
    if "${{" in filled:
        raise ValueError(f"cannot read {text!r}")
    return filled


def _applies(condition: str | None, context: Mapping[str, str], *, failed: bool) -> bool:
    terms = [] if condition is None else [term.strip() for term in condition.split("&&")]
    if failed and "always()" not in terms:
        return False
    for term in terms:
        match = _TERM.fullmatch(term)
        if term == "always()":
            continue
        if match is None:
            raise ValueError(f"cannot read the condition {condition!r}")
        if (context[match[1]] == match[3]) is not (match[2] == "=="):
            return False
    return True
