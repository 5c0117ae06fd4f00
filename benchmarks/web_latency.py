"""How long the what-if page takes to answer a change: a real server, 50 changes of demand, margin, model, quantization and prices.

Each change is asked for as the page's script asks: what there is after a moment, then each part as it is ready. Printed are, by kind of change,
the seconds to the first answer, to a verdict, to the final verdict and to all of it, and how many first answers held a verdict and a plan; what
is provisional is marked on the page, and no figure of it is among the final ones.

Usage: python benchmarks/web_latency.py [RUN.json]
"""

from __future__ import annotations

import http.client
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from suffice.web.form import default_form, with_choice

BAR_S = 0.3
_PROVISIONAL = " (provisional)"
STREAM = {"prompt_p50": "500", "prompt_p95": "", "output_p50": "200", "output_p95": "", "ttft_s": "5.0"}
USERS = STREAM | {"concurrent_users": "4"}
QUEUE = STREAM | {"kind": "batch", "ttft_s": "", "tokens_per_second_per_user": "", "rate": "8000"}
RATE = STREAM | {"rate": "2000", "tokens_per_second_per_user": ""}
COST = {"machine_price": "2400", "machine_currency": "USD", "machine_months": "36"}
OWN = {"price_instance": "aws/c7i.4xlarge", "price_currency": "USD", "price_region": "stated"}


def changes() -> list[tuple[str, dict[str, str]]]:
    """50 forms, each another one, by what is changed."""
    listed = [("decode rate", STREAM | {"tokens_per_second_per_user": f"{rate}"}) for rate in (3, 5, 7, 9, 12)]
    listed += [("lengths", STREAM | {"prompt_p50": f"{tokens}"}) for tokens in (300, 700, 1100, 1500, 2100)]
    listed += [("margin", STREAM | {"margin": f"{margin}"}) for margin in (1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0, 2.5)]
    names = ("qwen3-8b", "mistral-7b-v0.3", "gemma-3-12b", "qwen3-14b", "phi-4-14b", "qwen3-30b-a3b", "llama-3.1-70b")
    listed += [("model", STREAM | {"model": name}) for name in names]
    recipes = ("q8_0", "q6_k", "q5_k_m", "q3_k_m", "q2_k", "f16")
    listed += [("quantization", STREAM | {"quantization": recipe}) for recipe in recipes]
    listed += [("price of this machine", STREAM | COST | {"machine_price": f"{price}"}) for price in (900, 1800, 3600)]
    listed += [("own price", STREAM | OWN | {"price_per_hour": f"{price}"}) for price in (0.3, 0.5, 0.9)]
    listed += [("budget", STREAM | {"budget_per_month": f"{most}", "currency": "USD"}) for most in (200, 500)]
    listed += [("users", USERS | {"concurrent_users": f"{users}"}) for users in (2, 3, 6, 8)]
    listed += [("margin of users", USERS | {"margin": f"{margin}"}) for margin in (1.2, 2.0)]
    listed += [("queue", QUEUE | {"rate": f"{rate}"}) for rate in (4000, 8000)]
    listed += [("rate with a limit", RATE | {"rate": f"{rate}"}) for rate in (1000, 2000, 4000)]
    return listed


def main() -> None:
    """Start the server, ask, and print both tables."""
    runs = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "err.txt").open("w") as errors:
        command = [sys.executable, "-m", "suffice", "web", *runs, "--json"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            port = _port(server)
            _report([_asked(port, kind, form) for kind, form in changes()])
        finally:
            server.terminate()
            server.wait(timeout=20)


def _port(server: subprocess.Popen[str]) -> int:
    text = ""
    while server.stdout is not None and (line := server.stdout.readline()):
        text += line
        if line.startswith("}"):
            return int(json.loads(text)["port"])
    raise SystemExit("the server did not start")


def _asked(port: int, kind: str, form: dict[str, str]) -> Change:
    """Ask until the answer is whole."""
    base = with_choice(default_form(), model="llama-3.1-8b", quantization="q4_k_m")
    query = urlencode(dict(base.key) | form)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    start = time.perf_counter()
    text = _got(connection, f"/result?{query}")
    first_s = time.perf_counter() - start
    change = Change(kind=kind, first_s=first_s, first_verdict=_title(text), first_option=_option(text))
    while True:
        change.whole_s = time.perf_counter() - start
        title = _title(text)
        if title is not None and change.verdict_s is None:
            change.verdict_s = change.whole_s
        if title is not None and change.final_s is None and _PROVISIONAL not in title:
            change.final_s = change.whole_s
        if "data-pending" not in text:
            break
        text = _got(connection, f"/result?{query}&wait=1")
    connection.close()
    change.last_verdict, change.last_option = _title(text), _option(text)
    return change


def _title(text: str) -> str | None:
    """The verdict, with the mark of a provisional one."""
    found = re.search(r'id="verdict-title"[^>]*>(.*?)</h2>', text)
    return None if found is None else found[1]


def _option(text: str) -> str | None:
    """The first option of the plan."""
    found = re.search(r'id="cost".*?<tbody>.*?<code>(.*?)</code>', text, re.DOTALL)
    return None if found is None else found[1]


def _got(connection: http.client.HTTPConnection, path: str) -> str:
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != http.client.OK or 'id="refused"' in text:
        raise SystemExit(f"{answer.status}: {text[:300]}")
    return text


@dataclass(slots=True, kw_only=True)
class Change:
    """One change: what its first answer held, and the seconds to that answer, to a verdict, to the final one, and to all of it."""

    kind: str
    first_s: float
    first_verdict: str | None
    first_option: str | None
    last_verdict: str | None = None
    last_option: str | None = None
    verdict_s: float | None = None
    final_s: float | None = None
    whole_s: float = 0.0


def _report(found: list[Change]) -> None:
    print(
        "| change | number | first answer, s | with a verdict | with a plan | a verdict, s | final verdict, s | all, s | slowest, s |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for kind in dict.fromkeys(one.kind for one in found):
        own = [one for one in found if one.kind == kind]
        verdicts, plans = (
            sum(one.first_verdict is not None for one in own),
            sum(one.first_option is not None for one in own),
        )
        times = (
            [one.verdict_s for one in own if one.verdict_s is not None],
            [one.final_s for one in own if one.final_s is not None],
            [one.whole_s for one in own],
        )
        medians = " | ".join(f"{statistics.median(values):.3f}" if values else "none" for values in times)
        first = statistics.median([one.first_s for one in own])
        print(f"| {kind} | {len(own)} | {first:.3f} | {verdicts} | {plans} | {medians} | {max(times[2]):.3f} |")
    _sum_up("first answer", [one.first_s for one in found])
    _sum_up("a verdict", [one.verdict_s for one in found if one.verdict_s is not None])
    _sum_up("final verdict", [one.final_s for one in found if one.final_s is not None])
    _sum_up("whole answer", [one.whole_s for one in found])
    both = [one for one in found if one.first_verdict is not None and one.first_option is not None]
    in_time = sum(one.first_s < BAR_S for one in both)
    print(f"first answers under {BAR_S} s with a verdict and a plan: {in_time} of {len(found)}")
    early = [one for one in found if _PROVISIONAL in (one.first_verdict or "")]
    same = sum((one.first_verdict or "").replace(_PROVISIONAL, "") == one.last_verdict for one in early)
    print(f"provisional verdicts that the final one confirmed: {same} of {len(early)}")
    kept = sum(one.first_option == one.last_option for one in both)
    print(f"first options of the first answer's plan that stayed first: {kept} of {len(both)}")


def _sum_up(name: str, times_s: list[float]) -> None:
    p95 = sorted(times_s)[math.ceil(0.95 * len(times_s)) - 1]
    within = sum(value < BAR_S for value in times_s)
    print(
        f"{name}: P50 {statistics.median(times_s):.3f} s, P95 {p95:.3f} s; {within} of {len(times_s)} under {BAR_S} s"
    )


if __name__ == "__main__":
    main()
