# SPDX-License-Identifier: Apache-2.0
"""Peers that keep to no rule of HTTP/2: the server lives, stays small, and answers good clients."""

import random
import resource
import signal
import socket
import struct
import unittest

from blackbox import Server, descriptors
from calls import Calls
from cluster import PATIENCE, wait_until
from frames import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, HELLO,
                    PADDED, PING, PREFACE, PRIORITY, PUSH_PROMISE, RST_STREAM, SETTINGS,
                    WINDOW_UPDATE, Peer, call_headers, field, frame, grpc_message, integer,
                    request, settings, text)

PULL = "/pserver.v1.ParameterServer/GetParam"
PUSH = "/pserver.v1.ParameterServer/SendGrad"
NAME = b"\x0a\x01w"
HEALTH = "/grpc.health.v1.Health/"
SERVING = b"\x08\x01"


def whole_headers(stream=1, path=PULL):
    return frame(HEADERS, END_HEADERS, stream, call_headers(path))


class Abuse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.__exit__)
        cls.server.make_ready()
        cls.port = cls.server.port
        cls.first_rss = cls.server.rss_kib()
        cls.first_descriptors = descriptors(cls.server.pid)

    def setUp(self):
        """The test before may have made this host an offender, which waits outside for a moment."""
        wait_until(self.newcomers_come_in, "newcomers are let in")

    def newcomers_come_in(self):
        with Peer(self.port, HELLO) as peer:
            return peer.pong(0.5)

    def tearDown(self):
        self.assertTrue(self.server.process.alive(), self.server.process.log()[-2000:])
        self.good_client_is_answered()
        self.assertLess((self.server.rss_kib() - self.first_rss) / 1024, 128)

    def good_client_is_answered(self):
        calls = Calls(self.server.address)
        self.assertEqual(calls.pull("w"), ([0.0] * 4, 0))
        calls.channel.close()

    def each(self, cases):
        """Each on a connection of its own, which is left once the server has answered a ping, or
        hung up, or waits for the rest of something."""
        for data in cases:
            with Peer(self.port, b"") as peer:
                peer.send(data)
                peer.pong(0.05)

    def test_prefaces_that_are_none(self):
        dice = random.Random(1)
        self.each([b"", b"\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"PRI * HTTP/1.1\r\n\r\n",
                   b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500), PREFACE[:10],
                   PREFACE, PREFACE + bytes(9), PREFACE + b"\xff" * 9, PREFACE[:-1] + b"x",
                   PREFACE + frame(PING, payload=bytes(8)), PREFACE + HELLO, bytes(100000),
                   *(dice.randbytes(dice.randrange(200)) for _ in range(20)),
                   *(HELLO + dice.randbytes(dice.randrange(200)) for _ in range(50))])

    def test_frames_against_the_rules(self):
        start = whole_headers()
        self.each([HELLO + data for data in (
            frame(SETTINGS, payload=b"abc"), frame(SETTINGS, ACK, payload=bytes(6)),
            frame(SETTINGS, stream=1), settings((4, 0xffffffff)), settings((5, 0)),
            settings((2, 7)), settings((0x9999, 1)), frame(PING, payload=b"short"),
            frame(PING, stream=3, payload=bytes(8)), frame(DATA, stream=1, payload=b"x"),
            frame(DATA, stream=0, payload=b"x"), frame(RST_STREAM, stream=7, payload=bytes(4)),
            frame(RST_STREAM, stream=0, payload=bytes(4)), frame(RST_STREAM, stream=1),
            frame(CONTINUATION, END_HEADERS, 1, b""), frame(PUSH_PROMISE, 4, 1, bytes(4)),
            frame(PRIORITY, stream=1, payload=b"\0\0\0\1\0"), frame(99, 255, 5, b"unknown"),
            frame(GOAWAY, payload=bytes(8)), frame(GOAWAY, payload=b""),
            frame(HEADERS, END_HEADERS, 0, call_headers(PULL)),
            frame(HEADERS, END_HEADERS, 2, call_headers(PULL)),
            frame(HEADERS, END_HEADERS, 2**31 - 1, call_headers(PULL)) + whole_headers(1),
            whole_headers(5) + whole_headers(3), start + start,
            start + frame(DATA, END_STREAM, 1, b"") + frame(DATA, 0, 1, b"after the end"),
            start + frame(DATA, PADDED, 1, b"\xffx"), start + frame(DATA, PADDED, 1, b""),
            frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff"),
            frame(DATA, 0, 1, b"", length=2**24 - 1) + bytes(1000),
            frame(HEADERS, 0, 1, call_headers(PULL)) + frame(PING, payload=bytes(8)))])

    def test_windows_that_overflow_or_do_not_grow(self):
        most = struct.pack(">I", 2**31 - 1)
        for stream in (0, 1):
            start = HELLO + (whole_headers() if stream else b"")
            self.each([start + frame(WINDOW_UPDATE, 0, stream, most) * 3,
                       start + frame(WINDOW_UPDATE, 0, stream, bytes(4)),
                       start + frame(WINDOW_UPDATE, 0, stream, b"abc")])
        self.each([HELLO + whole_headers() + settings((4, 2**31 - 1)) +
                   frame(WINDOW_UPDATE, 0, 1, most)])

    def test_floods_of_settings_pings_and_resets(self):
        for one in (settings(), settings((4, 65535)), frame(PING, payload=bytes(8)),
                    frame(PING, ACK, payload=bytes(8)), frame(WINDOW_UPDATE, payload=b"\0\0\0\1"),
                    frame(PRIORITY, stream=9, payload=bytes(5)), frame(99, 0, 0, b"x"),
                    whole_headers(1) + frame(DATA, 0, 1) * 10):
            with Peer(self.port) as peer:
                # The flooder reads nothing: what the server answers piles up somewhere.
                peer.socket.settimeout(2)
                for _ in range(5):
                    if not peer.send(one * 1000):
                        break
                self.good_client_is_answered()

    def test_rapid_reset(self):
        """With and without the whole request in front of the reset."""
        for data in (lambda i: whole_headers(i), lambda i: request(i, PULL, NAME),
                     lambda i: request(i, PUSH, b"nonsense")):
            with Peer(self.port) as peer:
                peer.socket.settimeout(5)
                for i in range(1000):
                    reset = frame(RST_STREAM, 0, 2 * i + 1, struct.pack(">I", 8))
                    if not peer.send(data(2 * i + 1) + reset):
                        break
                self.good_client_is_answered()

    def test_headers_without_end_and_without_measure(self):
        part = field("x", "y" * 16000)
        with Peer(self.port) as endless:
            endless.socket.settimeout(5)
            endless.send(frame(HEADERS, 0, 1, call_headers(PULL)))
            for _ in range(2000):
                if not endless.send(frame(CONTINUATION, 0, 1, part)):
                    break
            self.good_client_is_answered()
        with Peer(self.port) as empty:
            empty.socket.settimeout(5)
            empty.send(frame(HEADERS, 0, 1, call_headers(PULL)))
            empty.send(frame(CONTINUATION, 0, 1) * 20000)
            self.good_client_is_answered()
        with Peer(self.port) as large:
            large.socket.settimeout(5)
            value = field("x", "y" * (1 << 20))
            large.send(frame(HEADERS, 0, 1, call_headers(PULL)))
            for i in range(0, len(value), 16384):
                last = END_HEADERS if i + 16384 >= len(value) else 0
                large.send(frame(CONTINUATION, last, 1, value[i:i + 16384]))
            large.send(frame(DATA, END_STREAM, 1, grpc_message(NAME)))
            self.good_client_is_answered()

    def test_header_tables_that_are_bent(self):
        grow = b"\x40" + text("x") + text("y" * 4000)
        for block in (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x80", integer(62, 7, 0x80),
                      integer(1 << 30, 5, 0x20), b"\x00\x83\xff\xff\xff\x00", b"\x00\x7f",
                      b"\x00" + integer(1 << 40, 7) + b"x", grow + integer(62, 7, 0x80) * 4000,
                      grow * 4, field(":path", PULL) * 2, field("UPPER", "x"), field("", ""),
                      field("a\0b", "c\r\nd: e"), field("x-bin", "!!!not base64!!!")):
            self.each([HELLO + frame(HEADERS, END_HEADERS, 1, call_headers(PULL) + block) +
                       frame(DATA, END_STREAM, 1, grpc_message(NAME)),
                       HELLO + frame(HEADERS, END_HEADERS, 1, block)])

    def test_calls_that_are_none(self):
        bodies = [grpc_message(NAME, length=2**32 - 1), grpc_message(NAME, length=2**31),
                  grpc_message(NAME, flag=1), grpc_message(NAME, flag=2), grpc_message(NAME, 255),
                  grpc_message(NAME) * 3, grpc_message(NAME)[:3], b"", grpc_message(NAME) + b"\0"]
        self.each([HELLO + whole_headers() + frame(DATA, END_STREAM, 1, body) for body in bodies])
        for headers in (call_headers(PULL, method="GET"), call_headers(PULL, method="BREW"),
                        call_headers(PULL, content_type="text/html"), call_headers(""),
                        call_headers("no slash"), call_headers(PULL, ("grpc-timeout", "soon")),
                        call_headers(PULL, ("grpc-timeout", "99999999999H")),
                        call_headers(PULL, ("grpc-timeout", "-1S")),
                        call_headers(PULL, ("grpc-encoding", "magic")),
                        call_headers(PULL, ("grpc-encoding", "gzip")), field(":path", PULL), b""):
            self.each([HELLO + frame(HEADERS, END_HEADERS, 1, headers) +
                       frame(DATA, END_STREAM, 1, grpc_message(NAME, flag=flag))
                       for flag in (0, 1)])

    def test_silent_peers_keep_nobody_out_and_are_dropped(self):
        peers = [Peer(self.port, (b"", PREFACE[:5], PREFACE, HELLO)[i % 4]) for i in range(200)]
        try:
            self.good_client_is_answered()
            wait_until(lambda: descriptors(self.server.pid) >= self.first_descriptors + 150,
                       "most of them are there")
            # The last of each four has said hello, and may stay.
            wait_until(lambda: descriptors(self.server.pid) < self.first_descriptors + 75,
                       "those who never said hello are dropped")
        finally:
            for peer in peers:
                peer.socket.close()
        wait_until(lambda: descriptors(self.server.pid) < self.first_descriptors + 20,
                   "descriptors come back")

    def test_a_peer_that_keeps_to_the_rules_is_answered(self):
        """What the other tests send is what a server understands, but for their mischief."""
        with Peer(self.port) as peer:
            peer.send(request(1, PULL, NAME))
            self.assertTrue(peer.hears(NAME, PATIENCE))

    def test_a_reader_that_does_not_read_keeps_no_call_from_others(self):
        """As many answers as one connection may wait for, and nobody takes them."""
        for path in (PULL, HEALTH + "Check", "/pserver.v1.Admin/GetStatus",
                     "/pserver.v1.Admin/ListParams"):
            with NotReading(self.port, path):
                self.good_client_is_answered()
                self.assertEqual(self.health(), SERVING)
                self.assertEqual(self.server.psctl("status").returncode, 0)

    def test_watchers_keep_no_watcher_out(self):
        with Peer(self.port) as crowd:
            for i in range(256):
                crowd.send(request(2 * i + 1, HEALTH + "Watch"))
            self.assertTrue(crowd.pong(PATIENCE))
            watch = self.server.calls.channel.unary_stream(HEALTH + "Watch")(b"", timeout=PATIENCE)
            self.assertEqual(next(watch), SERVING)
            watch.cancel()

    def health(self):
        check = self.server.calls.channel.unary_unary(HEALTH + "Check")
        return check(b"", timeout=PATIENCE)


class NotReading(Peer):
    """256 calls, as many as a connection may have, whose answers have no room: the window is 0."""

    def __init__(self, port, path):
        super().__init__(port, PREFACE + settings((4, 0)))
        self.socket.sendall(frame(SETTINGS, ACK))
        for i in range(256):
            self.send(request(2 * i + 1, path, NAME if path == PULL else b""))
        if not self.pong(PATIENCE):
            raise AssertionError("the server does not answer a ping")


class Patience(unittest.TestCase):
    def test_answers_that_nobody_takes_are_given_up(self):
        with Server("--reply-timeout", "3s", "--log-level", "debug") as server:
            server.make_ready()
            readers = [NotReading(server.port, PULL) for _ in range(3)]
            try:
                self.assertEqual(server.calls.pull("w"), ([0.0] * 4, 0))
                server.process.wait_event("reply given up: nobody takes it")
                self.assertEqual(Calls(server.address).pull("w"), ([0.0] * 4, 0))
            finally:
                for reader in readers:
                    reader.socket.close()


class Descriptors(unittest.TestCase):
    def test_a_server_without_descriptors_serves_again_when_there_are_some(self):
        with Server() as server:
            server.make_ready()
            limit = descriptors(server.pid) + 20
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (limit, limit))
            peers = []
            for _ in range(60):
                peers.append(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
            wait_until(lambda: "ulimit -n" in server.process.log(), "connections are turned away")
            self.assertEqual(server.calls.push("w", [-1.0] * 4), 1)
            # What connections may not have is left for the checkpoint.
            server.calls.channel.unary_unary("/pserver.v1.Admin/SaveCheckpoint")(
                b"", timeout=PATIENCE)
            for peer in peers:
                peer.close()
            again = Calls(server.address)
            self.assertEqual(again.pull("w"), ([1.0] * 4, 1))
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0, server.process.log()[-2000:])

    def test_a_checkpoint_without_a_descriptor_is_tried_again(self):
        with Server() as server:
            server.make_ready()
            self.assertEqual(server.calls.push("w", [-1.0] * 4), 1)
            few = (3, resource.prlimit(server.pid, resource.RLIMIT_NOFILE)[1])
            many = resource.prlimit(server.pid, resource.RLIMIT_NOFILE, few)
            save = server.calls.channel.unary_unary("/pserver.v1.Admin/SaveCheckpoint")
            waiting = save.future(b"", timeout=PATIENCE)
            wait_until(lambda: "Too many open files" in server.process.log(),
                       "the checkpoint fails for want of a descriptor")
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, many)
            waiting.result(PATIENCE)
            self.assertEqual(server.calls.pull("w"), ([1.0] * 4, 1))


if __name__ == "__main__":
    unittest.main(verbosity=2)
