"""The parts of an answer of the what-if page: which come early, which are final, and that nothing else than the form decides about them."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from helpers.pages import whole
from helpers.records import run_record
from suffice.catalogue.catalogue import shipped
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.errors import UsageError
from suffice.loaders.demand import parse_demand
from suffice.loaders.planning import PlanRequest
from suffice.loaders.reference import resolve_model
from suffice.report.page.costs import cost_section
from suffice.report.page.model import Language, Sentence
from suffice.report.page.words import words_for
from suffice.report.plan_document import plan_document
from suffice.web import answer as answer_module
from suffice.web.answer import Bench, Wait
from suffice.web.choices import Models
from suffice.web.early import Leaders, Rests, full_plan
from suffice.web.form import default_form, form_of, with_choice
from suffice.web.lanes import Lane, done
from suffice.web.page import Pages, Setting, View
from suffice.web.runs import NamedRecord
from suffice.web.words import texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.catalogue.catalogue import Catalogue
    from suffice.decide.plan_types import Plan
    from suffice.web.form import Form

TODAY = date(2026, 11, 30)
SOON_S = 20.0
NAMES = ("aws/c7i.4xlarge", "aws/g5.xlarge", "aws/g4dn.xlarge", "gcp/n2-standard-16", "alicloud/ecs.c7.4xlarge")
USERS = {
    "prompt_p50": "256",
    "prompt_p95": "",
    "output_p50": "64",
    "output_p95": "",
    "ttft_s": "9",
    "concurrent_users": "2",
}


def small() -> Catalogue:
    """A catalogue of a few machines."""
    whole = shipped()
    return replace(whole, instances=tuple(one for one in whole.instances if one.key in NAMES))


def form_with(model: str = "record-1", quantization: str = "", **changes: str) -> Form:
    """The default form with a model and some fields typed anew."""
    start = with_choice(default_form(), model=model, quantization=quantization)
    return form_of(dict(start.key) | changes, start)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """With one record and a small catalogue."""
    record = run_record()
    found = Bench(
        records=[NamedRecord(file="run.json", record=record)],
        catalogue=small(),
        models=Models(None, None, [record]),
        kept={},
        today=lambda: TODAY,
    )
    yield found
    found.close()


def result(bench: Bench, form: Form, waits: Wait) -> str:
    """The part of the page that an answer fills."""
    setting = Setting(models=bench._models, machines=("Test CPU",), kept=(), file=None, csrf="")
    return Pages(setting).result(View(form=form, language=Language.EN, answer=bench.answer(form, waits)))


def held_up(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Whole plans are made once this is set."""
    gate = threading.Event()

    def late(request: PlanRequest) -> Plan:
        assert gate.wait(SOON_S)
        return full_plan(request)

    monkeypatch.setattr(answer_module, "full_plan", late)
    return gate


def test_users_get_a_coarse_verdict_that_says_so(bench: Bench) -> None:
    """The first answer is marked as provisional, and the final one replaces it with what `suffice decide` says, and no mark."""
    form = form_with(**USERS)
    first = bench.answer(form, Wait.FIRST)
    early = result(bench, form, Wait.FIRST)
    whole = bench.answer(form)
    final = result(bench, form, Wait.ALL)

    assert (first.rests, first.is_whole) == (Rests.COARSE, False)
    assert first.decision is not None
    assert first.decision.verdict.settle is None
    assert "(provisional)" in early
    assert "coarse simulation" in early
    assert (whole.rests, whole.is_whole) == (Rests.FINAL, True)
    assert whole.decision == decide(whole.demand, [evidence_from(run_record(), "Test CPU")])
    assert "rovisional" not in final
    assert "data-pending" not in final


def test_another_margin_needs_no_new_simulation_to_be_told(bench: Bench) -> None:
    """A capacity of before is held against the new margin at once, with the margin that was asked for and without latencies of before."""
    bench.answer(form_with(**USERS))

    first = bench.answer(form_with(**USERS, margin="1.1"), Wait.FIRST)

    assert first.rests is Rests.BEFORE
    assert first.decision is not None
    service = first.decision.verdict.service
    assert service is not None
    assert service.served is not None
    assert service.served.case.margin == 1.1
    assert (service.served.ttft, service.served.tpot) == (None, None)


def test_one_stream_has_its_final_verdict_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is arithmetic: only the plan is waited for, and the verdict does not quote a provisional plan."""
    gate = held_up(monkeypatch)

    first = bench.answer(form_with("llama-3.1-8b", "q4_k_m"), Wait.FIRST)
    alone = bench.answer(form_with(), Wait.FIRST)
    gate.set()

    assert (first.plan, first.is_whole) == (None, False)
    assert alone.rests is Rests.FINAL
    assert alone.decision is not None


def test_a_plan_over_few_machines_says_of_how_many(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the whole plan is there, one over the machines that led before is shown with their number; then the whole one without."""
    bench.answer(form_with("llama-3.1-8b", "q4_k_m", margin="1.1"))
    gate = held_up(monkeypatch)
    form = form_with("llama-3.1-8b", "q4_k_m", margin="1.2")

    early = bench.answer(form, Wait.FIRST)
    text = result(bench, form, Wait.FIRST)
    gate.set()
    whole = bench.answer(form)

    assert early.plan is not None
    assert early.plan_machines in range(1, len(NAMES) + 1)
    assert (early.plan.crossovers, early.plan.notes) == ((), ())
    assert f"the plan is of {early.plan_machines} machines that led before. All {len(NAMES)} of the catalogue" in text
    assert "(provisional)" in text
    assert whole.plan_machines is None
    assert whole.plan == full_plan(plan_request(whole.toml))


def plan_request(toml: str) -> PlanRequest:
    """What the command line would plan for a demand."""
    model = resolve_model("llama-3.1-8b:q4_k_m")
    return PlanRequest(demand=parse_demand(toml, source="a test"), model=model, catalogue=small(), today=TODAY)


def test_an_early_plan_in_which_nothing_is_enough_is_not_shown() -> None:
    """That none of a few machines is enough says nothing of the others."""
    request = plan_request(
        '[demand]\nkind = "interactive"\nprompt_tokens = 512\noutput_tokens = 128\nttft_s = 0.0001\n'
    )

    assert Leaders().plan(request).plan is None


def documents(order: list[Form]) -> dict[tuple[tuple[str, str], ...], dict[str, Any]]:
    """The plans of forms that one process answers in this order."""
    record = run_record()
    bench = Bench(
        records=[NamedRecord(file="run.json", record=record)],
        catalogue=small(),
        models=Models(None, None, [record]),
        kept={},
        today=lambda: TODAY,
    )
    found = {}
    for form in order:
        answer = bench.answer(form)
        assert answer.plan is not None
        found[form.key] = plan_document(answer.plan, answer.demand)
    bench.close()
    return found


def test_the_order_of_questions_changes_no_answer() -> None:
    """Two orders of the same forms give the same documents: what a screen learned for one plan is not used for the next."""
    forms = [
        form_with("llama-3.1-8b", quantization, **USERS | {"concurrent_users": users})
        for users, quantization in (("2", "q4_k_m"), ("5", "q4_k_m"), ("3", "q8_0"))
    ]

    assert documents(forms) == documents(forms[::-1])


def test_a_plan_does_not_depend_on_the_one_before() -> None:
    """A machine that held 12 users is not taken for one that holds 3 with four times the room: a new process would not know it."""
    requests = [
        replace(
            plan_request(
                f'[demand]\nkind = "interactive"\nprompt_tokens = 256\noutput_tokens = 64\nttft_s = 9\nconcurrent_users = {users}\n'
            ),
            exact=0,  # with figures of its own each of so few machines would be the same anyway
        )
        for users in (12, 3)
    ]

    orders = [full_plan(one) for one in requests], [full_plan(one) for one in requests[::-1]][::-1]

    assert orders[0] == orders[1]


@pytest.mark.parametrize("language", list(Language))
def test_what_is_left_out_is_found_by_a_command(language: Language) -> None:
    """A report names its plan's file for the options that it leaves out; the page has none."""
    given = whole()
    assert given.plan is not None
    more = tuple(replace(given.plan.options[0], name=f"one more, {number}") for number in range(12))
    crowded = replace(given.plan, options=(*given.plan.options, *more))
    asked = replace(given, plan=crowded, left_out=texts_of(language)["plan.more"])

    (told,) = [
        block
        for block in cost_section(asked, words_for(language)).blocks
        if isinstance(block, Sentence) and "`suffice plan`" in block.text.text
    ]

    assert str(len(crowded.options) - 12) in told.text.text
    report = cost_section(replace(asked, left_out=None), words_for(language))
    assert words_for(language).text("cost.more", count=f"{len(crowded.options) - 12}") in [
        block.text for block in report.blocks if isinstance(block, Sentence)
    ]


def test_two_browsers_do_not_call_each_others_work_off(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """What somebody waits for stays; what nobody waits for and nobody has begun is called off, and asked for again it is answered."""
    gate = held_up(monkeypatch)
    forms = [form_with("llama-3.1-8b", "q4_k_m", margin=margin) for margin in ("1.1", "1.2", "1.3")]
    found: list[Plan | None] = []
    browsers = [threading.Thread(target=lambda one=form: found.append(bench.answer(one).plan)) for form in forms]
    for browser in browsers:
        browser.start()
    gate.set()
    for browser in browsers:
        browser.join(SOON_S)

    assert len(found) == len(forms)
    assert None not in found
    assert bench.answer(forms[0]).is_whole


def test_nobody_waits_once_it_closes(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that waits for a simulation is let go at once, and is not whole."""
    gate = held_up(monkeypatch)
    found: list[bool] = []
    form = form_with("llama-3.1-8b", "q4_k_m")
    asking = threading.Thread(target=lambda: found.append(bench.answer(form).is_whole))
    asking.start()

    bench.close()
    asking.join(SOON_S)
    told = list(found)  # before the plan could be made
    gate.set()

    assert told == [False]


def test_what_is_refused_stays_refused() -> None:
    """A refusal is the result of its part and of no other; the lane goes on."""
    lane = Lane("test", at_once=1)

    def refuse() -> int:
        raise UsageError("no")

    refused, after = lane.submit(refuse), lane.submit(lambda: 7)

    assert after.result(SOON_S) == 7
    with pytest.raises(UsageError, match="no"):
        done(refused)


def test_a_lane_runs_in_order_and_after_what_it_is_told() -> None:
    """One at a time, in the order of coming; with ``after`` not before that is done; closed, it begins nothing."""
    lane, other = Lane("test", at_once=1), Lane("other", at_once=1)
    gate = threading.Event()
    told: list[str] = []

    def held() -> None:
        gate.wait(SOON_S)
        told.append("first")

    first = lane.submit(held)
    last = other.submit(lambda: told.append("last"), after=first)
    called_off = lane.submit(lambda: told.append("never"))
    assert called_off.cancel()
    gate.set()
    last.result(SOON_S)
    lane.close()
    late = lane.submit(lambda: told.append("late"))

    assert told == ["first", "last"]
    assert not late.done()
