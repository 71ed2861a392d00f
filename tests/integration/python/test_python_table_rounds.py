# SPDX-License-Identifier: Apache-2.0
"""The Python package: tables that are trained in rounds, beside a model of the same arithmetic."""

import asyncio
import collections
import os
import threading
import unittest

import numpy as np
import pserver
import pserver.aio
from pserver.testing import Server

F4 = np.float32
WIDTH = 3
WORKERS = 3
SEED = int(os.environ.get("PS_SEED", "7"))


def work_of(rank, step):
    """Keys of a step, some of them more than once and some of several workers, and gradients."""
    random = np.random.default_rng([SEED, rank, step])
    keys = random.integers(0, 40, 30).astype(np.uint64)
    return keys, random.normal(size=(30, WIDTH)).astype(F4)


def summed(keys, gradients):
    """One gradient for each key, added in their order."""
    sums = {}
    for key, gradient in zip(keys.tolist(), gradients):
        sums[key] = sums[key] + gradient if key in sums else gradient
    return sums


def model_of(steps, combine):
    """Rows as the rounds make them: contributions in the order of ranks, then one step of SGD."""
    rows = collections.defaultdict(lambda: np.zeros(WIDTH, F4))
    for step in range(steps):
        joined = {}
        for rank in range(WORKERS):
            for key, gradient in summed(*work_of(rank, step)).items():
                joined[key] = joined[key] + gradient if key in joined else gradient
        for key, gradient in joined.items():
            divided = gradient / F4(WORKERS) if combine == "average" else gradient
            rows[key] = rows[key] - divided
    return rows


class TwoServers(unittest.TestCase):
    def setUp(self):
        self.servers = [self.enterContext(Server()) for _ in range(2)]
        print("seed", SEED)

    def connect(self):
        return self.enterContext(pserver.connect(
            ",".join(server.address for server in self.servers), timeout=120))

    def define(self, rounds, width=WIDTH, optimizer=lambda rounds: pserver.SGD(1.0, rounds=rounds)):
        ps = self.connect()
        ps.initialize({})
        return ps, ps.table("t", width, optimizer(rounds=rounds))

    def together(self, *steps):
        """Each in a thread of its own; what they return, in order."""
        found = [None] * len(steps)

        def run(number):
            found[number] = steps[number]()

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(steps))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found

    def train(self, rank, steps):
        """A client of its own; or all workers on one, whose steps then take two calls."""
        with self.connect() as ps, ps.table("t") as table:
            every = np.arange(40, dtype=np.uint64)
            rows = table.get(every)
            for step in range(steps):
                rows = table.push_pull(*work_of(rank, step), every, worker=rank)
                self.assertEqual((table.version, table.late), (step + 1, 0))
            return rows

    def test_every_worker_reads_the_bits_of_the_formula(self):
        for combine in ("sum", "average"):
            with self.subTest(combine):
                ps, _ = self.define(pserver.Rounds(WORKERS, combine=combine))
                found = self.together(*(lambda rank=rank: self.train(rank, 6)
                                        for rank in range(WORKERS)))
                model = model_of(6, combine)
                for rows in found:
                    for key in range(40):
                        np.testing.assert_array_equal(rows[key], model[key])
                ps.drop(["t"])

    def test_workers_of_one_client_step_together(self):
        ps, _ = self.define(pserver.Rounds(WORKERS, combine="sum"))
        every = np.arange(40, dtype=np.uint64)
        tables = [ps.table("t") for _ in range(WORKERS)]

        def train(rank):
            for step in range(5):
                rows = tables[rank].push_pull(*work_of(rank, step), every, worker=rank)
            return rows

        found = self.together(*(lambda rank=rank: train(rank) for rank in range(WORKERS)))
        model = model_of(5, "sum")
        for rows in found:
            np.testing.assert_array_equal(rows, np.array([model[key] for key in range(40)]))

    def test_a_worker_without_rows_is_waited_for(self):
        _, table = self.define(pserver.Rounds(2))
        other = self.connect().table("t")
        with self.assertRaises(pserver.Error) as raised:
            table.push_pull([5], np.full((1, WIDTH), 2, F4), worker=0, timeout=0.3)
        self.assertIn("version 1 was waited for", str(raised.exception))
        # Made again, it counts once.
        found = self.together(
            lambda: table.push_pull([5], np.full((1, WIDTH), 2, F4), worker=0),
            lambda: other.push_pull([], [], [5, 9], worker=1))
        np.testing.assert_array_equal(found[0], np.full((1, WIDTH), -1, F4))
        np.testing.assert_array_equal(found[1], [[-1] * WIDTH, [0] * WIDTH])

    def test_a_worker_that_begins_anew_counts_once(self):
        _, first = self.define(pserver.Rounds(2, combine="sum"))
        again, other = self.connect().table("t"), self.connect().table("t")
        with self.assertRaises(pserver.Error):
            first.push_pull([1, 2], np.ones((2, WIDTH), F4), worker=0, timeout=0.3)
        first.close()
        found = self.together(
            lambda: again.push_pull([1, 2], np.ones((2, WIDTH), F4), worker=0),
            lambda: other.push_pull([1, 3], np.ones((2, WIDTH), F4), worker=1))
        np.testing.assert_array_equal(found[0][:, 0], [-2, -1])
        np.testing.assert_array_equal(found[1][:, 0], [-2, -1])

    def test_who_comes_late_is_told_and_goes_on(self):
        _, table = self.define(pserver.Rounds(2, quorum=1))
        other = self.connect().table("t")
        other.get([1])
        table.push_pull([1], np.ones((1, WIDTH), F4), worker=0)
        np.testing.assert_array_equal(
            other.push_pull([1], np.full((1, WIDTH), 9, F4), worker=1)[0], [-1] * WIDTH)
        self.assertGreater(other.late, 0)
        other.push_pull([1], np.ones((1, WIDTH), F4), worker=1)
        self.assertEqual((other.late, other.version), (0, 2))

    def test_adds_of_an_iteration_count_at_its_end(self):
        """The exact sums of a BSP program: an iteration reads workers times its number."""
        self.define(pserver.Rounds(WORKERS, combine="sum"), 1, pserver.Add)
        keys = np.arange(100, dtype=np.uint64)

        def work(rank):
            with self.connect() as ps, ps.table("t") as table:
                buffered = table.buffered(rank)
                for step in range(30):
                    rows = buffered.get(keys)
                    self.assertTrue((rows == WORKERS * step).all(), (rank, step, rows))
                    buffered.add(keys[:50], np.full(50, 0.5, F4))
                    buffered.add(keys[:50], np.full(50, 0.5, F4))
                    buffered.add(keys[50:], np.ones(50, F4))
                    buffered.step()
            return True

        found = self.together(*(lambda rank=rank: work(rank) for rank in range(WORKERS)))
        self.assertEqual(found, [True] * WORKERS)

    def test_a_push_without_a_worker_is_refused(self):
        _, table = self.define(pserver.Rounds(2))
        with self.assertRaises(pserver.InvalidError) as raised:
            table.add([1], np.ones((1, WIDTH), F4))
        self.assertIn("trained in rounds", str(raised.exception))

    def test_rounds_begin_and_end_while_a_job_trains(self):
        ps, table = self.define(None)
        table.add([1], np.ones((1, WIDTH), F4))
        ps.configure("t", rounds=pserver.Rounds(1))
        table.push_pull([1], np.ones((1, WIDTH), F4), worker=0)
        ps.configure("t", rounds=pserver.Rounds(0))
        table.add([1], np.ones((1, WIDTH), F4))
        np.testing.assert_array_equal(table.get([1])[0], [-3] * WIDTH)

    def test_aio_steps_too(self):
        self.define(pserver.Rounds(1))

        async def step():
            addresses = ",".join(server.address for server in self.servers)
            async with pserver.aio.connect(addresses) as ps:
                table = await ps.table("t")
                return await table.push_pull([4], np.ones((1, WIDTH), F4), worker=0)

        np.testing.assert_array_equal(asyncio.run(step())[0], [-1] * WIDTH)


if __name__ == "__main__":
    unittest.main()
