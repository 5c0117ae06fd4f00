"""The sentence that a manager reads, in both languages and for every outcome."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from helpers.pages import MACHINE, given, one_stream, plan, plan_document, record, whole, with_latency
from helpers.records import bare_record
from helpers.served import load, rate_demand, server
from suffice.decide.compare import decide
from suffice.decide.constraint import Constraint, Sense
from suffice.decide.evidence import evidence_from
from suffice.decide.quality import KEPT_UNIT
from suffice.decide.quantity import Quantity
from suffice.decide.verdict import Grade, GradedConstraint
from suffice.model.basis import Basis
from suffice.model.demand import Lengths
from suffice.records.schema import ContentionRecord
from suffice.report.page.build import build_page
from suffice.report.page.costs import cheapest_text, open_text
from suffice.report.page.flips import flip_sentences
from suffice.report.page.lead import clause, lead_sentence, undisturbed_sentence
from suffice.report.page.model import Figures, Language, Picture, Role, Sentence
from suffice.report.page.quantities import required_text
from suffice.report.page.why import reasons
from suffice.report.page.words import words_for
from suffice.report.svg.types import Along, ParetoChart
from suffice.units import GIB

if TYPE_CHECKING:
    from suffice.report.page.given import PageInput
    from suffice.report.page.words import Words

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

    assert told == "Not decided yet: there is no figure for its decode."


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
    slow, fast = (
        given(one_stream(), record(decode=rate), plan=plan(plan_document(one_stream()))) for rate in (4.0, 31.0)
    )
    sentences = [
        [block.text.text for block in build_page(one).sections[0].blocks if isinstance(block, Sentence)]
        for one in (slow, fast)
    ]

    offer = "The cheapest option to rent that would be enough for toy is aws/c7i.4xlarge (predicted), for 521.22 USD a month (prices of 2026-07-20)."
    assert cheapest_text(slow, EN) == offer
    opened = "Cheaper, but not known to be enough, is an-api (host), for 46.25 USD a month (prices of 2026-09)."
    assert f"{offer} {opened}" in sentences[0]
    assert not any(offer in one for one in sentences[1])


def test_few_requests_are_counted_by_the_day_or_the_hour() -> None:
    """0.0025 requests/s mean nothing to a reader: 216 a day where the demand counts by the day, else 9 an hour, with the digits that tell them apart."""
    daily = lead_sentence(given(with_latency(requests_per_second=0.0025, rate_is_daily=True), record()), EN)
    hourly = lead_sentence(given(with_latency(requests_per_second=0.0025, volume_per_day=30.0), record()), EN)

    assert "where 324 requests/day are needed with the margin of 1.5" in daily
    assert "where 13.5 requests/hour are needed with the margin of 1.5" in hourly


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
    """What no phrase of ours says keeps its language, and says so; advice that is known is in Chinese."""
    busy = record(decode=4.0, disturbed=True, contention=ContentionRecord(disturbed=True, reasons=("a build ran",)))
    page = build_page(given(replace(one_stream(), margin=2.0), busy), Language.ZH)
    sentences = [block for section in page.sections for block in section.blocks if isinstance(block, Sentence)]

    marked = {sentence.text.text for sentence in sentences if sentence.text.lang == "en"}
    assert any("a build ran" in text for text in marked)
    advice = next(sentence.text for sentence in sentences if sentence.role is Role.NEXT)
    assert (advice.text, advice.lang) == ("请在没有其他程序运行时重新测量：用同一需求运行 `suffice check`。", None)
    assert all(sentence.label == "" or sentence.label.endswith("：") for sentence in sentences)


def test_a_figure_that_looks_like_enough_says_why_it_settles_nothing() -> None:
    """A figure without an interval, of a busy machine, in a run that was not finished: each is said, in both languages."""
    reasons = ("a build ran",)
    busy = record(
        decode=10.0, complete=False, disturbed=True, contention=ContentionRecord(disturbed=True, reasons=reasons)
    )
    page = given(one_stream(), busy)
    verdict = page.decision.verdict
    single = Quantity(point=31.0, low=None, high=None, basis=Basis.MEASURED)
    constraints = tuple(
        replace(one, constraint=replace(one.constraint, available=single)) for one in verdict.constraints
    )
    page = replace(page, decision=replace(page.decision, verdict=replace(verdict, constraints=constraints)))

    assert lead_sentence(page, EN) == (
        "Not decided yet: it writes 31 tokens/s where 12 tokens/s are needed with the margin of 1.5; that is a single figure without "
        "an interval; it was measured on a busy machine; the run was not finished."
    )
    assert lead_sentence(page, ZH).endswith("；这只是单个数字，没有区间；测量时机器繁忙；运行没有完成。")


def test_one_known_end_of_a_range_is_said() -> None:
    """Where the upper end is not known, the point alone would read as if it were certain."""
    item = next(one for one in given(one_stream(), record()).decision.verdict.constraints if one.constraint.of_speed)
    half = Quantity(point=31.0, low=9.0, high=None, basis=Basis.EXTRAPOLATED)
    opened = replace(item, constraint=replace(item.constraint, available=half), grade=Grade.OPEN)

    assert clause(opened, EN).startswith("it writes 31 tokens/s (at least 9 tokens/s, no upper end known) where 12")


def _disturbed(found: float, quiet: float) -> PageInput:
    """A run of a busy machine, whose undisturbed part reached ``quiet``."""
    busy = record(decode=found, disturbed=True, contention=ContentionRecord(disturbed=True, reasons=("a build ran",)))
    calm = evidence_from(record(decode=quiet), MACHINE)
    page = given(one_stream(), busy)
    evidence = replace(page.runs[0].evidence, undisturbed=calm)
    runs = (replace(page.runs[0], evidence=evidence),)
    return replace(page, runs=runs, decision=decide(page.demand, [evidence]))


@pytest.mark.parametrize("words", [EN, ZH])
def test_another_verdict_without_the_disturbance_follows_the_lead(words: Words) -> None:
    """What the machine can do when nobody disturbs it stands right below, with its figure."""
    page = _disturbed(found=10.0, quiet=31.0)
    blocks = build_page(page, words.language).sections[0].blocks
    marks = [block.text.text for block in blocks if isinstance(block, Sentence) and block.role is Role.MARK]

    assert page.decision.verdict.undisturbed is not None
    assert len(marks) == 1
    assert "31 token" in marks[0]
    assert "“cpu”" in marks[0]


def test_a_disturbance_that_decides_nothing_is_said_not_to() -> None:
    """Both speeds are too slow: the verdict takes no lower bound for it, so neither do its flips, nor the Chinese reason."""
    page = _disturbed(found=4.0, quiet=5.0)
    told = "".join(one.text for one in reasons(page, ZH))

    assert page.decision.verdict.verdict == "gpu"
    assert undisturbed_sentence(page, EN) == ""
    assert "按未受干扰时的速度，结论相同" in told
    assert "速度是下限" not in told
    assert "a build ran" not in told
    assert flip_sentences(page, EN) == list(page.decision.verdict.flips)


def test_what_may_be_lost_is_said_as_a_loss() -> None:
    """Nobody understands that -1 point stands against at least -1 point; a loss of 1 point at most is understood."""
    constraint = Constraint(
        name="quality_kept",
        unit=KEPT_UNIT,
        sense=Sense.AT_LEAST,
        required=0.99,
        available=Quantity(point=0.99, low=0.98, high=1.0, basis=Basis.MEASURED),
        margin=1.0,
        of_speed=False,
        by_test=True,
    )
    told = clause(GradedConstraint(constraint=constraint, grade=Grade.NOT_ENOUGH), EN)

    assert required_text(constraint, EN) == "a loss of 1 point at most"
    assert required_text(constraint, ZH) == "至多损失 1 个百分点"
    assert told.startswith("its score differs from the reference's by -1 point")
    assert told.endswith("where a loss of 1 point at most is allowed")


def test_without_an_option_that_is_enough_the_cheapest_that_may_be_is_named() -> None:
    """And it is said that none is shown to be."""
    document = plan_document(one_stream())
    document["options"] = [one for one in document["options"] if one["verdict"] != "enough"]
    page = given(one_stream(), record(decode=4.0), plan=plan(document))

    assert cheapest_text(page, EN) == ""
    assert open_text(page, EN) == (
        "No option to rent is shown to be enough; the cheapest that may be is an-api (host), for 46.25 USD a month (prices of 2026-09)."
    )


def test_a_load_that_nobody_knows_is_said_as_a_question_of_capacity() -> None:
    """What is missing is what it carries, not a figure of the demand's load."""
    page = given(with_latency(), bare_record(None))

    assert lead_sentence(page, EN) == "Not decided yet: nothing tells what load it carries."
    assert lead_sentence(page, ZH) == "尚未下结论：没有数据说明它能承受多大负载。"


@pytest.mark.parametrize(
    ("language", "alone", "loaded"),
    [
        (Language.EN, "12 tokens/s with the margin of 1.5", "the margin of 1.5 is one of load"),
        (Language.ZH, "计入 1.5 倍余量为 12 token/s", "1.5 倍余量以负载计"),
    ],
)
def test_a_margin_of_load_is_not_put_on_the_need_of_a_stream(language: Language, alone: str, loaded: str) -> None:
    """One stream of 8 tokens/s has to have 12; of two users, or of a rate, each needs 8, and there may be more of them."""
    lengths = Lengths(p50=100, p95=100)
    several = one_stream(prompt_tokens=lengths, output_tokens=lengths)
    demands = {
        alone: [one_stream(), one_stream(concurrent_users=1)],
        loaded: [replace(several, concurrent_users=2), replace(several, requests_per_second=0.05)],
    }

    for said, ones in demands.items():
        for demand in ones:
            page = build_page(replace(whole(), demand=demand), language)
            (figures,) = [one for section in page.sections for one in section.blocks if isinstance(one, Figures)]
            pictures = [one.chart for section in page.sections for one in section.blocks if isinstance(one, Picture)]
            (chart,) = [one for one in pictures if isinstance(one, ParetoChart)]
            (limit,) = [one for one in chart.limits if one.along is Along.X]
            assert figures.items[0].value.value == 8.0
            assert said in figures.items[0].interval.text
            assert said in limit.label
            assert limit.value == (12.0 if said == alone else 8.0)
