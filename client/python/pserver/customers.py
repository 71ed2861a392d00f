# SPDX-License-Identifier: Apache-2.0
"""Requests to server programs under ps-lite's names: keys with values, a head with a body.

    from pserver.customers import KVWorker

    with KVWorker(client, app=0) as worker:
        worker.wait(worker.push(keys, values))
        worker.wait(worker.pull(keys, values))

Keys rise. A request says its timestamp, and is over when ``wait`` has returned; until then its
arrays are in use. The manual is docs/programs.md.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable, TypeVar

import numpy as np

from . import _pserver
from .arrays import DTYPES, as_source, as_target
from .asking import wait_for_request
from .client import Client
from .errors import open_end

SERVERS, WORKERS, ALL = 2, 4, 7
KEY_MAX = 2 ** 64 - 1

#: timestamp, status (0: it went well), text
Callback = Callable[[int, int, str], None]
_Self = TypeVar("_Self", bound="Customer")


def server_node(rank: int) -> int:
    """The number of the server of that rank."""
    return 8 + 2 * rank


def worker_node(rank: int) -> int:
    """The number of the worker of that rank."""
    return 9 + 2 * rank


class Customer:
    """Who asks. The rank and the number of workers are those of the group that the client has
    joined, unless they are given; ``timeout`` is that of requests, in seconds."""

    def __init__(self, client: Client, app: int = 0, customer: int = 0, *,
                 rank: int | None = None, workers: int = 0, timeout: float = 60.0) -> None:
        self._timeout_ms = int(timeout * 1000)
        self._handle = _pserver.Customer(client._handle, app, customer,
                                         0 if rank is None else rank + 1, workers,
                                         self._timeout_ms)
        self.rank, self.workers, self.servers, _ = self._handle.place()

    @property
    def open_count(self) -> int:
        """Requests that are not over."""
        return self._handle.place()[3]

    def wait(self, timestamp: int, timeout: float | None = None) -> Any:
        """Until every node has answered.

        Returns:
            Of a simple request the answers, as (node, bytes) in the order in which they came.

        Raises:
            UnknownOutcomeError: the time is over; the text names who has not answered. The hint
                says whether the request goes on, and may be waited for again.
        """
        return wait_for_request(self._handle, timestamp,
                                self._timeout_ms / 1000 + 1 if timeout is None else timeout)

    def barrier(self, group: int = WORKERS, timeout: float = 60.0) -> None:
        """Waits for all workers; with ``ALL`` for a program at each server, too."""
        with open_end(""):  # the text says who is missing
            self._handle.barrier(group, int(timeout * 1000))

    def close(self) -> None:
        """Gives up what is open."""
        self._handle.close()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class KVWorker(Customer):
    """Keys with values, of equal length or with ``lens``."""

    def push(self, keys: Any, values: Any, lens: Any = None, *, command: int = 0,
             priority: int = 0, timeout: float = 0, callback: Callback | None = None) -> int:
        """Begins a push, and says its timestamp. The array is used in place."""
        return self._ask(keys, lens, values, None, command, priority, timeout, callback)

    def pull(self, keys: Any, values: Any, lens: Any = None, *, command: int = 0,
             priority: int = 0, timeout: float = 0, callback: Callback | None = None) -> int:
        """Begins a pull into ``values``."""
        return self._ask(keys, lens, None, values, command, priority, timeout, callback)

    def push_pull(self, keys: Any, values: Any, outs: Any, lens: Any = None, *, command: int = 0,
                  priority: int = 0, timeout: float = 0,
                  callback: Callback | None = None) -> int:
        """Both in one message; ``outs`` gets what the program makes of the push."""
        return self._ask(keys, lens, values, outs, command, priority, timeout, callback)

    def _ask(self, keys: Any, lens: Any, source: Any, target: Any, command: int, priority: int,
             timeout: float, callback: Callback | None) -> int:
        keys = np.ascontiguousarray(keys, np.uint64)
        if lens is not None:
            lens = np.ascontiguousarray(lens, np.uint32)
        if source is not None:
            source = as_source("values", source)
        if target is not None:
            target = as_target("values", target)
        dtype = (source if source is not None else target).dtype
        if source is not None and target is not None and target.dtype != dtype:
            raise TypeError(f"values are {dtype}, and what is pulled {target.dtype}")
        if dtype not in DTYPES:
            raise TypeError(f"values of type {dtype} do not travel by keys")
        return self._handle.ask(keys, lens, source, target, DTYPES.index(dtype), dtype.itemsize,
                                command, priority, int(timeout * 1000), callback)


class SimpleApp(Customer):
    """A number and some bytes for a node or a group."""

    def request(self, head: int, body: bytes | str = b"", to: int = SERVERS, *,
                priority: int = 0, timeout: float = 0) -> int:
        """Begins a request, and says its timestamp; ``wait`` returns the answers."""
        if isinstance(body, str):
            body = body.encode()
        return self._handle.request(head, body, to, priority, int(timeout * 1000))
