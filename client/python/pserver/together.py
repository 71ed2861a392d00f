# SPDX-License-Identifier: Apache-2.0
"""What workers of a job do with each other: ranks, barriers, clocks."""

from __future__ import annotations

import dataclasses
import time
from types import TracebackType
from typing import Literal, Sequence

from . import _pserver, checked, errors

Consistency = Literal["asp", "ssp", "bsp", "sparse-ssp"]

_CONSISTENCIES: dict[str, int] = {"asp": 0, "ssp": 1, "bsp": 2, "sparse-ssp": 3}
#: As of the servers.
WORKERS_MAX = 4096
_MOST = 2 ** 32 - 1  # of the numbers in 32 bits
# Whoever gives up was not there: nothing is half done.
_MEET_AGAIN = "call it again with the same name and round"
_SLICE_MS = 1000  # how long ctrl-C may go unheard while others are waited for


@dataclasses.dataclass(frozen=True)
class WorkerInfo:
    """A worker of a group. ``silent_ms`` is known for those that the asked server hears itself."""

    group: str
    rank: int
    name: str
    role: str
    host: str
    silent_ms: int | None
    joined_unix_ms: int


@dataclasses.dataclass(frozen=True)
class WorkerClock:
    """How far a worker is by clocks; nobody waits for one that is ``evicted``, or ``absent`` from
    the present task."""

    clock: int
    evicted: bool
    silent_ms: int
    absent: bool = False


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far the workers are: all that are waited for have ended ``minimum`` iterations."""

    minimum: int
    workers: tuple[WorkerClock, ...]


@dataclasses.dataclass(frozen=True)
class Read:
    """A pull that waits until clocks let a worker read; made by ``Clocks.at``."""

    name: str
    worker: int
    clock: int


class Worker:
    """A place in a group, which the client keeps until ``leave()`` or its own end."""

    def __init__(self, handle: _pserver.Client, group: str, place: tuple[int, int, int],
                 timeout_ms: int) -> None:
        self._handle = handle
        self._timeout_ms = timeout_ms
        self.group = group
        #: From 0; the same again after a crash, under the same name.
        self.rank = place[0]
        #: How many there are; 0: as many as come.
        self.size = place[1]
        self.incarnation = place[2]

    def barrier(self, name: str, round: int, *, timeout: float | None = None) -> None:
        """Waits until all ranks of the group have called it with this name and round.

        Raises:
            UnknownOutcomeError: the time is over; the text names the workers who are missing.
        """
        wait_ms = self._timeout_ms if timeout is None else _milliseconds(timeout)
        with errors.open_end(_MEET_AGAIN):
            self._handle.barrier_group(self.group, name, round, wait_ms)

    def leave(self) -> None:
        """Gives the place up: another worker may take the rank at once."""
        self._handle.leave_workers(self.group, self._timeout_ms)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.leave()

    def __repr__(self) -> str:
        return f"<pserver.Worker {self.rank} of {self.size or 'any'} in {self.group!r}>"


class Clocks:
    """Clocks by which workers are held at most some iterations apart."""

    def __init__(self, handle: _pserver.Client, name: str, timeout_ms: int,
                 task: int = 0) -> None:
        self._handle = handle
        self._timeout_ms = timeout_ms
        self.name = name
        self.task = task

    def at(self, worker: int, clock: int) -> Read:
        """For ``Client.pull(at=...)``: this worker is at this clock, and reads when it may."""
        return Read(self.name, checked.whole("worker", worker, 0, WORKERS_MAX - 1),
                    whole_clock(clock))

    def clock(self, worker: int, clock: int) -> int:
        """The worker has ended so many iterations.

        Returns:
            Where it stands: more than it said when it comes back behind the others. It goes on
            from there.

        Raises:
            FailedError: the clocks are in a later task than these.
        """
        checked.whole("worker", worker, 0, WORKERS_MAX - 1)
        return self._handle.clock(self.name, self.task, worker + 1, whole_clock(clock),
                                  self._timeout_ms)

    def progress(self, at_least: int = 0, *, timeout: float | None = None) -> Progress:
        """How far the workers are; waits until all have ended `at_least` iterations, or the time is
        over."""
        wait_ms = self._timeout_ms if timeout is None else _milliseconds(timeout)
        minimum, rows = self._handle.progress(self.name, at_least, wait_ms)
        return Progress(minimum, tuple(WorkerClock(*row) for row in rows))

    def __repr__(self) -> str:
        task = f" of task {self.task}" if self.task else ""
        return f"<pserver.Clocks {self.name!r}{task}>"


class Together:
    """The part of ``Client`` for workers that wait for each other."""

    _handle: _pserver.Client
    _timeout_ms: int

    def worker(self, group: str = "workers", *, name: str | None = None, role: str | None = None,
               size: int = 0, rank: int | None = None, ttl: float = 10.0,
               timeout: float | None = None) -> Worker:
        """Takes a place in a group, with a rank of its own, and keeps it.

        Args:
            group: of workers that count together.
            name: of this worker, the same after a crash: it then has its former rank again.
            role: for people.
            size: ranks are 0 to size - 1; 0: as others have said, or as many as come.
            rank: the rank that it must be; None: its former one, or the smallest that is free.
            ttl: seconds of silence after which a place is free for others.
            timeout: seconds to wait for a free rank.

        Raises:
            AlreadyInitializedError: another worker that lives has the name or the rank.
            ExhaustedError: every rank was taken all the time.
        """
        wait_ms = self._timeout_ms if timeout is None else _milliseconds(timeout)
        checked.whole("size", size, 0, WORKERS_MAX)
        if rank is not None:
            checked.whole("rank", rank, 0, WORKERS_MAX - 1)
        until = time.monotonic() + wait_ms / 1000
        while True:
            left_ms = max(1, round(1000 * (until - time.monotonic())))
            try:
                place = self._handle.join_workers(group, name, role, size,
                                                  0 if rank is None else rank + 1,
                                                  _milliseconds(ttl), min(left_ms, _SLICE_MS))
                return Worker(self._handle, group, place, self._timeout_ms)
            except (errors.ExhaustedError, errors.UnavailableError):
                if time.monotonic() >= until:
                    raise

    def workers(self, group: str | None = None) -> list[WorkerInfo]:
        """Who is there: of one group, of every group of workers (None), of the servers
        (``"servers"``) or of ``"all"``."""
        return [WorkerInfo(*row) for row in self._handle.list_workers(group, self._timeout_ms)]

    def clocks(self, name: str, workers: int, consistency: Consistency = "ssp", *,
               staleness: int = 0, speculation: int = 0, evict: float | None = None,
               task: int = 0, start: int = 0, ranks: Sequence[int] = ()) -> Clocks:
        """Sets clocks up at every server; equal ones stay as they are, so that each worker may.

        A job in stages gives each a `task`, numbered upwards from 1. Whoever names a task first
        begins it: all its workers stand at `start`, parameters are as they were.

        Args:
            name: of 1 to 64 bytes.
            workers: how many count by them.
            consistency: a worker reads at clock c at once (``"asp"``), when all have ended
                c - staleness iterations (``"ssp"``), or when all have ended c (``"bsp"``);
                under ``"sparse-ssp"`` rows of tables that no slower worker is going to update
                up to `speculation` iterations further ahead.
            staleness: of ``"ssp"`` and ``"sparse-ssp"``.
            speculation: of ``"sparse-ssp"``.
            evict: seconds of silence after which nobody waits for a worker any longer, until its
                next ``clock``; None: they wait.
            task: 0: the present one goes on.
            start: the clock at which a task begins.
            ranks: who takes part, below `workers`; none are all of them.

        Raises:
            FailedError: the clocks are in a later task.
        """
        checked.whole("workers", workers, 1, WORKERS_MAX)
        self._handle.set_clocks(name, workers,
                                checked.choice("consistency", consistency, _CONSISTENCIES),
                                checked.whole("staleness", staleness, 0, _MOST),
                                0 if evict is None else 1,
                                0 if evict is None else _milliseconds(evict),
                                checked.whole("speculation", speculation, 0, _MOST),
                                checked.whole("task", task), whole_clock(start),
                                tuple(checked.whole("ranks", rank, 0, WORKERS_MAX - 1)
                                      for rank in ranks), self._timeout_ms)
        return Clocks(self._handle, name, self._timeout_ms, task)

    def remove_clocks(self, name: str) -> None:
        """The clocks of this name go at every server, which has room for 64 of them; no error where
        there are none. Pulls that wait by them raise NotFoundError at once. Set again they begin
        anew at 0.

        For what a job is to do once, at its end: ``Clocks`` of the name are of no use from then on.
        """
        self._handle.remove_clocks(name, self._timeout_ms)

    def barrier(self, name: str, round: int, member: int, of: int, *,
                timeout: float | None = None) -> None:
        """Waits until all `of` trainers (members 0 to of - 1) have called it with this name and
        round; count rounds up.

        Raises:
            UnknownOutcomeError: the time is over; the text says who is missing.
        """
        wait_ms = self._timeout_ms if timeout is None else _milliseconds(timeout)
        with errors.open_end(_MEET_AGAIN):
            self._handle.barrier(name, round, member, of, wait_ms)


def pull_at(handle: _pserver.Client, names: Sequence[str], targets: Sequence[object],
            timeout_ms: int, read: Read) -> list[int]:
    """A pull that waits for clocks: the versions of what was read."""
    rows = handle.run(1, names, None, targets, timeout_ms,
                      (read.worker + 1, 0.0, [0] * len(names), read.name, read.clock))
    return [version for version, _ in rows]


def whole_clock(clock: int) -> int:
    """Iterations that were ended: -1 would be the greatest number of 64 bits on its way, and that
    worker would never be waited for again."""
    return checked.whole("clock", clock, 0, 2 ** 63 - 1)


def _milliseconds(seconds: float) -> int:
    return max(0, min(round(1000 * seconds), 2 ** 63))
