"""The devices that ship: complete, sourced, recomputed where that is possible, and found by the names that people use."""

from __future__ import annotations

import ast
import csv
from importlib.resources import files
from pathlib import Path

import pytest

import suffice.catalogue.entries
from suffice.catalogue.devices import accelerator_device_id, all_devices, device_named
from suffice.catalogue.entries import Device, Dtype, Sourced
from suffice.catalogue.names import plain
from suffice.catalogue.table import table_rows
from suffice.errors import UsageError

DATA = files("suffice.catalogue").joinpath("data")


def test_every_row_is_loaded_once() -> None:
    """81 devices with different ids, of every kind that people ask for; each has its traits."""
    devices = all_devices()
    assert len(devices) == len({device.id for device in devices}) == 81
    assert {device.kind for device in devices} == {"gpu", "npu", "cpu", "soc", "cpu-class"}
    assert {row["id"] for row in table_rows("device_traits.csv")} == {device.id for device in devices}


def test_every_number_has_source_date_and_kind() -> None:
    """Rated and measured numbers alike; a source names something, and a date begins with a year."""
    for device in all_devices():
        numbers = [device.bandwidth_bytes_per_s, device.measured_read_bytes_per_s, *device.flop_per_s.values()]
        stated = [number for number in numbers if number is not None]
        assert len(device.source) > 3, device.id
        assert any(character.isdigit() for character in device.seen), device.id
        assert all(number.source and number.seen and number.kind for number in stated), device.id


def test_unknown_is_none_and_never_zero() -> None:
    """Empty cells stay unknown: no number of the file is 0."""
    for device in all_devices():
        numbers = [
            *(rate.value for rate in device.flop_per_s.values()), device.memory_min_bytes, device.tdp_w, device.channels,
            device.mega_transfers_per_s, device.threads,
            None if device.bandwidth_bytes_per_s is None else device.bandwidth_bytes_per_s.value,
        ]  # fmt: skip
        assert all(number is None or number > 0 for number in numbers), device.id
    assert device_named("ascend-910b4").bandwidth_bytes_per_s is None
    assert device_named("h100-nvl").dense_bf16_flop_per_s is None


def test_rated_bandwidth_is_channels_times_transfers_times_width() -> None:
    """Within 2 % for each device whose channels and transfer rate are known, the 32-bit Raspberry Pi 5 among them."""
    checked = 0
    for device in all_devices():
        computed, rated = device.channel_bandwidth_bytes_per_s, device.bandwidth_bytes_per_s
        if computed is not None and rated is not None:
            assert computed == pytest.approx(rated.value, rel=0.02), device.id
            checked += 1
    assert checked >= 20


def test_fp16_and_bf16_rates_are_not_those_with_sparsity() -> None:
    """Dense INT8 is half to four times dense FP16 on accelerators; a headline with sparsity in one of the two would break that."""
    for device in all_devices():
        rates = {dtype: rate.value for dtype, rate in device.flop_per_s.items()}
        if Dtype.FP16 in rates and Dtype.INT8 in rates and device.kind != "cpu":
            assert 0.5 <= rates[Dtype.INT8] / rates[Dtype.FP16] <= 4.1, device.id
        if Dtype.FP16 in rates and Dtype.BF16 in rates:
            assert rates[Dtype.FP16] == rates[Dtype.BF16], device.id


@pytest.mark.parametrize(
    ("name", "dtype", "supported"),
    [
        ("t4", "bf16", False), ("t4", "fp8", False), ("t4", "fp16", True), ("v100-pcie", "bf16", False),
        ("v100-sxm2-32", "fp8", False), ("v100-sxm2-32", "int8", None), ("ascend-310p3", "bf16", False),
        ("atlas-300i-duo", "bf16", False), ("atlas-300i-duo", "fp16", True), ("a100-sxm4-80", "fp8", False),
        ("a100-pcie-40", "int4", True), ("rtx3090", "fp8", False), ("l4", "fp8", True), ("l20", "fp8", True),
        ("h20", "fp8", True), ("h100-nvl", "bf16", True), ("h100-sxm5", "fp4", False), ("b200-sxm", "fp4", True),
        ("rtx5090d-v2", "fp8", True), ("ascend-910b3", "fp8", None), ("ascend-910b3", "bf16", True),
        ("xeon-8380", "bf16", False), ("xeon-8480p", "bf16", True), ("epyc-7763", "bf16", False), ("rpi5", "bf16", None),
        ("graviton2", "bf16", False), ("graviton4", "bf16", True), ("apple-m1-max", "bf16", False), ("apple-m2", "bf16", True),
        ("ddr5-5600-2ch", "bf16", None),
    ],
)  # fmt: skip
def test_types_are_a_hard_filter(name: str, dtype: str, supported: bool | None) -> None:  # noqa: FBT001  # expected value
    """What an architecture does, does not, and what nobody says, from rates and notes."""
    assert device_named(name).supports(dtype) is supported


def test_a_rate_and_a_refusal_never_contradict() -> None:
    """No device has a rate in a type that the table says it lacks; every row of the table is for an architecture that there is."""
    architectures = {device.architecture for device in all_devices()}
    assert {row["architecture"] for row in table_rows("dtype_support.csv")} <= architectures
    assert {row["supported"] for row in table_rows("dtype_support.csv")} == {"yes", "no"}
    assert all(row["source"] for row in table_rows("dtype_support.csv"))
    for device in all_devices():
        assert not [dtype for dtype in device.flop_per_s if device.dtype_support.get(dtype) is False], device.id


def test_an_unknown_type_is_an_error() -> None:
    """A typing error must not read as "not known"."""
    with pytest.raises(ValueError, match="bf61"):
        device_named("t4").supports("bf61")


def test_a_card_of_two_chips_says_what_one_gets() -> None:
    """Atlas 300I Duo: 408 GB/s are the sum of two; one process gets 204 GB/s."""
    card = device_named("Atlas 300I Duo")
    assert (card.chips, card.chip_bandwidth_bytes_per_s) == (2, 204e9)
    assert (card.memory_bytes, card.memory_min_bytes, card.memory_max_bytes) == (None, 48e9, 96e9)
    assert device_named("t4").chip_bandwidth_bytes_per_s == 320e9
    assert device_named("t4").chip_memory_bytes == 16e9


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("T4", "t4"), ("Tesla T4", "t4"), ("NVIDIA T4", "t4"), ("nvidia l40s", "l40s"), ("RTX 4090", "rtx4090"), ("910b3", "ascend-910b3"),
        ("GeForce RTX 3090", "rtx3090"), ("H200", "h200-sxm"), ("b200", "b200-sxm"), ("310P", "ascend-310p3"), ("M2 Max", "apple-m2-max"),
        ("xeon 8480+", "xeon-8480p"), ("a100_sxm4_80", "a100-sxm4-80"), ("NVIDIA A100 SXM4 80GB", "a100-sxm4-80"),
    ],
)  # fmt: skip
def test_a_device_is_found_by_the_names_that_people_use(name: str, found: str) -> None:
    """Case, blanks, dashes, the maker's name and what nvidia-smi prints do not matter."""
    assert device_named(name).id == found


def test_no_two_devices_share_a_name_in_any_spelling() -> None:
    """An alias that means two devices would pick one in silence."""
    seen: dict[str, str] = {}
    for device in all_devices():
        for text in {plain(name) for name in (device.id, device.name, *device.aliases)}:
            assert seen.setdefault(text, device.id) == device.id, text


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("h100", ["h100-sxm5", "h100-pcie", "h100-nvl"]), ("A100 40GB", ["1555 GB/s", "a100-sxm4-40"]), ("910B", ["ascend-910b4", "32 GB"]),
        ("M4 Ultra", ["apple-m3-ultra"]), ("m4-max", ["410 GB/s", "546 GB/s"]), ("T4/A10", ["24 GB", "a10g"]), ("EC6", ["kat2e"]),
        ("rtx4900", ["did you mean rtx4090"]), ("xeon", ["xeon-8380"]), ("¿?", ["suffice catalog devices"]), ("", ["suffice catalog devices"]),
    ],
)  # fmt: skip
def test_a_name_that_misleads_is_answered(name: str, words: list[str]) -> None:
    """One sentence says which forms there are, that there is no such thing, or what is near."""
    with pytest.raises(UsageError) as raised:
        device_named(name)
    message = str(raised.value)
    assert "no device is called" in message
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


def test_accelerators_of_providers_are_devices_where_that_is_certain() -> None:
    """What nvidia-smi and providers print leads to a device; slices and undisclosed cards to none; every target exists."""
    assert accelerator_device_id("Tesla T4", None) == "t4"
    assert accelerator_device_id("A10", 24) == "a10"
    assert accelerator_device_id("NVIDIA A10-4Q", None) is None
    assert accelerator_device_id("GPU H", 96) is None
    assert accelerator_device_id("A100", 80) is None
    ids = {device.id for device in all_devices()}
    assert {row["device"] for row in table_rows("accelerators.csv")} <= ids


def test_channel_bandwidth_needs_both_numbers() -> None:
    """Unknown channels or transfers leave it unknown."""
    bare = Device(id="x", name="x", kind="cpu", source="s", seen="2026", channels=8)
    assert bare.channel_bandwidth_bytes_per_s is None
    assert bare.chip_bandwidth_bytes_per_s is None
    # two channels x 4800 MT/s x 8 bytes = 76.8 GB/s
    known = Device(id="x", name="x", kind="cpu", source="s", seen="2026", channels=2, mega_transfers_per_s=4800.0)
    assert known.channel_bandwidth_bytes_per_s == 76.8e9


def test_entries_are_pure() -> None:
    """The module of entries imports nothing that reads, waits or sends."""
    tree = ast.parse(Path(suffice.catalogue.entries.__file__).read_text(encoding="utf-8"))
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        for name in ([alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""] if isinstance(node, ast.ImportFrom) else [])
    }  # fmt: skip
    assert imported <= {"__future__", "dataclasses", "enum", "re", "types", "typing", "collections", "suffice"}
    assert Sourced(value=1.0, kind="k", source="s", seen="2026").value == 1.0


def test_the_readme_names_every_file_and_its_licence() -> None:
    """Each data file has a row, and the file of measured machines says CC BY-SA 4.0."""
    text = DATA.joinpath("README.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip().strip("`"): line for line in text.splitlines() if line.startswith("| `")}
    names = {path.name for path in DATA.iterdir() if path.name != "README.md"}
    assert names <= set(rows)
    assert "CC BY-SA 4.0" in rows["cloud_instances.csv.gz"]
    assert "Apache-2.0" in rows["cloud_instances.csv.gz"]
    with DATA.joinpath("sources.csv").open(encoding="utf-8") as file:
        assert {row["licence"] for row in csv.DictReader(file)} == {"CC BY-SA 4.0", "Apache-2.0"}
