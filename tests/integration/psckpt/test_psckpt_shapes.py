#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Shapes, from InitParam and from other programs' files to the file that a framework loads."""

import json
import os
import shutil
import signal
import sys
import tempfile
import unittest

import grpc

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import Server  # noqa: E402
from calls import MESSAGES  # noqa: E402
from psckpt_run import (digest, psckpt, psckpt_json, read_safetensors,  # noqa: E402
                        write_safetensors)


def exported(data, out):
    """Values and shapes by name."""
    psckpt("export", data, "--out", out, "--merge")
    values = read_safetensors(os.path.join(out, "merged.safetensors"))
    return values, read_safetensors.shapes


def load_state_dict(test, path):
    """The file as a framework takes it, where there is one on this machine."""
    try:
        import torch
        from safetensors.torch import load_file
    except ImportError:
        print("no torch with safetensors here: what load_state_dict says is not tested")
        return
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    model.load_state_dict(load_file(path), strict=True)
    test.assertEqual(model[0].weight.tolist(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])


# What torch says of Sequential(Linear(3, 2), BatchNorm1d(2)).state_dict().
MODEL = {"0.weight": ("F32", [2, 3], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
         "0.bias": ("F32", [2], [0.5, -0.5]),
         "1.weight": ("F32", [2], [1.0, 1.0]), "1.bias": ("F32", [2], [0.0, 0.0]),
         "1.running_mean": ("F32", [2], [0.0, 0.0]), "1.running_var": ("F32", [2], [1.0, 1.0]),
         "1.num_batches_tracked": ("I64", [], [3])}


class Shapes(unittest.TestCase):
    def listed(self, server):
        rows = json.loads(server.psctl("params", "--output", "json").stdout)
        return {row["name"]: row["shape"] for row in rows}

    def pulled(self, server, name):
        message = MESSAGES["pserver.v1.GetParamRequest"](name=name)
        self.assertNotIn(b"\x5a\x03\x02\x01\x03", server.calls.call("GetParam", message))
        message.with_shape = True
        reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(
            server.calls.call("GetParam", message))
        return list(reply.shape), reply.scalar

    def test_shapes_survive_kill_and_come_out_of_the_checkpoint(self):
        shapes = {"m": [2, 1, 3], "s": [], "v": [4]}
        values = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.calls.init("m", values, shape=[2, 1, 3])
            server.calls.init("s", [0.5], scalar=True)
            server.calls.init("v", values[:4])
            server.calls.finish()
            self.assertEqual(self.listed(server), shapes)
            self.assertIn("[2,1,3]", server.psctl("params").stdout)
            self.assertEqual([self.pulled(server, name) for name in "msv"],
                             [([2, 1, 3], False), ([], True), ([], False)])
            server.calls.push("m", [1.0] * 6)
            server.process.kill()
            self.assertEqual(exported(server.data, os.path.join(temp, "killed")),
                             ({"m": [value - 1 for value in values], "s": [0.5], "v": values[:4]},
                              shapes))

            server.start()
            self.assertEqual(server.calls.pull("m"), ([value - 1 for value in values], 1))
            self.assertEqual(self.listed(server), shapes)
            before = digest(server.data)
            self.assertEqual(server.psctl("checkpoint").returncode, 0)
            server.process.kill()
            psckpt("verify", server.data)
            self.assertEqual(digest(server.data, "--no-journal"), before)
            self.assertEqual(exported(server.data, os.path.join(temp, "saved"))[1], shapes)

    def test_shapes_that_do_not_fit_are_refused(self):
        with Server() as server:
            for fields in ({"shape": [2, 2]}, {"shape": [7]}, {"shape": [6, 0]}, {"scalar": True},
                           {"shape": [1] * 16 + [6]}, {"shape": [2 ** 63, 2, 6]},
                           {"shape": [6], "scalar": True}):
                with self.assertRaises(grpc.RpcError) as refused:
                    server.calls.init("w", [0.0] * 6, **fields)
                self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            server.calls.init("w", [0.0] * 6, shape=[1] * 14 + [2, 3])

    def test_a_model_of_a_framework_goes_in_and_comes_out(self):
        with Server() as server, tempfile.TemporaryDirectory() as temp:
            server.process.signal(signal.SIGTERM)
            server.process.wait_exit()
            path = os.path.join(temp, "model.safetensors")
            write_safetensors(path, MODEL)
            shutil.rmtree(os.path.join(server.data, "shard-0"), ignore_errors=True)
            psckpt("import", path, "--optimizer", "adam", "--rate", "0.1", "--out", server.data)
            server.start()
            self.assertEqual(self.listed(server), {name: row[1] for name, row in MODEL.items()})
            self.assertEqual(server.psctl("checkpoint").returncode, 0)
            server.process.kill()
            values, shapes = exported(server.data, os.path.join(temp, "out"))
            self.assertEqual(values, {name: row[2] for name, row in MODEL.items()})
            self.assertEqual(shapes, {name: row[1] for name, row in MODEL.items()})
            load_state_dict(self, os.path.join(temp, "out", "merged.safetensors"))


class Importing(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def exported(self, data):
        return exported(data, self.path("out"))[0]

    def test_what_frameworks_write_is_imported(self):
        write_safetensors(self.path("in.safetensors"), {
            "half": ("F16", [2, 2], [1.0, -0.5, 65504.0, 5.960464477539063e-08]),
            "brain": ("BF16", [3], [0x3f80, 0xc000, 0x7f80]),
            "large": ("F16", [9000], [float(i % 1024) for i in range(9000)]),
            "norm.num_batches_tracked": ("I64", [], [7]), "mask": ("BOOL", [1, 3], [1, 0, 1]),
            "bytes": ("U8", [2, 1], [0, 255]), "small": ("I8", [2], [-128, 127]),
            "short": ("I16", [1, 1, 2], [-32768, 32767]), "word": ("U16", [1], [65535])})
        psckpt("import", self.path("in.safetensors"), "--optimizer", "adam", "--out",
               self.path("new"))
        self.assertIn("6 parameters of whole numbers get sgd, rate 1", psckpt.errors)
        self.assertEqual(self.exported(self.path("new")), {
            "half": [1.0, -0.5, 65504.0, 5.960464477539063e-08],
            "brain": [1.0, -2.0, float("inf")],
            "large": [float(i % 1024) for i in range(9000)],
            "norm.num_batches_tracked": [7], "mask": [1, 0, 1], "bytes": [0, 255],
            "small": [-128, 127], "short": [-32768, 32767], "word": [65535]})
        self.assertEqual(read_safetensors.shapes, {
            "half": [2, 2], "brain": [3], "large": [9000], "norm.num_batches_tracked": [],
            "mask": [1, 3], "bytes": [2, 1], "small": [2], "short": [1, 1, 2], "word": [1]})

    def test_a_shape_is_a_part_of_the_state(self):
        for folder, shape in (("a", [2, 3]), ("b", [3, 2]), ("c", [6])):
            write_safetensors(self.path(folder + ".safetensors"),
                              {"w": ("F32", shape, [float(i) for i in range(6)])})
            psckpt("import", self.path(folder + ".safetensors"), "--out", self.path(folder))
        digests = {digest(self.path(folder)) for folder in "abc"}
        self.assertEqual(len(digests), 3)
        (row,) = psckpt_json("diff", self.path("a"), self.path("b"), code=1)
        self.assertEqual((row["name"], row["part"]), ("w", "shape"))

    def test_another_type_of_the_same_shape_is_told_as_that(self):
        for folder, dtype in (("a", "F32"), ("b", "F64")):
            write_safetensors(self.path(folder + ".safetensors"), {"w": (dtype, [2], [1.0, 2.0])})
            psckpt("import", self.path(folder + ".safetensors"), "--out", self.path(folder))
        (row,) = psckpt_json("diff", self.path("a"), self.path("b"), code=1)
        self.assertEqual((row["name"], row["part"]), ("w", "type"))


if __name__ == "__main__":
    unittest.main()
