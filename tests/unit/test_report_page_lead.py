"""The sentence that a manager reads, in both languages and for every outcome."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.pages import given, one_stream, plan, record, with_latency
from helpers.records import bare_record
from helpers.served import load, rate_demand, server
from suffice.records.schema import ContentionRecord
from suffice.report.page.build import build_page
from suffice.report.page.costs import cheapest_text
from suffice.report.page.lead import lead_sentence
from suffice.report.page.model import Language, Role, Sentence
from suffice.report.page.words import words_for
from suffice.units import GIB

EN, ZH = words_for(Language.EN), words_for(Language.ZH)


def test_a_cpu_that_is_enough() -> None:
    """The figure, the end that decides, the need with its margin, and that nothing has to be bought."""
    page = given(one_stream(), record())

    assert lead_sentence(page, EN) == (
        "The CPU you have is enough: it writes 31 tokens/s (at least 30.38 tokens/s) where 12 tokens/s are needed with the "
        "margin of 1.5; no machine needs to be bought."
    )
    assert lead_sentence(page, ZH) == (
        "现有的 CPU 够用：生成速度为 31 token/s（至少 30.38 token/s），需要 12 token/s（已计入 1.5 倍余量）；不需要购买任何机器。"
    )


def test_a_cpu_that_is_too_slow() -> None:
    """It misses the need itself, so that no margin is named, and a GPU is."""
    told = lead_sentence(given(one_stream(), record(decode=4.0)), EN)

    assert told == (
        "The CPU you have is not enough: it writes 4 tokens/s (at most 4.08 tokens/s) where 8 tokens/s are needed. "
        "A GPU is needed, or a faster machine."
    )


def test_a_thin_margin() -> None:
    """The need is met; a smaller quantization is tried before money is spent."""
    told = lead_sentence(given(one_stream(), record(decode=10.0)), EN)

    assert told.startswith("The CPU you have meets the need, but not the whole margin: it writes 10 tokens/s")
    assert "12 tokens/s are needed with the margin of 1.5" in told


def test_a_model_that_does_not_fit() -> None:
    """Memory is named, and a machine with more of it."""
    told = lead_sentence(given(one_stream(memory_bytes=GIB / 2), record()), EN)

    assert told.startswith("The machine you have is too small: the model takes")
    assert "512.00 MiB are there" in told


def test_a_busy_machine_settles_nothing() -> None:
    """What a busy machine does not reach is not called too slow."""
    busy = record(decode=4.0, disturbed=True, contention=ContentionRecord(disturbed=True, reasons=("a build ran",)))

    assert lead_sentence(given(one_stream(), busy), EN).startswith("Not decided yet: it writes ")


def test_nothing_measured() -> None:
    """No figure is made up where there is none."""
    told = lead_sentence(given(one_stream(), bare_record(None)), EN)

    assert told == "Not decided yet: how it stands for decode is not known."


def test_several_machines_are_named() -> None:
    """With more than one machine the one that decides is named, not "the CPU you have"."""
    told = lead_sentence(given(one_stream(), record(), record(decode=50.0, machine="Other")), EN)

    assert told.startswith("Test CPU 8375C is enough: it writes 31 tokens/s")


def test_a_gpu_that_was_measured() -> None:
    """It is named where the CPU beside it fails."""
    card = record(decode=90.0, machine="Card", device_kind="gpu")
    told = lead_sentence(given(one_stream(), record(decode=4.0), card), EN)

    assert told.startswith("A GPU is needed, and Card is enough: it writes 90 tokens/s")


def test_a_gpu_alone_proves_no_need_of_one() -> None:
    """Nobody knows whether a CPU would do."""
    told = lead_sentence(given(one_stream(), record(decode=90.0, machine="Card", device_kind="gpu")), EN)

    assert told == "Not decided: no CPU was measured, so nobody knows whether a GPU is needed. Card: enough."


@pytest.mark.parametrize(
    ("is_gpu", "begins"), [(False, "the server is enough"), (None, "Not decided: nobody said whether the server")]
)
def test_loads_on_a_server(is_gpu: bool | None, begins: str) -> None:  # noqa: FBT001  # parametrized
    """A server is called by its name; what it runs on has to be said by somebody."""
    evidence = server(load(4.0), load(6.0), load(8.0, ttft_s=3.0), is_gpu=is_gpu)

    assert lead_sentence(given(rate_demand(), servers=(evidence,)), EN).startswith(begins)


def test_the_cheapest_option_follows_where_money_has_to_be_spent() -> None:
    """With a plan, the page of a CPU that is not enough names the cheapest offer with its price's date; the one of a CPU that is does not."""
    slow, fast = (given(one_stream(), record(decode=rate), plan=plan()) for rate in (4.0, 31.0))
    sentences = [
        [block.text.text for block in build_page(one).sections[0].blocks if isinstance(block, Sentence)]
        for one in (slow, fast)
    ]

    offer = "The cheapest option to rent that would be enough for toy is aws/c7i.4xlarge (predicted), for 521.22 USD a month (prices of 2026-07-20)."
    assert cheapest_text(slow, EN) == offer
    assert offer in sentences[0]
    assert offer not in sentences[1]


def test_few_requests_are_counted_by_the_day() -> None:
    """0.0025 requests/s mean nothing to a reader; 216 requests a day do."""
    told = lead_sentence(given(with_latency(requests_per_second=0.0025), record()), EN)

    assert "where 324 requests/day are needed with the margin of 1.5" in told


def test_a_contradiction_comes_before_any_figure() -> None:
    """Evidence that contradicts itself gives no figure to a manager."""
    page = given(one_stream(), record(contradictions=("faster than memory",)))

    assert lead_sentence(page, EN) == "Not decided: the evidence contradicts itself."


def test_the_verdict_is_the_first_thing_that_is_read() -> None:
    """The first block of the first section is the lead, in both languages."""
    for language in Language:
        first = build_page(given(with_latency(), record()), language).sections[0].blocks[0]
        assert isinstance(first, Sentence)
        assert first.role is Role.LEAD


def test_what_is_english_only_is_marked_in_chinese() -> None:
    """Advice, notes and warnings keep their language, and say so."""
    busy = record(decode=4.0, disturbed=True, contention=ContentionRecord(disturbed=True, reasons=("a build ran",)))
    page = build_page(given(replace(one_stream(), margin=2.0), busy), Language.ZH)
    sentences = [block for section in page.sections for block in section.blocks if isinstance(block, Sentence)]

    marked = {sentence.text.text for sentence in sentences if sentence.text.lang == "en"}
    assert any("a build ran" in text for text in marked)
    assert any(sentence.role is Role.NEXT and sentence.text.lang == "en" for sentence in sentences)
    assert all(sentence.label == "" or sentence.label.endswith("：") for sentence in sentences)
