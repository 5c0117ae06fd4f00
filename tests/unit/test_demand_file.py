"""``demand.toml``: every field, and one clear sentence for everything that is wrong."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from suffice.errors import DemandError
from suffice.loaders.demand import load_demand, parse_demand
from suffice.model.demand import Demand, DemandKind, Lengths, Limit

if TYPE_CHECKING:
    from pathlib import Path

FULL = """
[demand]
kind = "interactive"
model = "models/toy.gguf"
prompt_tokens = { p50 = 600, p95 = 2400 }
output_tokens = 200
requests_per_hour = 36
interactive_share = 0.25
tokens_per_second_per_user = 8
ttft_s = { p90 = 2.0 }
tpot_s = 0.1
tpot_percentile = 99
window_hours = 8
context_tokens = 4096
margin = 1.25
memory_gib = 6
quality_floor = 0.9
budget_per_month = 100.5
currency = "CNY"
"""
BATCH = "prompt_tokens = 512\noutput_tokens = 128\n"


def _parse(body: str, kind: str = "interactive") -> Demand:
    return parse_demand(f'[demand]\nkind = "{kind}"\n{body}')


def _complaint(body: str, kind: str = "interactive") -> str:
    with pytest.raises(DemandError) as failure:
        _parse(body, kind)
    message = str(failure.value)
    assert "\n" not in message
    return message


def test_every_field_is_read_into_si_units() -> None:
    """All fields of a full demand arrive, hours as seconds, GiB as bytes, and rates per second."""
    assert parse_demand(FULL) == Demand(
        kind=DemandKind.INTERACTIVE,
        model="models/toy.gguf",
        prompt_tokens=Lengths(p50=600, p95=2400),
        output_tokens=Lengths(p50=200, p95=200),
        requests_per_second=0.01,
        interactive_share=0.25,
        tokens_per_second_per_user=8,
        ttft=Limit(value_s=2.0, percentile=90),
        tpot=Limit(value_s=0.1, percentile=99),
        window_s=28800,
        context_tokens=4096,
        margin=1.25,
        memory_bytes=6 * 2**30,
        quality_floor=0.9,
        budget_per_month=100.5,
        currency="CNY",
    )


@pytest.mark.parametrize(
    ("line", "per_second"),
    [("requests_per_second = 2", 2), ("requests_per_hour = 7200", 2), ("requests_per_day = 86400", 1)],
)
def test_rates_are_per_second_inside(line: str, per_second: float) -> None:
    """The three ways to write a rate mean the same."""
    assert _parse(BATCH + line, "batch").requests_per_second == pytest.approx(per_second)


def test_memory_in_gb_is_decimal() -> None:
    """memory_gb = 6 is 6 * 10^9 bytes."""
    assert _parse("tpot_s = 1\nmemory_gb = 6").memory_bytes == 6_000_000_000


def test_limits_hold_at_p95_unless_stated() -> None:
    """A plain number of seconds is a limit at P95."""
    assert _parse("tpot_s = 0.2").tpot == Limit(value_s=0.2, percentile=95)


def test_short_names_are_understood() -> None:
    """`context` and `window_h` are read as `context_tokens` and `window_hours`."""
    demand = _parse("tpot_s = 1\ncontext = 2048\nwindow_h = 2")

    assert (demand.context_tokens, demand.window_s) == (2048, 7200)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "needs 'tokens_per_second_per_user'"),
        ("tokens_per_second_per_usr = 8", "did you mean 'tokens_per_second_per_user'"),
        ("tokens_per_second_per_user = 0", "tokens_per_second_per_user"),
        ("tokens_per_second_per_user = -8", "greater than 0"),
        ("tokens_per_second_per_user = nan", "finite"),
        ("tokens_per_second_per_user = inf", "finite"),
        ("tokens_per_second_per_user = 1e400", "finite"),
        ('tokens_per_second_per_user = "8"', "found '8'"),
        ("tokens_per_second_per_user = true", "found True"),
        ("tpot_s = 1\nmargin = 0.9", "margin"),
        ("tpot_s = 1\nmargin = 1000", "margin"),
        ("tpot_s = 1\nquality_floor = 90", "quality_floor"),
        ("tpot_s = 1\ncontext = 1\ncontext_tokens = 2", "two names of one field"),
        ("tpot_s = 1\nwindow_hours = 25", "window_hours"),
        ("tpot_s = 1\nconcurrent_users = 1.5", "concurrent_users"),
        ("tpot_s = 1\nbudget_per_month = 5", "currency"),
        ('tpot_s = 1\nbudget_per_month = 5\ncurrency = "yuan"', "currency"),
        ("tpot_s = 1\nmemory_gb = 1\nmemory_gib = 1", "give one"),
        ("ttft_s = 1", "state 'prompt_tokens' beside it"),
        ("ttft_percentile = 90\ntpot_s = 1", "without a limit"),
        ("ttft_s = { p50 = 1, p95 = 2 }\nprompt_tokens = 5", "one limit at one percentile"),
        ("prompt_tokens = { p50 = 9, p95 = 5 }\ntpot_s = 1", "0 < p50 <= p95"),
        ("prompt_tokens = 0.5\ntpot_s = 1", "prompt_tokens"),
        ("tpot_s = 1\nprompt_tokens = 1e300", "prompt_tokens"),
        ("requests_per_second = 1", "state both"),
        ("requests_per_second = 1\nrequests_per_day = 1", "stated 2 times"),
        ("requests_per_second = 1\nconcurrent_users = 2", "both stated"),
        ("tpot_s = 1\ninteractive_share = 0.5", "share of a request rate"),
        ("tpot_s = 1\ninteractive_share = 1", "interactive_share"),
        ("tpot_s = 1\ninteractive_share = 0.0", "interactive_share"),
        ("prompt_tokens = 4000\noutput_tokens = 200\ncontext = 4096\ntpot_s = 1", "contradictory"),
        (
            "prompt_tokens = 9\noutput_tokens = 9\nrequests_per_hour = 10\nrequests_per_day = 90\ntpot_s = 1",
            "'volume_per_day'",
        ),
        (
            "prompt_tokens = 9\noutput_tokens = 9\nrequests_per_hour = 10\nvolume_per_day = 241\ntpot_s = 1",
            "contradictory",
        ),
        (
            "prompt_tokens = 9\noutput_tokens = 9\nrequests_per_day = 10\nvolume_per_day = 9\ntpot_s = 1",
            "'requests_per_day' is the volume",
        ),
    ],
)
def test_wrong_demands_name_the_field(body: str, words: str) -> None:
    """Each wrong, contradictory or incomplete demand gets one sentence with the field and what to do."""
    assert words in _complaint(body)


def test_other_kinds_need_their_work() -> None:
    """A batch without a rate and a scheduled job without a window say what is missing."""
    assert "requests_per_day" in _complaint(BATCH, "batch")
    assert "window_hours" in _complaint(BATCH + "requests_per_day = 5", "scheduled")
    assert "nobody waits for a batch one" in _complaint(
        BATCH + "requests_per_day = 5\ninteractive_share = 0.5", "batch"
    )
    assert '"interactive", "batch" or "scheduled"' in _complaint("", "nightly")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no table [demand]"),
        ("demand = 3", "no table [demand]"),
        ("[demand\n", "not valid TOML"),
        ("[demand]\nkind = 'batch'\nkind = 'batch'", "not valid TOML"),
        ("a = " + "[" * 5000, "not valid TOML"),
        ("a = " + "9" * 5000, "not valid TOML"),
        ("[demand]\nkind = 0x" + "f" * 5000, "thousands of digits"),
        ("[demand]\ntpot_s = 1", "field 'kind' is missing"),
        ("[demand]\nkind = 'batch'\n[other]\n", "'other'"),
        ('[demand]\nkind = "batch"\n"a\\u001b\\nb" = 1', "'a\\x1b\\nb'"),
        ('kind = "batch"', "no table [demand]"),
    ],
)
def test_what_is_no_demand_file_is_one_sentence(text: str, words: str) -> None:
    """Broken TOML, huge nesting, huge numbers and hostile names give one line that is safe to print."""
    with pytest.raises(DemandError) as failure:
        parse_demand(text, source="demand.toml")

    message = str(failure.value)
    assert words in message
    assert message.startswith("demand.toml")
    assert message.isprintable()


def test_a_file_with_bom_is_read(tmp_path: Path) -> None:
    """Editors on Windows put a byte order mark before the text."""
    path = tmp_path / "demand.toml"
    path.write_bytes(b"\xef\xbb\xbf" + FULL.encode())

    assert load_demand(path) == parse_demand(FULL)


def test_files_that_are_none(tmp_path: Path) -> None:
    """A missing file, a folder, a pipe, a device, a huge sparse file and bytes that are no text each raise, without hanging."""
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(300 * 2**20)
    (tmp_path / "latin").write_bytes(b"[demand] # \xe9")
    claims = {
        "missing": "does not exist",
        "folder": "a folder",
        "pipe": "not a regular file",
        "huge": "more than",
        "latin": "not UTF-8",
        "/dev/zero": "not a regular file",
        "nul\0byte": "cannot be opened",
    }

    for name, words in claims.items():
        with pytest.raises(DemandError, match=words):
            load_demand(tmp_path / name)
