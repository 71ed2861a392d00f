# SPDX-License-Identifier: Apache-2.0
"""pstrain in rounds with models whose parameters are rows of a table: the bits are those of one
process, whatever is killed on the way; what an operator sees of it."""

import json
import os
import subprocess
import tempfile
import unittest

from blackbox import Server, program, run
from cluster import PATIENCE, wait_until

WORKERS = 3
FEATURES = 40
# So many rounds that none of the runs in which something is killed ends before that.
LONG = ("--epochs", "25")
LOGISTIC = ("--model", "sparse-logistic", "--optimizer", "ftrl", "--epochs", "3", "--batch", "32")


class TableRounds(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.data = os.path.join(cls.folder, "train.svm")
        # Not a multiple of workers and batches: the last step of an epoch has fewer rows, or none.
        done = run("pstrain", "generate", "--out", cls.data, "--rows", "6017", "--features",
                   str(FEATURES), "--noise", "0.1")
        assert done.returncode == 0, done.stderr
        cls.ratings = os.path.join(cls.folder, "ratings")
        done = run("pstrain", "generate", "--model", "matrix-factorization", "--out", cls.ratings,
                   "--rows", "4000", "--users", "60", "--items", "40", "--noise", "0.5")
        assert done.returncode == 0, done.stderr

    def words(self, server, *words):
        return ["--servers", server.address, "--timeout", f"{PATIENCE // 2}s", "--output", "json",
                *words]

    def train(self, *words, data=None, keys=range(FEATURES + 1)):
        """One run on servers of its own, and the rows that it has made."""
        with Server() as server:
            done = run("pstrain", *self.words(server, "--data", data or self.data, *words))
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout), self.rows(server, keys)

    def rows(self, server, keys):
        done = server.psctl("rows", "linear/rows", *map(str, keys))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def begin(self, server, part, *words):
        """One process of several, with one worker."""
        return subprocess.Popen(
            [program("pstrain"), *self.words(server, "--data", self.data, *LOGISTIC, "--part",
                                             str(part), "--parts", str(WORKERS), "--sync",
                                             str(WORKERS), *words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, trainers):
        documents = []
        for trainer in trainers:
            out, err = trainer.communicate(timeout=PATIENCE)
            self.assertEqual(trainer.returncode, 0, err)
            documents.append(json.loads(out))
        return documents

    def version(self, server):
        done = server.psctl("params", "--output", "json")
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        return max((row["version"] for row in rows), default=0)

    def wait_for(self, server, version):
        wait_until(lambda: self.version(server) >= version, f"{version} rounds")

    def test_k_of_n_workers_come_to_the_bits_of_one_that_accumulates(self):
        alone, expected = self.train(*LOGISTIC, "--accumulate", str(WORKERS))
        for _ in range(2):
            done, rows = self.train(*LOGISTIC, "--workers", str(WORKERS), "--sync", str(WORKERS))
            self.assertEqual(rows, expected)
            self.assertEqual(done["train_loss"], alone["train_loss"])
            self.assertEqual((done["steps"], done["late_pushes"]), (WORKERS * alone["steps"], 0))
        self.assertGreater(alone["train_accuracy"], 0.8)

    def test_factors_come_to_the_same_bits_too(self):
        words = ("--model", "matrix-factorization", "--optimizer", "adagrad", "--rank", "4",
                 "--epochs", "2", "--batch", "64")
        keys = range(2, 120)
        _, expected = self.train(*words, "--accumulate", "2", data=self.ratings, keys=keys)
        _, rows = self.train(*words, "--workers", "2", "--sync", "2", data=self.ratings, keys=keys)
        self.assertEqual(rows, expected)

    def test_a_server_that_is_killed_changes_no_bit(self):
        _, expected = self.train(*LOGISTIC, "--accumulate", str(WORKERS))
        with Server("--ack", "logged") as server:
            trainers = [self.begin(server, part) for part in range(WORKERS)]
            for rounds in (5, 60, 120):
                self.wait_for(server, rounds)
                server.process.kill()
                self.restart(server)
            documents = self.end(trainers)
            rows = self.rows(server, range(FEATURES + 1))
        self.assertEqual(rows, expected)
        self.assertEqual([each["late_pushes"] for each in documents], [0] * WORKERS)

    def restart(self, server):
        """At the same address: a list of servers says where they are for good."""
        server.started += 1
        server.process = server.cluster.pserver(f"pserver-{server.started}", "--ack", "logged",
                                                "--listen", server.address)
        server.process.wait_event("listening")

    def test_a_worker_that_was_killed_comes_back_into_the_rounds(self):
        _, expected = self.train(*LOGISTIC, *LONG, "--accumulate", str(WORKERS))
        with Server() as server:
            trainers = [self.begin(server, part, *LONG) for part in range(WORKERS)]
            self.wait_for(server, 5)
            trainers[1].kill()
            trainers[1].communicate()
            trainers[1] = self.begin(server, 1, *LONG)
            self.end(trainers)
            rows = self.rows(server, range(FEATURES + 1))
        self.assertEqual(rows, expected)

    def test_a_worker_that_is_killed_costs_the_others_one_grace_time(self):
        with Server() as server:
            trainers = [self.begin(server, part, *LONG, "--grace", "1s") for part in range(WORKERS)]
            self.wait_for(server, 5)
            trainers[-1].kill()
            trainers.pop().communicate()
            self.end(trainers)

    def test_an_operator_sees_who_is_missing_and_who_counted(self):
        with Server("--ack", "logged") as server:
            trainers = [self.begin(server, part, *LONG) for part in range(WORKERS)]
            self.wait_for(server, 5)
            trainers[-1].kill()
            trainers[-1].communicate()
            open_round = "2 of 3 have contributed; missing: 2"
            wait_until(lambda: self.round_of(server).endswith(open_round), open_round)
            done = run("psckpt", "rounds", server.data)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("linear/rows", done.stdout)
            server.process.kill()
            for trainer in trainers[:-1]:
                trainer.kill()
                trainer.communicate()
            self.assertEqual(run("psckpt", "verify", server.data).returncode, 0)

    def round_of(self, server):
        """What `psctl show` says of the open round."""
        lines = server.psctl("show", "linear/rows").stdout.splitlines()
        return next((line for line in lines if "have contributed" in line), "")


if __name__ == "__main__":
    unittest.main()
