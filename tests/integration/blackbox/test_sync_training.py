# SPDX-License-Identifier: Apache-2.0
"""pstrain --sync on real servers: the same bits in every run, in one process, and through a kill -9
of a server; what a worker that is killed costs the others, and what the rounds say of it."""

import json
import os
import subprocess
import tempfile
import unittest

from blackbox import Server, program, run
from cluster import PATIENCE, wait_until

WORKERS = 4
DATA = os.environ.get("PS_DATA", os.path.join(os.path.dirname(os.path.realpath(__file__)), "..",
                                              "..", "..", "..", "shared", "data"))
EPOCHS = 2
ROUNDS = 64 * EPOCHS  # of a9a, in batches of 128 rows for each worker


class SyncTraining(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())
        self.data = os.path.join(DATA, "a9a")
        if not os.path.exists(self.data):
            self.data = os.path.join(self.folder, "train.svm")
            run("pstrain", "generate", "--out", self.data, "--rows", "32561", "--features", "123")

    def words(self, server, *words):
        return ["--data", self.data, "--servers", server.address, "--timeout", f"{PATIENCE // 2}s",
                "--epochs", str(EPOCHS), "--output", "json", *words]

    def train(self, *words):
        """One run to its end, on a server of its own."""
        with Server() as server:
            done = run("pstrain", *self.words(server, *words))
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)

    def begin(self, server, part, *words):
        """One process of several, with one worker."""
        return subprocess.Popen(
            [program("pstrain"), *self.words(server, "--part", str(part), "--parts", str(WORKERS),
                                             "--sync", str(WORKERS), *words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, trainers):
        """What each of them says at its end."""
        documents = []
        for trainer in trainers:
            out, err = trainer.communicate(timeout=PATIENCE)
            self.assertEqual(trainer.returncode, 0, err)
            documents.append(json.loads(out))
        return documents

    def version(self, server):
        """Rounds that were made so far; 0: nobody has initialised yet."""
        done = server.psctl("params", "--output", "json")
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        return max((row["version"] for row in rows), default=0)

    def metric(self, server, name):
        lines = server.get("/metrics")[1].splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith(name + " "))

    def wait_for(self, server, rounds):
        wait_until(lambda: self.version(server) >= rounds, f"{rounds} rounds")

    def test_three_runs_and_one_process_come_to_the_same_bits(self):
        runs = [self.train("--workers", str(WORKERS), "--sync", str(WORKERS)) for _ in range(3)]
        alone = self.train("--accumulate", str(WORKERS))
        self.assertEqual([each["steps"] for each in runs], [WORKERS * ROUNDS] * 3)
        self.assertEqual(alone["steps"], ROUNDS)
        self.assertEqual({each["model_digest"] for each in runs}, {alone["model_digest"]})

    def test_a_server_that_is_killed_changes_no_bit(self):
        alone = self.train("--accumulate", str(WORKERS))
        with Server("--ack", "logged") as server:
            trainers = [self.begin(server, part) for part in range(WORKERS)]
            for rounds in (5, 20, 60):
                self.wait_for(server, rounds)
                server.process.kill()
                self.restart(server)
            documents = self.end(trainers)
        self.assertEqual({each["model_digest"] for each in documents}, {alone["model_digest"]})
        self.assertEqual([each["late_pushes"] for each in documents], [0] * WORKERS)

    def restart(self, server):
        """At the same address: a list of servers says where they are for good."""
        server.started += 1
        server.process = server.cluster.pserver(f"pserver-{server.started}", "--ack", "logged",
                                                "--listen", server.address)
        server.process.wait_event("listening")

    def test_a_worker_that_is_killed_costs_the_others_one_grace_time(self):
        with Server(http=True) as server:
            trainers = [self.begin(server, part, "--grace", "2s") for part in range(WORKERS)]
            self.wait_for(server, 5)
            trainers[-1].kill()
            trainers.pop().communicate()
            self.end(trainers)
            # A worker that a busy machine starts after the grace time makes its rounds behind the
            # others.
            self.assertGreaterEqual(self.version(server), ROUNDS)
            # Of the weights and of the bias: all rounds behind that one do not wait for it. On a
            # busy machine some other worker may be late for a moment, too.
            by_grace = self.metric(server, "ps_rounds_by_grace_total")
            self.assertTrue(1 <= by_grace <= ROUNDS // 8, by_grace)

    def test_a_worker_that_was_killed_comes_back_into_the_rounds(self):
        alone = self.train("--accumulate", str(WORKERS))
        with Server() as server:
            trainers = [self.begin(server, part) for part in range(WORKERS)]
            self.wait_for(server, 5)
            trainers[1].kill()
            trainers[1].communicate()
            trainers[1] = self.begin(server, 1)
            documents = self.end(trainers)
        self.assertEqual({each["model_digest"] for each in documents}, {alone["model_digest"]})

    def test_workers_by_clocks_make_equally_many_steps(self):
        for consistency in ("bsp", "ssp:3"):
            done = self.train("--workers", str(WORKERS), "--consistency", consistency)
            self.assertEqual((done["steps"], done["pushes"]), (WORKERS * ROUNDS,
                                                               2 * WORKERS * ROUNDS))
            self.assertGreater(done["train_accuracy"], 0.8)

    def test_rounds_of_more_workers_than_there_are_are_refused(self):
        for words in (("--sync", "4"), ("--grace", "2s"),
                      ("--workers", "2", "--sync", "2", "--pipeline", "1"),
                      ("--consistency", "ssp"), ("--sync", "1", "--consistency", "bsp")):
            done = run("pstrain", "--data", self.data, "--servers", "127.0.0.1:1", *words)
            self.assertEqual(done.returncode, 64, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
