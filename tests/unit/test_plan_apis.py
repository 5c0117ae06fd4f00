"""Which API serves which model, at which of its prices, and how it stands."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from suffice.catalogue.catalogue import shipped
from suffice.catalogue.entries import ApiPrice
from suffice.decide.plan_apis import ApiWish, api_options, bare_name
from suffice.decide.verdict import Grade
from suffice.loaders.plan_prices import tagged_apis
from suffice.loaders.planning import names_of
from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.model.cost import Volume
from suffice.model.demand import Demand, DemandKind, Lengths, Limit

TODAY = date(2026, 11, 30)
VOLUME = Volume(requests=1000, prompt_tokens=500, output_tokens=100)
BATCH = Demand(
    kind=DemandKind.BATCH,
    requests_per_second=0.01,
    prompt_tokens=Lengths(p50=500, p95=500),
    output_tokens=Lengths(p50=100, p95=100),
)
API = ApiPrice(
    platform="P",
    model="Qwen/Qwen3-8B",
    input_per_million=1.0,
    output_per_million=2.0,
    currency="USD",
    date="2026-11-29",
    source="list",
    seen="2026-11-29",
)


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3-1-8b"),
        ("qwen/qwen3-8b-fp8", "qwen3-8b"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("qwen3-next-80b-a3b-instruct", "qwen3-next-80b-a3b"),
        ("Qwen3-8B-Q4_K_M", "qwen3-8b"),
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M", "llama-3-1-8b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("Qwen3-32B-UD-Q4_K_XL-00001-of-00002", "qwen3-32b"),
        ("Qwen3-32B-IQ4_NL", "qwen3-32b"),
        ("Qwen3-32B-Q4-Uncensored", "qwen3-32b-q4-uncensored"),
        ("Meta-Llama-3.1-8B-Q4_K_M-abliterated", "llama-3-1-8b-q4-k-m-abliterated"),
        ("ERNIE Speed / Lite / Tiny", "ernie-speed-lite-tiny"),
        ("deepseek-r1-distill-qwen-14b", "deepseek-r1-distill-qwen-14b"),
        ("Qwen2.5-Coder-7B-Instruct", "qwen2-5-coder-7b"),
    ],
)
def test_a_name_keeps_what_makes_it_another_model(name: str, bare: str) -> None:
    """Vendor, tuning, precision and recipe go; version, size, distillation and speciality stay."""
    assert bare_name(name) == bare


@pytest.mark.parametrize(
    ("model", "served"),
    [
        ("llama-3.1-8b:q4_k_m", {"meta-llama/Meta-Llama-3.1-8B-Instruct"}),
        ("qwen3-8b:q8_0", {"qwen/qwen3-8b-fp8"}),
        ("qwen3-30b-a3b:q4_k_m", {"Qwen/Qwen3-30B-A3B"}),
        ("llama-3-8b:q4_k_m", set()),
        ("qwen3-4b:q4_k_m", set()),
    ],
)
def test_only_the_very_model_is_served(model: str, served: set[str]) -> None:
    """Of the shipped prices; a price of a neighbour in the family is not this model's."""
    wish = ApiWish(names=names_of(resolve_model(model)))

    found = api_options(BATCH, tagged_apis(shipped().apis, TODAY), wish, VOLUME)

    assert {one.name.partition(" (")[0] for one in found} == served


def test_a_name_that_tells_another_size_is_no_match() -> None:
    """A file may be called what it likes: 8 billion parameters are no 70B."""
    model = resolve_model("llama-3.1-8b:q4_k_m")
    assert isinstance(model, ShapeModel)
    renamed = replace(model, reference="llama-3.1-70b:q4_k_m", shape=replace(model.shape, name="llama-3.1-70b"))

    assert names_of(renamed) == ()


def test_a_match_by_name_alone_says_so() -> None:
    """A name without a size, and a file that is called otherwise beside it, may be another model."""
    named = replace(API, model="tiny")

    (sizeless,) = api_options(BATCH, tagged_apis([named], TODAY), ApiWish(names=("Tiny", "tiny-q4_0")), VOLUME)
    (doubtful,) = api_options(BATCH, tagged_apis([API], TODAY), ApiWish(names=("Qwen3 8B", "my-tune")), VOLUME)
    (sure,) = api_options(BATCH, tagged_apis([API], TODAY), ApiWish(names=("Qwen3 8B", "qwen3-8b-q8_0")), VOLUME)

    assert "by its name alone" in sizeless.notes[0]
    assert "also called my-tune" in doubtful.notes[0]
    assert not [note for note in sure.notes if "taken to be" in note]


def test_another_model_is_taken_only_where_it_is_named() -> None:
    """And it is said that its answers are others."""
    (option,) = api_options(
        BATCH, tagged_apis([API], TODAY), ApiWish(names=("llama-3.1-8b",), others=("qwen3-8b",)), VOLUME
    )

    assert "another model" in option.notes[0]
    assert api_options(BATCH, tagged_apis([API], TODAY), ApiWish(names=("llama-3.1-8b",)), VOLUME) == ()


def test_the_bill_is_tokens_times_prices() -> None:
    """1,000 requests of 500 and 100 tokens: 0.5 million at 1 and 0.1 million at 2."""
    (option,) = api_options(BATCH, tagged_apis([API], TODAY), ApiWish(names=("qwen3-8b",)), VOLUME)

    assert option.cost is not None
    assert option.cost.amount == pytest.approx(0.7)
    assert option.grade is Grade.ENOUGH
    assert option.tokens_per_month == 100_000


def test_under_limits_an_api_is_open_and_says_what_settles_it() -> None:
    """Its latency is in no price list."""
    chat = replace(BATCH, kind=DemandKind.INTERACTIVE, ttft=Limit(value_s=2, percentile=95))

    (option,) = api_options(chat, tagged_apis([API], TODAY), ApiWish(names=("qwen3-8b",)), VOLUME)

    assert option.grade is Grade.OPEN
    assert "suffice load URL" in option.reason
    assert option.binding == "ttft_s"


def test_a_context_that_is_too_short_is_not_enough_and_says_by_how_much() -> None:
    """600 tokens against 512."""
    short = replace(API, context_tokens=512)

    (option,) = api_options(BATCH, tagged_apis([short], TODAY), ApiWish(names=("qwen3-8b",)), VOLUME)

    assert option.grade is Grade.NOT_ENOUGH
    assert "88 too few" in option.reason


@pytest.mark.parametrize(
    ("tier", "prompt", "taken"),
    [
        (None, 500, True),
        ("peak", 500, True),
        ("off-peak (outside UTC 01-04)", 500, False),
        ("batch", 500, False),
        ("input 0K-256K tokens", 500, True),
        ("input 256K-1000K tokens", 500, False),
        ("input 256K-1000K tokens", 300_000, True),
        ("input 0K-256K tokens", 300_000, False),
    ],
)
def test_a_tier_is_taken_where_its_condition_holds(tier: str | None, prompt: float, *, taken: bool) -> None:
    """By the P95 of prompts; hours of the day and batches are no condition that a month keeps."""
    demand = replace(BATCH, prompt_tokens=Lengths(p50=prompt, p95=prompt))

    found = api_options(demand, tagged_apis([replace(API, tier=tier)], TODAY), ApiWish(names=("qwen3-8b",)), VOLUME)

    assert bool(found) is taken


def test_without_a_volume_there_is_no_bill_and_it_says_what_lacks() -> None:
    """The prices are shown all the same."""
    (option,) = api_options(BATCH, tagged_apis([API], TODAY), ApiWish(names=("qwen3-8b",)), None)

    assert option.cost is None
    assert "--requests-per-day" in (option.cost_unknown or "")
    assert [price.amount for price in option.prices] == [1.0, 2.0]
