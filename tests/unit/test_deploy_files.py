"""The files of a deployment: what each holds, with plain and with hostile names."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from helpers.deployments import HOSTILE_PATHS, HOSTILE_TEXT, chat_demand, chosen, deployable, settings
from suffice.deploy.choice import Asked, Candidate, GpuServer, OtherServer
from suffice.deploy.document import deployment_document, deployment_text
from suffice.deploy.files import files_for
from suffice.deploy.setting import Origin, Setting, stated
from suffice.errors import UsageError
from suffice.records.schema import ServicePass, ServiceRecord
from suffice.units import GIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from suffice.deploy.choice import DeploymentChoice

yaml = pytest.importorskip("yaml")

# llama-server's flags that we use, as tools/server/README.md of llama.cpp lists them (commit 0c1e570, 2026-10-01).
LLAMA_SERVER_FLAGS = frozenset(
    "--model --alias --host --port --threads --threads-batch --batch-size --ubatch-size --flash-attn --no-repack --gpu-layers --parallel "
    "--ctx-size --cache-type-k --cache-type-v --load-mode --cache-ram --ctx-checkpoints --numa --metrics --no-slots --no-webui".split()
)
# vLLM's, as `vllm serve` is documented (docs.vllm.ai and docs.redhat.com on vLLM server arguments, read 2026-11-30).
VLLM_FLAGS = frozenset(
    "--served-model-name --host --port --max-model-len --max-num-seqs --tensor-parallel-size --gpu-memory-utilization".split()
)
ORIGINS = "|".join(origin.value for origin in Origin)


def everything(path: str = "/srv/models/toy.gguf", **changes: Any) -> DeploymentChoice:
    """A choice with all files that there are."""
    asked = Asked(
        model_path=path,
        gpu=GpuServer(
            machine="aws/g6.xlarge",
            model=stated("org/model", "--gpu-model"),
            accelerators=stated(2, "two"),
            slots=stated(9, "nine"),
        ),
        other=OtherServer(target="deepseek/deepseek-chat", key_variable="DEEPSEEK_API_KEY"),
        candidate=Candidate(machine="aws/c7i.4xlarge", infra="aws/us-east-1", instance_type="c7i.4xlarge"),
    )
    return chosen(deployable(**changes), chat_demand(concurrent_users=2, tokens_per_second_per_user=1.0), asked)


def documents(files: Mapping[str, str], name: str) -> list[Any]:
    """The YAML documents of one of the files."""
    return list(yaml.safe_load_all(files[name]))


def unit_words(text: str) -> list[str]:
    """The arguments of ExecStart as systemd reads them: continued lines without comments, C quotes, ``%%`` and ``$$`` as one."""
    lines = text.split("ExecStart=", 1)[1].split("\nRestart=", 1)[0].split("\n")
    joined = " ".join(line.removesuffix("\\") for line in lines if not line.startswith("#"))
    words = [re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in _WORDS.findall(joined)]
    return [word.replace("%%", "%").replace("$$", "$") for word in words]


_WORDS = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)')


def shell_array(text: str) -> list[str]:
    """The words of the bash array in a script."""
    body = text.split("arguments=(\n", 1)[1].split("\n)\n", 1)[0]
    return shlex.split(body, comments=True)


def comments_of(text: str) -> Iterator[str]:
    """The comment behind each argument of an array."""
    for line in text.split("arguments=(\n", 1)[1].split("\n)\n", 1)[0].splitlines():
        yield line.rpartition(" # ")[2]


def test_all_files_are_there() -> None:
    """Nine of them, in the order of their use; no GPU and no other server: seven."""
    assert list(files_for(everything())) == [
        "llama-server.sh", "toy.service", "compose.yaml", "kubernetes.yaml", "check-and-warm-up.sh", "vllm.sh", "litellm.yaml",
        "sky-measure.yaml", "sky-measure.sh",
    ]  # fmt: skip
    assert len(files_for(chosen())) == 7


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_every_target_gets_the_very_path(path: str) -> None:
    """Shell, unit, compose file, manifest and SkyPilot read back the path that was given, and their other arguments are the same."""
    plain, files = files_for(everything()), files_for(everything(path))
    name = path.rpartition("/")[2]
    service = next(iter(documents(files, "compose.yaml")[0]["services"].values()))
    container = documents(files, "kubernetes.yaml")[1]["spec"]["template"]["spec"]["containers"][0]
    unit = next(text for file, text in files.items() if file.endswith(".service"))

    assert shell_array(files["llama-server.sh"])[1] == path
    assert shell_array(files["llama-server.sh"])[4:] == shell_array(plain["llama-server.sh"])[4:]
    assert unit_words(unit)[2] == path
    assert unit_words(unit)[5:] == unit_words(plain["toy.service"])[5:]
    assert service["volumes"][0]["source"].replace("$$", "$") == path
    assert container["args"][1].replace("$$", "$") == f"/models/{name.replace(chr(92), '/').rpartition('/')[2]}"
    assert documents(files, "sky-measure.yaml")[0]["file_mounts"] == {"~/model.gguf": path}
    assert all(re.fullmatch(r"[a-z][a-z0-9-]*\.(service)|[a-z-]+\.(sh|yaml)", file) for file in files)


def test_hostile_texts_of_a_record_end_no_comment() -> None:
    """A machine's name, an engine's and a reason stand in comments: no line of a file begins with a part of them."""
    record = deployable(machine=HOSTILE_TEXT)
    record = replace(record, engine=replace(record.engine, name=HOSTILE_TEXT), created_at=HOSTILE_TEXT)
    files, plain = files_for(chosen(record)), files_for(chosen())

    assert list(files) == list(plain)
    for name, text in files.items():
        assert "ExecStart=/bin/rm" not in text.splitlines(), name
        bare = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
        assert bare == [line for line in plain[name].splitlines() if not line.lstrip().startswith("#")], name


@pytest.mark.parametrize("path", ["model.gguf", "../m.gguf", "~/m.gguf"])
def test_a_service_needs_an_absolute_path(path: str) -> None:
    """A unit has no folder that relative paths start from."""
    with pytest.raises(UsageError, match="absolute"):
        files_for(everything(path))


def test_flags_are_documented_ones() -> None:
    """No flag that the servers do not know."""
    windowed = everything(settings=settings(use_extra_buffers=False, numa_node=0))
    files = files_for(windowed)

    assert {word for word in shell_array(files["llama-server.sh"]) if word.startswith("--")} <= LLAMA_SERVER_FLAGS
    assert {"--no-repack", "--numa"} <= set(shell_array(files["llama-server.sh"]))
    assert {word for word in shell_array(files["vllm.sh"]) if word.startswith("--")} <= VLLM_FLAGS


def test_every_argument_says_where_it_comes_from() -> None:
    """Measured, simulated, stated, catalogue, computed or default: in every file that starts a server."""
    files = files_for(everything())
    unit = files["toy.service"].split("ExecStart=")[1].split("\nRestart=")[0].splitlines()

    for name in ("llama-server.sh", "vllm.sh"):
        assert all(re.match(rf"({ORIGINS}): \S", comment) for comment in comments_of(files[name])), name
    for line, after in pairwise(unit):
        assert not after.startswith("  --") or re.match(rf"# ({ORIGINS}): \S", line), after
    for name in ("compose.yaml", "kubernetes.yaml"):
        flags = [line for line in files[name].splitlines() if re.match(r'\s+- "--(metrics|no-)', line)]
        assert all(re.search(rf"# ({ORIGINS}): \S", line) for line in flags), name


def test_the_unit_gives_no_more_than_serving_takes() -> None:
    """Loopback, a user of its own, nothing to write to, memory that may be locked and has an end."""
    text = files_for(everything())["toy.service"]

    for line in (
        "DynamicUser=yes", "ProtectSystem=strict", "LimitMEMLOCK=infinity", "Restart=on-failure", "IPAddressDeny=any",
        "IPAddressAllow=localhost", "CapabilityBoundingSet=", "NoNewPrivileges=yes", "PrivateDevices=yes", "ProtectHome=yes",
    ):  # fmt: skip
        assert line in text.splitlines(), line
    limit = everything().memory
    assert limit is not None
    assert f"MemoryMax={limit.limit.value}" in text.splitlines()


def test_a_model_in_a_home_is_shown_alone() -> None:
    """All homes are hidden, but for the file."""
    lines = files_for(everything("/home/me/my model.gguf"))["my-model.service"].splitlines()

    assert "ProtectHome=tmpfs" in lines
    assert 'BindReadOnlyPaths="/home/me/my model.gguf"' in lines


def test_a_unit_locks_nothing_where_memory_is_short() -> None:
    """Without the lock the usual limit of the system stays."""
    assert "LimitMEMLOCK" not in files_for(everything(memory_usable_bytes=GIB))["toy.service"]


def test_a_node_is_bound_by_numactl_and_by_systemd() -> None:
    """CPUs and memory of the node that was measured."""
    files = files_for(everything(settings=settings(numa_node=1, cpus="4-7,12")))
    lines = files["toy.service"].splitlines()

    assert 'exec numactl --physcpubind=4-7,12 --membind=1 "$server" "${arguments[@]}"' in files["llama-server.sh"]
    assert {"NUMAPolicy=bind", "NUMAMask=1", "CPUAffinity=4-7 12"} <= set(lines)
    assert next(iter(documents(files, "compose.yaml")[0]["services"].values()))["cpuset"] == "4-7,12"
    assert "single-numa-node" in files["kubernetes.yaml"]


def test_engines_side_by_side_have_files_of_their_own() -> None:
    """A script and a unit for each node, services in one compose file, replicas, and all of them behind the router."""
    record = everything().record
    passes = (ServicePass(size=1, depth=0, seconds=(0.1,) * 8), ServicePass(size=2, depth=0, seconds=(0.1,) * 8))
    service = ServiceRecord(slots=2, instances=2, decode=passes, prefill=passes)
    files = files_for(everything(measurement=replace(record.measurement, service=service)))

    assert {"llama-server-node0.sh", "llama-server-node1.sh", "toy-node0.service", "toy-node1.service"} <= set(files)
    assert "NUMAMask=1" in files["toy-node1.service"].splitlines()
    assert '  --port "8081" \\' in files["toy-node1.service"].splitlines()
    assert len(documents(files, "compose.yaml")[0]["services"]) == 2
    assert documents(files, "kubernetes.yaml")[1]["spec"]["replicas"] == 2
    assert [one["litellm_params"].get("api_base") for one in documents(files, "litellm.yaml")[0]["model_list"]] == [
        "http://127.0.0.1:8080/v1",
        "http://127.0.0.1:8081/v1",
        None,
    ]


def test_the_manifest_asks_for_what_was_measured() -> None:
    """CPUs are the threads, memory is the limit, requests equal limits; probes ask /health; the service stays in the cluster."""
    choice = everything()
    claim, deployment, service = documents(files_for(choice), "kubernetes.yaml")
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert choice.memory is not None

    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert container["resources"]["limits"] == {"cpu": "2", "memory": f"{choice.memory.limit.value // 2**20}Mi"}
    assert {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe", "livenessProbe")} == {
        "/health"
    }
    assert (
        container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"]
        >= choice.start_s.value
    )
    assert service["spec"]["type"] == "ClusterIP"
    assert deployment["spec"]["selector"]["matchLabels"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert pod["volumes"][0]["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}


def test_a_gpu_is_asked_for() -> None:
    """Compose and Kubernetes reserve the one GPU that was measured."""
    files = files_for(everything(device_kind="gpu", settings=settings(n_gpu_layers=33)))
    service = documents(files, "compose.yaml")[0]["services"]["toy"]
    container = documents(files, "kubernetes.yaml")[1]["spec"]["template"]["spec"]["containers"][0]

    assert service["deploy"]["resources"]["reservations"]["devices"][0]["capabilities"] == ["gpu"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 1}
    assert "PrivateDevices" not in files["toy.service"]


def test_the_compose_service_is_reached_from_loopback_only() -> None:
    """The port is published on 127.0.0.1; memory may be locked, and is limited."""
    choice = everything()
    service = documents(files_for(choice), "compose.yaml")[0]["services"]["toy"]
    assert choice.memory is not None

    assert service["ports"] == ["127.0.0.1:8080:8080"]
    assert service["mem_limit"] == service["memswap_limit"] == f"{choice.memory.limit.value}b"
    assert service["ulimits"] == {"memlock": {"soft": -1, "hard": -1}}
    assert service["volumes"][0]["read_only"] is True


@pytest.mark.parametrize("target", ["deepseek/deepseek-chat", "https://gpu-box:8000/v1"])
def test_the_router_knows_names_of_keys_only(target: str) -> None:
    """Each key is os.environ/NAME; each side falls back to the other; an address is an OpenAI-like server."""
    choice = replace(everything(), other=OtherServer(target=target, key_variable="OTHER_KEY"))
    text = files_for(choice)["litellm.yaml"]
    config = yaml.safe_load(text)
    own, other = (one["litellm_params"] for one in config["model_list"])

    keys = re.findall(r'(?:api_key|master_key): "(.*?)"', text)
    assert keys == ["os.environ/LLAMA_SERVER_API_KEY", "os.environ/OTHER_KEY", "os.environ/LITELLM_MASTER_KEY"]
    assert own["max_parallel_requests"] == 2
    assert config["router_settings"]["fallbacks"] == [{"toy": ["toy-interactive"]}, {"toy-interactive": ["toy"]}]
    if target.startswith("https"):
        assert (other["model"], other["api_base"], other["max_parallel_requests"]) == ("openai/toy", target, 9)
    else:
        assert other["model"] == target


def test_a_share_that_waits_is_told_to_the_router() -> None:
    """Which requests go where is the client's choice, by name; how many they are is the demand's."""
    choice = everything()
    shared = replace(choice, demand=replace(choice.demand, interactive_share=0.2))

    assert "20% of the requests" in files_for(shared)["litellm.yaml"]
    assert "% of the requests" not in files_for(choice)["litellm.yaml"]


def test_the_candidate_is_measured_as_the_demand_wants() -> None:
    """The instance, the demand's lengths and slots, an end by itself; the record comes home."""
    files = files_for(everything())
    task = documents(files, "sky-measure.yaml")[0]

    assert task["resources"]["infra"] == "aws/us-east-1"
    assert task["resources"]["instance_type"] == "c7i.4xlarge"
    assert task["resources"]["autostop"] == {"idle_minutes": 10, "down": True}
    assert "--prompt-tokens 300 --depth 350 --slots 2 --kv-type f16 --ubatch 256" in task["run"]
    assert 'rsync --times "$cluster:candidate.json"' in files["sky-measure.sh"]
    assert "sky down --yes" in files["sky-measure.sh"]


def test_a_gpu_candidate_is_measured_on_its_gpu() -> None:
    """Built for it, all layers on it, and no service curve, which CPUs alone have."""
    candidate = Candidate(machine="aws/g6.xlarge", infra="aws", instance_type="g6.xlarge", is_gpu=True)
    task = documents(files_for(replace(everything(), candidate=candidate)), "sky-measure.yaml")[0]

    assert "--gpu-layers 999" in task["run"]
    assert "--slots" not in task["run"]
    assert "GGML_CUDA=on" in task["setup"]


def test_without_a_candidate_one_like_the_measured_is_sought() -> None:
    """As many CPUs and as much memory as the machine of the record."""
    choice = replace(everything(environment={"logical_cpus": 8}), candidate=None, measured_model="llama-3.1-8b:q4_k_m")
    task = documents(files_for(choice), "sky-measure.yaml")[0]

    assert (task["resources"]["cpus"], task["resources"]["memory"]) == ("8+", "16+")
    assert "file_mounts" not in task
    assert "suffice measure llama-3.1-8b:q4_k_m " in task["run"]
    both = replace(choice, places=(replace(choice.places[0], node=0), replace(choice.places[0], node=1)))
    two_engines = documents(files_for(both), "sky-measure.yaml")[0]
    assert two_engines["resources"]["memory"] == "32+"  # the record's memory is one engine's


def test_the_check_asks_for_what_was_chosen() -> None:
    """Slots, context and the time to start stand in the script as they stand in the command."""
    text = files_for(everything())["check-and-warm-up.sh"]

    assert re.search(r"^slots=2 # ", text, re.MULTILINE)
    assert re.search(r"^context=768 # ", text, re.MULTILINE)
    assert re.search(r"^wait_s=120 # ", text, re.MULTILINE)
    assert re.search(r"^words=300 # ", text, re.MULTILINE)


def test_the_same_record_gives_the_same_files() -> None:
    """No clock, no chance: files can be compared in review."""
    assert files_for(everything()) == files_for(everything())


def test_text_and_document_agree_with_the_files() -> None:
    """The arguments in JSON are those of the script, and each file stands in it as it is written."""
    choice = everything()
    files = files_for(choice)
    document = json.loads(json.dumps(deployment_document(choice, files, {})))
    text = deployment_text(choice, files, {})

    flat = [word for one in document["arguments"] for word in (one["flag"], one["value"]) if word is not None]
    assert flat == shell_array(files["llama-server.sh"])
    assert {one["name"]: one["text"] for one in document["files"]} == files
    assert all(one["path"] is None for one in document["files"])
    assert document["gpu"]["slots"] == 9
    assert all(f"==== {name}" in text for name in files)
    assert "Nothing was written" in text


@pytest.mark.parametrize("context", [256, 512, 4096])
def test_the_warm_up_fits_a_slot(context: int) -> None:
    """A demand without prompts: 512 words, and fewer where a slot holds fewer, since a server refuses what it cannot hold."""
    demand = chat_demand(prompt_tokens=None, output_tokens=None, context_tokens=context)
    found = re.search(r"^words=(\d+)", files_for(chosen(demand=demand))["check-and-warm-up.sh"], re.MULTILINE)

    assert found is not None
    assert int(found[1]) == min(512, context - 64)


def test_a_claim_that_several_read_can_be_written_once() -> None:
    """ReadOnlyMany could never be given the model."""
    several = replace(everything(), machines=Setting(value=3, origin=Origin.SIMULATED, why="a test"))

    assert "ReadWriteMany" in files_for(several)["kubernetes.yaml"]
    assert "ReadOnlyMany" not in files_for(several)["kubernetes.yaml"]


@pytest.mark.parametrize(("logical", "physical", "is_told"), [(16, 8, True), (8, 8, False), (2, 1, False)])
def test_cores_of_two_hardware_threads_are_told(logical: int, physical: int, is_told: bool) -> None:  # noqa: FBT001  # a case
    """Two threads had two cores of eight; the static policy gives two CPUs as one core. On one core they shared it already."""
    record = replace(deployable(), environment={"logical_cpus": logical, "physical_cores": physical})
    manifest = files_for(chosen(record))["kubernetes.yaml"]

    assert ("static CPU policy grants for 4 CPUs" in manifest) is is_told


def test_the_script_asks_for_the_lock_that_it_uses() -> None:
    """Without it llama-server only warns that it could not lock, and goes on; where nothing is locked nothing is asked for."""
    locked, loose = everything(), chosen(replace(deployable(), memory_usable_bytes=1))

    assert "mlock" in files_for(locked)["llama-server.sh"]
    assert "ulimit -l unlimited" in files_for(locked)["llama-server.sh"]
    assert "ulimit" not in files_for(loose)["llama-server.sh"]


@pytest.mark.parametrize(
    ("target", "base"),
    [
        ("http://10.0.0.5:8000", "http://10.0.0.5:8000/v1"),
        ("http://10.0.0.5:8000/", "http://10.0.0.5:8000/v1"),
        ("https://[::1]:8000", "https://[::1]:8000/v1"),
        ("http://10.0.0.5:8000/v1", "http://10.0.0.5:8000/v1"),
        ("https://proxy/llm/v1", "https://proxy/llm/v1"),
    ],
)
def test_an_address_without_a_path_is_of_v1(target: str, base: str) -> None:
    """LiteLLM adds /chat/completions to what stands there, which is nowhere without /v1."""
    asked = Asked(other=OtherServer(target=target, key_variable="KEY"))
    document = yaml.safe_load(files_for(chosen(asked=asked))["litellm.yaml"])

    assert document["model_list"][-1]["litellm_params"]["api_base"] == base


def test_what_pip_installs_may_be_a_repository() -> None:
    """An extra stands before the @ of an address, so that the whole of it is the variable."""
    task = files_for(everything())["sky-measure.yaml"]

    assert 'SUFFICE_SOURCE: "suffice[native]"' in task
    assert 'pip install --quiet "$SUFFICE_SOURCE"' in task
