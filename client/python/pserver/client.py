# SPDX-License-Identifier: Apache-2.0
"""The client: parameters by name, as numpy arrays in and out."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Callable, Iterable, Mapping, Sequence, TypeVar

import numpy as np
import numpy.typing as npt

from . import _pserver, checked, errors, rounds
from .about import (
    Applied, Counters, LastApplied, ParameterInfo, Saved, SavedModel, ServerStatus, join_rows)
from .arrays import Array, log
from .asking import left_ms
from .batches import arrays_by_name, by_name, configs, name_list, portions, targets_like
from .device import OnDevice, on_device
from .loops import Loops
from .operation import Operation
from .optimizers import SGD, Nonfinite, Optimizer, Rounds, Schedule, change
from .rendezvous import Rendezvous
from .replica import Replica
from .tables import Tables, milliseconds
from .together import WORKERS_MAX, Read, Together, pull_at

#: Called while parameters are sent: bytes that are through, and bytes of all.
Progress = Callable[[int, int], None]
T = TypeVar("T")

_PUSH, _PULL, _PUSH_PULL = 0, 1, 2
#: What to do about a change whose fate is open, unlike that of a push.
_ONCE = "make the same call again: it is done once"
_SELECTION_SLICE_MS = 1000  # how long ctrl-C may go unheard while another trainer initialises


class Client(Together, Tables, OnDevice):
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
        self._late: frozenset[str] = frozenset()
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
        arrays = arrays_by_name(values)
        self._shapes.update({name: array.shape for name, array in arrays.items()})
        until = self._until(timeout)
        while self._selected(until):
            try:
                self._send_values(arrays, optimizer, until, progress)
                self._handle.finish_init(left_ms(until))
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
                return self._handle.begin_init(min(_SELECTION_SLICE_MS, left_ms(until)))
            except errors.UnavailableError:
                if time.monotonic() >= until:
                    raise

    def _send_values(self, arrays: Mapping[str, Array],
                     optimizer: Optimizer | Callable[[str], Optimizer], until: float,
                     progress: Progress | None) -> None:
        total = sum(array.nbytes for array in arrays.values())
        sent = 0
        for names in portions(arrays):
            self._handle.init(names, [arrays[name] for name in names],
                              configs(names, optimizer), left_ms(until))
            sent += sum(arrays[name].nbytes for name in names)
            if progress is not None:
                progress(sent, total)

    # ---- While the job trains ----

    def define(self, values: Mapping[str, npt.ArrayLike],
               optimizer: Optimizer | Callable[[str], Optimizer] = SGD(1.0), *,
               timeout: float | None = None) -> dict[str, bool]:
        """Adds parameters to a job that trains already: of a layer that grows, say.

        Every trainer may define the same ones; whoever comes first gives the values, and all pull
        them. Before the job is initialised, this waits for that. May be repeated.

        Args:
            values: the first values by name.
            optimizer: one for all, or a function from the name to the optimizer.
            timeout: seconds.

        Returns:
            By name: True where this call gave the values, False where an equal parameter was there,
            whose values are to be pulled.

        Raises:
            AlreadyInitializedError: a parameter of that name has another type, shape or optimizer.
            UnknownOutcomeError: the time passed while it was open; define them again.
        """
        arrays = arrays_by_name(values)
        until = self._until(timeout)
        made: dict[str, bool] = {}
        for names in portions(arrays):
            with errors.open_end(_ONCE):
                existed = self._handle.define(names, [arrays[name] for name in names],
                                              configs(names, optimizer), left_ms(until))
            made.update((name, not old) for name, old in zip(names, existed))
        self._shapes.update({name: array.shape for name, array in arrays.items()})
        return made

    def drop(self, names: Iterable[str], *, timeout: float | None = None) -> None:
        """Takes parameters out of the job, with their values and what optimizers remember of them.

        From then on pushes and pulls of the names are a NotFoundError, for every trainer.

        Raises:
            NotFoundError: a name that is not there; the others are dropped (``error.results``).
            UnknownOutcomeError: the time passed while it was open; drop them again.
        """
        gone = name_list(names)
        with errors.open_end(_ONCE):
            self._handle.drop(gone, self._milliseconds(timeout))
        for name in gone:
            self._versions.pop(name, None)
            self._shapes.pop(name, None)
            self._infos.pop(name, None)

    def configure(self, names: str | Iterable[str], *, lr: float | None = None,
                  schedule: Schedule | None = None, clip_norm: float | None = None,
                  clip_value: float | None = None, l2: float | None = None,
                  nonfinite: Nonfinite | None = None, optimizer: Optimizer | None = None,
                  rounds: Rounds | None = None,
                  timeout: float | None = None) -> dict[str, int]:
        """Changes how gradients are applied, from the next push on; values and states stay.

        Args:
            names: names, or one; ``"layer*"`` is every parameter whose name begins so.
            lr: the learning rate, whatever the schedule is.
            schedule: how the rate changes from now on, beginning with `lr`. It counts the pushes
                that the parameter has had, so that it goes on at the step that it finds.
            clip_norm, clip_value, l2, nonfinite: as of an ``Optimizer``; 0 ends a clip.
            optimizer: the same rule with other numbers: all of them take effect.
            rounds: other rounds; ``Rounds(0)`` ends them.
            timeout: seconds.

        Returns:
            By name: the step of the optimizer from which on the change holds.

        Raises:
            InvalidError: another rule, or a number that shapes what the servers remember.
            NotFoundError: a name that is not there; the others are changed (``error.results``).
            ValueError: nothing is to be changed, or a schedule comes without `lr`.
        """
        wanted = change(optimizer, lr=lr, schedule=schedule, clip_norm=clip_norm,
                        clip_value=clip_value, l2=l2, nonfinite=nonfinite, rounds=rounds)
        if isinstance(names, str) and names.endswith("*"):
            chosen = [name for name in self.parameters() if name.startswith(names[:-1])]
        else:
            chosen = name_list(names)
        with errors.open_end(_ONCE):
            rows = self._handle.configure(chosen, wanted, self._milliseconds(timeout))
        return {name: step for name, (step, _) in zip(chosen, rows)}

    # ---- Training ----

    def push(self, gradients: Mapping[str, npt.ArrayLike], *,
             timeout: float | None = None) -> dict[str, int]:
        """Applies each gradient to the parameter of its name, by that parameter's optimizer.

        Gradients in a GPU's memory (tensors with ``is_cuda``) are not copied to the host where a
        server on this host has the parameter on that GPU (docs/gpu.md).

        Returns:
            The version of each parameter after this gradient: the pushes that it has had.

        Raises:
            UnknownOutcomeError: the time passed while it was open whether a push was applied.
            NotFoundError, InvalidError: a name or an array that does not fit; what succeeded of the
                others stays succeeded (``error.results``).
        """
        names = tuple(by_name(gradients))
        wait_ms = self._milliseconds(timeout)
        if any(map(on_device, gradients.values())):
            return self._note(names, self._run(_PUSH, gradients, wait_ms))
        versions = self._handle.run(_PUSH, names, list(gradients.values()), None, wait_ms)
        return self._note(names, versions)

    def pull(self, names: Iterable[str] | None = None, *,
             into: Mapping[str, Array] | None = None, at: Read | None = None,
             timeout: float | None = None) -> dict[str, Array]:
        """Reads parameters, each of them one whole version.

        Args:
            names: which ones; None: those of `into`, or all that are no tables.
            into: arrays of the parameters' size and type to read into; None: new ones.
            at: ``Clocks.at(worker, clock)``: waits until they let the worker read.
            timeout: seconds. Before the job is initialised, a pull waits for that.

        Returns:
            The arrays by name: those of `into`, or new ones of the parameters' shapes.
        """
        if into is not None and at is None and any(map(on_device, into.values())):
            chosen = into if names is None else {name: into[name] for name in name_list(names)}
            self._note(tuple(chosen), self._run(_PULL, chosen, self._milliseconds(timeout)))
            return dict(chosen)
        wanted, targets = self._targets(names, into, timeout)
        wait_ms = self._milliseconds(timeout)
        if at is not None:
            versions = pull_at(self._handle, wanted, targets, wait_ms, at)
        else:
            versions = self._handle.run(_PULL, wanted, None, targets, wait_ms)
        self._note(wanted, versions)
        return dict(zip(wanted, targets))

    def push_pull(self, gradients: Mapping[str, npt.ArrayLike],
                  into: Mapping[str, Array] | None = None, *, worker: int | None = None,
                  weight: float = 1.0, timeout: float | None = None) -> dict[str, Array]:
        """A step of training in one round trip: pushes, and pulls what it made of the values.

        Args:
            gradients: by name, of the parameters' sizes and types.
            into: arrays to pull into, other memory than the gradients'; None: new ones.
            worker: who this is, from 0, where parameters are trained in ``Rounds``: the gradients
                are its contribution to the round that follows the values it had last, and this
                waits until that round is over and brings what it made. ``client.late`` has the
                names whose rounds were over already. A worker that steps again after a crash, or
                when the time was over, counts once. Each worker has a client of its own.
            weight: of the contribution, where rounds are ``"weighted"``.

        Returns:
            The values by name, in `into` or in new arrays of the gradients' shapes. The versions
            are in ``client.versions``.

        Raises:
            As ``push``.
        """
        names = tuple(by_name(gradients))
        sources = list(gradients.values())
        targets = targets_like(names, sources, into)
        if worker is None:
            versions = self._handle.run(_PUSH_PULL, names, sources, targets,
                                        self._milliseconds(timeout))
        else:
            checked.whole("worker", worker, 0, WORKERS_MAX - 1)
            until = self._until(timeout)
            numbers = [self._versions.get(name, 0) + 1 for name in names]
            versions, late = rounds.step(self._handle, names, sources, targets,
                                         (1 + worker, weight, numbers), lambda: left_ms(until))
            self._late = frozenset(late)
        self._note(names, versions)
        return dict(zip(names, targets))

    def push_async(self, gradients: Mapping[str, npt.ArrayLike], *,
                   timeout: float | None = None) -> Operation[dict[str, int]]:
        """``push`` without waiting: the arrays must stay unchanged until the operation is over."""
        names = tuple(by_name(gradients))
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
        names = tuple(by_name(gradients))
        sources = list(gradients.values())
        targets = targets_like(names, sources, into)
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
            names = [name for name, info in self.parameters().items() if not info.is_table]
        wanted = tuple(names)
        if any(name not in self._infos for name in wanted):
            self._wait_until_ready(timeout)
            self.parameters()
        missing = [name for name in wanted if name not in self._infos]
        if missing:
            raise errors.NotFoundError(f"no parameter {missing[0]!r}")
        tables = [name for name in wanted if self._infos[name].is_table]
        if tables:
            raise errors.InvalidError(f"{tables[0]} is a table: read its rows by their keys")
        return wanted, [np.empty(info.shape, info.dtype)
                        for info in map(self._infos.__getitem__, wanted)]

    def replica(self, into: Mapping[str, Array]) -> Replica:
        """Copies in the given arrays that ``update()`` keeps up to date; nothing is pulled yet."""
        return Replica(self._handle, into, self._timeout_ms)

    def rendezvous(self, step: int, *, session: str | None = None, strict: bool = False,
                   lifetime: float | None = None, deferred: bool = False,
                   timeout: float | None = None) -> Rendezvous:
        """Begins a step of the rendezvous, or takes part in it: values from process to process.

        Args:
            step: its number, the same for all who share it.
            session: a name that all who share it say; another one is refused.
            strict: a key is good for one send and one receive.
            lifetime: seconds after which an unused step ends; None: the servers' 10 minutes.
            deferred: another process begins the step: this one sends and receives only.
            timeout: seconds for the beginning; None: the client's.
        """
        return Rendezvous(self._handle, step, session=session, strict=strict, lifetime=lifetime,
                          deferred=deferred, timeout_ms=self._milliseconds(timeout))

    # ---- What there is ----

    def parameters(self) -> dict[str, ParameterInfo]:
        """All parameters of the job by name, sorted, as their servers hold them now."""
        until = self._until(None)
        rows = (row for index in range(self.shard_count)
                for row in self._handle.list(index, left_ms(until)))
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

    def save_model(self, name: str | None = None, *, timeout: float | None = None) -> SavedModel:
        """Has every server write a checkpoint of one set, with all that was acknowledged before.

        ``name`` is up to 64 letters, digits, ``.``, ``_`` and ``-``; None: the time makes one. A
        set of that name that is there is answered. Meet at a ``barrier`` first for an instant
        without pushes under way.

        Raises:
            UnknownOutcomeError: not whole in time; the servers go on, the same name asks again.
        """
        with errors.open_end("the servers go on: save it again under this name"):
            name, existed, rows = self._handle.save_model(name, self._milliseconds(timeout))
        return SavedModel(name, existed, tuple(Saved(**row) for row in rows))

    def last_applied(self, *, timeout: float | None = None) -> LastApplied:
        """What of this client's pushes is in the parameters; ask before the first push.

        For trainers that come back: with the same ``connect(client_id=...)`` as before, a trainer
        learns from which batch to go on, whatever was lost of the answers that it was to get.

        Raises:
            InvalidError: the client was opened without a client_id.
        """
        known, whole, rows = self._handle.last_applied(self._milliseconds(timeout))
        return LastApplied(known, whole, {name: Applied(*numbers) for name, *numbers in rows})

    @property
    def versions(self) -> Mapping[str, int]:
        """The version of each parameter when this client pushed or pulled it last."""
        return self._versions

    @property
    def late(self) -> frozenset[str]:
        """Parameters to which this worker's last contribution came too late for its round: it
        counts in the next one or nowhere, as their ``Rounds`` say."""
        return self._late

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
        return ServerStatus(**self._handle.server_status(index, left_ms(until)))
