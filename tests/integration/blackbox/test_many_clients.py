# SPDX-License-Identifier: Apache-2.0
"""Eight clients, each a process of its own, push and pull as fast as they can: the server's memory
stays what parameters, state and a constant take, and who pulls 4 KiB is served beside those who
push 64 MiB. PS_SECONDS makes it longer."""

import json
import os
import queue
import subprocess
import sys
import time
import unittest

import grpc

from blackbox import PATIENCE, Server
from calls import FLOAT32, MESSAGES, Calls
from cluster import wait_until

SECONDS = float(os.environ.get("PS_SECONDS", "6"))
LARGE = 64 << 20
MIDDLE = 1 << 20
SMALL = 4096
PUSHES = 8
# Beside parameters and state: buffers of messages on their way, and what the allocator keeps.
CONSTANT_KIB = 768 << 10


def raw(channel, method):
    """A call whose messages are bytes already."""
    return channel.unary_unary(f"/pserver.v1.ParameterServer/{method}")


def work(address, name, size, seconds):
    """Pushes, and pulls what is not large, says so, goes on until the time is over, and
    prints how often."""
    channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])
    pull = MESSAGES["pserver.v1.GetParamRequest"](name=name).SerializeToString()
    push = MESSAGES["pserver.v1.SendGradRequest"](
        name=name, element_type=FLOAT32, content=bytes(size)).SerializeToString()

    def operate():
        raw(channel, "SendGrad")(push, timeout=PATIENCE)
        if size < LARGE:
            raw(channel, "GetParam")(pull, timeout=PATIENCE)

    operate()
    print("begun", flush=True)
    until = time.monotonic() + seconds
    count = 1
    while time.monotonic() < until:
        operate()
        count += 1
    print(json.dumps({"count": count}))


def start(address, name, size, seconds):
    return subprocess.Popen(
        [sys.executable, os.path.realpath(__file__), "work", address, name, str(size),
         str(seconds)], stdout=subprocess.PIPE, text=True)


def wait_begun(process):
    """Its first operation is over; what it does from now on counts."""
    assert process.stdout.readline() == "begun\n"
    return process


def result(process):
    out, _ = process.communicate(timeout=SECONDS + PATIENCE)
    assert process.returncode == 0
    return json.loads(out)


def connect(server):
    """A connection of its own, with windows that stay small."""
    return grpc.insecure_channel(server.address, options=[
        ("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.bdp_probe", 0)])


def initialise(server, sizes):
    options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    with grpc.insecure_channel(server.address, options=options) as channel:
        for name, size in sizes.items():
            raw(channel, "InitParam")(MESSAGES["pserver.v1.InitParamRequest"](
                name=name, element_type=FLOAT32, content=bytes(size)).SerializeToString(),
                                      timeout=PATIENCE)
    Calls(server.address).finish()


class ManyClients(unittest.TestCase):
    def test_memory_is_bounded_and_does_not_grow(self):
        sizes = {f"w{i}": MIDDLE for i in range(6)} | {"large0": LARGE, "large1": LARGE}
        parameters_kib = sum(sizes.values()) >> 10
        with Server("--ack", "memory", "--no-journal", "--message-bytes", "80MiB") as server:
            initialise(server, sizes)
            clients = [start(server.address, name, size, SECONDS)
                       for name, size in sizes.items()]
            for client in clients:
                wait_begun(client)
            time.sleep(SECONDS / 2)
            middle = server.rss_kib()
            time.sleep(SECONDS * 0.4)
            late = server.rss_kib()
            counts = [result(client)["count"] for client in clients]
        print(f"{sum(counts)} operations; resident {middle >> 10} then {late >> 10} MiB, "
              f"parameters {parameters_kib >> 10} MiB", end=" ")
        self.assertGreater(min(counts), 0)
        # An update of what is being read goes to fresh blocks: twice the parameters at most.
        self.assertLess(late, 2 * parameters_kib + CONSTANT_KIB)
        self.assertLess(late, middle + CONSTANT_KIB // 4)

    def test_a_client_with_too_much_on_its_way_is_refused_and_others_are_not(self):
        """Replies that nobody reads lie here and count: two of 4 MiB are the most."""
        size, calls_count, most = 4 << 20, 64, 2
        pull = MESSAGES["pserver.v1.GetParamRequest"](name="w").SerializeToString()
        with Server("--ack", "memory", "--no-journal", "--client-bytes", "9MiB") as server, \
                connect(server) as channel, connect(server) as other:
            initialise(server, {"w": size})
            # Of a stream gRPC takes no message that nobody asks for, but for what a window holds.
            pulls = [channel.unary_stream("/pserver.v1.ParameterServer/GetParam")(
                pull, timeout=PATIENCE) for _ in range(calls_count)]
            ended = queue.SimpleQueue()
            for call in pulls:
                call.add_done_callback(ended.put)
            refused = [ended.get(timeout=PATIENCE) for _ in range(calls_count - most)]
            self.assertGreater(len(raw(other, "GetParam")(pull, timeout=PATIENCE)), size)
            for call in refused:
                self.assertEqual(call.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertIn("on their way", call.details())
                self.assertIn("grpc-retry-pushback-ms", dict(call.trailing_metadata()))
            for call in pulls:
                if call not in refused:
                    self.assertGreater(len(next(call)), size)
            wait_until(lambda: self.is_served(channel, pull), "room for one more")

    @staticmethod
    def is_served(channel, pull):
        """The server may hear after its client that a reply was taken."""
        try:
            return raw(channel, "GetParam")(pull, timeout=PATIENCE)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                raise
            return None

    def test_who_pulls_little_is_served_beside_who_pushes_much(self):
        """Counted and not timed: whoever waits for a whole push gets one pull in each."""
        pull = MESSAGES["pserver.v1.GetParamRequest"](name="small").SerializeToString()
        push = MESSAGES["pserver.v1.SendGradRequest"](
            name="large", element_type=FLOAT32, content=bytes(LARGE)).SerializeToString()
        pulls = pushes = 0
        with Server("--ack", "memory", "--no-journal", "--message-bytes", "80MiB") as server, \
                connect(server) as much, connect(server) as little:
            initialise(server, {"large": LARGE, "small": SMALL})
            while pushes < PUSHES:
                pushing = raw(much, "SendGrad").future(push, timeout=PATIENCE)
                while not pushing.done():
                    raw(little, "GetParam")(pull, timeout=PATIENCE)
                    pulls += 1
                pushing.result()
                pushes += 1
        print(f"{pulls} pulls of 4 KiB beside {pushes} pushes of 64 MiB", end=" ")
        self.assertGreater(pulls, 4 * pushes)


if __name__ == "__main__":
    if sys.argv[1:2] == ["work"]:
        work(sys.argv[2], sys.argv[3], int(sys.argv[4]), float(sys.argv[5]))
    else:
        unittest.main(verbosity=2)
