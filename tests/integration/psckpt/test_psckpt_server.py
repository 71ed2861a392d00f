#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psckpt on the folder of a server that ran, and a server on the folder that psckpt made."""

import glob
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Calls, Cluster, Server  # noqa: E402
from cluster import free_port  # noqa: E402
from psckpt_run import (PSCKPT, digest, psckpt, psckpt_json, read_safetensors,  # noqa: E402
                        records_end, write_safetensors)
from test_tables import Rows, adagrad, configuration  # noqa: E402


def row_wise(config):
    adagrad(config)
    config.adagrad.row_wise = True


class BesideAServer(unittest.TestCase):
    """Its folder changes all the time: what a server has removed since a folder was listed is no
    finding, and a checkpoint is always there."""

    def test_a_folder_that_is_written_is_whole_and_has_a_state(self):
        with Server("--journal-segment-bytes", "1MiB", interval="100ms") as server:
            server.make_ready("w", [0.0] * 65536)
            stop = threading.Event()

            def push():
                while not stop.is_set():
                    server.calls.push("w", [1.0] * 65536)

            pusher = threading.Thread(target=push)
            pusher.start()
            try:
                for _ in range(25):
                    psckpt("verify", server.data)
                    psckpt("list", server.data)
                    self.assertEqual(len(digest(server.data)), 64)
            finally:
                stop.set()
                pusher.join()

    def test_a_link_that_leads_nowhere_is_there_and_cannot_be_read(self):
        with Server() as server:
            server.make_ready()
            server.process.signal(signal.SIGTERM)
            server.process.wait_exit()
            shard = os.path.join(server.data, "shard-0")
            os.symlink("nowhere", os.path.join(shard, f"{9:016x}-{9:016x}-u.safetensors"))
            psckpt("verify", server.data, code=66)
            psckpt("list", server.data, code=66)

    def test_list_knows_what_is_published_in_its_own_store(self):
        with Server() as server:
            server.make_ready()
            (folder,) = psckpt_json("list", server.data)
            self.assertEqual([row["published"] for row in folder["checkpoints"]], [True])
            server.process.signal(signal.SIGTERM)
            server.process.wait_exit()
            store = os.path.join(server.data, "store", "store")
            before = os.stat(store).st_mtime_ns
            self.assertNotIn("nobody was asked", psckpt("list", server.data) + psckpt.errors)
            self.assertEqual(os.stat(store).st_mtime_ns, before)
            (folder,) = psckpt_json("list", os.path.join(server.data, "shard-0"))
            self.assertNotIn("published", folder["checkpoints"][0])
            with unittest.mock.patch.dict(os.environ, TMPDIR="/proc"):
                self.assertIn("whole", psckpt("list", server.data))
            self.assertIn("/store, asked what is published: ", psckpt.errors)
            with open(store, "r+b") as file:
                file.write(b"damaged")
            (folder,) = psckpt_json("list", server.data, code=65)
            self.assertEqual(folder["checkpoints"][0]["state"], "whole")
            self.assertNotIn("published", folder["checkpoints"][0])
            self.assertIn("/store, asked what is published: ", psckpt.errors)
            psckpt("list", os.path.join(server.data, "shard-0"))
            self.assertIn("nobody was asked", psckpt.errors)


class Memory(unittest.TestCase):
    ROWS, WIDTH = 1 << 18, 64  # 64 MiB of values

    def most_kib(self, *words):
        """The largest resident set of psckpt, run to its end: by a small process between, since the
        kernel counts to a program what its parent had when it was begun."""
        code = ("import resource, subprocess, sys\n"
                "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", code, PSCKPT, *words], capture_output=True,
                              text=True, check=True, timeout=120)
        return int(done.stdout)

    def test_a_table_is_in_memory_once_where_no_journal_is_behind_it(self):
        """As after a server that was told to stop; who only looks needs none of it."""
        with tempfile.TemporaryDirectory() as temp:
            keys, values = 8 * self.ROWS, 4 * self.ROWS * self.WIDTH
            header = json.dumps({
                "ps.keys/t": {"dtype": "U64", "shape": [self.ROWS], "data_offsets": [0, keys]},
                "t": {"dtype": "F32", "shape": [self.ROWS, self.WIDTH],
                      "data_offsets": [keys, keys + values]}}).encode()
            model = os.path.join(temp, "model.safetensors")
            with open(model, "wb") as file:
                file.write(struct.pack("<Q", len(header)) + header)
                file.write(struct.pack(f"<{self.ROWS}Q", *range(self.ROWS)) + bytes(values))
            data = os.path.join(temp, "data")
            psckpt("import", model, "--out", data)

            table_kib = (keys + values) // 1024
            for words in (("list", data), ("verify", data)):
                self.assertLess(self.most_kib(*words), table_kib // 2, words)
            for words in (("digest", data), ("export", data, "--out", os.path.join(temp, "plain"))):
                self.assertLess(self.most_kib(*words), table_kib * 3 // 2, words)


class AfterAServer(unittest.TestCase):
    def test_its_folder_is_whole_and_exports_what_was_pulled(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.make_ready("w", (1.0, 2.0, 3.0, 4.0))
            server.calls.push("w", [1.0, 1.0, 1.0, 1.0])
            pulled, version = server.calls.pull("w")
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0)

            psckpt("verify", server.data)
            self.assertEqual(psckpt_json("list", server.data)[0]["checkpoints"][0]["state"],
                             "whole")
            out = os.path.join(temp, "out")
            psckpt("export", server.data, "--out", out, "--merge")
            self.assertEqual(read_safetensors(os.path.join(out, "merged.safetensors")),
                             {"w": pulled})
            newest = sorted(glob.glob(os.path.join(server.data, "shard-0", "*.safetensors")))[-1]
            (row,) = psckpt_json("show", newest)["parameters"]
            self.assertEqual(row["version"], version)

    def test_a_row_wise_table_of_width_1_is_the_same_in_a_journal_and_in_a_file(self):
        """Its states have one element for a row, as those of other rules have."""
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.make_ready()
            table = Rows(server, "t", width=1)
            table.define(configuration(row_wise, width=1))
            table.push([(7, [2.0])])
            server.process.kill()
            psckpt("repair", server.data, "--out", os.path.join(temp, "out"))
            self.assertEqual(psckpt("diff", server.data, os.path.join(temp, "out")), "")

    def test_a_server_goes_on_from_an_imported_model(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.process.signal(signal.SIGTERM)
            server.process.wait_exit()
            path = os.path.join(temp, "model.safetensors")
            write_safetensors(path, {"w": ("F32", [2, 2], [1.0, 2.0, 3.0, 4.0])})
            for shard in glob.glob(os.path.join(server.data, "shard-*")):
                self.assertEqual(glob.glob(os.path.join(shard, "*.safetensors")), [])
                shutil.rmtree(shard)
            psckpt("import", path, "--rate", "1", "--out", server.data)
            before = digest(server.data)

            server.start()

            self.assertEqual(server.calls.pull("w"), ([1.0, 2.0, 3.0, 4.0], 0))
            server.calls.push("w", [1.0, 1.0, 1.0, 1.0])
            self.assertEqual(server.calls.pull("w"), ([0.0, 1.0, 2.0, 3.0], 1))
            server.process.signal(signal.SIGTERM)
            server.process.wait_exit()
            self.assertNotEqual(digest(server.data), before)

    def test_a_killed_server_comes_back_with_the_state_that_psckpt_computed(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.make_ready("w", (1.0, 2.0, 3.0, 4.0))
            for i in range(20):
                server.calls.push("w", [float(i), 1.0, 0.5, 0.0])
            server.process.kill()
            (row,) = psckpt_json("list", server.data)
            self.assertEqual(row["checkpoints"][0]["position"], 0)
            self.assertEqual(row["journal"][-1]["last"], 20)
            before = digest(server.data)
            shard = os.path.join(server.data, "shard-0")
            half = digest(shard, "--to", "10")
            psckpt("replay", shard, "--to", "10", "--out", os.path.join(temp, "half"))
            self.assertEqual(digest(os.path.join(temp, "half")), half)

            server.start()
            self.assertEqual(server.calls.pull("w")[1], 20)
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0)

            self.assertEqual(digest(server.data, "--no-journal"), before)
            self.assertEqual(digest(server.data), before)
            psckpt("verify", server.data)

    def damaged_in_its_journal(self, server):
        """Ten pushes, of which the journal is damaged in the middle. Gives the segment."""
        server.make_ready("w", (0.0, 0.0, 0.0, 0.0))
        for _ in range(10):
            server.calls.push("w", [-1.0, -1.0, -1.0, -1.0])
        server.process.kill()
        (segment,) = glob.glob(os.path.join(server.data, "shard-0", "*.journal"))
        with open(segment, "r+b") as file:
            file.seek(records_end(segment) // 2)
            file.write(b"\xff\xff\xff\xff\xff\xff\xff\xff")
        psckpt("verify", server.data, code=65)

    def test_a_server_goes_on_from_a_folder_that_was_repaired_in_place(self):
        with Server() as server:
            self.damaged_in_its_journal(server)
            psckpt("publish", server.data, code=65)
            self.assertIn("psckpt repair --in-place", psckpt.errors)
            (row,) = psckpt_json("repair", "--in-place", server.data)
            good = row["position"]
            self.assertIn(good, range(1, 10))
            self.assertTrue(glob.glob(os.path.join(server.data, "shard-0.before-1", "*.journal")))

            server.start()

            self.assertEqual(server.calls.pull("w"), ([float(good)] * 4, good))
            server.calls.push("w", [-1.0, -1.0, -1.0, -1.0])
            server.process.kill()
            self.assertEqual(psckpt_json("digest", server.data)["shards"][0]["position"], good + 1)
            server.start()
            self.assertEqual(server.calls.pull("w"), ([float(good + 1)] * 4, good + 1))

    def test_a_server_goes_on_from_a_repaired_copy(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            self.damaged_in_its_journal(server)
            out = os.path.join(temp, "new")
            ((row,)) = psckpt_json("repair", server.data, "--out", out)

            with Server(data=out) as another:
                self.assertEqual(another.calls.pull("w")[1], row["position"])

    def test_what_a_damaged_published_checkpoint_had_is_counted_when_it_is_given_up(self):
        with Server("--no-journal", "--ack", "memory") as server:
            server.make_ready("w", (0.0, 0.0, 0.0, 0.0))
            for _ in range(2):
                for _ in range(5):
                    server.calls.push("w", [-1.0, -1.0, -1.0, -1.0])
                self.assertEqual(server.psctl("checkpoint").returncode, 0)
            server.process.kill()
            files = sorted(glob.glob(os.path.join(server.data, "shard-0", "*.safetensors")))
            os.remove(files[-1])
            server.start(wait=False)
            self.assertEqual(server.process.wait_exit(), 65)
            self.assertIn("5 pushes would be given up", server.process.log())
            self.assertIn("psckpt publish DATA-DIR", server.process.log())
            self.assertNotIn("repair", server.process.log())

            (row,) = psckpt_json("publish", server.data)
            self.assertEqual((row["position"], row["given_up"]), (5, 5))

            server.start()
            self.assertEqual(server.calls.pull("w")[1], 5)
            (status,) = json.loads(server.psctl("status", "--output", "json").stdout)
            self.assertEqual(status["lost_push_count"], 5)
            self.assertIsNotNone(server.process.event("acknowledged pushes are lost"))

    def test_a_shard_with_a_server_is_not_published_anew(self):
        with Server() as server:
            server.make_ready()
            for timeout in ("2s", "60s"):  # a busy machine may need more to look at all
                psckpt("publish", server.data, "--timeout", timeout, code=69)
                if "a server owns" in psckpt.errors:
                    break
            self.assertIn("a server owns shard 0", psckpt.errors)
            psckpt("repair", "--in-place", server.data, "--timeout", "2s", code=69)
            psckpt("repair", "--in-place", server.data, "--out", "x", code=64)
            psckpt("publish", os.path.join(server.data, "shard-0"), code=64)
            psckpt("publish", server.data, "--shard", "1", code=66)
            psckpt("publish", server.data, "--shard", "x", code=64)


class WithEtcd(unittest.TestCase):
    def test_the_published_checkpoint_is_marked_and_never_pruned(self):
        with Cluster(shards=1, interval="1h") as cluster:
            (server,) = cluster.start_servers()
            calls = Calls(server.event("listening")["address"])
            calls.init("w", [0.0] * 4)
            calls.finish()
            for _ in range(2):
                calls.push("w", [-1.0] * 4)
                self.assertEqual(cluster.psctl("checkpoint")[0], 0)
            cluster.kill_server(server)
            url = ("--etcd", cluster.etcd_url)
            rows = psckpt_json("list", cluster.data, *url)[0]["checkpoints"]
            self.assertEqual([row["published"] for row in rows], [True] + [False] * (len(rows) - 1))
            before = digest(cluster.data)

            pointer = json.loads(cluster.etcdctl("get", "/checkpoints/0", "--print-value-only"))
            pointer["uuid"] = rows[-1]["uuid"]
            cluster.etcdctl("put", "/checkpoints/0", json.dumps(pointer))
            psckpt("prune", cluster.data, "--keep", 1, *url)
            kept = psckpt_json("list", cluster.data, *url)[0]["checkpoints"]
            self.assertEqual([row["uuid"] for row in kept], [rows[0]["uuid"], rows[-1]["uuid"]])
            cluster.etcdctl("del", "/checkpoints/0")
            psckpt("prune", cluster.data, "--keep", 1, *url)
            self.assertEqual(len(psckpt_json("list", cluster.data)[0]["checkpoints"]), 1)
            self.assertEqual(digest(cluster.data), before)

    def two_shards_with_a_hole(self, cluster, lost):
        """A job of two shards, killed; of shard 0 a segment in the middle is gone. Gives the
        digest of before and where the journal of shard 0 breaks off."""
        servers = cluster.start_servers("--journal-segment-bytes", "1MiB")
        address = {row["index"]: row["address"] for row in cluster.status()}
        for index, name in ((0, "w"), (1, "b")):
            calls = Calls(address[index])
            calls.init(name, [0.0] * 65536)
            calls.finish()
            for _ in range(16):
                calls.push(name, [-1.0] * 65536)
        for server in servers:
            cluster.kill_server(server)
        before = digest(cluster.data)
        segments = sorted(glob.glob(os.path.join(cluster.data, "shard-0", "*.journal")))
        self.assertGreater(len(segments), 2)
        lost.append(int(os.path.basename(segments[1]).split("-")[1].split(".")[0], 16) - 1)
        os.remove(segments[1])
        return before

    def test_a_repaired_job_of_two_shards_is_served_at_once(self):
        for flags in (["--in-place"], ["--out", "new"]):
            with Cluster(shards=2, interval="1h") as cluster, self.subTest(flags):
                end = []
                self.two_shards_with_a_hole(cluster, end)
                refused = cluster.pserver("pserver-refused", "--index", "0")
                self.assertEqual(refused.wait_exit(), 65)
                self.assertIn("psckpt repair DATA-DIR --in-place", refused.log())
                if flags[0] == "--out":
                    flags = ["--out", os.path.join(cluster.folder, "new")]

                psckpt("repair", cluster.data, *flags, "--etcd", cluster.etcd_url)

                if flags[0] == "--out":
                    cluster.data = flags[1]
                for i in range(2):
                    cluster.pserver(f"pserver-again-{i}").wait_event("listening")
                cluster.wait_states("ready")
                rows = {row["index"]: row for row in cluster.status()}
                self.assertEqual(rows[0]["position"], end[0])
                self.assertEqual(rows[1]["position"], 16)

    def test_an_etcd_that_does_not_answer_is_69(self):
        with tempfile.TemporaryDirectory() as temp:
            os.mkdir(os.path.join(temp, "shard-0"))
            for command in ("list", "prune"):
                psckpt(command, temp, "--etcd", f"http://127.0.0.1:{free_port()}", "--timeout",
                       "1s", code=69)
            psckpt("list", temp, "--etcd", "no url", code=64)


if __name__ == "__main__":
    unittest.main(verbosity=2)
