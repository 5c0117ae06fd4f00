"""The cache of candidates: one maker at a time, nothing half-made, nothing of others, and what `suffice cache` shows of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from typer.testing import CliRunner

from helpers.gguf_writer import ToyLlama
from suffice.cli.app import build_app
from suffice.errors import OutputError
from suffice.loaders.model_file import open_model_file
from suffice.quants.fake_quantizer import FakeQuantizer
from suffice.quants.made_store import MadeNote, MadeStore
from suffice.quants.remake import make_candidate
from suffice.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

POSIX_ONLY = pytest.mark.skipif(sys.platform == "win32", reason="without locks each process makes its own")

# A process that makes q8_0 of the file, and is in the middle of it until it may go on. Prints what it is told.
MAKER = """
import sys, time
from pathlib import Path
from suffice.loaders.model_file import open_model_file
from suffice.quants.fake_quantizer import FakeQuantizer
from suffice.quants.made_store import MadeStore
from suffice.quants.remake import make_candidate

root, reference, gate = map(Path, sys.argv[1:])

class Slow(FakeQuantizer):
    def quantize(self, job, progress):
        job.target.write_bytes(b"half")
        print("in the middle", flush=True)
        while not gate.exists():
            time.sleep(0.02)
        super().quantize(job, progress)

made = make_candidate(open_model_file(reference), "q8_0", Slow(), MadeStore(root), progress=lambda t: print(t, flush=True))
print("new" if made.is_new else "old", flush=True)
"""


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    """A model in F16."""
    return ToyLlama(n_embd=256, n_ff=512).write(tmp_path / "toy.gguf")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The cache's folder, also that of the command line."""
    monkeypatch.setenv("SUFFICE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def maker(root: Path, reference: Path, tmp_path: Path) -> Callable[[], subprocess.Popen[str]]:
    """Starts a process that is in the middle of making until there is a file ``gate``."""

    def start() -> subprocess.Popen[str]:
        command = [sys.executable, "-c", MAKER, str(root), str(reference), str(tmp_path / "gate")]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    return start


def heard(process: subprocess.Popen[str], line: str) -> None:
    """Wait until the process has printed the line."""
    assert process.stdout is not None
    for said in process.stdout:
        if said.strip() == line:
            return
    raise AssertionError(f"it ended without {line!r}")


def rest(process: subprocess.Popen[str]) -> list[str]:
    """What the process prints until its end."""
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    return out.splitlines()


def make(reference: Path, root: Path) -> Path:
    """The candidate's file, made by this process."""
    return make_candidate(open_model_file(reference), "q8_0", FakeQuantizer(), MadeStore(root)).path


def run_cache(*words: str) -> str:
    """What `suffice cache` prints."""
    result = CliRunner().invoke(build_app(), ["cache", *words], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@POSIX_ONLY
def test_two_processes_make_it_once(maker: Callable[[], subprocess.Popen[str]], tmp_path: Path) -> None:
    """The second waits for the first, says so, and takes what that one made."""
    first = maker()
    heard(first, "in the middle")
    second = maker()
    heard(second, "another suffice is making the same candidate; waiting for it")
    (tmp_path / "gate").touch()

    assert rest(first)[-1] == "new"
    assert rest(second) == ["old"]


@POSIX_ONLY
def test_a_maker_is_left_alone_and_if_killed_leaves_nothing_that_counts(
    maker: Callable[[], subprocess.Popen[str]], root: Path, reference: Path
) -> None:
    """`suffice cache clear` removes nothing of it; after kill -9 its half file is no candidate, and the next one makes it whole."""
    process = maker()
    heard(process, "in the middle")
    store = MadeStore(root)
    assert "0 B freed" in run_cache("clear")
    assert store.total_bytes() == len(b"half")
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert store.entries() == ()

    path = make(reference, root)

    assert open_model_file(path).shape.file_bytes == path.stat().st_size
    assert [child.name for child in store.made.iterdir()] == [path.parent.name]


@POSIX_ONLY
def test_what_a_killed_process_left_is_swept_by_the_next(root: Path, reference: Path) -> None:
    """Whatever is made next, and by `suffice cache clear` too."""
    make(reference, root)
    for sweep in (
        lambda: make_candidate(open_model_file(reference), "q6_k", FakeQuantizer(), MadeStore(root)),
        lambda: run_cache("clear"),
    ):
        left = root / "made" / f".building-{'b' * 64}"
        left.mkdir()
        (left / "lock").touch()
        (left / "half.gguf").write_text("half")
        sweep()
        assert not left.exists()


def test_the_command_shows_and_clears_candidates(root: Path, reference: Path) -> None:
    """With recipe, origin, size and last use, as text and as JSON; by age, and all."""
    path = make(reference, root)
    os.utime(path.parent, (60, 60))

    text = run_cache()
    document: dict[str, Any] = json.loads(run_cache("--json"))

    assert "1 candidate made by `suffice quants --make`" in text
    size = format_memory(document["made"][0]["bytes"])
    assert re.search(rf"^q8_0 +toy.gguf +{size} +1970-01-01 00:01 UTC$", text, re.MULTILINE)
    (entry,) = document["made"]
    assert (entry["recipe"], entry["made_from"], entry["path"]) == ("q8_0", "toy.gguf", str(path))
    assert document["made_bytes"] == entry["bytes"] > path.stat().st_size
    assert json.loads(run_cache("clear", "--older-than", "1000000d", "--json"))["freed_bytes"] == 0
    cleared = json.loads(run_cache("clear", "--older-than", "7d", "--json"))
    assert (cleared["freed_bytes"], cleared["total_bytes"]) == (entry["bytes"], 0)
    assert "candidate" not in run_cache()


def test_what_is_not_ours_stays(root: Path, reference: Path) -> None:
    """Only folders with the name of a key are candidates; a link there is neither followed nor removed."""
    precious = root.parent / "precious"
    precious.mkdir()
    (precious / "thesis.gguf").write_text("precious")
    make(reference, root)
    (root / "made" / "notes.txt").write_text("precious")
    (root / "made" / ("a" * 64)).symlink_to(precious, target_is_directory=True)

    run_cache("clear")

    assert (precious / "thesis.gguf").exists()
    assert (root / "made" / "notes.txt").exists()
    assert MadeStore(root).total_bytes() == 0


@pytest.mark.parametrize("planted", ["link", "file"])
def test_a_planted_folder_is_refused(root: Path, reference: Path, planted: str) -> None:
    """A link in the place of the folder would have us write, and delete, elsewhere."""
    make(reference, root)
    run_cache("clear")
    (root / "made").rmdir()
    if planted == "link":
        (root / "made").symlink_to(root.parent, target_is_directory=True)
    else:
        (root / "made").write_text("")

    with pytest.raises(OutputError, match="where the cache needs a folder"):
        make(reference, root)
    with pytest.raises(OutputError, match="where the cache needs a folder"):
        MadeStore(root).clear()


@pytest.mark.parametrize(
    "change",
    [
        {"n_bytes": "1"},
        {"n_bytes": True},
        {"file": "../../x.gguf"},
        {"file": 3},
        {"imatrix": 1},
        {"recipe": None},
        {"more": 1},
    ],
)
def test_a_note_that_is_none_counts_as_damage(root: Path, reference: Path, change: dict[str, object]) -> None:
    """Wrong types, a file elsewhere, or fields of another kind of note: the candidate is made again, and shown as unknown until then."""
    path = make(reference, root)
    place = path.parent / "made.json"
    place.write_text(json.dumps({**json.loads(place.read_text()), **change}))

    assert MadeStore(root).entries()[0].note is None
    assert "unknown" in run_cache()
    again = make_candidate(open_model_file(reference), "q8_0", FakeQuantizer(), MadeStore(root))
    assert again.is_new


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path, reference: Path) -> None:
    """A folder under a file, as a person may set SUFFICE_CACHE_DIR by mistake."""
    (tmp_path / "file").write_text("")
    note: Callable[[Path], MadeNote] = lambda _folder: pytest.fail("nothing can be made here")  # noqa: E731

    with pytest.raises(OutputError, match="SUFFICE_CACHE_DIR"):
        MadeStore(tmp_path / "file" / "cache").obtain("a" * 64, 1, note, lambda _text: None)
    assert reference.exists()


def test_entries_are_in_order_of_their_last_use(root: Path, reference: Path) -> None:
    """The one used last comes first, and being used counts as use."""
    for recipe in ("q8_0", "q6_k"):
        made = make_candidate(open_model_file(reference), recipe, FakeQuantizer(), MadeStore(root))
        os.utime(made.path.parent, (60, 60))
    before_s = time.time() - 60

    make(reference, root)

    notes = [
        (entry.note.recipe if entry.note else None, entry.last_used_s > before_s) for entry in MadeStore(root).entries()
    ]
    assert notes == [("q8_0", True), ("q6_k", False)]
