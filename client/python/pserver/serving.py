# SPDX-License-Identifier: Apache-2.0
"""Batched serving under StepMesh's names: workers push tensors and pull others, step after step,
and a server program takes the requests of all workers together.

    import pserver.serving as f                    # import fserver_lib as f

    f.init()                                       # role, rank and servers from the environment
    handler = f.push_pull(pushed, [1, 2], pulled, [3])      # in a worker
    f.wait(handler)

    for handler, tensors, keys in f.get_batch():            # in a server program
        f.respond([compute(*tensors)], handler)

Tensors are numpy arrays or PyTorch tensors on the CPU, contiguous. What a program gets are PyTorch
tensors where PyTorch was imported before, numpy arrays otherwise. Every call has a deadline;
``Serving`` is the same as objects, for processes that are several things at once. The manual is
docs/programs.md.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from typing import Any, Sequence

import numpy as np

from . import _pserver
from .asking import wait_for_request
from .client import Client
from .errors import open_end

_SLICE_MS = 1000  # how long ctrl-C may go unheard while others are waited for

#: Numbers of element types. The first six are those of the wire; servers understand none of them.
_NUMBERS: dict[str, int] = {
    "int32": 0, "uint32": 1, "int64": 2, "uint64": 3, "float32": 4, "float64": 5,
    "bfloat16": 32, "float16": 33, "uint8": 64, "int8": 65, "int16": 66, "bool": 67,
    "float8_e4m3fn": 68, "float8_e5m2": 69, "complex64": 70, "complex128": 71, "uint16": 72}
_NAMES = {number: name for name, number in _NUMBERS.items()}

WORKER, SERVER = 0, 1


@dataclasses.dataclass(frozen=True)
class Trace:
    """When a request passed where, at one server, in nanoseconds since 1970; 0: it has not yet.

    Times of a worker and of a server are of one clock when their hosts are equal.
    """

    handler: int
    server: int
    worker: int
    worker_host: int
    server_host: int
    begun: int
    sent: int
    arrived: int
    taken: int
    answered: int
    replied: int
    received: int
    waited: int


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A tensor that is to be answered."""

    key: int
    dtype: str
    shape: tuple[int, ...]
    nbytes: int


@dataclasses.dataclass(frozen=True)
class Request:
    """What a worker asks. ``kind`` is "push", "pull", "push_pull", "simple" or "batch"."""

    handler: int
    worker: int
    customer: int
    kind: str
    command: int
    timestamp: int
    again: bool
    tensors: list[Any]
    tensor_keys: list[int]
    wanted: list[Wanted]
    keys: np.ndarray[Any, np.dtype[np.uint64]]
    lens: np.ndarray[Any, np.dtype[np.uint32]] | None
    body: bytes


_KINDS = ("push", "pull", "push_pull", "simple", "batch")


def _torch() -> Any:
    return sys.modules.get("torch")


def _row(key: int, tensor: Any) -> tuple[int, int, int, tuple[int, ...], Any]:
    """(key, dtype, element size, shape, memory) of an array or a tensor, without a copy."""
    torch = _torch()
    if torch is not None and isinstance(tensor, torch.Tensor):
        if tensor.device.type != "cpu":
            raise TypeError(f"tensor of key {key}: it lies on {tensor.device}; copy it to the CPU")
        if not tensor.is_contiguous():
            raise TypeError(f"tensor of key {key}: it is not contiguous")
        name = str(tensor.dtype).removeprefix("torch.")
        memory = tensor.detach().reshape(-1).view(torch.uint8).numpy()
        size, shape = tensor.element_size(), tuple(tensor.shape)
    else:
        if not isinstance(tensor, np.ndarray):
            raise TypeError(f"tensor of key {key}: an array or a tensor, not "
                            f"{type(tensor).__name__}")
        if not tensor.flags.c_contiguous:
            raise TypeError(f"tensor of key {key}: it is not contiguous")
        name, size, shape = tensor.dtype.name, tensor.itemsize, tensor.shape
        memory = tensor
    if name not in _NUMBERS:
        raise TypeError(f"tensor of key {key}: elements of type {name} do not travel")
    return key, _NUMBERS[name], size, shape, memory


def _tensor(row: tuple[int, int, int, int, tuple[int, ...], Any]) -> Any:
    """What was pushed, where it lies: writable, and alive as long as the array."""
    _, number, size, _, shape, piece = row
    name = _NAMES.get(number, "uint8" if size == 1 else f"V{size}")
    torch = _torch()
    if torch is not None and hasattr(torch, name):
        dtype = getattr(torch, name)
        if piece is None or 0 in shape:
            return torch.empty(shape, dtype=dtype)
        return torch.frombuffer(piece, dtype=dtype).reshape(shape)
    if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        name = f"V{size}"  # numpy has none: the bytes as they are
    if piece is None:
        return np.empty(shape, np.dtype(name))
    return np.frombuffer(piece, np.dtype(name)).reshape(shape)


def _milliseconds(seconds: float) -> int:
    return max(0, int(seconds * 1000))


class Serving:
    """A worker, or a server program, of batched serving.

    Args:
        client: from ``pserver.connect``; it outlives this.
        role: ``WORKER`` or ``SERVER``.
        app: 0 to 65535.
        rank: of a worker its rank (None: the place that the client has joined); of a program the
            index of the server that it serves.
        workers: how many the job has; 0: the size of the group that the client has joined.
        timeout: of a worker's requests, in seconds.
        name: of a program, for people.
        again: what a program leaves unanswered is given to the next one.
        worker_node: a program takes what is asked of this worker, instead of a server.
        lease: a program is gone when it has said nothing for so many seconds.
    """

    def __init__(self, client: Client, role: int = WORKER, *, app: int = 0,
                 rank: int | None = None, workers: int = 0, timeout: float = 60.0,
                 name: str | None = None, again: bool = False, worker_node: int | None = None,
                 lease: float = 10.0) -> None:
        place = rank or 0 if role == SERVER else 0 if rank is None else rank + 1
        self._handle = _pserver.Serving(
            client._handle, app, role, place, workers,
            0 if worker_node is None else worker_node + 1, _milliseconds(timeout),
            _milliseconds(lease), int(again), name)
        self._timeout_ms = _milliseconds(timeout)
        self.role = role
        self.workers = workers

    # ---- Workers ----

    def push_pull(self, push_tensors: Sequence[Any], push_keys: Sequence[int],
                  pull_tensors: Sequence[Any], pull_keys: Sequence[int], *,
                  timeout: float | None = None) -> int:
        """Pushes to every server, and asks each for tensors: first those of server 0, and so on.

        All memory is in use until ``wait`` has returned.

        Returns:
            The first of the request's handlers.
        """
        if len(push_tensors) != len(push_keys) or len(pull_tensors) != len(pull_keys):
            raise ValueError("as many keys as tensors")
        wait_ms = 0 if timeout is None else _milliseconds(timeout)
        return self._handle.push_pull(
            [_row(key, tensor) for key, tensor in zip(push_keys, push_tensors)],
            [_row(key, tensor) for key, tensor in zip(pull_keys, pull_tensors)], wait_ms)

    def wait(self, handler: int, timeout: float = 10.0) -> None:
        """Until all of the request was answered.

        Raises:
            UnknownOutcomeError: the time is over; the text names who has not answered. The hint
                says whether the request goes on, and may be waited for again.
        """
        wait_for_request(self._handle, handler, timeout)

    def get_all_handlers(self, handler: int) -> list[int]:
        """All handlers of its request: one for each tensor pushed, and pulled of one server."""
        return self._handle.get_all_handlers(handler)

    def fetch_trace(self, handler: int) -> list[Trace]:
        """Eight times of the request, for each server that has answered."""
        return [Trace(*row) for row in self._handle.fetch_trace(handler)]

    # ---- Server programs ----

    def get_batch(self, workers: Sequence[int] = (), *, max: int = 1, partial: bool = False,
                  timeout: float | None = None) -> list[Request]:
        """Takes requests: one of each of these workers, in their order, or up to ``max`` of any.

        Args:
            partial: when the time is over, what there is; otherwise all or none.
            timeout: seconds; None: for ever.

        Returns:
            The requests; [] when the time is over.
        """
        until = None if timeout is None else time.monotonic() + timeout
        while True:
            left_ms = _SLICE_MS if until is None else _milliseconds(until - time.monotonic())
            rows = self._handle.get_batch(list(workers), max, int(partial),
                                          min(left_ms, _SLICE_MS))
            if rows is not None:
                return [_request(row) for row in rows]
            if until is not None and left_ms <= _SLICE_MS:
                return []

    def respond(self, tensors: Sequence[Any], handler: int) -> None:
        """Answers a request with as many tensors as it wants, of their sizes, once.

        Raises:
            NotFoundError: no such request, any more.
            AlreadyInitializedError: it was answered before.
            InvalidError: they are not what is wanted: it is still to be answered.
        """
        self.reply(handler, tensors)

    def reply(self, handler: int, tensors: Sequence[Any] = (), *, status: int = 0,
              text: str | None = None, lens: Any = None, body: bytes = b"") -> None:
        """Answers anything; with a status that is not 0 the worker's request fails."""
        packed = b"" if lens is None else np.ascontiguousarray(lens, np.uint32).tobytes()
        rows = [_row(key, tensor) for key, tensor in enumerate(tensors)]
        self._handle.reply(handler, status, text, rows, packed, body, self._timeout_ms)

    def respond_vec(self, ret_buffer: Any, tensors_vec: Sequence[Any],
                    handler_vec: Sequence[int]) -> None:
        """Answers each handler with its own rows of the buffer, in order: as many as the first
        tensor of ``tensors_vec[i]`` has, or as the number ``tensors_vec[i]`` says."""
        begin, slices = 0, []
        for tensors, handler in zip(tensors_vec, handler_vec, strict=True):
            if isinstance(tensors, (list, tuple)):
                tensors = tensors[0]
            rows = tensors if isinstance(tensors, int) else int(tensors.shape[0])
            slices.append((handler, begin, rows))
            begin += rows
        self._handle.respond_vec([_row(0, ret_buffer)], slices, self._timeout_ms)

    def register_recv_buffer(self, tensor: Any, worker_ranks: Sequence[int],
                             push_keys: Sequence[int]) -> None:
        """From now on what these workers push under these keys lies in equal parts of the tensor;
        until the next request of the same worker and key is taken."""
        self._handle.register_recv_buffer(_row(0, tensor)[4], list(worker_ranks),
                                          np.array(push_keys, np.uint64).tobytes())

    # ---- Both ----

    def barrier(self, include_server: bool = True, include_worker: bool = True, *,
                timeout: float = 60.0) -> None:
        """Waits for every server program, every worker, or both."""
        with open_end(""):  # the text says who is missing
            self._handle.barrier(int(include_server), int(include_worker), _milliseconds(timeout))

    def stop(self, timeout: float = 60.0) -> None:
        """Meets all of the job, unless the time is 0, and ends."""
        self._handle.stop(_milliseconds(timeout))


def _request(row: tuple[Any, ...]) -> Request:
    (handler, worker, customer, kind, command, timestamp, again, tensors, wanted, keys, lens,
     body) = row
    return Request(
        handler, worker, customer, _KINDS[kind], command, timestamp, again,
        [_tensor(tensor) for tensor in tensors], [tensor[0] for tensor in tensors],
        [Wanted(tensor[0], _NAMES.get(tensor[1], str(tensor[1])), tensor[4], tensor[3])
         for tensor in wanted],
        np.frombuffer(keys, np.uint64), np.frombuffer(lens, np.uint32) if lens else None, body)


# ---- The names of StepMesh, for one serving of this process ----

_client: Client | None = None
_serving: Serving | None = None


def _own() -> Serving:
    if _serving is None:
        raise RuntimeError("call pserver.serving.init() first")
    return _serving


def init(servers: str | None = None, *, app: int = 0, **options: Any) -> None:
    """Begins, as the environment says: DMLC_ROLE (worker, else server), DMLC_NUM_WORKER,
    DMLC_GROUP_SIZE, DMLC_NODE_RANK, STEPMESH_GPU and DMLC_RANK_OFFSET, of which the rank is made as
    StepMesh does, and PSERVER_SERVERS or PSERVER_ETCD with PSERVER_JOB for where the servers are.

    Args:
        servers: instead of PSERVER_SERVERS.
        options: further ones of ``pserver.connect``.
    """
    global _client, _serving
    from . import connect
    if _serving is not None:
        raise RuntimeError("init() was called before")
    number = {name: int(os.environ.get(name, default)) for name, default in (
        ("DMLC_NUM_WORKER", 1), ("DMLC_GROUP_SIZE", 1), ("DMLC_NODE_RANK", 0), ("STEPMESH_GPU", 0),
        ("DMLC_RANK_OFFSET", 0))}
    rank = (number["DMLC_GROUP_SIZE"] * number["DMLC_NODE_RANK"] + number["STEPMESH_GPU"]
            + number["DMLC_RANK_OFFSET"])
    role = WORKER if os.environ.get("DMLC_ROLE", "server") == "worker" else SERVER
    etcd = os.environ.get("PSERVER_ETCD")
    servers = servers or os.environ.get("PSERVER_SERVERS")
    if servers is None and etcd is not None:
        options.setdefault("etcd", etcd)
    options.setdefault("job", os.environ.get("PSERVER_JOB", ""))
    _client = connect(servers, **options)
    _serving = Serving(_client, role, app=app, rank=rank, workers=number["DMLC_NUM_WORKER"])


def push_pull(push_tensors: Sequence[Any], push_keys: Sequence[int], pull_tensors: Sequence[Any],
              pull_keys: Sequence[int], need_event: bool = True) -> int:
    """``Serving.push_pull``. There are no CUDA events here: tensors are on the CPU."""
    del need_event
    return _own().push_pull(push_tensors, push_keys, pull_tensors, pull_keys)


def wait(handler: int, timeout_ms: int = 10000) -> None:
    """``Serving.wait``."""
    _own().wait(handler, timeout_ms / 1000)


def get_batch(timeout: float | None = None, partial: bool = False,
              ) -> list[tuple[int, list[Any], list[int]]]:
    """One request of every worker, in the order of ranks: (handler, tensors, keys)."""
    own = _own()
    requests = own.get_batch(range(own.workers), partial=partial, timeout=timeout)
    return [(request.handler, request.tensors, request.tensor_keys) for request in requests]


def respond(tensors: Sequence[Any], handler: int, need_event: bool = False) -> None:
    """``Serving.respond``."""
    del need_event
    _own().respond(tensors, handler)


def respond_vec(ret_buffer: Any, tensors_vec: Sequence[Any], handler_vec: Sequence[int]) -> None:
    """``Serving.respond_vec``: rows follow each other. StepMesh sends rows from 0 to each."""
    _own().respond_vec(ret_buffer, tensors_vec, handler_vec)


def register_recv_buffer(tensor: Any, worker_ranks: Sequence[int],
                         push_keys: Sequence[int]) -> None:
    """``Serving.register_recv_buffer``."""
    _own().register_recv_buffer(tensor, worker_ranks, push_keys)


def get_all_handlers(handler: int) -> list[int]:
    """``Serving.get_all_handlers``."""
    return _own().get_all_handlers(handler)


def fetch_trace(handler: int) -> list[int]:
    """Eight times in nanoseconds, of the last server's answer, as StepMesh has them: begun, sent,
    arrived, taken; answered, replied, received, waited. ``Serving.fetch_trace`` has all."""
    row = _own().fetch_trace(handler)[-1]
    return [row.begun, row.sent, row.arrived, row.taken, row.answered, row.replied, row.received,
            row.waited]


def barrier(include_server: bool = True, include_worker: bool = True,
            instance_barrier: bool = True) -> None:
    """``Serving.barrier``. Every process counts."""
    del instance_barrier
    _own().barrier(include_server, include_worker)


def stop(timeout: float = 60.0) -> None:
    """Meets all of the job at a barrier, and ends."""
    global _client, _serving
    own, _serving = _own(), None
    try:
        own.stop(timeout)
    finally:
        if _client is not None:
            _client.close()
        _client = None
