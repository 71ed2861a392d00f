# SPDX-License-Identifier: Apache-2.0
"""The items of a call, made of what the caller gave."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Sequence, TypeVar

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .optimizers import Optimizer, config_of

T = TypeVar("T")

#: Of one message to the servers: the steps of `progress`.
INIT_BYTES = 64 << 20


def name_list(names: str | Iterable[str]) -> list[str]:
    """A single name is one, and not its letters."""
    return [names] if isinstance(names, str) else list(names)


def configs(names: Iterable[str],
             optimizer: Optimizer | Callable[[str], Optimizer]) -> list[bytes]:
    """The serialized configuration of each."""
    if isinstance(optimizer, (Optimizer, type)) or not callable(optimizer):
        return [config_of(name, optimizer) for name in names]
    return [config_of(name, optimizer(name)) for name in names]


def arrays_by_name(values: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """What a caller gives by name, as arrays."""
    return {name: np.asarray(value) for name, value in by_name(values).items()}


def by_name(values: Mapping[str, T]) -> Mapping[str, T]:
    """Itself, or TypeError for what has no names."""
    if not isinstance(values, Mapping):
        raise TypeError(f"arrays go by the names of their parameters, as {{\"w\": w}}, and not "
                        f"in a {type(values).__name__}")
    return values


def portions(arrays: Mapping[str, Array]) -> Iterable[list[str]]:
    """The names, as many at a time as are sent together."""
    portion: list[str] = []
    size = 0
    for name, array in arrays.items():
        if portion and size + array.nbytes > INIT_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(name)
        size += array.nbytes
    if portion:
        yield portion


def targets_like(names: Sequence[str], sources: Sequence[npt.ArrayLike],
                 into: Mapping[str, Array] | None) -> list[Array]:
    """Where to pull the parameters of these gradients into."""
    if into is None:
        return [np.empty_like(source, order="C", subok=False) for source in sources]
    return [into[name] for name in names]
