"""Prometheus text: units, labels, and nothing where nothing is known."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.hostile import HOSTILE
from helpers.records import bare_record, run_record
from suffice.decide.guard import Outcome
from suffice.report.check_rows import CheckRow
from suffice.report.prometheus import NamedRun, escape_label, prometheus_text
from suffice.report.tables import one_line

_SAMPLE = re.compile(r'([a-z_]+)\{((?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*)\} (\S+)')
_LABEL = re.compile(r'([a-z_]+)="((?:[^"\\]|\\.)*)"')


def _samples(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels; each line must be a comment or a sample, and no sample stands twice."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for line in text.split("\n")[:-1]:
        if line.startswith("#"):
            continue
        match = _SAMPLE.fullmatch(line)
        assert match is not None, line
        key = match[1], tuple((name, _unescaped(value)) for name, value in _LABEL.findall(match[2]))
        assert key not in found
        found[key] = float(match[3])
    return found


def _unescaped(value: str) -> str:
    return re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], value)


def _named(text: str, metric: str) -> list[float]:
    return [value for (name, _), value in _samples(text).items() if name == metric]


def test_a_run_is_told_in_base_units() -> None:
    """Rates, seconds and bytes as they are in the record, with the ends of their intervals, labelled by the run."""
    record = run_record(decode=20.0, prefill=100.0, created_at="2026-11-30T12:00:00+00:00")

    text = prometheus_text([NamedRun(name="run.json", record=record)])

    samples = _samples(text)
    decode = record.measurement.decode[0].tokens_per_second
    assert decode is not None
    assert decode.interval is not None
    labels = (("run", "run.json"), ("depth", "512"), ("batch", "1"))
    assert samples["suffice_decode_tokens_per_second", labels] == record.decode_tokens_per_second
    assert samples["suffice_decode_low_tokens_per_second", labels] == decode.interval.low
    assert _named(text, "suffice_time_to_first_token_seconds") == [record.ttft_s]
    assert _named(text, "suffice_run_timestamp_seconds") == [1796040000.0]
    assert _named(text, "suffice_run_disturbed") == [0.0]


def test_what_is_unknown_has_no_sample() -> None:
    """A bare record gives no zero and no NaN: neither prefill, nor memory, nor a time, nor whether it was disturbed."""
    text = prometheus_text([NamedRun(name="x", record=replace(bare_record(None), disturbed=None, created_at="soon"))])

    assert {name for name, _ in _samples(text)} == {"suffice_run_info", "suffice_run_complete"}


def test_a_plain_number_is_told_without_its_depth() -> None:
    """The article's own result has a rate and nothing else."""
    text = prometheus_text([NamedRun(name="x", record=bare_record(7.5))])

    assert _samples(text)["suffice_decode_tokens_per_second", (("run", "x"),)] == 7.5


def test_infinity_is_no_sample() -> None:
    """A figure that is no number is left out: it would spoil every sum."""
    text = prometheus_text([NamedRun(name="x", record=bare_record(float("inf")))])

    assert _named(text, "suffice_decode_tokens_per_second") == []


def test_a_check_has_one_outcome_of_three() -> None:
    """1 for what it was, 0 for the others; its detectable change only where it is known."""
    rows = [
        CheckRow(name="decode", outcome=Outcome.FAIL, reason="", properties={"smallest_detectable_change": 0.02}),
        CheckRow(name="decode", outcome=Outcome.PASS, reason="", properties={"smallest_detectable_change": None}),
    ]

    samples = _samples(prometheus_text([], rows))

    assert samples["suffice_check_outcome", (("check", "decode"), ("outcome", "fail"))] == 1.0
    assert samples["suffice_check_outcome", (("check", "decode"), ("outcome", "pass"))] == 0.0
    assert samples["suffice_check_outcome", (("check", "decode (2)"), ("outcome", "pass"))] == 1.0
    assert [value for (name, _), value in samples.items() if name.endswith("_ratio")] == [0.02]


def test_every_metric_has_help_and_type_before_its_samples() -> None:
    """Each family stands together, under one HELP and one TYPE line."""
    runs = [NamedRun(name=name, record=run_record()) for name in ("a", "b")]

    lines = prometheus_text(runs, [CheckRow(name="c", outcome=Outcome.PASS, reason="")]).splitlines()

    families = [re.split(r"[ {]", line.removeprefix("# HELP ").removeprefix("# TYPE "))[0] for line in lines]
    assert [name for number, name in enumerate(families) if number == 0 or families[number - 1] != name] == list(
        dict.fromkeys(families)
    )
    for family in dict.fromkeys(families):
        first = families.index(family)
        assert lines[first].startswith(f"# HELP {family} ")
        assert lines[first + 1] == f"# TYPE {family} gauge"


def test_nothing_is_an_empty_text() -> None:
    """No run and no check: no line at all."""
    assert prometheus_text([]) == ""


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_labels_come_back(text: str) -> None:
    """Whatever a run, a model or a check is called: every line is a sample, and a reader gets the name back."""
    record = run_record()
    record = replace(record, machine=text, model=replace(record.model, name=text))

    samples = _samples(
        prometheus_text(
            [NamedRun(name=text, record=record)] * 2, [CheckRow(name=text, outcome=Outcome.PASS, reason=text)]
        )
    )

    assert one_line(text) in {dict(labels).get("check") for _, labels in samples}
    infos = [dict(labels) for name, labels in samples if name == "suffice_run_info"]
    assert [info["run"] for info in infos] == [one_line(text), f"{one_line(text)} (2)"]


def test_a_label_keeps_its_lines() -> None:
    r"""Backslash, quote and line feed are escaped, and nothing else is: the format knows no other escape."""
    assert escape_label('a\\b"c\nd\te\x00') == 'a\\\\b\\"c\\nd e'
