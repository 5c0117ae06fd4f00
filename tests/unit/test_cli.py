"""The command line: exit codes, one JSON document, and one sentence for everything that is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from helpers.command_line import Result, command_line
from helpers.gguf_writer import ToyLlama
from helpers.records import bare_record, document_of, run_record, write_json
from suffice import __version__
from suffice.cli.output import printable
from suffice.records.store import load_record, save_record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from suffice.records.schema import RunRecord

DEMAND = '[demand]\nkind = "interactive"\ntokens_per_second_per_user = 8\n'
COMMANDS = ("check", "ceiling", "bandwidth", "measure", "decide", "guard")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Result]:
    """Calls `suffice ...` in this process, in a folder of its own."""
    return command_line(monkeypatch, capsys, tmp_path)


@pytest.fixture
def demand(tmp_path: Path) -> Path:
    """One stream that needs 8 tokens/s."""
    path = tmp_path / "demand.toml"
    path.write_text(DEMAND, encoding="utf-8")
    return path


def _saved(path: Path, record: RunRecord) -> Path:
    save_record(record, path)
    return path


def test_help_names_every_command(run: Callable[..., Result]) -> None:
    """`suffice --help` exits 0 and lists the commands and the exit codes."""
    result = run("--help")

    assert result.code == 0
    assert all(command in result.out for command in COMMANDS)
    assert "undecided or inconclusive" in " ".join(result.out.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_an_example_and_json(run: Callable[..., Result], command: str) -> None:
    """Each command explains itself with an example, and offers --json."""
    result = run(command, "--help")

    assert result.code == 0
    assert f"suffice {command}" in result.out
    assert "--json" in result.out


def test_the_version_is_the_packages(run: Callable[..., Result]) -> None:
    """--version prints it and exits 0."""
    assert run("--version").out.strip() == f"suffice {__version__}"


def test_the_module_can_be_run() -> None:
    """`python -m suffice` is the same command, and an error leaves no traceback in a process of its own."""
    command = [sys.executable, "-m", "suffice", "ceiling", "--bandwidth", "-4", "--weights", "1"]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "suffice: --bandwidth -4 is not a positive number\n"


BAD_USAGE: dict[str, tuple[str, ...]] = {
    "no such command": ("decode",),
    "no such option": ("guard", "run.json", "--flor", "8"),
    "guard without a floor": ("guard", "run.json"),
    "a floor of nothing": ("guard", "run.json", "--floor", "0"),
    "a floor that is no number": ("guard", "run.json", "--floor", "nan"),
    "an endless floor": ("guard", "run.json", "--floor", "inf"),
    "guard of a missing file": ("guard", "missing.json", "--floor", "8"),
    "guard of a folder": ("guard", ".", "--floor", "8"),
    "guard of a device": ("guard", "/dev/zero", "--floor", "8"),
    "guard of a pipe": ("guard", "pipe", "--floor", "8"),
    "guard of no JSON": ("guard", "demand.toml", "--floor", "8"),
    "a report into a folder": ("guard", "run.json", "--floor", "8", "--junit", "."),
    "decide without records": ("decide", "demand.toml"),
    "decide without a demand": ("decide", "missing.toml", "run.json"),
    "decide with a record for a demand": ("decide", "run.json", "run.json"),
    "decide with a broken record": ("decide", "demand.toml", "broken.json"),
    "a margin below one": ("decide", "demand.toml", "run.json", "--margin", "0.5"),
    "a margin that is no number": ("decide", "demand.toml", "run.json", "--margin", "nan"),
    "a ceiling of nothing": ("ceiling",),
    "a ceiling of two things": ("ceiling", "--weights", "3", "--model", "toy.gguf"),
    "no bandwidth": ("ceiling", "--weights", "3.5", "--bandwidth", "0"),
    "no weights": ("ceiling", "--weights", "-1", "--bandwidth", "40"),
    "weights that are no number": ("ceiling", "--weights", "nan", "--bandwidth", "40"),
    "a negative peak": ("ceiling", "--weights", "1", "--bandwidth", "40", "--tflops", "-1"),
    "a batch of weights": ("ceiling", "--weights", "1", "--bandwidth", "40", "--batch", "4"),
    "a KV type that nobody knows": ("ceiling", "--model", "toy.gguf", "--bandwidth", "40", "--kv-type", "q99"),
    "a ceiling of a missing model": ("ceiling", "--model", "missing.gguf", "--bandwidth", "40"),
    "a ceiling of no model": ("ceiling", "--model", "demand.toml", "--bandwidth", "40"),
    "measure of a missing model": ("measure", "missing.gguf"),
    "measure of a broken list": ("measure", "list.json"),
    "an unknown sample": ("measure", "sample:nothing"),
    "a budget that is none": ("measure", "toy.gguf", "--budget", "soon"),
    "no threads": ("measure", "toy.gguf", "--threads", "0"),
    "a missing prompt": ("measure", "toy.gguf", "--prompt", "missing.txt"),
    "an unknown engine": ("measure", "toy.gguf", "--engine", "vllm"),
    "check without a need": ("check", "--model", "toy.gguf"),
    "check with two needs": ("check", "demand.toml", "--need", "8", "--model", "toy.gguf"),
    "check without a model": ("check", "--need", "8"),
    "a need of nothing": ("check", "--need", "0", "--model", "toy.gguf"),
    "a need that is no number": ("check", "--need", "nan", "--model", "toy.gguf"),
    "a demand that the model cannot hold": ("check", "long.toml", "--model", "toy.gguf"),
    "a bandwidth of no time": ("bandwidth", "--budget", "0s"),
}


@pytest.mark.parametrize("arguments", BAD_USAGE.values(), ids=BAD_USAGE)
def test_bad_usage_is_one_sentence(
    run: Callable[..., Result], demand: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    """Everything that is wrong exits 2, prints nothing on stdout, one sentence on stderr, and no traceback."""
    assert demand.exists()
    _saved(tmp_path / "run.json", run_record())
    (tmp_path / "broken.json").write_text('{"schema_version": 1, "ttft_s": ', encoding="utf-8")
    (tmp_path / "list.json").write_text("[{]", encoding="utf-8")
    (tmp_path / "long.toml").write_text(DEMAND + "context = 99999\n", encoding="utf-8")
    os.mkfifo(tmp_path / "pipe")
    ToyLlama().write(tmp_path / "toy.gguf")

    result = run(*arguments)

    assert result.code == 2
    assert result.out == ""
    assert "Traceback" not in result.err
    complaints = [line for line in result.err.splitlines() if line and not line.startswith(("Usage:", "Try '"))]
    assert len(complaints) == 1, result.err


@pytest.mark.parametrize(
    ("record", "code", "verdict"),
    [
        (bare_record(14.0), 0, "cpu"),
        (bare_record(10.0), 0, "cpu, thin margin \u2014 recheck after quantization"),
        (bare_record(5.0), 1, "gpu"),
        (bare_record(None), 3, "undecided"),
        (run_record(decode=8.05), 3, "undecided"),
    ],
)
def test_decide_exits_by_its_verdict(
    run: Callable[..., Result], demand: Path, tmp_path: Path, record: RunRecord, code: int, verdict: str
) -> None:
    """0 enough (thin too), 1 not enough, 3 undecided; with --json one document that says the same."""
    path = _saved(tmp_path / "run.json", record)

    text, document = run("decide", demand, path), run("decide", demand, path, "--json")

    assert (text.code, document.code) == (code, code)
    assert text.out.splitlines()[0] == f"verdict: {verdict}"
    assert document.document["verdict"] == verdict
    assert {"reason", "binding", "basis", "constraints"} <= set(document.document)


def test_decide_compares_machines(run: Callable[..., Result], demand: Path, tmp_path: Path) -> None:
    """A CPU that fails and a GPU that holds: "gpu", the ratio of the two, and the least machine by its file."""
    box = _saved(tmp_path / "box.json", bare_record(5.0, machine="Box"))
    card = _saved(tmp_path / "card.json", bare_record(50.0, machine="Card", device_kind="gpu"))

    result = run("decide", demand, box, card, "--json")

    assert result.code == 1
    assert result.document["least_machine"] == "Card (card.json)"
    assert result.document["ratios"][0]["decode"] == 10.0


def test_the_margin_of_the_command_line_counts(run: Callable[..., Result], demand: Path, tmp_path: Path) -> None:
    """10 against 8 is thin with the demand's 1.5 and enough with --margin 1.2."""
    path = _saved(tmp_path / "run.json", bare_record(10.0))

    assert run("decide", demand, path, "--margin", "1.2").out.startswith("verdict: cpu\n")


def test_decide_reads_llama_bench(run: Callable[..., Result], demand: Path, tmp_path: Path) -> None:
    """llama-bench's own file is a record; what it does not say is a warning on stderr."""
    rows = [{"n_gen": 100, "n_prompt": 0, "samples_ns": [5 * 10**9] * 8}]

    result = run("decide", demand, write_json(tmp_path / "bench.json", rows))

    assert result.code == 0
    assert "does not record whether the machine was busy" in result.err


@pytest.mark.parametrize(
    ("record", "floor", "code", "outcome"),
    [
        (run_record(), 8, 0, "pass"),
        (run_record(), 25, 1, "fail"),
        (run_record(disturbed=True), 8, 0, "pass"),  # alone the machine is no slower
        (run_record(disturbed=True), 25, 3, "inconclusive"),
        (bare_record(None), 8, 3, "inconclusive"),
    ],
)
def test_guard_exits_by_its_outcome(
    run: Callable[..., Result], tmp_path: Path, record: RunRecord, floor: float, code: int, outcome: str
) -> None:
    """One line, the exit code, a JUnit file, and with --json the same as a document."""
    path = _saved(tmp_path / "run.json", record)

    text = run("guard", path, "--floor", floor, "--junit", "deep/guard.xml")
    document = run("guard", path, "--floor", floor, "--json")

    assert (text.code, document.code) == (code, code)
    assert text.out.count("\n") == 1
    assert text.out.startswith(f"{outcome}: ")
    assert document.document["outcome"] == outcome
    assert {"reason", "smallest_detectable_change"} <= set(document.document)
    assert ET.parse(tmp_path / "deep" / "guard.xml").getroot().tag == "testsuites"  # noqa: S314  # our own file


def test_guard_pass_is_not_bought_with_an_edit(run: Callable[..., Result], tmp_path: Path) -> None:
    """A record whose plain number was raised by hand is refused, not passed."""
    path = write_json(tmp_path / "run.json", {**document_of(run_record(decode=5)), "decode_tokens_per_second": 50})

    result = run("guard", path, "--floor", 8)

    assert result.code == 2
    assert "was edited" in result.err


def test_ceiling_of_the_article(run: Callable[..., Result]) -> None:
    """40 GB/s over 3.5 GB: 11.43 tokens/s as text and 11.428... in the document, unknowns null."""
    arguments = ("ceiling", "--bandwidth", 40, "--weights", 3.5)

    text, document = run(*arguments), run(*arguments, "--json").document

    assert text.code == 0
    assert "11.43 tokens/s" in text.out
    assert document["decode_tokens_per_second"] == pytest.approx(40 / 3.5)
    assert (document["prefill_tokens_per_second"], document["kv_bytes_per_token"]) == (None, None)
    assert document["streamed_bytes"] == 3.5e9
    assert document["bound"] == "memory bandwidth"


def test_ceiling_of_a_model(run: Callable[..., Result], tmp_path: Path) -> None:
    """From a header: bytes, cache and both phases; depth lowers decode."""
    path = ToyLlama().write(tmp_path / "toy.gguf")
    empty = run("ceiling", "--bandwidth", 1, "--model", path, "--json").document
    deep = run("ceiling", "--bandwidth", 1, "--model", path, "--depth", 1000, "--json").document

    assert empty["kv_bytes_per_token"] == 256
    assert empty["prefill_tokens_per_second"] > empty["decode_tokens_per_second"] > deep["decode_tokens_per_second"]


def test_bandwidth_prints_one_document(run: Callable[..., Result]) -> None:
    """A very short measurement: one JSON document with the contract's names, progress on stderr only."""
    result = run("bandwidth", "--budget", "300ms", "--buffer-mib", 16, "--threads", 1, "--json")

    assert result.code == 0
    assert result.document["read_bytes_per_s"] > 0
    assert {"threads", "kernel", "interval", "method"} <= set(result.document)


def test_measure_turns_llama_bench_into_a_record(run: Callable[..., Result], tmp_path: Path) -> None:
    """--out holds the record, --json prints it, and both are the same."""
    rows = [{"n_gen": 100, "n_prompt": 0, "samples_ns": [5 * 10**9] * 8}]

    result = run("measure", write_json(tmp_path / "bench.json", rows), "--out", "run.json", "--json")

    assert result.code == 0
    assert result.document["decode_tokens_per_second"] == 20
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == result.document
    assert load_record(tmp_path / "run.json").source == "llama-bench"


def test_measure_ends_with_what_to_do_next(run: Callable[..., Result], tmp_path: Path) -> None:
    """On stderr: where the record is and what reads it, or how to keep it; stdout is the record alone."""
    bench = write_json(tmp_path / "bench.json", [{"n_gen": 100, "n_prompt": 0, "samples_ns": [5 * 10**9] * 8}])

    kept = run("measure", bench, "--out", "a run.json")
    lost = run("measure", bench, "--json")

    assert kept.err.endswith("record: 'a run.json'; next: suffice decide DEMAND 'a run.json'\n")
    assert "simulate" not in kept.err  # there is no service curve in it
    assert lost.err.splitlines()[-1].startswith("the record was not kept; give --out FILE")
    assert lost.document["decode_tokens_per_second"] == 20


def test_json_never_holds_what_json_lacks(run: Callable[..., Result], demand: Path, tmp_path: Path) -> None:
    """An open end is null in the document: no Infinity, no NaN."""
    record = run_record()
    demand.write_text(DEMAND + "prompt_tokens = 9000\nttft_s = 5\n", encoding="utf-8")
    path = _saved(tmp_path / "run.json", replace(record, ttft_s=None))

    out = run("decide", demand, path, "--json").out

    assert "Infinity" not in out
    assert "NaN" not in out
    assert json.loads(out)["constraints"][1]["available_high"] is None


def test_a_strangers_text_is_inert_on_stderr(run: Callable[..., Result], demand: Path, tmp_path: Path) -> None:
    """Names and warnings out of a record reach the terminal on one line each, without its control sequences."""
    record = run_record(warnings=("w\x1b[31m\nline",))
    path = _saved(tmp_path / "run.json", replace(record, model=replace(record.model, name="m\x1b[31m\nname")))
    warned = run("decide", demand, path)
    demand.write_text(DEMAND + "context = 99999\n", encoding="utf-8")

    refused = run("decide", demand, path)

    assert (warned.code, refused.code) == (0, 2)
    for text in (warned.err, refused.err):
        assert text.count("\n") == 1
        assert text.rstrip("\n").isprintable()


def test_a_ceiling_says_whether_the_model_fits(run: Callable[..., Result], tmp_path: Path) -> None:
    """42 GB of a 70B do not fit an L4 of 24 GB and fit an A100 of 80; with a stated bandwidth nobody knows."""
    model = "llama-3.1-70b:q4_k_m"

    small = run("ceiling", "--model", model, "--device", "l4", "--json").document
    large = run("ceiling", "--model", model, "--device", "a100-sxm4-80", "--chart", "r.svg", "--json").document
    stated = run("ceiling", "--model", model, "--bandwidth", "40", "--json").document

    assert (small["fits"], large["fits"], stated["fits"]) == (False, True, None)
    assert small["memory_needed_bytes"] > 42e9
    assert (tmp_path / "r.svg").exists()


def test_a_roofline_needs_a_model(run: Callable[..., Result]) -> None:
    """Bytes alone have no place on it."""
    result = run("ceiling", "--weights", "3", "--bandwidth", "40", "--chart", "r.svg")

    assert result.code == 2
    assert "--model" in result.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_bars_survive_a_terminal_without_them(encoding: str) -> None:
    """Where there is no block there is a #, never a question mark or a crash."""
    text = printable("a  ██▏ 2×… 大", encoding)

    assert text.encode(encoding)
    assert ("##" in text) == (encoding != "utf-8")
    assert ("?" in text) == (encoding != "utf-8")


def test_a_measurement_above_the_ceiling_is_a_contradiction(run: Callable[..., Result]) -> None:
    """Somebody measured 0.887 tokens/s where the bandwidth that somebody else read allows 0.627: both are shown, and which to doubt."""
    arguments = ("ceiling", "--model", "llama-3.1-70b:q4_k_m", "--instance", "c3d-highmem-8")

    text, document = run(*arguments).out, run(*arguments, "--json").document

    assert document["predicted"]["decode"]["tokens_per_second"] > document["decode_tokens_per_second"]
    assert len(document["contradictions"]) == 1
    assert "! contradiction: decode measured elsewhere" in text


def test_figures_that_no_machine_has_are_slips_of_the_unit(run: Callable[..., Result]) -> None:
    """One sentence, whatever the arithmetic would do with them."""
    for figures in (("1e300", "3"), ("40", "1e-300")):
        result = run("ceiling", "--bandwidth", figures[0], "--weights", figures[1])
        assert result.code == 2
        assert "check the unit" in result.err


def test_an_instance_is_predicted_behind_typical_answers_and_behind_the_longest_prompt(
    run: Callable[..., Result], tmp_path: Path
) -> None:
    """A prompt of 8,000 tokens whose wait is limited, answers behind 400: the depth of one says nothing, or too little, of the other."""
    demand = tmp_path / "demand.toml"
    text = '[demand]\nkind = "interactive"\ntokens_per_second_per_user = 4\noutput_tokens = 100\n'
    lengths = "prompt_tokens = { p50 = 400, p95 = 8000 }\n"
    machine = ("--instance", "aws/c7i.24xlarge", "--model", "llama-3.2-3b:q4_k_m", "--json")

    def constraints(toml: str) -> dict[str, Any]:
        demand.write_text(toml, encoding="utf-8")
        return {one["name"]: one for one in run("decide", demand, *machine).document["constraints"]}

    limited = constraints(f"{text}{lengths}ttft_s = {{ p95 = 600.0 }}\n")
    unlimited = constraints(text + lengths)

    assert limited["ttft_s"]["grade"] == "enough"
    decode = "decode_tokens_per_second"
    assert limited[decode]["available"] == pytest.approx(unlimited[decode]["available"], rel=1e-6)
