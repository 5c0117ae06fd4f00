"""`suffice deploy`: prints without --out, writes with it, replaces nothing by itself."""

from __future__ import annotations

import json
import stat
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from helpers.deployments import deployable
from suffice.cli.deploy import deploy
from suffice.errors import SufficeError, UsageError
from suffice.records.store import save_record

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

_DEMAND = """\
[demand]
kind = "interactive"
prompt_tokens = { p50 = 300, p95 = 500 }
output_tokens = { p50 = 100, p95 = 200 }
tokens_per_second_per_user = 5.0
"""
_APP = typer.Typer()
_APP.command()(deploy)


@pytest.fixture
def inputs(tmp_path: Path) -> list[str]:
    """A demand and a record on disk."""
    demand, run = tmp_path / "demand.toml", tmp_path / "run.json"
    demand.write_text(_DEMAND, encoding="utf-8")
    save_record(deployable(), run)
    return [str(demand), str(run)]


def call(arguments: list[str]) -> Result:
    """The command; what it raises on purpose is raised here."""
    result = CliRunner().invoke(_APP, arguments)
    if isinstance(result.exception, SufficeError):
        raise result.exception
    return result


def test_nothing_is_written_without_a_folder(inputs: list[str], tmp_path: Path) -> None:
    """The files are printed, and the folder holds what it held."""
    result = call(inputs)

    assert result.exit_code == 0
    assert "==== toy.service" in result.stdout
    assert {path.name for path in tmp_path.iterdir()} == {"demand.toml", "run.json"}


def test_files_are_written_and_scripts_can_be_run(inputs: list[str], tmp_path: Path) -> None:
    """Each file as it is printed; those of the shell may be started."""
    printed = {one["name"]: one["text"] for one in json.loads(call([*inputs, "--json"]).stdout)["files"]}
    out = tmp_path / "a" / "deployment"
    document = json.loads(call([*inputs, "--json", "--out", str(out)]).stdout)

    assert {path.name: path.read_text("utf-8") for path in out.iterdir()} == printed
    assert [one["path"] for one in document["files"]] == [str(out / name) for name in printed]
    assert stat.S_IMODE((out / "llama-server.sh").stat().st_mode) & stat.S_IXUSR
    assert not stat.S_IMODE((out / "compose.yaml").stat().st_mode) & stat.S_IXUSR


def test_a_file_that_is_there_stays(inputs: list[str], tmp_path: Path) -> None:
    """One of them is enough to write none; --force replaces it."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "compose.yaml").write_text("mine", encoding="utf-8")

    with pytest.raises(UsageError, match=r"compose\.yaml is there already.*--force"):
        call([*inputs, "--out", str(out)])
    assert [path.name for path in out.iterdir()] == ["compose.yaml"]
    assert (out / "compose.yaml").read_text("utf-8") == "mine"

    call([*inputs, "--out", str(out), "--force"])
    assert "services:" in (out / "compose.yaml").read_text("utf-8")


def test_links_and_folders_are_not_written_through(inputs: list[str], tmp_path: Path) -> None:
    """A link that leads nowhere is there as well; a folder is no file even with --force."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "compose.yaml").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(UsageError, match="there already"):
        call([*inputs, "--out", str(out)])
    (out / "compose.yaml").unlink()
    (out / "compose.yaml").mkdir()
    with pytest.raises(UsageError, match="is no file"):
        call([*inputs, "--out", str(out), "--force"])
    assert not (tmp_path / "elsewhere").exists()


def test_the_folder_is_no_file(inputs: list[str]) -> None:
    """--out names a folder."""
    with pytest.raises(UsageError, match="is a file"):
        call([*inputs, "--out", inputs[0]])


def test_a_folder_that_cannot_be_is_a_sentence(inputs: list[str], tmp_path: Path) -> None:
    """A name that no file system takes, and a link that leads nowhere."""
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")

    with pytest.raises(UsageError, match="--out cannot be used: File name too long"):
        call([*inputs, "--out", str(tmp_path / ("x" * 300))])
    with pytest.raises(UsageError, match="leads nowhere"):
        call([*inputs, "--out", str(tmp_path / "link")])
    with pytest.raises(UsageError, match="is a folder; give the path of the GGUF file"):
        call([*inputs, "--model-path", "/srv/models/"])


def test_a_machine_that_is_not_enough_exits_with_1(inputs: list[str], tmp_path: Path) -> None:
    """The files are there all the same; with somebody beside it who takes what it does not hold, it is 0."""
    (tmp_path / "demand.toml").write_text(_DEMAND.replace("5.0", "500.0"), encoding="utf-8")

    result = call([*inputs, "--out", str(tmp_path / "out")])
    assert result.exit_code == 1
    assert (tmp_path / "out" / "toy.service").exists()
    assert call([*inputs, "--hybrid", "deepseek/deepseek-chat"]).exit_code == 0


def test_a_gpu_has_a_command_and_is_the_candidate(inputs: list[str]) -> None:
    """Accelerators and region are the catalogue's; slots and standing are predicted where the model is named by its shape."""
    document = json.loads(
        call(
            [*inputs, "--json", "--gpu", "g6.xlarge", "--gpu-model", "org/model", "--model", "llama-3.1-8b:q4_k_m"]
        ).stdout
    )
    files = {one["name"]: one["text"] for one in document["files"]}

    assert document["gpu"]["machine"] == "aws/g6.xlarge"
    assert document["gpu"]["grade"] == "enough"
    assert "--tensor-parallel-size 1 # catalogue: " in files["vllm.sh"]
    assert 'instance_type: "g6.xlarge"' in files["sky-measure.yaml"]
    assert "suffice measure llama-3.1-8b:q4_k_m " in files["sky-measure.yaml"]


def test_the_memory_of_the_machine_at_hand_is_not_that_of_a_gpu(inputs: list[str], tmp_path: Path) -> None:
    """2 GiB that the demand leaves to a model here hold no 8B, and say nothing of a machine that nobody has."""
    (tmp_path / "demand.toml").write_text(f"{_DEMAND}memory_gib = 2.0\n", encoding="utf-8")

    shape = ["--model", "llama-3.1-8b:q4_k_m"]
    for gpu in ("g6.xlarge", "l4"):
        document = json.loads(call([*inputs, "--json", "--gpu", gpu, "--gpu-model", "org/model", *shape]).stdout)
        assert document["gpu"]["grade"] == "enough"


def test_a_device_has_a_command_without_a_prediction(inputs: list[str]) -> None:
    """No model by its shape: nothing is predicted, and vLLM's own number of sequences is left alone."""
    document = json.loads(call([*inputs, "--json", "--gpu", "l4", "--gpu-model", "org/model"]).stdout)
    script = next(one["text"] for one in document["files"] if one["name"] == "vllm.sh")

    assert document["gpu"]["slots"] is None
    assert "--max-num-seqs" not in script


def test_a_provider_that_skypilot_lacks_is_told(inputs: list[str]) -> None:
    """A machine as large elsewhere is not the same machine, and the task says so."""
    document = json.loads(call([*inputs, "--json", "--instance", "hcloud/cax21"]).stdout)
    task = next(one["text"] for one in document["files"] if one["name"] == "sky-measure.yaml")

    assert "SkyPilot does not rent from hcloud" in task
    assert "instance_type" not in task


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--gpu", "g6.xlarge"], "--gpu-model"),
        (["--gpu-model", "x"], "--gpu"),
        (["--gpu", "c7i.4xlarge", "--gpu-model", "x"], "no accelerator"),
        (["--gpu", "no-such-gpu", "--gpu-model", "x"], "no-such-gpu"),
        (["--gpu", "l4", "--gpu-model", "--trust-remote-code"], "dash"),
        (["--key-variable", "X"], "--hybrid"),
        (["--hybrid", "http://user:secret@host/v1"], "neither an address"),
        (["--hybrid", "nonsense"], "neither an address"),
        (["--hybrid", "deepseek/x\ny"], "neither an address"),
        (["--hybrid", "deepseek/deepseek-chat", "--key-variable", "sk-0123456789"], "never a key"),
        (["--model", "/srv/a.gguf"], "no shape"),
        (["--model-path", "a.gguf"], "absolute"),
        (["--model-path", "/a\nb.gguf"], "U\\+000A"),
        (["--server", "llama-server"], "absolute"),
        (["--image", " "], "empty"),
        (["--instance", "nowhere.large"], "nowhere.large"),
    ],
)
def test_what_cannot_be_is_one_sentence(inputs: list[str], arguments: list[str], says: str) -> None:
    """Options without the one they need, unknown machines, targets and names that no file may hold."""
    with pytest.raises(UsageError, match=says):
        call([*inputs, *arguments])


def test_a_key_is_never_repeated(inputs: list[str]) -> None:
    """Whoever gives a key in the place of its name does not find it in the message."""
    with pytest.raises(UsageError) as raised:
        call([*inputs, "--hybrid", "deepseek/deepseek-chat", "--key-variable", "sk-0123456789"])

    assert "sk-0123456789" not in str(raised.value)
