# SPDX-License-Identifier: Apache-2.0
"""Workers that make every step together: sums that say who was counted, and the example."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

import numpy as np
import pserver
from pserver.testing import Server

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EXAMPLES = os.path.join(REPOSITORY, "client", "python", "examples")
ITERATIONS = 100


class Bsp(unittest.TestCase):
    """Bulk synchronous: what a worker reads in iteration i has all of iteration i - 1, and nothing
    of iteration i."""

    def setUp(self):
        self.server = self.enterContext(Server(data=False))
        self.wrong = []

    def work(self, worker, workers):
        ps = self.enterContext(pserver.connect(self.server.address, timeout=120))
        rounds = pserver.Rounds(workers, combine="sum")
        ps.initialize({"w": np.zeros(3, np.float32)}, pserver.Add(rounds=rounds))
        values = ps.pull()
        for iteration in range(ITERATIONS):
            if not (values["w"] == workers * iteration).all():
                self.wrong.append((worker, iteration, values["w"].tolist()))
            values = ps.push_pull({"w": np.ones(3, np.float32)}, worker=worker)
        if ps.versions["w"] != ITERATIONS or ps.late:
            self.wrong.append((worker, ps.versions["w"], ps.late))

    def check(self, workers):
        threads = [threading.Thread(target=self.work, args=(worker, workers))
                   for worker in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.wrong, [])

    def test_the_pull_of_iteration_i_is_exactly_2_i(self):
        self.check(2)

    def test_the_pull_of_iteration_i_is_exactly_8_i(self):
        self.check(8)

    def test_the_pull_of_iteration_i_is_exactly_32_i(self):
        self.check(32)


class Together(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())
        self.one, self.other = (
            self.enterContext(pserver.connect(self.server.address, timeout=120)) for _ in "12")

    def late(self, kind, words, call):
        """The call hears in the server's words why its time is over, a little before that. Where a
        busy machine takes longer than a little, it is made again with more time."""
        for timeout in (0.2, 4, 60):
            with self.assertRaises(pserver.Error) as caught:
                call(timeout)
            if re.search(words, str(caught.exception)):
                break
        self.assertIsInstance(caught.exception, kind)
        self.assertRegex(str(caught.exception), words)

    def test_workers_have_ranks_and_barriers(self):
        me, you = self.one.worker(name="a", size=2), self.other.worker(name="b", size=2)
        self.assertEqual((me.rank, you.rank, me.size), (0, 1, 2))
        self.assertEqual([(w.rank, w.name) for w in self.one.workers("workers")],
                         [(0, "a"), (1, "b")])
        meeting = threading.Thread(target=you.barrier, args=("epoch", 1))
        meeting.start()
        me.barrier("epoch", 1)
        meeting.join()
        self.late(pserver.UnknownOutcomeError, "missing: 1 .b",
                  lambda timeout: me.barrier("epoch", 2, timeout=timeout))
        you.leave()
        self.assertEqual([w.name for w in self.one.workers("workers")], ["a"])

    def test_a_pull_by_clocks_waits_for_the_slower_worker(self):
        self.one.initialize({"w": np.zeros(3, np.float32)})
        clocks = self.one.clocks("epoch", 2, "ssp", staleness=1)
        for clock in (1, 2):
            self.assertEqual(clocks.clock(0, clock), clock)
        self.one.pull(["w"], at=clocks.at(0, 1))
        self.late(pserver.UnavailableError, "worker 1 has ended 0, and is silent for",
                  lambda timeout: self.one.pull(["w"], at=clocks.at(0, 2), timeout=timeout))
        self.other.clocks("epoch", 2, "ssp", staleness=1).clock(1, 1)
        self.one.pull(["w"], at=clocks.at(0, 2))
        progress = clocks.progress(at_least=1)
        self.assertEqual(progress.minimum, 1)
        self.assertEqual([worker.clock for worker in progress.workers], [2, 1])
        with self.assertRaises(pserver.NotFoundError):
            self.one.pull(["w"], at=clocks.at(7, 2))

    def test_clocks_that_are_removed_end_what_waits_by_them_and_begin_anew(self):
        self.one.initialize({"w": np.zeros(3, np.float32)})
        clocks = self.one.clocks("over", 2, "bsp")
        clocks.clock(0, 1)
        seen = []

        def wait():
            try:
                self.other.pull(["w"], at=clocks.at(0, 1), timeout=3600)
            except pserver.NotFoundError as error:
                seen.append(str(error))

        waiting = threading.Thread(target=wait)
        waiting.start()
        self.one.remove_clocks("over")
        self.one.remove_clocks("over")  # of none: no error
        waiting.join()
        self.assertIn("clocks over are not set at this server", seen[0])
        with self.assertRaises(pserver.NotFoundError):
            clocks.clock(0, 2)
        again = self.other.clocks("over", 2, "bsp").progress()
        self.assertEqual([worker.clock for worker in again.workers], [0, 0])


class Example(unittest.TestCase):
    def test_data_parallel_comes_to_the_same_bits_in_three_ways(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "train.svm")
            subprocess.run([os.path.join(os.environ["PS_BIN"], "pstrain"), "generate", "--out",
                            data, "--rows", "12000", "--features", "123"], check=True,
                           stdout=subprocess.DEVNULL)
            done = subprocess.run(
                [sys.executable, "-B", os.path.join(EXAMPLES, "data_parallel.py"), "--data", data],
                capture_output=True, text=True, check=False)
        print(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
