# SPDX-License-Identifier: Apache-2.0
"""A set of checkpoints taken while two trainers train, while another pushes on and a server is
killed: restored, the model has the losses that were recorded when the trainers stood still."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest

import numpy as np
import pserver

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "cluster"))

from cluster import BIN, DATA, PATIENCE, Cluster  # noqa: E402

F4 = np.float32
ROWS = 4000
FEATURES = 123
# Several parameters, so that both shards have some of the model.
PARTS = {f"w{i}": slice(i * 31, (i + 1) * 31) for i in range(4)}


def read_rows(path):
    """The first rows of a libsvm file: a bias and the features, and labels of 0 and 1."""
    features = np.zeros((ROWS, FEATURES + 1), F4)
    labels = np.zeros(ROWS, F4)
    with open(path, encoding="ascii") as file:
        for row, line in zip(range(ROWS), file):
            label, *pairs = line.split()
            labels[row] = float(label) > 0
            features[row, FEATURES] = 1
            for pair in pairs:
                index, value = pair.split(":")
                if int(index) <= FEATURES:
                    features[row, int(index) - 1] = float(value)
    return features, labels


class Losses(unittest.TestCase):
    def setUp(self):
        self.cluster = self.enterContext(Cluster(interval="1h"))
        self.servers = self.cluster.start_servers()
        self.features, self.labels = read_rows(self.data())
        self.at_cut = None
        self.over = threading.Event()

    def data(self):
        """a9a where it is there, else generated rows."""
        path = os.path.join(DATA, "a9a")
        if not os.path.exists(path):
            path = os.path.join(self.cluster.folder, "rows.svm")
            subprocess.run([os.path.join(BIN, "pstrain"), "generate", "--out", path, "--rows",
                            str(ROWS)], check=True, stdout=subprocess.DEVNULL)
        return path

    def connect(self):
        return self.enterContext(pserver.connect(etcd=self.cluster.etcd_url, timeout=PATIENCE,
                                                 wait=PATIENCE))

    def loss(self, values):
        """The logistic loss of the model on all rows."""
        model = np.concatenate([values[name] for name in PARTS])
        margins = self.features @ model * (1 - 2 * self.labels)
        return float(np.mean(np.logaddexp(0, margins.astype(np.float64))))

    def gradients(self, values, rows):
        model = np.concatenate([values[name] for name in PARTS])
        predicted = 1 / (1 + np.exp(-(self.features[rows] @ model)))
        gradient = self.features[rows].T @ (predicted - self.labels[rows]) / len(rows)
        return {name: gradient[part].astype(F4) for name, part in PARTS.items()}

    def train(self, ps, member, steps):
        values = ps.pull(list(PARTS))
        choose = np.random.default_rng(member)
        for _ in range(steps):
            rows = choose.integers(0, ROWS, 256)
            values = ps.push_pull(self.gradients(values, rows))

    def push_noise(self, ps):
        """Traffic of somebody who does not meet the others."""
        while not self.over.is_set():
            ps.push({"noise": np.ones(4, F4)})

    def trainer(self, ps, member):
        self.train(ps, member, 30)
        ps.barrier("cut", round=1, member=member, of=2)
        if member == 0:
            self.at_cut = self.loss(ps.pull(list(PARTS)))
            # The owner of a shard dies while the set is made; a spare does what it has not done.
            self.cluster.kill_server(self.servers[1])
            saved = ps.save_model("cut")
            self.assertEqual(saved.name, "cut")
            self.assertEqual([row.index for row in saved.shards], [0, 1])
        ps.barrier("saved", round=1, member=member, of=2)
        self.train(ps, member, 30)

    def test_a_restored_model_has_the_losses_of_its_cut(self):
        clients = [self.connect() for _ in range(3)]
        values = {name: np.zeros(31, F4) for name in PARTS}
        values["noise"] = np.zeros(4, F4)
        clients[0].initialize(values, pserver.SGD(0.5))
        for client in clients[1:]:
            client.initialize(values)
        self.cluster.pserver("spare")
        before = self.loss(values)
        trainers = [threading.Thread(target=self.trainer, args=(clients[i], i)) for i in range(2)]
        noise = threading.Thread(target=self.push_noise, args=(clients[2],))
        for thread in (*trainers, noise):
            thread.start()
        for thread in trainers:
            thread.join()
        self.over.set()
        noise.join()
        after = self.loss(clients[0].pull(list(PARTS)))
        self.assertIsNotNone(self.at_cut)
        self.assertLess(self.at_cut, before)
        self.assertNotEqual(after, self.at_cut)
        for server in self.cluster.processes:
            if server.alive() and server.name.startswith(("pserver", "spare")):
                server.signal(signal.SIGTERM)
                server.wait_exit()

        done = subprocess.run([os.path.join(BIN, "psckpt"), "restore-set", self.cluster.data,
                               "--set", "cut", "--etcd", self.cluster.etcd_url],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)

        self.assertEqual(done.returncode, 0, done.stderr)
        for i in range(2):
            self.cluster.pserver(f"again-{i}")
        again = self.connect()
        restored = self.loss(again.pull(list(PARTS)))
        self.assertEqual(restored, self.at_cut)
        print(f"loss: {before:.6f} at the start, {self.at_cut:.6f} at the cut, {after:.6f} at the "
              f"end, {restored:.6f} restored")


if __name__ == "__main__":
    if not shutil.which("etcd"):
        print("skipped: no etcd")
        sys.exit(77)
    unittest.main(verbosity=2)
