"""Names of a machine: which of them only the machine itself reaches, and how they stand in an address."""

from __future__ import annotations

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there; a name other than ``localhost`` may mean anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_every_address(host: str) -> bool:
    """Whether it stands for all addresses of the machine: ``0.0.0.0`` and ``::``."""
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def is_address(name: str) -> bool:
    """Whether it is an address in digits, and no name: ``10.0.0.5``, ``[::1]``."""
    try:
        ipaddress.ip_address(name.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def bracketed(host: str) -> str:
    """As it stands before a port: ``bracketed("::1") == "[::1]"``."""
    return f"[{host}]" if ":" in host else host
