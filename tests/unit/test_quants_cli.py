"""The command `quants` without an engine: which flags are refused, what is printed of a kept comparison, which files are replaced."""

from __future__ import annotations

import csv
import json
import signal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from helpers.quants import comparison, paired_scores
from helpers.quants_bench import toy_file
from helpers.records import run_record
from suffice.cli.app import build_app
from suffice.cli.output import Progress
from suffice.cli.quants_asked import QuantsOptions
from suffice.cli.quants_flags import unlisted
from suffice.errors import OutputError, SufficeError, UsageError
from suffice.measure.request import RunRequest, check_same_lengths
from suffice.model.quants import Measured
from suffice.records.quants_store import save_quants
from suffice.records.schema import ModelRecord
from suffice.records.store import save_record

if TYPE_CHECKING:
    from pathlib import Path


def quants(*words: object) -> tuple[int, str]:
    """The exit code and what was printed; an error of ours is raised."""
    result = CliRunner().invoke(build_app(), ["quants", *map(str, words)])
    if isinstance(result.exception, SufficeError | KeyboardInterrupt):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A folder with a complete comparison of 1,000 items, of which the candidate loses one, and a speed record."""
    reference, candidate = paired_scores(1000, right=900, lost=1)
    record = replace(
        comparison(reference, candidate), measured=(Measured(subject="ref", record="speed/ref.json"),), complete=True
    )
    folder = tmp_path / "kept"
    save_quants(record, folder / "quants.json")
    save_record(run_record(decode=12.0, model=ModelRecord(sha256="hash of ref")), folder / "speed" / "ref.json")
    return folder


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--log a=b --log c=d --out x", "leave out --out"),
        ("--log a=b --log c=d --resume --text t.txt --no-speed", "leave out --text, --no-speed, --resume"),
        ("--log a=b --log c=d --items i.jsonl", "leave out --items"),
        ("--from x --items i.jsonl", "leave out --items"),
        ("--from x --no-distance", "leave out --no-distance"),
        ("a.gguf b.gguf --items i --imatrix m", "nothing is made without --make; leave out --imatrix"),
        ("a.gguf b.gguf --items i --log-metric acc", "leave out --log-metric"),
        ("a.gguf b.gguf --items i --no-distance --text t", "leave out --text"),
        ("a.gguf b.gguf --items i --no-speed --budget 9s", "leave out --budget"),
        ("a.gguf b.gguf --items i --ca-file c", "leave out --ca-file"),
        ("http://a http://b --items i --threads 2", "leave out --threads"),
    ],
)
def test_flags_that_would_do_nothing_are_refused(words: str, complaint: str) -> None:
    """Nobody gives a flag for nothing; the sentence names it."""
    with pytest.raises(UsageError, match=complaint):
        quants(*words.split())


def test_every_option_has_a_rule() -> None:
    """A flag that is added later is either listed, or one of the report alone."""
    given: dict[str, Any] = dict.fromkeys(QuantsOptions.__slots__)

    assert unlisted(QuantsOptions(**given)) == set()


def test_a_kept_comparison_is_printed_without_asking_anybody(kept: Path, tmp_path: Path) -> None:
    """The report, all the files, and another loss that is allowed: the folder is read only, and speeds are in it."""
    before = (kept / "quants.json").read_bytes()
    outputs = {
        flag: tmp_path / name for flag, name in (("--csv", "a.csv"), ("--flips", "b.csv"), ("--markdown", "c.md"))
    }
    flags = [word for pair in outputs.items() for word in pair]

    code, text = quants("--from", kept, *flags)
    strict, _ = quants("--from", kept, "--max-loss", "0.05")

    assert (code, strict) == (0, 3)
    assert "12 tokens/s" in text
    assert (kept / "quants.json").read_bytes() == before
    with outputs["--csv"].open(encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 1001
    with outputs["--flips"].open(encoding="utf-8", newline="") as file:
        assert len(list(csv.reader(file))) == 2
    assert "# Comparison of models" in outputs["--markdown"].read_text(encoding="utf-8")


def test_our_files_are_replaced_and_others_are_not(kept: Path, tmp_path: Path) -> None:
    """What was written by us is written again; a file of the user's that looks alike, and the comparison itself, never."""
    ours = [tmp_path / name for name in ("a.csv", "b.csv", "c.md")]
    flags = ["--csv", ours[0], "--flips", ours[1], "--markdown", ours[2]]
    quants("--from", kept, *flags)
    quants("--from", kept, *flags)
    theirs = tmp_path / "theirs"
    for flag, text in (
        ("--csv", "id,group,kind,labelled\n1,2,3,4\n"),
        ("--csv", '"id","group","kind","labelled"\n'),
        ("--markdown", "# Comparison of models\n\nby me\n"),
    ):
        theirs.write_text(text, encoding="utf-8")
        with pytest.raises(UsageError, match="no file that suffice wrote"):
            quants("--from", kept, flag, theirs)
        assert theirs.read_text(encoding="utf-8") == text
    for place, complaint in (
        (kept / "quants.json", "this command reads"),
        (kept / ".." / "kept" / "quants.json", "this command reads"),
        (kept / "speed" / "new.csv", "among what the comparison itself keeps"),
        (tmp_path / "a.csv" / "x.csv", "is no folder"),
        (tmp_path, "a folder"),
    ):
        with pytest.raises(UsageError, match=complaint):
            quants("--from", kept, "--csv", place)


def test_the_report_is_there_before_a_file_that_fails(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of one file goes while it is compared: the report is printed, the other file written, and it ends with an error."""
    place = tmp_path / "gone"
    place.mkdir()

    def no_folder(_asked: object) -> None:
        place.rmdir()
        place.touch()

    monkeypatch.setattr("suffice.cli.quants_outputs.check_asked_outputs", no_folder)

    words = ["--from", kept, "--csv", place / "x.csv", "--markdown", tmp_path / "c.md"]
    result = CliRunner().invoke(build_app(), ["quants", *map(str, words)])

    assert isinstance(result.exception, OutputError)
    assert "x.csv" in str(result.exception)
    assert "reference: ref" in result.stdout

    assert (tmp_path / "c.md").exists()


def test_a_comparison_that_is_not_finished_says_so(kept: Path) -> None:
    """Printed from its folder while it goes on."""
    path = kept / "quants.json"
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**document, "complete": False}), encoding="utf-8")

    _, text = quants("--from", kept)

    assert "the comparison is not finished" in text


def test_ctrl_c_names_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody named it: whoever interrupts is told how to go on."""

    def interrupted(job: Any, _around: object) -> None:  # noqa: ANN401  # the job
        (job.folder / "answers").mkdir(parents=True)
        signal.raise_signal(signal.SIGINT)

    for name in ("a", "b"):
        toy_file(tmp_path / f"{name}.gguf", name)
    (tmp_path / "i.jsonl").write_text('{"id": 1, "prompt": "?", "answer": "x"}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("suffice.quants.workflow.compare_models", interrupted)

    result = CliRunner().invoke(build_app(), ["quants", "a.gguf", "b.gguf", "--items", "i.jsonl"])

    (folder,) = (tmp_path / "suffice-runs").iterdir()
    assert result.exit_code == 130
    assert f"--out suffice-runs/{folder.name} --resume" in result.output + result.stderr


def test_steps_in_a_log_come_at_least_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Lines that differ in their numbers only are shown again after ten seconds; another step at once."""
    now = iter([0.0, 4.0, 9.9, 10.0, 12.0, 13.0])
    progress = Progress(clock=lambda: next(now))

    for step in ("low: 1 of 9", "low: 2 of 9", "low: 3 of 9", "low: 4 of 9", "low: 5 of 9", "other"):
        progress(step)

    assert capsys.readouterr().err.splitlines() == ["suffice: low: 1 of 9", "suffice: low: 4 of 9", "suffice: other"]


@pytest.mark.parametrize(
    ("prompt_tokens", "depth", "warnings", "settings", "complaint"),
    [
        (512, 0, (), {}, None),
        (200, 0, (), {}, "a prompt of 512 tokens, not 200"),
        (3000, 0, (), {}, "a prompt of 512 tokens, not 3000"),
        (3000, 0, ("the prompt was shortened from 3000 to 512 tokens to fit",), {}, None),
        (4000, 0, ("the prompt was shortened from 3000 to 512 tokens to fit",), {}, "not 4000"),
        (512, 4096, (), {}, "a depth of 0 tokens, not 4096"),
        (3000, 0, (), {"asked_lengths": {"prompt_tokens": 3000, "depth": 0}}, None),
        (512, 0, (), {"asked_lengths": {"prompt_tokens": 3000, "depth": 0}}, "a prompt of 3000 tokens, not 512"),
    ],
)
def test_a_record_of_other_lengths_is_not_taken(
    prompt_tokens: int, depth: int, warnings: tuple[str, ...], settings: dict[str, Any], complaint: str | None
) -> None:
    """Prompt and depth are those that are asked for, or what a budget left of them, and the record says so."""
    record = replace(run_record(decode=1.0, depth=0, settings=settings), warnings=warnings)
    request = RunRequest(model=None, prompt_tokens=prompt_tokens, depth=depth)  # type: ignore[arg-type]  # no model matters

    if complaint is None:
        check_same_lengths(record, request)
    else:
        with pytest.raises(UsageError, match=complaint):
            check_same_lengths(record, request)
