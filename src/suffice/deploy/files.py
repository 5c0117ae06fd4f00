"""All files of a deployment, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice import __version__
from suffice.deploy.compose import compose_file
from suffice.deploy.kubernetes import kubernetes_file
from suffice.deploy.litellm import litellm_config
from suffice.deploy.shell_files import check_script, server_script
from suffice.deploy.sky import TASK_FILE, sky_script, sky_task
from suffice.deploy.systemd import unit_file
from suffice.deploy.vllm import vllm_script

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.deploy.choice import DeploymentChoice, Place


def files_for(choice: DeploymentChoice) -> Mapping[str, str]:
    """Name -> text, in the order in which they are used.

    Raises:
        UsageError: a path that a service on another machine cannot resolve.
    """
    head = _head(choice)
    files: dict[str, str] = {}
    for place in choice.places:
        suffix = _suffix(choice, place)
        files[f"llama-server{suffix}.sh"] = server_script(choice, place, head)
        files[f"{choice.name}{suffix}.service"] = unit_file(choice, place, head)
    files["compose.yaml"] = compose_file(choice, head)
    files["kubernetes.yaml"] = kubernetes_file(choice, head)
    files["check-and-warm-up.sh"] = check_script(choice, head)
    if choice.gpu is not None:
        files["vllm.sh"] = vllm_script(choice, choice.gpu, head)
    if choice.other is not None:
        files["litellm.yaml"] = litellm_config(choice, choice.other, head)
    files[TASK_FILE] = sky_task(choice, head)
    files["sky-measure.sh"] = sky_script(choice, head)
    return files


def _suffix(choice: DeploymentChoice, place: Place) -> str:
    return "" if len(choice.places) == 1 else f"-node{place.node}"


def _head(choice: DeploymentChoice) -> list[str]:
    """What stands on top of every file. No date: the same record and demand give the same files."""
    measured = choice.record.created_at or "an unknown day"
    return [
        f"Made by suffice {__version__} from a run record of {measured} on {choice.machine} ({choice.engine}).",
        choice.standing,
        *(f"note: {note}" for note in choice.notes),
        "Behind each value: measured (in the record), simulated (by the verdict), stated (by you), catalogue, computed from these, or default.",
    ]
