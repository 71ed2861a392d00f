# SPDX-License-Identifier: Apache-2.0
"""pserver.torch beside torch.optim in one process: the same numbers."""

import copy
import json
import os
import subprocess
import sys
import tempfile
import threading
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


def train(model, optimizer, steps=STEPS, scheduler=None):
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(64, 16, generator=generator)
    y = torch.randint(0, 4, (64,), generator=generator)
    for _ in range(steps):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


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

    def compare(self, remote, local, schedule=lambda optimizer: None):
        model, beside = network(), network()
        beside.load_state_dict(model.state_dict())
        where = [parameter.data_ptr() for parameter in model.parameters()]
        for one, optimizer in (
                (model, pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps, remote)),
                (beside, local(beside.parameters()))):
            train(one, optimizer, scheduler=schedule(optimizer))
        for ours, theirs in zip(model.parameters(), beside.parameters()):
            self.assertLessEqual((ours - theirs).abs().max().item(), 1e-6)
        self.assertEqual(where, [parameter.data_ptr() for parameter in model.parameters()])
        self.assertEqual(set(self.ps.versions.values()), {STEPS})

    def test_sgd_is_that_of_torch(self):
        self.compare(pserver.SGD(0.05), lambda p: torch.optim.SGD(p, lr=0.05))

    def test_momentum_is_that_of_torch(self):
        self.compare(pserver.SGD(0.05, momentum=0.9, nesterov=True),
                     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True))

    def test_outer_is_nesterov_of_torch(self):
        self.compare(pserver.Outer(0.05, l2=0.01),
                     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01,
                                               nesterov=True))

    def test_weight_decay_of_sgd_is_that_of_torch(self):
        self.compare(pserver.SGD(0.05, momentum=0.9, l2=0.01),
                     lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01))

    def test_weight_decay_and_epsilon_of_adam_are_those_of_torch(self):
        self.compare(pserver.Adam(1e-2, eps=1e-3, l2=0.01),
                     lambda p: torch.optim.Adam(p, lr=1e-2, eps=1e-3, weight_decay=0.01))

    def test_a_scheduler_of_torch_reaches_the_servers(self):
        for remote, local in (
                (pserver.SGD(0.05, l2=0.01),
                 lambda p: torch.optim.SGD(p, lr=0.05, weight_decay=0.01)),
                (pserver.Outer(0.05),
                 lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9, nesterov=True)),
                (pserver.Adam(1e-2), lambda p: torch.optim.Adam(p, lr=1e-2))):
            with self.subTest(remote=remote), Server("--ack=memory", data=False) as server, \
                    pserver.connect(server.address) as self.ps:
                self.compare(remote, local, lambda optimizer: torch.optim.lr_scheduler.StepLR(
                    optimizer, step_size=10, gamma=0.5))
                rates = {info.learning_rate for info in self.ps.parameters().values()}
                self.assertEqual(rates, {remote.lr / 16})

    def test_adam_is_that_of_torch(self):
        self.compare(pserver.Adam(1e-2), lambda p: torch.optim.Adam(p, lr=1e-2))

    def test_adamw_is_that_of_torch(self):
        self.compare(pserver.AdamW(1e-2), lambda p: torch.optim.AdamW(p, lr=1e-2))

    def test_rmsprop_is_that_of_torch(self):
        self.compare(pserver.RMSProp(1e-3), lambda p: torch.optim.RMSprop(p, lr=1e-3))

    def test_adagrad_is_that_of_torch(self):
        self.compare(pserver.Adagrad(0.01), lambda p: torch.optim.Adagrad(p, lr=0.01))

    def test_local_steps_with_rate_1_are_those_of_the_inner_optimizer(self):
        model, beside = network(), network()
        beside.load_state_dict(model.state_dict())
        outer = pserver.torch.LocalSteps(model.named_parameters(), self.ps,
                                         pserver.Outer(1.0, momentum=0.0), every=5)
        rounds = []
        for one, after in ((model, lambda: rounds.append(outer.step())), (beside, lambda: None)):
            inner = torch.optim.Adam(one.parameters(), lr=1e-2)
            for _ in range(STEPS):
                train(one, inner, 1)
                after()
        self.assertEqual(rounds, [i % 5 == 4 for i in range(STEPS)])
        for ours, theirs in zip(model.parameters(), beside.parameters()):
            self.assertLessEqual((ours - theirs).abs().max().item(), 1e-5)
        self.assertEqual(set(self.ps.versions.values()), {STEPS // 5})

    def test_local_steps_in_bfloat16_are_staged(self):
        model = torch.nn.Linear(4, 4).to(torch.bfloat16)
        outer = pserver.torch.LocalSteps(model.named_parameters(), self.ps,
                                         pserver.Outer(1.0, momentum=0.0), every=1)
        with torch.no_grad():
            model.weight += 1
        after = model.weight.detach().clone()
        outer.step()
        self.assertEqual(model.weight.dtype, torch.bfloat16)
        self.assertTrue(torch.equal(model.weight, after))
        with self.assertRaisesRegex(ValueError, "every 0"):
            pserver.torch.LocalSteps(model.named_parameters(), self.ps, every=0)

    def inner_steps(self, model, inner, rank, steps):
        """Steps on data of the worker's own."""
        generator = torch.Generator().manual_seed(rank)
        x = torch.randn(64, 16, generator=generator)
        y = torch.randint(0, 4, (64,), generator=generator)
        for _ in range(steps):
            inner.zero_grad()
            torch.nn.functional.cross_entropy(model(x), y).backward()
            inner.step()

    def diloco_of_torch(self, first, workers, rounds, every):
        """Algorithm 1 of Douillard et al. 2023 in one process."""
        outer = torch.optim.SGD(first.parameters(), lr=0.7, momentum=0.9, nesterov=True)
        copies = [copy.deepcopy(first) for _ in range(workers)]
        inners = [torch.optim.AdamW(one.parameters(), lr=1e-2) for one in copies]
        for _ in range(rounds):
            for rank, (one, inner) in enumerate(zip(copies, inners)):
                one.load_state_dict(first.state_dict())
                self.inner_steps(one, inner, rank, every)
            for parameter, *ends in zip(first.parameters(),
                                        *(one.parameters() for one in copies)):
                parameter.grad = sum(parameter.data - end.data for end in ends) / workers
            outer.step()

    def test_local_steps_of_workers_are_diloco(self):
        workers, rounds, every = 3, 5, 4
        first = network()
        models = [copy.deepcopy(first) for _ in range(workers)]

        def work(rank):
            with pserver.connect(self.server.address, timeout=120) as ps:
                outer = pserver.torch.LocalSteps(
                    models[rank].named_parameters(), ps,
                    pserver.Outer(rounds=pserver.Rounds(workers)), every=every, worker=rank)
                inner = torch.optim.AdamW(models[rank].parameters(), lr=1e-2)
                for _ in range(rounds * every):
                    self.inner_steps(models[rank], inner, rank, 1)
                    outer.step()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.diloco_of_torch(first, workers, rounds, every)
        for expected, *found in zip(first.parameters(), *(one.parameters() for one in models)):
            for one in found:
                self.assertLessEqual((expected - one).abs().max().item(), 1e-5)

    def test_remote_optimizers_of_workers_take_the_mean_of_their_gradients(self):
        models = [network(), network()]
        models[1].load_state_dict(models[0].state_dict())
        beside = copy.deepcopy(models[0])

        def work(rank):
            with pserver.connect(self.server.address, timeout=120) as ps:
                optimizer = pserver.torch.RemoteOptimizer(
                    models[rank].named_parameters(), ps,
                    pserver.Adam(1e-2, rounds=pserver.Rounds(2)), worker=rank)
                self.inner_steps(models[rank], optimizer, rank, 20)
                with self.assertRaises(ValueError):
                    optimizer.step_async()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        inner = torch.optim.Adam(beside.parameters(), lr=1e-2)
        data = [torch.Generator().manual_seed(rank) for rank in range(2)]
        both = [(torch.randn(64, 16, generator=one), torch.randint(0, 4, (64,), generator=one))
                for one in data]
        for _ in range(20):
            inner.zero_grad()
            for x, y in both:
                (torch.nn.functional.cross_entropy(beside(x), y) / 2).backward()
            inner.step()
        for expected, *found in zip(beside.parameters(), *(one.parameters() for one in models)):
            for one in found:
                self.assertLessEqual((expected - one).abs().max().item(), 1e-5)

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
            optimizer.load_state_dict({"names": ["other"], "lr": 1.0})

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

    def test_a_changed_learning_rate_is_told_once_and_kept_in_the_state(self):
        model = network()
        optimizer = pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps)
        told = []
        configure = self.ps.configure
        self.ps.configure = lambda names, **change: told.append(change) or configure(
            names, **change)
        train(model, optimizer, 2)
        optimizer.param_groups[0]["lr"] = 0.25
        train(model, optimizer, 2)
        self.assertEqual([change["lr"] for change in told], [0.25])
        state = optimizer.state_dict()
        self.assertEqual(state["lr"], 0.25)

        # Another trainer does not tell what it has not changed.
        other = pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps)
        train(model, other, 1)
        self.assertEqual(len(told), 1)
        other.load_state_dict(state)
        train(model, other, 1)
        self.assertEqual([change["lr"] for change in told], [0.25, 0.25])

    def test_a_rule_without_a_rate_has_none_to_change(self):
        model = network()
        optimizer = pserver.torch.RemoteOptimizer(model.named_parameters(), self.ps,
                                                  pserver.Assign())
        optimizer.param_groups[0]["lr"] = 1.0
        with self.assertRaisesRegex(ValueError, "no learning rate"):
            train(model, optimizer, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
