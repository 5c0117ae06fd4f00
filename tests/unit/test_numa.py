"""NUMA nodes: read from trees that the tests write, chosen, and kept to."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.nodes import own_nodes
from suffice.cli.asked import nodes_of
from suffice.errors import SufficeError, UsageError
from suffice.measure.machine import MachineFacts, RealMachine
from suffice.measure.numa import (
    NumaNode,
    choose_nodes,
    facts_on,
    local_share,
    pinned_to,
    placement_warning,
    read_numa_nodes,
)
from suffice.measure.system_files import format_cpu_list, parse_cpu_list, read_node_bytes
from suffice.units import GIB, KIB

if TYPE_CHECKING:
    from pathlib import Path

FACTS = MachineFacts(
    cpu_model="Fake CPU",
    isa=None,
    llc_bytes=None,
    usable_cpus=8,
    thread_candidates=(1, 2, 4, 8),
    memory_usable_bytes=100 * GIB,
)
LEFT = NumaNode(number=0, cpus=tuple(range(8)), memory_bytes=64 * GIB, usable_bytes=60 * GIB)
RIGHT = NumaNode(number=1, cpus=tuple(range(8, 16)), memory_bytes=64 * GIB, usable_bytes=30 * GIB)


def write(root: Path, cpu_lists: dict[int, str], *, online: str, memory_gib: dict[int, int] | None = None) -> Path:
    """A tree of nodes with these CPUs; ``memory_gib`` without a node leaves its meminfo out."""
    folder = root / "sys/devices/system/node"
    folder.mkdir(parents=True)
    (folder / "online").write_text(online + "\n")
    for number, cpus in cpu_lists.items():
        node = folder / f"node{number}"
        node.mkdir()
        (node / "cpulist").write_text(cpus + "\n")
        size = (memory_gib or {}).get(number)
        if size is not None:
            amounts = {"MemTotal": size * 4, "MemFree": size, "Active(file)": size, "Inactive(file)": size // 2}
            lines = [
                f"Node {number} {name}: {amount * GIB // KIB // 4:>12} kB\n"
                for name, amount in {**amounts, "AnonPages": 99 * size}.items()
            ]
            (node / "meminfo").write_text("".join(lines) + f"Node {number} HugePages_Total:     0\n")
    return root


def test_two_sockets_are_two_nodes(tmp_path: Path) -> None:
    """CPUs in the kernel's ranges; memory in bytes; usable is what is free or holds files that can be dropped."""
    tree = write(tmp_path, {0: "0-3,8-11", 1: "4-7,12-15"}, online="0-1", memory_gib={0: 64, 1: 32})
    nodes = read_numa_nodes(tree, cpus=tuple(range(16)))

    assert nodes is not None
    assert [node.cpus for node in nodes] == [(0, 1, 2, 3, 8, 9, 10, 11), (4, 5, 6, 7, 12, 13, 14, 15)]
    assert [node.cpu_list for node in nodes] == ["0-3,8-11", "4-7,12-15"]
    assert [node.memory_bytes for node in nodes] == [64 * GIB, 32 * GIB]
    assert [node.usable_bytes for node in nodes] == [40 * GIB, 20 * GIB]


def test_only_cpus_that_this_process_may_use_count(tmp_path: Path) -> None:
    """A container on some CPUs of both nodes has those, and one on CPUs of a single node cannot run on the other."""
    tree = write(tmp_path, {0: "0-3", 1: "4-7"}, online="0-1", memory_gib={0: 8, 1: 8})

    both, one = read_numa_nodes(tree, cpus=(2, 3, 4)), read_numa_nodes(tree, cpus=(5, 6))
    assert both is not None
    assert one is not None
    assert [node.cpus for node in both] == [(2, 3), (4,)]
    assert [node.can_run for node in one] == [False, True]


def test_memory_that_this_process_may_not_use_is_none(tmp_path: Path) -> None:
    """The kernel's list of allowed memory nodes (cpuset.mems) takes a node's memory away."""
    tree = write(tmp_path, {0: "0-3", 1: "4-7"}, online="0-1", memory_gib={0: 8, 1: 8})
    (tree / "proc/self").mkdir(parents=True)
    (tree / "proc/self/status").write_text("Name:\tpython\nCpus_allowed_list:\t0-7\nMems_allowed_list:\t1\n")
    nodes = read_numa_nodes(tree, cpus=tuple(range(8)))

    assert nodes is not None
    assert [node.memory_bytes for node in nodes] == [0, 8 * GIB]
    assert [node.can_run for node in nodes] == [False, True]


def test_nodes_without_cpus_or_without_memory_run_nothing(tmp_path: Path) -> None:
    """Memory alone (HBM, CXL) has an empty list of CPUs; a node may also have CPUs alone. An offline node is not there."""
    tree = write(
        tmp_path, {0: "0-7", 1: "8-15", 2: "", 3: "16-23"}, online="0,2-3", memory_gib={0: 8, 1: 8, 2: 8, 3: 0}
    )
    nodes = read_numa_nodes(tree, cpus=tuple(range(24)))

    assert nodes is not None
    assert [node.number for node in nodes] == [0, 2, 3]
    assert [node.can_run for node in nodes] == [True, False, False]
    assert [node.cpus for node in nodes][1] == ()


def test_what_the_system_does_not_tell_is_unknown(tmp_path: Path) -> None:
    """No tree, no nodes; a node without meminfo has CPUs and unknown memory, and can run."""
    assert read_numa_nodes(tmp_path, cpus=(0, 1)) is None
    nodes = read_numa_nodes(write(tmp_path, {0: "0-1"}, online="0"), cpus=(0, 1))
    assert nodes is not None
    assert (nodes[0].memory_bytes, nodes[0].usable_bytes, nodes[0].can_run) == (None, None, True)


def test_nothing_is_chosen_unless_asked() -> None:
    """Without a flag a run is not placed, whatever the machine has, and the nodes are not read."""
    assert choose_nodes((LEFT, RIGHT)) == ()
    assert choose_nodes(None) == ()
    assert nodes_of(None, per_node=False) == ()


def test_one_node_by_its_number_and_all_with_the_least_first() -> None:
    """The single stream is measured where the fewest CPUs are: what runs there runs everywhere."""
    small = replace(RIGHT, cpus=(8, 9))
    memory_alone = NumaNode(number=2, cpus=(), memory_bytes=GIB)

    assert choose_nodes((LEFT, RIGHT), number=1) == (RIGHT,)
    assert choose_nodes((LEFT, RIGHT), per_node=True) == (LEFT, RIGHT)
    assert choose_nodes((LEFT, small, memory_alone), per_node=True) == (small, LEFT)


@pytest.mark.parametrize(
    ("nodes", "asked", "words"),
    [
        ((LEFT, RIGHT), {"number": 1, "per_node": True}, "one of the two"),
        (None, {"number": 0}, "does not tell its NUMA nodes"),
        (None, {"per_node": True}, "--per-node: this system does not tell"),
        ((LEFT, RIGHT), {"number": 4}, "no such NUMA node here; give one of: 0, 1"),
        ((LEFT, replace(RIGHT, cpus=())), {"number": 1}, "no CPU that this process may use; give one of: 0"),
        ((LEFT, replace(RIGHT, memory_bytes=0)), {"number": 1}, "no memory that this process may use"),
        ((LEFT,), {"per_node": True}, "only 1 NUMA node here"),
        ((LEFT, replace(RIGHT, cpus=())), {"per_node": True}, "only 1 NUMA node here"),
    ],
)
def test_what_is_not_there_is_refused(nodes: tuple[NumaNode, ...] | None, asked: dict[str, Any], words: str) -> None:
    """Each refusal says which flag, what is wrong and what there is."""
    with pytest.raises(UsageError, match=words):
        choose_nodes(nodes, **asked)


def test_an_engine_per_node_has_what_the_least_node_has() -> None:
    """CPUs of the smallest; memory of the smallest, and no more than its part of what the process may take; its part of a quota."""
    small = replace(LEFT, cpus=(0, 1, 2))

    assert facts_on(FACTS, ()) == FACTS
    one = facts_on(FACTS, (RIGHT,))
    assert (one.usable_cpus, one.thread_candidates, one.memory_usable_bytes) == (8, (1, 2, 4, 8), 30 * GIB)
    two = facts_on(FACTS, (small, RIGHT))
    assert (two.usable_cpus, two.thread_candidates, two.memory_usable_bytes) == (3, (1, 2, 3), 30 * GIB)
    tight = facts_on(replace(FACTS, memory_usable_bytes=40 * GIB, environment={"cpu_quota": 5.0}), (LEFT, RIGHT))
    assert (tight.usable_cpus, tight.memory_usable_bytes) == (2, 20 * GIB)


def test_pinning_reaches_threads_and_ends() -> None:
    """Within, this thread and those that it starts are on the node's CPU, and a real machine has one; afterwards all is as before."""
    node = own_nodes(2)[1]
    before, seen = os.sched_getaffinity(0), []
    machine = RealMachine()

    with pinned_to([node]):
        assert os.sched_getaffinity(0) == set(node.cpus)
        thread = threading.Thread(target=lambda: seen.append(os.sched_getaffinity(0)))
        thread.start()
        thread.join()
        assert machine.facts().usable_cpus == 1
        assert machine.facts().environment["affinity_cpus"] == 1
    assert seen == [set(node.cpus)]
    assert os.sched_getaffinity(0) == before
    assert machine.facts().environment["affinity_cpus"] == len(before)


def test_a_refused_pinning_is_one_sentence() -> None:
    """CPUs that do not exist: the error names the node, and nothing was changed."""
    before = os.sched_getaffinity(0) if own_nodes(1) else set()

    with pytest.raises(SufficeError, match="NUMA node 7"), pinned_to([NumaNode(number=7, cpus=(100_000,))]):
        pytest.fail("nothing runs on a CPU that is not there")
    assert os.sched_getaffinity(0) == before


@pytest.mark.parametrize("text", ["0-3,8-11", "0", "1,3,5-6", ""])
def test_lists_of_cpus_there_and_back(text: str) -> None:
    """What was parsed is written as it was."""
    assert format_cpu_list(parse_cpu_list(text)) == text


def test_resident_memory_by_node(tmp_path: Path) -> None:
    """Pages of all mappings times their size, huge ones too; words of another meaning are left out."""
    maps = tmp_path / "numa_maps"
    maps.write_text(
        "55d0 default file=/usr/bin/N1=9 mapped=3 N0=2 N1=1 kernelpagesize_kB=4\n"
        "7f00 bind:0 anon=4 dirty=4 active=2 N0=3 N1=1 kernelpagesize_kB=2048\n"
        "7f11 default stack\n"
    )

    assert read_node_bytes(maps) == {0: (2 * 4 + 3 * 2048) * KIB, 1: (1 * 4 + 1 * 2048) * KIB}
    assert read_node_bytes(tmp_path / "missing") is None


def test_memory_elsewhere_is_told_with_what_helps() -> None:
    """Most of some GiB on another node: --no-mmap where the file was mapped. A program's own files elsewhere are nothing to say."""
    held = {0: GIB, 1: 3 * GIB}

    assert local_share(held, LEFT) == 0.25
    assert local_share(None, LEFT) is None
    mapped = placement_warning(held, LEFT, use_mmap=True)
    copied = placement_warning(held, LEFT, use_mmap=False)
    assert mapped is not None
    assert copied is not None
    assert "25% of the engine's memory lies on NUMA node 0" in mapped
    assert "--no-mmap" in mapped
    assert "--no-mmap" not in copied
    assert placement_warning({0: 95, 1: 5}, LEFT, use_mmap=True) is None
    assert placement_warning({0: KIB, 1: KIB}, LEFT, use_mmap=True) is None
    assert placement_warning(None, LEFT, use_mmap=True) is None
