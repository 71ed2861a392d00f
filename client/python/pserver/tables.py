# SPDX-License-Identifier: Apache-2.0
"""Tables: parameters whose rows are found by a 64-bit key."""

from __future__ import annotations

import dataclasses
import math
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _pserver, checked, errors
from .about import ReplicaCounters
from .arrays import DTYPES, Array, as_target, from_tensor
from .buffered_table import BufferedTable
from .optimizers import SGD, Optimizer, config_of
from .protobuf import message
from .rounds import AGAIN
from .table_keys import KEY, as_keys
from .table_settings import Full, Initializer, KeyRanges, limits_config, table_config
from .together import WORKERS_MAX, Read, whole_clock

_FOREVER = 2 ** 63


@dataclasses.dataclass(frozen=True)
class Cached:
    """Rows that a table keeps here, reads of a row that asked no server, and those that did."""

    rows: int
    found: int
    missed: int


class RowsAhead:
    """A read of rows that was begun by ``Table.get_ahead``."""

    def __init__(self, handle: _pserver.Ahead, rows: Array) -> None:
        self._handle = handle
        self._rows = rows

    def wait(self) -> Array:
        """The rows, when the clocks let the worker read them. Once.

        Raises:
            Error: as of ``Table.get``.
        """
        self._handle.wait()
        return self._rows

    def cancel(self) -> None:
        """Gives it up; what it has said to servers holds until the worker's clock has passed it."""
        self._handle.cancel()


class TableReplica:
    """All rows of a table in this process, for who only reads; ``Table.replica()`` gives it.

    ``update()`` brings the rows that were pushed to since and takes out those that went; ``get``
    asks nobody, and may be called by any thread also while another one updates. Each row is whole.
    """

    def __init__(self, table: Table, handle: _pserver.TableReplica) -> None:
        self._table = table
        self._handle = handle

    def update(self, *, timeout: float | None = None) -> int:
        """Pulls what has changed; one thread at a time.

        Args:
            timeout: seconds; None: the client's.

        Returns:
            The version: the pushes that every server's rows have had at least.

        Raises:
            Error: some rows are not up to date; each is whole all the same.
        """
        return self._handle.update(self._table._milliseconds(timeout))

    def get(self, keys: npt.ArrayLike, *, out: Array | None = None) -> Array:
        """Reads rows as ``Table.get`` does, from this process's memory.

        Raises:
            NotInitializedError: no update has ever been complete.
            InvalidError: a key that no server has.
        """
        numbers = as_keys(self._table.name, keys)
        rows = self._table._target(numbers, out)
        self._handle.get(numbers, rows)
        return rows

    def keys(self) -> Array:
        """The keys of all rows that are here, rising; ``copy.get(copy.keys())`` is the table.

        Raises:
            NotInitializedError: no update has ever been complete.
        """
        room = len(self)
        while True:
            keys = np.empty(room, KEY)
            count = self._handle.keys(keys)
            if count <= room:
                return np.sort(keys[:count])
            room = count + count // 8  # rows came meanwhile

    def __len__(self) -> int:
        """Rows that are here; keys without a row are answered as well."""
        return self._handle.count()

    @property
    def counters(self) -> ReplicaCounters:
        """What came and what did not have to come, since the replica was opened."""
        return ReplicaCounters(**self._handle.counters())

    def close(self) -> None:
        """Ends the replica."""
        self._handle.close()

    def __enter__(self) -> TableReplica:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()


class Table:
    """A table of a job, as ``Client.table()`` gives it.

    Keys are arrays of whole numbers of any shape, rows arrays of that shape and one dimension more,
    of the table's width. A row comes to be with the first gradient that is added to it; until then
    its key is answered with its first value, and reading creates nothing. Any thread may use a
    table; it is closed with its client.

    Keys in uint64 and int64, and rows of the table's type, are used where they lie; others are
    copied once. A negative key is the one with the same 64 bits: -1 is 2**64 - 1.
    """

    def __init__(self, handle: _pserver.Table, client: _pserver.Client, name: str,
                 timeout_ms: int) -> None:
        self._handle = handle
        self._client = client
        self._timeout_ms = timeout_ms
        self.name = name
        width, kind = handle.layout()
        #: Elements of a row.
        self.width = width
        #: Of the elements.
        self.dtype = DTYPES[kind]
        #: Of the last ``push_pull``: the version that the rows have at least at every server.
        self.version = 0
        #: Of the last ``push_pull``: servers whose round was over when the contribution came.
        self.late = 0

    def get(self, keys: npt.ArrayLike, *, out: Array | None = None,
            timeout: float | None = None) -> Array:
        """Reads rows.

        Args:
            keys: in any order; one that is there twice is answered twice.
            out: an array to read into, of the keys' shape and one dimension more.
            timeout: seconds; None: the client's.

        Returns:
            The rows: `out`, or a new array.

        Raises:
            InvalidError: a key that no server has, where the table has ``KeyRanges``.
        """
        numbers = as_keys(self.name, keys)
        rows = self._target(numbers, out)
        self._handle.get(numbers, rows, self._milliseconds(timeout))
        return rows

    def add(self, keys: npt.ArrayLike, gradients: npt.ArrayLike, *,
            timeout: float | None = None) -> None:
        """Applies gradients to rows, by the table's optimizer, exactly once.

        The gradients of a key that is there twice are summed in their order, and applied together.
        Each server applies what it gets as one push; what succeeded at one server stays so when
        another one fails.

        Args:
            keys: in any order.
            gradients: a row for each key; of a table of width 1 also a number for each.
            timeout: seconds; None: the client's.

        Raises:
            UnknownOutcomeError: the time passed while it was open whether they were applied.
            InvalidError: a key that no server has, or a gradient that is not finite.
            TableFullError: there would be more rows than the table may have.
        """
        numbers = as_keys(self.name, keys)
        source = self._source(numbers, gradients)
        self._handle.add(numbers, source, self._milliseconds(timeout))

    def add_get(self, keys: npt.ArrayLike, gradients: npt.ArrayLike,
                get: npt.ArrayLike | None = None, *, out: Array | None = None,
                timeout: float | None = None) -> Array:
        """Adds, and then reads, in one round trip: the rows of this step, and of the next.

        Args:
            keys, gradients: as of ``add``.
            get: the keys to read; None: the same.
            out: as of ``get``.
            timeout: seconds; None: the client's.

        Returns:
            The rows, which have what was added.
        """
        numbers = as_keys(self.name, keys)
        source = self._source(numbers, gradients)
        wanted = numbers if get is None else as_keys(self.name, get)
        rows = self._target(wanted, out)
        if np.may_share_memory(source, rows):
            raise ValueError(f"{self.name}: gradients and rows share memory: read into another "
                             "array")
        self._handle.add_get(numbers, source, wanted, rows, self._milliseconds(timeout))
        return rows

    def push_pull(self, keys: npt.ArrayLike, gradients: npt.ArrayLike,
                  get: npt.ArrayLike | None = None, *, worker: int, weight: float = 0.0,
                  out: Array | None = None, timeout: float | None = None) -> Array:
        """A step of a table that is trained in rounds (``Rounds``), as one of its workers.

        Contributes the gradients, waits until the round has those of the others, and reads. A
        worker without rows contributes none (``[]``), since the others wait for it. The object
        belongs to one worker: it knows which round is next from what it has read.

        Args:
            keys, gradients: as of ``add``.
            get: the keys to read then; None: the same.
            worker: its rank.
            weight: where rounds are ``"weighted"``; 0: 1.
            out: as of ``get``.
            timeout: seconds; None: the client's.

        Returns:
            The rows, with what the round has made; ``late`` says at how many servers the
            contribution came too late for it.

        Raises:
            UnavailableError, UnknownOutcomeError: the others did not come in time. The step may be
                made again: it counts once.
        """
        numbers = as_keys(self.name, keys)
        source = self._source(numbers, gradients)
        wanted = numbers if get is None else as_keys(self.name, get)
        rows = self._target(wanted, out)
        checked.whole("worker", worker, 0, WORKERS_MAX - 1)
        if source.size and np.may_share_memory(source, rows):
            raise ValueError(f"{self.name}: gradients and rows share memory: read into another "
                             "array")
        with errors.open_end(AGAIN):
            self.version, self.late, _ = self._handle.step(
                numbers, source, wanted, rows, worker + 1, weight, self._milliseconds(timeout))
        return rows

    def buffered(self, worker: int, weight: float = 0.0) -> BufferedTable:
        """Adds that count together at the end of an iteration, as of a BSP program.

        Args:
            worker: its rank, of a table that is trained in rounds.
            weight: as of ``push_pull``.
        """
        return BufferedTable(self, worker, weight)

    def at(self, read: Read | None) -> None:
        """Says by which clocks the reads of this table wait from now on, those of all threads.

        Args:
            read: ``clocks.at(worker, clock)``, anew for every iteration; None: they do not wait.
        """
        if read is None:
            self._handle.at(None, 0, 0)
        elif not isinstance(read, Read):
            raise TypeError(f"{self.name}: at takes clocks.at(worker, clock), not {read!r}")
        else:
            self._handle.at(read.name, read.worker + 1, read.clock)

    def get_ahead(self, keys: npt.ArrayLike, clock: int, *, out: Array | None = None,
                  timeout: float | None = None) -> RowsAhead:
        """Begins to read rows for an iteration that is still to come, by ``"sparse-ssp"`` clocks.

        A worker begins the reads of all iterations up to `speculation` ahead, one for each: by them
        the servers know which rows it is going to update, and let others read the rest. Call ``at``
        first, once.

        Args:
            keys, out: as of ``get``.
            clock: at which they are to be read.
            timeout: seconds, counted from now; None: the client's.
        """
        numbers = as_keys(self.name, keys)
        rows = self._target(numbers, out)
        handle = self._handle.ahead(numbers, whole_clock(clock), rows, self._milliseconds(timeout))
        return RowsAhead(handle, rows)

    def cache(self, rows_max: int, staleness: int = 0) -> None:
        """Keeps up to `rows_max` rows that were read at clocks, so that they need not be asked for.

        A row that was read at clock c serves reads up to clock c + `staleness`. What is added
        through this object is never read without it. Each object of a table has a cache of its own.

        Args:
            rows_max: 0: none are kept from now on, which is how a table begins.
            staleness: iterations, beside those of the clocks.
        """
        self._handle.cache(checked.whole(f"{self.name}: rows_max", rows_max),
                           checked.whole("staleness", staleness))

    @property
    def cached(self) -> Cached:
        """What the cache has done."""
        return Cached(*self._handle.cached())

    def replica(self, *, timeout: float | None = None) -> TableReplica:
        """A copy of all rows that ``update()`` keeps up to date; nothing is pulled yet.

        Close it before the client. It does not need this object, which may be closed.

        Args:
            timeout: seconds; None: the client's.
        """
        limit = self._milliseconds(timeout)
        return TableReplica(self, _pserver.TableReplica(self._client, self.name, limit))

    def configure(self, *, rows_max: int | None = None, full: Full | None = None,
                  expire: float | None = None, expire_clocks: tuple[str, int] | None = None,
                  candidates_max: int | None = None, timeout: float | None = None) -> None:
        """Changes how long rows stay, from now on; what is None stays as it is.

        The rate and so on of its optimizer are changed by ``Client.configure``.

        Args:
            rows_max, full, expire, expire_clocks, candidates_max: as of ``Client.table``.
            timeout: seconds; None: the client's.

        Raises:
            InvalidError: settings that contradict each other.
            ValueError: nothing is to be changed.
        """
        limits = limits_config(self.name, rows_max=rows_max, full=full, expire=expire,
                               expire_clocks=expire_clocks, candidates_max=candidates_max)
        if not limits:
            raise ValueError(f"{self.name}: nothing is to be changed")
        self._client.configure([self.name], message(212, limits), self._milliseconds(timeout))

    def close(self) -> None:
        """Ends this object. The rows stay where they are; ``Client.drop`` removes a table."""
        self._handle.close()

    def __enter__(self) -> Table:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<pserver.Table {self.name!r}, rows of {self.width} {self.dtype}>"

    def _milliseconds(self, timeout: float | None) -> int:
        return self._timeout_ms if timeout is None else milliseconds(timeout)

    def _source(self, keys: Array, gradients: npt.ArrayLike) -> Array:
        """Rows to send, where they lie if that is possible."""
        if hasattr(gradients, "detach"):
            gradients = from_tensor(self.name, gradients)
        array = np.asarray(gradients)
        shape = (*keys.shape, self.width)
        if not array.size and not keys.size:
            return np.empty(shape, self.dtype)  # a list of none has neither type nor width
        if array.shape != shape and not (self.width == 1 and array.shape == keys.shape):
            raise ValueError(f"{self.name}: gradients of shape {array.shape} for keys of shape "
                             f"{keys.shape}: they are to be {shape}")
        if not np.can_cast(array.dtype, self.dtype, "same_kind"):
            raise TypeError(f"{self.name}: gradients are {array.dtype}, the table is {self.dtype}")
        taken = np.asarray(array, self.dtype, order="C")
        # numpy lets a whole number that does not fit come out as another one.
        if self.dtype.kind in "iu" and not np.can_cast(array.dtype, self.dtype):
            lost = array[taken != array]
            if lost.size:
                raise ValueError(f"{self.name}: {lost[0]} is no {self.dtype}, which the table is")
        return taken

    def _target(self, keys: Array, out: Array | None) -> Array:
        """Where to read the rows of these keys into."""
        shape = (*keys.shape, self.width)
        if out is None:
            return np.empty(shape, self.dtype)
        out = as_target(self.name, out)
        if out.dtype != self.dtype or out.shape != shape:
            raise ValueError(f"{self.name}: rows of these keys are {self.dtype} of shape {shape}, "
                             f"not {out.dtype} of {out.shape}")
        return out


class Tables:
    """The part of ``Client`` for tables."""

    _handle: _pserver.Client
    _timeout_ms: int

    def table(self, name: str, width: int | None = None, optimizer: Optimizer = SGD(1.0), *,
              dtype: npt.DTypeLike = np.float32, init: Initializer = Initializer(),
              rows_max: int = 0, full: Full = "refuse", expire: float = 0.0,
              expire_clocks: tuple[str, int] | None = None, admission: int = 1,
              candidates_max: int = 0, ranges: KeyRanges | None = None,
              timeout: float | None = None) -> Table:
        """A table whose rows are found by a 64-bit key, on all servers of the job.

        With a `width` it is defined, where no equal one is there: every trainer makes the same
        call, after ``initialize``. Without, it is opened as others have defined it.

        Args:
            name: as of every parameter.
            width: elements of a row, 1 to 4096; None: that of a table that is there.
            optimizer: what is done with gradients, row by row.
            dtype: of the elements: float32 and float64; for ``Assign``, ``Add``, ``Max`` and
                ``Min`` whole numbers, too.
            init: what rows begin with: zeros, ``Constant``, ``Uniform`` or ``Normal``.
            rows_max: rows that one server may have; 0: as many as its memory holds.
            full: an add that would make more rows is refused (TableFullError), or the rows to which
                nothing was added for the longest time go (``"oldest"``).
            expire: seconds after which rows go to which nothing was added; 0: they stay.
            expire_clocks: (name of clocks, iterations): the same, counted by their slowest worker.
            admission: adds until a key gets its row. Those before are counted, and change nothing
                else: the row comes with the last of them, and has its gradient alone.
            candidates_max: keys that one server counts until then; 0: 1,048,576. The ones that were
                added to longest ago go for others, and begin anew.
            ranges: which server has which key; None: the hash of a key says.
            timeout: seconds; None: the client's.

        Raises:
            NotFoundError: no table of that name, and no width.
            InvalidError: the servers refuse the settings.
            AlreadyInitializedError: they have another table of that name, or a parameter that is
                none; the text says what differs.
        """
        wait_ms = self._timeout_ms if timeout is None else milliseconds(timeout)
        kind, config = 0, None
        if width is not None:
            kind = type_number(name, np.dtype(dtype))
            config = config_of(name, optimizer) + table_config(
                name, width, init=init, rows_max=rows_max, full=full, expire=expire,
                expire_clocks=expire_clocks, admission=admission, candidates_max=candidates_max,
                ranges=ranges)
        try:
            handle = _pserver.Table(self._handle, name, kind, config, wait_ms)
        except errors.AlreadyInitializedError as error:
            is_table = not error.text.endswith("is no table")
            error.hint = "without a width, table() takes it as it is" if is_table else ""
            raise
        except errors.NotFoundError as error:
            error.text, error.hint = f"no table {name!r}", "with a width, table() makes it"
            raise
        return Table(handle, self._handle, name, self._timeout_ms)


def type_number(name: str, dtype: np.dtype[Any]) -> int:
    """The wire's number of an element type."""
    if dtype not in DTYPES:
        raise TypeError(f"{name}: a table has elements of one of "
                        + ", ".join(str(known) for known in DTYPES) + f", not {dtype}")
    return DTYPES.index(dtype)


def milliseconds(seconds: float) -> int:
    """As libpsclient counts; ``math.inf`` is for ever."""
    if not checked.real("timeout", seconds) >= 0:
        raise ValueError(f"a timeout of {seconds} seconds")
    return _FOREVER if seconds == math.inf else min(round(1000 * seconds), _FOREVER)
