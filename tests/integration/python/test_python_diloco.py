# SPDX-License-Identifier: Apache-2.0
"""client/python/examples/diloco.py: islands that talk seldom end where those end that talk in every
step, at a share of the bytes."""

import os
import re
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EXAMPLE = os.path.join(REPOSITORY, "client", "python", "examples", "diloco.py")
ISLANDS, LOCAL_STEPS, STEPS = 2, 32, 512


class Diloco(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory())

    def rows(self, name, count, seed):
        path = os.path.join(self.folder, name)
        program = os.path.join(os.environ["PS_BIN"], "pstrain")
        subprocess.run([program, "generate", "--out", path, "--rows", str(count), "--noise", "0.05",
                        "--seed", seed], check=True, stdout=subprocess.DEVNULL)
        return path

    def test_islands_that_talk_seldom_end_where_those_end_that_talk_in_every_step(self):
        curve = os.path.join(self.folder, "curve.svg")
        done = subprocess.run(
            [sys.executable, "-B", EXAMPLE, "--data", self.rows("train", 6000, "1"), "--test",
             self.rows("test", 4000, "2"), "--islands", str(ISLANDS), "--local-steps",
             str(LOCAL_STEPS), "--steps", str(STEPS), "--tolerance", "0.02", "--curve", curve],
            capture_output=True, text=True, check=False)
        print(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        for accuracy in re.findall(r"test accuracy ([\d.]+)", done.stdout):
            self.assertGreater(float(accuracy), 0.9)
        share = float(re.search(r"1/([\d.]+) of the bytes", done.stdout).group(1))
        self.assertGreater(share, LOCAL_STEPS * 0.8)
        self.assertLess(share, LOCAL_STEPS * 1.05)
        with open(curve, encoding="ascii") as file:
            self.assertEqual(file.read().count("<polyline"), 4)

    def test_the_page_shows_the_example(self):
        with open(os.path.join(REPOSITORY, "docs", "local-steps.md"), encoding="utf-8") as file:
            shown = re.search(r"^```py\n(.*?)^```$", file.read(), re.DOTALL | re.MULTILINE).group(1)
        with open(EXAMPLE, encoding="utf-8") as file:
            self.assertIn(shown, file.read())


if __name__ == "__main__":
    unittest.main(verbosity=2)
