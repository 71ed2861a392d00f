# SPDX-License-Identifier: Apache-2.0
"""The Python package: values from process to process, with two servers."""

import subprocess
import sys
import threading
import unittest

import numpy as np
import pserver
from pserver.testing import Server

CHILD = """
import sys, numpy as np, pserver
with pserver.connect(sys.argv[1], timeout=60) as ps, ps.rendezvous(5) as step:
    for number in range(3):
        got = step.recv("there")
        step.send("back", got * 2)
"""


class Rendezvous(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.servers = [cls.enterClassContext(Server()) for _ in range(2)]
        cls.addresses = ",".join(server.address for server in cls.servers)

    def setUp(self):
        self.ps = self.enterContext(pserver.connect(self.addresses, timeout=60))

    def step(self, number, **options):
        return self.enterContext(self.ps.rendezvous(number, **options))

    def test_arrays_go_from_process_to_process(self):
        step = self.step(5)
        with subprocess.Popen([sys.executable, "-c", CHILD, self.addresses]) as child:
            for number in range(3):
                sent = np.full((4, 5), number, np.float64)
                step.send("there", sent)
                got = step.recv("back")
                self.assertEqual(got.dtype, np.float64)
                np.testing.assert_array_equal(got, sent * 2)
        self.assertEqual(child.returncode, 0)

    def test_every_type_and_shape_comes_back(self):
        step = self.step(6)
        values = [np.arange(6, dtype=dtype).reshape(2, 3) for dtype in (
            np.int32, np.uint32, np.int64, np.uint64, np.float32, np.float64, np.float16, np.int8,
            np.uint8, np.int16, np.uint16, np.complex64, np.complex128)]
        values += [np.array([True, False]), np.float32(3.5), np.zeros((0, 7), np.float32),
                   np.arange(20, dtype=np.float32)[::2]]
        for value in values:
            step.send("v", value)
        for value in values:
            got = step.recv("v")
            self.assertEqual((got.dtype, got.shape), (value.dtype, np.shape(value)))
            np.testing.assert_array_equal(got, value)
        for value in (b"", b"some bytes", bytearray(b"x")):
            step.send("b", value)
            self.assertEqual(step.recv("b"), bytes(value))
        step.send("d", pserver.DEAD)
        self.assertIs(step.recv("d"), pserver.DEAD)
        with self.assertRaises(TypeError):
            step.send("o", np.array([object()]))

    def test_large_arrays_come_in_ranges(self):
        step = self.step(7)
        sent = np.arange(10_000_000, dtype=np.float64)
        step.send("large", sent)
        got = step.recv("large")
        np.testing.assert_array_equal(got, sent)
        got += 1  # the receiver's own
        self.assertEqual(got[0], 1)

    def test_many_keys_are_one_call(self):
        step = self.step(8)
        keys = [f"k{number}" for number in range(500)]
        waiting = threading.Thread(target=lambda: [step.send(key, np.array([number]))
                                                   for number, key in enumerate(keys)])
        waiting.start()
        got = step.recv_many(keys)
        waiting.join()
        self.assertEqual([int(value[0]) for value in got], list(range(500)))

    def test_an_abort_reaches_who_waits_and_who_comes_later(self):
        step = self.step(9)
        failures = []

        def wait():
            try:
                step.recv("never")
            except pserver.AbortedError as error:
                failures.append(str(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        step.abort("fantasia!")
        waiting.join()
        self.assertIn("fantasia!", failures[0])
        with self.assertRaisesRegex(pserver.AbortedError, "fantasia!"):
            step.send("x", b"")

    def test_a_cleanup_ends_the_step_and_a_number_may_come_again(self):
        step = self.step(10)
        step.send("x", b"old")
        step.cleanup()
        again = self.step(10)
        again.send("x", b"new")
        self.assertEqual(again.recv("x"), b"new")
        with self.assertRaises(pserver.AbortedError):
            step.recv("x", timeout=5)

    def test_strict_steps_and_time(self):
        step = self.step(11, strict=True)
        step.send("x", b"1")
        with self.assertRaisesRegex(pserver.AbortedError, "Duplicated send: x"):
            step.send("x", b"2")
        with self.assertRaises(pserver.UnknownOutcomeError):
            step.recv("y", timeout=0.01)
        with self.assertRaises(pserver.FailedError):
            self.step(11)

    def test_a_client_with_an_open_step_is_not_closed(self):
        with pserver.connect(self.addresses) as ps:
            with ps.rendezvous(12) as step:
                with self.assertRaises(RuntimeError):
                    ps.close()
            with self.assertRaises(RuntimeError):
                step.send("x", b"")


if __name__ == "__main__":
    unittest.main()
