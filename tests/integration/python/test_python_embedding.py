# SPDX-License-Identifier: Apache-2.0
"""pserver.torch.RemoteEmbedding beside torch.nn.EmbeddingBag in one process: the same numbers."""

import sys
import unittest

try:
    import torch
except ImportError:
    print("skipped: no torch for this Python")
    sys.exit(77)

import numpy as np
import pserver
import pserver.torch
from pserver.testing import Server

KEYS, WIDTH = 40, 6


class Embedding(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        torch.manual_seed(1)
        self.server = self.enterContext(Server("--ack=memory", data=False))
        self.ps = self.enterContext(pserver.connect(self.server.address))
        self.ps.initialize({})

    def pair(self, optimizer, mode="sum", **options):
        """A layer over a table, and torch's with the same first values."""
        table = self.ps.table("t", WIDTH, optimizer, init=pserver.Uniform(-1, 1, seed=4))
        first = torch.from_numpy(table.get(np.arange(KEYS)))
        if "padding_idx" in options:  # where torch looks a row up, ours has none
            first[options["padding_idx"]] = 0
        if mode == "rows":
            beside = torch.nn.Embedding(KEYS, WIDTH, _weight=first, **options)
        else:
            beside = torch.nn.EmbeddingBag(KEYS, WIDTH, mode=mode, _weight=first, **options)
        return pserver.torch.RemoteEmbedding(table, mode, **options), beside

    def compare(self, remote, local, mode, steps=20, **options):
        """Trains both with the same batches, in which keys come twice."""
        bags, beside = self.pair(remote, mode, **options)
        optimizer = local(beside.parameters())
        head = torch.randn(WIDTH)
        for _ in range(steps):
            keys = torch.randint(0, KEYS, (8, 3))
            (torch.tanh(bags(keys)) @ head).square().sum().backward()
            optimizer.zero_grad()
            (torch.tanh(beside(keys)) @ head).square().sum().backward()
            optimizer.step()
        found = torch.from_numpy(bags.table.get(np.arange(KEYS)))
        if "padding_idx" in options:
            found[options["padding_idx"]] = 0
        self.assertLessEqual((found - beside.weight).abs().max().item(), 1e-5)

    def test_sums_are_those_of_torch(self):
        self.compare(pserver.SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05), "sum")

    def test_means_are_those_of_torch(self):
        self.compare(pserver.SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05), "mean")

    def test_rows_are_those_of_torch(self):
        self.compare(pserver.SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05), "rows")

    def test_padding_is_that_of_torch(self):
        for mode in ("sum", "mean", "rows"):
            for padding in (0, 17, KEYS - 1):
                with self.subTest(mode, padding=padding):
                    self.compare(pserver.SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05), mode,
                                 padding_idx=padding)
                    self.ps.drop(["t"])

    def test_bags_that_are_padding_are_zeros_and_train_nothing(self):
        """Also with offsets and weights, and where a batch has nothing else. Any key will do."""
        table = self.ps.table("t", WIDTH, pserver.SGD(0.1), init=pserver.Uniform(-1, 1, seed=4))
        pushed = self.ps.status()[0].push_count
        for mode in ("sum", "mean", "rows"):
            layer = pserver.torch.RemoteEmbedding(table, mode, padding_idx=-1)
            made = layer(torch.full((3, 2), -1))
            self.assertTrue((made == 0).all())
            made.sum().backward()
        self.assertEqual(self.ps.status()[0].push_count, pushed)
        bags = pserver.torch.RemoteEmbedding(table, "sum", padding_idx=-1)
        made = bags(torch.tensor([-1, 4, -1]), torch.tensor([0, 1]),
                    per_sample_weights=torch.tensor([9.0, 2.0, 9.0]))
        self.assertTrue((made[0] == 0).all())
        np.testing.assert_allclose(made[1].detach().numpy(), 2 * table.get(4), rtol=1e-6)
        self.assertEqual(str(bags), "RemoteEmbedding('t', width=6, mode='sum', padding_idx=-1)")
        before = table.get([4, -1])
        made.sum().backward()
        np.testing.assert_allclose(table.get([4, -1]), before - [[0.2] * WIDTH, [0.0] * WIDTH],
                                   rtol=1e-5)

    def test_adagrad_is_that_of_torch(self):
        self.compare(pserver.Adagrad(0.05), lambda p: torch.optim.Adagrad(p, lr=0.05), "sum")

    def test_offsets_and_weights_are_those_of_torch(self):
        bags, beside = self.pair(pserver.SGD(0.1))
        keys, offsets = torch.tensor([3, 1, 3, 7]), torch.tensor([0, 3, 3])
        weights = torch.tensor([0.5, 2.0, 1.0, 3.0])
        ours = bags(keys, offsets, per_sample_weights=weights)
        theirs = beside(keys, offsets, per_sample_weights=weights)
        self.assertLessEqual((ours - theirs).abs().max().item(), 1e-6)
        ours.square().sum().backward()
        theirs.square().sum().backward()
        found = torch.from_numpy(bags.table.get(np.arange(KEYS)))
        beside.weight.data.sub_(0.1 * beside.weight.grad)
        self.assertLessEqual((found - beside.weight).abs().max().item(), 1e-5)

    def test_nothing_is_added_where_nothing_is_trained(self):
        bags, _ = self.pair(pserver.SGD(0.1))
        before = bags.table.get(np.arange(KEYS))
        keys = torch.tensor([[1, 2]])
        with torch.no_grad():
            bags(keys)
        self.assertFalse(bags.eval()(keys).requires_grad)
        np.testing.assert_array_equal(bags.table.get(np.arange(KEYS)), before)

    def test_an_empty_batch_is_an_empty_result(self):
        bags, _ = self.pair(pserver.SGD(0.1), "rows")
        self.assertEqual(tuple(bags(torch.empty(0, 3, dtype=torch.int64)).shape), (0, 3, WIDTH))

    def test_the_layer_says_what_it_is(self):
        bags, _ = self.pair(pserver.SGD(0.1), "mean")
        self.assertEqual(str(bags), "RemoteEmbedding('t', width=6, mode='mean')")
        self.assertEqual(list(bags.parameters()), [])
        whole = self.ps.table("n", 1, pserver.Add(), dtype=np.int64)
        with self.assertRaises(TypeError):
            pserver.torch.RemoteEmbedding(whole)
        with self.assertRaises(ValueError):
            pserver.torch.RemoteEmbedding(bags.table, "max")


if __name__ == "__main__":
    unittest.main(verbosity=2)
