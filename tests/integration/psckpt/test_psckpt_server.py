#!/usr/bin/python3
"""psckpt on the folder of a server that ran, and a server on the folder that psckpt made."""

import glob
import os
import shutil
import signal
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Server  # noqa: E402
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
            self.assertTrue(psckpt_json("list", server.data)[0]["checkpoints"][0]["whole"])
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


if __name__ == "__main__":
    unittest.main(verbosity=2)
