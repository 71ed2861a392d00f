# SPDX-License-Identifier: Apache-2.0
"""pstrain with models whose parameters are rows of a table: how good they get, alone and together;
workers and servers that are killed; what is refused."""

import json
import os
import subprocess
import tempfile
import unittest
import xml.etree.ElementTree

from blackbox import Server, program, run
from cluster import PATIENCE, wait_until

WORKERS = 3
DATA = os.environ.get("PS_DATA", os.path.join(os.path.dirname(os.path.realpath(__file__)), "..",
                                              "..", "..", "..", "shared", "data"))
FTRL = ("--model", "sparse-logistic", "--optimizer", "ftrl")
FACTORS = ("--model", "matrix-factorization", "--optimizer", "adagrad", "--rank", "4", "--l2",
           "0.02", "--batch", "512")


class TableTraining(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.rows = [cls.a9a("a9a", "32561", "1"), cls.a9a("a9a.t", "16281", "2")]
        cls.ratings = [cls.generate(name, "--model", "matrix-factorization", "--rows", rows,
                                    "--users", "200", "--items", "100", "--noise", "0.5", "--seed",
                                    seed)
                       for name, rows, seed in (("train", "30000", "1"), ("test", "5000", "2"))]

    @classmethod
    def a9a(cls, name, rows, seed):
        """The public set where it is there, else rows of its size."""
        path = os.path.join(DATA, name)
        if os.path.exists(path):
            return path
        return cls.generate(name, "--rows", rows, "--features", "123", "--seed", seed)

    @classmethod
    def generate(cls, name, *words):
        path = os.path.join(cls.folder, name)
        done = run("pstrain", "generate", "--out", path, *words)
        assert done.returncode == 0, done.stderr
        return path

    def words(self, server, data, *words):
        return ["--data", data[0], "--test", data[1], "--servers", server.address, "--timeout",
                f"{PATIENCE // 2}s", "--output", "json", *words]

    def train(self, server, data, *words):
        """One run to its end."""
        done = run("pstrain", *self.words(server, data, *words))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def begin(self, server, part, *words):
        """One process of several, with one worker."""
        return subprocess.Popen(
            [program("pstrain"), *self.words(server, self.ratings, *FACTORS, "--part", str(part),
                                             "--parts", str(WORKERS), "--epochs", "10", *words)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, trainers):
        """What each of them says at its end."""
        documents = []
        for trainer in trainers:
            out, err = trainer.communicate(timeout=PATIENCE)
            self.assertEqual(trainer.returncode, 0, err)
            documents.append(json.loads(out))
        return documents

    def wait_for(self, server, version):
        def is_there():
            done = server.psctl("params", "--output", "json")
            rows = json.loads(done.stdout) if done.returncode == 0 else []
            return max((row["version"] for row in rows), default=0) >= version
        wait_until(is_there, f"{version} pushes")

    def test_three_workers_two_steps_apart_learn_a9a(self):
        picture = os.path.join(self.folder, "curve.svg")
        with Server() as server:
            done = self.train(server, self.rows, *FTRL, "--workers", str(WORKERS), "--consistency",
                              "ssp:2", "--epochs", "5", "--plot", picture)
        self.assertGreaterEqual(done["test_accuracy"], 0.848)
        self.assertEqual((done["lost_pushes"], done["pushes"]), (0, done["steps"]))
        self.assertEqual([point["epoch"] for point in done["curve"]], [1, 2, 3, 4, 5])
        self.assertEqual(xml.etree.ElementTree.parse(picture).getroot().tag,
                         "{http://www.w3.org/2000/svg}svg")

    def test_ratings_are_predicted_as_well_by_three_workers_as_by_one(self):
        found = []
        for workers, consistency in (("1", "asp"), ("3", "ssp:2")):
            with Server() as server:
                done = self.train(server, self.ratings, *FACTORS, "--epochs", "6", "--workers",
                                  workers, "--consistency", consistency)
            found.append(done["test_rmse"])
            self.assertGreater(done["curve"][0]["test_rmse"], done["test_rmse"])
        self.assertLess(found[0], 0.56)  # the noise has 0.5
        self.assertLess(found[1], 1.01 * found[0])

    def test_one_worker_comes_to_the_same_digits_in_every_run(self):
        found = []
        for _ in range(2):
            with Server() as server:
                found.append(self.train(server, self.ratings, *FACTORS, "--epochs", "2"))
        self.assertEqual(found[0]["test_rmse"], found[1]["test_rmse"])

    def test_a_server_that_is_killed_loses_no_push(self):
        with Server("--ack", "logged") as server:
            trainers = [self.begin(server, part, "--consistency", "bsp")
                        for part in range(WORKERS)]
            for version in (5, 60, 200):
                self.wait_for(server, version)
                server.process.kill()
                self.restart(server)
            documents = self.end(trainers)
            self.wait_for(server, sum(each["steps"] for each in documents))
        self.assertEqual([each["lost_pushes"] for each in documents], [0] * WORKERS)
        self.assertEqual(len({each["steps"] for each in documents}), 1)

    def restart(self, server):
        """At the same address: a list of servers says where they are for good."""
        server.started += 1
        server.process = server.cluster.pserver(f"pserver-{server.started}", "--ack", "logged",
                                                "--listen", server.address)
        server.process.wait_event("listening")

    def test_a_worker_that_is_killed_is_not_waited_for(self):
        with Server() as server:
            trainers = [self.begin(server, part, "--consistency", "ssp:2", "--grace", "1s")
                        for part in range(WORKERS)]
            self.wait_for(server, 10)
            trainers[-1].kill()
            trainers.pop().communicate()
            documents = self.end(trainers)
        # A worker that a busy machine starts, or stops, for longer than the grace time goes on at
        # the clock of the others and makes fewer steps; one of them was never late.
        self.assertEqual(max(each["steps"] for each in documents), 200)
        self.assertEqual([each["lost_pushes"] for each in documents], [0] * (WORKERS - 1))

    def test_a_worker_that_was_killed_goes_on_at_its_clock(self):
        with Server() as server:
            trainers = [self.begin(server, part, "--consistency", "ssp:2")
                        for part in range(WORKERS)]
            self.wait_for(server, 10)
            trainers[1].kill()
            trainers[1].communicate()
            trainers[1] = self.begin(server, 1, "--consistency", "ssp:2")
            documents = self.end(trainers)
        self.assertEqual(documents[0]["steps"], documents[2]["steps"])
        self.assertLess(documents[1]["steps"], documents[0]["steps"])

    def test_what_cannot_be_is_wrong_usage(self):
        for words in (("--sync", "2"), ("--accumulate", "0"), ("--local-steps", "2"),
                      ("--pipeline", "1"), ("--encoding", "int8"), ("--rank", "0"),
                      ("--rank", "4096"), ("--epochs", "1000000")):
            done = run("pstrain", "--data", "x", "--servers", "127.0.0.1:1", "--model",
                       "matrix-factorization", *words)
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
            self.assertIn(words[0], done.stderr)
        done = run("pstrain", "--data", "x", "--servers", "127.0.0.1:1", "--plot", "x.svg")
        self.assertEqual(done.returncode, 64)
        self.assertIn("--plot", done.stderr)

    def test_what_is_not_a_rating_is_named_by_its_line(self):
        path = os.path.join(self.folder, "wrong")
        with open(path, "w", encoding="utf-8") as file:
            file.write("1 2 3\n1 2\n")
        done = run("pstrain", "--data", path, "--servers", "127.0.0.1:1", *FACTORS)
        self.assertEqual(done.returncode, 65)
        self.assertIn(f"{path}:2: ", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
