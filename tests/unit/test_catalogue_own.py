"""The user's own entries: checked at the border, over those that ship, and told apart from them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from suffice.catalogue.catalogue import FreshPrices, Overrides, shipped
from suffice.catalogue.entries import ApiPrice, Dtype, Price
from suffice.catalogue.own import parse_own_catalogue
from suffice.errors import UsageError
from suffice.loaders.catalogue import load_catalogue

OWN = """
[[device]]
id = "x100"
name = "Our X100"
kind = "npu"
memory_gb = 48
bandwidth_gb_per_s = 900.5
tflops = { bf16 = 200, int8 = 400 }
lacks = ["fp8"]
aliases = ["The X"]
source = "vendor's mail"
seen = 2026-11-01

[[device]]
id = "H100-SXM5"
bandwidth_gb_per_s = 3000
tflops = { fp8 = 1700 }
source = "our measurement"
seen = "2026-11"

[[instance]]
provider = "AWS"
name = "c7i.4xlarge"
price_per_hour = 0.5
currency = "EUR"
region = "eu-west-1"
source = "our contract"
seen = "2026-10-05"

[[instance]]
provider = "basement"
name = "box-1"
vcpu = 16
memory_gib = 64
read_gb_per_s = 55
source = "suffice bandwidth"
seen = 2026-11-02

[[api]]
platform = "Ours"
model = "big"
input_per_million = 1
output_per_million = 2.5
currency = "USD"
source = "list"
seen = "2026-09"
"""


def test_entries_of_the_user_are_added_and_found() -> None:
    """A new device, machine and API price stand in front, in base units, with source, date and the file as origin."""
    catalogue = shipped().with_overrides(parse_own_catalogue(OWN, source="my.toml"))
    device = catalogue.device_named("the x")
    assert (device.id, device.memory_bytes, device.origin) == ("x100", 48e9, "my.toml")
    assert device.bandwidth_bytes_per_s is not None
    assert (device.bandwidth_bytes_per_s.value, device.bandwidth_bytes_per_s.seen) == (900.5e9, "2026-11-01")
    assert device.flop_per_s[Dtype.INT8].value == 400e12
    assert (device.supports("bf16"), device.supports("fp8"), device.supports("fp4")) == (True, False, None)
    box = catalogue.instance_named("box-1")
    assert (box.key, box.memory_bytes, box.price) == ("basement/box-1", 64 * 2**30, None)
    assert box.read_bytes_per_s is not None
    assert box.read_bytes_per_s.value == 55e9
    assert catalogue.api_named("big")[0].output_per_million == 2.5
    assert catalogue.devices[0].id == "x100"
    assert len(catalogue.devices) == len(shipped().devices) + 1


def test_an_entry_of_the_user_changes_what_it_states_and_nothing_else() -> None:
    """The rest of a shipped device stays, rates by type included, and the source says which is whose."""
    catalogue = shipped().with_overrides(parse_own_catalogue(OWN, source="my.toml"))
    device, before = catalogue.device_named("h100-sxm5"), shipped().device_named("h100-sxm5")
    assert device.bandwidth_bytes_per_s is not None
    assert (device.bandwidth_bytes_per_s.value, device.bandwidth_bytes_per_s.source) == (3000e9, "our measurement")
    assert (device.memory_bytes, device.name) == (before.memory_bytes, before.name)
    assert device.flop_per_s[Dtype.FP8].value == 1700e12
    assert device.flop_per_s[Dtype.BF16] == before.flop_per_s[Dtype.BF16]
    assert device.source.startswith("bandwidth_bytes_per_s, flop_per_s: our measurement; the rest: ")
    machine, old = catalogue.instance_named("c7i.4xlarge"), shipped().instance_named("c7i.4xlarge")
    assert machine.price is not None
    assert (machine.price.per_hour, machine.price.currency, machine.price.origin) == (0.5, "EUR", "my.toml")
    assert (machine.vcpu, machine.read_bytes_per_s) == (old.vcpu, old.read_bytes_per_s)
    assert len(catalogue.instances) == len(shipped().instances) + 1


def test_nothing_stated_changes_nothing() -> None:
    """An empty file is a file of no entries."""
    assert parse_own_catalogue("", source="my.toml") == Overrides()
    assert shipped().with_overrides(Overrides()) == shipped()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\nbandwith=1", ["unknown key 'bandwith'", "allowed are", "bandwidth_gb_per_s"]),
        ("[[devices]]\nid='a'", ["'devices'", "[[device]], [[instance]], [[api]]"]),
        ("[[device]]\nid='a'\nseen='2026'", ["'source' is missing", "where the numbers are from"]),
        ("[[device]]\nid='a'\nsource='s'", ["'seen' is missing", "2026-11-30"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='yesterday'", ["'seen'", "yesterday"]),
        ("[[device]]\nid='a'\nsource=' '\nseen='2026'", ["'source'"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\nbandwidth_gb_per_s=0", ["bandwidth_gb_per_s", "greater than or equal to"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\nbandwidth_gb_per_s=inf", ["bandwidth_gb_per_s"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\nbandwidth_gb_per_s='900'", ["bandwidth_gb_per_s"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\ntflops={bf61=1}", ["'bf61' is no type", "bf16"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\ntflops={bf16=1}\nlacks=['bf16']", ["'bf16'", "keep one"]),
        ("[[instance]]\nprovider='aws'\nname='x'\nsource='s'\nseen='2026'\nprice_per_hour=1", ["currency", "region"]),
        ("[[instance]]\nprovider='aws'\nname='x'\nsource='s'\nseen='2026'\ncurrency='USD'", ["price_per_hour"]),
        ("[[instance]]\nprovider='aws'\nname='x'\nsource='s'\nseen='2026'\nprice_per_hour=1\ncurrency='usd'\nregion='r'", ["currency"]),
        ("[[api]]\nplatform='p'\nmodel='m'\nsource='s'\nseen='2026'\ncurrency='USD'\noutput_per_million=1", ["'input_per_million' is missing"]),
        ("[device]\nid='a'", ["double brackets"]),
        ("device = 3", ["double brackets"]),
        ("[[device]\n", ["not valid TOML"]),
        ("[[device]]\nid='a'\nsource='s'\nseen='2026'\n[[device]]\nid='A'\nsource='s'\nseen='2026'", ["two [[device]] entries for 'a'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_the_line_of_what_is_allowed(text: str, words: list[str]) -> None:
    """One sentence with the file, the entry and the key."""
    with pytest.raises(UsageError) as raised:
        parse_own_catalogue(text, source="my.toml")
    message = str(raised.value)
    assert message.startswith("my.toml")
    assert [word for word in words if word not in message] == []


def test_newer_prices_replace_older_ones_and_no_others() -> None:
    """A price of a later date is used; one of the same day, an older one and one of an unknown machine change nothing."""

    def fresh(date: str, key: str = "aws/c7i.4xlarge") -> FreshPrices:
        price = Price(per_hour=9.0, currency="USD", region="us-east-1", date=date, source="s", origin="f.json")
        return FreshPrices(machines=((key, price),))

    base = shipped()
    assert base.with_prices(fresh("2026-07-20")) == base
    assert base.with_prices(fresh("2026-07-19")) == base
    assert base.with_prices(fresh("2026-07-21", "aws/none.such")) == base
    newer = base.with_prices(fresh("2026-07-21")).instance_named("c7i.4xlarge").price
    assert newer is not None
    assert (newer.per_hour, newer.origin) == (9.0, "f.json")
    unpriced = base.with_prices(fresh("2020-01-01", "azure/Standard_D64as_v5")).instance_named("D64as_v5").price
    assert unpriced is not None


def test_newer_api_prices_replace_those_of_the_same_tier() -> None:
    """Same platform, model, tier and currency: replaced; another tier stays; a new model is added."""

    def price(model: str, tier: str | None, date: str) -> ApiPrice:
        return ApiPrice(
            platform="DeepSeek", model=model, tier=tier, input_per_million=7.0, output_per_million=8.0, currency="USD",
            date=date, source="s", seen=date, origin="f.json",
        )  # fmt: skip

    base = shipped()
    fresh = FreshPrices(apis=(price("deepseek-flash", None, "2026-11-30"), price("new", None, "2026-11-30")))
    found = base.with_prices(fresh)
    assert sorted(api.input_per_million for api in found.api_named("deepseek-flash")) == [0.15, 1, 2, 7.0]
    assert found.api_named("new")[0].origin == "f.json"
    assert base.with_prices(FreshPrices(apis=(price("deepseek-flash", None, "2026-11-29"),))) == base


def test_the_users_entries_stand_over_refreshed_prices(tmp_path: Path) -> None:
    """The file that is given at the command line has the last word; what cannot be read is one sentence."""
    own = tmp_path / "my.toml"
    own.write_text(OWN, encoding="utf-8")
    loaded = load_catalogue(own, cache_root=tmp_path / "cache")
    price = loaded.catalogue.instance_named("c7i.4xlarge").price
    assert price is not None
    assert price.origin == str(own)
    assert (loaded.saved, loaded.warnings) == ((), ())
    with pytest.raises(UsageError, match=r"none\.toml does not exist"):
        load_catalogue(tmp_path / "none.toml", cache_root=tmp_path)


def test_the_example_of_the_docs_is_accepted() -> None:
    """What readers paste from docs/catalogue.md works, and changes what it says."""
    text = (Path(__file__).parents[2] / "docs" / "catalogue.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 1
    catalogue = shipped().with_overrides(parse_own_catalogue(blocks[0], source="docs"))
    bandwidth = catalogue.device_named("h100-sxm5").bandwidth_bytes_per_s
    assert bandwidth is not None
    assert bandwidth.value == 3000e9
    assert catalogue.instance_named("cellar/box-1").vcpu == 16
