"""Sentences about loads on servers. Nothing is concluded here."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

from suffice.decide.service_load import DEFAULT_OUTPUT_TOKENS
from suffice.model.demand import DEFAULT_PROMPT_TOKENS, users_with_margin
from suffice.model.served import LoadKind
from suffice.stats.percentiles import samples_needed
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.served_load import LoadStanding, ServedNeed
    from suffice.model.demand import Demand, Lengths
    from suffice.model.served import ServedLengths, ServedLoad

_PERCENT: Final = 100
_LEAST_REQUESTS: Final = 100
# A Poisson run sends some requests fewer by chance, and its tail makes the rate over the whole run smaller.
_OVER: Final = 1.1
PREBUILT: Final = "the server was the prebuilt engine that --spawn starts, whose figures are lower bounds: one that is built for this CPU may hold what it failed"
KIND_ADVICE: Final = "Say what the server runs on: --server-kind cpu or --server-kind gpu."
# So many times the least number of attempts, and the interval is narrower than the whole sample, also with some failures.
_COMFORT: Final = 4
_OF_USERS: Final = 10
_SHOWN_LOADS: Final = 2
_PLAIN_ADDRESS: Final = re.compile(r"https?://[A-Za-z0-9._:/\[\]-]+")  # what a shell leaves alone


def kind_missing(name: str) -> str:
    """Why the word is "undecided" although the loads may settle the rest."""
    return f"Whether {name} runs on a CPU or on a GPU is in no load tool's file, so the word is open. What follows holds for this server."


def level_text(load: ServedLoad) -> str:
    """The load in words: ``8 users``, ``6 requests/s asked, 6.5 sent``."""
    if load.asked is None:
        return str(load.kind)
    unit = "user" if load.kind is LoadKind.USERS and load.asked == 1 else str(load.kind)
    text = f"{load.asked:.4g} {unit}"
    if load.kind is LoadKind.RATE and load.level_low is not None and load.level_high is not None:
        sent = load.level_high if math.isclose(load.level_low, load.asked) else load.level_low
        text += f" asked, {sent:.4g} sent"
    return text


def stands_text(standing: LoadStanding) -> str:
    """What a load shows: ``held``, ``failed``, or ``open``."""
    if standing.shows_holding:
        return "held"
    return "failed" if standing.shows_failing else "open"


def constraint_note(standings: Sequence[LoadStanding]) -> str:
    """The highest load that held and the lowest that failed; where there is neither, why the first loads show nothing."""
    held = max((one for one in standings if one.shows_holding), key=lambda one: one.level_low or 0.0, default=None)
    failed = min((one for one in standings if one.shows_failing), key=lambda one: one.level_high or 0.0, default=None)
    parts = [
        f"{stands_text(one)} at {level_text(one.load)} in {one.load.source}"
        for one in (held, failed)
        if one is not None
    ]
    if any(one.load.of_prebuilt and PREBUILT in one.reasons for one in standings):
        parts.append(PREBUILT)
    if parts:
        return "; ".join(parts)
    first = standings[:_SHOWN_LOADS]
    parts = [f"{one.load.source}{_at(one.load)} shows nothing: {'; '.join(one.reasons)}" for one in first]
    more = len(standings) - len(first)
    return ". ".join(parts) + (f"; and {more} more loads" if more else "")


def _at(load: ServedLoad) -> str:
    return "" if load.asked is None else f" at {level_text(load)}"


def unstated_lengths(need: ServedNeed, standings: Sequence[LoadStanding]) -> str:
    """That a demand without lengths is judged by those of the loads, which another load would not have; "" where it states them."""
    shown = [one for one in standings if not one.load.problems]
    missing = [what for what, wanted in (("prompts", need.prompt), ("answers", need.output)) if wanted is None]
    if not missing or not shown or not need.limits:
        return ""
    lengths = "; ".join(dict.fromkeys(lengths_text(one.load) for one in shown[:_SHOWN_LOADS]))
    return (
        f"The demand states no length of {' and '.join(missing)}, so this holds for lengths as in the loads ({lengths}; a simulation "
        f"takes {DEFAULT_PROMPT_TOKENS} and {DEFAULT_OUTPUT_TOKENS})."
    )


def lengths_text(load: ServedLoad) -> str:
    """``prompts 94, P95 120; answers 64``."""

    def text(had: ServedLengths) -> str:
        if had.mean is None:
            return "unknown"
        return f"{had.mean:.4g}" + ("" if had.p95 is None else f", P95 {had.p95:.4g}")

    return f"prompts {text(load.prompt)}; answers {text(load.output)}"


def settle_command(demand: Demand, need: ServedNeed, loads: Sequence[ServedLoad]) -> str:
    """The command that would settle it: margin x the demanded load, with as many requests as its percentiles need."""
    lasting = (load.server for load in loads if not load.of_prebuilt)  # one that was started for a load is gone with it
    addresses = (server for server in lasting if server and _PLAIN_ADDRESS.fullmatch(server))
    words = ["suffice", "load", next(addresses, "URL")]
    if need.counts_users:
        users = users_with_margin(need.demanded, need.margin if need.has_capacity else 1.0)
        words += ["--concurrency", f"{users}", "--requests", f"{max(_requests(need), _OF_USERS * users)}"]
    else:
        # Work that nobody waits for has to be done in its window, which a rate over the whole day does not show.
        rate = need.demanded if need.needed_requests_per_s is None else need.needed_requests_per_s
        words += ["--rate", f"{rate * need.margin * _OVER:.4g}", "--requests", f"{_requests(need)}"]
    words += _length_words("--prompt-tokens", demand.prompt_tokens) + _length_words(
        "--output-tokens", demand.output_tokens
    )
    for limit in need.limits:
        flag = "--ttft-limit" if limit.metric == "ttft_s" else "--tpot-limit"
        words += [flag, f"{limit.seconds * MILLISECONDS_PER_SECOND:.4g}ms"]
    where = ", on a server that is built for this CPU" if any(load.of_prebuilt for load in loads) else ""
    return f"Measure at the load that is needed with its margin{where}, and decide with the result: {' '.join(words)} --out load.json"


def _requests(need: ServedNeed) -> int:
    needed = (samples_needed(limit.percent / _PERCENT) for limit in need.limits)
    return max(_LEAST_REQUESTS, *(_COMFORT * count for count in needed), _LEAST_REQUESTS)


def _length_words(flag: str, lengths: Lengths | None) -> list[str]:
    """The long end, so that one length stands for the whole distribution on the safe side."""
    return [] if lengths is None else [flag, f"{math.ceil(lengths.p95)}"]
