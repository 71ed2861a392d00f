# SPDX-License-Identifier: Apache-2.0
"""The Python package: ctrl-C in the middle of calls that would wait for an hour.

A call that does not hear it outlives the time of the test.
"""

import _thread
import signal
import threading
import unittest

import numpy as np
import pserver
from pserver.testing import Server

HOUR = 3600
KEYS = np.arange(3, dtype=np.uint64)
ROWS = np.ones((3, 2), np.float32)


class Interrupts(unittest.TestCase):
    """One server, which stands still while a call is interrupted."""

    def setUp(self):
        self.server = self.enterContext(Server("--ack=memory"))
        self.ps = self.enterContext(pserver.connect(self.server.address, timeout=HOUR))
        self.ps.initialize({"w": np.zeros(2, np.float32)})
        self.table = self.ps.table("rows", width=2)
        self.table.add(KEYS, ROWS)

    def interrupted(self, call, raised=KeyboardInterrupt):
        self.server.pause()
        self.addCleanup(self.server.resume)
        with self.assertRaises(raised) as caught:
            threading.Timer(0.3, _thread.interrupt_main).start()
            call()
        return caught.exception

    def test_a_read_of_rows(self):
        self.interrupted(lambda: self.table.get(KEYS))
        self.server.resume()
        np.testing.assert_array_equal(self.table.get(KEYS), -ROWS)

    def test_an_add_is_applied_once_or_not_at_all(self):
        self.interrupted(lambda: self.table.add(KEYS, ROWS))
        self.server.resume()
        rows = self.table.get(KEYS)
        self.assertIn(rows[0, 0], (-1, -2))
        np.testing.assert_array_equal(rows, np.full((3, 2), rows[0, 0]))

    def test_an_add_in_many_pieces(self):
        keys = np.arange(300_000, dtype=np.uint64)
        self.interrupted(lambda: self.table.add(keys, np.ones((len(keys), 2), np.float32)))
        self.server.resume()
        self.assertTrue(set(np.unique(self.table.get(keys[3:]))) <= {0, -1})

    def test_both_at_once(self):
        self.interrupted(lambda: self.table.add_get(KEYS, ROWS, KEYS))

    def test_reads_that_wait_for_another_worker(self):
        clocks = self.ps.clocks("pace", 2, "ssp", staleness=0)
        clocks.clock(0, 1)
        self.table.at(clocks.at(0, 1))
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.3, _thread.interrupt_main).start()
            self.table.get(KEYS)

    def test_a_read_that_was_begun_ahead(self):
        clocks = self.ps.clocks("sparse", 2, "sparse-ssp", staleness=1, speculation=2)
        self.table.at(clocks.at(0, 0))
        read = self.table.get_ahead(KEYS, 2)
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.3, _thread.interrupt_main).start()
            read.wait()

    def test_replicas(self):
        rows = self.enterContext(self.table.replica())
        dense = self.enterContext(self.ps.replica({"w": np.zeros(2, np.float32)}))
        for update in (rows.update, dense.update):
            self.interrupted(update)
            self.server.resume()
            update()
        self.assertEqual(len(rows), len(KEYS))

    def test_a_value_that_nobody_sends(self):
        step = self.enterContext(self.ps.rendezvous(1))
        with self.assertRaises(KeyboardInterrupt):
            threading.Timer(0.3, _thread.interrupt_main).start()
            step.recv("nobody")

    def test_questions_and_changes(self):
        for call in (self.ps.parameters, lambda: self.ps.drop(["w"]),
                     lambda: self.ps.clocks("pace", 2), lambda: self.ps.table("rows", width=2)):
            self.interrupted(call)
            self.server.resume()
        self.assertIn("rows", self.ps.parameters())

    def test_what_a_handler_raises_is_raised_and_a_handler_may_use_the_client(self):
        seen = []

        def handle(number, frame):
            self.server.resume()
            seen.append(self.table.get(KEYS)[0, 0])
            self.server.pause()
            raise SystemExit(7)

        former = signal.signal(signal.SIGINT, handle)
        self.addCleanup(signal.signal, signal.SIGINT, former)
        ended = self.interrupted(lambda: self.table.get(KEYS), SystemExit)
        self.assertEqual((ended.code, seen), (7, [-1]))

    def test_a_handler_that_raises_nothing_ends_no_call(self):
        heard = threading.Event()

        def handle(number, frame):
            heard.set()
            self.server.resume()

        former = signal.signal(signal.SIGINT, handle)
        self.addCleanup(signal.signal, signal.SIGINT, former)
        self.server.pause()
        threading.Timer(0.3, _thread.interrupt_main).start()
        np.testing.assert_array_equal(self.table.get(KEYS), -ROWS)
        self.assertTrue(heard.is_set())

    def test_another_thread_waits_on(self):
        self.server.pause()
        rows = []
        other = threading.Thread(target=lambda: rows.append(self.table.get(KEYS)))
        other.start()
        self.interrupted(lambda: self.table.get(KEYS))
        self.server.resume()
        other.join()
        np.testing.assert_array_equal(rows[0], -ROWS)


if __name__ == "__main__":
    unittest.main(verbosity=2)
