"""NUMA nodes: CPUs with memory of their own. Which there are, and how a run is kept on one of them, or on all of them side by side.

On a machine with several nodes an engine whose threads lie on all of them reads most of its weights over the links between the nodes.
Servers are therefore run one per node behind a router. A run that is *placed* on a node has its threads there from the start, so that all
memory that they touch first is that node's as well (the kernel's default policy, numa(7)), as far as the node has free memory.

Sources: Documentation/ABI/stable/sysfs-devices-node, proc_pid_status(5) for ``Mems_allowed_list``.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import SufficeError, UsageError
from suffice.measure.limits import read_cpu_limits
from suffice.measure.system_files import format_cpu_list, parse_cpu_list, read_text, to_int
from suffice.units import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from suffice.measure.machine import MachineFacts

_NODES: Final = "sys/devices/system/node"
# What the kernel can give up at once; it writes no MemAvailable for a node.
_DROPPABLE: Final = ("Active(file)", "Inactive(file)", "SReclaimable")
LEAST_LOCAL_SHARE: Final = 0.9
# The files of Python and of the engine's library lie where somebody read them first; weights and caches are nearly all of the rest.
_PROGRAM_BYTES: Final = 256 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaNode:
    """One node, as this process may use it.

    Attributes:
        number: the kernel's.
        cpus: logical CPUs of the node that this process may use; none for a node of memory alone.
        memory_bytes: memory of the node; 0 where it has none or this process may not use it; None: not told.
        usable_bytes: what is free of it or can be made free at once; None: not told.
    """

    number: int
    cpus: tuple[int, ...]
    memory_bytes: int | None = None
    usable_bytes: int | None = None

    @property
    def cpu_list(self) -> str:
        """The CPUs as the kernel writes them: ``"0-3,8"``."""
        return format_cpu_list(self.cpus)

    @property
    def can_run(self) -> bool:
        """Whether an engine can run here with memory of its own."""
        return bool(self.cpus) and self.memory_bytes != 0


def read_numa_nodes(root: Path = Path("/"), *, cpus: tuple[int, ...] | None = None) -> tuple[NumaNode, ...] | None:
    """All nodes that are online, by number; None where the system does not tell (macOS, Windows, some containers).

    Args:
        root: of the tree that is read.
        cpus: those that this process may use; None: read now.
    """
    numbers = parse_cpu_list(read_text(root / _NODES / "online"))
    if not numbers:
        return None
    allowed = set(read_cpu_limits(root).cpus if cpus is None else cpus)
    memories = _allowed_memories(root)
    return tuple(_read_node(root, number, allowed, memories) for number in numbers)


def choose_nodes(
    nodes: Sequence[NumaNode] | None, *, number: int | None = None, per_node: bool = False
) -> tuple[NumaNode, ...]:
    """The nodes that a run is placed on, the one with the fewest CPUs first; none when neither was asked for.

    The first is where the single stream is measured: what runs there runs on every other one as well.

    Args:
        nodes: of this machine; None: it does not tell.
        number: of the one that was asked for.
        per_node: whether one engine per node was asked for.

    Raises:
        UsageError: both were asked for, or what was asked for does not exist here.
    """
    if number is None and not per_node:
        return ()
    if number is not None and per_node:
        raise UsageError("--numa-node and --per-node: give one of the two, a node or all of them")
    flag = "--per-node" if number is None else f"--numa-node {number}"
    if nodes is None:
        raise UsageError(f"{flag}: this system does not tell its NUMA nodes (Linux does); leave it out")
    able = [node for node in nodes if node.can_run]
    if number is not None:
        return (_node_numbered(nodes, number, able),)
    if len(able) < 2:  # noqa: PLR2004  # several
        raise UsageError(
            f"{flag}: only {len(able)} NUMA node here has CPUs and memory that this process may use; leave it out"
        )
    return tuple(sorted(able, key=lambda node: (len(node.cpus), node.number)))


def facts_on(facts: MachineFacts, nodes: Sequence[NumaNode]) -> MachineFacts:
    """What one engine has when one runs on each of these nodes: the CPUs and memory of the least, and its part of limits that all share.

    Args:
        facts: of the machine, read by a thread that is pinned to the first node.
        nodes: none changes nothing.
    """
    if not nodes:
        return facts
    usable = min(facts.usable_cpus, *(len(node.cpus) for node in nodes))
    quota = facts.environment.get("cpu_quota")
    if isinstance(quota, float):
        usable = min(usable, max(1, int(quota / len(nodes))))
    memories = [node.usable_bytes for node in nodes if node.usable_bytes is not None]
    fewer = {threads for threads in facts.thread_candidates if threads <= usable}
    return replace(
        facts,
        usable_cpus=usable,
        thread_candidates=tuple(sorted(fewer | {usable})),
        memory_usable_bytes=min((facts.memory_usable_bytes // len(nodes), *memories)),
    )


@contextmanager
def pinned_to(nodes: Sequence[NumaNode]) -> Iterator[None]:
    """Keep the calling thread, and all threads and processes that it starts meanwhile, on the CPUs of these nodes; none: as it was.

    Raises:
        SufficeError: the system refuses.
    """
    if not nodes:
        yield
        return
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {cpu for node in nodes for cpu in node.cpus})
    except OSError as error:
        words = " and ".join(str(node.number) for node in nodes)
        raise SufficeError(f"cannot run on the CPUs of NUMA node {words}: {error.strerror or error}") from error
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def local_share(node_bytes: Mapping[int, int] | None, node: NumaNode) -> float | None:
    """The share of a process's resident memory that lies on a node; None: not told."""
    total = sum((node_bytes or {}).values())
    return None if node_bytes is None or total == 0 else node_bytes.get(node.number, 0) / total


def placement_warning(node_bytes: Mapping[int, int] | None, node: NumaNode, *, use_mmap: bool) -> str | None:
    """A sentence where much of an engine's memory lies on other nodes; None: nothing to say."""
    share, total = local_share(node_bytes, node), sum((node_bytes or {}).values())
    if share is None or share >= LEAST_LOCAL_SHARE or total * (1 - share) <= _PROGRAM_BYTES:
        return None
    why = (
        "the system had read the model file before and keeps it where it is; --no-mmap copies it to the node"
        if use_mmap
        else "the node had too little free memory; free some, or run it under `numactl --membind`"
    )
    return f"only {share:.0%} of the engine's memory lies on NUMA node {node.number}: {why}"


def _node_numbered(nodes: Sequence[NumaNode], number: int, able: Sequence[NumaNode]) -> NumaNode:
    found = next((node for node in nodes if node.number == number), None)
    there = ", ".join(str(node.number) for node in able) or "none"
    if found is None:
        raise UsageError(f"--numa-node {number}: there is no such NUMA node here; give one of: {there}")
    if not found.can_run:
        lacks = "CPU" if not found.cpus else "memory"
        raise UsageError(
            f"--numa-node {number}: this node has no {lacks} that this process may use; give one of: {there}"
        )
    return found


def _allowed_memories(root: Path) -> frozenset[int] | None:
    """Nodes whose memory this process may use; None: not told."""
    for line in (read_text(root / "proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Mems_allowed_list":
            return frozenset(parse_cpu_list(value.strip())) or None
    return None


def _read_node(root: Path, number: int, allowed: set[int], memories: frozenset[int] | None) -> NumaNode:
    folder = root / _NODES / f"node{number}"
    cpus = tuple(cpu for cpu in parse_cpu_list(read_text(folder / "cpulist")) if cpu in allowed)
    if memories is not None and number not in memories:
        return NumaNode(number=number, cpus=cpus, memory_bytes=0, usable_bytes=0)
    meminfo = _read_meminfo(folder / "meminfo")
    free = meminfo.get("MemFree")
    return NumaNode(
        number=number,
        cpus=cpus,
        memory_bytes=meminfo.get("MemTotal"),
        usable_bytes=None if free is None else free + sum(meminfo.get(name, 0) for name in _DROPPABLE),
    )


def _read_meminfo(path: Path) -> dict[str, int]:
    """Bytes by name, of lines such as ``Node 0 MemTotal:  24684092 kB`` ("kB" there means KiB)."""
    found: dict[str, int] = {}
    for line in (read_text(path) or "").splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        value = to_int(words[0]) if words else None
        if value is not None:
            found[name.split()[-1]] = value * KIB
    return found
