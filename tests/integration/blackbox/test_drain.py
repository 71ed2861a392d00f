# SPDX-License-Identifier: Apache-2.0
"""SIGTERM: what was acknowledged is kept, calls in flight end, nobody who is idle is waited for."""

import concurrent.futures
import signal
import socket
import unittest

import grpc

from blackbox import Server
from calls import MESSAGES, Calls
from cluster import PATIENCE, wait_until
from pushers import Crowd

HOUR = 3600  # the longest drain that there is: whoever waits for it is not there in time
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"


class Drain(unittest.TestCase):
    def test_nothing_acknowledged_is_lost_under_load(self):
        with Server("--drain", "1h") as server:
            crowd = Crowd(4)
            crowd.initialise(server.calls)
            for _ in range(3):
                crowd.start(server.address)
                wait_until(lambda: crowd.acknowledged() > 200, "clients push")
                server.process.signal(signal.SIGTERM)
                self.assertEqual(server.process.wait_exit(), 0, server.process.log())
                self.assertEqual(crowd.end(), [])
                server.start()
                crowd.check(self, server.calls)

    def test_nothing_acknowledged_in_memory_is_lost_without_patience(self):
        with Server("--drain", "0s", "--ack", "memory") as server:
            crowd = Crowd(4)
            crowd.initialise(server.calls)
            for _ in range(3):
                crowd.start(server.address)
                wait_until(lambda: crowd.acknowledged() > 200, "clients push")
                server.process.signal(signal.SIGTERM)
                self.assertEqual(server.process.wait_exit(), 0, server.process.log())
                self.assertEqual(crowd.end(), [])
                server.start()
                crowd.check(self, server.calls)

    def test_idle_and_silent_connections_are_not_waited_for(self):
        with Server("--drain", "1h") as server:
            server.make_ready()
            idle = [Calls(server.address) for _ in range(5)]
            for calls in idle:
                calls.pull("w")
            silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(5)]
            for i, peer in enumerate(silent):
                peer.sendall(PREFACE if i % 2 else PREFACE[:10])
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0, server.process.log())
            for peer in silent:
                peer.close()

    def test_a_request_that_never_arrives_whole_is_not_waited_for(self):
        with Server("--drain", "1h") as server:
            server.make_ready()
            stub = server.calls.channel.stream_unary("/pserver.v1.ParameterServer/SendGrad")
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                release = concurrent.futures.Future()
                call = stub.future(forever(release), timeout=HOUR)
                Calls(server.address).pull("w")
                server.process.signal(signal.SIGTERM)
                self.assertEqual(server.process.wait_exit(), 0, server.process.log())
                self.assertIsNotNone(call.exception(PATIENCE))
                release.set_result(None)
                pool.shutdown()

    def test_calls_that_wait_are_told(self):
        with Server("--drain", "1h") as server:
            request = MESSAGES["pserver.v1.GetParamRequest"](name="w").SerializeToString()
            path = "/pserver.v1.ParameterServer/GetParam"
            waiting = [server.calls.channel.unary_unary(path).future(request, timeout=HOUR)
                       for _ in range(10)]
            watch = server.calls.channel.unary_stream("/grpc.health.v1.Health/Watch")(
                b"", timeout=HOUR)
            self.assertEqual(next(watch), b"\x08\x01")
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0, server.process.log())
            for call in waiting:
                self.assertEqual(call.exception(PATIENCE).code(), grpc.StatusCode.UNAVAILABLE)
            with self.assertRaises(grpc.RpcError):
                for answer in watch:
                    self.assertEqual(answer, b"\x08\x02")

    def test_a_second_signal_does_not_wait_out_the_delay(self):
        with Server("--drain-delay", "1h") as server:
            server.make_ready()
            server.calls.push("w", [-1.0] * 4)
            server.process.signal(signal.SIGTERM)
            server.process.wait_event("stopping")
            self.assertEqual(server.calls.push("w", [-1.0] * 4), 2)
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0, server.process.log())
            server.start()
            self.assertEqual(server.calls.pull("w"), ([2.0] * 4, 2))

    def test_a_server_that_nobody_initialised_ends_cleanly(self):
        with Server() as server:
            server.calls.init("w", [0.0])
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0, server.process.log())
            server.start()
            server.make_ready()


def forever(release):
    """The requests of a call that sends none."""
    release.result()
    yield from ()


if __name__ == "__main__":
    unittest.main(verbosity=2)
