"""``suffice catalog``: what a person sees of the models and devices that suffice knows."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from suffice import cli
from suffice.catalogue.devices import all_devices
from suffice.catalogue.models import all_models

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Calls `suffice catalog ...` in this process: exit code, stdout, stderr."""

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
    rows = {line.split()[0]: line for line in out.splitlines()}
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


@pytest.mark.parametrize("kind", ["models", "devices"])
def test_nothing_found_is_an_error(run: Callable[..., tuple[int, str, str]], kind: str) -> None:
    """One sentence, exit code 2, and how to see everything."""
    code, out, err = run(kind, "no such thing")
    assert (code, out) == (2, "")
    assert "matches 'no such thing'" in err
    assert f"suffice catalog {kind}" in err
