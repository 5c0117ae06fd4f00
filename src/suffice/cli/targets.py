"""Which machine a ceiling is about: stated, a device or an instance of the catalogue, or this one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.catalogue.catalogue import Catalogue
    from suffice.catalogue.entries import Device, Instance, Sourced
    from suffice.model.roofline import Roofs

_BANDWIDTH_BUDGET_S: Final = 4.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """What the user said of the machine; figures as on the command line (GB/s, TFLOP/s)."""

    bandwidth: float | None = None
    device: str | None = None
    instance: str | None = None
    count: int = 1
    tflops: float | None = None
    dtype: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Roofs, where they come from, and memory that a model may take (None: nobody said which machine).

    Attributes:
        roofs: of all ``count`` devices together: what cannot be exceeded however the model is split.
        source: of the bandwidth.
        peak_source: of the compute roof, None when there is none.
        memory_bytes: of all of them together.
        memory_source: whose memory that is.
        count: devices, or sockets.
        notes: what a reader must know of these figures.
    """

    roofs: Roofs
    source: str
    peak_source: str | None = None
    memory_bytes: int | None = None
    memory_source: str | None = None
    count: int = 1
    notes: tuple[str, ...] = ()

    @property
    def one(self) -> Roofs:
        """The roofs of one of several: one stream through layers that are split among them works on one at a time."""
        peak = self.roofs.peak_flop_per_s
        return replace(
            self.roofs,
            bandwidth_bytes_per_s=self.roofs.bandwidth_bytes_per_s / self.count,
            peak_flop_per_s=None if peak is None else peak / self.count,
        )


def target_of(asked: TargetOptions, catalogue: Catalogue) -> Target:
    """The machine that the user means; nothing said is this machine, whose bandwidth is then measured.

    Raises:
        UsageError: two machines at once, an unknown name, a bandwidth that is not known, a type that the device does not have.
    """
    from suffice.model.roofline import Roofs
    from suffice.units import GIGA, TERA

    named = [flag for flag in ("bandwidth", "device", "instance") if getattr(asked, flag) is not None]
    if len(named) > 1:
        raise UsageError(f"give one of {', '.join(f'--{flag}' for flag in named)}: each is a machine")
    peak = None if asked.tflops is None else options.positive(asked.tflops, "--tflops") * TERA
    if asked.device is not None:
        return _of_device(catalogue.device_named(asked.device), asked, peak)
    if asked.count != 1 or asked.dtype is not None:
        raise UsageError("--count and --dtype need a --device: of others nothing more is known")
    if asked.instance is not None:
        return _of_instance(catalogue.instance_named(asked.instance), asked, peak, catalogue)
    peak_source = None if peak is None else "stated"
    if asked.bandwidth is not None:
        value = options.positive(asked.bandwidth, "--bandwidth") * GIGA
        return Target(
            roofs=Roofs(bandwidth_bytes_per_s=value, peak_flop_per_s=peak), source="stated", peak_source=peak_source
        )
    return replace(_this_machine(peak), peak_source=peak_source)


def _this_machine(peak: float | None) -> Target:
    from suffice.cli.output import Progress
    from suffice.measure.machine import RealMachine  # loads NumPy
    from suffice.model.roofline import Roofs

    machine = RealMachine()
    with Progress() as progress:
        measured = machine.bandwidth(budget_s=_BANDWIDTH_BUDGET_S, progress=progress)
    return Target(
        roofs=Roofs(bandwidth_bytes_per_s=measured.read_bytes_per_s, peak_flop_per_s=peak),
        source="measured",
        memory_bytes=machine.facts().memory_usable_bytes,
        memory_source="this machine can use now",
    )


def _of_device(device: Device, asked: TargetOptions, peak: float | None) -> Target:
    from suffice.model.roofline import Roofs

    rated = device.bandwidth_bytes_per_s
    if rated is None:
        raise UsageError(f"the bandwidth of {device.name} is not known; give --bandwidth")
    peak_source = "stated"
    if peak is None:
        found = _peak_of(device, asked.dtype)
        peak, peak_source = (None, "") if found is None else found
    count = asked.count
    memory = None if device.memory_bytes is None else round(device.memory_bytes) * count
    whose = device.name if count == 1 else f"{count} x {device.name}"
    return Target(
        roofs=Roofs(bandwidth_bytes_per_s=rated.value * count, peak_flop_per_s=None if peak is None else peak * count),
        source=f"{whose}, {rated.kind}, seen {rated.seen}",
        peak_source=peak_source or None,
        memory_bytes=memory,
        memory_source=f"{whose}, before its own reserve",
        count=count,
        notes=_notes(device, count),
    )


def _peak_of(device: Device, dtype: str | None) -> tuple[float, str] | None:
    """The dense rate of a type, or the highest that the device has: only that is a ceiling for every engine."""
    from suffice.catalogue.entries import Dtype

    if dtype is not None:
        if dtype not in {known.value for known in Dtype}:
            raise UsageError(f"--dtype {dtype}: choose {', '.join(known.value for known in Dtype)}")
        if device.supports(dtype) is False:
            can = ", ".join(known.value for known in Dtype if device.supports(known))
            raise UsageError(
                f"{device.name} does not multiply in {dtype}; it does in {can or 'types that nobody states'}"
            )
        rate = device.flop_per_s.get(Dtype(dtype))
        return None if rate is None else (rate.value, _rate_source(rate, dtype))
    # Engines multiply in 8 bits where they can: without that rate the highest known one is no ceiling.
    if Dtype.INT8 not in device.flop_per_s and device.supports(Dtype.INT8) is not False:
        return None
    rates = [(rate.value, _rate_source(rate, name.value)) for name, rate in device.flop_per_s.items()]
    return max(rates, default=None)


def _rate_source(rate: Sourced, dtype: str) -> str:
    return f"dense {dtype}, {rate.kind}"


def _notes(device: Device, count: int) -> tuple[str, ...]:
    notes = []
    if device.chips > 1:
        notes.append(
            f"{device.name} is {device.chips} chips: figures are sums, and one process on one chip gets its share"
        )
    if count > 1 and device.kind == "cpu":
        notes.append("one stream does not add sockets: plan with the bandwidth of one, and pin to it")
    elif count > 1:
        notes.append(
            "memory adds; one stream through layers that are split works on one device at a time, and only splitting every matrix "
            "(tensor parallelism) lets it use all of them"
        )
    return tuple(notes)


def _of_instance(machine: Instance, asked: TargetOptions, peak: float | None, catalogue: Catalogue) -> Target:
    from suffice.model.roofline import Roofs

    if machine.accelerator is not None:
        return _of_accelerators(machine, asked, peak, catalogue)
    reading = machine.read_bytes_per_s
    if reading is None:
        raise UsageError(f"the memory bandwidth of {machine.key} is not known; give --bandwidth")
    numa = machine.numa_nodes or 1
    notes = ["the bandwidth is one that others measured: a lower bound, so this ceiling may be exceeded by a little"]
    if numa > 1:
        notes.append(f"it has {numa} NUMA nodes: one stream does not add them up")
    return Target(
        roofs=Roofs(bandwidth_bytes_per_s=reading.value, peak_flop_per_s=peak),
        source=f"{machine.key}, {reading.kind}, {reading.seen}",
        peak_source=None if peak is None else "stated",
        memory_bytes=None if machine.memory_bytes is None else round(machine.memory_bytes),
        memory_source=f"{machine.key}, before what its system takes",
        notes=tuple(notes),
    )


def _of_accelerators(machine: Instance, asked: TargetOptions, peak: float | None, catalogue: Catalogue) -> Target:
    if machine.accelerator_device is None:
        forms = [one.id for one in catalogue.devices if str(machine.accelerator).lower() in one.name.lower()]
        which = (
            f": which of {', '.join(forms)}, nobody says; ask with --device"
            if forms
            else ", give a --bandwidth instead"
        )
        raise UsageError(f"{machine.key} has {machine.accelerator}, whose figures are not known{which}")
    number = machine.accelerator_count or 1.0
    device = catalogue.device_named(machine.accelerator_device)
    target = _of_device(device, replace(asked, count=max(1, int(number))), peak)
    memory = machine.accelerator_memory_bytes
    if memory is not None:
        target = replace(target, memory_bytes=round(memory * max(number, 1.0)))
    notes = target.notes
    if number < 1:
        notes = (*notes, f"this machine has {number:g} of the device: its share of the bandwidth is not known")
    return replace(target, source=f"{machine.key}: {target.source}", notes=notes)
