# SPDX-License-Identifier: Apache-2.0
"""The items of a call, made of what the caller gave."""

from __future__ import annotations

from typing import Callable, Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .optimizers import Optimizer

#: Of one message to the servers: the steps of `progress`.
INIT_BYTES = 64 << 20


def name_list(names: str | Iterable[str]) -> list[str]:
    """A single name is one, and not its letters."""
    return [names] if isinstance(names, str) else list(names)


def configs(names: Iterable[str],
             optimizer: Optimizer | Callable[[str], Optimizer]) -> list[bytes]:
    """The serialized configuration of each."""
    return [(optimizer if isinstance(optimizer, Optimizer) else optimizer(name)).config()
            for name in names]


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
