"""The cache of slices: what is shared, what is kept, what goes, and what happens when the disk or somebody is unkind."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from helpers.gguf_writer import ToyLlama
from helpers.slices import Q8Blocks, slice_header, tensor
from suffice.errors import ModelFileError, OutputError
from suffice.loaders.gguf import read_gguf_header
from suffice.model.gguf_header import LongArray, LongText
from suffice.slices.cache import SliceCache
from suffice.slices.fake_blocks import FakeBlocks
from suffice.slices.parts import plan_files
from suffice.units import TERA

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.model.gguf_header import GgufHeader, MetadataValue

posix = pytest.mark.skipif(os.name == "nt", reason="uses links or signals of POSIX")


def silent(step: str) -> None:
    """Progress that nobody looks at."""
    assert step


def header(layers: int = 2, *, width: int = 256, name: str = "toy") -> GgufHeader:
    """A small slice whose layers take some 400 kB each."""
    toy = ToyLlama(n_layer=layers, n_embd=width, n_head=4, n_ff=256, n_vocab=300, type_name="q8_0")
    return slice_header(toy, {"general.name": name})


def obtain(cache: SliceCache, wanted: GgufHeader, steps: list[str] | None = None) -> Path:
    """A slice from the cache, with blocks that need no engine."""
    return cache.obtain(wanted, FakeBlocks(), progress=silent if steps is None else steps.append)


def part_files(root: Path) -> list[Path]:
    """The part files of a cache."""
    return sorted((root / "parts").iterdir())


def everything(root: Path) -> list[Path]:
    """All that a cache holds but its own folders and tag."""
    own = {root / name for name in ("parts", "slices", "tmp", "CACHEDIR.TAG")}
    return sorted(path for path in root.rglob("*") if path not in own)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder that does not exist yet."""
    return tmp_path / "a" / "cache"


def test_a_slice_is_read_back_as_it_was_asked_for(root: Path) -> None:
    """The reader finds the metadata, a vocabulary, and every tensor with its dimensions and type."""
    wanted = header(3)

    found = read_gguf_header(obtain(SliceCache(root), wanted))

    assert {item.name: (item.dims, item.type_name, item.n_bytes) for item in found.tensors} == {
        item.name: (item.dims, item.type_name, item.n_bytes) for item in wanted.tensors
    }
    for key, value in wanted.metadata.items():
        if key == "general.name":  # of which llama.cpp makes special tokens that the vocabulary does not have
            assert key not in found.metadata
            continue
        assert found.metadata[key] == (pytest.approx(value) if isinstance(value, float) else value)
    assert len(found.metadata["tokenizer.ggml.tokens"]) == 300  # type: ignore[arg-type]  # a tuple


def test_a_second_run_writes_nothing(root: Path) -> None:
    """The same header gives the same files, by another object as well, whatever its offsets; progress is silent."""
    first = obtain(SliceCache(root), header())
    times = [path.stat().st_mtime_ns for path in part_files(root)]
    steps: list[str] = []
    moved = replace(header(), tensors=tuple(replace(item, offset=7) for item in header().tensors))

    assert obtain(SliceCache(root), moved, steps) == first
    assert [path.stat().st_mtime_ns for path in part_files(root)] == times
    assert steps == []


def test_progress_names_what_is_written(root: Path) -> None:
    """Each part with weights or a vocabulary is told, with its size; empty ones are not worth a word."""
    steps: list[str] = []

    obtain(SliceCache(root), header(), steps)

    assert [step.split(" (")[0] for step in steps] == [
        "writing vocabulary",
        "writing outer tensors",
        "writing layer 0",
        "writing layer 1",
    ]


@posix
def test_slices_share_layers_on_disk(root: Path) -> None:
    """Eight layers after two write six: the first two, and the embedding, are the same files."""
    cache = SliceCache(root)
    short = obtain(cache, header(2))
    steps: list[str] = []
    long = obtain(cache, header(8), steps)

    assert [step.split(" (")[0] for step in steps] == [
        "writing vocabulary",
        *(f"writing layer {n}" for n in range(2, 8)),
    ]
    for index in (1, 2, 3):
        name = f"slice-{index + 1:05d}-of-00016.gguf"
        assert (short.parent / name).samefile(long.parent / name)
    sizes = {path.stat().st_ino: path.stat().st_size for path in root.rglob("*.gguf")}
    assert cache.total_bytes() - sum(sizes.values()) < 500  # the notes beside the slices
    assert sum(entry.n_bytes for entry in cache.entries()) > sum(sizes.values())


def test_another_type_or_shape_is_another_part() -> None:
    """A part is shared only when everything in it is the same."""
    plans = [plan_files(header()), plan_files(header(width=512))]
    changed = header()
    plans.append(
        plan_files(replace(changed, tensors=(*changed.tensors[:-1], tensor("output.weight", (256, 300), "q4_K"))))
    )

    keys = [part.key for plan in plans for part in plan.parts if part.role != "empty"]

    assert plans[0].parts[2].key == plans[2].parts[2].key
    assert plans[0].parts[1].key != plans[2].parts[1].key
    assert len(set(keys)) == len(keys) - 3  # the vocabulary and the two layers of the third plan are those of the first


def test_entries_tell_what_is_there(root: Path) -> None:
    """Name, layers and size of each slice, last used first; size is that of its files."""
    cache = SliceCache(root)
    assert cache.entries() == ()
    assert cache.total_bytes() == 0
    first = obtain(cache, header(2, name="one"))
    obtain(cache, header(3, name="two"))
    os.utime(first.parent, (1, 1))

    old, new = reversed(cache.entries())

    assert (old.name, old.layers, old.last_used_s, old.path) == ("one", 2, 1.0, first.parent)
    assert (new.name, new.layers) == ("two", 3)
    assert old.n_bytes == sum(path.stat().st_size for path in first.parent.glob("*.gguf"))
    obtain(cache, header(2, name="one"))
    assert cache.entries()[0].name == "one"


def test_a_damaged_note_costs_the_name_only(root: Path) -> None:
    """Nothing depends on the note beside a slice, so damage there means: unknown."""
    path = obtain(SliceCache(root), header())
    for note in ("[", "[1]", '{"name": 5, "layers": true}', '{"name": "' + "x" * 100_000 + '"}'):
        (path.parent / "slice.json").write_text(note)
        entry = SliceCache(root).entries()[0]
        assert (entry.name, entry.layers) == (None, None)


@pytest.mark.parametrize("damage", ["cut", "header", "gone", "folder", "longer"])
@pytest.mark.parametrize("which", [0, 1, 3, 15])
def test_a_damaged_part_is_written_again(root: Path, damage: str, which: int) -> None:
    """Whatever is wrong with the size or the header of any part, the next run gets whole files."""
    cache = SliceCache(root)
    path = obtain(cache, header())
    whole = [file.read_bytes() for file in sorted(path.parent.glob("*.gguf"))]
    link = path.with_name(f"slice-{which + 1:05d}-of-00016.gguf")
    part = next(file for file in part_files(root) if file.samefile(link))
    with link.open("r+b") as file:
        if damage == "cut":
            file.truncate(link.stat().st_size - 1)
        elif damage == "header":
            file.write(b"GGUF" + bytes(20))
        elif damage == "longer":
            file.seek(0, os.SEEK_END)
            file.write(b"x")
    if damage in ("gone", "folder"):
        link.unlink()
        part.unlink()
    if damage == "folder":
        (part / "inside").mkdir(parents=True)

    assert obtain(SliceCache(root), header()) == path
    assert [file.read_bytes() for file in sorted(path.parent.glob("*.gguf"))] == whole
    assert list((root / "tmp").iterdir()) == []


@posix
def test_planted_links_are_replaced_and_never_followed(root: Path, tmp_path: Path) -> None:
    """A link in the place of a part, of a slice or of a part in a slice: what it leads to stays as it is."""
    cache = SliceCache(root)
    path = obtain(cache, header())
    precious = tmp_path / "precious"
    precious.mkdir()
    shutil.copytree(path.parent, precious / "copy")
    before = {file: file.read_bytes() for file in precious.rglob("*.gguf")}
    layer = path.with_name("slice-00003-of-00016.gguf")
    part = next(file for file in part_files(root) if file.samefile(layer))
    for place in (part, layer):
        place.unlink()
        place.symlink_to(precious / "copy" / layer.name)

    obtain(SliceCache(root), header())

    assert all(stat.S_ISREG(place.lstat().st_mode) for place in (part, layer))
    shutil.rmtree(path.parent)
    path.parent.symlink_to(precious / "copy")
    obtain(SliceCache(root), header())
    assert not path.parent.is_symlink()
    (root / "slices" / "link").symlink_to(precious)
    (root / "slices" / ("a" * 64)).symlink_to(precious)
    SliceCache(root).clear()
    assert {file: file.read_bytes() for file in precious.rglob("*.gguf")} == before


@posix
@pytest.mark.parametrize("folder", ["parts", "slices", "tmp"])
@pytest.mark.parametrize("planted", ["file", "link"])
def test_a_folder_of_ours_must_be_one(root: Path, tmp_path: Path, folder: str, planted: str) -> None:
    """A file or a link where the cache keeps its files is an error that names it, for writing and for clearing."""
    SliceCache(root).clear()
    obtain(SliceCache(root), header())
    shutil.rmtree(root / folder)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"{'a' * 64}.gguf").write_text("precious")
    if planted == "file":
        (root / folder).write_text("")
    else:
        (root / folder).symlink_to(elsewhere)

    with pytest.raises(OutputError, match=f"{folder} is a file or a link"):
        obtain(SliceCache(root), header())
    with pytest.raises(OutputError, match=f"{folder} is a file or a link"):
        SliceCache(root).clear()
    assert len(list(elsewhere.iterdir())) == 1


def test_only_a_folder_of_ours_is_used(tmp_path: Path) -> None:
    """A folder with other things in it, a file, another program's cache: refused, and nothing there is touched."""
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("precious")
    (tmp_path / "tagged").mkdir()
    (tmp_path / "tagged" / "CACHEDIR.TAG").write_text(
        "Signature: 8a477f597d28d172789f06886806bc55\n# of another program"
    )
    (tmp_path / "file").write_text("")

    for name, reason in (
        ("other", "is not empty and no cache"),
        ("tagged", "not written by suffice"),
        ("file", "not a folder"),
    ):
        cache = SliceCache(tmp_path / name)
        for action in (cache.clear, cache.entries, cache.total_bytes, lambda cache=cache: obtain(cache, header())):
            with pytest.raises(OutputError, match=reason):
                action()
    assert sorted(path.name for path in tmp_path.rglob("*")) == [
        "CACHEDIR.TAG",
        "file",
        "other",
        "tagged",
        "thesis.txt",
    ]


def test_the_cache_is_marked_as_one(root: Path) -> None:
    """Backup programs that know the cachedir tag skip the folder; an empty folder of the user's is taken."""
    root.mkdir(parents=True)
    obtain(SliceCache(root), header())

    assert (root / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")


def test_what_was_not_used_for_longest_goes_first(root: Path) -> None:
    """A slice that does not fit beside the others pushes out the oldest, and the parts that only it had."""
    size = plan_files(header(2, width=512)).n_bytes
    for number, width in enumerate((512, 768, 1024)):
        path = obtain(SliceCache(root), header(2, width=width, name=str(width)))
        os.utime(path.parent, (number + 1, number + 1))
    limit = SliceCache(root).total_bytes() + size // 2
    cache = SliceCache(root, limit)

    obtain(cache, header(2, width=256, name="small"))
    assert [entry.name for entry in cache.entries()] == ["small", "1024", "768", "512"]
    obtain(cache, header(3, width=640, name="large"))

    assert [entry.name for entry in cache.entries()] == ["large", "small", "1024"]
    assert cache.total_bytes() <= limit
    kept = {link.stat().st_ino for link in (root / "slices").rglob("*.gguf")}
    assert {path.stat().st_ino for path in part_files(root)} <= kept


def test_parts_that_the_new_slice_needs_outlive_their_old_one(root: Path) -> None:
    """When a longer slice pushes out the shorter one, the layers that both have are not written again."""
    obtain(SliceCache(root), header(4))
    steps: list[str] = []
    limit = plan_files(header(5)).n_bytes + 1000
    cache = SliceCache(root, limit)

    obtain(cache, header(5), steps)

    assert [step.split(" (")[0] for step in steps] == ["writing vocabulary", "writing layer 4"]
    assert cache.total_bytes() <= limit


def test_a_run_keeps_what_it_uses(root: Path) -> None:
    """The limit never removes a slice that this object gave out: the next one is refused instead, with the numbers."""
    cache = SliceCache(root, plan_files(header(2)).n_bytes * 3 // 2)
    first = obtain(cache, header(2))

    with pytest.raises(OutputError, match=r"the cache may take .*raise SUFFICE_CACHE_LIMIT"):
        obtain(cache, header(2, width=512))

    assert read_gguf_header(first).n_files == 16
    assert len(cache.entries()) == 1
    assert list((root / "tmp").iterdir()) == []


def test_a_full_disk_is_told_before_anything_is_written(root: Path) -> None:
    """A slice larger than the disk names what it needs, what is free, and what to do."""
    wanted = header()
    giant = tensor("output.weight", (256, 10**15), "q8_0")
    wanted = replace(wanted, tensors=(*wanted.tensors[:-1], giant))

    with pytest.raises(OutputError, match=r"needs .* GiB in .*, where .* are free; .*SUFFICE_CACHE_DIR"):
        obtain(SliceCache(root, TERA * TERA), wanted)

    assert everything(root) == []


def test_a_disk_that_fills_up_in_the_middle_leaves_nothing(root: Path) -> None:
    """Parts that were complete are kept for the next try; what was being written is gone."""
    resource = pytest.importorskip("resource")  # POSIX: a limit on the size of a file stands for a full disk
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, hard))
    try:
        with pytest.raises(
            OutputError, match=r"cannot write the cache .*too large; free some space, or set SUFFICE_CACHE_DIR"
        ):
            obtain(SliceCache(root), header())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list((root / "tmp").iterdir()) == []
    assert SliceCache(root).entries() == ()

    path = obtain(SliceCache(root), header())
    assert read_gguf_header(path).n_files == 16


class Failing(FakeBlocks):
    """A source of blocks that fails at its second type."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
        """Blocks, once."""
        if self.asked:
            raise self._error
        return super().blocks(type_name, n_elements, sigma=sigma, seed=seed)


@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=["Ctrl-C", "full"]
)
def test_an_interruption_leaves_no_slice(root: Path, error: BaseException) -> None:
    """Whatever ends the writing, no half slice is there afterwards."""
    with pytest.raises((KeyboardInterrupt, OutputError)):
        SliceCache(root).obtain(header(), Failing(error), progress=silent)

    assert list((root / "tmp").iterdir()) == []
    assert SliceCache(root).entries() == ()
    assert len(part_files(root)) == 1  # the vocabulary was complete


@posix
def test_what_a_killed_process_left_is_swept_when_it_is_old(root: Path) -> None:
    """Leftovers of an hour ago go with the next write; those of a process that may still be writing stay."""
    obtain(SliceCache(root), header())
    for name in ("old", "new"):
        (root / "tmp" / name).mkdir()
        (root / "tmp" / name / "slice-00001-of-00016.gguf").write_bytes(b"GGUF")
    (root / "tmp" / "old.gguf").write_bytes(b"GGUF")
    long_ago = time.time() - 7200
    for name in ("old", "old.gguf"):
        os.utime(root / "tmp" / name, (long_ago, long_ago))

    obtain(SliceCache(root), header(3))

    assert [path.name for path in (root / "tmp").iterdir()] == ["new"]


_OTHER_PROCESS = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_slice_cache import FakeBlocks, SliceCache, header

class Waiting(FakeBlocks):
    def blocks(self, *args, **options):
        if sys.argv[3] == "writing":
            print("there", flush=True)
            sys.stdin.read()
        return super().blocks(*args, **options)

cache = SliceCache(Path(sys.argv[2]))
cache.obtain(header(5), Waiting(), progress=lambda step: None)
print("there", flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(root: Path, until: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that writes a slice of 5 layers, or uses it; killed at the end if it is still there."""
    tests = Path(__file__).parent
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests.parent), *filter(None, sys.path)])}
    with subprocess.Popen(
        [sys.executable, "-c", _OTHER_PROCESS, str(tests), str(root), until],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "there\n"
            yield process
        finally:
            process.kill()


@posix
def test_what_a_killed_process_left_goes_at_once(root: Path) -> None:
    """Nothing that another process is writing is swept, however the cache is cleared; all of it is as soon as that process is dead."""
    with other_process(root, "writing") as process:
        SliceCache(root).clear()
        obtain(SliceCache(root), header(2))
        assert len(list((root / "tmp").iterdir())) == 1
        process.kill()
        process.wait()

        obtain(SliceCache(root), header(3))

    assert list((root / "tmp").iterdir()) == []


@posix
def test_what_another_process_uses_is_not_removed(root: Path) -> None:
    """Neither clearing nor making room takes a slice from a process that uses it; when the process has ended, both do."""
    own = plan_files(header(3)).n_bytes
    with other_process(root, "using") as process:
        SliceCache(root).clear()
        (entry,) = SliceCache(root).entries()
        assert entry.layers == 5
        os.utime(entry.path, (1, 1))
        with pytest.raises(OutputError, match="in use beside it"):
            obtain(SliceCache(root, limit_bytes=own), header(3, width=128))
        assert SliceCache(root).entries()[-1].layers == 5
        process.kill()
        process.wait()

        obtain(SliceCache(root, limit_bytes=own), header(3, width=128))

    assert [entry.layers for entry in SliceCache(root).entries()] == [3]
    assert SliceCache(root).clear() > 0
    assert everything(root) == []


@posix
def test_a_cache_without_locks_still_works(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the file system has no locks nothing is known to be in use, and writing, reusing and clearing go on."""

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.lockf", refuse)
    cache = SliceCache(root)
    path = obtain(cache, header(2))
    assert obtain(SliceCache(root), header(2)) == path
    assert read_gguf_header(path).n_files == 16
    assert SliceCache(root).clear() > 0
    assert everything(root) == []


@posix
def test_another_process_that_was_quicker_is_welcome(root: Path) -> None:
    """Two processes write the same slice at the same time: both get it, and there is one, with one copy of each part."""

    class Racing(FakeBlocks):
        """While the first writes, the second does all."""

        def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
            """Blocks, after another process has finished."""
            if not self.asked:
                obtain(SliceCache(root), header())
            return super().blocks(type_name, n_elements, sigma=sigma, seed=seed)

    path = SliceCache(root).obtain(header(), Racing(), progress=silent)

    assert read_gguf_header(path).n_files == 16
    assert len(SliceCache(root).entries()) == 1
    assert SliceCache(root).total_bytes() == pytest.approx(plan_files(header()).n_bytes, abs=500)
    assert list((root / "tmp").iterdir()) == []


@posix
def test_another_process_that_clears_does_not_hurt(root: Path) -> None:
    """A slice that is being written keeps its parts by links of its own, so clearing leaves it whole."""

    class Cleared(FakeBlocks):
        """While the slice is written, all old slices go."""

        def blocks(self, type_name: str, n_elements: int, *, sigma: float, seed: int) -> bytes:
            """Blocks, after the cache was cleared."""
            SliceCache(root).clear(older_than_s=0)
            return super().blocks(type_name, n_elements, sigma=sigma, seed=seed)

    obtain(SliceCache(root), header(2))
    wanted = header(4)
    path = SliceCache(root).obtain(wanted, Cleared(), progress=silent)

    assert len(read_gguf_header(path).tensors) == len(wanted.tensors)


@posix
def test_a_file_system_without_hard_links_gets_symbolic_ones(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices share parts all the same; parts in use are kept, unused ones go, and damage is seen through the link."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    cache = SliceCache(root)
    short = obtain(cache, header(2))
    long = obtain(cache, header(4))
    assert all(path.is_symlink() for path in long.parent.glob("*.gguf"))
    assert read_gguf_header(long).n_files == 16
    one_copy = plan_files(header(4)).n_bytes + plan_files(header(2)).parts[0].n_bytes
    assert cache.total_bytes() == pytest.approx(one_copy, abs=500)

    os.utime(short.parent, (1, 1))
    cache.clear(older_than_s=1000)
    assert read_gguf_header(long).n_files == 16
    layer = long.with_name("slice-00004-of-00016.gguf")
    os.truncate(layer.resolve(), 100)
    assert obtain(SliceCache(root), header(4)) == long
    assert read_gguf_header(long).n_files == 16
    assert SliceCache(root).clear() > 0
    assert everything(root) == []


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
def test_no_permission_is_told(tmp_path: Path) -> None:
    """A folder that may not be written names itself and the variable."""
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(OutputError, match=r"Permission denied; set SUFFICE_CACHE_DIR"):
        obtain(SliceCache(tmp_path / "locked" / "cache"), header())


def test_a_place_that_cannot_be_is_told(tmp_path: Path) -> None:
    """Below a file there is no folder: one sentence with the path."""
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"cannot create the cache .*file/cache"):
        obtain(SliceCache(tmp_path / "file" / "cache"), header())


def test_clearing_frees_what_it_says(root: Path) -> None:
    """All, or only what is old; shared parts stay as long as somebody uses them; the cache works afterwards."""
    cache = SliceCache(root)
    assert cache.clear() == 0
    old = obtain(cache, header(2))
    obtain(cache, header(3))
    os.utime(old.parent, (1, 1))
    before = cache.total_bytes()

    assert 0 < cache.clear(older_than_s=1000) < plan_files(header(2)).parts[2].n_bytes  # a vocabulary and a note
    assert [entry.layers for entry in cache.entries()] == [3]
    assert cache.clear(older_than_s=1000) == 0
    left = cache.total_bytes()
    assert left < before
    assert cache.clear() == left
    assert everything(root) == []
    assert obtain(cache, header(2)) == old


def test_strangers_in_the_cache_are_left_alone(root: Path) -> None:
    """Files that suffice did not write survive clearing, wherever they lie."""
    obtain(SliceCache(root), header())
    strangers = [root / "notes.txt", root / "parts" / "model.gguf", root / "slices" / "mine" / "model.gguf"]
    for path in strangers:
        path.parent.mkdir(exist_ok=True)
        path.write_text("precious")

    SliceCache(root).clear()

    assert all(path.read_text() == "precious" for path in strangers)
    assert len(everything(root)) == len(strangers) + 1


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("llama.block_count", 1, "beyond the 1 layers"),
        ("llama.block_count", 5000, "5000 layers are more"),
        ("llama.weird", LongArray(element_type="int32", length=5000), r"llama\.weird"),
        ("general.architecture", None, "general.architecture"),
    ],
)
def test_headers_that_are_no_model_are_refused(root: Path, key: str, value: object, message: str) -> None:
    """Too few layers for the tensors, too many for anybody, values that are not there: the reason is told."""
    wanted = header()
    metadata = {**wanted.metadata, key: value}

    with pytest.raises(ModelFileError, match=message):
        obtain(SliceCache(root), replace(wanted, metadata=metadata))  # type: ignore[arg-type]  # None on purpose
    with pytest.raises(ModelFileError, match="token_embd"):
        obtain(SliceCache(root), replace(wanted, tensors=wanted.tensors[1:]))
    assert not root.exists()


def test_what_a_tokenizer_needs_is_replaced(root: Path) -> None:
    """A header from a real file brings a long vocabulary and long texts: they give way, and so do its own split keys."""
    wanted = header()
    real: dict[str, MetadataValue] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": LongArray(element_type="string", length=300),
        "tokenizer.ggml.bos_token_id": 128_000,
        "tokenizer.chat_template": LongText(n_bytes=10**7),
        "general.long": LongText(n_bytes=10**7),
        "general.alignment": 64,
        "general.basename": "Phi-3",
        "general.file_type": 2,
        "split.count": 3,
    }

    found = read_gguf_header(obtain(SliceCache(root), replace(wanted, metadata={**wanted.metadata, **real}))).metadata

    assert (found["tokenizer.ggml.model"], found["tokenizer.ggml.bos_token_id"], found["split.count"]) == (
        "llama",
        1,
        16,
    )
    assert {key for key in found if key.startswith("general.")} == {"general.architecture", "general.file_type"}
    assert "tokenizer.chat_template" not in found


@pytest.mark.parametrize(("layers", "count"), [(14, 16), (15, 64), (62, 64), (63, 256)])
def test_many_layers_make_more_parts(root: Path, layers: int, count: int) -> None:
    """The number of parts comes in few sizes, so that slices of similar length share parts."""
    toy = ToyLlama(n_layer=layers, n_vocab=300)

    path = obtain(SliceCache(root), slice_header(toy))

    assert path.name == f"slice-00001-of-{count:05d}.gguf"
    assert read_gguf_header(path).n_files == count


def test_weights_are_those_of_the_source(root: Path) -> None:
    """The bytes on disk are real blocks: q8_0 numbers with the deviation that is documented."""
    path = SliceCache(root).obtain(header(), Q8Blocks(), progress=silent)
    found = read_gguf_header(path)
    item = next(item for item in found.tensors if item.name == "token_embd.weight")
    part = path.with_name("slice-00002-of-00016.gguf")
    start = part.stat().st_size - sum(-(-t.n_bytes // 32) * 32 for t in found.tensors if t.file_index == 1)
    raw = np.frombuffer(part.read_bytes()[start + item.offset :][: item.n_bytes], dtype=np.uint8).reshape(-1, 34)
    numbers = raw[:, 2:].copy().view(np.int8) * raw[:, :2].copy().view("<f2").astype(float)

    assert numbers.std() == pytest.approx(1, rel=0.02)


def test_a_note_is_plain_json(root: Path) -> None:
    """The note beside a slice says whose it is."""
    path = obtain(SliceCache(root), header(2, name="Llama 3.1 70B"))

    note = json.loads((path.parent / "slice.json").read_text())
    assert note == {"name": "Llama 3.1 70B", "architecture": "llama", "layers": 2}
