#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""client/examples in Go, Node and C++: each is told one server, finds the other by it, and follows
the shard whose server is killed meanwhile."""

import os
import signal
import subprocess
import unittest

from cluster import PATIENCE, REPOSITORY, Cluster, wait_until

EXAMPLES = os.path.join(REPOSITORY, "client", "examples")
BUILD = os.environ.get("PS_EXAMPLES", os.path.join(REPOSITORY, "build", "examples"))


def is_connected(address):
    """Whether anybody has a connection to that address; a stopped process has one, too."""
    port = f":{int(address.split(':')[1]):04X}"
    rows = []
    for name in ("tcp", "tcp6"):
        with open(f"/proc/net/{name}", encoding="ascii") as file:
            rows += [line.split() for line in file]
    return any(row[2].endswith(port) and row[3] == "01" for row in rows)


def begin(language, *seeds):
    """Without a seed the example is built alone."""
    program = os.path.join(EXAMPLES, language, f"run_{language}.sh")
    return subprocess.Popen([program, *seeds], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, text=True,
                            env={**os.environ, "OUT": os.path.join(BUILD, language)})


def expected(run):
    w = [value - 0.5 * run for value in (1, 2, 3)]
    return f"version {run}\nw = {w[0]:g} {w[1]:g} {w[2]:g}\nb = {4 - run:g}\n" \
           f"counts = {2 * run} {run} 0\n"


class Seeds(unittest.TestCase):
    def test_an_example_finds_all_shards_and_follows_one_that_moves(self):
        languages = ("go", "node", "cpp")
        for language in languages:
            self.assertEqual(begin(language).communicate()[1], "")
        with Cluster() as cluster:
            seed, other = cluster.start_servers()
            for run, language in enumerate(languages, 1):
                address = other.wait_event("listening")["address"]
                other.signal(signal.SIGSTOP)
                child = begin(language, seed.wait_event("listening")["address"])
                self.addCleanup(child.kill)
                wait_until(lambda: is_connected(address) or child.poll() is not None, "a call")
                cluster.kill_server(other)
                other = cluster.pserver(f"pserver-again-{run}")
                output, errors = child.communicate(timeout=PATIENCE)
                self.assertEqual((output, errors), (expected(run), ""), language)


if __name__ == "__main__":
    unittest.main(verbosity=2)
