# SPDX-License-Identifier: Apache-2.0
"""The client for coroutines: the names of pserver.Client, each to be awaited.

    async with pserver.aio.connect("ps-0:8000,ps-1:8000") as ps:
        await ps.initialize(values)
        values = await ps.push_pull(gradients)

Many calls may be under way at once (``asyncio.gather``); they need no thread each. A coroutine that
is cancelled leaves its call going, and its arrays in use until that has ended.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Callable, Iterable, Mapping, TypeVar

import numpy.typing as npt

from . import connect as _connect
from .about import Counters, LastApplied, ParameterInfo, Saved, SavedModel, ServerStatus
from .arrays import Array
from .client import Client as _Client
from .client import Progress
from .optimizers import SGD, Optimizer
from .tables import Table as _Table
from .together import Read

__all__ = ["Client", "Table", "connect"]

T = TypeVar("T")


class Client:
    """A job's servers, as ``async with connect(...)`` gives it; see pserver.Client for each call.

    Pushes and pulls are awaited in the loop; calls that are rare go to a thread.
    """

    def __init__(self, client: _Client) -> None:
        #: The client beneath, for what needs no waiting.
        self.sync = client

    async def initialize(self, values: Mapping[str, npt.ArrayLike],
                         optimizer: Optimizer | Callable[[str], Optimizer] = SGD(1.0), *,
                         timeout: float | None = None, progress: Progress | None = None) -> bool:
        """As ``pserver.Client.initialize``; `progress` is called in another thread."""
        return await asyncio.to_thread(self.sync.initialize, values, optimizer, timeout=timeout,
                                       progress=progress)

    async def push(self, gradients: Mapping[str, npt.ArrayLike], *,
                   timeout: float | None = None) -> dict[str, int]:
        """As ``pserver.Client.push``."""
        return await self.sync.push_async(gradients, timeout=timeout)

    async def pull(self, names: Iterable[str] | None = None, *,
                   into: Mapping[str, Array] | None = None,
                   timeout: float | None = None) -> dict[str, Array]:
        """As ``pserver.Client.pull``."""
        begin = self.sync.pull_async
        if into is not None:
            return await begin(names, into=into, timeout=timeout)
        return await (await asyncio.to_thread(begin, names, timeout=timeout))

    async def push_pull(self, gradients: Mapping[str, npt.ArrayLike],
                        into: Mapping[str, Array] | None = None, *,
                        timeout: float | None = None) -> dict[str, Array]:
        """As ``pserver.Client.push_pull``."""
        return await self.sync.push_pull_async(gradients, into, timeout=timeout)

    async def define(self, values: Mapping[str, npt.ArrayLike],
                     optimizer: Optimizer | Callable[[str], Optimizer] = SGD(1.0), *,
                     timeout: float | None = None) -> dict[str, bool]:
        """As ``pserver.Client.define``."""
        return await asyncio.to_thread(self.sync.define, values, optimizer, timeout=timeout)

    async def drop(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """As ``pserver.Client.drop``."""
        await asyncio.to_thread(self.sync.drop, names, timeout=timeout)

    async def configure(self, names: str | Iterable[str], **changes: Any) -> dict[str, int]:
        """As ``pserver.Client.configure``."""
        return await asyncio.to_thread(self.sync.configure, names, **changes)

    async def table(self, name: str, width: int | None = None, optimizer: Optimizer = SGD(1.0),
                    **settings: Any) -> Table:
        """As ``pserver.Client.table``, with calls to be awaited."""
        return Table(await asyncio.to_thread(self.sync.table, name, width, optimizer, **settings))

    async def parameters(self) -> dict[str, ParameterInfo]:
        """As ``pserver.Client.parameters``."""
        return await asyncio.to_thread(self.sync.parameters)

    async def status(self) -> list[ServerStatus]:
        """As ``pserver.Client.status``."""
        return await asyncio.to_thread(self.sync.status)

    async def save(self) -> list[Saved]:
        """As ``pserver.Client.save``."""
        return await asyncio.to_thread(self.sync.save)

    async def save_model(self, name: str | None = None, *,
                         timeout: float | None = None) -> SavedModel:
        """As ``pserver.Client.save_model``."""
        return await asyncio.to_thread(self.sync.save_model, name, timeout=timeout)

    async def last_applied(self, *, timeout: float | None = None) -> LastApplied:
        """As ``pserver.Client.last_applied``."""
        return await asyncio.to_thread(self.sync.last_applied, timeout=timeout)

    async def barrier(self, name: str, round: int, member: int, of: int, *,
                      timeout: float | None = None) -> None:
        """As ``pserver.Client.barrier``."""
        await asyncio.to_thread(self.sync.barrier, name, round, member, of, timeout=timeout)

    @property
    def versions(self) -> Mapping[str, int]:
        """As ``pserver.Client.versions``."""
        return self.sync.versions

    @property
    def counters(self) -> Counters:
        """As ``pserver.Client.counters``."""
        return self.sync.counters

    async def close(self, *, cancel: bool = False) -> None:
        """As ``pserver.Client.close``."""
        self.sync._loops.close()
        await asyncio.to_thread(self.sync.close, cancel=cancel)


class Table:
    """A table, as ``Client.table()`` gives it; see pserver.Table for each call.

    Each call has a thread while it lasts.
    """

    def __init__(self, table: _Table) -> None:
        #: The table beneath, for what needs no waiting.
        self.sync = table

    async def get(self, keys: npt.ArrayLike, *, out: Array | None = None,
                  timeout: float | None = None) -> Array:
        """As ``pserver.Table.get``."""
        return await asyncio.to_thread(self.sync.get, keys, out=out, timeout=timeout)

    async def add(self, keys: npt.ArrayLike, gradients: npt.ArrayLike, *,
                  timeout: float | None = None) -> None:
        """As ``pserver.Table.add``."""
        await asyncio.to_thread(self.sync.add, keys, gradients, timeout=timeout)

    async def add_get(self, keys: npt.ArrayLike, gradients: npt.ArrayLike,
                      get: npt.ArrayLike | None = None, *, out: Array | None = None,
                      timeout: float | None = None) -> Array:
        """As ``pserver.Table.add_get``."""
        return await asyncio.to_thread(self.sync.add_get, keys, gradients, get, out=out,
                                       timeout=timeout)

    async def push_pull(self, keys: npt.ArrayLike, gradients: npt.ArrayLike,
                        get: npt.ArrayLike | None = None, *, worker: int, weight: float = 0.0,
                        out: Array | None = None, timeout: float | None = None) -> Array:
        """As ``pserver.Table.push_pull``."""
        return await asyncio.to_thread(self.sync.push_pull, keys, gradients, get, worker=worker,
                                       weight=weight, out=out, timeout=timeout)

    def at(self, read: Read | None) -> None:
        """As ``pserver.Table.at``, which does not wait."""
        self.sync.at(read)


class connect:  # pylint: disable=invalid-name
    """``async with connect(...) as ps``, with the arguments of ``pserver.connect``."""

    def __init__(self, servers: str | None = None, **options: Any) -> None:
        self._servers = servers
        self._options = options
        self._client: Client | None = None

    async def __aenter__(self) -> Client:
        opened = await asyncio.to_thread(_connect, self._servers, **self._options)
        self._client = Client(opened)
        return self._client

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        trace: TracebackType | None) -> None:
        if self._client is not None:
            await self._client.close(cancel=error is not None)
