# SPDX-License-Identifier: Apache-2.0
"""The examples of server programs as their page says to run them: built by their script, with
several processes, and every value checked by the workers."""

import os
import re
import subprocess
import unittest

from blackbox import Server
from cluster import PATIENCE, REPOSITORY

SCRIPT = os.path.join(REPOSITORY, "client", "examples", "programs", "run_programs.sh")
STEPS = 10000


class Examples(unittest.TestCase):
    def build(self, name):
        subprocess.run([SCRIPT, name], check=True, timeout=2 * PATIENCE)
        return os.path.join(os.environ["OUT"], name)

    def run_all(self, commands):
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
                     for command in commands]
        for process in processes:
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
        texts = [process.communicate(timeout=10 * PATIENCE)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0] * len(commands))
        return texts

    def test_attention_and_feed_forward(self):
        server = self.enterContext(Server())
        program = self.build("attention")
        words = [server.address, "0", "2", str(STEPS)]
        texts = self.run_all([[program, "server", *words], [program, "worker", *words],
                              [program, "worker", server.address, "1", *words[2:]]])
        for rank in (0, 1):
            self.assertIn(f"worker {rank}: {STEPS} steps, every value checked", texts[1 + rank])
            self.assertRegex(texts[1 + rank], r"(?m)^ +0( +\d+\.\d){7}$")

    def test_kv_app_of_ps_lite(self):
        adder = os.path.join(os.environ["PS_BIN"], "pserver-adder")
        addresses = []
        for _ in range(2):
            server = subprocess.Popen([adder, "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE,
                                      text=True)
            self.addCleanup(server.wait)
            self.addCleanup(server.kill)
            self.addCleanup(server.stderr.close)
            for line in server.stderr:
                found = re.search(r"listening address=(\S+)", line)
                if found:
                    addresses.append(found.group(1))
                    break
        program = self.build("kv_app")
        texts = self.run_all([[program, ",".join(addresses), str(rank), "2"] for rank in (0, 1)])
        self.assertEqual([text.strip() for text in texts],
                         [f"worker {rank}: error: 0" for rank in (0, 1)])


if __name__ == "__main__":
    unittest.main(verbosity=2)
