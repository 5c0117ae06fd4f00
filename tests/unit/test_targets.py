"""Which machine a ceiling is about, and what is refused."""

from __future__ import annotations

import pytest

from suffice.catalogue.catalogue import shipped
from suffice.catalogue.entries import Dtype
from suffice.cli.targets import Target, TargetOptions, target_of
from suffice.errors import UsageError
from suffice.units import GIGA, TERA


def target(**asked: object) -> Target:
    """The machine that the shipped catalogue gives."""
    return target_of(TargetOptions(**asked), shipped())  # type: ignore[arg-type]  # fields of the options


def test_a_type_that_a_device_lacks_is_a_hard_filter() -> None:
    """A T4 has no BF16; it is refused with what it has, not scored down."""
    with pytest.raises(UsageError, match=r"T4.*does not multiply in bf16; it does in .*fp16"):
        target(device="t4", dtype="bf16")
    with pytest.raises(UsageError, match="choose fp32, bf16"):
        target(device="t4", dtype="q4_k")


def test_the_compute_roof_is_that_of_the_type() -> None:
    """312 TFLOP/s of BF16 on an A100 when it is asked for; without a type the highest rate, which is a ceiling for every engine."""
    assert target(device="a100-sxm4-80", dtype="bf16").roofs.peak_flop_per_s == 312 * TERA
    highest = target(device="a100-sxm4-80")
    assert highest.roofs.peak_flop_per_s == 624 * TERA
    assert "int8" in str(highest.peak_source)
    assert target(device="a100-sxm4-80", tflops=100).peak_source == "stated"


def test_several_devices_add_memory_and_one_stream_does_not_speed_up() -> None:
    """All together are the ceiling; one at a time is what a layer split gives, and it is said."""
    one, two = target(device="l20"), target(device="l20", count=2)

    assert two.roofs.bandwidth_bytes_per_s == 2 * one.roofs.bandwidth_bytes_per_s
    assert two.one == one.roofs
    assert two.memory_bytes == 2 * (one.memory_bytes or 0)
    assert any("one device at a time" in note for note in two.notes)


def test_two_sockets_are_planned_as_one() -> None:
    """A CPU's sockets do not add up for one stream."""
    cpu = next(d for d in shipped().devices if d.kind == "cpu" and d.bandwidth_bytes_per_s is not None)

    assert any("does not add sockets" in note for note in target(device=cpu.id, count=2).notes)


def test_an_instance_has_what_others_measured_or_its_accelerators() -> None:
    """c7i.4xlarge by its measured bandwidth, marked as a lower bound; a machine with A10s by all of them."""
    cpu = target(instance="c7i.4xlarge")
    gpu_machine = next(m for m in shipped().instances if m.accelerator_device == "a10" and m.accelerator_count == 2)
    gpu = target(instance=gpu_machine.key)

    assert 50 * GIGA < cpu.roofs.bandwidth_bytes_per_s < 200 * GIGA
    assert any("lower bound" in note for note in cpu.notes)
    assert "2 x NVIDIA A10" in gpu.source
    assert gpu.roofs.bandwidth_bytes_per_s == 2 * 600 * GIGA
    with pytest.raises(UsageError, match="A100, whose figures are not known"):  # SXM or PCIe: nobody says
        target(instance="ecs.gn7e-c16g1.4xlarge")


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"bandwidth": 40.0, "device": "l4"}, "each is a machine"),
        ({"bandwidth": 40.0, "count": 2}, "--count and --dtype need a --device"),
        ({"bandwidth": -1.0}, "positive"),
        ({"device": "l44"}, "did you mean"),
        ({"instance": "gn7e"}, "A100 80GB"),
    ],
)
def test_what_names_no_machine_is_refused(asked: dict[str, object], message: str) -> None:
    """One sentence each."""
    with pytest.raises(UsageError, match=message):
        target(**asked)


def test_without_the_rate_in_8_bits_there_is_no_compute_roof() -> None:
    """Engines multiply in 8 bits where they can: the rate in FP32 alone would be exceeded."""
    h100 = next(d for d in shipped().devices if d.id == "h100-nvl")

    assert Dtype.INT8 not in h100.flop_per_s
    assert target(device="h100-nvl").roofs.peak_flop_per_s is None
