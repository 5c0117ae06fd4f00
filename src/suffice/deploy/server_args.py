"""llama-server's command line: one argument after another, each with where its value comes from.

Flags are those of llama.cpp from August 2026 on (``--load-mode``; tools/server/README.md, read 2026-10).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.deploy.setting import Setting, computed, default, measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.deploy.choice import DeploymentChoice, Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """A flag with its value (None: it takes none) and the comment beside it."""

    flag: str
    value: str | None
    comment: str

    @property
    def words(self) -> tuple[str, ...]:
        """As the program gets it."""
        return (self.flag,) if self.value is None else (self.flag, self.value)


class Home(StrEnum):
    """Where the server runs, as far as its arguments depend on it."""

    MACHINE = "machine"  # listens on loopback, may lock memory
    COMPOSE = "compose"  # listens in its container; memory may be locked, as the file raises the limit
    CLUSTER = "cluster"  # listens in its pod; nothing raises the limit for locked memory there


@dataclass(frozen=True, slots=True, kw_only=True)
class Hosted:
    """What the surroundings decide: the model's path as the server sees it, the address, the port."""

    home: Home
    model_path: str
    port: int


_DOOR: Final = (
    Argument(flag="--metrics", value=None, comment="default: counters at /metrics"),
    Argument(flag="--no-slots", value=None, comment="default: /slots would show what others ask"),
    Argument(flag="--no-webui", value=None, comment="default: an API needs no page"),
)


def server_arguments(choice: DeploymentChoice, place: Place, hosted: Hosted) -> tuple[Argument, ...]:
    """All arguments of one engine, in the order in which a reader looks for them."""
    return (*_what(choice, hosted), *_speed(choice), *_room(choice, hosted), *_numa(choice, place), *_DOOR)


def load_mode(choice: DeploymentChoice, home: Home) -> Setting[str]:
    """``--load-mode``: mapped or read as measured, and locked where the memory allows it."""
    use_mmap = choice.settings.use_mmap
    base = "none" if use_mmap is False else "mmap"
    why = "the record does not say; mapping is llama.cpp's default" if use_mmap is None else "as in the run"
    plain = default(base, why) if use_mmap is None else measured(base, why)
    if choice.is_gpu:
        return plain
    if home is Home.CLUSTER:
        return Setting(value=base, origin=plain.origin, why=f"{why}; a pod may not lock memory, and has no swap")
    if choice.memory is None or choice.memory.usable_bytes is None:
        return Setting(value=base, origin=plain.origin, why=f"{why}; not locked, as the free memory is not known")
    if not choice.memory.can_be_locked:
        return Setting(value=base, origin=plain.origin, why=f"{why}; not locked, as it does not fit with headroom")
    locked = "mlock" if use_mmap is False else "mmap+mlock"
    return computed(locked, f"{why}; locked, as it fits the free memory with headroom")


def _what(choice: DeploymentChoice, hosted: Hosted) -> Iterator[Argument]:
    yield Argument(flag="--model", value=hosted.model_path, comment=choice.model_path.comment)
    yield Argument(flag="--alias", value=choice.alias, comment="computed: from the file's name")
    if hosted.home is Home.MACHINE:
        yield Argument(
            flag="--host", value="127.0.0.1", comment="default: loopback only; put a proxy with TLS and keys before it"
        )
    else:
        yield Argument(flag="--host", value="0.0.0.0", comment="default: inside the container, which publishes less")  # noqa: S104  # of a container
    yield Argument(flag="--port", value=str(hosted.port), comment=choice.port.comment)


def _speed(choice: DeploymentChoice) -> Iterator[Argument]:
    settings = choice.settings
    yield from _optional("--threads", settings.threads)
    yield from _optional("--threads-batch", settings.threads_batch)
    yield from _optional("--batch-size", settings.batch)
    yield from _optional("--ubatch-size", settings.ubatch)
    yield from _optional("--flash-attn", settings.flash_attention)
    if settings.repack is False:
        yield Argument(flag="--no-repack", value=None, comment="measured: weights were not repacked in the run")
    yield from _optional("--gpu-layers", settings.gpu_layers)


def _room(choice: DeploymentChoice, hosted: Hosted) -> Iterator[Argument]:
    settings = choice.settings
    slots, context = settings.slots, settings.context
    yield from _optional("--parallel", slots)
    total = computed(slots.value * context.value, f"{slots.value} slots x {context.value} tokens ({context.comment})")
    yield from _optional("--ctx-size", total)
    yield from _optional("--cache-type-k", settings.kv_k)
    yield from _optional("--cache-type-v", settings.kv_v)
    yield from _optional("--load-mode", load_mode(choice, hosted.home))
    ram = default(0, "off: 8192 MiB by default, which no measured memory holds; each slot keeps its own prefix anyway")
    yield from _optional("--cache-ram", ram)
    yield from _optional("--ctx-checkpoints", settings.checkpoints)


def _numa(choice: DeploymentChoice, place: Place) -> Iterator[Argument]:
    if place.node is not None:
        why = "the run was kept on one node" if len(choice.places) == 1 else "one engine was measured on each node"
        yield from _optional("--numa", measured("numactl", f"{why}; the CPUs are those that the starter gives"))


def _optional(flag: str, setting: Setting[int] | Setting[str] | None) -> Iterator[Argument]:
    if setting is not None:
        yield Argument(flag=flag, value=str(setting.value), comment=setting.comment)
