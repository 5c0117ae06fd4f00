"""A compose file (compose-spec): a container of llama.cpp that is reached from this machine only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.deploy.quote import compose_text
from suffice.deploy.server_args import Home, Hosted, load_mode, server_arguments
from suffice.deploy.yaml_text import Noted, yaml_document

if TYPE_CHECKING:
    from suffice.deploy.choice import DeploymentChoice, Place

CONTAINER_PORT: Final = 8080
CONTAINER_MODEL: Final = "/models/model.gguf"
NOBODY: Final = 65532
"""A user without rights; the model file must be readable for all."""
_PROBE_PERIOD_S: Final = 10


def compose_file(choice: DeploymentChoice, head: list[str]) -> str:
    """A service for each engine."""
    services = {_name(choice, place): _service(choice, place) for place in choice.places}
    return yaml_document(head, {"name": choice.name, "services": services})


def _name(choice: DeploymentChoice, place: Place) -> str:
    return choice.name if len(choice.places) == 1 else f"{choice.name}-node{place.node}"


def _service(choice: DeploymentChoice, place: Place) -> dict[str, object]:
    mode = load_mode(choice, Home.COMPOSE)
    service: dict[str, object] = {
        "image": Noted(compose_text(choice.image.value), choice.image.comment),
        "command": _command(choice, place),
        "ports": [Noted(f"127.0.0.1:{place.port}:{CONTAINER_PORT}", f"loopback only; {choice.port.comment}")],
        "volumes": [
            {
                "type": "bind",
                "source": Noted(compose_text(choice.model_path.value), choice.model_path.comment),
                "target": CONTAINER_MODEL,
                "read_only": True,
                "bind": {"create_host_path": Noted(False, "default: a missing file is an error, not an empty folder")},
            }
        ],
        **_rights(),
        "restart": "unless-stopped",
        "healthcheck": _health(choice),
    }
    if "mlock" in mode.value:
        service["ulimits"] = Noted({"memlock": {"soft": -1, "hard": -1}}, mode.comment)
    return service | _resources(choice, place)


def _command(choice: DeploymentChoice, place: Place) -> list[object]:
    hosted = Hosted(home=Home.COMPOSE, model_path=CONTAINER_MODEL, port=CONTAINER_PORT)
    items: list[object] = []
    for argument in server_arguments(choice, place, hosted):
        *before, last = [compose_text(word) for word in argument.words]
        items += [*before, Noted(last, argument.comment)]
    return items


def _rights() -> dict[str, object]:
    return {
        "user": Noted(f"{NOBODY}:{NOBODY}", "default: nobody; the model file must be readable for all"),
        "read_only": Noted(True, "default: it writes nothing"),
        "tmpfs": ["/tmp"],  # noqa: S108  # of the container
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
    }


def _health(choice: DeploymentChoice) -> dict[str, object]:
    return {
        "test": ["CMD", "curl", "--fail", "--silent", f"http://127.0.0.1:{CONTAINER_PORT}/health"],
        "interval": f"{_PROBE_PERIOD_S}s",
        "timeout": "5s",
        "retries": 3,
        "start_period": Noted(f"{choice.start_s.value}s", choice.start_s.comment),
    }


def _resources(choice: DeploymentChoice, place: Place) -> dict[str, object]:
    found: dict[str, object] = {}
    if choice.memory is not None:
        limit = Noted(f"{choice.memory.limit.value}b", f"{choice.memory.limit.comment} ({choice.memory.needed.why})")
        found["mem_limit"] = limit
        found["memswap_limit"] = Noted(limit.value, "default: no swap; a model that is swapped answers too late")
    if place.cpus is not None:
        found["cpuset"] = Noted(place.cpus, "measured: CPUs of the node that the run was kept on")
    if choice.is_gpu:
        devices = [{"driver": "nvidia", "count": 1, "capabilities": ["gpu"]}]
        found["deploy"] = Noted({"resources": {"reservations": {"devices": devices}}}, "measured: on one GPU")
    return found
