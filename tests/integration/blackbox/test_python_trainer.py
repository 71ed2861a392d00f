# SPDX-License-Identifier: Apache-2.0
"""client/examples/python: what trainers in Python make of the manuals alone."""

import json
import os
import subprocess
import tempfile
import unittest

from blackbox import Server
from cluster import PATIENCE, REPOSITORY, free_port, wait_until

PROGRAM = os.path.join(REPOSITORY, "client", "examples", "python", "run_trainer.sh")
TABLE = os.path.join(os.path.dirname(PROGRAM), "run_table.sh")


class Trainer(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def begin(self, *servers, program=PROGRAM):
        addresses = ",".join(server.address for server in servers)
        child = subprocess.Popen([program, addresses], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, stdin=subprocess.PIPE,
                                 env={**os.environ, "OUT": self.folder})
        self.addCleanup(child.kill)
        return child

    def end(self, child, text=""):
        output, errors = child.communicate(text, timeout=PATIENCE)
        self.assertEqual((child.returncode, errors), (0, ""))
        return output

    @staticmethod
    def version(server, name):
        done = server.psctl("params", "--output", "json")
        rows = json.loads(done.stdout) if done.returncode == 0 else []
        return max((row["version"] for row in rows if row["name"] == name), default=-1)

    def test_one_server_has_everything_whole(self):
        with Server() as server:
            self.assertEqual(self.end(self.begin(server)), "table = 0.0\nbias = -1.0 0.0\n")
            self.assertEqual(self.end(self.begin(server)), "table = -1.0\nbias = -3.0 -2.0\n")

    def test_a_server_that_is_killed_meanwhile_changes_nothing(self):
        address = f"127.0.0.1:{free_port()}"
        with Server() as first, Server("--listen", address) as second:
            child = self.begin(first, second)
            wait_until(lambda: self.version(second, "table#1/2") >= 1, "a push")
            second.process.kill()
            second.start()
            self.assertEqual(self.end(child), "table = 0.0\nbias = -1.0 0.0\n")

    def test_words_are_counted_in_a_table(self):
        """By another client than libpsclient, which must find the same keys at the same servers."""
        text = "the cat and the dog and the bird"
        with Server() as first, Server() as second:
            once = self.end(self.begin(first, second, program=TABLE), text)
            self.assertEqual(once.split()[::2], list("31231231"))
            second.process.kill()
            second.start()
            twice = self.end(self.begin(first, second, program=TABLE), text)
            self.assertEqual(twice.split()[::2], list("62462462"))

    def test_more_small_parameters_than_one_batch_may_have_go_in_several(self):
        work = ("import array, sys, trainer\n"
                "job = trainer.Job([sys.argv[1]])\n"
                "names = [f'w{i}' for i in range(500)] + [f'large{i}' for i in range(8)]\n"
                "values = {name: array.array('f', [1.0]) * (1 << 18 if 'l' in name else 2)\n"
                "          for name in names}\n"
                "job.initialise(values)\n"
                "for _ in range(2):\n"
                "    values = job.step({name: array.array('f', [0.25]) * len(values[name])\n"
                "                       for name in names})\n"
                "print(len(values), *set.union(*map(set, values.values())))\n")
        with Server() as server:
            self.end(self.begin(server))  # makes the stubs
        with Server() as server:
            done = subprocess.run(
                ["/usr/bin/python3", "-c", work, server.address], capture_output=True, text=True,
                timeout=PATIENCE, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH":
                                  f"{self.folder}:{os.path.dirname(PROGRAM)}"})
            self.assertEqual((done.stdout, done.stderr), ("508 0.5\n", ""))


if __name__ == "__main__":
    unittest.main(verbosity=2)
