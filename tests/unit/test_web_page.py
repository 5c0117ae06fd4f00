"""The what-if page as a browser gets it: figures, refusals, saving, and names that would like to be markup."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import pytest

from helpers.browser import Browser
from helpers.records import run_record
from suffice.catalogue.catalogue import shipped
from suffice.cli import web as command
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.errors import RecordError, UsageError
from suffice.loaders.catalogue import LoadedCatalogue
from suffice.loaders.demand import load_demand
from suffice.loaders.planning import PlanRequest, make_plan
from suffice.loaders.reference import resolve_model
from suffice.records.store import save_record
from suffice.report.page.model import Language
from suffice.report.page.quantities import available_text
from suffice.report.page.words import words_for
from suffice.web import answer as answer_module
from suffice.web import start as start_module
from suffice.web.early import full_plan
from suffice.web.form import form_of, read_pairs
from suffice.web.guard import Door
from suffice.web.server import build_app
from suffice.web.start import Start, started

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from suffice.catalogue.catalogue import Catalogue
    from suffice.web.server import Site

DEMAND = """# ours
[demand]
kind = "interactive"
prompt_tokens = 512
output_tokens = 128
tokens_per_second_per_user = 8
margin = 1.5
"""
HOSTILE = "</title></style><script>window.got = 1</script>\"'><img src=x onerror=got()>\u202e{{ 7 * 7 }}"
OWN = {"content-type": "application/x-www-form-urlencoded", "origin": "http://127.0.0.1:8321"}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Catalogue:
    """A catalogue of a few machines, so that plans take no time."""
    names = ("aws/c7i.4xlarge", "aws/g5.xlarge", "gcp/n2-standard-16", "alicloud/ecs.c7.4xlarge")
    whole = shipped()
    catalogue = replace(whole, instances=tuple(one for one in whole.instances if one.key in names))

    loaded = LoadedCatalogue(catalogue=catalogue, saved=(), warnings=())
    monkeypatch.setattr(start_module, "load_catalogue", lambda _own: loaded)
    return catalogue


@pytest.fixture
def folder(tmp_path: Path, small: Catalogue) -> Path:
    """A folder with a demand and a record."""
    assert small.instances
    (tmp_path / "demand.toml").write_text(DEMAND, encoding="utf-8")
    save_record(run_record(), tmp_path / "run.json")
    return tmp_path


def browser_of(site: Site) -> Browser:
    """A browser before the whole application."""
    return Browser(build_app(site, Door(host="127.0.0.1", port=8321)), "http://127.0.0.1:8321")


@pytest.fixture
def site(folder: Path) -> Iterator[Site]:
    """Started with both files, and with a model of the catalogue for what is not measured."""
    found = started(Start(runs=(folder / "run.json",), demand=folder / "demand.toml"))
    yield found
    found.bench.close()


def asked(site: Site, **changes: str) -> str:
    """The query of the start's form with some fields typed anew."""
    return urlencode(dict(site.start.key) | changes)


def saved(site: Site, browser: Browser, **more: str) -> httpx.Response:
    """The answer to the button that saves."""
    return browser.post(
        "/save", headers=OWN, content=asked(site) + "&" + urlencode({"csrf": site.csrf, "do": "save"} | more)
    )


class _Tags(HTMLParser):
    """Every element of a page with its attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """One element."""
        self.found.append((tag, dict(attrs)))


def tags(text: str) -> list[tuple[str, dict[str, str | None]]]:
    """The elements of a page, as a parser sees them."""
    parser = _Tags()
    parser.feed(text)
    return parser.found


def test_the_verdict_is_that_of_the_command_line(site: Site, folder: Path) -> None:
    """The page's figures are those that `suffice decide` computes from the same files, in both languages."""
    decision = decide(load_demand(folder / "demand.toml"), [evidence_from(run_record(), "Test CPU")])
    constraint = decision.verdict.constraints[0].constraint
    browser = browser_of(site)

    english, chinese = browser.get("/"), browser.get("/?lang=zh")

    assert (english.status_code, chinese.status_code) == (200, 200)
    for language, answer in ((Language.EN, english), (Language.ZH, chinese)):
        assert available_text(constraint, words_for(language)) in answer.text
    assert decision.verdict.verdict in english.text
    assert '<html lang="zh-Hans">' in chinese.text


def test_the_plan_is_that_of_the_command_line(site: Site, small: Catalogue) -> None:
    """Costs of the page are those of make_plan for the same demand, and each has its date."""
    query = asked(site, model="llama-3.1-8b", quantization="q4_k_m", margin="1.2")
    text = browser_of(site).get("/?" + query).text
    answer = site.bench.answer(form_of(read_pairs(query), site.start))
    request = PlanRequest(
        demand=answer.demand,
        model=resolve_model("llama-3.1-8b:q4_k_m"),
        catalogue=small,
        today=datetime.now(UTC).date(),
    )

    plan = make_plan(request)

    priced = [one for one in plan.options if one.cost is not None]
    assert answer.plan == plan
    assert priced
    assert all(f"{one.cost.amount:,.2f}" in text for one in priced if one.cost is not None)


def test_a_change_of_the_margin_changes_the_verdict(site: Site) -> None:
    """20 tokens/s against 8: enough with a margin of 1.5, thin with one of 3."""
    browser = browser_of(site)

    first, second = (browser.get("/?" + asked(site, margin=margin)).text for margin in ("1.5", "3"))

    assert "Verdict: cpu<" in first
    assert "Verdict: cpu, thin margin" in second


def test_what_is_wrong_is_said_beside_the_form(site: Site) -> None:
    """The page answers 422 with the sentence and marks the field; a part of it answers with the sentence alone."""
    browser = browser_of(site)

    page, part = browser.get("/?" + asked(site, margin="<b>x")), browser.get("/result?" + asked(site, margin="<b>x"))

    assert (page.status_code, part.status_code) == (422, 200)
    assert "field &#39;margin&#39;" in page.text
    assert "field &#39;margin&#39;" in part.text
    assert [told["name"] for _, told in tags(page.text) if told.get("aria-invalid")] == ["margin"]
    assert "<b>" not in page.text + part.text
    assert "Traceback" not in page.text


def test_a_request_names_no_file(site: Site, folder: Path) -> None:
    """A model is one of the list: neither a path nor an address is opened."""
    (folder / "config.json").write_text("{}", encoding="utf-8")

    for model in (str(folder / "config.json"), "https://evil.example/m.gguf", "Qwen/Qwen3-8B", "sample:smollm2-135m"):
        answer = browser_of(site).get("/result?" + asked(site, model=model, quantization="q4_k_m"))

        assert "none of the list" in answer.text


def test_unknown_pages_are_not_repeated(site: Site) -> None:
    """Neither a path nor a method that the page does not have is in the answer."""
    browser = browser_of(site)

    lost, wrong = browser.get("/<b>lost</b>"), browser.post("/result", headers=OWN, content="")

    assert (lost.status_code, wrong.status_code) == (404, 405)
    assert "lost" not in lost.text
    assert browser.get("/%2e%2e/%2e%2e/etc/passwd").status_code == 404


def test_saving_asks_before_it_replaces(site: Site, folder: Path) -> None:
    """The first press asks, the second writes what was judged; comments are lost, which the question says."""
    browser, path = browser_of(site), folder / "demand.toml"

    question = saved(site, browser)
    assert "exists" in question.text
    assert path.read_text(encoding="utf-8") == DEMAND

    seen = next(told["value"] for _, told in tags(question.text) if told.get("name") == "seen")
    answer = saved(site, browser, seen=str(seen))
    assert "Saved as demand.toml" in answer.text
    assert load_demand(path).tokens_per_second_per_user == 8
    assert "holds this demand already" in saved(site, browser).text


@pytest.mark.parametrize("token", ["", "wrong", "%00"])
def test_a_form_of_another_page_saves_nothing(site: Site, folder: Path, token: str) -> None:
    """Without the token of this process nothing is written, and nothing is downloaded."""
    body = asked(site, margin="9") + f"&csrf={token}&do=save&seen=x"

    answer = browser_of(site).post("/save", headers=OWN, content=body)

    assert answer.status_code == 403
    assert (folder / "demand.toml").read_text(encoding="utf-8") == DEMAND


def test_a_demand_can_be_downloaded(site: Site) -> None:
    """As an attachment of a fixed name, the same text that would be saved."""
    body = asked(site) + "&" + urlencode({"csrf": site.csrf, "do": "download"})

    answer = browser_of(site).post("/save", headers=OWN, content=body)

    assert answer.headers["content-disposition"] == 'attachment; filename="demand.toml"'
    assert "tokens_per_second_per_user = 8" in answer.text


def test_hostile_names_stay_text(folder: Path) -> None:
    """A machine, a model and a demand that are called like markup put no element and no attribute of theirs on the page."""
    record = run_record(machine=HOSTILE)
    save_record(replace(record, model=replace(record.model, file_name=HOSTILE, name=HOSTILE)), folder / "bad.json")
    site = started(Start(runs=(folder / "bad.json",), demand=folder / "demand.toml"))
    browser = browser_of(site)

    for query in (
        "",
        "?lang=zh",
        "?" + asked(site, margin=HOSTILE),
        "?" + asked(site, currency=HOSTILE, price_region=HOSTILE),
    ):
        text = browser.get("/" + query).text
        found = tags(text)
        assert [told.get("src") for name, told in found if name == "script"] == ["/page.js"]
        assert not {name for name, _ in found} & {"img", "iframe", "object", "embed", "base", "style"}
        assert not [key for _, told in found for key in told if key.startswith("on") or key == "style"]
        assert "{{ 7 * 7 }}" in text
    site.bench.close()


def test_a_model_that_only_a_record_knows_has_a_verdict_and_no_plan(site: Site) -> None:
    """Nothing can be predicted elsewhere of a file that is not here; the page says so and how to get a plan."""
    answer = site.bench.answer(site.start)

    assert answer.decision is not None
    assert answer.plan is None
    assert "start with --model" in browser_of(site).get("/").text


def test_other_quantizations_are_not_judged_by_the_record(site: Site) -> None:
    """A record speaks for the model and the quantization that it measured, and for no other."""
    text = browser_of(site).get("/?" + asked(site, model="qwen3-8b", quantization="q8_0")).text

    assert "records are of another model or quantization than qwen3-8b:q8_0" in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machine_price": "2000"}, "machine_currency"),
        ({"machine_price": "2000", "machine_currency": "EUR"}, "machine_months"),
        ({"machine_price": "-1", "machine_months": "3", "machine_currency": "EUR"}, "machine_price"),
        ({"machine_idle_watts": "5", "machine_currency": "EUR"}, "machine_watts"),
        ({"price_per_hour": "0.2"}, "price_instance"),
        ({"price_instance": "aws/c7i.4xlarge", "price_per_hour": "0.2"}, "currency"),
        (
            {"price_instance": "no-such", "price_per_hour": "0.2", "price_currency": "EUR", "price_region": "x"},
            "no-such",
        ),
        (
            {"price_instance": "aws/c7i.4xlarge", "price_per_hour": "x", "price_currency": "EUR", "price_region": "x"},
            "price_per_hour",
        ),
    ],
)
def test_money_that_is_half_stated_is_refused(site: Site, changes: dict[str, str], says: str) -> None:
    """An amount without its currency, region, months or machine is no price."""
    assert says in browser_of(site).get("/result?" + asked(site, **changes)).text


def test_a_price_of_ones_own_is_in_the_plan(site: Site) -> None:
    """The machine costs what was typed, for 730 hours, and the source says who typed it."""
    changes = {
        "model": "llama-3.1-8b",
        "quantization": "q4_k_m",
        "price_instance": "aws/g5.xlarge",
        "price_per_hour": "0.11",
    }
    query = asked(site, **changes, price_currency="USD", price_region="office")

    text = browser_of(site).get("/?" + query).text

    assert "80.30" in text
    assert "stated in the what-if page" in text
    assert "office" in text


def test_an_answer_that_takes_long_comes_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is in a hurry gets what there is and is told that more comes; asking again gives the rest."""
    site = started(Start(demand=folder / "demand.toml", model="llama-3.1-8b:q4_k_m"))
    browser = browser_of(site)
    gate = threading.Event()
    monkeypatch.setattr(answer_module, "full_plan", lambda request: full_plan(request) if gate.wait() else None)
    early = browser.get("/result?" + asked(site))
    gate.set()

    late = browser.get("/?" + asked(site))

    assert "data-pending" in early.text
    assert "4 machines of the catalogue are being judged" in early.text
    assert "data-pending" not in late.text
    assert len(late.text) > len(early.text)
    site.bench.close()


def test_a_link_stays_a_link(folder: Path) -> None:
    """A demand's file that is a symbolic link is written where it leads, and where it led when the page was started."""
    (folder / "shared.toml").write_text(DEMAND, encoding="utf-8")
    (folder / "other.toml").write_text(DEMAND, encoding="utf-8")
    link = folder / "link.toml"
    link.symlink_to("shared.toml")
    site = started(Start(runs=(folder / "run.json",), demand=link))
    browser = browser_of(site)
    question = saved(site, browser)
    link.unlink()
    link.symlink_to("other.toml")

    seen = next(told["value"] for _, told in tags(question.text) if told.get("name") == "seen")
    answer = saved(site, browser, seen=str(seen))
    site.bench.close()

    assert "Saved as link.toml" in answer.text
    assert load_demand(folder / "shared.toml").prompt_tokens == load_demand(folder / "demand.toml").prompt_tokens
    assert "# ours" not in (folder / "shared.toml").read_text(encoding="utf-8")
    assert (folder / "other.toml").read_text(encoding="utf-8") == DEMAND
    assert link.is_symlink()


def test_a_file_that_was_changed_meanwhile_is_asked_about_again(site: Site, folder: Path) -> None:
    """An agreement is to replace what was there then, and nothing else."""
    browser, path = browser_of(site), folder / "demand.toml"
    question = saved(site, browser)
    seen = next(told["value"] for _, told in tags(question.text) if told.get("name") == "seen")
    path.write_text(DEMAND + "# by a colleague\n", encoding="utf-8")

    answer = saved(site, browser, seen=str(seen))

    assert "was changed by somebody" in answer.text
    assert "by a colleague" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("field", ["prompt_p50", "rate", "concurrent_users", "margin", "ttft_s", "machine_watts"])
def test_odd_numbers_are_judged_or_refused(site: Site, field: str) -> None:
    """Whatever stands in a field, the answer is a part of the page, and no defect."""
    odd = ("nan", "inf", "1e308", "-1", "\u0663", "\uff11\uff12", "1_000", "0x10", "[1]", "true", "\x00", "9" * 18)

    for text in odd:
        answer = browser_of(site).get("/result?" + asked(site, **{field: text}))

        assert answer.status_code == 200, text
        assert 'id="refused"' in answer.text or 'id="keep"' in answer.text, text


@pytest.mark.parametrize("more", ["&margin=2", "&margin%5B%5D=2", "&a=1" * 64])
def test_fields_that_the_page_does_not_have_are_refused(site: Site, more: str) -> None:
    """Twice, as an array, or too many of them."""
    answer = browser_of(site).get("/result?" + asked(site) + more)

    assert (answer.status_code, 'id="refused"' in answer.text) == (200, True)


def test_two_languages_at_once(site: Site) -> None:
    """Each browser gets its own, also where the computed parts are the same."""
    browser = browser_of(site)

    chinese, english = (browser.get("/result?" + asked(site) + f"&lang={one}").text for one in ("zh", "en"))

    assert "下载 demand.toml" in chinese
    assert "Download demand.toml" in english
    assert "下载" not in english


def test_what_the_page_is_started_with_is_checked(folder: Path) -> None:
    """Files that are wrong end the command with their sentence before anything is served."""
    (folder / "bad.json").write_text("{}", encoding="utf-8")

    with pytest.raises(RecordError):
        started(Start(runs=(folder / "bad.json",)))
    with pytest.raises(UsageError):
        started(Start(model="no-such-model:q4_k_m"))


@pytest.mark.parametrize(
    ("host", "token", "says"),
    [
        ("0.0.0.0", None, "other machines"),  # noqa: S104  # the case
        ("box.example", None, "other machines"),
        ("127.0.0.1", "short", "fewer than"),
    ],
)
def test_the_command_refuses_to_be_open_to_others(host: str, token: str | None, says: str) -> None:
    """Beyond loopback a token is needed, and one that can be guessed is none."""
    with pytest.raises(UsageError, match=says):
        command.web(host=host, token=token)


def test_a_missing_extra_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the command that installs it."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    with pytest.raises(UsageError, match=r"pip install 'suffice\[web\]'"):
        command.web()


def test_a_port_that_is_taken_is_said() -> None:
    """A second page on a port ends with a sentence that has the port."""
    with command._listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]

        with pytest.raises(UsageError, match=f"port {port}"):
            command._listen("127.0.0.1", port)


def test_the_other_loopback_is_listened_on() -> None:
    """IPv6 needs no other option than its address."""
    try:
        listening = command._listen("::1", 0)
    except UsageError:
        pytest.skip("no IPv6 loopback on this machine")

    with listening:
        assert listening.family is socket.AF_INET6
