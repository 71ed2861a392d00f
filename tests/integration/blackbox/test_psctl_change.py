# SPDX-License-Identifier: Apache-2.0
"""psctl show, set and drop: a job that is changed while it trains, and killed."""

import json
import os
import unittest

from blackbox import Server, run

USAGE, DATA_ERROR, UNAVAILABLE = 64, 65, 69


class Change(unittest.TestCase):
    """Two servers in a list, with a trained model whose weights are cut over both."""

    def setUp(self):
        self.servers = [self.enterContext(Server()) for _ in range(2)]
        self.where = ["--servers", ",".join(server.address for server in self.servers),
                      "--timeout", "60s"]
        data = os.path.join(self.servers[0].cluster.folder, "train.svm")
        run("pstrain", "generate", "--out", data, "--rows", "100")
        done = run("pstrain", "--data", data, *self.where[:2], "--split-bytes", "64", "--epochs",
                   "1", "--optimizer", "sgd", "--learning-rate", "0.5")
        self.assertEqual(done.returncode, 0, done.stderr)

    def psctl(self, *words, code=0):
        done = run("psctl", *words, *self.where)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def document(self, *words):
        return json.loads(self.psctl(*words, "--output", "json").stdout)

    def rates(self):
        return {row["name"]: row["config"]["lr"] for row in self.document("show", "*")}

    def kill_all(self):
        for server in self.servers:
            address = server.address
            server.process.kill()
            server.flags = (*server.flags, "--listen", address)
            server.start()

    def test_a_rate_is_set_shown_and_survives_kill_9(self):
        row, = self.document("set", "linear/weight", "lr=0.25", "clip_norm=2")
        self.assertEqual((row["before"]["lr"], row["after"]["lr"]), (0.5, 0.25))
        self.assertEqual((row["before"]["clip_norm"], row["after"]["clip_norm"]), (0, 2))
        self.assertTrue(row["done"])
        self.assertGreater(row["step"], 0)
        self.assertEqual(self.rates(), {"linear/weight": 0.25, "linear/bias": 0.5})
        self.kill_all()
        self.assertEqual(self.rates(), {"linear/weight": 0.25, "linear/bias": 0.5})
        again = self.psctl("set", "linear/weight", "lr=0.25").stdout
        self.assertIn("linear/weight: sgd lr=0.25 clip_norm=2 -> sgd lr=0.25 clip_norm=2", again)

    def test_a_prefix_stands_for_all_and_a_dry_run_changes_nothing(self):
        tried = self.document("set", "linear/*", "schedule=exp", "decay_a=0.5", "decay_b=100",
                              "--dry-run")
        self.assertEqual([row["done"] for row in tried], [False, False])
        self.assertEqual({row["after"]["schedule"] for row in tried}, {"exp"})
        self.assertEqual({row["before"]["schedule"] for row in self.document(
            "set", "linear/*", "schedule=exp", "decay_a=0.5", "decay_b=100")}, {"const"})
        for row in self.document("show", "linear/*"):
            self.assertEqual((row["config"]["schedule"], row["config"]["lr"]), ("exp", 0.5))
            self.assertLess(row["learning_rate"], 0.5)

    def test_what_cannot_be_is_refused(self):
        for words in (["lr"], ["lr=fast"], ["momentun=1"], ["schedule=slow"]):
            self.psctl("set", "linear/bias", *words, code=USAGE)
        done = self.psctl("set", "linear/bias", "momentum=0.9", code=UNAVAILABLE)
        self.assertIn("linear/bias", done.stderr)
        self.psctl("set", "linear/bias", code=USAGE)
        for words in (["set", "nothing", "lr=1"], ["show", "nothing*"]):
            self.assertIn("does not exist", self.psctl(*words, code=DATA_ERROR).stderr)
        self.assertEqual(self.rates(), {"linear/weight": 0.5, "linear/bias": 0.5})

    def test_a_parameter_is_dropped_once_and_for_good(self):
        self.psctl("drop", "linear/weight", code=USAGE)
        self.assertEqual(len(self.rates()), 2)
        row, = self.document("drop", "linear/weight", "--yes")
        self.assertEqual((row["name"], row["dropped"]), ("linear/weight", True))
        self.kill_all()
        self.assertEqual(list(self.rates()), ["linear/bias"])
        done = self.psctl("drop", "linear/weight", "linear/bias", "--yes", code=DATA_ERROR)
        self.assertIn("linear/weight", done.stderr)
        self.assertIn("linear/bias is dropped", done.stdout)
        self.psctl("show", "*", code=DATA_ERROR)


if __name__ == "__main__":
    unittest.main(verbosity=2)
