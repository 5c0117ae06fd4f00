"""The worked stories: what docs/stories.md and the memos say is what the kept records give."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from suffice.cli.report_inputs import Asked, gather
from suffice.loaders.demand import load_demand
from suffice.report.page.build import build_page
from suffice.report.page.markdown import page_markdown
from suffice.report.page.model import Language

if TYPE_CHECKING:
    from suffice.report.page.given import PageInput

ROOT: Final = Path(__file__).parents[2]
STORIES: Final = ROOT / "examples" / "stories"
DOCS: Final = ROOT / "docs" / "stories.md"
FOLDERS: Final = ("nightly-summaries", "internal-chatbot", "document-classifier")
_WORDS: Final = {Language.EN: "report.md", Language.ZH: "report.zh.md"}
_PRICE: Final = ("amount", "unit", "currency", "region", "date", "source")
_MOST_BYTES: Final = 300_000
_CHANGES: Final = re.compile(r"\d{4}-\d\d-\d\d(?:T[\d:+]+)?|\b\d+\.\d+\.\d+\b")  # dates, and the version of suffice


@functools.cache
def _given(folder: str, language: Language = Language.EN) -> PageInput:
    """What `suffice report` gathers in a story's folder: made once, since the load is simulated for it."""
    simulation = Path("simulate.json")
    with contextlib.chdir(STORIES / folder):
        asked = Asked(
            demand_file=Path("demand.toml"),
            runs=(Path("run.json"),),
            simulate=simulation if simulation.exists() else None,
            plan=Path("plan.json"),
            language=language,
            out=Path(_WORDS[language]),
        )
        return gather(asked)[0]


def _plan(folder: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((STORIES / folder / "plan.json").read_text(encoding="utf-8"))
    return document


def _section(folder: str) -> str:
    """A story's part of the page in docs/."""
    parts = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    (found,) = [part for part in parts if f"examples/stories/{folder}/report.md" in part]
    return found


def _lead(folder: str, language: Language) -> str:
    memo = (STORIES / folder / _WORDS[language]).read_text(encoding="utf-8")
    found = re.search(r"^\*\*(.+)\*\*$", memo, re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_record_gives_the_verdict_that_memo_and_docs_say(folder: str) -> None:
    """Decided again from the demand and the record: the title of the story, its memo, and the table of the folder say the same word."""
    verdict = _given(folder).decision.verdict.verdict

    assert f"\n## Verdict: {verdict}\n" in (STORIES / folder / "report.md").read_text(encoding="utf-8")
    assert f"\n> Verdict: {verdict}\n" in _section(folder)
    assert re.match(rf"\d\. [^:]+: {verdict}\b", _section(folder))
    row = next(
        line for line in (STORIES / "README.md").read_text(encoding="utf-8").splitlines() if f"({folder})" in line
    )
    assert row.endswith(f"| {verdict} |")


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_records_give_the_kept_memo_again(folder: str) -> None:
    """Up to dates and the version; where it fails on purpose, examples/stories/remake.sh makes the memos anew."""
    for language, name in _WORDS.items():
        kept = (STORIES / folder / name).read_text(encoding="utf-8")
        made = page_markdown(build_page(_given(folder, language), language))
        lines = zip(_CHANGES.sub("*", made).split("\n"), _CHANGES.sub("*", kept).split("\n"), strict=False)

        assert [(new, old) for new, old in lines if new.strip() != old.strip()] == []
        assert len(made.strip().split("\n")) == len(kept.strip().split("\n"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_price_of_the_kept_plan_says_where_it_is_from(folder: str) -> None:
    """Amount, unit, currency, region, date and source: of each price and of each part of a bill."""
    options = _plan(folder)["options"]
    prices = [price for option in options for price in option["prices"]]
    prices += [part["price"] for option in options for part in option["cost_parts"]]

    assert len(prices) > 20
    for price in prices:
        assert all(price[name] not in (None, "") for name in _PRICE), price


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_bills_in_the_docs_are_those_of_the_kept_plan(folder: str) -> None:
    """Each amount of money that a story names is one of its plan; the cheapest option that is enough is named."""
    options = _plan(folder)["options"]
    of_a_month = {
        f"{option[name]:,.2f} {option['currency']}"
        for option in options
        for name in ("monthly_cost", "monthly_cost_low", "monthly_cost_high")
        if option[name] is not None
    }
    of_tokens = {
        f"{option['cost_per_million_tokens']['point']:,.2f} {option['currency']}"
        for option in options
        if option["cost_per_million_tokens"] is not None
    }
    named = set(re.findall(r"[\d,]+\.\d\d (?:USD|CNY|EUR)", _section(folder)))

    assert named
    assert named <= of_a_month | of_tokens
    best = next(option for option in options if option["verdict"] == "enough")
    assert best["name"] in _section(folder)


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_docs_quote_the_memos_first_sentence(folder: str) -> None:
    """In English and in Chinese, word for word, and with the demand as it stands in its file."""
    section = _section(folder)
    block = re.search(r"```toml\n(.*?)```", section, re.DOTALL)

    assert f"> **{_lead(folder, Language.EN)}**" in section
    assert _lead(folder, Language.ZH) in section
    assert block is not None
    assert tomllib.loads(block[1]) == tomllib.loads((STORIES / folder / "demand.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_numbers_of_the_quoted_tables_stand_in_the_memo(folder: str) -> None:
    """Each cell of the four numbers and of the cost table, in one row of the memo."""
    memo = [_cells(line) for line in (STORIES / folder / "report.md").read_text(encoding="utf-8").splitlines()]
    quoted = [_cells(line.removeprefix("> ")) for line in _section(folder).splitlines() if line.startswith("> |")]
    rows = [row for row in quoted if not all(set(cell) <= {"-"} for cell in row)]

    assert len(rows) >= 9
    for row in rows:
        assert any(set(row) <= set(line) for line in memo), row


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_kept_files_are_small_and_tell_nothing_of_a_user(folder: str) -> None:
    """No file over 300 kB; no home, temporary or working folder in any; the demand is read as it stands."""
    files = [path for path in (STORIES / folder).rglob("*") if path.is_file()]

    assert {"demand.toml", "run.json", "plan.json", "report.md", "README.md"} <= {path.name for path in files}
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < _MOST_BYTES
        assert not re.search(r"/(?:home|root|tmp|work|Users)/", text), path
    assert load_demand(STORIES / folder / "demand.toml").margin == 1.5


def test_the_deployment_says_that_nothing_shows_it_to_be_enough() -> None:
    """Its files come from an undecided record and say so, so that nobody starts them as if they were settled."""
    script = (STORIES / "document-classifier" / "deployment" / "llama-server.sh").read_text(encoding="utf-8")
    verdict = _given("document-classifier").decision.verdict.verdict

    assert f"# verdict: {verdict} " in script
