"""Queues that theory can answer: what a simulation is checked against."""

from __future__ import annotations


def _checked_load(utilisation: float) -> None:
    if not 0 <= utilisation < 1:
        raise ValueError(f"a queue is stable under a utilisation of 1, not at {utilisation:g}")


def md1_mean_wait_s(rate_per_s: float, service_s: float) -> float:
    """Mean time in the queue with one server, Poisson arrivals and constant service (Pollaczek and Khinchine, 1930-32).

    ``rho / (2 mu (1 - rho))`` with ``rho = rate * service`` and ``mu = 1 / service``.

    >>> md1_mean_wait_s(0.5, 1.0)
    0.5
    """
    utilisation = rate_per_s * service_s
    _checked_load(utilisation)
    return utilisation * service_s / (2 * (1 - utilisation))


def erlang_c(servers: int, offered: float) -> float:
    """Probability that an arrival must wait, ``offered = rate * service`` Erlang at ``servers`` servers (Erlang, 1917).

    By the recursion of the blocking probability ``B(c) = a B(c-1) / (c + a B(c-1))``.
    """
    _checked_load(offered / servers)
    blocked = 1.0
    for count in range(1, servers + 1):
        blocked = offered * blocked / (count + offered * blocked)
    utilisation = offered / servers
    return blocked / (1 - utilisation * (1 - blocked))


def mmc_mean_wait_s(rate_per_s: float, service_s: float, servers: int) -> float:
    """Mean time in the queue with ``servers`` servers, Poisson arrivals and exponential service: ``C / (c mu - rate)``."""
    offered = rate_per_s * service_s
    return erlang_c(servers, offered) * service_s / (servers - offered)
