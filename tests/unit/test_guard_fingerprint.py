"""Fingerprints: what makes two runs comparable, after normalisation, or not, and what is named as the cause of a change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.guard import ENVIRONMENT, guarded_record
from suffice.decide.guard_fingerprint import (
    ROLES,
    Comparability,
    Role,
    causes_of,
    compare_fingerprints,
    fingerprint_of,
)
from suffice.decide.guard_rounds import alike_rounds
from suffice.measure.environment import describe_environment
from suffice.records.schema import DecodeSeries, EngineRecord, RunRecord

if TYPE_CHECKING:
    from pathlib import Path


def compared(**changes: Any) -> Any:  # noqa: ANN401  # a comparison
    """A plain run against one with something changed."""
    return compare_fingerprints(fingerprint_of(guarded_record()), fingerprint_of(guarded_record(**changes)))


def test_a_run_is_comparable_with_itself() -> None:
    """Nothing differs, and nothing is said."""
    found = compared()

    assert found.comparability is Comparability.COMPARABLE
    assert (found.differences, found.unknown, found.reason) == ((), (), "")


@pytest.mark.parametrize(
    ("changes", "kind", "cause"),
    [
        ({"engine": EngineRecord(name="fake", version="2")}, Comparability.COMPARABLE, "engine 1 -> 2"),
        (
            {"model": replace(guarded_record().model, sha256="cd" * 32)},
            Comparability.COMPARABLE,
            "model file changed (abababab -> cdcdcdcd)",
        ),
        ({"settings": {"n_ubatch": 64}}, Comparability.COMPARABLE, None),
        ({"environment": {"kernel": "6.2"}}, Comparability.COMPARABLE, "kernel 6.1 -> 6.2"),
        ({"environment": {"microcode": "0x2"}}, Comparability.COMPARABLE, "microcode 0x1 -> 0x2"),
        ({"machine": "Other CPU"}, Comparability.NORMALISED, "different CPU: Test CPU -> Other CPU"),
        ({"environment": {"cpu_stepping": "2"}}, Comparability.NORMALISED, "CPU stepping 1 -> 2"),
        ({"environment": {"usable_cpus": 1}}, Comparability.NORMALISED, "usable CPUs 2 -> 1"),
        (
            {"machine": "Other CPU", "environment": {"isa": ["avx2"]}},
            Comparability.NOT_COMPARABLE,
            "instruction set avx2 avx512 -> avx2",
        ),
        ({"device_kind": "gpu"}, Comparability.NOT_COMPARABLE, "device cpu -> gpu"),
        ({"basis": "extrapolated"}, Comparability.NOT_COMPARABLE, "basis measured -> extrapolated"),
    ],
)
def test_each_difference_has_its_meaning(changes: dict[str, Any], kind: Comparability, cause: str | None) -> None:
    """Builds and models are compared and named; machines are normalised; another processor or another work is not compared."""
    found = compared(**changes)

    assert found.comparability is kind
    assert cause is None or cause in causes_of(found)


def test_another_depth_is_another_question() -> None:
    """Decode behind 512 tokens says nothing of decode behind 4,096."""
    base = guarded_record()
    deep = replace(base.measurement.decode[0], depth=4096)
    new = replace(base, measurement=replace(base.measurement, decode=(deep,)))

    found = compare_fingerprints(fingerprint_of(base), fingerprint_of(new))

    assert found.comparability is Comparability.NOT_COMPARABLE
    assert found.reason == "decode depth 512 -> 4096"


def test_another_machine_must_tell_its_instruction_set() -> None:
    """Two CPUs of which one does not say what it can do are not comparable, and the reason says what is missing."""
    found = compare_fingerprints(
        fingerprint_of(guarded_record()), fingerprint_of(guarded_record(machine="Other", environment={"isa": None}))
    )

    assert found.comparability is Comparability.NOT_COMPARABLE
    assert "instruction set unknown" in found.reason


def test_a_plain_number_is_of_no_known_machine() -> None:
    """The article's JSON file does not say where it was measured: not comparable."""
    found = compare_fingerprints(fingerprint_of(guarded_record()), fingerprint_of(RunRecord()))

    assert found.comparability is Comparability.NOT_COMPARABLE
    assert found.unknown == ("cpu_model",)
    assert found.reason == "CPU unknown"


def test_what_one_side_does_not_know_is_no_difference() -> None:
    """An older record without microcode is compared as if it had the same."""
    found = compared(environment={"microcode": None, "kernel": None})

    assert found.comparability is Comparability.COMPARABLE
    assert found.differences == ()


def test_memory_may_differ_by_what_a_kernel_keeps() -> None:
    """1 % more memory is the same machine, 10 % is another one."""
    size = ENVIRONMENT["memory_total_bytes"]

    assert compared(environment={"memory_total_bytes": size * 1.01}).comparability is Comparability.COMPARABLE
    assert compared(environment={"memory_total_bytes": size * 1.1}).comparability is Comparability.NORMALISED


def test_causes_begin_with_what_was_changed_on_purpose() -> None:
    """Engine before CPU before kernel; what follows from another engine is not told twice."""
    engine = EngineRecord(name="fake", version="2", llama_cpp_version="b2", system_info="AVX512 = 1")
    found = compare_fingerprints(
        fingerprint_of(guarded_record(engine=EngineRecord(name="fake", version="1", system_info="AVX = 1"))),
        fingerprint_of(guarded_record(engine=engine, machine="Other", environment={"kernel": "6.2"})),
    )

    assert causes_of(found) == ["engine 1 -> 2", "different CPU: Test CPU -> Other", "kernel 6.1 -> 6.2"]


def test_other_build_flags_alone_are_a_cause() -> None:
    """The same version, compiled otherwise."""
    found = compare_fingerprints(
        fingerprint_of(guarded_record(engine=EngineRecord(name="fake", version="1", system_info="AVX = 1"))),
        fingerprint_of(guarded_record(engine=EngineRecord(name="fake", version="1", system_info="AVX512 = 1"))),
    )

    assert causes_of(found) == ["the engine was built with other flags"]


def test_fewer_threads_are_a_setting() -> None:
    """Threads are what a guard guards: compared, and named."""
    base = guarded_record()
    one: DecodeSeries = replace(base.measurement.decode[0], threads=1)
    new = replace(base, measurement=replace(base.measurement, decode=(one,)))

    found = compare_fingerprints(fingerprint_of(base), fingerprint_of(new))

    assert found.comparability is Comparability.COMPARABLE
    assert causes_of(found) == ["threads 2 -> 1"]


def test_a_fingerprint_is_plain_and_known() -> None:
    """Every field has a role, no value is None, and nothing of the paths or names of a machine is in it."""
    record = replace(guarded_record(), environment=describe_environment().to_record())

    found = fingerprint_of(record)

    assert set(found) <= set(ROLES)
    assert all(isinstance(value, str | int | float | bool) for value in found.values())
    assert {ROLES[name] for name in found} >= {Role.WORK, Role.SUBJECT, Role.MACHINE, Role.SURROUNDINGS}


def test_silicon_and_machine_type_are_read(tmp_path: Path) -> None:
    """Family, model number and stepping of the first CPU, maker and product of the firmware; elsewhere unknown."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text(
        "processor\t: 0\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC\nstepping\t: 1\n\n"
        "processor\t: 1\nstepping\t: 2\n",
        encoding="utf-8",
    )
    dmi = tmp_path / "sys/class/dmi/id"
    dmi.mkdir(parents=True)
    (dmi / "sys_vendor").write_text("Amazon EC2\n", encoding="utf-8")
    (dmi / "product_name").write_text("c7i.large\n", encoding="utf-8")

    told, nothing = describe_environment(tmp_path), describe_environment(tmp_path / "empty")

    assert (told.cpu_family, told.cpu_model_number, told.cpu_stepping) == ("25", "17", "1")
    assert told.machine_type == "Amazon EC2 c7i.large"
    assert (nothing.cpu_family, nothing.cpu_stepping, nothing.machine_type) == (None, None, None)


def test_rounds_must_be_of_the_first_base() -> None:
    """Bases of another machine and heads of other work are left out; heads that are placed on fewer CPUs are what their command says."""
    first = fingerprint_of(guarded_record())
    moved, deeper, fewer = (
        {**first, **changes} for changes in ({"cpu_model": "Other CPU"}, {"depth": 4096}, {"usable_cpus": 1})
    )
    unknown = {name: value for name, value in first.items() if name != "depth"}

    found = alike_rounds([first, first, moved, first, first], [first, deeper, moved, fewer, first])
    never = alike_rounds([unknown, first, unknown], [first, deeper, unknown])

    assert found.numbers == (0, 3, 4)
    assert (found.reason, found.obstacle) == ("decode depth 512 -> 4096", "")
    assert found.note.startswith("2 of 5 rounds were left out")
    assert never.numbers == (0, 2)  # the first base does not tell its depth, that of the second round does
    assert "2 of 3 rounds are comparable with the first base, and 3 are needed" in never.obstacle


def test_few_rounds_that_are_alike_have_no_obstacle_of_this_kind() -> None:
    """That they are few is told elsewhere; and a machine that nobody knows is comparable with nothing."""
    first = fingerprint_of(guarded_record())
    nobody = {name: value for name, value in first.items() if name != "cpu_model"}

    few, none = alike_rounds([first], [first]), alike_rounds([nobody] * 3, [nobody] * 3)

    assert (few.numbers, few.obstacle, few.note) == ((0,), "", "")
    assert none.numbers == ()
    assert none.obstacle.startswith("not comparable: CPU unknown; 0 of 3")
