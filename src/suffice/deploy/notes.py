"""What has to be known about a deployment before it is used."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.decide.verdict import Grade
from suffice.units import GIB

if TYPE_CHECKING:
    from suffice.decide.verdict import Verdict
    from suffice.deploy.memory import MemoryPlan
    from suffice.deploy.server_settings import ServerSettings
    from suffice.model.demand import Demand
    from suffice.records.schema import RunRecord

_OTHER_SYSTEMS: Final = MappingProxyType({"Darwin": "macOS", "Windows": "Windows"})  # as Python calls them


def deployment_notes(
    demand: Demand, record: RunRecord, verdict: Verdict, settings: ServerSettings, memory: MemoryPlan | None
) -> tuple[str, ...]:
    """What has to be known before the files are used, in sentences.

    Args:
        demand: what is needed.
        record: of the machine that serves.
        verdict: on both.
        settings: of llama-server.
        memory: of one engine; None: not known.
    """
    notes = list(settings.notes)
    if verdict.grade not in (Grade.ENOUGH, Grade.THIN):
        notes.append(f"the machine is not shown to be enough: {verdict.grade.value}; `suffice decide` says why")
    if record.basis != "measured":
        notes.append(f"the record is {record.basis}: measure the model itself on the machine before you rely on it")
    notes += _system_notes(record)
    notes += _memory_notes(record, memory)
    if (served := None if verdict.service is None else verdict.service.served) is not None and served.machines:
        notes.append(f"one machine does not hold the load: {served.machines} of them do, each with these settings")
    return (*notes, *_image_notes(demand))


def _memory_notes(record: RunRecord, memory: MemoryPlan | None) -> list[str]:
    """No limit, or one that the machine does not have."""
    if memory is None:
        is_gpu = record.device_kind == "gpu"
        why = "the layers were on a GPU" if is_gpu else "the record does not say how much memory the model takes"
        return [f"{why}: the files hold no limit of the machine's memory"]
    if memory.usable_bytes is None or memory.limit.value <= memory.usable_bytes:
        return []
    return [
        f"{memory.limit.value / GIB:.2f} GiB with headroom are more than the {memory.usable_bytes / GIB:.2f} GiB that the machine has free"
    ]


def _system_notes(record: RunRecord) -> list[str]:
    """What a unit and containers are, where the record is of another system than theirs."""
    system = _OTHER_SYSTEMS.get(str(record.environment.get("os")))
    if system is None:
        return []
    return [
        f"the record is of {system}, and the unit and the containers are for Linux: only the script serves as measured"
    ]


def _image_notes(demand: Demand) -> tuple[str, ...]:
    """What no record can name: the file of the encoder."""
    images = demand.images
    if images is None:
        return ()
    sized = "its weights are in the memory" if images.encoder_bytes else "its weights are in no memory here"
    return (
        (
            "requests hold images, and llama-server answers none of them without their encoder: add --mmproj FILE to its arguments, and give the "
            f"file to the unit and the containers as well; {sized}, what it takes while it runs is not"
        ),
    )
