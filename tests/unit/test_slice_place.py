"""Where the cache is, how large it may become, and the command that shows and empties it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from helpers.gguf_writer import ToyLlama
from helpers.slices import slice_header
from suffice.cli.app import build_app
from suffice.errors import OutputError, UsageError
from suffice.slices.cache import SliceCache
from suffice.slices.fake_blocks import FakeBlocks
from suffice.slices.place import default_limit_bytes, default_root, parse_size_bytes
from suffice.units import GIB, GIGA, MEGA

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_place_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SUFFICE_CACHE_DIR, else what the system uses for caches; a relative XDG folder is ignored, as its rules say."""
    home = {"HOME": str(tmp_path)}
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    xdg = {**home, "XDG_CACHE_HOME": str(tmp_path / "x")}

    assert default_root({**xdg, "SUFFICE_CACHE_DIR": "/disk/c"}, "linux") == Path("/disk/c")
    assert default_root(xdg, "linux") == tmp_path / "x" / "suffice"
    assert default_root({**home, "XDG_CACHE_HOME": "relative"}, "linux") == tmp_path / ".cache" / "suffice"
    assert default_root(home, "darwin") == tmp_path / "Library" / "Caches" / "suffice"
    assert default_root({"LOCALAPPDATA": "C:/local"}, "win32") == Path("C:/local/suffice")
    monkeypatch.setenv("SUFFICE_CACHE_DIR", str(tmp_path / "given"))
    monkeypatch.setenv("SUFFICE_CACHE_LIMIT", "5 MB")
    assert (SliceCache().root, SliceCache().limit_bytes) == (tmp_path / "given", 5 * MEGA)


@pytest.mark.skipif(os.name == "nt", reason="homes of others are those of POSIX")
def test_a_home_that_is_not_there_is_told() -> None:
    """~somebody must be somebody."""
    with pytest.raises(UsageError, match=r"SUFFICE_CACHE_DIR.*whole path"):
        default_root({"SUFFICE_CACHE_DIR": "~no-such-user-here/x"}, "linux")


@pytest.mark.parametrize(
    ("text", "n_bytes"), [("8GiB", 8 * GIB), ("1.5 gb", GIGA * 3 // 2), ("12", 12), ("2TiB", 2048 * GIB), ("7b", 7)]
)
def test_sizes(text: str, n_bytes: int) -> None:
    """Decimal and binary units, in any case, with or without a space."""
    assert parse_size_bytes(text) == n_bytes


@pytest.mark.parametrize("text", ["", "0", "-1GB", "GB", "1 parsec", "nan", "1e3", "1GB2"])
def test_wrong_sizes(text: str) -> None:
    """Anything else names what is accepted; in the environment it names the variable."""
    with pytest.raises(ValueError, match="8GiB"):
        parse_size_bytes(text)
    if text:
        with pytest.raises(UsageError, match="SUFFICE_CACHE_LIMIT"):
            default_limit_bytes({"SUFFICE_CACHE_LIMIT": text})


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Runs `suffice cache ...` on a cache with one slice that was last used in 1970; gives what it prints."""
    root = tmp_path / "cache"
    monkeypatch.setenv("SUFFICE_CACHE_DIR", str(root))
    monkeypatch.setenv("SUFFICE_CACHE_LIMIT", "1GiB")
    toy = slice_header(ToyLlama(n_vocab=300), {"general.name": "Toy 7B"})
    path = SliceCache(root).obtain(toy, FakeBlocks(), progress=lambda _: None)
    os.utime(path.parent, (60, 60))

    def run_cache(*words: str) -> str:
        result = CliRunner().invoke(build_app(), ["cache", *words], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run_cache


def test_the_cache_is_shown(run: Callable[..., str], tmp_path: Path) -> None:
    """Where it is, what it takes of what it may, and each slice with its size and last use."""
    text = run()

    total = SliceCache().total_bytes()
    assert text.startswith(f"{tmp_path / 'cache'}: {total / 1024:.2f} KiB of at most 1.00 GiB, 1 slice\n")
    assert re.search(r"^Toy 7B +2 +[0-9.]+ KiB +1970-01-01 00:01 UTC$", text, re.MULTILINE)


def test_the_cache_as_json(run: Callable[..., str], tmp_path: Path) -> None:
    """The same as one document, sizes in bytes and times since the epoch."""
    document = json.loads(run("--json"))

    assert document["path"] == str(tmp_path / "cache")
    assert document["limit_bytes"] == GIB
    assert document["total_bytes"] == SliceCache().total_bytes()
    (entry,) = document["entries"]
    assert (entry["name"], entry["layers"], entry["last_used_unix_s"]) == ("Toy 7B", 2, 60)
    assert 0 < entry["bytes"] < document["total_bytes"]


def test_the_place_is_printed_for_scripts(run: Callable[..., str], tmp_path: Path) -> None:
    """Nothing but the path."""
    assert run("path") == f"{tmp_path / 'cache'}\n"
    assert json.loads(run("path", "--json")) == {"path": str(tmp_path / "cache")}


def test_clearing_by_age_and_whole(run: Callable[..., str]) -> None:
    """An age that nothing has leaves all; 7d removes what was used in 1970; without an age all goes."""
    total = SliceCache().total_bytes()

    assert json.loads(run("clear", "--older-than", "1000000d", "--json"))["freed_bytes"] == 0
    document = json.loads(run("clear", "--older-than", "7d", "--json"))
    assert (document["freed_bytes"], document["total_bytes"]) == (total, 0)
    assert "0 B freed in" in run("clear")
    assert "0 slices" in run()


@pytest.mark.parametrize("words", [("clear", "--older-than", "7x"), ("clear", "--older-than", "d"), ("shrink",)])
def test_wrong_words_are_bad_usage(run: Callable[..., str], words: tuple[str, ...]) -> None:
    """An age or a subcommand that does not exist ends with code 2 and removes nothing."""
    result = CliRunner().invoke(build_app(), ["cache", *words])

    assert result.exit_code == 2
    assert "1 slice\n" in run()


def test_a_folder_of_somebody_else_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`suffice cache clear` with SUFFICE_CACHE_DIR at a folder with files in it refuses."""
    monkeypatch.setenv("SUFFICE_CACHE_DIR", str(tmp_path))
    (tmp_path / "thesis.txt").write_text("precious")

    with pytest.raises(OutputError, match="no cache of suffice"):
        CliRunner().invoke(build_app(), ["cache", "clear"], catch_exceptions=False)
    assert (tmp_path / "thesis.txt").exists()
