# SPDX-License-Identifier: Apache-2.0
"""A small parameter and one of 18 MiB, trained over any number of servers with plain grpcio:

    ./run_trainer.sh HOST:PORT[,HOST:PORT...]

docs/placement.md says which server has what, docs/wire.md what is sent: batches, ranges, retries.
"""
from __future__ import annotations

import array
import itertools
import os
import sys
import time
from typing import Any, Iterator

import grpc
from pserver.v1 import pserver_pb2 as ps
from pserver.v1 import pserver_pb2_grpc

SPLIT = 16 << 20  # bytes; larger parameters are cut over all servers, alike by all clients of a job
RANGE = 1 << 20   # bytes; what is larger goes in ranges, each a message far below gRPC's 4 MiB
MOST = 192        # gradients of one batch: its numbers must fit into the window that is remembered
BATCH = 3 << 20   # bytes of one batch: its reply has to stay below gRPC's 4 MiB, too
AGAIN = ("unavailable", "busy", "no_memory", "not_owner", "stale_epoch", "timeout", "cancelled")


class Server:
    def __init__(self, address: str) -> None:
        self.stub = pserver_pb2_grpc.ParameterServerStub(grpc.insecure_channel(address))
        self.client_id = os.urandom(16)
        self.session = time.time_ns() // 1000  # begins with a time, in microseconds
        self.sequences = itertools.count(1)

    def request(self, count: int = 1) -> Any:
        """The id of the next `count` changes; it stays theirs however often they are sent."""
        first = [next(self.sequences) for _ in range(count)][0]
        return ps.RequestId(client_id=self.client_id, session=self.session, sequence=first)

    def call(self, name: str, message: Any, seconds: float = 60) -> Any:
        """Sends it until it is answered."""
        give_up, pause = time.monotonic() + seconds, 0.02
        while True:
            try:
                return getattr(self.stub, name)(message, timeout=10)
            except grpc.RpcError as error:
                said = dict(error.trailing_metadata() or ())
                wait = max(pause, int(said.get("grpc-retry-pushback-ms", 0)) / 1000)
                if said.get("ps-status") not in (None, *AGAIN) or time.monotonic() + wait > give_up:
                    raise
            time.sleep(wait)
            pause = min(2 * pause, 2.0)


class Piece:
    """What one server has of a parameter: all of it, or a range under a name of its own."""

    def __init__(self, server: Server, name: str, first: int, count: int) -> None:
        self.server, self.name, self.first, self.count = server, name, first, count

    def ranges(self) -> list[tuple[int, int]]:
        step = RANGE // 4
        return [(at, min(step, self.count - at)) for at in range(0, self.count, step)]

    def send(self, call: str, message: Any, values: array.array[float], **fields: int) -> Any:
        """All ranges under one id, again while the server says that it has let go of some."""
        request, ranges = self.server.request(), self.ranges()
        applied: list[Any] = []
        while not applied:
            for at, count in ranges:
                part = values[self.first + at:self.first + at + count].tobytes()
                where = {"offset": at, "count": count, **fields} if len(ranges) > 1 else {}
                reply = self.server.call(call, message(name=self.name, element_type=ps.FLOAT32,
                                                       content=part, request=request, **where))
                applied += [] if reply.staged else [reply]
        return applied[-1]

    def pull(self) -> bytes:
        """One version, range by range; begun again when it was pushed away meanwhile."""
        while True:
            parts: list[bytes] = []
            first: Any = None
            try:
                for at, count in self.ranges():
                    # The first range is of the present version, the others of the same.
                    same = {"version": 1 + first.version, "life": first.life} if first else {}
                    reply = self.server.call("GetParam", ps.GetParamRequest(
                        name=self.name, offset=at, count=count, **same))
                    first = first or reply
                    parts.append(reply.content)
                return b"".join(parts)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.ABORTED:
                    raise


class Job:
    def __init__(self, addresses: list[str]) -> None:
        self.servers = [Server(address) for address in addresses]
        self.placement = 1  # the classic rule, until the job is initialised

    def shard_of(self, name: str) -> int:
        if self.placement <= 1:
            value = 2166136261
            for byte in name.encode():
                value = (value ^ byte) * 16777619 % 2 ** 32
            return value % len(self.servers)
        z = 0xcbf29ce484222325
        for byte in name.encode():
            z = (z ^ byte) * 0x100000001b3 % 2 ** 64
        z = (z + self.placement * 0x9e3779b97f4a7c15) % 2 ** 64
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 % 2 ** 64
        z = (z ^ z >> 27) * 0x94d049bb133111eb % 2 ** 64
        return (z ^ z >> 31) % len(self.servers)

    def pieces(self, name: str, elements: int) -> list[Piece]:
        n = len(self.servers)
        if 4 * elements <= SPLIT or n == 1:
            return [Piece(self.servers[self.shard_of(name)], name, 0, elements)]
        share, longer = divmod(elements, n)
        firsts = [k * share + min(k, longer) for k in range(n + 1)]
        return [Piece(server, f"{name}#{k}/{n}", firsts[k], firsts[k + 1] - firsts[k])
                for k, server in enumerate(self.servers)]

    def initialise(self, parameters: dict[str, array.array[float]]) -> None:
        """One trainer of the job does this; for the others it is done already."""
        epochs: dict[Server, int] = {}
        try:
            for name, values in parameters.items():
                for piece in self.pieces(name, len(values)):
                    reply = piece.send("InitParam", ps.InitParamRequest, values, total=piece.count)
                    epochs[piece.server] = reply.epoch
            for server in self.servers:
                server.call("FinishInitParams", ps.FinishInitParamsRequest(
                    epoch=epochs.get(server, 0), placement=self.placement,
                    request=server.request()))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.ALREADY_EXISTS:
                raise
        # By which rule whoever came first has placed them.
        cluster = self.servers[0].call("GetCluster", ps.GetClusterRequest())
        self.placement = max(1, cluster.placement)

    def step(self, gradients: dict[str, array.array[float]]) -> dict[str, array.array[float]]:
        """Pushes every gradient and gives what the parameters are then."""
        result = {}
        small: dict[Server, list[str]] = {}  # one message for all that fits into one
        for name, gradient in gradients.items():
            pieces = self.pieces(name, len(gradient))
            if len(pieces) == 1 and len(pieces[0].ranges()) == 1:
                small.setdefault(pieces[0].server, []).append(name)
                continue
            for piece in pieces:
                piece.send("SendGrad", ps.SendGradRequest, gradient)
            result[name] = array.array("f", b"".join(piece.pull() for piece in pieces))
        for server, names in self.batches(small, gradients):
            message = ps.PushPullRequest(
                request=server.request(len(names)),
                grads=[ps.SendGradRequest(name=name, element_type=ps.FLOAT32,
                                          content=gradients[name].tobytes()) for name in names],
                params=[ps.GetParamRequest(name=name) for name in names])
            for name, pulled in zip(names, self.push_pull(server, message)):
                result[name] = array.array("f", pulled.reply.content)
        return result

    @staticmethod
    def batches(small: dict[Server, list[str]], gradients: dict[str, array.array[float]]
                ) -> Iterator[tuple[Server, list[str]]]:
        """Each server's names, as many at a time as go into one message."""
        for server, names in small.items():
            batch: list[str] = []
            size = 0
            for name in names:
                more = 4 * len(gradients[name])
                if len(batch) == MOST or batch and size + more > BATCH:
                    yield server, batch
                    batch, size = [], 0
                batch.append(name)
                size += more
            yield server, batch

    def push_pull(self, server: Server, message: Any) -> Any:
        """The whole message again while an item is to be sent again: the others are repeats."""
        while True:
            reply = server.call("PushPull", message)
            failed = [item.status for item in (*reply.grads, *reply.params) if item.status.code]
            if not failed:
                return reply.params
            if any(status.word not in AGAIN for status in failed):
                raise RuntimeError(failed[0].message)
            time.sleep(max(status.retry_ms for status in failed) / 1000 or 0.02)


def main() -> None:
    job = Job(sys.argv[1].split(","))
    table = array.array("f", [1.0]) * (18 << 18)
    bias = array.array("f", [1.0, 2.0])
    job.initialise({"table": table, "bias": bias})  # no configuration: SGD with learning rate 1
    for _ in range(4):
        values = job.step({"table": array.array("f", [0.25]) * len(table),
                           "bias": array.array("f", [0.5, 0.5])})
    print("table =", *sorted(set(values["table"])))
    print("bias =", *values["bias"])


if __name__ == "__main__":
    main()
