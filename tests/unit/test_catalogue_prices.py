"""Refreshing prices: what is in the maintained files, what is refused, and that nothing is lost when a file does not come."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest

from suffice.catalogue.catalogue import Catalogue, shipped
from suffice.catalogue.price_files import (
    PRICE_FILES,
    PriceFile,
    PriceFormat,
    api_prices,
    date_of_last_change,
    machine_prices,
)
from suffice.errors import UsageError
from suffice.loaders.catalogue import load_catalogue
from suffice.loaders.fake_web import FakeWeb
from suffice.loaders.price_refresh import RefreshOutcome, refresh_prices
from suffice.loaders.price_store import prices_folder, saved_prices
from suffice.loaders.web import HttpWeb, UnreachableError, WebError
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TODAY = date(2026, 11, 30)
FILES = {file.name: file for file in PRICE_FILES}
COMMITS = json.dumps([{"commit": {"committer": {"date": "2026-11-28T01:02:03Z"}}}])


def _prices_of(provider: str, region: str) -> dict[str, float]:
    """Prices 10 % above those that ship."""
    return {
        machine.name: round(1.1 * machine.price.per_hour, 6)
        for machine in shipped().instances
        if machine.provider == provider and machine.price is not None and machine.price.region == region
    }


def _go(region: str, prices: dict[str, float], day: str = "2026-11-20") -> str:
    rows = " ".join(f'"{name}": {price:f},' for name, price in prices.items())
    return f'package pricing\n// generated at {day}T13:23:24Z for {region}\nvar P = map[string]map[ec2types.InstanceType]float64{{\n\t// {region}\n\t"{region}": {{\n\t\t// a family\n\t\t{rows}\n\t}},\n}}\n'


AZURE = """package pricing
import "time"
// generated at 2026-11-21T14:34:50Z
var initialPriceUpdate, _ = time.Parse(time.RFC3339, "2026-11-21T14:34:50Z")
var initialOnDemandPrices = map[string]map[string]float64{}
func init() {
	// eastus
	initialOnDemandPrices["eastus"] = map[string]float64{
		"Fsv2 Type3":             5.128000,
		"Standard_D8as_v5":       0.344000,
		"Standard_D16as_v5":      0.688000,
		"Standard_D64as_v5":      5.696000,
	}
	// westeurope
	initialOnDemandPrices["westeurope"] = map[string]float64{
		"Standard_D8as_v5":       0.400000,
		"Standard_D64as_v5":      3.328000,
		"Standard_E4s_v5":        0.3,
	}
}
"""


def test_the_go_file_of_aws_is_read() -> None:
    """The day in its comment, and the prices of the region, as written."""
    day, prices = machine_prices(FILES["aws"], _go("us-east-1", {"c7i.xlarge": 0.1785, "a1.metal": 0.408}))
    assert day == "2026-11-20"
    assert prices == {"c7i.xlarge": (0.1785, "us-east-1"), "a1.metal": (0.408, "us-east-1")}


def test_the_go_file_of_azure_is_read_without_prices_of_windows() -> None:
    """D64as_v5 at 0.089 per vCPU in eastus is Windows; the next region has 0.052; a size that eastus lacks comes from there too."""
    day, prices = machine_prices(FILES["azure"], AZURE)
    assert day == "2026-11-21"
    assert prices["Standard_D16as_v5"] == (0.688, "eastus")
    assert prices["Standard_D64as_v5"] == (3.328, "westeurope")
    assert prices["Standard_E4s_v5"] == (0.3, "westeurope")
    assert prices["Standard_D8as_v5"] == (0.344, "eastus")


def test_the_json_files_of_google_and_alibaba_are_read() -> None:
    """Prices on demand, not spot ones; what is no positive number is left out."""
    gcp = {"prices": {"us-central1": {"on_demand": {"n2-standard-2": 0.1, "x": "0.2", "y": -1, "z": True, "nan": float("nan")}, "spot": {"n2-standard-2": 0.01}}}}  # fmt: skip
    assert machine_prices(FILES["gcp"], json.dumps(gcp)) == (None, {"n2-standard-2": (0.1, "us-central1")})
    alibaba = {
        "cn-hangzhou": {"ecs.c7.large": 0.4},
        "cn-beijing": {"ecs.c7.large": 0.5, "ecs.c7.xlarge": 0.8},
        "odd": 3,
    }
    assert machine_prices(FILES["alibaba"], json.dumps(alibaba))[1] == {
        "ecs.c7.large": (0.4, "cn-hangzhou"), "ecs.c7.xlarge": (0.8, "cn-beijing"),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("aws", ""), ("aws", "package pricing"), ("azure", "<html>"), ("gcp", "[]"), ("gcp", "{"), ("gcp", '{"prices": []}'),
        ("gcp", '{"prices": {"us-central1": []}}'), ("alibaba", '{"cn-hangzhou": {"a": 1e400}}'), ("alibaba", "3"), ("alibaba", "[" * 100_000),
    ],
)  # fmt: skip
def test_what_is_no_price_file_is_refused(name: str, text: str) -> None:
    """Empty, cut off, of other shapes, or too deep: a sentence, never a price."""
    with pytest.raises(UsageError, match=r"it (holds no prices|is not JSON)"):
        machine_prices(FILES[name], text)


LITELLM: dict[str, Any] = {
    "sample_spec": {"mode": "chat"},
    "deepseek/deepseek-flash": {"mode": "chat", "litellm_provider": "deepseek", "input_cost_per_token": 3e-07, "output_cost_per_token": 1.2e-06, "cache_read_input_token_cost": 6e-09, "max_input_tokens": 1000000},
    "dashscope/qwen3-max": {"mode": "chat", "litellm_provider": "dashscope", "tiered_pricing": [
        {"range": [0, 32000.0], "input_cost_per_token": 1.2e-06, "output_cost_per_token": 6e-06},
        {"range": [32000, 128000], "input_cost_per_token": 2.4e-06, "output_cost_per_token": 1.2e-05}, "odd"]},
    "volcengine/free": {"mode": "chat", "litellm_provider": "volcengine", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0},
    "deepinfra/swapped": {"mode": "chat", "litellm_provider": "deepinfra", "input_cost_per_token": 5e-06, "output_cost_per_token": 1.5e-07},
    "deepinfra/text": {"mode": "chat", "litellm_provider": "deepinfra", "input_cost_per_token": "1e-6", "output_cost_per_token": 1e-06},
    "openai/huge": {"mode": "chat", "litellm_provider": "openai", "input_cost_per_token": 1.0, "output_cost_per_token": 1.0},
    "nobody/model": {"mode": "chat", "litellm_provider": "nobody", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
    "gpt-image": {"mode": "image_generation", "litellm_provider": "openai", "input_cost_per_token": 1e-06, "output_cost_per_token": 1e-06},
}  # fmt: skip


def test_litellm_prices_are_read_with_tiers_and_without_zeros_and_outliers() -> None:
    """Per million tokens, on the platforms of the catalogue, each tier apart; free, swapped, absurd and odd entries are left out."""
    prices = api_prices(FILES["litellm"], json.dumps(LITELLM), "2026-11-28")
    found = {(price.platform, price.model, price.tier): price for price in prices}
    assert set(found) == {
        ("DeepSeek", "deepseek-flash", None),
        ("Alibaba Model Studio (Bailian international)", "qwen3-max", "input 0K-32K tokens"),
        ("Alibaba Model Studio (Bailian international)", "qwen3-max", "input 32K-128K tokens"),
    }
    flash = found["DeepSeek", "deepseek-flash", None]
    assert (flash.input_per_million, flash.output_per_million, flash.cached_input_per_million) == (0.3, 1.2, 0.006)
    assert (flash.date, flash.context_tokens, flash.currency) == ("2026-11-28", 1000000, "USD")
    assert flash.note == "peak rate; off-peak is half"
    # the keys are those of the prices that ship, so that newer ones replace them
    assert {price.key for price in prices} <= {price.key for price in shipped().apis}


@pytest.mark.parametrize("text", ["[]", "{}", "3", "", '{"a": {"mode": "chat"}}', "null"])
def test_what_is_no_litellm_file_is_refused(text: str) -> None:
    """Other shapes hold no prices."""
    with pytest.raises(UsageError):
        api_prices(FILES["litellm"], text, "2026-11-28")


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", "[3]", '[{"commit": 3}]', '[{"commit": {"committer": {"date": "soon"}}}]']
)
def test_a_day_that_is_not_said_is_not_invented(text: str) -> None:
    """GitHub's list of changes must hold one with a day."""
    with pytest.raises(UsageError):
        date_of_last_change(text)
    assert date_of_last_change(COMMITS) == "2026-11-28"


# --- refresh


def _answers() -> dict[str, str | WebError]:
    """What the web answers when all is well."""
    answers: dict[str, str | WebError] = {
        FILES["aws"].url: _go("us-east-1", _prices_of("aws", "us-east-1")),
        FILES["azure"].url: _go("eastus", _prices_of("azure", "eastus")),
        FILES["gcp"].url: json.dumps({"prices": {"us-central1": {"on_demand": _prices_of("gcp", "us-central1")}}}),
        FILES["alibaba"].url: json.dumps({"cn-hangzhou": _prices_of("alicloud", "cn-hangzhou")}),
        FILES["litellm"].url: json.dumps(LITELLM),
    }
    return answers | {file.dated_url: COMMITS for file in PRICE_FILES if file.dated_url is not None}


def _refresh(
    folder: Path,
    answers: dict[str, str | WebError],
    files: tuple[PriceFile, ...] = PRICE_FILES,
    today: date = TODAY,
    base: Catalogue | None = None,
) -> RefreshOutcome:
    return refresh_prices(
        files, web=FakeWeb(answers), folder=folder, today=today, base=base or shipped(), progress=lambda _: None
    )


def test_refreshed_prices_are_used_and_say_where_they_are_from(tmp_path: Path) -> None:
    """All five files come; later listings take the newer price, with its day, file and source."""
    outcome = _refresh(prices_folder(tmp_path), _answers())
    assert [item.name for item in outcome.refreshed] == ["aws", "azure", "gcp", "alibaba", "litellm"]
    assert outcome.failed == ()
    loaded = load_catalogue(cache_root=tmp_path)
    price = loaded.catalogue.instance_named("c7i.4xlarge").price
    assert price is not None
    assert price.per_hour == pytest.approx(0.7854)
    assert (price.date, price.currency) == ("2026-11-20", "USD")
    assert price.origin == str(prices_folder(tmp_path) / "aws.json")
    chinese = loaded.catalogue.instance_named("ecs.c7.4xlarge").price
    assert chinese is not None
    assert (chinese.currency, chinese.date) == ("CNY", "2026-11-28")
    assert [item.date for item in loaded.saved] == [
        "2026-11-20",
        "2026-11-20",
        "2026-11-28",
        "2026-11-28",
        "2026-11-28",
    ]


def test_offline_nothing_is_lost_and_the_age_of_what_is_there_is_told(tmp_path: Path) -> None:
    """The first file that nobody answers for ends it; every file keeps what it had, and its age is in the outcome."""
    _refresh(tmp_path, _answers(), (FILES["aws"],))
    before = (tmp_path / "aws.json").read_bytes()
    web = FakeWeb({FILES["aws"].url: UnreachableError("no connection to the server")})
    outcome = refresh_prices(
        PRICE_FILES, web=web, folder=tmp_path, today=TODAY, base=shipped(), progress=lambda _: None
    )
    assert len(web.asked) == 1
    assert [item.name for item in outcome.failed] == [file.name for file in PRICE_FILES]
    assert (outcome.failed[0].in_use, outcome.failed[0].age_days) == ("2026-11-20", 10)
    assert (outcome.failed[3].in_use, outcome.failed[3].age_days) == ("2024-12-31", 699)
    assert (tmp_path / "aws.json").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "answer", "reason"),
    [
        ("aws", WebError("the server answers with status 500"), "status 500"), ("aws", "no prices", "holds no prices"),
        ("aws", _go("us-east-1", {"c7i.xlarge": 0.2}), "almost none of the machines"),
        ("aws", _go("us-east-1", {k: 100 * v for k, v in _prices_of("aws", "us-east-1").items()}), "another currency or unit"),
        ("aws", _go("us-east-1", _prices_of("aws", "us-east-1"), "2031-01-01"), "in the future"),
        ("aws", _go("us-east-1", _prices_of("aws", "us-east-1"), "2026-11-10"), "older than those of 2026-11-20"),
        ("aws", _go("us-east-1", _prices_of("aws", "us-east-1")).replace("generated at", "made on"), "does not say of which day"),
        ("gcp", "{", "is not JSON"), ("litellm", '{"error": {"mode": "chat"}}', "holds no prices"),
    ],
)  # fmt: skip
def test_a_bad_answer_changes_nothing(tmp_path: Path, name: str, answer: str | WebError, reason: str) -> None:
    """Errors, strangers' files, wrong units, days in the future or the past: refused with a reason; the other files still come."""
    _refresh(tmp_path, _answers())
    before = (tmp_path / f"{name}.json").read_bytes()
    outcome = _refresh(tmp_path, _answers() | {FILES[name].url: answer})
    assert [(item.name, reason in item.reason) for item in outcome.failed] == [(name, True)]
    assert len(outcome.refreshed) == 4
    assert (tmp_path / f"{name}.json").read_bytes() == before


def test_one_absurd_price_among_good_ones_is_left_out(tmp_path: Path) -> None:
    """A price 1000 times what it was is a typing error: that machine keeps its own, the others get theirs."""
    prices = _prices_of("aws", "us-east-1")
    prices["c7i.xlarge"] *= 1000
    outcome = _refresh(prices_folder(tmp_path), {FILES["aws"].url: _go("us-east-1", prices)}, (FILES["aws"],))
    assert outcome.failed == ()
    catalogue = load_catalogue(cache_root=tmp_path).catalogue
    dates = [price.date for name in ("c7i.xlarge", "c7i.2xlarge") if (price := catalogue.instance_named(name).price)]
    assert dates == ["2026-07-20", "2026-11-20"]


def test_a_file_too_large_is_refused(tmp_path: Path) -> None:
    """33 MiB where the largest has 4 MB."""
    outcome = _refresh(tmp_path, {FILES["aws"].url: "x" * (33 * MIB)}, (FILES["aws"],))
    assert "more than" in outcome.failed[0].reason
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_a_reason_too(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "prices").write_text("", encoding="utf-8")
    outcome = _refresh(tmp_path / "prices", _answers(), (FILES["aws"],))
    assert "cannot write" in outcome.failed[0].reason
    assert outcome.failed[0].in_use == "2026-07-20"


@pytest.mark.parametrize(
    "text",
    [
        "", "{}", "[]", "null", '{"format": 2}', '{"format": 1, "name": "gcp"}',
        '{"format": 1, "name": "aws", "date": 3, "fetched": "2026-11-30"}',
        '{"format": 1, "name": "aws", "date": "2026-11-30", "fetched": "2026-11-30", "machines": {"c7i.xlarge": [-1, "us-east-1"]}}',
        '{"format": 1, "name": "aws", "date": "2026-11-30", "fetched": "2026-11-30", "machines": {"c7i.xlarge": [NaN, "us-east-1"]}}',
        '{"format": 1, "name": "aws", "date": "2026-11-30", "fetched": "2026-11-30", "machines": {"c7i.xlarge": [1, 2]}}',
        '{"format": 1, "name": "aws", "date": "2026-11-30", "fetched": "2026-11-30", "machines": []}',
        '{"format": 1, "name": "aws", "date": "2026-11-30", "fetched": "2026-11-30", "apis": [{"platform": 3}]}',
    ],
)  # fmt: skip
def test_a_damaged_file_in_the_cache_is_left_out_with_a_warning(tmp_path: Path, text: str) -> None:
    """Never a crash, never a price of it; the warning says which file and what to do."""
    folder = prices_folder(tmp_path)
    folder.mkdir()
    (folder / "aws.json").write_text(text, encoding="utf-8")
    loaded = load_catalogue(cache_root=tmp_path)
    assert loaded.catalogue == shipped()
    assert len(loaded.warnings) == 1
    assert "aws.json" in loaded.warnings[0]
    assert "suffice catalog refresh" in loaded.warnings[0]


def test_what_is_saved_is_read_back_as_it_was(tmp_path: Path) -> None:
    """API prices with tiers survive the way through the file."""
    _refresh(tmp_path, _answers(), (FILES["litellm"],))
    saved, warnings = saved_prices((FILES["litellm"],), tmp_path)
    assert warnings == ()
    expected = api_prices(FILES["litellm"], json.dumps(LITELLM), "2026-11-28")
    assert tuple(replace(price, origin=expected[0].origin) for price in saved[0].prices.apis) == expected


# --- the web itself


class _Handler(BaseHTTPRequestHandler):
    """A server with good, odd and hostile answers."""

    def do_GET(self) -> None:
        body, kind, status = {
            "/good": (b"\xef\xbb\xbfgood", "text/plain", 200), "/page": (b"<html>login</html>", "text/html; charset=utf-8", 200),
            "/hidden-page": (b"  <!doctype html>", "text/plain", 200), "/binary": (b"\xff\xfe\x00", "text/plain", 200),
            "/large": (b"x" * 5000, "text/plain", 200), "/packed": (b"x", "text/plain", 200), "/round": (b"", "text/plain", 302),
        }.get(self.path, (b"", "text/plain", 404))  # fmt: skip
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if self.path == "/packed":
            self.send_header("Content-Encoding", "gzip")
        if self.path == "/round":
            self.send_header("Location", "/round")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server on this machine."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy stands between this test and its server."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_proxy")
def test_a_file_is_fetched(server: str) -> None:
    """Its text, without a byte order mark."""
    assert HttpWeb().get(f"{server}/good", limit_bytes=100) == "good"


@pytest.mark.usefixtures("no_proxy")
@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/page", "web page"), ("/hidden-page", "web page"), ("/binary", "not UTF-8"), ("/large", "more than the 1000 bytes"),
        ("/packed", "compresses"), ("/none", "status 404"), ("/round", "TooManyRedirects"),
    ],
)  # fmt: skip
def test_odd_answers_are_refused(server: str, path: str, reason: str) -> None:
    """Web pages, other encodings, large, compressed and missing files, and circles: one reason each."""
    with pytest.raises(WebError, match=reason):
        HttpWeb().get(f"{server}{path}", limit_bytes=1000)


@pytest.mark.usefixtures("no_proxy")
def test_nobody_answering_is_told_apart(server: str) -> None:
    """A port where nobody listens means offline; the other files are not tried."""
    assert server
    with pytest.raises(UnreachableError, match="online"):
        HttpWeb().get("http://127.0.0.1:9/none", limit_bytes=1000)
    with pytest.raises(WebError):
        HttpWeb().get("http://[bad", limit_bytes=1000)


@pytest.mark.usefixtures("no_proxy")
def test_a_refresh_over_http_reaches_the_catalogue(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a server's file to a price of the catalogue, through the real transport."""
    monkeypatch.setattr(_Handler, "do_GET", _serve_prices)
    file = replace(FILES["aws"], url=f"{server}/prices.go")
    outcome = refresh_prices(
        (file,), web=HttpWeb(), folder=prices_folder(tmp_path), today=TODAY, base=shipped(), progress=lambda _: None
    )
    assert outcome.failed == ()
    price = load_catalogue(cache_root=tmp_path).catalogue.instance_named("c7i.xlarge").price
    assert price is not None
    assert price.date == "2026-11-20"
    assert price.per_hour == pytest.approx(0.19635)


def _serve_prices(handler: BaseHTTPRequestHandler) -> None:
    body = _go("us-east-1", _prices_of("aws", "us-east-1")).encode()
    handler.send_response(200)
    handler.send_header("Content-Type", "text/plain; charset=utf-8")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def test_every_price_file_is_of_the_catalogue() -> None:
    """Names and addresses differ, all are https, and what does not give its own day can be dated."""
    assert len({file.name for file in PRICE_FILES}) == len({file.url for file in PRICE_FILES}) == len(PRICE_FILES) == 5
    assert all(file.url.startswith("https://") for file in PRICE_FILES)
    assert all(file.dated_url or file.format is PriceFormat.GO for file in PRICE_FILES)
    providers = {machine.provider for machine in shipped().instances}
    assert {file.provider for file in PRICE_FILES} - {None} <= providers
