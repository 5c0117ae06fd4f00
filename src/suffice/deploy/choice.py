"""What is deployed: every value that a file needs, each with its origin, worked out from a demand, a run record and the verdict on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.decide.evidence import evidence_from
from suffice.deploy.memory import MemoryPlan, memory_plan
from suffice.deploy.notes import deployment_notes
from suffice.deploy.quote import check_text, slug
from suffice.deploy.server_settings import ServerSettings, server_settings
from suffice.deploy.setting import Setting, computed, default, simulated, stated
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.decide.verdict import Grade, Verdict
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

DEFAULT_PORT: Final = 8080
_MOST_PORT: Final = 65535
SERVER_PROGRAM: Final = "/usr/local/bin/llama-server"
CPU_IMAGE: Final = "ghcr.io/ggml-org/llama.cpp:server"
GPU_IMAGE: Final = "ghcr.io/ggml-org/llama.cpp:server-cuda"
_MODELS_FOLDER: Final = "/srv/models"
_LEAST_START_S: Final = 120
_SLOWER_START: Final = 10  # a disk may be so many times slower than when it was measured
_WARM_UP_TOKENS: Final = 512
_MOST_WARM_UP_TOKENS: Final = 4096
_WARM_UP_ROOM: Final = 64  # of the context that is left to the marks of a prompt and the answer


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuServer:
    """A vLLM server on a GPU.

    Attributes:
        machine: "aws/g6.xlarge" or "NVIDIA L4".
        model: what vLLM loads: a hub name, or a folder.
        accelerators: that share the weights.
        slots: requests at the same time; None: vLLM's own default.
        standing: how it stands under the demand, in a sentence; None: nobody looked.
    """

    machine: str
    model: Setting[str]
    accelerators: Setting[int]
    slots: Setting[int] | None = None
    standing: str | None = None
    grade: Grade | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherServer:
    """Who answers what this machine does not: a server by address, or an API as LiteLLM names it.

    Attributes:
        target: "https://gpu-box:8000/v1", or "deepseek/deepseek-chat".
        key_variable: name of the variable that holds its key.
        served_name: the model's name on a server that is given by address.
    """

    target: str
    key_variable: str
    served_name: str | None = None

    @property
    def is_address(self) -> bool:
        """Whether it is a server by address."""
        return self.target.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A machine to measure before it is bought.

    Attributes:
        machine: its name, for people.
        infra: "aws/us-east-1" as SkyPilot writes it; None: any cloud that has such a machine.
        instance_type: of that cloud; None: by ``cpus`` and ``memory_bytes``.
        cpus: logical CPUs.
        memory_bytes: of the machine.
        origin: where these are from.
        note: what SkyPilot cannot do, in a sentence.
        is_gpu: whether its accelerator is what is measured.
    """

    machine: str
    infra: str | None = None
    instance_type: str | None = None
    cpus: int | None = None
    memory_bytes: float | None = None
    origin: str = "stated: --instance"
    note: str | None = None
    is_gpu: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the user says of the deployment; None: taken from the record, or ours."""

    model_path: str | None = None
    port: int | None = None
    image: str | None = None
    server: str | None = None
    gpu: GpuServer | None = None
    other: OtherServer | None = None
    candidate: Candidate | None = None
    measured_model: str | None = None  # what `suffice measure` is given on a candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where one engine runs. ``node`` None: anywhere; ``cpus`` None: all of the node, or of the machine."""

    port: int
    node: int | None = None
    cpus: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentChoice:
    """All that the files are made of. It holds no folder of this machine but the ones that the user names.

    Attributes:
        name: of services, units and pods.
        alias: by which clients ask for the model.
        machine: that was measured.
        standing: the verdict in a sentence, for the head of each file.
        grade: of the machine under the demand.
        model_path: of the GGUF file on the machine that serves.
        settings: of llama-server.
        memory: of one engine; None: not known.
        places: one for each engine of the machine.
        machines: equal ones that the demand needs.
        is_gpu: whether the layers were on a GPU.
        start_s: until a start counts as failed.
        warm_up_tokens: of the prompt that warms up.
        notes: what has to be known, in sentences.
    """

    name: str
    alias: str
    machine: str
    engine: str
    standing: str
    grade: Grade
    model_path: Setting[str]
    server: Setting[str]
    image: Setting[str]
    port: Setting[int]
    settings: ServerSettings
    memory: MemoryPlan | None
    places: tuple[Place, ...]
    machines: Setting[int]
    is_gpu: bool
    start_s: Setting[int]
    warm_up_tokens: int
    demand: Demand
    record: RunRecord
    gpu: GpuServer | None = None
    other: OtherServer | None = None
    candidate: Candidate | None = None
    measured_model: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def cpus(self) -> int | None:
        """Threads of the busiest kind of pass: what one engine can use."""
        found = [one.value for one in (self.settings.threads, self.settings.threads_batch) if one is not None]
        return max(found, default=None)


def choose(demand: Demand, record: RunRecord, verdict: Verdict, asked: Asked | None = None) -> DeploymentChoice:
    """The deployment that a verdict on a record speaks of.

    Args:
        demand: what is needed.
        record: of the machine that serves.
        verdict: of :func:`~suffice.decide.verdict.decide_machine` on both.
        asked: what the user says.

    Raises:
        UsageError: the record names no file and the user no path, or a name holds what no file may hold.
    """
    asked = asked or Asked()
    evidence = evidence_from(record)
    settings = server_settings(demand, record, verdict)
    encoder_bytes = 0.0 if demand.images is None else demand.images.encoder_bytes or 0.0
    memory = memory_plan(record, evidence, settings, demand.memory_bytes, encoder_bytes)
    path = _model_path(record, asked)
    alias = _alias(record, path.value)
    port = _port(asked)
    is_gpu = record.device_kind == "gpu"
    return DeploymentChoice(
        name=slug(alias),
        alias=alias,
        machine=record.machine or "this machine",
        engine=" ".join(part for part in (record.engine.name, record.engine.version) if part) or "unknown engine",
        standing=f"verdict: {verdict.verdict} ({verdict.grade.value}). {verdict.reason.partition('. ')[0].removesuffix('.')}.",
        grade=verdict.grade,
        model_path=path,
        server=_server(asked),
        image=_image(asked, is_gpu=is_gpu),
        port=port,
        settings=settings,
        memory=memory,
        places=_places(record, evidence.engines, port.value),
        machines=_machines(verdict),
        is_gpu=is_gpu,
        start_s=_start_s(record),
        warm_up_tokens=_warm_up_tokens(demand, settings.context.value),
        demand=demand,
        record=record,
        gpu=asked.gpu,
        other=asked.other,
        candidate=asked.candidate,
        measured_model=asked.measured_model,
        notes=deployment_notes(demand, record, verdict, settings, memory),
    )


def _model_path(record: RunRecord, asked: Asked) -> Setting[str]:
    if asked.model_path is not None:
        path = check_text(asked.model_path, "--model-path")
        if path.endswith(("/", "\\")):
            raise UsageError(f"--model-path {path} is a folder; give the path of the GGUF file in it")
        return stated(path, "--model-path")
    name = record.model.file_name
    if name is None:
        raise UsageError("the record is of no file, so that there is nothing to serve yet; give --model-path FILE.gguf")
    name = check_text(name, "the record's file name").replace("\\", "/").rpartition("/")[2]
    return default(
        f"{_MODELS_FOLDER}/{name}", "the record holds the file's name and no folder; --model-path gives another"
    )


def _alias(record: RunRecord, path: str) -> str:
    """A name that every target takes as it is: letters, digits, dots, dashes."""
    stem = path.replace("\\", "/").rpartition("/")[2].removesuffix(".gguf") or record.model.name or "model"
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-._") else "-" for c in stem).strip("-._")
    return kept[:80] or "model"


def _port(asked: Asked) -> Setting[int]:
    if asked.port is None:
        return default(DEFAULT_PORT, "llama-server's own; --port gives another")
    return stated(asked.port, "--port")


def _server(asked: Asked) -> Setting[str]:
    if asked.server is None:
        return default(SERVER_PROGRAM, "where `cmake --install` of llama.cpp puts it; --server gives another")
    return stated(check_text(asked.server, "--server"), "--server")


def _image(asked: Asked, *, is_gpu: bool) -> Setting[str]:
    if asked.image is None:
        return default(
            GPU_IMAGE if is_gpu else CPU_IMAGE,
            "the newest build of llama.cpp's own; pin it by its digest before you rely on it",
        )
    return stated(check_text(asked.image, "--image"), "--image")


def _places(record: RunRecord, engines: int, port: int) -> tuple[Place, ...]:
    """Several engines: one for each node, by number from 0, as the record does not say which they were.

    Raises:
        UsageError: there are fewer ports than engines.
    """
    if engines > 1:
        if port + engines - 1 > _MOST_PORT:
            raise UsageError(
                f"--port {port}: {engines} engines side by side need a port each, up to {_MOST_PORT}; give a lower one"
            )
        return tuple(Place(port=port + number, node=number) for number in range(engines))
    node, cpus = record.settings.get("numa_node"), record.settings.get("cpus")
    is_number = isinstance(node, int) and not isinstance(node, bool) and node >= 0
    return (
        Place(
            port=port,
            node=node if is_number else None,
            cpus=cpus if isinstance(cpus, str) and _is_cpu_list(cpus) else None,
        ),
    )


def _is_cpu_list(text: str) -> bool:
    return bool(text) and set(text) <= set("0123456789,-")


def _machines(verdict: Verdict) -> Setting[int]:
    served = None if verdict.service is None else verdict.service.served
    if served is not None and served.machines is not None:
        return simulated(served.machines, "the fewest equal machines that hold the load with its margin")
    return default(1, "one machine was judged")


def _start_s(record: RunRecord) -> Setting[int]:
    cold_s = record.measurement.load.cold_s or record.measurement.load.warm_s
    if cold_s is None:
        return default(_LEAST_START_S, "no load time was measured")
    return computed(
        max(_LEAST_START_S, round(_SLOWER_START * cold_s)),
        f"loading took {cold_s:.1f} s when it was measured, and a disk may be {_SLOWER_START} times slower",
    )


def _warm_up_tokens(demand: Demand, context: int) -> int:
    """As many as a slot holds at most: a server refuses a longer prompt, and a healthy one would pass for broken."""
    wanted = _WARM_UP_TOKENS if demand.prompt_tokens is None else round(demand.prompt_tokens.p50)
    return max(1, min(wanted, _MOST_WARM_UP_TOKENS, context - _WARM_UP_ROOM))
