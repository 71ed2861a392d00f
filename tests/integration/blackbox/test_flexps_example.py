# SPDX-License-Identifier: Apache-2.0
"""The example of FlexPS as its page says to run it: built by its script, it learns made data about
as well as the function that made them, and a second run goes on with the weights of the first."""

import os
import subprocess
import tempfile
import unittest

from blackbox import Server, run
from cluster import PATIENCE, REPOSITORY

SCRIPT = os.path.join(REPOSITORY, "client", "examples", "flexps", "run_flexps.sh")
ITERATIONS, WORKERS = "300", "3"
NOISE = 0.1  # no model is right about more than 0.9 of the rows


class FlexpsExample(unittest.TestCase):
    def setUp(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.data = os.path.join(folder, "train")
        done = run("pstrain", "generate", "--out", self.data, "--rows", "5000", "--noise",
                   str(NOISE))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.server = self.enterContext(Server())

    def train(self, *words):
        done = subprocess.run([SCRIPT, self.server.address, self.data, *words],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=2 * PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.splitlines()
        tasks, (word, accuracy) = lines[:-1], lines[-1].split()
        self.assertEqual(word, "accuracy", done.stdout)
        self.assertTrue(all(line.startswith("task of ") for line in tasks), done.stdout)
        return len(tasks), float(accuracy)

    def test_it_learns_and_a_second_run_goes_on(self):
        tasks, accuracy = self.train(ITERATIONS, WORKERS)
        self.assertIn(tasks, (3, 4))  # trials of 1, of 2 and perhaps of 3 workers, and the task
        self.assertGreater(accuracy, 0.8)
        self.assertEqual(self.server.psctl("show", "logistic").returncode, 0)
        tasks, again = self.train("1", "1")
        self.assertEqual(tasks, 2)
        self.assertGreater(again, 0.8)


if __name__ == "__main__":
    unittest.main(verbosity=2)
