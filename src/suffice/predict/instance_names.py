"""What the name of an instance type tells: its family, and the size of the machine that it is cut from."""

from __future__ import annotations

import re
from functools import lru_cache

_AZURE = re.compile(r"(?:standard|basic)_([a-z]+)(\d+)(?:-(\d+))?([a-z]*)(.*)", re.IGNORECASE)
_BARE_METAL = re.compile(r"metal|^vbm|^ebm|\.ebm", re.IGNORECASE)


@lru_cache(maxsize=8192)
def instance_family(vendor: str, instance: str) -> str:
    """The family of an instance type with its vendor: ``("aws", "c7i.4xlarge") -> "aws c7i"``; empty where none is named."""
    vendor, instance = vendor.strip().lower(), instance.strip()
    if not instance:
        return ""
    azure = _AZURE.fullmatch(instance)
    if azure:
        letters, _, _, additions, version = azure.groups()
        family = f"{letters}{additions}{version}".lower()
    elif instance.startswith("ecs."):
        family = ".".join(instance.split(".")[:2])
    elif "." in instance:
        family = instance.split(".")[0]
    elif vendor == "gcp" and "-" in instance:
        family = "-".join(instance.split("-")[:2])
    else:
        family = re.sub(r"\d+", "#", instance)
    return f"{vendor} {family}"


@lru_cache(maxsize=8192)
def instance_series(vendor: str, instance: str) -> str:
    """Families that share hosts: without the letter that says how much memory a size has. ``c7i``, ``m7i``, ``r7i -> 7i``."""
    family = instance_family(vendor, instance)
    if not family:
        return ""
    vendor, _, name = family.partition(" ")
    if vendor == "gcp":
        name = name.split("-")[0]
    elif vendor == "aws":
        name = re.sub(r"^[a-z]+(?=\d)", "", name)
    elif vendor == "alicloud":
        name = re.sub(r"^ecs\.(c|g|r|hfc|hfg|hfr)(?=\d)", lambda m: "ecs." + ("hf" if "hf" in m.group(1) else ""), name)
    elif vendor == "azure":
        name = re.sub(r"[dl](?=[a-z]*_)|^[de](?=[a-z_])", "", name)
    return f"{vendor} {name}"


@lru_cache(maxsize=8192)
def parent_vcpus(instance: str) -> int | None:
    """Size in vCPUs of the full machine that an Azure size with constrained cores is cut from: ``Standard_E16-4s_v5 -> 16``."""
    azure = _AZURE.fullmatch(instance.strip())
    return int(azure.group(2)) if azure and azure.group(3) else None


@lru_cache(maxsize=8192)
def is_bare_metal(instance: str) -> bool:
    """Whether the name says that there is no hypervisor."""
    return bool(_BARE_METAL.search(instance))


@lru_cache(maxsize=8192)
def vcpus_of_instance(vendor: str, instance: str) -> int | None:
    """Size in vCPUs that the name of an instance type states: ``c7i.4xlarge`` 16, ``Standard_E16-4s_v5`` 4, ``n4-highmem-8`` 8."""
    vendor, instance = vendor.strip().lower(), instance.strip()
    azure = _AZURE.fullmatch(instance)
    if azure:
        return int(azure.group(3) or azure.group(2)) or None
    xlarge = re.search(r"\.(\d*)xlarge$", instance)
    if xlarge:
        return 4 * int(xlarge.group(1) or 1)
    if instance.endswith(".large"):
        return 2
    gcp = re.fullmatch(r"[a-z]\w*-(?:standard|high\w+)-(\d+)(?:-lssd|-metal)?", instance)
    if gcp:
        return int(gcp.group(1))
    counted = re.search(r"(\d+)xCPU|-(\d+)c-", instance)
    return int(counted.group(1) or counted.group(2)) if counted else None
