#!/usr/bin/python3
"""docs/add-a-rule.md, followed literally in a copy of the tree: at most four source files are
touched, the rule's own tests pass, and a model is trained with it through a real server. The same
training without the page's rule is refused, by the trainer and by the server."""

import json
import os
import subprocess
import unittest

from extending import Page, Tree
from cluster import BIN, Process

FILES_MAX = 4
USAGE = 64


class AddARule(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = Page("add-a-rule.md")
        cls.tree = Tree()
        cls.addClassCleanup(cls.tree.close)
        cls.data = cls.tree.path("train.svm")
        cls.tree.follow(cls.page)

    def train(self, trainer, server):
        """`pstrain --optimizer lion` of one build through a pserver of another."""
        folder = os.path.join(self.tree.root, f"run-{len(os.listdir(self.tree.root))}")
        os.mkdir(folder)
        process = Process("pserver", [os.path.join(server, "pserver"), "--listen", "127.0.0.1:0",
                                      "--data-dir", os.path.join(folder, "data"),
                                      "--log-format", "json"], folder)
        try:
            address = process.wait_event("listening", 60)["address"]
            return subprocess.run(
                [os.path.join(trainer, "pstrain"), "--data", self.data, "--test", self.data,
                 "--servers", address, "--optimizer", "lion", "--epochs", "20", "--output", "json"],
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False)
        finally:
            process.kill()
            process.log_file.close()

    def test_the_page_names_what_it_touches_and_at_most_four_are_sources(self):
        self.assertEqual(sorted(self.tree.touched), sorted(self.page.files))
        self.assertLessEqual(len(self.page.sources), FILES_MAX)

    def test_the_rules_own_tests_pass_and_a_model_is_trained(self):
        alone, server = self.page.shells
        self.assertIn("ok   lion_is_the_published_algorithm", self.tree.type(alone))
        self.tree.type(server)
        built = self.tree.path("build/try/bin")
        subprocess.run([os.path.join(BIN, "pstrain"), "generate", "--out", self.data, "--rows",
                        "2000", "--noise", "0.05"], check=True, timeout=60, capture_output=True)

        trained = self.train(built, built)
        without = self.train(BIN, BIN)
        refused = self.train(built, BIN)

        self.assertEqual(trained.returncode, 0, trained.stderr)
        result = json.loads(trained.stdout)
        self.assertGreater(result["test_accuracy"], 0.9)
        self.assertLess(result["train_loss"], 0.4)
        self.assertEqual(without.returncode, USAGE, without.stderr)
        self.assertIn("lion", without.stderr)
        self.assertNotEqual(refused.returncode, 0)
        self.assertIn("Optimizer has no number 208", refused.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
