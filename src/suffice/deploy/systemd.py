"""A systemd unit for one engine, with no more rights than serving takes (systemd.exec(5), systemd.resource-control(5))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.deploy.quote import comment_text, unit_argument, unit_text, unit_value
from suffice.deploy.server_args import Home, Hosted, load_mode, server_arguments
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from suffice.deploy.choice import DeploymentChoice, Place

# Folders that ProtectHome= and PrivateTmp= hide.
_HIDDEN: Final = ("/home/", "/root/", "/run/user/", "/tmp/", "/var/tmp/")  # noqa: S108  # nothing is written there
_UPKEEP: Final = """\
# default: a crash is followed by a new start, see also StartLimitBurst
Restart=on-failure
RestartSec=5"""
_HARDENING: Final = """\
# default: a user of its own for as long as it runs, no rights, nothing of the machine to write to
DynamicUser=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
UMask=0077
ProtectSystem=strict
PrivateTmp=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
ProtectProc=invisible
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallErrorNumber=EPERM
# default: loopback only, whatever the server is told to listen on
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
IPAddressDeny=any
IPAddressAllow=localhost"""
_OF_A_CPU: Final = """\
# default: a CPU server needs no devices, and makes no code while it runs
PrivateDevices=yes
MemoryDenyWriteExecute=yes"""


def unit_file(choice: DeploymentChoice, place: Place, head: list[str]) -> str:
    """The unit of one engine.

    Raises:
        UsageError: the model or the server has a path that is not absolute, which a unit cannot resolve.
    """
    path = _absolute(choice.model_path.value, "--model-path")
    lines = [f"# {comment_text(line)}".rstrip() for line in head]
    lines += [
        "",
        "[Unit]",
        f"Description=llama-server with {unit_text(choice.alias)}",
        "Documentation=https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        "After=network.target",
        "# default: a server that crashes five times in ten minutes is left alone",
        "StartLimitIntervalSec=600",
        "StartLimitBurst=5",
        "",
        "[Service]",
        "Type=exec",
        *_command(choice, place, path),
        *_UPKEEP.splitlines(),
        *_resources(choice, place),
        "",
        *_HARDENING.splitlines(),
        *_home(choice, path),
        *([] if choice.is_gpu else _OF_A_CPU.splitlines()),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _absolute(path: str, what: str) -> str:
    if not path.startswith("/"):
        raise UsageError(f"{what} {path} is not an absolute path, as a service on another machine needs it")
    return path


def _command(choice: DeploymentChoice, place: Place, path: str) -> Iterator[str]:
    """One argument a line: comment lines between continued lines are skipped (systemd.syntax(7))."""
    arguments = server_arguments(choice, place, Hosted(home=Home.MACHINE, model_path=path, port=place.port))
    yield f"# {comment_text(choice.server.comment)}"
    yield f"ExecStart={unit_argument(_absolute(choice.server.value, '--server'))} \\"
    for number, argument in enumerate(arguments, start=1):
        yield f"# {comment_text(argument.comment)}"
        words = " ".join((argument.flag, *map(unit_argument, argument.words[1:])))
        yield f"  {words} \\" if number < len(arguments) else f"  {words}"


def _resources(choice: DeploymentChoice, place: Place) -> Iterator[str]:
    if "mlock" in load_mode(choice, Home.MACHINE).value:
        yield "# computed: the model is locked in memory, which the usual limit of some MiB forbids"
        yield "LimitMEMLOCK=infinity"
    if choice.memory is not None:
        yield f"# {comment_text(choice.memory.limit.comment)} ({comment_text(choice.memory.needed.comment)})"
        yield f"MemoryMax={choice.memory.limit.value}"
        yield "# default: a model that is swapped answers too late"
        yield "MemorySwapMax=0"
    if place.node is not None:
        yield "# measured: kept on this node; its memory as well"
        yield "NUMAPolicy=bind"
        yield f"NUMAMask={place.node}"
        yield f"CPUAffinity={place.cpus.replace(',', ' ') if place.cpus is not None else 'numa'}"


def _home(choice: DeploymentChoice, path: str) -> Iterator[str]:
    """What is hidden, and what of it is shown: the model, and the server with the libraries beside it."""
    folder = choice.server.value.rpartition("/")[0]
    shown = [one for one in (path, folder) if f"{one}/".startswith(_HIDDEN)]
    yield "ProtectHome=tmpfs" if shown else "ProtectHome=yes"
    if shown:
        yield "# computed: folders in which these lie are hidden, but for them"
    yield from (f"BindReadOnlyPaths={unit_value(one)}" for one in shown)
