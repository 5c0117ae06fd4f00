"""The memo: the verdict and everything it rests on, as Markdown for a review."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.decide.wording import format_value
from suffice.report.decision import constraint_notes, constraint_rows
from suffice.report.outlook import outlook_markdown
from suffice.report.prospects import prospects_markdown
from suffice.report.run import run_marks, run_rows
from suffice.report.tables import markdown_table, markdown_text
from suffice.units import format_memory

if TYPE_CHECKING:
    from suffice.decide.compare import Decision
    from suffice.model.demand import Demand, Lengths, Limit
    from suffice.records.schema import RunRecord
    from suffice.report.prospects import CheapestMachines

# By a pattern of the word: its line in the memo.
_WORDS: Final = {
    r"\bTTFT\b|[Tt]ime to first token": "**TTFT**, time to first token: seconds from sending a request to the first text of its answer.",
    r"\bTPOT\b": "**TPOT**, time per output token: seconds from one token of an answer to the next; 1 / TPOT is its tokens/s.",
    r"\bP\d\d\b": "**P95**: 95 of 100 requests are at or under this value; P50 and P99 likewise.",
    r"\bslots?\b|--parallel": "**Slots**: requests that a server works on at the same time, each with a cache (`--parallel`); others wait.",
}


def memo_markdown(
    demand: Demand, decision: Decision, record: RunRecord, machines: CheapestMachines | None = None
) -> str:
    """Verdict first; then the demand, the constraints, what is simulated under load, machines to rent, the run, what would flip it, and how to repeat it."""
    verdict = decision.verdict
    parts = [
        f"# Verdict: {markdown_text(verdict.verdict)}",
        markdown_text(verdict.reason),
        f"**Next:** {markdown_text(verdict.settle)}" if verdict.settle else "",
        "## Constraints",
        markdown_table([["constraint", "required", "available", "headroom", "stands"], *constraint_rows(verdict)]),
        "\n".join(f"- {markdown_text(note)}" for note in constraint_notes(verdict)),
        f"The verdict rests on: {verdict.basis or 'no evidence'} (the weakest basis among what was judged).",
        "" if verdict.service is None else outlook_markdown(verdict.service),
        _flips(verdict.flips),
        "" if machines is None else prospects_markdown(machines),
        "## Demand, as stated",
        markdown_table([["field", "value"], *_demand_rows(demand)]),
        "## Run",
        markdown_table([["what", "value", "how"], *run_rows(record)]),
        "\n".join(f"- **{markdown_text(mark)}**" for mark in run_marks(record)),
        "\n".join(f"- {markdown_text(warning)}" for warning in record.warnings),
        "## Identity",
        markdown_table([["field", "value"], *_identity_rows(record)]),
    ]
    text = "\n\n".join(part for part in parts if part)
    return "\n\n".join(part for part in (text, _words_in(text)) if part) + "\n"


def _words_in(text: str) -> str:
    """What the short words of a memo mean, for those that occur in it."""
    found = [line for word, line in _WORDS.items() if re.search(word, text)]
    return "## Words\n\n" + "\n".join(f"- {line}" for line in found) if found else ""


def _flips(flips: tuple[str, ...]) -> str:
    if not flips:
        return ""
    return "The verdict changes when the demand does:\n\n" + "\n".join(f"- {markdown_text(flip)}" for flip in flips)


def _lengths(lengths: Lengths | None) -> str:
    if lengths is None:
        return "not stated"
    return f"{lengths.p50:g}" if lengths.p50 == lengths.p95 else f"P50 {lengths.p50:g}, P95 {lengths.p95:g}"


def _limit(limit: Limit | None) -> str:
    return "not stated" if limit is None else f"{format_value(limit.value_s, 's')} at P{limit.percentile:g}"


def _demand_rows(demand: Demand) -> list[list[str]]:
    stated = [
        ["kind", demand.kind.value],
        ["margin", f"{demand.margin:g}"],
        ["prompt tokens", _lengths(demand.prompt_tokens)],
        ["output tokens", _lengths(demand.output_tokens)],
        [
            "requests per second",
            "not stated" if demand.requests_per_second is None else f"{demand.requests_per_second:.6g}",
        ],
        *([["requests per day", f"{demand.volume_per_day:.6g}"]] if demand.volume_per_day is not None else []),
        ["concurrent users", str(demand.concurrent_users or "not stated")],
        ["tokens per second per user", f"{demand.tokens_per_second_per_user or 'not stated'}"],
        ["time to first token", _limit(demand.ttft)],
        ["time per output token", _limit(demand.tpot)],
        ["window", "not stated" if demand.window_s is None else format_value(demand.window_s, "s")],
        ["context", str(demand.context_tokens or "not stated")],
        ["memory", "not stated" if demand.memory_bytes is None else format_memory(demand.memory_bytes)],
        ["quality floor", "not stated" if demand.quality_floor is None else f"{demand.quality_floor:g}"],
        [
            "budget",
            "not stated"
            if demand.budget_per_month is None
            else f"{demand.budget_per_month:g} {demand.currency} a month",
        ],
    ]
    return [row for row in stated if row[1] != "not stated"]


def _identity_rows(record: RunRecord) -> list[list[str]]:
    environment = record.environment
    rows = [
        ["suffice", record.suffice_version or "unknown"],
        ["measured at", record.created_at or "unknown"],
        ["model", record.model.file_name or record.model.name or "unknown"],
        ["shape from", record.model.shape_source or ""],
        [
            "SHA-256 of its shape" if record.model.shape_sha256 else "model SHA-256",
            record.model.identity or "unknown",
        ],
        [
            "engine",
            f"{record.engine.name or 'unknown'} {record.engine.version or ''} {record.engine.llama_cpp_version or ''}",
        ],
        ["operating system", str(environment.get("os_version") or environment.get("os") or "unknown")],
        ["usable CPUs", str(environment.get("usable_cpus", "unknown"))],
    ]
    return [[name, value.strip()] for name, value in rows if value.strip()]
