# SPDX-License-Identifier: Apache-2.0
"""A server at a unix socket that somebody has named: who may use it, what becomes of the file."""

import os
import signal
import socket
import stat
import tempfile
import unittest

from blackbox import Server, run
from calls import Calls
from cluster import wait_until


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "socket")

    def server(self):
        server = Server("--listen-unix", self.path)
        self.addCleanup(server.__exit__)
        return server

    def refused(self):
        return run("pserver", "--listen", "127.0.0.1:0", "--listen-unix", self.path)

    def is_served(self):
        return run("psctl", "status", "--servers", "unix:" + self.path).returncode == 0

    def test_a_foreign_client_trains_through_the_file(self):
        server = self.server()
        server.make_ready()
        calls = Calls("unix:" + self.path)
        calls.push("w", [1.0] * 4)
        self.assertEqual(list(calls.pull("w")[0]), [-1.0] * 4)
        self.assertTrue(self.is_served())

    def test_it_is_open_to_owner_and_group_alone(self):
        self.server()
        self.assertEqual(stat.S_IMODE(os.stat(self.path).st_mode), 0o660)

    def test_one_that_a_killed_server_left_is_replaced(self):
        server = self.server()
        os.kill(server.pid, signal.SIGKILL)
        server.process.child.wait()
        self.assertTrue(os.path.exists(self.path))
        server.start()
        self.assertTrue(self.is_served())

    def test_a_server_that_ends_takes_it_along(self):
        server = self.server()
        server.process.child.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.child.wait(20), 0)
        self.assertFalse(os.path.exists(self.path))

    def test_one_at_which_somebody_listens_stays(self):
        server = self.server()
        second = self.refused()
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("a server listens on " + self.path, second.stderr)
        self.assertTrue(self.is_served())
        self.assertIsNone(server.process.child.poll())

    def test_one_whose_listener_is_too_busy_to_accept_stays(self):
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(self.path)
            listener.listen(0)
            waiting = socket.socket(socket.AF_UNIX)
            waiting.connect(self.path)
            second = self.refused()
            waiting.close()
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("a server listens on", second.stderr)
        self.assertTrue(os.path.exists(self.path))

    def test_what_is_no_socket_stays(self):
        with open(self.path, "w", encoding="ascii") as file:
            file.write("precious")
        second = self.refused()
        self.assertNotEqual(second.returncode, 0)
        self.assertIn("is not a socket", second.stderr)
        with open(self.path, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_of_many_that_start_at_once_one_gets_it(self):
        ways = [Server("--listen-unix", self.path, wait=False) for _ in range(4)]
        for way in ways:
            self.addCleanup(way.__exit__)

        def alive():
            return [way for way in ways if way.process.child.poll() is None]

        wait_until(lambda: len(alive()) == 1, "one server is left")
        alive()[0].process.wait_event("listening")
        self.assertTrue(self.is_served())


class Words(unittest.TestCase):
    def check(self, text):
        return run("pserver", "--listen-unix", text, "--check-config")

    def test_paths_that_are_allowed(self):
        for text in ("/run/pserver.sock", "./socket"):
            self.assertEqual(self.check(text).returncode, 0, text)

    def test_others_are_refused_in_words(self):
        for text, words in (("auto", "expected a path"), ("off", "expected a path"),
                            ("", "expected a path"), ("/" + "x" * 200, "at most 107 bytes")):
            done = self.check(text)
            self.assertEqual(done.returncode, 64, text)
            self.assertIn(words, done.stderr)

    def test_a_folder_that_is_not_there_is_told(self):
        done = run("pserver", "--listen", "127.0.0.1:0", "--listen-unix", "/nowhere/at/all")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("No such file or directory", done.stderr)


if __name__ == "__main__":
    unittest.main()
