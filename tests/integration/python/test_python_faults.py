# SPDX-License-Identifier: Apache-2.0
"""The Python package when things go wrong: signals, forks, servers that die or stand still."""

import _thread
import os
import subprocess
import sys
import threading
import time
import unittest

import numpy as np
import pserver
from pserver.testing import Server

F4 = np.float32
ONES = {"w": np.ones(4, F4)}
PATIENCE = 120


class Faults(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server("--ack=logged"))

    def connect(self, **options):
        client = self.enterContext(pserver.connect(self.server.address, **options))
        client.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))
        return client

    def test_nobody_there_is_said_at_once(self):
        with self.assertRaises(pserver.UnavailableError) as caught:
            pserver.connect("127.0.0.1:1", wait=0.2)
        self.assertTrue(caught.exception.retryable)
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_a_server_that_is_killed_loses_no_push_and_repeats_none(self):
        client = self.connect()
        for step in range(30):
            if step == 10:
                self.server.kill()
                threading.Timer(0.2, self.server.start).start()
            client.push(ONES)
        self.assertEqual(client.parameters()["w"].version, 30)
        np.testing.assert_array_equal(client.pull()["w"], np.full(4, -30, F4))

    def test_ctrl_c_is_heard_while_a_call_waits(self):
        client = self.connect(timeout=PATIENCE)
        self.server.pause()
        begun = time.monotonic()
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.3, _thread.interrupt_main).start()
            client.push(ONES)
        self.assertLess(time.monotonic() - begun, PATIENCE / 2)
        self.server.resume()
        client.close()
        with pserver.connect(self.server.address) as other:
            self.assertLessEqual(other.parameters()["w"].version, 1)

    def test_a_wait_that_is_too_short_leaves_the_operation_going(self):
        client = self.connect()
        self.server.pause()
        pushed = client.push_async(ONES)
        with self.assertRaises(TimeoutError):
            pushed.wait(0.1)
        self.assertFalse(pushed.done())
        self.server.resume()
        self.assertEqual(pushed.wait(), {"w": 1})

    def test_a_timeout_that_passes_leaves_a_push_unknown(self):
        client = self.connect()
        self.server.pause()
        with self.assertRaises(pserver.UnknownOutcomeError) as caught:
            client.push(ONES, timeout=0.3)
        self.assertFalse(caught.exception.retryable)
        self.server.resume()

    def test_a_trainer_that_comes_back_knows_how_far_it_was(self):
        with pserver.connect(self.server.address, client_id="trainer-0") as client:
            client.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))
            self.assertEqual(client.last_applied().pushes("w"), 0)
            for _ in range(3):
                client.push(ONES)
        self.server.kill()
        self.server.start()
        with pserver.connect(self.server.address, client_id="trainer-0") as client:
            applied = client.last_applied()
            self.assertTrue(applied.known and applied.whole)
            self.assertEqual(applied.pushes("w"), 3)
            self.assertEqual(client.push(ONES), {"w": 4})
        with pserver.connect(self.server.address) as client, \
                self.assertRaises(pserver.InvalidError):
            client.last_applied()

    def test_a_closed_client_says_so(self):
        client = self.connect()
        client.close()
        client.close()
        self.assertTrue(client.closed)
        self.assertIn("closed", repr(client))
        for call in (lambda: client.push(ONES), client.pull, client.status):
            with self.assertRaises(pserver.ClosedError):
                call()

    def test_a_forked_child_is_told_instead_of_hanging(self):
        client = self.connect()
        pushed = client.push_async(ONES)
        child = os.fork()
        if child == 0:
            try:
                client.push(ONES)
            except pserver.ForkedError:
                del pushed, client
                os._exit(0)
            os._exit(1)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
        self.assertEqual(pushed.wait(), {"w": 1})
        self.assertEqual(client.push(ONES), {"w": 2})

    def test_a_forked_child_connects_only_where_its_parent_did_not(self):
        """With gRPC in both, the child's events came to the parent, which ended with a signal."""
        def in_child(expected):
            child = os.fork()
            if child == 0:
                seen = None
                try:
                    with pserver.connect(self.server.address, timeout=PATIENCE) as own:
                        own.status()
                except pserver.Error as error:
                    seen = type(error)
                os._exit(0 if seen is expected else 1)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)

        client = self.connect()
        for i in range(10):
            in_child(pserver.ForkedError)
            self.assertEqual(client.push(ONES), {"w": i + 1})
        client.close()
        in_child(None)

    def test_an_interpreter_that_ends_with_an_open_client_ends(self):
        work = ("import numpy as np, pserver, sys\n"
                "ps = pserver.connect(sys.argv[1])\n"
                "ps.initialize({'w': np.zeros(4, np.float32)})\n"
                "kept = ps.push_async({'w': np.ones(4, np.float32)})\n")
        done = subprocess.run([sys.executable, "-c", work, self.server.address],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
