"""What `suffice deploy` is told beside demand and record: the GPU, who answers beside the machine, and what is measured before it is bought."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.catalogue.entries import Device, Instance
from suffice.decide.prospects import predicted_lengths
from suffice.decide.verdict import decide_machine
from suffice.deploy.choice import Asked, Candidate, GpuServer, OtherServer
from suffice.deploy.quote import check_text
from suffice.deploy.setting import Origin, Setting, simulated, stated
from suffice.errors import UsageError
from suffice.loaders.catalogue import load_catalogue
from suffice.loaders.prospects import device_prospect, prospects_of
from suffice.loaders.reference import resolve_model

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.verdict import Verdict
    from suffice.model.demand import Demand

# Providers of the catalogue that SkyPilot rents from, as it calls them (its docs, read 2026-11).
_SKY_CLOUDS: Final = {"aws": "aws", "gcp": "gcp", "azure": "azure"}
_VARIABLE: Final = re.compile(r"[A-Z_][A-Z0-9_]{0,99}", re.ASCII)
_API: Final = re.compile(r"[a-z0-9_]+/[A-Za-z0-9._:/-]{1,200}", re.ASCII)
_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", re.ASCII)
_SHAPE: Final = re.compile(r"[\w.+-]+:[\w.+-]+", re.ASCII)  # llama-3.1-8b:q4_k_m
_SERVER_KEY: Final = "GPU_SERVER_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployOptions:
    """The command's options, as given."""

    model_path: str | None = None
    port: int | None = None
    server: str | None = None
    image: str | None = None
    gpu: str | None = None
    gpu_model: str | None = None
    hybrid: str | None = None
    key_variable: str | None = None
    instance: str | None = None
    model: str | None = None
    catalog: Path | None = None


def asked_of(demand: Demand, given: DeployOptions) -> Asked:
    """The options in the form in which a deployment is chosen.

    Raises:
        UsageError: an option without the one it needs, an unknown machine, or a target that is neither an address nor an API.
    """
    if given.gpu_model is not None and given.gpu is None:
        raise UsageError("--gpu-model is about --gpu; give both")
    if given.key_variable is not None and given.hybrid is None:
        raise UsageError("--key-variable is about --hybrid; give both")
    if given.model is not None and _shape_name(given.model) is None:
        raise UsageError(
            f"--model {given.model} is no shape; write llama-3.1-8b:q4_k_m, or give a file with --model-path"
        )
    catalogue = load_catalogue(given.catalog).catalogue if given.gpu or given.instance else None
    machine = None if catalogue is None or given.gpu is None else _gpu_machine(catalogue, given.gpu)
    candidate = None
    if catalogue is not None and given.instance is not None:
        candidate = _candidate(catalogue.instance_named(given.instance), "--instance")
    elif machine is not None and isinstance(machine, Instance):
        candidate = _candidate(machine, "--gpu")
    return Asked(
        model_path=given.model_path,
        port=given.port,
        image=given.image,
        server=given.server,
        gpu=None if catalogue is None or machine is None else _gpu_server(demand, catalogue, machine, given),
        other=None if given.hybrid is None else _other(given),
        candidate=candidate,
        measured_model=given.model,
    )


def _gpu_machine(catalogue: Catalogue, name: str) -> Instance | Device:
    """An instance with an accelerator, or a device.

    Raises:
        UsageError: neither, or a machine without an accelerator.
    """
    try:
        machine = catalogue.instance_named(name)
    except UsageError as instance_error:
        try:
            device = catalogue.device_named(name)
        except UsageError:
            raise UsageError(f"--gpu {name}: {instance_error}") from None
        if device.kind not in {"gpu", "npu"}:
            raise UsageError(f"--gpu {name} is a {device.kind}; name a GPU") from None
        return device
    if machine.accelerator is None:
        raise UsageError(f"--gpu {machine.key} has no accelerator; use --instance for a CPU machine")
    return machine


def _gpu_server(demand: Demand, catalogue: Catalogue, machine: Instance | Device, given: DeployOptions) -> GpuServer:

    if given.gpu_model is None:
        raise UsageError("--gpu needs --gpu-model: vLLM loads a hub name or a folder of safetensors, not the GGUF file")
    if given.gpu_model.startswith("-"):
        raise UsageError(f"--gpu-model {given.gpu_model} begins with a dash, which vLLM takes for an option")
    name, count = machine.name, 1
    if isinstance(machine, Instance):
        name, count = machine.key, max(1, round(machine.accelerator_count or 1))  # below one: a slice, served as one
    verdict = _predicted(demand, catalogue, machine, given.model or _shape_name(demand.model))
    return GpuServer(
        machine=name,
        model=stated(check_text(given.gpu_model, "--gpu-model"), "--gpu-model"),
        accelerators=Setting(value=count, origin=Origin.CATALOGUE, why=f"accelerators of {name}"),
        slots=_gpu_slots(demand, verdict),
        standing=None if verdict is None else f"{name} by predicted speeds: {verdict.grade.value}. {verdict.reason}",
        grade=None if verdict is None else verdict.grade,
    )


def _shape_name(reference: str | None) -> str | None:
    """The demand's model where it is a shape: a file or an address may not be at hand, and nothing is fetched for a deployment."""
    return reference if reference is not None and _SHAPE.fullmatch(reference) else None


def _predicted(demand: Demand, catalogue: Catalogue, machine: Instance | Device, model: str | None) -> Verdict | None:
    """The verdict on predicted speeds; None where no model is named or too little is known of the machine.

    A memory that the demand states is that of the machine at hand, not this one's.
    """
    if model is None:
        return None
    demand = replace(demand, memory_bytes=None)
    resolved, lengths = resolve_model(model), predicted_lengths(demand)
    if isinstance(machine, Instance):
        found = prospects_of([machine], catalogue, resolved, lengths)
        return decide_machine(demand, found[0].evidence) if found else None
    return decide_machine(demand, device_prospect(machine, resolved, lengths).evidence)


def _gpu_slots(demand: Demand, verdict: Verdict | None) -> Setting[int] | None:

    if verdict is not None and verdict.service is not None:
        return simulated(verdict.service.slots, "slots at which the predicted speeds hold the limits")
    if demand.concurrent_users is not None:
        return stated(demand.concurrent_users, "users at the same time")
    return None


def _other(given: DeployOptions) -> OtherServer:

    target = given.hybrid or ""
    is_address = _ADDRESS.fullmatch(target) is not None
    if not is_address and _API.fullmatch(target) is None:
        raise UsageError(
            f"--hybrid {target} is neither an address without a key in it (http://gpu-box:8000/v1) nor an API as LiteLLM names it (deepseek/deepseek-chat)"
        )
    provider = re.sub(r"[^A-Z0-9]", "_", target.partition("/")[0].upper())
    variable = given.key_variable or (_SERVER_KEY if is_address else f"{provider}_API_KEY")
    if _VARIABLE.fullmatch(variable) is None:
        raise UsageError(
            f"--key-variable takes the name of a variable, such as {_SERVER_KEY}, and never a key; what was given is no name of one"
        )
    return OtherServer(target=target, key_variable=variable)


def _candidate(machine: Instance, flag: str) -> Candidate:

    cloud = _SKY_CLOUDS.get(machine.provider)
    region = None if machine.price is None else machine.price.region
    origin = f"stated: {flag} {machine.key}"
    if cloud is None:
        return Candidate(
            machine=machine.key,
            cpus=machine.vcpu,
            memory_bytes=machine.memory_bytes,
            is_gpu=machine.accelerator is not None,
            origin=f"catalogue: as large as {machine.key}",
            note=f"SkyPilot does not rent from {machine.provider}: this takes a machine as large elsewhere, which is not the same machine. "
            f"On {machine.key} itself run the lines of setup and run by hand.",
        )
    return Candidate(
        machine=machine.key,
        infra=f"{cloud}/{region}" if region is not None and re.fullmatch(r"[a-z0-9-]+", region) else cloud,
        instance_type=machine.name,
        is_gpu=machine.accelerator is not None,
        origin=origin,
    )
