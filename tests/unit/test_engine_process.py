"""Finding a library, the worker process and its end; no engine needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from suffice.errors import EngineCrashError, EngineError, EngineMissingError, UsageError
from suffice.measure.engine import library, pagecache
from suffice.measure.engine.client import LlamaCppEngine, WorkerProcess, describe_exit
from suffice.measure.engine.library import LibraryChoice

LINUX_ONLY = pytest.mark.skipif(sys.platform != "linux", reason="uses Linux signals or /proc")


def bare(path: Path) -> LlamaCppEngine:
    """An engine of one library, given by path."""
    return LlamaCppEngine(LibraryChoice(name="test", version=None, library=path, preload=(), prebuilt=False))


def test_no_engine_gives_the_commands_that_install_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person without an engine learns both ways to get one."""
    monkeypatch.setattr(sys, "path", [])
    for module in ("llama_cpp", "xllamacpp"):  # one that a test has imported would be found without a path
        monkeypatch.delitem(sys.modules, module, raising=False)
    with pytest.raises(EngineMissingError) as caught:
        library.choose_library()
    assert library.INSTALL_NATIVE in str(caught.value)
    assert library.INSTALL_PREBUILT in str(caught.value)


def test_an_unknown_engine_is_a_usage_error() -> None:
    """A misspelt preference names the possible ones."""
    with pytest.raises(UsageError, match="llama-cpp-python or xllamacpp"):
        library.choose_library(prefer="llamacpp")


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    """A directory or a missing file is named in the message."""
    with pytest.raises(EngineError, match="is not a file"):
        library.choose_library(tmp_path / "libllama.so")


def test_a_library_by_path_brings_its_neighbours(tmp_path: Path) -> None:
    """The ggml libraries beside libllama are loaded before it, in the order of their needs."""
    for stem in ("llama", "ggml", "ggml-base"):
        (tmp_path / library.shared_library_name(stem)).write_bytes(b"")
    choice = library.choose_library(tmp_path / library.shared_library_name("llama"))
    assert [path.name for path in choice.preload] == [library.shared_library_name(s) for s in ("ggml-base", "ggml")]
    assert not choice.prebuilt


def test_a_file_that_is_no_library_is_an_error_and_not_a_crash(tmp_path: Path) -> None:
    """Rubbish under a library's name ends in one sentence."""
    path = tmp_path / "libllama.so"
    path.write_bytes(b"not a library")
    with pytest.raises(EngineError, match="cannot load"):
        _ = bare(path).identity


@LINUX_ONLY
def test_a_library_without_llama_in_it_is_refused() -> None:
    """Any other shared library loads, but is not taken for llama.cpp."""
    candidates = [
        Path(line.split()[-1]) for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line
    ]
    if not candidates:
        pytest.skip("this Python does not map libc.so under that name")
    with pytest.raises(EngineError, match="not a library of llama"):
        _ = bare(candidates[0]).identity


def test_the_worker_answers_errors_and_lives_on() -> None:
    """An unknown operation and a call without a model are errors; the process stays."""
    worker = WorkerProcess()
    try:
        for operation in ("nonsense", "decode"):
            with pytest.raises(EngineError):
                worker.ask(operation, {"n_steps": 1}, 60)
        assert worker.ask("cpu_time_s", {}, 60) > 0
    finally:
        worker.close()


def test_closing_reaps_the_worker_and_may_be_repeated() -> None:
    """No zombie and no orphan stays, and a closed worker refuses politely."""
    worker = WorkerProcess()
    worker.close()
    worker.close()
    assert not is_alive(worker.pid)
    with pytest.raises(EngineError, match="is over"):
        worker.ask("cpu_time_s", {}, 60)


@LINUX_ONLY
def test_a_killed_worker_is_a_crash_with_the_signal_in_it() -> None:
    """Kill -9 from outside becomes an EngineCrashError that names it and reaps the process."""
    worker = WorkerProcess()
    worker.ask("cpu_time_s", {}, 60)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(EngineCrashError, match="SIGKILL"):
        worker.ask("cpu_time_s", {}, 60)
    assert not is_alive(worker.pid)


@LINUX_ONLY
def test_a_stopped_worker_is_ended_after_the_timeout() -> None:
    """Kill -STOP is a hang: the caller's timeout ends it, and the process is gone."""
    worker = WorkerProcess()
    worker.ask("cpu_time_s", {}, 60)
    os.kill(worker.pid, signal.SIGSTOP)
    with pytest.raises(EngineError, match=r"did not answer within 0\.5 s"):
        worker.ask("cpu_time_s", {}, 0.5)
    assert not is_alive(worker.pid)


@LINUX_ONLY
def test_ctrl_c_does_not_reach_the_worker() -> None:
    """SIGINT, which a terminal sends to the whole group, leaves the worker to its client."""
    worker = WorkerProcess()
    try:
        worker.ask("cpu_time_s", {}, 60)
        os.kill(worker.pid, signal.SIGINT)
        assert worker.ask("cpu_time_s", {}, 60) > 0
    finally:
        worker.close()


@LINUX_ONLY
def test_the_worker_dies_with_its_client() -> None:
    """Kill -9 of the client leaves no orphan: the worker sees its input end."""
    script = (
        "import os; from suffice.measure.engine.client import WorkerProcess as W; "
        "w = W(); w.ask('cpu_time_s', {}, 60); print(w.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    pid = int(done.stdout)
    for _ in range(1000):
        if not is_alive(pid):
            return
        time.sleep(0.01)
    pytest.fail("the worker outlived its client")


@pytest.mark.parametrize(
    ("code", "said", "hint"),
    [(-9, "SIGKILL", "memory ran out"), (-4, "SIGILL", "CMAKE_ARGS"), (-6, "SIGABRT", ""), (3, "exit code 3", "")],
)
def test_the_end_of_a_process_in_words(code: int, said: str, hint: str) -> None:
    """Signals have names, and where a person can do something it says what."""
    how, help_text = describe_exit(code)
    assert said in how
    assert hint in help_text


def test_parts_of_a_split_model_are_found_together(tmp_path: Path) -> None:
    """All parts of the same split, and no neighbours, make up the model."""
    names = ["m-00001-of-00002.gguf", "m-00002-of-00002.gguf", "m-00001-of-00003.gguf", "other.gguf"]
    for name in names:
        (tmp_path / name).touch()
    assert [part.name for part in pagecache.split_parts(tmp_path / names[0])] == names[:2]
    assert pagecache.split_parts(tmp_path / "other.gguf") == (tmp_path / "other.gguf",)


@LINUX_ONLY
def test_a_file_just_read_is_resident(tmp_path: Path) -> None:
    """Mincore sees the pages of a file that was just written and read."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 300_000)
    path.read_bytes()
    share = pagecache.resident_share(path)
    assert share is None or share > 0.9


def test_eviction_of_a_missing_file_is_unknown(tmp_path: Path) -> None:
    """What cannot be told is None, not a cold load."""
    assert pagecache.evict((tmp_path / "missing",)) is None


def is_alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return status != "Z"


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


@LINUX_ONLY
def test_a_worker_rests_until_it_is_asked() -> None:
    """Stopped at once, as often as wanted; the next request wakes it, and so does its end."""
    worker = WorkerProcess()
    try:
        worker.ask("cpu_time_s", {}, 60)
        worker.rest()
        worker.rest()
        assert worker.is_resting
        assert _reaches(worker.pid, "T")
        assert worker.ask("cpu_time_s", {}, 60) > 0
        assert not worker.is_resting
        worker.rest()
    finally:
        began_s = time.monotonic()
        worker.close()
    assert time.monotonic() - began_s < 4  # it ended by itself, and was not waited for
    worker.rest()  # nobody is there any more


def _reaches(pid: int, state: str) -> bool:
    for _ in range(200):
        if _state(pid) == state:
            return True
        time.sleep(0.01)
    return False


@LINUX_ONLY
def test_a_resting_worker_does_not_outlive_a_killed_client() -> None:
    """Kill -9 of the client while its worker is stopped: the kernel wakes the worker, which sees that nobody is there."""
    script = (
        "import sys, time; from suffice.measure.engine.client import WorkerProcess; w = WorkerProcess(); "
        "w.ask('cpu_time_s', {}, 60); w.rest(); print(w.pid, flush=True); time.sleep(60)"
    )
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert client.stdout is not None
    pid = int(client.stdout.readline())
    try:
        assert _reaches(pid, "T")
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
    for _ in range(500):
        if not Path(f"/proc/{pid}").exists() or _state(pid) == "Z":
            return
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    pytest.fail("the worker is still there")
