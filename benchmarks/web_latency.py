"""How long the what-if page takes to answer a change: a real server, 50 changes of demand, margin, model, quantization and prices.

Each change is asked for as the page's script asks: what there is after a moment, then the rest. Both times are printed, by kind of change.

Usage: python benchmarks/web_latency.py [RUN.json]
"""

from __future__ import annotations

import http.client
import json
import math
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
    verdict_first = 'id="verdict"' in text
    while "data-pending" in text:
        text = _got(connection, f"/result?{query}&wait=1")
    connection.close()
    return Change(kind=kind, verdict_first=verdict_first, first_s=first_s, whole_s=time.perf_counter() - start)


def _got(connection: http.client.HTTPConnection, path: str) -> str:
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    if answer.status != http.client.OK or 'id="refused"' in text:
        raise SystemExit(f"{answer.status}: {text[:300]}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change, whether its first answer had the verdict, and the seconds to that answer and to all of it."""

    kind: str
    verdict_first: bool
    first_s: float
    whole_s: float


def _report(found: list[Change]) -> None:
    print("| change | number | first answer: median, s | with the verdict | whole answer: median, s | slowest, s |")
    print("|---|---|---|---|---|---|")
    for kind in dict.fromkeys(one.kind for one in found):
        first = [one.first_s for one in found if one.kind == kind]
        whole = [one.whole_s for one in found if one.kind == kind]
        verdicts = sum(one.verdict_first for one in found if one.kind == kind)
        medians = f"{statistics.median(first):.3f} | {verdicts} | {statistics.median(whole):.3f}"
        print(f"| {kind} | {len(first)} | {medians} | {max(whole):.3f} |")
    _sum_up("first answer", [one.first_s for one in found])
    _sum_up("whole answer", [one.whole_s for one in found])


def _sum_up(name: str, times_s: list[float]) -> None:
    p95 = sorted(times_s)[math.ceil(0.95 * len(times_s)) - 1]
    within = sum(value < BAR_S for value in times_s)
    print(
        f"{name}: P50 {statistics.median(times_s):.3f} s, P95 {p95:.3f} s; {within} of {len(times_s)} under {BAR_S} s"
    )


if __name__ == "__main__":
    main()
