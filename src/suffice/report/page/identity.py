"""What makes the page again, on what it was measured, and what its words mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.report.page.model import Commands, Listing, Role, Section, Sentence, Table, Text
from suffice.report.page.phrases import told
from suffice.report.run import run_marks
from suffice.report.tables import one_line
from suffice.units import format_bandwidth, format_bytes, format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.report.page.given import NamedRun, PageInput
    from suffice.report.page.model import Block
    from suffice.report.page.words import Words

# By a pattern of what stands in a page: the word that is explained.
_WORDS: Final = {
    r"\bTTFT\b": "ttft",
    r"\bTPOT\b": "tpot",
    r"\bE2E\b": "e2e",
    r"\bP\d\d\b": "percentile",
    r"slot|槽位|--parallel": "slots",
    r"decode|生成": "decode",
    r"prefill|prompt|提示词": "prefill",
    r"[Hh]eadroom|富余度": "headroom",
    r"margin|余量": "margin",
    r"[Cc]eiling|上限": "ceiling",
    r"basis|依据": "basis",
    r"interval|区间": "interval",
    r"quantization|量化": "quantization",
    r"better in both|两方面都更好": "front",
}


def commands_section(given: PageInput, words: Words) -> Section:
    """Command lines that give the same verdict and the same page."""
    blocks: tuple[Block, ...] = (Sentence(text=words.text("commands.intro")), Commands(lines=given.commands))
    return Section(key="commands", title=words.text("section.commands"), blocks=blocks)


def fingerprint_section(given: PageInput, words: Words) -> Section:
    """Machine, model, engine and bandwidth of each run record."""
    title = words.text("section.fingerprint")
    if not given.runs:
        none = Sentence(text=words.text("fingerprint.none"), role=Role.NOTE)
        return Section(key="fingerprint", title=title, blocks=(none,))
    blocks: list[Block] = []
    for run in given.runs:
        blocks.append(_table(run, words))
        blocks += [Sentence(text=told(mark, words), role=Role.MARK) for mark in run_marks(run.record)]
    return Section(key="fingerprint", title=title, blocks=tuple(blocks))


def _table(run: NamedRun, words: Words) -> Table:
    cells = [*_of_model(run), *_of_engine(run), *_of_machine(run, words)]
    return Table(
        caption=words.text("fingerprint.caption", file=one_line(run.file)),
        header=(words.text("column.field"), words.text("column.value")),
        rows=tuple((words.text(f"fingerprint.{name}"), cell) for name, cell in cells if cell.text),
    )


def _name(text: str | None) -> Text:
    return Text(text=one_line(text or ""), is_code=True)


def _of_model(run: NamedRun) -> list[tuple[str, Text]]:
    model = run.record.model
    parameters, streamed = model.parameters, model.streamed_bytes
    return [
        ("machine", Text(text=one_line(run.record.machine or ""))),
        ("device", Text(text=one_line(run.record.device_kind))),
        ("model", _name(model.file_name or model.name)),
        ("shape", _name(model.shape_source)),
        ("hash.shape" if model.shape_sha256 else "hash", _name(model.identity)),
        ("parameters", Text(text="" if parameters is None else f"{parameters:,}", value=parameters)),
        ("streamed", Text(text="" if streamed is None else format_bytes(streamed), value=streamed, unit="bytes")),
    ]


def _of_engine(run: NamedRun) -> list[tuple[str, Text]]:
    engine = run.record.engine
    names = (engine.name, engine.version, engine.llama_cpp_version)
    return [
        ("engine", _name(" ".join(name for name in names if name))),
        ("isa", _name(", ".join(engine.isa_used))),
        ("unused", _name(", ".join(engine.isa_unused))),
    ]


def _of_machine(run: NamedRun, words: Words) -> list[tuple[str, Text]]:
    record, environment = run.record, run.record.environment
    memory = record.memory_usable_bytes
    readings = (("before", record.bandwidth_before), ("after", record.bandwidth_after))
    return [
        ("system", _name(str(environment.get("os_version") or environment.get("os") or ""))),
        ("cpus", Text(text=one_line(str(environment.get("usable_cpus") or "")))),
        ("memory", Text(text="" if memory is None else format_memory(memory), value=memory, unit="bytes")),
        *(
            (
                f"bandwidth.{when}",
                Text(text=format_bandwidth(reading.read_bytes_per_s), value=reading.read_bytes_per_s, unit="bytes/s"),
            )
            for when, reading in readings
            if reading is not None
        ),
        ("disturbed", Text(text=words.truth(value=record.disturbed))),
        ("complete", Text(text=words.truth(value=record.complete))),
        ("date", Text(text=one_line(record.created_at or ""))),
        ("version", Text(text=one_line(record.suffice_version or ""))),
    ]


def words_section(texts: Iterable[str], words: Words) -> Section | None:
    """What the short words of a page mean, for those that occur in it; None where none does."""
    whole = "\n".join(texts)
    found = [words.text(f"word.{name}") for pattern, name in _WORDS.items() if re.search(pattern, whole)]
    if not found:
        return None
    return Section(key="words", title=words.text("section.words"), blocks=(Listing(items=tuple(found)),))
