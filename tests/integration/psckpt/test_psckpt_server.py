#!/usr/bin/python3
"""psckpt on the folder of a server that ran, and a server on the folder that psckpt made."""

import glob
import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Calls, Cluster, Server  # noqa: E402
from cluster import free_port  # noqa: E402
from psckpt_run import (digest, psckpt, psckpt_json, read_safetensors,  # noqa: E402
                        write_safetensors)


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

    def test_a_server_goes_on_from_a_repaired_folder(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.make_ready("w", (0.0, 0.0, 0.0, 0.0))
            for _ in range(10):
                server.calls.push("w", [-1.0, -1.0, -1.0, -1.0])
            server.process.kill()
            (segment,) = glob.glob(os.path.join(server.data, "shard-0", "*.journal"))
            with open(segment, "r+b") as file:
                file.seek(os.path.getsize(segment) // 2)
                file.write(b"\xff\xff\xff\xff\xff\xff\xff\xff")
            psckpt("verify", server.data, code=65)
            psckpt("repair", server.data, "--out", os.path.join(temp, "new"))
            (row,) = psckpt_json("list", os.path.join(temp, "new"))
            good = row["checkpoints"][0]["position"]
            self.assertIn(good, range(1, 10))
            shutil.rmtree(os.path.join(server.data, "shard-0"))
            shutil.move(os.path.join(temp, "new", "shard-0"), server.data)

            server.start()

            self.assertEqual(server.calls.pull("w"), ([float(good)] * 4, good))
            server.calls.push("w", [-1.0, -1.0, -1.0, -1.0])
            server.process.kill()
            self.assertEqual(psckpt_json("digest", server.data)["shards"][0]["position"], good + 1)


class WithEtcd(unittest.TestCase):
    def test_the_published_checkpoint_is_marked_and_never_pruned(self):
        with Cluster(shards=1, ttl="2s", interval="1h") as cluster:
            (server,) = cluster.start_servers()
            calls = Calls(server.event("listening")["address"])
            calls.init("w", [0.0] * 4)
            calls.finish()
            for _ in range(2):
                calls.push("w", [-1.0] * 4)
                self.assertEqual(cluster.psctl("checkpoint")[0], 0)
            server.kill()
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

    def test_an_etcd_that_does_not_answer_is_69(self):
        with tempfile.TemporaryDirectory() as temp:
            os.mkdir(os.path.join(temp, "shard-0"))
            for command in ("list", "prune"):
                psckpt(command, temp, "--etcd", f"http://127.0.0.1:{free_port()}", "--timeout",
                       "1s", code=69)
            psckpt("list", temp, "--etcd", "no url", code=64)


if __name__ == "__main__":
    unittest.main(verbosity=2)
