"""A SkyPilot task that measures a machine before it is bought, and the script that runs it and brings the record home."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.deploy.choice import Candidate
from suffice.deploy.quote import comment_text, shell
from suffice.deploy.shell_files import shell_head
from suffice.deploy.yaml_text import Block, Noted, yaml_document
from suffice.model.demand import StreamLengths
from suffice.units import GIB

if TYPE_CHECKING:
    from suffice.deploy.choice import DeploymentChoice

TASK_FILE: Final = "sky-measure.yaml"
RECORD: Final = "candidate.json"
_REMOTE_MODEL: Final = "~/model.gguf"
_IDLE_MINUTES: Final = 10
_MODEL_GIB: Final = 4  # room for a model whose size is not known
_SYSTEM_GIB: Final = 40  # system, compiler, Python


def sky_task(choice: DeploymentChoice, head: list[str]) -> str:
    """The task. It stops by itself, so that a forgotten machine costs minutes."""
    candidate = choice.candidate or _like_the_measured(choice)
    told = [
        f"Measures {candidate.machine} with suffice before it is bought. Run it with sky-measure.sh, which brings the record home.",
        *([candidate.note] if candidate.note else []),
        *head,
    ]
    task: dict[str, object] = {
        "name": f"measure-{choice.name}",
        "resources": _resources(choice, candidate),
        "envs": {
            "SUFFICE_SOURCE": Noted(
                "suffice[native]",
                "default: what pip installs; from a repository: suffice[native] @ git+https://HOST/REPOSITORY",
            )
        },
    }
    if choice.measured_model is None:
        task["file_mounts"] = {_REMOTE_MODEL: Noted(_mounted(choice.model_path.value), choice.model_path.comment)}
    return yaml_document(told, task | {"setup": Block(_setup(candidate)), "run": Block(_run(choice, candidate))})


def _mounted(path: str) -> str:
    """SkyPilot takes ``$NAME`` in it for a variable, and an address for a bucket: a folder in front makes a path of it."""
    return path if path.startswith("/") else f"./{path}"


def _like_the_measured(choice: DeploymentChoice) -> Candidate:
    cpus, memory_bytes = choice.record.environment.get("logical_cpus"), choice.record.memory_usable_bytes
    return Candidate(
        machine=f"a machine like {choice.machine}",
        cpus=cpus if isinstance(cpus, int) and not isinstance(cpus, bool) and cpus > 0 else None,
        memory_bytes=None if memory_bytes is None else memory_bytes * len(choice.places),  # a record's is of one engine
        origin="measured: as large as the machine of the record; --instance names another",
    )


def _resources(choice: DeploymentChoice, candidate: Candidate) -> dict[str, object]:
    found: dict[str, object] = {}
    if candidate.infra is not None:
        found["infra"] = Noted(candidate.infra, candidate.origin)
    if candidate.instance_type is not None:
        found["instance_type"] = Noted(candidate.instance_type, candidate.origin)
    else:
        if candidate.cpus is not None:
            found["cpus"] = Noted(f"{candidate.cpus}+", candidate.origin)
        if candidate.memory_bytes is not None:
            found["memory"] = Noted(f"{int(candidate.memory_bytes // GIB)}+", f"GiB; {candidate.origin}")
    size = choice.record.model.file_bytes
    model_gib = _MODEL_GIB if size is None else -(-size // GIB)
    found["disk_size"] = Noted(_SYSTEM_GIB + 2 * model_gib, "GB; computed: system and compiler, and twice the model")
    found["autostop"] = Noted(
        {"idle_minutes": _IDLE_MINUTES, "down": True}, "default: a machine that nobody uses is given back"
    )
    return found


def _setup(candidate: Candidate) -> str:
    build = "CMAKE_ARGS=-DGGML_CUDA=on " if candidate.is_gpu else ""
    return f"""\
set -euo pipefail
sudo apt-get update -qq
sudo apt-get install -y -qq python3-venv python3-dev build-essential cmake
python3 -m venv ~/suffice-env
# llama.cpp is compiled for this very machine: a prebuilt one gives lower bounds.
{build}~/suffice-env/bin/pip install --quiet "$SUFFICE_SOURCE"
"""


def _run(choice: DeploymentChoice, candidate: Candidate) -> str:
    return f"""\
set -euo pipefail
# the lengths are the demand's, the settings are those of the record
~/suffice-env/bin/suffice measure {_measured_words(choice, candidate)} --out ~/{RECORD}
"""


def _measured_words(choice: DeploymentChoice, candidate: Candidate) -> str:
    model = _REMOTE_MODEL if choice.measured_model is None else shell(choice.measured_model)
    lengths, settings = StreamLengths.of(choice.demand), choice.settings
    words = [model, f"--prompt-tokens {lengths.prompt_tokens}", f"--depth {lengths.depth}"]
    if candidate.is_gpu:
        words.append("--gpu-layers 999")  # all; service curves are measured on CPUs only
    elif settings.slots.value > 1:
        words.append(f"--slots {settings.slots.value}")
    if settings.kv_k is not None and settings.kv_k == settings.kv_v:
        words.append(f"--kv-type {settings.kv_k.value}")
    if settings.ubatch is not None:
        words.append(f"--ubatch {settings.ubatch.value}")
    return " ".join(words)


def sky_script(choice: DeploymentChoice, head: list[str]) -> str:
    """Rents the machine, measures, downloads the record, and gives the machine back."""
    cluster = f"measure-{choice.name}"
    lines = shell_head(
        [
            "Measures the candidate of sky-measure.yaml: run it beside that file. It rents a machine, which costs money.",
            *head,
        ]
    )
    lines += [
        f"cluster={shell(cluster)} # {comment_text('computed: from the name of the model')}",
        f"record=${{1:-{RECORD}}}",
        'folder=$(dirname -- "${BASH_SOURCE[0]}")',
        f'sky launch --yes --cluster "$cluster" "$folder/{TASK_FILE}"',
        f'rsync --times "$cluster:{RECORD}" "$record"',
        f"# Where a line above fails, the machine stays for {_IDLE_MINUTES} idle minutes: time to look, and to fetch the record by hand.",
        'sky down --yes "$cluster"',
        'echo "the record is $record; decide with: suffice decide demand.toml $record"',
    ]
    return "\n".join(lines) + "\n"
