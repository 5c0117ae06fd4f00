"""What the measured relatives of a machine did, against the physics: those with its CPU, of its series and of its family of instances.

A relative counts the more the nearer its number of cores and the size of the model that it ran are, in logarithms. The mean is drawn
towards zero as if ``PRIOR_WEIGHT`` relatives had done just what the physics says (empirical Bayes): few relatives say little.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.predict.model_files import KNOWN_FILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from suffice.predict.cpu_features import MachineTable

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]

SIZES: Final = np.log(sorted(model.active_parameters for model in KNOWN_FILES.values()))
KINDS: Final = ("cpu", "series", "family")
RELATIVE_FEATURES: Final = tuple(f"{kind}_{what}" for kind in KINDS for what in ("residual", "weight"))
_NEAR_CORES: Final = 0.7  # a factor of two in cores halves the weight, about
_NEAR_SIZES: Final = 0.8
PRIOR_WEIGHT: Final = 0.7
_MOST_KEPT: Final = 20_000  # kinds of machines: ten times the catalogue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)  # the groups of each are known by it
class Relatives:
    """Measured machines of one phase.

    Attributes:
        keys: of each machine: its CPU, series and family, as :func:`relative_keys` writes them; empty ones are of no group.
        log_threads: of each machine.
        residuals: logarithm of rate over physics, machines x ``SIZES``; NaN where not measured.
    """

    keys: list[tuple[str, ...]]
    log_threads: Floats
    residuals: Floats


def relative_keys(table: MachineTable) -> list[tuple[str, ...]]:
    """Groups of each machine, from wide to narrow, all within its CPU model; none where that is not known.

    Machines with several NUMA nodes are relatives of one another only.
    """
    keys: list[tuple[str, ...]] = []
    for cpu, nodes, *groups in zip(table.identity, table.numa_nodes, table.series, table.family, strict=True):
        own = f"{cpu}|numa" if nodes > 1 else cpu
        keys.append((own, *(f"{own}|{group}" if group else "" for group in groups)) if cpu else ("",) * len(KINDS))
    return keys


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """The measured machines of one group: their places, log_threads, and their residuals with 0 where ``there`` is 0."""

    members: Indices
    log_threads: Floats
    there: Floats
    residuals: Floats


@lru_cache(maxsize=4)
def _groups(relatives: Relatives) -> tuple[dict[str, _Group], ...]:
    """Of each kind, by name: they are asked for by every model."""
    there = np.isfinite(relatives.residuals)
    filled = np.where(there, relatives.residuals, 0.0)
    return tuple(
        {
            name: _Group(
                members=members,
                log_threads=relatives.log_threads[members],
                there=there[members].astype(np.float64),
                residuals=filled[members],
            )
            for name, members in _grouped([key[kind] for key in relatives.keys]).items()
        }
        for kind in range(len(KINDS))
    )


def relatives_of(
    relatives: Relatives,
    keys: Sequence[tuple[str, ...]],
    log_threads: Floats,
    own: Indices | None = None,
) -> Floats:
    """Weights and weighted sums of residuals of each machine's relatives: machines x kinds x 2 x sizes.

    Args:
        relatives: the measured machines.
        keys: of the machines in question.
        log_threads: of those; NaN: no relative is nearer than another.
        own: for each machine, the index among the measured that it is itself and that must not count, or -1.
    """
    if own is not None:
        return _sums(relatives, keys, log_threads, own)
    known = _known_sums(relatives)
    if len(known) > _MOST_KEPT:
        known.clear()
    cores = [None if math.isnan(threads) else threads for threads in log_threads.tolist()]
    alike = [(*key, threads) for key, threads in zip(keys, cores, strict=True)]
    new = [place for place, one in enumerate(alike) if one not in known]
    if new:
        fresh = _sums(relatives, [keys[place] for place in new], log_threads[new], None)
        known.update(zip((alike[place] for place in new), fresh, strict=True))
    return np.stack([known[one] for one in alike]) if alike else _sums(relatives, keys, log_threads, None)


@lru_cache(maxsize=4)
def _known_sums(relatives: Relatives) -> dict[tuple[object, ...], Floats]:  # noqa: ARG001  # the key of the cache
    """Sums by groups and cores: a catalogue has each CPU dozens of times, and is asked for every model."""
    return {}


def _sums(relatives: Relatives, keys: Sequence[tuple[str, ...]], log_threads: Floats, own: Indices | None) -> Floats:
    sums = np.zeros((len(keys), len(KINDS), 2, len(SIZES)))
    blank = bool(np.isnan(log_threads).any()) or bool(np.isnan(relatives.log_threads).any())
    for kind, groups in enumerate(_groups(relatives)):
        for name, askers in _grouped([key[kind] for key in keys]).items():
            group = groups.get(name)
            if group is None:
                continue
            distance = log_threads[askers][:, None] - group.log_threads[None, :]
            weight = np.exp(-0.5 * ((np.nan_to_num(distance) if blank else distance) / _NEAR_CORES) ** 2)
            if own is not None:
                weight[own[askers][:, None] == group.members[None, :]] = 0.0
            sums[askers, kind, 0] = weight @ group.there
            sums[askers, kind, 1] = weight @ group.residuals
    return sums


def relative_columns(sums: Floats, log_parameters: Floats) -> Floats:
    """The columns ``RELATIVE_FEATURES`` of rows, from the sums of each row's machine; NaN where there is no relative."""
    near = np.exp(-0.5 * ((log_parameters[:, None] - SIZES[None, :]) / _NEAR_SIZES) ** 2)
    weight = np.einsum("rks,rs->rk", sums[:, :, 0], near)
    total = np.einsum("rks,rs->rk", sums[:, :, 1], near)
    known = weight > 0
    mean = np.where(known, total / (weight + PRIOR_WEIGHT), np.nan)
    log_weight = np.where(known, np.log1p(weight), np.nan)
    return np.stack((mean, log_weight), axis=2).reshape(len(log_parameters), len(RELATIVE_FEATURES))


def _grouped(names: Sequence[str]) -> dict[str, Indices]:
    groups: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        if name:
            groups.setdefault(name, []).append(index)
    return {name: np.array(members, dtype=np.intp) for name, members in groups.items()}
