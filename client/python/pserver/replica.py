# SPDX-License-Identifier: Apache-2.0
"""Replicas: parameters that are kept up to date by what has changed."""

from __future__ import annotations

from types import TracebackType
from typing import Mapping

from . import _pserver
from .about import ReplicaCounters
from .arrays import Array


class Replica:
    """Copies of parameters in the caller's arrays, for who only reads.

    ``update()`` brings every array to the newest version by pulling the blocks that have changed.
    Each is always one whole version: the new one or, whatever died meanwhile, the one before. Do
    not write to the arrays; ``verify()`` finds out whether somebody did.
    """

    def __init__(self, client: _pserver.Client, into: Mapping[str, Array],
                 timeout_ms: int) -> None:
        self.arrays = dict(into)
        self._names = tuple(self.arrays)
        self._timeout_ms = timeout_ms
        self._handle = _pserver.Replica(client, self._names, tuple(self.arrays.values()))

    def update(self, *, timeout: float | None = None) -> dict[str, int]:
        """Pulls what has changed.

        Args:
            timeout: seconds; None: the client's.

        Returns:
            The version of each parameter: the pushes that it has had.

        Raises:
            Error: some array is not up to date; ``error.results`` says which. Each has a whole
                version all the same, but for one whose first copy failed.
        """
        limit = self._timeout_ms if timeout is None else max(0, round(1000 * timeout))
        return dict(zip(self._names, self._handle.update(limit)))

    def verify(self) -> None:
        """Reads every byte; DataLossError when one is not what it was. The next update repairs."""
        self._handle.verify()

    @property
    def counters(self) -> ReplicaCounters:
        """What came and what did not have to come, since the replica was opened."""
        return ReplicaCounters(**self._handle.counters())

    def close(self) -> None:
        """Ends the replica; the arrays stay as they are."""
        self._handle.close()

    def __enter__(self) -> Replica:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
