"""A deployment as text for a terminal and as a JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from suffice.deploy.server_args import Home, Hosted, server_arguments
from suffice.report.tables import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from suffice.deploy.choice import DeploymentChoice
    from suffice.deploy.server_args import Argument


def deployment_text(choice: DeploymentChoice, files: Mapping[str, str], written: Mapping[str, Path]) -> str:
    """The settings, then the files: where they were written, or their text."""
    lines = [one_line(choice.standing), "", *_settings_lines(choice), ""]
    if written:
        lines += [f"written {path}" for path in written.values()]
    else:
        for name, text in files.items():
            lines += [f"==== {name}", "", text]
        lines.append("Nothing was written; --out FOLDER writes these files.")
    return "\n".join(lines)


def _settings_lines(choice: DeploymentChoice) -> list[str]:
    arguments = _arguments(choice)
    width = max(len(" ".join(one.words)) for one in arguments)
    lines = [f"{' '.join(one.words):<{width}}  {one.comment}" for one in arguments]
    if choice.memory is not None:
        lines.append(f"{'memory limit':<{width}}  {choice.memory.limit.value} bytes, {choice.memory.limit.comment}")
    return [one_line(line) for line in lines]


def _arguments(choice: DeploymentChoice) -> tuple[Argument, ...]:
    place = choice.places[0]
    hosted = Hosted(home=Home.MACHINE, model_path=choice.model_path.value, port=place.port)
    return server_arguments(choice, place, hosted)


def deployment_document(
    choice: DeploymentChoice, files: Mapping[str, str], written: Mapping[str, Path]
) -> dict[str, Any]:
    """The JSON document of ``suffice deploy``; docs/deploy.md has its names."""
    memory = choice.memory
    return {
        "name": choice.name,
        "model": choice.alias,
        "machine": choice.machine,
        "grade": choice.grade.value,
        "standing": choice.standing,
        "arguments": [{"flag": one.flag, "value": one.value, "why": one.comment} for one in _arguments(choice)],
        "slots": choice.settings.slots.value,
        "context_tokens_per_slot": choice.settings.context.value,
        "engines": len(choice.places),
        "machines": choice.machines.value,
        "memory_needed_bytes": None if memory is None else memory.needed.value,
        "memory_limit_bytes": None if memory is None else memory.limit.value,
        "gpu": _gpu(choice),
        "files": [
            {"name": name, "path": str(written[name]) if name in written else None, "text": text}
            for name, text in files.items()
        ],
        "notes": list(choice.notes),
    }


def _gpu(choice: DeploymentChoice) -> dict[str, Any] | None:
    gpu = choice.gpu
    if gpu is None:
        return None
    return {
        "machine": gpu.machine,
        "model": gpu.model.value,
        "slots": None if gpu.slots is None else gpu.slots.value,
        "grade": None if gpu.grade is None else gpu.grade.value,
        "standing": gpu.standing,
    }
