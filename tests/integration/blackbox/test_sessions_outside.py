# SPDX-License-Identifier: Apache-2.0
"""Request ids against a real server, through kill -9: nothing is applied twice, whoever was
forgotten; nobody is shut out; an id that is used for something else is told so."""

import random
import struct
import time
import unittest

import grpc

from blackbox import Server
from calls import FLOAT32, MESSAGES, Calls

LOGGED = 2


def now_us():
    return time.time_ns() // 1000


class Client:
    """A client in another language: three fields, and a number for each request."""

    def __init__(self, server, session=None, client_id=None):
        self.server = server
        self.client_id = client_id or random.randbytes(16)
        self.session = now_us() if session is None else session
        self.sequence = 0

    def push(self, value=1.0, sequence=None, name="w"):
        if sequence is None:
            self.sequence += 1
            sequence = self.sequence
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name=name, element_type=FLOAT32, content=struct.pack("<f", value), ack=LOGGED,
            request=MESSAGES["pserver.v1.RequestId"](
                client_id=self.client_id, session=self.session, sequence=sequence))
        reply = self.server.calls.call("SendGrad", request)
        return MESSAGES["pserver.v1.SendGradResponse"].FromString(reply)


class Sessions(unittest.TestCase):
    def start(self, *options):
        self.server = Server("--ack", "logged", *options, http=True)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready(values=[0.0])

    def restart(self):
        self.server.process.kill()
        self.server.start()

    def version(self):
        request = MESSAGES["pserver.v1.GetParamRequest"](name="w")
        reply = self.server.calls.call("GetParam", request)
        return MESSAGES["pserver.v1.GetParamResponse"].FromString(reply).version

    def refused(self, word, call, *arguments, **named):
        with self.assertRaises(grpc.RpcError) as caught:
            call(*arguments, **named)
        metadata = dict(caught.exception.trailing_metadata())
        self.assertEqual(metadata.get("ps-status"), word, caught.exception.details())
        return caught.exception, metadata

    def test_a1_an_active_client_is_known_after_recovery(self):
        """Others fill the table, the server dies: a repeat of who was active is not a new push."""
        self.start("--clients-max", "4", "--client-idle", "1h")
        active = Client(self.server, client_id=b"\x00active")  # the lowest id of all
        for _ in range(3):
            self.assertFalse(active.push().duplicate)
            for _ in range(2):
                Client(self.server).push()
        applied = self.version()
        active.push()
        self.restart()
        self.assertTrue(active.push(sequence=active.sequence).duplicate)
        self.assertEqual(self.version(), applied + 1)

    def test_a1_a_forgotten_clients_repeat_is_never_applied(self):
        self.start("--clients-max", "4")
        forgotten = Client(self.server)
        forgotten.push()
        for _ in range(8):
            Client(self.server).push()
        applied = self.version()
        _, metadata = self.refused("stale_session", forgotten.push, sequence=1)
        self.refused("stale_session", forgotten.push, sequence=200)
        self.restart()  # the journal knows it
        self.assertTrue(forgotten.push(sequence=1).duplicate)
        self.assertEqual(self.version(), applied)
        forgotten.session = int(metadata["ps-session"])
        self.assertFalse(forgotten.push(sequence=1).duplicate)
        self.assertEqual(self.version(), applied + 1)

    def test_a2_a_flood_of_ids_shuts_nobody_out(self):
        self.start("--clients-max", "16")
        trainer = Client(self.server)
        trainer.push()
        for count in range(200):
            if count % 50 == 0:  # a connection begins with so many new clients at once
                self.server.calls = Calls(self.server.address)
            Client(self.server).push()
        comer = Client(self.server)
        self.assertFalse(comer.push().duplicate)
        self.restart()
        self.assertFalse(Client(self.server).push().duplicate)
        self.assertTrue(comer.push(sequence=1).duplicate)
        self.assertIn("ps_clients_forgotten_early_total", self.server.get("/metrics")[1])

    def test_a2_a_session_from_the_future_shuts_nobody_out(self):
        self.start("--clients-max", "2")
        self.refused("stale_session", Client(self.server, session=2**64 - 1).push)
        self.refused("stale_session", Client(self.server, session=now_us() + 120 * 10**6).push)
        for _ in range(6):
            Client(self.server, session=now_us() + 50 * 10**6).push()
        late = Client(self.server)
        _, metadata = self.refused("stale_session", late.push)
        late.session = int(metadata["ps-session"])
        self.assertFalse(late.push().duplicate)

    def test_b4_a_fixed_id_that_comes_back_is_told_so(self):
        """The second run of a trainer whose id and session are the same each time."""
        self.start()
        for value in (1.0, 2.0, 3.0):
            Client(self.server, session=1, client_id=b"worker-0").push(value, sequence=int(value))
        applied = self.version()
        for _ in range(2):
            again = Client(self.server, session=1, client_id=b"worker-0")
            error, _ = self.refused("request_id_reused", again.push, 5.0)
            self.assertEqual(error.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("begin a higher session", error.details())
            self.assertEqual(self.version(), applied)
            self.restart()
        again.session = now_us()
        self.assertFalse(again.push(5.0, sequence=1).duplicate)


if __name__ == "__main__":
    unittest.main(verbosity=2)
