# SPDX-License-Identifier: Apache-2.0
"""The end of the journal is lost after a crash, in every way that files can lose it: the server
tells it from the torn end of a write that nobody was told of, says how much is missing, and serves
only when somebody has decided to go on without that.
"""

import glob
import json
import os
import shutil
import signal
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "support"))

from blackbox import Calls, Cluster, Server, run  # noqa: E402
from cluster import wait_until  # noqa: E402
from journal_files import records_end  # noqa: E402

DATAERR = 65
ONES = [1.0, 1.0, 1.0, 1.0]


def shard_of(data):
    return os.path.join(data, "shard-0")


def noted(data):
    """The highest position that a note of the folder names."""
    names = glob.glob(os.path.join(shard_of(data), "*.durable"))
    return max((int(os.path.basename(name)[17:33], 16) for name in names), default=0)


def newest_segment(data):
    return sorted(glob.glob(os.path.join(shard_of(data), "*.journal")))[-1]


def missing_by_verify(data, code):
    done = run("psckpt", "verify", data, "--output", "json")
    assert done.returncode == code, (done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)["missing_pushes"]


class JournalEnd(unittest.TestCase):
    def after_a_crash(self, server, pushes=20):
        """All of that is acknowledged and noted when the server dies."""
        server.make_ready()
        for _ in range(pushes):
            server.calls.push("w", ONES)
        wait_until(lambda: noted(server.data) == pushes, "everything is noted")
        server.process.kill()

    def expect_refusal(self, server, words):
        process = server.start(wait=False)
        self.assertEqual(process.wait_exit(), DATAERR, process.log())
        self.assertIn(words, process.log())
        self.assertEqual(glob.glob(os.path.join(shard_of(server.data), "*.damaged")), [])

    def test_an_undamaged_end_is_served(self):
        with Server() as server:
            self.after_a_crash(server)
            self.assertEqual(missing_by_verify(server.data, 0), 0)
            server.start()
            self.assertEqual(server.calls.pull("w")[1], 20)
            wait_until(lambda: len(glob.glob(os.path.join(shard_of(server.data),
                                                          "*.durable"))) == 1,
                       "the notes of the former owner go")
            server.calls.push("w", ONES)
            wait_until(lambda: noted(server.data) == 21, "the next push is noted")

    def test_a_journal_cut_by_three_pushes_is_not_served(self):
        with Server() as server:
            self.after_a_crash(server)
            path = newest_segment(server.data)
            os.truncate(path, records_end(path) - 2 * 4096 - 1)
            missing = missing_by_verify(server.data, DATAERR)
            self.assertGreater(missing, 1)
            self.expect_refusal(server, f"at least {missing} acknowledged pushes are missing")
            self.expect_refusal(server, f"at least {missing} acknowledged pushes are missing")

    def test_a_flipped_bit_in_the_last_write_is_not_served(self):
        with Server() as server:
            self.after_a_crash(server)
            path = newest_segment(server.data)
            with open(path, "r+b") as file:
                file.seek(records_end(path) - 20)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 4]))
            self.expect_refusal(server, "at least 1 acknowledged pushes are missing")

    def test_a_journal_that_is_gone_is_not_served(self):
        with Server() as server:
            self.after_a_crash(server)
            for path in glob.glob(os.path.join(shard_of(server.data), "*.journal")):
                os.remove(path)
            self.expect_refusal(server, "the journal")

    def test_what_is_given_up_is_counted(self):
        with Server(http=True) as server:
            self.after_a_crash(server)
            path = newest_segment(server.data)
            os.truncate(path, records_end(path) - 1)
            with open(os.path.join(shard_of(server.data), f"{20:016x}-{19:016x}.given-up"), "wb"):
                pass
            self.assertEqual(missing_by_verify(server.data, 67), 1)
            server.start()
            self.assertEqual(server.calls.pull("w")[1], 19)
            self.assertIn("ps_lost_pushes_total 1\n", server.get("/metrics")[1])
            wait_until(lambda: not glob.glob(os.path.join(shard_of(server.data), "*.given-up")),
                       "the decision goes when it was carried out")
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0)
            self.assertEqual(missing_by_verify(server.data, 0), 0)

    def test_a_folder_put_back_from_a_snapshot_is_not_served(self):
        with Cluster(shards=1, interval="1h") as cluster:
            process = cluster.pserver("pserver-1")
            calls = Calls(process.wait_event("listening")["address"])
            calls.init("w", [0.0, 0.0, 0.0, 0.0])
            calls.finish()
            for _ in range(5):
                calls.push("w", ONES)
            wait_until(lambda: noted(cluster.data) == 5, "the first pushes are noted")
            snapshot = cluster.data + "-snapshot"
            shutil.copytree(cluster.data, snapshot)
            for _ in range(5):
                calls.push("w", ONES)

            def in_store():
                text = cluster.etcdctl("get", "/checkpoints/0/journal", "--print-value-only")
                return text.strip() != "" and json.loads(text)["position"] == "10"

            wait_until(in_store, "the last pushes are noted in etcd")
            cluster.kill_server(process)
            shutil.rmtree(cluster.data)
            os.rename(snapshot, cluster.data)
            self.assertEqual(missing_by_verify(cluster.data, 0), 0)

            process = cluster.pserver("pserver-2")

            self.assertEqual(process.wait_exit(), DATAERR, process.log())
            self.assertIn("at least 5 acknowledged pushes are missing", process.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
