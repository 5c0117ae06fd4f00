"""From a demand of training, a model and the catalogue to a plan: machines at hand, instances with accelerators, and bare accelerators."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from suffice.catalogue.entries import Dtype
from suffice.decide.evidence import evidence_from
from suffice.decide.training import Task, judge_here, judge_machine, ranked
from suffice.decide.training_types import TrainingMachine, TrainingPlace, TrainingPlan
from suffice.errors import UsageError
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.shape_model import ShapeModel
from suffice.model.training import Method, Precision, TrainingKind
from suffice.model.training_work import training_shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suffice.catalogue.catalogue import Catalogue
    from suffice.catalogue.entries import Device, Instance
    from suffice.decide.training_types import TrainingOption
    from suffice.loaders.model_file import ModelFile
    from suffice.model.gguf_header import GgufHeader
    from suffice.model.training import TrainingDemand
    from suffice.model.training_work import TrainingShape
    from suffice.records.schema import RunRecord

MOST_MACHINES: Final = 8
_ACCELERATORS: Final = ("gpu", "npu")
# Sold for inference: their makers' toolkits train nothing on them.
_INFERENCE_ONLY: Final = frozenset({"ascend-310p3", "atlas-300i-duo"})
_FALLBACK_CURRENCY: Final = "USD"


def plan_of_training(
    demand: TrainingDemand,
    model: ModelFile | ShapeModel,
    catalogue: Catalogue,
    runs: Sequence[RunRecord] = (),
    *,
    max_machines: int = MOST_MACHINES,
) -> TrainingPlan:
    """Every way to do a training, judged and ranked by what it costs.

    Args:
        demand: what is to be trained.
        model: that is trained; its quantization does not matter, its shape does.
        catalogue: machines to rent and accelerators.
        runs: records of machines at hand.
        max_machines: of a kind that are tried.

    Raises:
        UsageError: the operations of the model are not known, or it has no matrices for such adapters.
    """
    training = training_shape(_header(model), model.shape)
    _check_adapters(demand, training)
    task = Task.of(demand, training)
    if task is None:
        raise UsageError(f"{model.shape.name}: what a training computes is not known: {model.shape.kv.unknown_reason}")
    machines, unknown = _machines(catalogue, demand.precision)
    options: list[TrainingOption] = [judge_here(task, evidence_from(record)) for record in runs]
    options += [judge_machine(task, machine, max_machines) for machine in machines]
    currency = demand.currency or _most_used(options)
    adapters = training.adapter_parameters(demand)
    return TrainingPlan(
        options=ranked(options, currency),
        model=model.reference if isinstance(model, ShapeModel) else model.path.name,
        parameters=training.parameters,
        trained_parameters=adapters if demand.method.has_adapters else training.parameters,
        flop=task.total_flop(checkpointing=False),
        currency=currency,
        judged=len(options),
        notes=tuple(_notes(demand, training, unknown)),
    )


def _check_adapters(demand: TrainingDemand, training: TrainingShape) -> None:
    """Refuse adapters that the model has no place for.

    Raises:
        UsageError: no matrix of the model is meant, or they are wider than what they adapt.
    """
    if not demand.method.has_adapters:
        return
    name, width = training.shape.name, training.shape.n_embd
    if training.adapter_parameters(demand) == 0:
        raise UsageError(
            f'lora_targets = "{demand.lora_targets.value}" means no matrix of {name}; write "attention" or "all"'
        )
    if demand.lora_rank is not None and demand.lora_rank > width:
        raise UsageError(
            f"lora_rank = {demand.lora_rank} is more than the width of {name}, {width}: such adapters are larger than what they adapt; lower it"
        )


def _header(model: ModelFile | ShapeModel) -> GgufHeader:
    return model.header if isinstance(model, ShapeModel) else read_gguf_header(model.path)


def _machines(catalogue: Catalogue, precision: Precision) -> tuple[list[TrainingMachine], int]:
    """Those whose speed is known, and how many with an accelerator were left out because it is not."""
    found, unknown = [], 0
    for instance in catalogue.instances:
        if (instance.accelerator_count or 0) < 1:
            continue
        machine = _instance(instance, catalogue, precision)
        if machine is None:
            unknown += 1
        else:
            found.append(machine)
    for device in catalogue.devices:
        if device.kind in _ACCELERATORS:
            own = _device(device, precision)
            if own is not None:
                found.append(own)
    return found, unknown


def _instance(instance: Instance, catalogue: Catalogue, precision: Precision) -> TrainingMachine | None:
    if instance.accelerator_device is None:
        return None
    device = catalogue.device_named(instance.accelerator_device)
    speed = _speed(device, precision)
    if speed is None:
        return None
    return TrainingMachine(
        place=TrainingPlace.INSTANCE,
        name=instance.key,
        device=device.name,
        devices=int(instance.accelerator_count or 1),
        memory_bytes=instance.accelerator_memory_bytes or device.memory_min_bytes,
        flop_per_s=speed[0],
        computes_in=speed[1],
        architecture=device.architecture,
        fast_links=_has_fast_links(device),
        price=instance.price,
    )


def _device(device: Device, precision: Precision) -> TrainingMachine | None:
    speed = _speed(device, precision)
    if speed is None:
        return None
    return TrainingMachine(
        place=TrainingPlace.DEVICE,
        name=device.name,
        device=device.name,
        devices=1,
        memory_bytes=device.memory_min_bytes,
        flop_per_s=speed[0],
        computes_in=speed[1],
        architecture=device.architecture,
        fast_links=_has_fast_links(device),
    )


def _has_fast_links(device: Device) -> bool:
    """Modules on one board (SXM; Ascend 910) are joined by links of their own; cards in slots are not, or nobody says so."""
    return "sxm" in device.id or device.id.startswith("ascend-910")


def _speed(device: Device, precision: Precision) -> tuple[float, str | None] | None:
    """Rated dense FLOP/s in the precision, or in fp16 where the device has no bf16, which is then named."""
    if device.chips > 1 or device.id in _INFERENCE_ONLY:
        return None
    wanted = {Precision.FP32: Dtype.FP32, Precision.FP16: Dtype.FP16}.get(precision, Dtype.BF16)
    rate = device.flop_per_s.get(wanted)
    if rate is not None:
        return rate.value, None
    half = device.flop_per_s.get(Dtype.FP16)
    if wanted is Dtype.BF16 and half is not None and device.supports(Dtype.BF16) is False:
        return half.value, "fp16, with scaled losses"
    return None


def _most_used(options: Iterable[TrainingOption]) -> str:
    counted = Counter(option.cost.currency for option in options if option.cost is not None)
    return max(sorted(counted), key=lambda currency: counted[currency], default=_FALLBACK_CURRENCY)


def _sequence_notes(demand: TrainingDemand, training: TrainingShape) -> list[str]:
    """What the length of the sequences means for the data and for the model."""
    notes, sequence, each = [], demand.sequence_tokens, demand.tokens_per_example
    if each is not None and each < sequence:
        notes.append(
            f"Examples of {each:,.0f} tokens are taken to be packed into sequences of {sequence:,}; each padded to one, they would be "
            f"{sequence / each:.3g} times the work and the cost."
        )
    if each is not None and each > sequence:
        notes.append(
            f"Examples of {each:,.0f} tokens are cut into sequences of {sequence:,}: what lies further back is not seen."
        )
    context = training.shape.context_length
    if context is not None and sequence > context and demand.kind is TrainingKind.FINETUNE:
        notes.append(
            f"Sequences of {sequence:,} tokens are longer than the {context:,} that the model was made for: whether it learns them is another question."
        )
    return notes


def _notes(demand: TrainingDemand, training: TrainingShape, unknown: int) -> list[str]:
    notes = _sequence_notes(demand, training)
    if demand.window_s is None:
        notes.append("The demand states no 'window_hours', so that time is shown and not judged.")
    if demand.method.has_adapters and training.shape.is_moe:
        notes.append(
            "Routed experts have no adapters here; with them the adapters, and what they take, are several times larger."
        )
    if demand.method is Method.QLORA and training.shape.is_moe:
        notes.append(
            "Some libraries leave experts in 16 bits: see what yours does, since nearly all of this model is experts."
        )
    if unknown:
        notes.append(f"{unknown} instances are left out, since nobody states how fast their accelerators compute.")
    notes.append(
        "Instances without an accelerator are left out: no published figures say how fast they train. One that is measured is judged by its record."
    )
    return notes
