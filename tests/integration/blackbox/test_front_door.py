# SPDX-License-Identifier: Apache-2.0
"""Attacks on connections and frames, small: the server refuses them by name and stays small, and
an honest trainer sees nothing of them. tests/chaos/front_door has the large form, and its times."""

import os
import socket
import ssl
import struct
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "chaos"))

from authority import Authority  # noqa: E402
from blackbox import PATIENCE, Server, wait_until  # noqa: E402
from frames import PREFACE, RST_STREAM, frame, settings  # noqa: E402
from front_attacks import start_of_call  # noqa: E402
from front_measure import VALUES, attack, page, refusals, start_server  # noqa: E402


class Attacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = start_server()
        cls.addClassCleanup(cls.server.__exit__)

    def refuses(self, name, reason, size, count=3):
        """On a busy machine a second is not enough for every attack: it comes until it is met."""
        before = refusals(self.server).get(reason, 0)
        met = False
        for _ in range(20):
            row = attack(self.server, name, count, 1, size)
            self.assertEqual(row["failed"], 0, row)
            self.assertLess(row["rss_mib"] - row["rss_before_mib"], 256, row)
            met = row.get("refused", {}).get(reason, 0) > before
            if met:
                break
        self.assertTrue(met, row)

    def test_calls_of_a_peer_that_acknowledges_no_settings(self):
        self.refuses("unacknowledged_calls", "open_streams", 1000)

    def test_answers_that_nobody_reads(self):
        self.refuses("unread_answers", "open_streams", 2000)

    def test_rapid_reset(self):
        self.refuses("rapid_reset", "resets", 5000)

    def test_rapid_reset_of_whole_calls(self):
        self.refuses("rapid_reset_whole", "resets", 5000)

    def test_a_header_that_does_not_end(self):
        self.refuses("endless_header", "header_bytes", 2)

    def test_slow_visitors_of_the_http_port(self):
        self.refuses("slow_http", "http_connections", 70, count=1)

    def test_the_door_was_tried_at_the_start(self):
        self.assertIn("\nps_front_guarded 1\n", page(self.server, "/metrics"))


class Bounds(unittest.TestCase):
    def test_requests_that_are_not_whole(self):
        with Server("--message-bytes", "1MiB", "--client-bytes", "4MiB", http=True) as server:
            server.make_ready("w", VALUES)
            row = attack(server, "unfinished_messages", 2, 2, 60)
            self.assertEqual(row["failed"], 0, row)
            self.assertLess(row["rss_mib"] - row["rss_before_mib"], 64, row)

    def test_a_request_that_stands_still(self):
        with Server("--reply-timeout", "1s", http=True) as server:
            server.make_ready("w", VALUES)
            with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as peer:
                peer.sendall(PREFACE + settings() + start_of_call(1))
                heard = b""
                while more := peer.recv(4096):
                    heard += more
                self.assertIn(b"--reply-timeout", heard)
            wait_until(lambda: refusals(server) == {"stalled_request": 1}, "it is counted")

    def test_connections_beyond_the_option(self):
        with Server("--connections", "3", http=True) as server:
            server.make_ready("w", VALUES)
            peers = [socket.create_connection(("127.0.0.1", server.port), PATIENCE)
                     for _ in range(6)]
            wait_until(lambda: refusals(server).get("connections", 0) >= 4, "they are refused")
            self.assertEqual(server.calls.push("w", VALUES), 1)
            for peer in peers:
                peer.close()


class Tls(unittest.TestCase):
    def test_frames_behind_the_cipher_are_bounded(self):
        with tempfile.TemporaryDirectory() as folder:
            authority = Authority(os.path.join(folder, "certificates"))
            authority.sign("server", "DNS:localhost,IP:127.0.0.1")
            with Server(*authority.server_flags("--tls-client-auth", "none"), http=True) as server:
                context = ssl.create_default_context()
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE
                context.set_alpn_protocols(["h2"])
                with socket.create_connection(("127.0.0.1", server.port), PATIENCE) as plain, \
                        context.wrap_socket(plain) as peer:
                    peer.sendall(PREFACE + settings())
                    reset = struct.pack(">I", 8)
                    with self.assertRaises(OSError):
                        for i in range(10000):
                            peer.sendall(start_of_call(2 * i + 1) +
                                         frame(RST_STREAM, 0, 2 * i + 1, reset))
                wait_until(lambda: refusals(server) == {"resets": 1}, "it is counted")


if __name__ == "__main__":
    unittest.main(verbosity=2)
