# SPDX-License-Identifier: Apache-2.0
"""pstrain --local-steps on real servers: a push for many batches, the accuracy of a push for each,
and the same bits in every run and in one process."""

import json
import os
import tempfile
import unittest

from blackbox import Server, run

ROWS, BATCH, WORKERS, EPOCHS, LOCAL_STEPS = 16384, 32, 4, 6, 32
DILOCO = ("--local-steps", str(LOCAL_STEPS), "--optimizer", "outer")


class LocalSteps(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def rows(self, seed, count):
        path = os.path.join(self.folder, f"{seed}.svm")
        if not os.path.exists(path):
            run("pstrain", "generate", "--out", path, "--rows", str(count), "--noise", "0.05",
                "--seed", seed)
        return path

    def train(self, *words):
        """One run to its end, on a server of its own."""
        with Server() as server:
            done = run("pstrain", "--data", self.rows("1", ROWS), "--test", self.rows("2", 4096),
                       "--servers", server.address, "--epochs", str(EPOCHS), "--batch", str(BATCH),
                       "--output", "json", *words)
            self.assertEqual(done.returncode, 0, done.stderr)
            return json.loads(done.stdout)

    def test_diloco_is_as_good_and_has_the_same_bits_in_every_run_and_in_one_process(self):
        together = ("--workers", str(WORKERS), "--sync", str(WORKERS))
        often = self.train(*together)
        seldom = self.train(*together, *DILOCO)
        again = self.train(*together, *DILOCO)
        alone = self.train("--workers", "1", "--accumulate", str(WORKERS), *DILOCO)

        self.assertEqual(often["steps"], ROWS // BATCH * EPOCHS)
        self.assertEqual(seldom["steps"], often["steps"] // LOCAL_STEPS)
        self.assertEqual(seldom["examples"], often["examples"])
        self.assertGreater(seldom["test_accuracy"], often["test_accuracy"] - 0.01)
        self.assertEqual({run["model_digest"] for run in (seldom, again, alone)},
                         {seldom["model_digest"]})

    def test_what_cannot_be_is_wrong_usage(self):
        for words in (("--local-steps", "0"), ("--local-steps", "2", "--pipeline", "1"),
                      ("--local-steps", "2", "--local-rate", "0")):
            done = run("pstrain", "--data", "x", "--servers", "127.0.0.1:1", *words)
            self.assertEqual((done.returncode, done.stdout), (64, ""), words)
            self.assertIn("--local-steps", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
