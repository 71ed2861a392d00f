# SPDX-License-Identifier: Apache-2.0
"""Adds that count together at the end of an iteration."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .arrays import Array
from .table_keys import KEY, as_keys

if TYPE_CHECKING:
    from .tables import Table


class BufferedTable:
    """A worker's adds of one iteration, kept here until it ends; ``Table.buffered()`` gives it.

    Between two iterations nothing changes: every read of an iteration sees what all workers had
    added before it, and nothing of it.
    """

    def __init__(self, table: Table, worker: int, weight: float) -> None:
        self._table = table
        self._worker = worker
        self._weight = weight
        self._keys: list[Array] = []
        self._gradients: list[Array] = []

    def get(self, keys: npt.ArrayLike, *, out: Array | None = None,
            timeout: float | None = None) -> Array:
        """As ``Table.get``: without what was added in this iteration."""
        return self._table.get(keys, out=out, timeout=timeout)

    def add(self, keys: npt.ArrayLike, gradients: npt.ArrayLike) -> None:
        """Keeps a copy of gradients; those of one key are summed in the order of the calls."""
        numbers = as_keys(self._table.name, keys)
        source = self._table._source(numbers, gradients)
        self._keys.append(numbers.flatten())
        self._gradients.append(source.reshape(-1, self._table.width).copy())

    def step(self, get: npt.ArrayLike = (), *, out: Array | None = None,
             timeout: float | None = None) -> Array:
        """Ends the iteration: contributes what was added, and waits for the other workers.

        Args:
            get: keys to read, in the same round trip.
            out, timeout: as of ``Table.push_pull``.

        Raises:
            Error: as of ``Table.push_pull``. What was added is kept, and goes with the next call.
        """
        keys = np.concatenate([np.empty(0, KEY), *self._keys])
        gradients = np.concatenate([np.empty((0, self._table.width), self._table.dtype),
                                    *self._gradients])
        rows = self._table.push_pull(keys, gradients, get, worker=self._worker,
                                     weight=self._weight, out=out, timeout=timeout)
        self._keys, self._gradients = [], []
        return rows
