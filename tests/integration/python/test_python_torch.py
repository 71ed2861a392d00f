# SPDX-License-Identifier: Apache-2.0
"""pserver.torch beside torch.optim in one process: the same numbers."""

import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("skipped: no torch for this Python")
    sys.exit(77)

import pserver
import pserver.torch
from pserver.testing import Server

STEPS = 50


def network():
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.Tanh(), torch.nn.Linear(32, 4))


def train(model, optimizer, steps=STEPS):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(64, 16, generator=generator)
    y = torch.randint(0, 4, (64,), generator=generator)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def read_safetensors(path):
    """Tensors of float32 out of a safetensors file: a length, a header of JSON, the bytes."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        content = file.read()
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(content[slice(*tensor["data_offsets"])]),
                                   dtype=torch.float32).reshape(tensor["shape"])
            for name, tensor in header.items()}


class RemoteOptimizer(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.server = self.enterContext(Server("--ack=memory", data=False))
        self.ps = self.enterContext(pserver.connect(self.server.address))

    def compare(self, remote, local):
        model, beside = network(), network()
        beside.load_state_dict(model.state_dict())
        where = [parameter.data_ptr() for parameter in model.parameters()]
        train(model, pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps, remote))
        train(beside, local(beside.parameters()))
        for ours, theirs in zip(model.parameters(), beside.parameters()):
            self.assertLessEqual((ours - theirs).abs().max().item(), 1e-6)
        self.assertEqual(where, [parameter.data_ptr() for parameter in model.parameters()])
        self.assertEqual(set(self.ps.versions.values()), {STEPS})

    def test_sgd_is_that_of_torch(self):
        self.compare(pserver.SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05))

    def test_momentum_is_that_of_torch(self):
        self.compare(pserver.SGD(0.05, momentum=0.9, nesterov=True),
                     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True))

    def test_adam_is_that_of_torch(self):
        self.compare(pserver.Adam(1e-2), lambda p: torch.optim.Adam(p, lr=1e-2))

    def test_adamw_is_that_of_torch(self):
        self.compare(pserver.AdamW(1e-2), lambda p: torch.optim.AdamW(p, lr=1e-2))

    def test_rmsprop_is_that_of_torch(self):
        self.compare(pserver.RMSProp(1e-3), lambda p: torch.optim.RMSprop(p, lr=1e-3))

    def test_adagrad_is_that_of_torch(self):
        self.compare(pserver.Adagrad(0.01), lambda p: torch.optim.Adagrad(p, lr=0.01))

    def test_half_precision_is_staged(self):
        model = torch.nn.Linear(4, 4).to(torch.bfloat16)
        before = model.weight.detach().clone()
        optimizer = pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps,
                                                  pserver.SGD(1.0))
        model(torch.ones(2, 4, dtype=torch.bfloat16)).sum().backward()
        optimizer.step_async().wait()
        self.assertEqual(model.weight.dtype, torch.bfloat16)
        self.assertGreater((model.weight - before).abs().max().item(), 0)

    def test_a_module_that_reads_takes_the_servers_values(self):
        model, reader = network(), network()
        optimizer = pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps)
        train(model, optimizer, 3)
        pserver.torch.load_state_dict(self.ps, reader)
        for ours, theirs in zip(model.parameters(), reader.parameters()):
            self.assertTrue(torch.equal(ours, theirs))
        optimizer.load_state_dict(optimizer.state_dict())
        with self.assertRaises(ValueError):
            optimizer.load_state_dict({"names": ["other"]})

    def test_an_exported_checkpoint_is_a_state_dict(self):
        with Server() as server, pserver.connect(server.address) as ps, \
                tempfile.TemporaryDirectory() as folder:
            model, reader = network(), network()
            train(model, pserver.torch.RemoteOptimizer(model.named_parameters(), ps), 3)
            ps.save()
            out = os.path.join(folder, "out")
            subprocess.run([os.path.join(os.environ["PS_BIN"], "psckpt"), "export", "--merge",
                            "--out", out, server.data_path], check=True, capture_output=True)
            name, = os.listdir(out)
            reader.load_state_dict(read_safetensors(os.path.join(out, name)))
            for ours, theirs in zip(model.parameters(), reader.parameters()):
                self.assertTrue(torch.equal(ours, theirs))

    def test_a_changed_learning_rate_is_refused_aloud(self):
        model = network()
        optimizer = pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps)
        optimizer.param_groups[0]["lr"] = 1.0
        with self.assertRaisesRegex(ValueError, "schedule"):
            train(model, optimizer, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
