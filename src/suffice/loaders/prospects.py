"""From the catalogue and a model to prospects: every machine to rent, with the speeds that are predicted of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.decide.evidence import DecodePoint
from suffice.decide.prospects import Prospect, Speeds, predicted_evidence
from suffice.decide.quantity import Quantity
from suffice.errors import UsageError
from suffice.loaders.by_identity import ByIdentity
from suffice.loaders.model_file import describe_model
from suffice.model.basis import Basis
from suffice.predict.cpu import Prediction, predict_cpu
from suffice.predict.cpu_data import shipped_cpu_model, shipped_measurements
from suffice.predict.cpu_features import row_of, table_of_rows
from suffice.predict.cpu_model import Predicted, predict_rows, work_table
from suffice.predict.device import Refusal, predict_device
from suffice.predict.elsewhere import machine_key, same_work
from suffice.predict.machine import MachineSpec, Phase, WorkloadSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from suffice.catalogue.catalogue import Catalogue
    from suffice.catalogue.entries import Device, Instance, Price
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.model.demand import StreamLengths
    from suffice.model.shape import ModelShape
    from suffice.predict.cpu_features import MachineRow, MachineTable
    from suffice.predict.elsewhere import Measurement
    from suffice.records.schema import ModelRecord

_OUTPUT_TOKENS: Final = 128  # generated in a row, as in the measurements behind the predictions
_ACCELERATORS: Final = ("gpu", "npu")
_SURELY_USABLE: Final = 0.75  # of the least memory that a device is sold with
_ROOMY: Final = 2.0  # so many times the model is room for its cache and buffers as well


@dataclass(frozen=True, slots=True, kw_only=True)
class Works:
    """What one stream of a demand does: a step at its depth, its prompt, and a step at the deepest place that has to be told, if that is another."""

    decode: WorkloadSpec
    prefill: WorkloadSpec
    deepest: WorkloadSpec | None = None

    @property
    def depth(self) -> int:
        """Tokens in the cache while it decodes."""
        return self.decode.depth

    @property
    def most_tokens(self) -> int:
        """Tokens in the cache at the deepest place."""
        return self.decode.depth if self.deepest is None else max(self.decode.depth, self.deepest.depth)


def works_of(shape: ModelShape, lengths: StreamLengths, kv_type: str = "f16") -> Works:
    """The workloads of one stream through a model."""
    decode = WorkloadSpec(
        phase=Phase.DECODE,
        n_tokens=_OUTPUT_TOKENS,
        depth=lengths.depth,
        streamed_bytes=shape.streamed_bytes(),
        file_bytes=float(shape.tensor_bytes),
        parameters=float(shape.parameters),
        active_parameters=float(shape.active_parameters),
        cache_bytes_per_token=shape.kv_bytes_per_token(kv_type, kv_type),
        quant=max(shape.bytes_by_type, key=lambda name: shape.bytes_by_type[name]).lower(),
    )
    prefill = replace(decode, phase=Phase.PREFILL, n_tokens=lengths.prompt_tokens, depth=0)
    deepest = None if lengths.deepest is None else replace(decode, depth=lengths.deepest)
    return Works(decode=decode, prefill=prefill, deepest=deepest)


def machine_spec(machine: Instance) -> MachineSpec:
    """A machine of the catalogue as the predictions see it."""
    reading = machine.read_bytes_per_s
    return MachineSpec(
        name=machine.key,
        cpu_model=machine.cpu_model,
        vcpus=machine.vcpu,
        threads_per_core=machine.threads_per_core,
        cores_per_socket=machine.cores_per_socket,
        sockets=machine.sockets,
        numa_nodes=machine.numa_nodes,
        isa=None if machine.isa is None else frozenset(machine.isa),
        read_bytes_per_s=None if reading is None else reading.value,
        vendor=machine.provider,
        instance=machine.name,
        gpu=machine.accelerator,
    )


_KNOWN_MACHINES: Final = 8192  # of catalogues: each model asks for the same ones
_KNOWN_CATALOGUES: Final = 8
_row_of: ByIdentity[Instance, MachineRow] = ByIdentity(lambda machine: row_of(machine_spec(machine)), _KNOWN_MACHINES)
# Names are looked up in all devices, which a catalogue keeps.
_named: ByIdentity[Catalogue, Callable[[str], Device]] = ByIdentity(
    lambda catalogue: lru_cache(maxsize=None)(catalogue.device_named), _KNOWN_CATALOGUES
)


def prospects_of(
    machines: Sequence[Instance],
    catalogue: Catalogue,
    model: ModelFile | ShapeModel,
    lengths: StreamLengths,
    *,
    kv_type: str = "f16",
) -> tuple[Prospect, ...]:
    """Those machines of which enough is known for a prediction, in their order.

    Args:
        machines: to rent.
        catalogue: whose devices are their accelerators.
        model: that they would run.
        lengths: of one stream.
        kv_type: of the cache.
    """
    asked = _Asked.of(model, lengths, kv_type)
    plain = [machine for machine in machines if machine.accelerator is None and machine.vcpu is not None]
    found = {one.name: one for one in _cpu_prospects([machine for machine in plain if not machine.is_family], asked)}
    named = _named(catalogue)
    for machine in machines:
        prospect = _accelerator_prospect(machine, named, asked)
        if prospect is not None:
            found[prospect.name] = prospect
    return tuple(found[machine.key] for machine in machines if machine.key in found)


def device_prospect(
    device: Device, model: ModelFile | ShapeModel, lengths: StreamLengths, *, count: int = 1, kv_type: str = "f16"
) -> Prospect:
    """A device of the catalogue, or several that share the layers.

    Raises:
        UsageError: nothing can be said of its speed, with the reason.
    """
    asked = _Asked.of(model, lengths, kv_type)
    name = device.name if count == 1 else f"{count} x {device.name}"
    found = _device_prospect(name, device, count, _device_memory(device, count, asked), asked)
    if isinstance(found, Refusal):
        raise UsageError(found.reason)
    return found


def _device_memory(device: Device, count: int, asked: _Asked) -> float | None:
    """The least memory that it is sold with; None when the model fits a larger one only, which the user may have or not."""
    least, most = device.memory_min_bytes, device.memory_max_bytes
    if least is None or most is None or least == most:
        return None if least is None else least * count
    needed = (asked.record.file_bytes or 0.0) + _cache_bytes(asked)
    return least * count if needed <= least * count * _SURELY_USABLE or needed > most * count else None


def _cache_bytes(asked: _Asked) -> float:
    return (
        asked.shape.kv_cache_bytes(max(asked.works.most_tokens, 1) + _OUTPUT_TOKENS, asked.kv_type, asked.kv_type)
        or 0.0
    )


def support_of(machine: Instance, model: ModelFile | ShapeModel, lengths: StreamLengths) -> tuple[str, ...]:
    """What the prediction of a machine without an accelerator rests on, and what makes it wide."""
    prediction = predict_cpu(machine_spec(machine), works_of(model.shape, lengths).decode)
    return () if prediction is None else (*prediction.rests_on, *prediction.wide_because)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """What is asked of every machine."""

    shape: ModelShape
    record: ModelRecord
    works: Works
    kv_type: str
    seen_as: str | None  # the measured file that is this model, None when nobody measured it on rented CPUs
    # Thousands of machines have the same dozens of accelerators, by the id and the number.
    of_devices: dict[tuple[str, int], tuple[Prediction | Refusal, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: ModelFile | ShapeModel, lengths: StreamLengths, kv_type: str) -> _Asked:
        record = describe_model(model, type_k=kv_type, type_v=kv_type, with_hash=False)
        seen_as = same_work(model.shape.parameters, model.shape.tensor_bytes)
        works = works_of(model.shape, lengths, kv_type)
        return cls(shape=model.shape, record=record, works=works, kv_type=kv_type, seen_as=seen_as)

    def of_device(self, device: Device, count: int) -> tuple[Prediction | Refusal, ...]:
        """What is predicted of some equal devices: decode, prefill, and decode at the deepest place if that is another."""
        key = device.id, count
        if key not in self.of_devices:
            works = tuple(filter(None, (self.works.decode, self.works.prefill, self.works.deepest)))
            if not self.shape.is_moe:  # fewer active parameters than all of them mean experts there, not an embedding
                works = tuple(replace(work, active_parameters=None) for work in works)
            self.of_devices[key] = tuple(predict_device(device, work, count=count, shape=self.shape) for work in works)
        return self.of_devices[key]


def _accelerator_prospect(machine: Instance, named: Callable[[str], Device], asked: _Asked) -> Prospect | None:
    """A machine with whole accelerators that are known; a slice of one has a share of the bandwidth that nobody states."""
    number = machine.accelerator_count or 0.0
    if machine.accelerator_device is None or number < 1:
        return None
    device, count = named(machine.accelerator_device), int(number)
    each = machine.accelerator_memory_bytes or device.memory_bytes
    memory = None if each is None else each * count
    found = _device_prospect(machine.key, device, count, memory, asked, machine.price)
    return None if isinstance(found, Refusal) else found


def _device_prospect(
    name: str, device: Device, count: int, memory_bytes: float | None, asked: _Asked, price: Price | None = None
) -> Prospect | Refusal:
    if asked.kv_type != "f16":
        return Refusal(reason=f"{name}: predictions are for a KV cache of f16, not {asked.kv_type}; measure it")
    decode, prefill, *deep = asked.of_device(device, count)
    if isinstance(decode, Refusal) and decode.needed_bytes is None:
        return decode
    deepest = _deepest(asked, _range_of(deep[0])) if deep else None
    speeds = Speeds(depth=asked.works.depth, decode=_range_of(decode), prefill=_range_of(prefill), deepest=deepest)
    # What engines use of an Apple chip is its GPU: whether its CPU would do, the figures do not say.
    is_gpu = device.kind in _ACCELERATORS or "apple" in device.name.lower()
    evidence = predicted_evidence(name, asked.record, speeds, is_gpu=is_gpu, memory_bytes=memory_bytes)
    rests_on = () if isinstance(decode, Refusal) else (*decode.rests_on, *decode.wide_because)
    return Prospect(evidence=evidence, rests_on=rests_on, price=price)


def _deepest(asked: _Asked, rate: Quantity | None) -> DecodePoint | None:
    work = asked.works.deepest
    return None if work is None or rate is None else DecodePoint(depth=work.depth, rate=rate)


def _range_of(prediction: Prediction | Refusal) -> Quantity | None:
    if isinstance(prediction, Refusal):
        return None
    return Quantity(point=prediction.tokens_per_second, low=prediction.low, high=prediction.high, basis=Basis.PREDICTED)


def _cpu_prospects(machines: Sequence[Instance], asked: _Asked) -> tuple[Prospect, ...]:
    """Machines without an accelerator, all at once."""
    if not machines:
        return ()
    works = asked.works
    table = table_of_rows([_row_of(machine) for machine in machines])
    (prefill,) = map(_quantities, _predicted(table, len(machines), [works.prefill]))
    decode, *deep = map(
        _quantities, _predicted(table, len(machines), list(filter(None, (works.decode, works.deepest))))
    )
    prospects = []
    for row, machine in enumerate(machines):
        seen = _seen(machine, asked)
        speeds = Speeds(
            depth=works.depth,
            decode=seen.decode or decode[row],
            prefill=seen.prefill or prefill[row],
            deepest=_deepest(asked, seen.deepest or (deep[0][row] if deep else None)),
        )
        evidence = predicted_evidence(
            machine.key,
            asked.record,
            speeds,
            is_gpu=False,
            memory_bytes=_memory(machine, asked.record),
            memory_is_floor=machine.memory_bytes is None,
        )
        prospects.append(Prospect(evidence=evidence, rests_on=seen.said, price=machine.price))
    return tuple(prospects)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """What somebody measured on a machine of a type, and when; None where nobody did."""

    decode: Quantity | None = None
    prefill: Quantity | None = None
    deepest: Quantity | None = None
    said: tuple[str, ...] = ()


def _seen(machine: Instance, asked: _Asked) -> _Seen:
    if asked.seen_as is None:
        return _Seen()
    key, works = machine_key(machine.provider, machine.name), asked.works

    def of(work: WorkloadSpec | None, tokens: int) -> Measurement | None:
        return None if work is None else shipped_measurements().of_work(key, seen_as, work.phase, tokens)

    seen_as = asked.seen_as
    found = [of(works.decode, works.depth), of(works.prefill, works.prefill.n_tokens)]
    found.append(of(works.deepest, works.most_tokens))
    said = [f"measured on such a machine on {one.date} with llama.cpp b{one.build}" for one in found if one is not None]
    decode, prefill, deepest = map(_of_measurement, found)
    return _Seen(decode=decode, prefill=prefill, deepest=deepest, said=tuple(dict.fromkeys(said)))


def _of_measurement(found: Measurement | None) -> Quantity | None:
    if found is None:
        return None
    return Quantity(point=found.tokens_per_second, low=found.low, high=found.high, basis=Basis.MEASURED_ELSEWHERE)


def _predicted(table: MachineTable, count: int, works: Sequence[WorkloadSpec]) -> list[Predicted]:
    """Of each work, all of one phase, what is predicted of all machines."""
    rows = np.tile(np.arange(count, dtype=np.intp), len(works))
    found = predict_rows(shipped_cpu_model(), works[0].phase, table, rows, work_table(works).each(count))
    parts = (np.split(values, len(works)) for values in (found.point, found.low, found.high))
    return [Predicted(point=point, low=low, high=high) for point, low, high in zip(*parts, strict=True)]


def _quantities(rates: Predicted) -> list[Quantity | None]:
    """Of each row; None where nothing can be said (NaN)."""
    rows = zip(rates.point.tolist(), rates.low.tolist(), rates.high.tolist(), strict=True)
    return [
        Quantity(point=point, low=low, high=high, basis=Basis.PREDICTED) if point > 0 else None
        for point, low, high in rows
    ]


def _memory(machine: Instance, model: ModelRecord) -> float | None:
    """Its memory. Where nobody says it: half of the largest model that ran there, if this one is far smaller.

    A model that is mapped from disk runs, slowly, in less memory than it has bytes, so that the largest one is no proof by itself.
    """
    floor = machine.memory_floor_bytes
    if machine.memory_bytes is not None or floor is None or model.file_bytes is None:
        return machine.memory_bytes
    return floor / _ROOMY if floor >= _ROOMY * model.file_bytes else None
