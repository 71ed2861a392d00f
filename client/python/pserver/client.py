# SPDX-License-Identifier: Apache-2.0
"""The client: parameters by name, as numpy arrays in and out."""

from __future__ import annotations

import math
import time
from functools import partial
from types import TracebackType
from typing import Callable, Iterable, Mapping, Sequence, TypeVar

import numpy as np
import numpy.typing as npt

from . import _pserver, errors
from .about import Applied, Counters, LastApplied, ParameterInfo, Saved, ServerStatus, join_rows
from .arrays import Array, log
from .loops import Loops
from .operation import Operation
from .optimizers import SGD, Optimizer
from .replica import Replica

#: Called while parameters are sent: bytes that are through, and bytes of all.
Progress = Callable[[int, int], None]
T = TypeVar("T")

_FOREVER = 2 ** 63
_PUSH, _PULL, _PUSH_PULL = 0, 1, 2
_INIT_BYTES = 64 << 20  # of one message to the servers: the steps of `progress`
_ASK_SLICE_MS = 500
_SELECTION_SLICE_MS = 1000  # how long ctrl-C may go unheard while another trainer initialises


class Client:
    """A job's servers, as ``pserver.connect()`` gives it.

    Any thread may use it, and several at once; a process that is forked may not. Names are texts of
    1 to 512 bytes, values arrays of int32, uint32, int64, uint64, float32 or float64 of any shape.
    Arrays of float16 travel in two bytes an element; their parameters are float32 on the servers.
    Every call waits at most its `timeout` (seconds; None: that of the client) and repeats by itself
    what was lost on the way. A push that returned was applied exactly once.

    Arrays are used where they lie, without a copy, and must not be changed by other threads during
    a call. A gradient that is not contiguous is copied once; an array to pull into that is not
    contiguous, or is read-only, is a TypeError.
    """

    def __init__(self, handle: _pserver.Client, *, job: str, timeout: float) -> None:
        self._handle = handle
        self._job = job
        self._timeout_ms = milliseconds(timeout)
        self._versions: dict[str, int] = {}
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._infos: dict[str, ParameterInfo] = {}
        self._loops = Loops(handle)

    # ---- The beginning ----

    def initialize(self, values: Mapping[str, npt.ArrayLike],
                   optimizer: Optimizer | Callable[[str], Optimizer] = SGD(1.0), *,
                   timeout: float | None = None, progress: Progress | None = None) -> bool:
        """Gives the servers the parameters, their first values and their optimizer.

        Every trainer of a job calls this with values of the same shapes. One of them is selected
        and sends its own; for the others the call returns when that is done. If the selected one
        dies on the way, another is selected.

        Args:
            values: the first values by name.
            optimizer: one for all, or a function from the name to the optimizer.
            timeout: seconds, of the wait for the other trainer too.
            progress: called with the bytes that were sent so far and the bytes of all.

        Returns:
            True when this trainer's values were taken; False when the job had its values already:
            pull them.

        Raises:
            UnavailableError: no server answered, or the selected trainer did not end in time.
            InvalidError: an optimizer that a server refuses.
        """
        arrays = {name: np.asarray(value) for name, value in values.items()}
        self._shapes.update({name: array.shape for name, array in arrays.items()})
        until = self._until(timeout)
        while self._selected(until):
            try:
                self._send_values(arrays, optimizer, until, progress)
                self._handle.finish_init(_left_ms(until))
                log.info("job %r: %d parameters initialised here", self._job, len(arrays))
                return True
            except errors.NotInitializedError:
                # The right was lost meanwhile, or a server came back without what it was given.
                if time.monotonic() >= until:
                    raise
        return False

    def _selected(self, until: float) -> bool:
        """In slices, between which ctrl-C is heard."""
        while True:
            try:
                return self._handle.begin_init(min(_SELECTION_SLICE_MS, _left_ms(until)))
            except errors.UnavailableError:
                if time.monotonic() >= until:
                    raise

    def _send_values(self, arrays: Mapping[str, Array],
                     optimizer: Optimizer | Callable[[str], Optimizer], until: float,
                     progress: Progress | None) -> None:
        total = sum(array.nbytes for array in arrays.values())
        sent = 0
        for names in _portions(arrays):
            chosen = [optimizer if isinstance(optimizer, Optimizer) else optimizer(name)
                      for name in names]
            self._handle.init(names, [arrays[name] for name in names],
                              [one.config() for one in chosen], _left_ms(until))
            sent += sum(arrays[name].nbytes for name in names)
            if progress is not None:
                progress(sent, total)

    # ---- Training ----

    def push(self, gradients: Mapping[str, npt.ArrayLike], *,
             timeout: float | None = None) -> dict[str, int]:
        """Applies each gradient to the parameter of its name, by that parameter's optimizer.

        Returns:
            The version of each parameter after this gradient: the pushes that it has had.

        Raises:
            UnknownOutcomeError: the time passed while it was open whether a push was applied.
            NotFoundError, InvalidError: a name or an array that does not fit; what succeeded of the
                others stays succeeded (``error.results``).
        """
        names = tuple(gradients)
        versions = self._handle.run(_PUSH, names, list(gradients.values()), None,
                                    self._milliseconds(timeout))
        return self._note(names, versions)

    def pull(self, names: Iterable[str] | None = None, *,
             into: Mapping[str, Array] | None = None,
             timeout: float | None = None) -> dict[str, Array]:
        """Reads parameters, each of them one whole version.

        Args:
            names: which ones; None: those of `into`, or all.
            into: arrays of the parameters' size and type to read into; None: new ones.
            timeout: seconds. Before the job is initialised, a pull waits for that.

        Returns:
            The arrays by name: those of `into`, or new ones of the parameters' shapes.
        """
        wanted, targets = self._targets(names, into, timeout)
        versions = self._handle.run(_PULL, wanted, None, targets, self._milliseconds(timeout))
        self._note(wanted, versions)
        return dict(zip(wanted, targets))

    def push_pull(self, gradients: Mapping[str, npt.ArrayLike],
                  into: Mapping[str, Array] | None = None, *,
                  timeout: float | None = None) -> dict[str, Array]:
        """A step of training in one round trip: pushes, and pulls what it made of the values.

        Args:
            gradients: by name, of the parameters' sizes and types.
            into: arrays to pull into, other memory than the gradients'; None: new ones.

        Returns:
            The values by name, in `into` or in new arrays of the gradients' shapes. The versions
            are in ``client.versions``.

        Raises:
            As ``push``.
        """
        names = tuple(gradients)
        sources = list(gradients.values())
        targets = _targets_like(names, sources, into)
        versions = self._handle.run(_PUSH_PULL, names, sources, targets,
                                    self._milliseconds(timeout))
        self._note(names, versions)
        return dict(zip(names, targets))

    def push_async(self, gradients: Mapping[str, npt.ArrayLike], *,
                   timeout: float | None = None) -> Operation[dict[str, int]]:
        """``push`` without waiting: the arrays must stay unchanged until the operation is over."""
        names = tuple(gradients)
        return self._begin(_PUSH, names, list(gradients.values()), None, timeout,
                           lambda versions: self._note(names, versions))

    def pull_async(self, names: Iterable[str] | None = None, *,
                   into: Mapping[str, Array] | None = None,
                   timeout: float | None = None) -> Operation[dict[str, Array]]:
        """``pull`` without waiting: the arrays are filled when the operation is over."""
        wanted, targets = self._targets(names, into, timeout)
        return self._begin(_PULL, wanted, None, targets, timeout,
                           lambda versions: self._filled(wanted, versions, targets))

    def push_pull_async(self, gradients: Mapping[str, npt.ArrayLike],
                        into: Mapping[str, Array] | None = None, *,
                        timeout: float | None = None) -> Operation[dict[str, Array]]:
        """``push_pull`` without waiting."""
        names = tuple(gradients)
        sources = list(gradients.values())
        targets = _targets_like(names, sources, into)
        return self._begin(_PUSH_PULL, names, sources, targets, timeout,
                           lambda versions: self._filled(names, versions, targets))

    def _begin(self, kind: int, names: Sequence[str], sources: Sequence[npt.ArrayLike] | None,
               targets: Sequence[Array] | None, timeout: float | None,
               finish: Callable[[list[int]], T]) -> Operation[T]:
        handle = self._handle.begin(kind, names, sources, targets, self._milliseconds(timeout))
        return Operation(handle, finish, self._loops)

    def _note(self, names: Sequence[str], versions: list[int]) -> dict[str, int]:
        noted = dict(zip(names, versions))
        self._versions.update(noted)
        return noted

    def _filled(self, names: Sequence[str], versions: list[int],
                targets: Sequence[Array]) -> dict[str, Array]:
        self._note(names, versions)
        return dict(zip(names, targets))

    def _wait_until_ready(self, timeout: float | None) -> None:
        """Before the job is initialised nobody knows its names; a pull of names waits by itself."""
        until = self._until(timeout)
        while any(server.state != "ready" for server in self.status()):
            if time.monotonic() >= until:
                raise errors.NotInitializedError("nobody has initialised the job")
            time.sleep(0.02)

    def _targets(self, names: Iterable[str] | None, into: Mapping[str, Array] | None,
                 timeout: float | None) -> tuple[tuple[str, ...], list[Array]]:
        if into is not None:
            wanted = tuple(into if names is None else names)
            return wanted, [into[name] for name in wanted]
        if names is None:
            self._wait_until_ready(timeout)
        wanted = tuple(self.parameters() if names is None else names)
        if any(name not in self._infos for name in wanted):
            self.parameters()
        missing = [name for name in wanted if name not in self._infos]
        if missing:
            raise errors.NotFoundError(f"no parameter {missing[0]!r}")
        return wanted, [np.empty(info.shape, info.dtype)
                        for info in map(self._infos.__getitem__, wanted)]

    def replica(self, into: Mapping[str, Array]) -> Replica:
        """Copies in the given arrays that ``update()`` keeps up to date; nothing is pulled yet."""
        return Replica(self._handle, into, self._timeout_ms)

    # ---- What there is ----

    def parameters(self) -> dict[str, ParameterInfo]:
        """All parameters of the job by name, sorted, as their servers hold them now."""
        until = self._until(None)
        rows = (row for index in range(self.shard_count)
                for row in ask(partial(self._handle.list, index), until))
        self._infos = {name: info.of_shape(self._shapes.get(name, info.shape))
                       for name, info in join_rows(rows).items()}
        return dict(self._infos)

    def status(self) -> list[ServerStatus]:
        """What each server says of itself, by shard."""
        until = self._until(None)
        return [self._status_of(index, until) for index in range(self.shard_count)]

    def save(self) -> list[Saved]:
        """Has every server write a checkpoint; returns when all are on disk."""
        return [Saved(**self._handle.save(index, self._timeout_ms))
                for index in range(self.shard_count)]

    def last_applied(self, *, timeout: float | None = None) -> LastApplied:
        """What of this client's pushes is in the parameters; ask before the first push.

        For trainers that come back: with the same ``connect(client_id=...)`` as before, a trainer
        learns from which batch to go on, whatever was lost of the answers that it was to get.

        Raises:
            InvalidError: the client was opened without a client_id.
        """
        known, whole, rows = self._handle.last_applied(self._milliseconds(timeout))
        return LastApplied(known, whole, {name: Applied(*numbers) for name, *numbers in rows})

    def barrier(self, name: str, round: int, member: int, of: int, *,
                timeout: float | None = None) -> None:
        """Waits until all `of` trainers (members 0 to of - 1) have called it with this name and
        round; count rounds up.

        Raises:
            UnknownOutcomeError: the time is over; the text says who is missing.
        """
        self._handle.barrier(name, round, member, of, self._milliseconds(timeout))

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each parameter when this client pushed or pulled it last."""
        return self._versions

    @property
    def counters(self) -> Counters:
        """What this client has done since it was opened."""
        return Counters(**self._handle.counters())

    @property
    def shard_count(self) -> int:
        """How many servers share the job's parameters."""
        return self._handle.shard_count

    @property
    def closed(self) -> bool:
        """Whether ``close()`` was called."""
        return self._handle.closed

    # ---- The end ----

    def close(self, *, cancel: bool = False) -> None:
        """Ends the client. May be repeated.

        Args:
            cancel: gives up operations that are under way; else they are waited for. A ``with``
                that an exception ends cancels.
        """
        self._loops.close()
        self._handle.close(cancel)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close(cancel=error is not None)

    def __repr__(self) -> str:
        job = f"job {self._job!r}" if self._job else "no job name"
        state = "closed" if self.closed else f"{self.shard_count} shards"
        return f"<pserver.Client {job}, {state}>"

    def _milliseconds(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else milliseconds(timeout)

    def _until(self, timeout: float | None) -> float:
        return time.monotonic() + self._milliseconds(timeout) / 1000

    def _wait_for_servers(self, seconds: float) -> None:
        """Until every server has answered: who is not there is named now, not at the first push."""
        until = time.monotonic() + seconds
        for index in range(self.shard_count):
            self._status_of(index, until)

    def _status_of(self, index: int, until: float) -> ServerStatus:
        return ServerStatus(**ask(partial(self._handle.server_status, index), until))


def milliseconds(seconds: float) -> int:
    """As libpsclient counts; ``math.inf`` is for ever."""
    if not seconds >= 0:
        raise ValueError(f"a timeout of {seconds} seconds")
    return _FOREVER if seconds == math.inf else min(round(1000 * seconds), _FOREVER)


def ask(question: Callable[[int], T], until: float) -> T:
    """Asks something that changes nothing, again and again with more patience: ctrl-C is heard
    between two attempts."""
    slice_ms = _ASK_SLICE_MS
    while True:
        try:
            return question(min(slice_ms, _left_ms(until)))
        except errors.UnavailableError:
            if time.monotonic() >= until:
                raise
        slice_ms *= 2


def _left_ms(until: float) -> int:
    return max(1, round(1000 * (until - time.monotonic())))


def _portions(arrays: Mapping[str, Array]) -> Iterable[list[str]]:
    """The names, as many at a time as are sent together."""
    portion: list[str] = []
    size = 0
    for name, array in arrays.items():
        if portion and size + array.nbytes > _INIT_BYTES:
            yield portion
            portion, size = [], 0
        portion.append(name)
        size += array.nbytes
    if portion:
        yield portion


def _targets_like(names: Sequence[str], sources: Sequence[npt.ArrayLike],
                  into: Mapping[str, Array] | None) -> list[Array]:
    if into is None:
        return [np.empty_like(source, order="C", subok=False) for source in sources]
    return [into[name] for name in names]
