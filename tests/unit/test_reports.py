"""What people read: every number with its basis, what qualifies it in sight, and nothing of a stranger's text alive."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from datetime import date

import pytest

from helpers.records import bare_record, batch_demand, evidence, run_record
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.wording import available_text, format_value
from suffice.model.ceiling import ceiling_of_bytes
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.model.roofline import Roofs
from suffice.records.schema import ContentionRecord, EngineRecord, ModelRecord, RunRecord
from suffice.report.ceiling import ceiling_text
from suffice.report.decision import check_document_json, decision_document, decision_text
from suffice.report.json_values import finite, json_text
from suffice.report.memo import memo_markdown
from suffice.report.prospects import CheapestMachines
from suffice.report.run import run_text
from suffice.report.tables import display_width, markdown_table, markdown_text, one_line, plain_table, shortened

HOSTILE = "a|b\n# Verdict: cpu\n<script>alert(1)</script> ![x](http://e) `c` **d** \x1b[31m\u202e & &lt; \x00"
NEED = single_stream_need(8)
CONSTRAINT_NAMES = {
    "name",
    "required",
    "available",
    "headroom",
    "headroom_low",
    "headroom_high",
    "basis",
    "grade",
    "judged",
}


def _memo(record: RunRecord, demand: Demand = NEED) -> str:
    return memo_markdown(demand, decide(demand, [evidence_from(record)]), record)


def test_a_decision_begins_with_its_verdict() -> None:
    """The first line of the text is the verdict; reason and table follow."""
    text = decision_text(decide(NEED, [evidence()]))

    assert text.splitlines()[0] == "verdict: cpu"
    assert "Enough with margin 1.5: decode 20 tokens/s" in text.splitlines()[1]
    assert "at least 8 tokens/s" in text


def test_an_undecided_text_says_what_is_next() -> None:
    """The line after the reason says what would settle it."""
    text = decision_text(decide(NEED, [evidence(decode=8.05)]))

    assert text.splitlines()[2].startswith("next: Measure longer")


def test_several_machines_are_compared_in_the_text() -> None:
    """Each machine's own verdict, the ratio, and the least machine that is enough."""
    text = decision_text(
        decide(NEED, [evidence_from(bare_record(5), "box"), evidence_from(bare_record(50, device_kind="gpu"), "card")])
    )

    assert "card against box: decode 10.00x, prefill unknown (not shown to be the same model file" in text
    assert text.endswith("least machine with the margin: card")


def test_the_json_of_a_decision_has_the_contracts_names() -> None:
    """verdict, reason, binding, basis and constraints with required, available and headroom; unknown is null."""
    document = json.loads(json_text(decision_document(decide(NEED, [evidence_from(bare_record(None))]))))

    assert {"verdict", "reason", "binding", "basis", "constraints"} <= set(document)
    assert set(document["constraints"][0]) >= CONSTRAINT_NAMES
    assert document["constraints"][0]["available"] is None
    assert document["constraints"][0]["headroom"] is None


def test_check_prints_the_record_with_the_verdict_beside() -> None:
    """The run record's own fields are all there, unchanged, and the verdict's are added."""
    record = run_record()

    machines = CheapestMachines(by_currency={}, judged=7, enough=0, today=date(2026, 11, 30))
    document = json.loads(check_document_json(record, decide(NEED, [evidence_from(record)]), machines))

    assert document["verdict"] == "cpu"
    assert (document["cheapest"], document["machines_judged"]) == ([], 7)
    assert {name: document[name] for name in asdict(record)} == json.loads(json_text(asdict(record)))


def test_infinity_becomes_null_and_nan_is_refused() -> None:
    """JSON has neither; a NaN is a bug that must not be printed as a number."""
    assert finite({"a": [float("inf"), 1.0], "b": (float("-inf"),)}) == {"a": [None, 1.0], "b": [None]}
    with pytest.raises(ValueError, match="Out of range"):
        json_text([float("nan")])


def test_the_run_shows_numbers_with_their_intervals() -> None:
    """Decode with its interval, depth, repetitions, threads and why it stopped."""
    text = run_text(run_record())

    assert "decode at depth 512" in text
    assert "20 tokens/s (19.6 to 20.4)" in text
    assert "measured, 8 repetitions, 2 threads, budget spent" in text
    assert not [line for line in text.splitlines() if line.startswith("!")]


def test_what_qualifies_the_numbers_is_marked() -> None:
    """Contradiction, busy machine, unused instruction sets and an unfinished run each get a line of their own."""
    record = run_record(
        contradictions=("over its ceiling",),
        disturbed=True,
        contention=ContentionRecord(disturbed=True, reasons=("steal",)),
        engine=EngineRecord(lower_bound=True, isa_unused=("avx512",), advice="build it"),
        complete=False,
    )

    marks = [line for line in run_text(record).splitlines() if line.startswith("!")]

    for words, line in zip(("over its ceiling", "steal", "avx512", "not finished"), marks, strict=True):
        assert words in line


def test_whether_it_was_busy_can_be_unknown() -> None:
    """Unknown is said, neither "busy" nor silence."""
    assert "whether the machine was busy is not known" in run_text(run_record(disturbed=None))


def test_an_empty_record_prints_unknown_and_no_zero() -> None:
    """A record of nothing shows "unknown" for what it lacks."""
    text = run_text(RunRecord())

    assert "unknown" in text
    assert " 0 " not in text
    assert "0 tokens/s" not in text


def test_the_memo_holds_what_a_review_asks_for() -> None:
    """Verdict first; constraints, demand, run, identity; the basis; what would flip it."""
    demand = replace(
        batch_demand(),
        ttft=Limit(value_s=60, percentile=90),
        prompt_tokens=Lengths(p50=100, p95=512),
        memory_bytes=2e9,
        budget_per_month=10.0,
        currency="CNY",
    )
    memo = _memo(run_record(), demand)

    assert memo.splitlines()[0] == "# Verdict: cpu" or memo.startswith("# Verdict: ")
    for words in (
        "## Constraints",
        "## Demand, as stated",
        "## Run",
        "## Identity",
        "P50 100, P95 512",
        "60.00 s at P90",
    ):
        assert words in memo
    assert "10 CNY a month" in memo
    assert "ab" * 32 in memo
    assert "The verdict rests on: measured" in _memo(run_record())
    assert "The verdict changes when the demand does" in _memo(run_record())


def test_a_hostile_model_name_is_inert_in_the_memo() -> None:
    """Headings, HTML, images, table cells and terminal commands in a model's name stay text on one line."""
    record = run_record(
        model=ModelRecord(name=HOSTILE, file_name=HOSTILE, file_bytes=1, kv_bytes_per_token=1.0),
        machine=HOSTILE,
        warnings=(HOSTILE,),
        contradictions=(HOSTILE,),
        environment={"os": HOSTILE},
    )

    memo = _memo(record)

    assert len([line for line in memo.splitlines() if line.startswith("# ")]) == 1
    assert "<script" not in memo
    assert not re.search(r"(?<!\\)\]\(", memo)
    assert all(character.isprintable() or character == "\n" for character in memo)
    tables = [line for line in memo.splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in tables} <= {3, 4, 6}


def test_a_hostile_record_is_inert_on_a_terminal() -> None:
    """No escape sequence and no line of a stranger's reaches the terminal through run or decision."""
    record = run_record(
        model=ModelRecord(name=HOSTILE),
        machine=HOSTILE,
        contradictions=(HOSTILE,),
        disturbed=True,
        contention=ContentionRecord(disturbed=True, reasons=(HOSTILE,)),
        engine=EngineRecord(name=HOSTILE, lower_bound=True, advice=HOSTILE, isa_unused=(HOSTILE,)),
    )
    machines = [evidence_from(record), evidence_from(record)]

    for text in (run_text(record), decision_text(decide(NEED, machines))):
        assert all(character.isprintable() or character == "\n" for character in text)
        assert not [line for line in text.splitlines() if line.startswith("# Verdict")]


def test_markdown_is_escaped_once() -> None:
    """An ampersand and a bracket become one entity each, not an entity of an entity."""
    assert markdown_text("a < b & c > d") == "a &lt; b &amp; c &gt; d"
    assert markdown_text("q4_1 [x] `y` *z* #1 \\") == "q4\\_1 \\[x\\] \\`y\\` \\*z\\* \\#1 \\\\"


def test_wide_characters_align() -> None:
    """East Asian characters take two columns, combining ones none."""
    assert display_width("大模型") == 6
    assert display_width("e\u0301") == 1
    assert plain_table([["模型", "x"], ["abcd", "y"]]) == "模型  x\nabcd  y"


def test_tables_keep_their_rows() -> None:
    """A line break in a cell is a space; a bar in a Markdown cell is escaped."""
    assert plain_table([["a"], ["b\nc"]]) == "a\nb c"
    assert markdown_table([["h"], ["a|b\nc"]]) == "| h |\n|---|\n| a\\|b c |"
    assert one_line("a\x1b[0m\u202eb\tc") == "a[0mb c"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (None, "s", "unknown"),
        (float("inf"), "s", "without end"),
        (0.5, "s", "500.0 ms"),
        (2**30, "bytes", "1.00 GiB"),
        (14.25, "tokens/s", "14.25 tokens/s"),
    ],
)
def test_values_keep_their_units(value: float | None, unit: str, text: str) -> None:
    """The unit decides the form; the unknown is a word."""
    assert format_value(value, unit) == text


def test_open_ends_are_words() -> None:
    """A range without an end says so."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=9000, p95=9000),
        ttft=Limit(value_s=1000, percentile=95),
    )
    constraint = decide(demand, [evidence()]).verdict.constraints[0].constraint

    assert "no upper end known, extrapolated" in available_text(constraint)


def test_a_ceiling_says_what_it_was_computed_from() -> None:
    """The article's laptop, with the source of each number."""
    roofs = Roofs(bandwidth_bytes_per_s=40e9)

    machine = {
        "bandwidth_bytes_per_s": roofs.bandwidth_bytes_per_s,
        "bandwidth_basis": "stated",
        "peak_flop_per_s": None,
        "peak_basis": None,
        "device_count": 1,
        "notes": ["a note"],
    }
    text = ceiling_text(ceiling_of_bytes(3.5e9, roofs), machine, {})

    assert text.endswith("! a note")

    assert "at most 11.43 tokens/s" in text
    assert "40.00 GB/s" in text
    assert "bound by memory bandwidth" in text
    assert "prefill" not in text


@pytest.mark.parametrize("most", range(1, 12))
def test_a_shortened_name_is_never_longer_than_asked(most: int) -> None:
    """Also where next to nothing of it is left; what fits stays whole."""
    assert len(shortened("qwen3-8b:q4_k_m", most)) == most
    assert shortened("q4", 2) == "q4"
