"""Machines to rent and API prices that ship: sourced, dated, one price each, and found by the names that people use."""

from __future__ import annotations

from collections import Counter
from datetime import date

import pytest

from suffice.catalogue.ages import OLD_AFTER_DAYS, age_days, earliest_day, is_newer, is_old
from suffice.catalogue.apis import all_apis, api_named
from suffice.catalogue.azure import WINDOWS_SURCHARGE_PER_VCPU, windows_prices
from suffice.catalogue.devices import all_devices
from suffice.catalogue.instances import PROVIDER_NAMES, all_instances, family_sizes, instance_named, provider_named
from suffice.catalogue.names import Kind, all_corrections, did_you_mean, plain
from suffice.catalogue.table import source_text
from suffice.errors import UsageError

TODAY = date(2026, 11, 30)


def test_every_machine_is_loaded_once() -> None:
    """176 that people name and 1936 that were measured, 60 of them both; no provider has two of one name."""
    machines = all_instances()
    keys = Counter(machine.key for machine in machines)
    assert len(machines) == 176 + 1936 - 60
    assert [key for key, count in keys.items() if count > 1] == []
    assert {machine.provider for machine in machines} == set(PROVIDER_NAMES)


def test_every_price_and_reading_has_source_and_date() -> None:
    """Price with currency, region and a date that can be compared; readings with the day of the run."""
    for machine in all_instances():
        assert machine.source, machine.key
        assert machine.seen, machine.key
        if machine.price is not None:
            price = machine.price
            assert price.per_hour > 0
            assert price.currency in {"USD", "CNY"}, machine.key
            assert price.region, machine.key
            assert price.source, machine.key
            assert earliest_day(price.date) is not None, machine.key
        for speed in (machine.llama_7b_decode_tokens_per_second, machine.llama_7b_prefill_tokens_per_second):
            assert speed is None or (speed.value > 0 and earliest_day(speed.seen) and "build 4753" in speed.kind), (
                machine.key
            )
        if machine.read_bytes_per_s is not None:
            assert earliest_day(machine.read_bytes_per_s.seen) is not None, machine.key
            assert machine.read_bytes_per_s.value > 1e9, machine.key


def test_measurements_of_others_keep_their_backend() -> None:
    """g4dn.xlarge: 42.48 tokens/s on its T4 through CUDA; where a published run fell back to the CPU there is none."""
    decode = instance_named("g4dn.xlarge").llama_7b_decode_tokens_per_second
    assert decode is not None
    assert decode.value == 42.48
    assert decode.kind.endswith("CUDA")
    assert instance_named("a3-highgpu-8g").llama_7b_decode_tokens_per_second is None


def test_price_per_month_is_730_hours() -> None:
    """8760 hours over 12 months; c7i.4xlarge: 0.714 x 730 = 521.22 USD."""
    price = instance_named("c7i.4xlarge").price
    assert price is not None
    assert price.per_month == pytest.approx(521.22)
    for machine in all_instances():
        if machine.price is not None:
            assert machine.price.per_month == pytest.approx(machine.price.per_hour * 8760 / 12)


def test_topology_adds_up() -> None:
    """VCPUs are threads x cores x sockets where all are known, except where a hypervisor hides some."""
    known = [m for m in all_instances() if m.sockets and m.cores_per_socket and m.threads_per_core and m.vcpu]
    odd = [m.key for m in known if m.vcpu != (m.threads_per_core or 0) * (m.cores_per_socket or 0) * (m.sockets or 0)]
    assert len(known) == 1936
    assert len(odd) < 0.02 * len(known), odd


def test_a_model_that_ran_fits_the_memory_that_is_stated() -> None:
    """The floor under an unknown memory is sound: where the memory is known, no model that ran is larger."""
    both = [m for m in all_instances() if m.memory_bytes is not None and m.memory_floor_bytes is not None]
    assert len(both) > 30
    assert [m.key for m in both if (m.memory_floor_bytes or 0) > (m.memory_bytes or 0)] == []


def test_a_run_on_another_cpu_is_told() -> None:
    """D16_v5 was looked at on Ice Lake and measured on Sapphire Rapids; Arm's bare "CPU" says nothing and is no other CPU."""
    machine = instance_named("Standard_D16_v5")
    assert machine.cpu_model == "Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz"
    assert machine.other_cpu_model == "Intel(R) Xeon(R) Platinum 8473C"
    assert instance_named("c7g.16xlarge").other_cpu_model is None
    others = [(m.other_cpu_model, m.cpu_model) for m in all_instances() if m.other_cpu_model is not None]
    assert len(others) > 100
    assert [pair for pair in others if pair[0] in {"CPU", "", pair[1]}] == []


def test_accelerators_lead_to_devices() -> None:
    """Where an accelerator is named without doubt, its device is in the catalogue; a slice of a T4 is no T4."""
    ids = {device.id for device in all_devices()}
    assert instance_named("g4dn.xlarge").accelerator_device == "t4"
    assert instance_named("GN7.2XLARGE40").accelerator_device is None
    assert instance_named("GN7.2XLARGE40").accelerator_count == 0.5
    assert instance_named("kai2p.24xlarge.4").accelerator_count == 8
    assert instance_named("ecs.gn8v.6xlarge").accelerator_device is None
    assert {m.accelerator_device for m in all_instances()} - {None} <= ids


def test_azure_prices_of_windows_are_not_used() -> None:
    """D16as_v5 costs 0.688 in eastus; D64as_v5 has Windows prices only, so none; E64as_v5 is taken from where it is Linux's."""
    price = instance_named("D16as_v5").price
    assert price is not None
    assert (price.per_hour, price.region) == (0.688, "eastus")
    hidden = instance_named("Standard_D64as_v5")
    assert hidden.price is None
    assert hidden.note == "only Windows prices were found"
    moved = instance_named("Standard_E64as_v5").price
    assert moved is not None
    assert moved.region != "eastus"
    assert moved.note is not None
    assert "Windows" in moved.note


def test_no_azure_family_has_a_size_at_the_surcharge_of_windows() -> None:
    """Over all prices that ship, per region: none is a family's cheapest rate plus 0.046 USD per vCPU."""
    by_region: dict[str, dict[str, float]] = {}
    for machine in all_instances():
        if machine.provider == "azure" and machine.price is not None:
            by_region.setdefault(machine.price.region, {})[machine.name] = machine.price.per_hour
    assert len(by_region["eastus"]) > 500
    assert {region: windows_prices(prices) for region, prices in by_region.items() if windows_prices(prices)} == {}


def test_windows_prices_are_told_from_linux_ones() -> None:
    """Rates per vCPU: 0.043, 0.043 and 0.089 = 0.043 + 0.046; a size with cores switched off costs as much as the full one."""
    prices = {
        "Standard_D8as_v5": 0.344,
        "Standard_D16as_v5": 0.688,
        "Standard_D32as_v5": 32 * (0.043 + WINDOWS_SURCHARGE_PER_VCPU),
        "Standard_D16-4as_v5": 0.688,
        "Standard_M128ms": 26.688,
        "Standard_D2s_v5": 0.096,
        "no size": 1.0,
    }
    assert windows_prices(prices) == {"Standard_D32as_v5"}
    assert windows_prices({}) == frozenset()


def test_undated_prices_are_old() -> None:
    """Tencent's prices of "about 2022" and Alibaba's of 2024-12-31 are marked; those of 2026-07-20 are not, yet."""
    tencent, alibaba, aws = (instance_named(name).price for name in ("GN7.2XLARGE32", "ecs.c7.4xlarge", "c7i.xlarge"))
    assert tencent is not None
    assert alibaba is not None
    assert aws is not None
    assert (tencent.date, tencent.note) == ("2022", "undated, about that year")
    assert [is_old(price.date, TODAY) for price in (tencent, alibaba, aws)] == [True, True, False]
    assert alibaba.currency == "CNY"
    assert "inferred" in source_text("karpenter-alibabacloud")


@pytest.mark.parametrize(
    ("text", "days"),
    [("2026-11-30", 0), ("2026-11-29", 1), ("2026-11", 29), ("2026", 333), ("2027-01-01", 0), ("undated", None), ("2026-13-01", None)],
)  # fmt: skip
def test_ages_count_from_the_first_day_that_a_date_can_mean(text: str, days: int | None) -> None:
    """A month counts from its first, a year from January; no date is no age; the future is no negative one."""
    assert age_days(text, TODAY) == days
    assert is_old(text, TODAY) is (days is None or days > OLD_AFTER_DAYS)


def test_newer_is_said_only_of_later_dates() -> None:
    """Equal dates are not newer, a date is newer than none, and none is newer than nothing."""
    assert is_newer("2026-12-01", "2026-11-30")
    assert not is_newer("2026-11-30", "2026-11-30")
    assert is_newer("2026", "about then")
    assert not is_newer("about then", "about then")


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("c7i.4xlarge", "aws/c7i.4xlarge"), ("AWS/C7I.4XLARGE", "aws/c7i.4xlarge"), ("ecs.c7.4xlarge", "alicloud/ecs.c7.4xlarge"),
        ("c7.4xlarge", "alicloud/ecs.c7.4xlarge"), ("D16as_v5", "azure/Standard_D16as_v5"), ("standard_d16as_v5", "azure/Standard_D16as_v5"),
        ("n2-standard-16", "gcp/n2-standard-16"), ("S5", "tencent/S5 family"), ("gn7.2xlarge32", "tencent/GN7.2XLARGE32"),
    ],
)  # fmt: skip
def test_a_machine_is_found_by_the_names_that_people_use(name: str, key: str) -> None:
    """Case and separators do not matter, nor do ``ecs.`` and ``Standard_``; the provider may stand in front."""
    assert instance_named(name).key == key


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("GN7i Pro", ["no such family", "Alibaba's family with A10", "T4"]), ("gn7e", ["A100 80GB", "ecs.gn7e-c16g1.4xlarge"]),
        ("gn8", ["no plain gn8", "L20", "P40"]), ("EC7", ["no such flavour", "kat2e"]), ("gn7", ["A100 40GB", "T4"]),
        ("c7i", ["is a family", "aws/c7i.xlarge", "more"]), ("c7i.4xlarg", ["did you mean c7i.4xlarge"]), ("GN6S", ["P4", "not T4"]),
        ("910B", ["physical.kat2ne"]), ("H800", ["no Alibaba family"]), ("¿?", ["suffice catalog instances"]), ("", ["suffice catalog instances"]),
    ],
)  # fmt: skip
def test_an_instance_name_that_misleads_is_answered(name: str, words: list[str]) -> None:
    """One sentence: that there is no such family, what a family is and its sizes, or what is near."""
    with pytest.raises(UsageError) as raised:
        instance_named(name)
    message = str(raised.value)
    assert "no instance is called" in message
    assert [word for word in words if word not in message] == []


def test_corrections_stand_in_nobodys_way() -> None:
    """No correction is for a name that finds something, none is asked for twice, and each has a source."""
    asked = Counter((item.kind, name) for item in all_corrections() for name in set(item.asked))
    assert [key for key, count in asked.items() if count > 1] == []
    assert all(item.source and item.answer for item in all_corrections())
    names = {plain(text) for device in all_devices() for text in (device.id, device.name, *device.aliases)}
    assert [name for kind, name in asked if kind is Kind.DEVICE and name in names] == []
    machines = {plain(machine.name) for machine in all_instances()}
    assert [name for kind, name in asked if kind is Kind.INSTANCE and name in machines] == []


def test_what_a_correction_names_is_there() -> None:
    """Ids of devices in answers about devices can be looked up."""
    ids = {device.id for device in all_devices()}
    for item in all_corrections():
        if item.kind is Kind.DEVICE:
            words = {word.strip(",;:()") for word in item.answer.split()}
            told = {
                word
                for word in words
                if word.startswith(("a100-", "h100-", "h800-", "v100-", "apple-", "ascend-9", "epyc-"))
            }
            assert told <= ids, item.answer


def test_sizes_of_a_family_are_not_those_of_a_longer_one() -> None:
    """c7 is neither c7i nor c7a."""
    names = {machine.name for machine in family_sizes("ecs.c7", all_instances())}
    assert "ecs.c7.4xlarge" in names
    assert not {name for name in names if not name.startswith("ecs.c7.")}
    assert family_sizes("", all_instances()) == ()


def test_providers_have_their_usual_names() -> None:
    """Keys, full names and what people say; an unknown one is refused with the list."""
    assert [provider_named(name) for name in ("AWS", "alibaba", "Aliyun", "Google Cloud", "hetzner", "Tencent Cloud")] == [
        "aws", "alicloud", "alicloud", "gcp", "hcloud", "tencent",
    ]  # fmt: skip
    with pytest.raises(UsageError, match="no provider is called 'nobody'; there are aws"):
        provider_named("nobody")


def test_every_api_price_is_loaded_once_with_source_and_date() -> None:
    """53 prices; platform, model, tier and currency tell them apart; a price of 0 says why."""
    prices = all_apis()
    assert len(prices) == len({price.key for price in prices}) == 53
    for price in prices:
        assert price.source, price.key
        assert earliest_day(price.date) is not None, price.key
        assert price.currency in {"USD", "CNY"}
        assert price.input_per_million > 0 or "free" in (price.note or ""), price.key
        cached = price.cached_input_per_million
        assert cached is None or cached < price.input_per_million


def test_api_models_are_found_with_all_their_prices() -> None:
    """Tiers, currencies and platforms; the maker in front may be left out; a platform may be named."""
    assert {price.currency for price in api_named("QWEN-PLUS")} == {"USD", "CNY"}
    assert [price.tier for price in api_named("qwen3-max")] == [
        "input 0K-32K tokens", "input 32K-128K tokens", "input 128K-252K tokens",
    ]  # fmt: skip
    assert api_named("Qwen3-14B")[0].platform == "DeepInfra"
    assert {price.platform for price in api_named("DeepSeek/deepseek-flash")} == {"DeepSeek"}


@pytest.mark.parametrize(
    ("name", "words"),
    [("deepseek", ["deepseek-flash", "off-peak"]), ("gpt-5", ["did you mean gpt-5-"]), ("ernie-5.1", ["2025-06"]), ("¿?", ["suffice catalog apis"])],
)  # fmt: skip
def test_an_api_name_that_misleads_is_answered(name: str, words: list[str]) -> None:
    """One sentence with what there is."""
    with pytest.raises(UsageError) as raised:
        api_named(name)
    assert [word for word in words if word not in str(raised.value)] == []


def test_long_names_do_not_flood_the_message() -> None:
    """A name of a megabyte is shown by its beginning."""
    with pytest.raises(UsageError) as raised:
        instance_named("x" * 1_000_000)
    assert len(str(raised.value)) < 300
    assert did_you_mean("", {"a": "A"}, "nothing") == "nothing"


@pytest.mark.parametrize(
    ("name", "burstable"),
    [
        ("aws/t3.small", True),
        ("aws/c7i.4xlarge", False),
        ("azure/Standard_B1ms", True),
        ("azure/Standard_D16as_v5", False),
    ],
)
def test_machines_that_earn_their_cpu_time_are_known(name: str, burstable: bool) -> None:  # noqa: FBT001  # a parametrized expectation
    """A short test flatters them, so nobody is told to buy one."""
    assert instance_named(name).is_burstable is burstable
