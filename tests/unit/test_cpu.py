"""CPU facts and the environment's fingerprint."""

from __future__ import annotations

import getpass
import json
import socket
from typing import TYPE_CHECKING

from suffice.measure.cpu import mac_facts, parse_sysctl, read_caches, read_cpu_facts
from suffice.measure.environment import (
    describe_environment,
    fingerprint_differences,
    read_in_container,
)
from suffice.measure.limits import read_cpu_limits
from suffice.units import KIB, MIB

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9R14
microcode\t: 0xa101248
flags\t\t: fpu avx avx2 fma f16c bmi2 avx512f avx512_vnni hypervisor

processor\t: 1
model name\t: another
"""
ARM = """processor\t: 0
Features\t: fp asimd asimdhp asimddp sve i8mm bf16
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""


def write(path: Path, text: str) -> None:
    """Write one file of a fake tree."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def cpu_tree(root: Path, cpuinfo: str, *, cpus: int = 4, per_llc: int = 2) -> Path:
    """Four CPUs, two to a core (SMT) in one socket, an L3 of 32 MiB for each ``per_llc`` CPUs."""
    write(root / "proc/cpuinfo", cpuinfo)
    base = root / "sys/devices/system/cpu"
    write(base / "online", f"0-{cpus - 1}\n")
    for cpu in range(cpus):
        folder = base / f"cpu{cpu}"
        write(folder / "topology/core_id", f"{cpu // 2}\n")
        write(folder / "topology/physical_package_id", "0\n")
        write(folder / "cpufreq/cpuinfo_max_freq", "3700000\n")
        group = cpu // per_llc * per_llc
        kinds = (
            (1, "Data", "32K", f"{cpu}"),
            (1, "Instruction", "64K", f"{cpu}"),
            (3, "Unified", "32M", f"{group}-{group + per_llc - 1}"),
        )
        for index, (level, kind, size, shared) in enumerate(kinds):
            cache = folder / f"cache/index{index}"
            for name, value in (("level", str(level)), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
                write(cache / name, value + "\n")
    return root


def test_x86_facts(tmp_path: Path) -> None:
    """Name, counts, SMT, frequency, microcode, hypervisor and instruction sets of an x86 tree."""
    facts = read_cpu_facts(cpu_tree(tmp_path, X86), architecture="x86_64")
    assert (facts.vendor, facts.model_name, facts.microcode) == ("AuthenticAMD", "AMD EPYC 9R14", "0xa101248")
    assert (facts.sockets, facts.physical_cores, facts.logical_cpus, facts.smt) == (1, 2, 4, True)
    assert facts.max_frequency_hz == 3.7e9
    assert facts.hypervisor is True
    assert facts.isa == ("avx", "avx2", "avx512", "avx512_vnni", "bmi2", "f16c", "fma")


def test_arm_facts(tmp_path: Path) -> None:
    """Numbers of implementer and part become names; whether a hypervisor runs is not told."""
    facts = read_cpu_facts(cpu_tree(tmp_path, ARM), architecture="aarch64")
    assert (facts.vendor, facts.model_name) == ("ARM", "Neoverse-V1")
    assert facts.hypervisor is None
    assert facts.isa is not None
    assert {"neon", "sve", "dotprod", "matmul_int8"} <= set(facts.isa)


def test_llc_is_the_sum_of_the_instances_that_our_cpus_use(tmp_path: Path) -> None:
    """Two L3 of 32 MiB: CPUs of one of them have 32 MiB, all CPUs 64 MiB; instruction caches are not data caches."""
    root = cpu_tree(tmp_path, X86)
    assert read_cpu_facts(root, cpus=(0, 1)).llc_bytes == 32 * MIB
    assert read_cpu_facts(root).llc_bytes == 64 * MIB
    first = read_caches(root)[0]
    assert (first.level, first.size_bytes, first.instances) == (1, 32 * KIB, 4)


def test_unknown_stays_none(tmp_path: Path) -> None:
    """An empty tree gives no zeros and no guesses."""
    facts = read_cpu_facts(tmp_path, architecture="riscv64")
    assert facts.llc_bytes is None
    assert (facts.model_name, facts.sockets, facts.physical_cores, facts.smt, facts.numa_nodes) == (None,) * 5
    assert facts.isa is None


def test_garbled_cache_is_left_out(tmp_path: Path) -> None:
    """A size that is no size makes the cache unknown."""
    root = cpu_tree(tmp_path, X86)
    for size in root.glob("sys/devices/system/cpu/cpu*/cache/index*/size"):
        size.write_text("huge")
    assert read_cpu_facts(root).llc_bytes is None


def test_mac_facts() -> None:
    """An M2's sysctl output: names, cores, its two shared L2 caches, instruction sets."""
    text = """machdep.cpu.brand_string: Apple M2 Pro
hw.physicalcpu: 12
hw.logicalcpu: 12
hw.packages: 1
hw.l2cachesize: 4194304
hw.perflevel0.l2cachesize: 16777216
hw.perflevel0.physicalcpu: 8
hw.perflevel0.cpusperl2: 4
hw.optional.AdvSIMD: 1
hw.optional.arm.FEAT_DotProd: 1
hw.optional.arm.FEAT_I8MM: 1
hw.optional.arm.FEAT_SME: 0
kern.hv_vmm_present: 0
"""
    facts = mac_facts(parse_sysctl(text), "arm64")
    assert (facts.vendor, facts.model_name, facts.physical_cores, facts.smt) == ("Apple", "Apple M2 Pro", 12, False)
    assert facts.llc_bytes == 32 * MIB
    assert facts.isa == ("arm_fma", "dotprod", "matmul_int8", "neon")
    assert facts.hypervisor is False


def test_mac_without_sysctl_knows_nothing() -> None:
    """No output, no facts."""
    facts = mac_facts({}, "x86_64")
    assert (facts.model_name, facts.isa, facts.llc_bytes, facts.smt) == (None,) * 4


def test_environment_is_json_and_private(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real machine's record is plain JSON without host name, user name or environment variables."""
    monkeypatch.setenv("SUFFICE_TEST_SECRET", "s3cr3t-value")
    monkeypatch.setattr(socket, "gethostname", lambda: "host-of-mine")
    record = describe_environment().to_record()
    text = json.dumps(record)
    assert json.loads(text) == record
    for private in ("s3cr3t-value", "host-of-mine", f'"{getpass.getuser()}"'):
        assert private not in text
    assert record["usable_cpus"] == read_cpu_limits().usable_cpus


def test_fingerprints_ignore_what_varies() -> None:
    """Memory that is free now does not make another machine; another CPU does."""
    first: dict[str, object] = {"cpu_model": "a", "memory_available_bytes": 1, "kernel": "6"}
    assert fingerprint_differences(first, {**first, "memory_available_bytes": 2}) == ()
    assert fingerprint_differences(first, {"cpu_model": "b", "memory_available_bytes": 1}) == ("cpu_model", "kernel")


def test_container_signs(tmp_path: Path) -> None:
    """A marker file, the first process's group or an overlay root say yes; a plain root says no; an empty tree nothing."""
    assert read_in_container(tmp_path) is None
    write(tmp_path / "proc/1/cgroup", "0::/init.scope\n")
    write(
        tmp_path / "proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:5 / /var/x rw - overlay o rw\n"
    )
    assert read_in_container(tmp_path) is False
    write(tmp_path / "proc/self/mountinfo", "22 1 0:5 / / rw,relatime - overlay overlay rw\n")
    assert read_in_container(tmp_path) is True
    write(tmp_path / "proc/self/mountinfo", "")
    write(tmp_path / "proc/1/cgroup", "0::/kubepods/pod1\n")
    assert read_in_container(tmp_path) is True


def test_huge_pages_and_governor(tmp_path: Path) -> None:
    """The chosen huge page setting and the governor of the first of our CPUs."""
    root = cpu_tree(tmp_path, X86)
    write(root / "sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
    write(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "1200000\n")
    environment = describe_environment(root, limits=read_cpu_limits(root, affinity=(0, 1)))
    assert (environment.transparent_huge_pages, environment.governor) == ("madvise", "powersave")
    assert environment.current_frequency_hz == 1.2e9
    assert environment.llc_bytes == 32 * MIB
