# SPDX-License-Identifier: Apache-2.0
"""client/python/examples: trainers, servers, a kill -9, and the same accuracy as in one process."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EXAMPLES = os.path.join(REPOSITORY, "client", "python", "examples")
DATA = os.environ.get("PS_DATA", os.path.join(REPOSITORY, "..", "shared", "data"))


class Example(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def rows(self, name, seed):
        """a9a where it is there, else generated rows."""
        path = os.path.join(DATA, name)
        if not os.path.exists(path):
            path = os.path.join(self.folder, name)
            program = os.path.join(os.environ["PS_BIN"], "pstrain")
            subprocess.run([program, "generate", "--out", path, "--rows", "20000", "--noise", "0.1",
                            "--seed", seed], check=True, stdout=subprocess.DEVNULL)
        return path

    def test_a_crash_on_the_way_costs_no_push_and_no_accuracy(self):
        curve = os.path.join(self.folder, "curve.svg")
        done = subprocess.run(
            [sys.executable, "-B", os.path.join(EXAMPLES, "mnist_like.py"), "--data",
             self.rows("a9a", "1"), "--test", self.rows("a9a.t", "2"), "--epochs", "4", "--curve",
             curve], capture_output=True, text=True, check=False)
        print(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("killed one server", done.stdout)
        with open(curve, encoding="ascii") as file:
            self.assertEqual(file.read().count("<polyline"), 3)

    def test_a_click_model_over_a_table_is_as_good_as_in_one_process(self):
        done = subprocess.run(
            [sys.executable, "-B", os.path.join(EXAMPLES, "embedding.py"), "--workers", "2",
             "--steps", "300"], capture_output=True, text=True, check=False)
        print(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("killed one server", done.stdout)
        self.assertGreater(min(map(float, re.findall(r"accuracy ([\d.]+)", done.stdout))), 0.8)

    def test_a_trainer_takes_no_more_than_25_lines_and_is_shown(self):
        with open(os.path.join(EXAMPLES, "dense_trainer.py"), encoding="utf-8") as file:
            text = file.read()
        self.assertLessEqual(len([line for line in text.splitlines() if line.strip()]), 25)
        with open(os.path.join(REPOSITORY, "docs", "python.md"), encoding="utf-8") as file:
            shown = re.search(r"^```py\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE).group(1)
        self.assertIn(shown, text)


if __name__ == "__main__":
    unittest.main(verbosity=2)
