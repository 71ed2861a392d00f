# SPDX-License-Identifier: Apache-2.0
"""pserver: parameters of machine learning on servers, for many trainers at once.

    import numpy as np
    import pserver

    with pserver.connect("ps-0:8000,ps-1:8000", job="mnist") as ps:
        ps.initialize({"w": np.zeros((784, 10), np.float32)}, optimizer=pserver.Adam(lr=1e-3))
        values = ps.pull()                      # {"w": array}
        values = ps.push_pull({"w": gradient})  # one step of training, in one round trip

Exactly one of all trainers that call ``initialize`` gives the first values; the others wait for it.
A push that returned was applied exactly once, whatever was killed meanwhile.

=====================  ===========================================================================
to begin               ``connect``, ``Client.initialize`` with an ``Optimizer`` and a ``Schedule``
to train               ``Client.push_pull``, ``push``, ``pull``; ``Client.versions``
without waiting        ``Client.push_pull_async`` and its like: ``Operation``, ``wait``
rows by key            ``Client.table``: a ``Table`` with ``get``, ``add``, ``add_get``
to read along          ``Client.replica``: a ``Replica`` pulls what has changed
to change the job      ``Client.define``, ``configure``, ``drop``, while training goes on
between processes      ``Client.rendezvous``: ``send`` here, ``recv`` there
to look around         ``Client.parameters``, ``status``, ``counters``
to come back           ``connect(client_id=...)``, ``Client.last_applied``
to go in step          ``Client.barrier``
to keep the model      ``Client.save_model``: one set of checkpoints; ``save``
when something fails   ``Error`` and its classes: ``retryable``, ``results``, ``hint``
=====================  ===========================================================================

Shapes: a parameter has that of the array that ``initialize`` was given; gradients and arrays to
pull into have as many elements, of the same type. Units: times are seconds, sizes bytes, and a
version is the number of pushes that a parameter has had.

``pserver.aio`` has the client for coroutines, ``pserver.torch`` a remote optimizer for PyTorch, and
``pserver.testing`` starts a server for tests. The logger is called ``"pserver"``. The manual with
examples is docs/python.md.
"""

from __future__ import annotations

import os
import pkgutil
import time
from typing import Literal, Sequence

from . import _pserver, checked
from .about import (
    Applied, Counters, LastApplied, ParameterInfo, ReplicaCounters, Saved, SavedModel,
    ServerStatus)
from .arrays import as_source, as_target, log
from .asking import ask
from .buffered_table import BufferedTable
from .client import Client
from .errors import (
    AbortedError, AccessError,
    AlreadyInitializedError, ClosedError, DataLossError, Error, ExhaustedError,
    FailedError, ForkedError, InvalidError, ItemResult, NotFoundError, NotInitializedError,
    TableFullError, UnavailableError, UnknownOutcomeError, make_error)
from .operation import Operation, wait
from .optimizers import (
    SGD, Adadelta, Adagrad, Adam, AdamW, Add, Assign, Ftrl, Max, Min, Optimizer, Outer, RMSProp,
    Rounds, Schedule)
from .rendezvous import DEAD, Rendezvous
from .replica import Replica
from .table_keys import text_keys
from .table_settings import Constant, Initializer, KeyRanges, Normal, Uniform
from .tables import Cached, RowsAhead, Table, TableReplica
from .together import Clocks, Progress, Worker, WorkerClock, WorkerInfo

__all__ = [
    "DEAD", "SGD", "AbortedError", "AccessError", "Adadelta", "Adagrad", "Adam", "AdamW", "Add",
    "AlreadyInitializedError", "Applied", "Assign", "BufferedTable", "Cached", "Client", "Clocks",
    "ClosedError",
    "Constant", "Counters", "DataLossError", "Error", "ExhaustedError", "FailedError",
    "ForkedError", "Ftrl", "Initializer", "InvalidError", "ItemResult", "KeyRanges",
    "LastApplied", "Max", "Min", "Normal", "NotFoundError", "NotInitializedError", "Operation",
    "Optimizer", "Outer", "ParameterInfo", "Progress", "RMSProp",
    "Rendezvous", "Replica", "ReplicaCounters",
    "Rounds", "RowsAhead", "Saved", "SavedModel", "Schedule", "ServerStatus", "Table",
    "TableFullError", "TableReplica", "UnavailableError", "Uniform", "UnknownOutcomeError",
    "Worker", "WorkerClock", "WorkerInfo", "connect", "text_keys", "wait"]

__version__ = _pserver.VERSION

# Stubs that were generated from pserver.proto live beside this package, as pserver.v1.
__path__ = pkgutil.extend_path(__path__, __name__)

_pserver.set_hooks(as_source, as_target, make_error)
os.register_at_fork(after_in_child=_pserver.note_fork)

Ack = Literal["default", "memory", "logged"]
Encoding = Literal["native", "float32", "float64", "bfloat16", "float16", "int8", "top_k"]

_ACKS: dict[str, int] = {"default": 0, "memory": 1, "logged": 2}
_ENCODINGS: dict[str, int] = {"native": 0, "float32": 1, "float64": 2, "bfloat16": 3,
                              "float16": 4, "int8": 5, "top_k": 6}


def connect(servers: str | Sequence[str] | None = None, *, etcd: str | None = None, job: str = "",
            timeout: float = 30.0, wait: float = 5.0, ack: Ack = "default",
            encoding: Encoding = "native", reply_encoding: Encoding = "native",
            top_k: float = 0.01, split_bytes: int = 0, client_id: str | None = None,
            busy_poll: str | None = None, shared_memory: bool = True, tls_ca: str | None = None,
            tls_cert: str | None = None, tls_key: str | None = None,
            tls_server_name: str | None = None, token_file: str | None = None,
            etcd_user: str | None = None, etcd_password_file: str | None = None,
            etcd_ca: str | None = None, etcd_cert: str | None = None, etcd_key: str | None = None,
            placement: Literal["classic"] | None = None) -> Client:
    """Opens a client of a job's servers; ``with connect(...) as ps`` closes it at the end.

    Args:
        servers: ``"host:port,host:port"``, or a list of them: some servers of the job, through
            which the others are found and followed; of servers without etcd all, in the order of
            their shards. ``unix:PATH`` is a socket of a server on this host.
        etcd: ``"http://host:2379"``, to find the servers in etcd. Name this or `servers`.
        job: the name of the job that the servers were started with; "": none.
        timeout: seconds that each call may take unless it says otherwise. Longer than a failover
            takes, or calls fail during one.
        wait: seconds to wait for all servers to answer; 0: do not look.
        ack: when a server answers a push: ``"memory"`` as soon as it is applied, ``"logged"`` when
            it survives kill -9 and power loss; ``"default"``: what the server was started with.
        encoding, reply_encoding: how float gradients and pulled floats travel (docs/encodings.md).
        top_k: the share of the elements that the encoding ``"top_k"`` sends.
        split_bytes: larger parameters are cut over all servers; 0: 16 MiB. For all trainers alike.
        client_id: who this trainer is, 1 to 56 letters, digits and marks, for ``last_applied()``
            of a later process; one process at a time. None: somebody new.
        busy_poll: how long a caller looks for its answer before it sleeps: ``"50us"``, ``"off"``.
        shared_memory: whether content for servers of this host goes through shared memory.
        tls_ca, tls_cert, tls_key, tls_server_name, token_file: paths of files (and the name in the
            servers' certificates); None: ``PSCLIENT_TLS_CA`` and so on of the environment.
        etcd_user, etcd_password_file, etcd_ca, etcd_cert, etcd_key: the same for etcd.
        placement: ``"classic"``: a job that this trainer begins is one for older clients, too.

    Raises:
        UnavailableError: not every server answered within `wait`.
        InvalidError: options that contradict each other.
    """
    def open_client(limit_ms: int) -> _pserver.Client:
        return _pserver.Client(
            servers=_addresses(servers), etcd=etcd, job=job, open_timeout_ms=limit_ms,
            split_bytes=split_bytes, ack=checked.choice("ack", ack, _ACKS), top_k_share=top_k,
            encoding=checked.choice("encoding", encoding, _ENCODINGS), client_id=client_id,
            reply_encoding=checked.choice("reply_encoding", reply_encoding, _ENCODINGS),
            busy_poll=busy_poll, placement=placement, shared_memory=0 if shared_memory else 1,
            tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key, tls_server_name=tls_server_name,
            token_file=token_file, etcd_user=etcd_user, etcd_password_file=etcd_password_file,
            etcd_ca=etcd_ca, etcd_cert=etcd_cert, etcd_key=etcd_key)

    handle = ask(open_client, time.monotonic() + (wait or timeout))
    client = Client(handle, job=job, timeout=timeout)
    try:
        if wait > 0:
            client._wait_for_servers(wait)
    except BaseException:
        client.close()
        raise
    log.info("connected: %r", client)
    return client


def _addresses(servers: str | Sequence[str] | None) -> str | None:
    """As the library takes them: a list in one text."""
    return servers if servers is None or isinstance(servers, str) else ",".join(servers)
