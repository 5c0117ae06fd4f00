"""What is deployed: every value from the record, the verdict or the demand, and what nobody knows left out."""

# ruff: noqa: ANN401  # builders take any field of what they build

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from helpers.deployments import chat_demand, chosen, deployable, settings
from helpers.records import bare_record
from helpers.serving import chat, flat_curve, with_curve
from suffice.decide.verdict import Grade, decide_machine
from suffice.deploy.choice import Asked, DeploymentChoice, choose
from suffice.deploy.memory import HEADROOM, SERVER_BYTES
from suffice.deploy.server_args import Home, Hosted, load_mode, server_arguments
from suffice.deploy.setting import Origin
from suffice.errors import UsageError
from suffice.model.demand import single_stream_need
from suffice.model.vision import ImageLoad
from suffice.records.schema import KvLayers, ServicePass, ServiceRecord
from suffice.units import GIB, GIGA, KILO, MIB


def arguments_of(choice: DeploymentChoice, home: Home = Home.MACHINE) -> dict[str, str | None]:
    """Flag -> value of the first engine."""
    hosted = Hosted(home=home, model_path=choice.model_path.value, port=choice.places[0].port)
    return {one.flag: one.value for one in server_arguments(choice, choice.places[0], hosted)}


def with_settings(**changes: Any) -> DeploymentChoice:
    """The choice of a record with other settings."""
    return chosen(deployable(settings=settings(**changes)))


def test_what_was_measured_is_what_is_started() -> None:
    """Threads are those of the series, the rest are the settings of the run."""
    found = arguments_of(chosen())

    assert found["--threads"] == "2"
    assert found["--threads-batch"] == "2"
    assert found["--ubatch-size"] == "256"
    assert found["--batch-size"] == "512"
    assert found["--flash-attn"] == "off"
    assert found["--cache-type-k"] == found["--cache-type-v"] == "f16"
    assert found["--gpu-layers"] == "0"
    assert found["--parallel"] == "1"
    assert "--no-repack" not in found
    assert "--numa" not in found


def test_the_context_is_the_demands_rounded_as_the_engine_rounds() -> None:
    """500 + 200 tokens make 768, and two slots of them 1536."""
    choice = chosen(demand=chat_demand(concurrent_users=2, tokens_per_second_per_user=1.0))

    assert choice.settings.context.value == 768
    assert choice.settings.context.origin is Origin.STATED
    assert arguments_of(choice)["--ctx-size"] == "1536"


def test_a_demand_without_lengths_takes_the_runs_context() -> None:
    """`--need` says nothing of lengths."""
    choice = chosen(demand=single_stream_need(5.0))

    assert choice.settings.context.value == 1024
    assert choice.settings.context.origin is Origin.MEASURED


def test_nobody_knows_the_context() -> None:
    """Neither demand nor record: there is nothing to take, and the sentence says what to state."""
    record = replace(bare_record(20.0), model=deployable().model)

    with pytest.raises(UsageError, match="context_tokens"):
        chosen(record, single_stream_need(5.0))


def test_a_bare_record_leaves_flags_out() -> None:
    """What the record does not say is no flag, and a note tells it."""
    record = replace(bare_record(20.0), model=deployable().model)
    choice = chosen(record)
    found = arguments_of(choice)

    assert not {"--threads", "--threads-batch", "--ubatch-size", "--cache-type-k", "--gpu-layers"} & set(found)
    assert found["--flash-attn"] == "auto"
    assert any("threads and KV type" in note for note in choice.notes)


def test_a_service_curve_has_threads_of_its_own() -> None:
    """A step of one sequence and every other pass were measured with different threads."""
    record = deployable()
    passes = (ServicePass(size=1, depth=0, seconds=(0.1,) * 8), ServicePass(size=2, depth=0, seconds=(0.1,) * 8))
    service = ServiceRecord(slots=2, decode_threads=5, prefill_threads=7, decode=passes, prefill=passes)
    choice = chosen(replace(record, measurement=replace(record.measurement, service=service)))

    assert arguments_of(choice)["--threads"] == "5"
    assert arguments_of(choice)["--threads-batch"] == "7"
    assert choice.cpus == 7


def test_slots_are_those_of_the_verdict() -> None:
    """Users have a slot each; where one machine does not do, the slots are those of each of several."""
    evidence = with_curve(flat_curve(step_s=0.05, more_s=0.01))
    demand = chat(concurrent_users=8)
    verdict = decide_machine(demand, evidence)
    assert verdict.service is not None
    served = verdict.service.served
    assert served is not None
    choice = choose(demand, deployable(), verdict)

    assert served.machines is not None
    assert served.machines > 1
    assert choice.machines.value == served.machines
    assert choice.settings.slots.value == served.machine_slots
    assert choice.settings.slots.origin is Origin.SIMULATED
    assert choice.settings.batch is not None
    assert choice.settings.batch.value == 2048


def test_memory_by_hand() -> None:
    """1500 MiB were seen with 64 MiB of cache; one slot of 768 tokens takes 768 x 100 kB; the server has 256 MiB; 1.2 times that is the limit."""
    choice = chosen()
    assert choice.memory is not None
    cache = 768 * 100 * KILO
    needed = 1500 * MIB - 64 * MIB + cache + SERVER_BYTES

    assert choice.memory.needed.value == -(-needed // MIB) * MIB
    assert choice.memory.limit.value == -(-round(choice.memory.needed.value * HEADROOM) // MIB) * MIB
    assert "measured peak of 1.46 GiB" in choice.memory.needed.why


def test_memory_by_arithmetic_where_nothing_was_seen() -> None:
    """Weights of 1 GB, one cache, 100 MiB of buffers, and the server."""
    record = deployable()
    choice = chosen(replace(record, measurement=replace(record.measurement, peak_rss_bytes=None)))
    assert choice.memory is not None

    needed = GIGA + 768 * 100 * KILO + 100 * MIB + SERVER_BYTES
    assert choice.memory.needed.value == -(-needed // MIB) * MIB
    assert "arithmetic" in choice.memory.needed.why


def test_images_bring_their_encoder() -> None:
    """1 GiB of it is in the memory, and its file has to be given by hand, which is said."""
    images = ImageLoad(per_request=1, tokens_each=20, encoder_flop_each=1e9, encoder_bytes=float(GIB), source="stated")
    plain, choice = chosen(), chosen(demand=chat_demand(images=images))
    assert plain.memory is not None
    assert choice.memory is not None

    assert choice.memory.needed.value - plain.memory.needed.value == GIB
    assert any("--mmproj" in note for note in choice.notes)
    assert not any("--mmproj" in note for note in plain.notes)


def test_memory_that_nobody_knows_is_no_limit() -> None:
    """A record without the model's bytes gives no limit, and says so."""
    record = deployable()
    choice = chosen(replace(record, model=replace(record.model, file_bytes=None)))

    assert choice.memory is None
    assert any("no limit" in note for note in choice.notes)


@pytest.mark.parametrize(
    ("use_mmap", "usable", "home", "mode"),
    [
        (True, 16 * GIB, Home.MACHINE, "mmap+mlock"),
        (False, 16 * GIB, Home.MACHINE, "mlock"),
        (True, GIB, Home.MACHINE, "mmap"),
        (False, GIB, Home.COMPOSE, "none"),
        (True, None, Home.MACHINE, "mmap"),
        (None, None, Home.MACHINE, "mmap"),
        (True, 16 * GIB, Home.CLUSTER, "mmap"),
    ],
)
def test_memory_is_locked_where_it_fits(use_mmap: bool | None, usable: int | None, home: Home, mode: str) -> None:  # noqa: FBT001  # a case
    """Mapped or not as measured; locked where all of it, with headroom, fits what is free, and never in a pod."""
    choice = chosen(deployable(settings=settings(use_mmap=use_mmap), memory_usable_bytes=usable))

    assert load_mode(choice, home).value == mode


def test_windows_and_states_keep_few_copies() -> None:
    """32 copies a slot are llama-server's default; four are kept, and counted as memory."""
    plain = deployable()
    layers = (KvLayers(count=10, bytes_per_token=1024.0, window=1024), KvLayers(count=2, bytes_per_token=1024.0))
    windowed = replace(plain, model=replace(plain.model, kv_layers=layers))
    choice = chosen(windowed)
    assert choice.memory is not None

    assert arguments_of(choice)["--ctx-checkpoints"] == "4"
    assert "--ctx-checkpoints" not in arguments_of(chosen(plain))
    assert choice.settings.checkpoints is not None
    copies, cache = 4 * 10 * 1024 * 1024, 12 * 768 * 1024
    needed = 1500 * MIB - 64 * MIB + cache + copies + SERVER_BYTES
    assert choice.memory.needed.value == -(-needed // MIB) * MIB


def test_a_node_is_kept() -> None:
    """A run on node 1 is served on node 1, with the CPUs that it had."""
    choice = with_settings(numa_node=1, cpus="4-7,12")

    assert (choice.places[0].node, choice.places[0].cpus) == (1, "4-7,12")
    assert arguments_of(choice)["--numa"] == "numactl"


@pytest.mark.parametrize("cpus", ["0-3; rm", "", 7, None])
def test_cpus_that_are_no_list_are_not_taken(cpus: object) -> None:
    """Settings are anything that a record's writer put there."""
    assert with_settings(numa_node=1, cpus=cpus).places[0].cpus is None


def test_engines_side_by_side_have_a_port_each() -> None:
    """One engine for each node; the record's memory is one engine's already, what the demand states is that of the machine."""
    record = deployable()
    passes = (ServicePass(size=1, depth=0, seconds=(0.1,) * 8), ServicePass(size=2, depth=0, seconds=(0.1,) * 8))
    service = ServiceRecord(slots=2, instances=2, decode=passes, prefill=passes)
    choice = chosen(replace(record, measurement=replace(record.measurement, service=service)), asked=Asked(port=9000))

    assert [(place.node, place.port) for place in choice.places] == [(0, 9000), (1, 9001)]
    assert choice.memory is not None
    assert choice.memory.usable_bytes == record.memory_usable_bytes == 16 * GIB
    stated = chosen(choice.record, chat_demand(memory_bytes=24.0 * GIB))
    assert stated.memory is not None
    assert stated.memory.usable_bytes == 12 * GIB
    with pytest.raises(UsageError, match="--port 65535: 2 engines"):
        chosen(replace(record, measurement=replace(record.measurement, service=service)), asked=Asked(port=65535))


def test_a_gpu_is_used_as_measured() -> None:
    """Layers are those of the run; how much of the host's memory it takes is not known."""
    choice = chosen(deployable(device_kind="gpu", settings=settings(n_gpu_layers=33)))

    assert arguments_of(choice)["--gpu-layers"] == "33"
    assert choice.image.value.endswith("server-cuda")
    assert choice.memory is None


def test_a_record_without_a_file_needs_a_path() -> None:
    """A shape was measured: there is nothing to serve before somebody names a file."""
    record = deployable()
    record = replace(record, model=replace(record.model, file_name=None))

    with pytest.raises(UsageError, match="--model-path"):
        chosen(record)
    assert chosen(record, asked=Asked(model_path="/m/a.gguf")).model_path.value == "/m/a.gguf"


def test_a_file_name_brings_no_folder() -> None:
    """A record's name with folders in it does not choose where the server reads."""
    record = deployable()
    choice = chosen(replace(record, model=replace(record.model, file_name="../../etc/shadow")))

    assert choice.model_path.value == "/srv/models/shadow"


def test_what_is_not_enough_is_noted() -> None:
    """A machine that fails is deployed all the same, and each file says so."""
    choice = chosen(demand=chat_demand(tokens_per_second_per_user=1000.0))

    assert choice.grade is Grade.NOT_ENOUGH
    assert any("not shown to be enough" in note for note in choice.notes)


def test_another_system_is_told() -> None:
    """On macOS there is no systemd, and containers have no GPU: only the script serves as measured there."""
    of = [chosen(replace(deployable(), environment={"os": system})).notes for system in ("Darwin", "Linux")]

    assert any("the record is of macOS" in note for note in of[0])
    assert not any("the record is of" in note for note in of[1])


def test_a_gpu_has_no_limit_for_a_reason_of_its_own() -> None:
    """Not that the record were silent: the weights are elsewhere."""
    notes = chosen(deployable(device_kind="gpu", settings=settings(n_gpu_layers=33))).notes

    assert any(note.startswith("the layers were on a GPU: ") for note in notes)
