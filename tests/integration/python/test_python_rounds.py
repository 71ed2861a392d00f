# SPDX-License-Identifier: Apache-2.0
"""The Python package: parameters that are trained in rounds."""

import os
import sys
import threading
import unittest

import numpy as np
import pserver
from pserver import optimizers
from pserver.testing import Server

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "cluster"))

from calls import MESSAGES  # noqa: E402

F4 = np.float32


class Configuration(unittest.TestCase):
    def read(self, rounds):
        config = pserver.SGD(1.0, rounds=rounds).config()
        return MESSAGES["paddle.OptimizerConfig"].FromString(config)

    def test_rounds_are_those_of_the_proto(self):
        read = self.read(pserver.Rounds(4, 3, 2.5, "weighted", "next")).rounds
        self.assertEqual((read.workers, read.quorum, read.grace_ms, read.combine, read.late),
                         (4, 3, 2500, 2, 1))
        self.assertEqual(self.read(pserver.Rounds(2)).rounds.workers, 2)
        self.assertFalse(self.read(None).HasField("rounds"))

    def test_rounds_are_changed_while_a_job_trains(self):
        wanted = optimizers.change(None, rounds=pserver.Rounds(8, grace=0.5))
        read = MESSAGES["paddle.OptimizerConfig"].FromString(wanted)
        self.assertEqual((read.rounds.workers, read.rounds.grace_ms), (8, 500))
        ended = optimizers.change(None, rounds=pserver.Rounds(0))
        self.assertTrue(MESSAGES["paddle.OptimizerConfig"].FromString(ended).HasField("rounds"))

    def test_outer_is_that_of_the_proto(self):
        read = MESSAGES["paddle.OptimizerConfig"].FromString(pserver.Outer(0.5, 0.25).config())
        self.assertEqual((read.optimizer, read.outer.momentum, read.const_lr.learning_rate),
                         (208, 0.25, 0.5))


class Steps(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())

    def connect(self):
        return self.enterContext(pserver.connect(self.server.address, timeout=120,
                                                 encoding="bfloat16"))

    def begin(self, rounds, optimizer=pserver.SGD, values=None):
        ps = self.connect()
        ps.initialize(values or {"w": np.zeros(4, F4)}, optimizer(1.0, rounds=rounds))
        return ps

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

    def test_a_round_takes_one_gradient_of_every_worker(self):
        self.begin(pserver.Rounds(3))

        def work(rank):
            ps = self.connect()
            values = ps.pull()
            for step in range(5):
                ps.push_pull({"w": np.full(4, rank + step, F4)}, into=values, worker=rank)
                self.assertEqual(ps.versions["w"], step + 1)
            return values["w"].tolist()

        found = self.together(*(lambda rank=rank: work(rank) for rank in range(3)))
        self.assertEqual(found, [[-15.0] * 4] * 3)  # each round the mean of ranks and its number

    def test_a_worker_that_begins_anew_counts_once(self):
        self.begin(pserver.Rounds(2, combine="sum"))
        steps = [self.connect() for _ in range(3)]
        found = self.together(*(
            lambda ps=ps, rank=rank: ps.push_pull({"w": np.full(4, 1 + rank, F4)}, worker=rank)
            for ps, rank in zip(steps, (0, 0, 1))))
        self.assertEqual([values["w"].tolist() for values in found], [[-3.0] * 4] * 3)
        self.assertEqual([ps.versions["w"] for ps in steps], [1, 1, 1])

    def test_a_late_contribution_is_told(self):
        for late, after, version in (("drop", -1.0, 1), ("next", -3.0, 2)):
            with self.subTest(late), Server() as self.server:
                first = self.begin(pserver.Rounds(2, quorum=1, late=late))
                first.push_pull({"w": np.ones(4, F4)}, worker=0)
                self.assertEqual(first.late, frozenset())
                second = self.connect()
                values = second.push_pull({"w": np.full(4, 2, F4)}, worker=1)
                self.assertEqual(second.late, {"w"})
                self.assertEqual((values["w"].tolist(), second.versions["w"]),
                                 ([after] * 4, version))
                second.push_pull({"w": np.ones(4, F4)}, worker=1)
                self.assertEqual(second.late, frozenset())

    def test_a_step_whose_time_was_over_is_stepped_again(self):
        ps, other = self.begin(pserver.Rounds(2)), self.connect()
        gradient = {"w": np.ones(4, F4)}
        with self.assertRaises(pserver.Error):
            ps.push_pull(gradient, worker=0, timeout=0.3)
        found = self.together(
            lambda: ps.push_pull(gradient, worker=0),
            lambda: other.push_pull({"w": np.full(4, 3, F4)}, worker=1))
        self.assertEqual([values["w"].tolist() for values in found], [[-2.0] * 4] * 2)

    def test_a_worker_that_is_missing_costs_one_grace_time(self):
        ps = self.begin(pserver.Rounds(2, grace=0.1))
        for version in (1, 2, 3):
            values = ps.push_pull({"w": np.ones(4, F4)}, worker=0)
            self.assertEqual((values["w"].tolist(), ps.versions["w"]), ([-version] * 4, version))

    def test_weights_count(self):
        self.begin(pserver.Rounds(2, combine="weighted"))
        found = self.together(
            lambda: self.connect().push_pull({"w": np.full(4, 1, F4)}, worker=0, weight=3),
            lambda: self.connect().push_pull({"w": np.full(4, 5, F4)}, worker=1, weight=1))
        self.assertEqual([values["w"].tolist() for values in found], [[-2.0] * 4] * 2)

    def test_more_parameters_than_go_in_one_message(self):
        names = [f"w{i}" for i in range(70)]
        self.begin(pserver.Rounds(2), values={name: np.zeros(2, F4) for name in names})

        def work(rank):
            ps = self.connect()
            for _ in range(2):
                values = ps.push_pull({name: np.full(2, 1 + rank, F4) for name in names},
                                      worker=rank)
            return {value.tolist()[1] for value in values.values()}

        self.assertEqual(self.together(lambda: work(0), lambda: work(1)), [{-3.0}] * 2)

    def test_a_round_goes_on_after_the_server_was_killed(self):
        ps = self.begin(pserver.Rounds(2))
        other = self.connect()

        def second():
            self.server.kill()
            self.server.start()
            return other.push_pull({"w": np.full(4, 3, F4)}, worker=1)

        found = self.together(lambda: ps.push_pull({"w": np.ones(4, F4)}, worker=0), second)
        self.assertEqual([values["w"].tolist() for values in found], [[-2.0] * 4] * 2)

    def local_steps(self, kill):
        """The bytes that three workers with 4 steps of their own between rounds end with."""
        with Server() as self.server:
            self.begin(pserver.Rounds(3), lambda rate, rounds: pserver.Outer(rounds=rounds),
                       {"w": np.ones(1000, F4)})

            def work(rank):
                random = np.random.default_rng(rank)
                ps = self.connect()
                values = ps.pull()
                for step in range(6):
                    if kill and rank == 0 and step == 3:
                        self.server.kill()
                        self.server.start()
                    began = values["w"].copy()
                    for _ in range(4):
                        values["w"] -= F4(0.1) * values["w"] * random.random(1000, F4)
                    ps.push_pull({"w": began - values["w"]}, into=values, worker=rank)
                return values["w"].tobytes()

            found = set(self.together(*(lambda rank=rank: work(rank) for rank in range(3))))
        self.assertEqual(len(found), 1)
        return found.pop()

    def test_local_steps_have_the_same_bits_in_every_run_and_through_a_crash(self):
        undisturbed = self.local_steps(kill=False)
        self.assertEqual(self.local_steps(kill=False), undisturbed)
        self.assertEqual(self.local_steps(kill=True), undisturbed)

    def test_a_parameter_that_is_cut_over_servers_goes_through_a_crash_of_one(self):
        second = self.enterContext(Server())

        def work(rank):
            with pserver.connect(f"{self.server.address},{second.address}", split_bytes=2048,
                                 timeout=120) as ps:
                ps.initialize({"w": np.zeros(1000, F4)}, pserver.SGD(1.0, rounds=pserver.Rounds(2)))
                values = ps.pull(into={"w": np.empty(1000, F4)})
                for step in range(6):
                    if rank == 0 and step == 3:
                        second.kill()
                        second.start()
                    ps.push_pull({"w": np.full(1000, 1 + 2 * rank, F4)}, into=values, worker=rank)
                    self.assertEqual(set(values["w"].tolist()), {-2.0 * (step + 1)})
                return ps.versions["w"]

        self.assertEqual(self.together(lambda: work(0), lambda: work(1)), [6, 6])

    def test_a_parameter_without_rounds_takes_every_gradient(self):
        ps = self.begin(None)
        values = ps.push_pull({"w": np.ones(4, F4)}, worker=0)
        self.assertEqual(values["w"].tolist(), [-1.0] * 4)
        with self.assertRaises(ValueError):
            ps.push_pull({"w": np.ones(4, F4)}, worker=-1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
