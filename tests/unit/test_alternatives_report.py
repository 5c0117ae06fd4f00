"""Alternatives as text, Markdown and data: the same figures, with a source for each price, and nothing that a name could break."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from datetime import date

import pytest

from helpers.hostile import HOSTILE
from suffice.catalogue.catalogue import shipped
from suffice.decide.alternatives import Alternatives, Room
from suffice.decide.alternatives_words import TENSOR_SPLIT_NOTE, file_name, quality_check, quoted, rpc_commands
from suffice.loaders.alternatives import alternatives_for
from suffice.loaders.reference import resolve_model
from suffice.model.demand import single_stream_need
from suffice.model.rpc import RpcChain
from suffice.report.alternatives import (
    alternatives_document,
    alternatives_markdown,
    alternatives_sentences,
    alternatives_text,
)
from suffice.report.json_values import json_text
from suffice.units import GIB

MODEL = resolve_model("llama-3.1-70b:q4_k_m")


@pytest.fixture(scope="module")
def found() -> Alternatives:
    """For one stream of 5 tokens/s."""
    return alternatives_for(single_stream_need(5.0), MODEL, shipped(), today=date(2026, 11, 30))


def test_what_is_lacking_comes_first(found: Alternatives) -> None:
    """The model's bytes and cache, then the machines at hand."""
    rooms = (
        Room(name="laptop", usable_bytes=8 * GIB, fits=False),
        Room(name="server", usable_bytes=64 * GIB, fits=True),
        Room(name="old record", usable_bytes=None, fits=None),
    )

    lines = alternatives_text(replace(found, rooms=rooms)).splitlines()

    assert lines[0].startswith("llama-3.1-70b:q4_k_m needs 39.83 GiB: 39.59 GiB of weights and ")
    assert lines[1:4] == [
        "laptop has 8.00 GiB for it: it does not hold it.",
        "server has 64.00 GiB for it: it holds it.",
        "old record has an unknown memory for it: whether it holds it is not known.",
    ]


def test_each_way_is_a_row_of_the_text_and_of_the_markdown(found: Alternatives) -> None:
    """Model, machine and the point of the rate, with its range."""
    text, markdown = alternatives_text(found), alternatives_markdown(found)

    for item in found.items:
        assert item.decode is not None
        assert item.decode.low is not None
        rate = f"{item.decode.point:.4g} tokens/s ({item.decode.low:.3g} to "
        assert any(item.model in line and item.where in line and rate in line for line in text.splitlines())
        assert rate in markdown


def test_text_and_data_agree(found: Alternatives) -> None:
    """The bills of the table are those of the document, to the unit."""
    document = alternatives_document(found)
    text = alternatives_text(found)

    assert len(document["alternatives"]) == len(found.items)
    for row in document["alternatives"]:
        if row["monthly_cost"] is not None:
            assert f"{row['monthly_cost']:,.0f} {row['currency']}" in text
        assert row["fits"] is True
    assert document["needed_bytes"] == found.weights_bytes + (found.cache_bytes or 0.0)
    assert json.loads(json_text(document))["model"] == "llama-3.1-70b:q4_k_m"


def test_no_price_is_without_currency_region_date_and_source(found: Alternatives) -> None:
    """In the data, in the table with the number of its source, and in the sentences."""
    text = alternatives_text(found)
    numbers = dict(re.findall(r"^\[(\d+)\] (.+)$", text, re.MULTILINE))
    for row in alternatives_document(found)["alternatives"]:
        assert (row["monthly_cost"] is None) == (row["prices"] == [])
        for tag in row["prices"]:
            assert all(tag[key] for key in ("amount", "unit", "currency", "region", "date", "source"))
            number = next(number for number, source in numbers.items() if source == tag["source"])
            assert f"{tag['region']}, {tag['date']} [{number}]" in text
            assert any(
                tag["source"] in sentence and tag["date"] in sentence for sentence in alternatives_sentences(found)
            )


def test_an_old_price_is_marked() -> None:
    """Two years later each price is; a mark is explained, and there is none where nothing is old."""
    later = alternatives_for(single_stream_need(5.0), MODEL, shipped(), today=date(2028, 11, 30))
    now = alternatives_for(single_stream_need(5.0), MODEL, shipped(), today=date(2026, 11, 30))

    assert "* the price is over" in alternatives_text(later)
    assert "2026-07-20* [" in alternatives_text(later)
    assert "* the price is over" not in alternatives_text(now)


def test_the_chain_is_in_the_data(found: Alternatives) -> None:
    """Bytes and round trips of a token, and the network's share at best and at worst."""
    rows = [row for row in alternatives_document(found)["alternatives"] if row["chain"] is not None]

    assert rows
    for row in rows:
        chain = row["chain"]
        assert chain["hidden_state_bytes"] == 32_768
        assert chain["bytes_per_token"] == chain["crossings"] * 32_768 + chain["logits_bytes"]
        assert 0 < chain["network_s_at_best"] < chain["network_s_at_worst"]


def test_what_is_right_instead_of_tensor_split_is_said(found: Alternatives) -> None:
    """`--rpc` and `rpc-server` reach other machines; `--tensor-split` divides what is there; the network must be private."""
    for text in (alternatives_text(found), alternatives_markdown(found)):
        assert "rpc-server" in text
        assert "private network" in text
    assert "--rpc HOST:PORT" in TENSOR_SPLIT_NOTE
    server, main = rpc_commands(
        RpcChain(machines=3, n_embd=8192, n_vocab=128_256),
        80,
        "llama-3.1-70b:q4_k_m",
        context_tokens=8000,
        streams=3,
        kv_type="q8_0",
    )
    assert server.startswith("rpc-server -H PRIVATE_ADDRESS -p 50052")
    assert "--rpc HOST2:50052,HOST3:50052 -ngl 54" in main
    assert " -c 24576 -np 3 -ctk q8_0 -ctv q8_0 -cram 0 " in main  # three of 8,192, and not the model's 131,072
    assert "--tensor-split" not in main


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_from_outside_stays_a_name(found: Alternatives, name: str) -> None:
    """No line break, no control character and no markup reach a reader, and no command is made of it."""
    hostile = replace(
        found,
        model=name,
        items=tuple(replace(item, model=name, where=name) for item in found.items[:2]),
        missing=(name,),
    )

    text, markdown = alternatives_text(hostile), alternatives_markdown(hostile)

    assert len(text.splitlines()) == len(alternatives_text(replace(hostile, model="m", missing=("m",))).splitlines())
    assert not set("\x1b\x00\x07\u2028\u202e") & set(text + markdown)
    assert "<script>" not in markdown
    assert len(alternatives_sentences(hostile)) == 3
    assert shlex.split(quoted(name)) == [name]


def test_a_command_quotes_what_is_no_plain_word() -> None:
    """What somebody pastes runs suffice, and nothing beside it."""
    check = quality_check("a; rm -rf ~:q4_k_m")

    assert shlex.split(check.command)[:2] == ["suffice", "quants"]
    assert "a; rm -rf ~-q4_k_m.gguf" in shlex.split(check.command)
    assert quoted("llama-3.1-70b:q4_k_m") == "llama-3.1-70b:q4_k_m"
    assert quoted("-o") == "'-o'"
    assert file_name("/models/mine.gguf") == "mine.gguf"


def test_nothing_found_is_no_empty_table(found: Alternatives) -> None:
    """The reasons stand alone."""
    none = replace(found, items=(), missing=("gpu: none",))

    assert "gpu: none" in alternatives_text(none)
    assert "per month" not in alternatives_text(none)
    assert "|" not in alternatives_markdown(none)
