"""The main job: training on real data through two shards, and through a kill -9."""

import json
import os
import subprocess
import unittest

from cluster import BIN, DATA, Cluster, wait_until


class Training(unittest.TestCase):
    """On a9a where it is there, else on generated data whose best accuracy is known."""

    @classmethod
    def setUpClass(cls):
        cls.train = os.path.join(DATA, "a9a")
        cls.test = os.path.join(DATA, "a9a.t")
        cls.wanted = 0.848
        cls.real = os.path.exists(cls.train) and os.path.exists(cls.test)

    def generate(self, cluster):
        best = 1.0
        for name, seed in (("train", "1"), ("test", "2")):
            path = os.path.join(cluster.folder, name + ".svm")
            out = subprocess.run(
                [os.path.join(BIN, "pstrain"), "generate", "--out", path, "--rows", "20000",
                 "--noise", "0.1", "--seed", seed, "--output", "json"],
                check=True, capture_output=True, text=True).stdout
            best = json.loads(out)["best_accuracy"]
        self.train = os.path.join(cluster.folder, "train.svm")
        self.test = os.path.join(cluster.folder, "test.svm")
        self.wanted = best - 0.01

    def flags(self, epochs):
        return ["--data", self.train, "--test", self.test, "--workers", "2", "--optimizer",
                "adam", "--learning-rate", "0.002", "--epochs", str(epochs)]

    def test_two_shards_and_two_trainers_reach_the_accuracy(self):
        with Cluster() as cluster:
            if not self.real:
                self.generate(cluster)
            cluster.start_servers()
            result = cluster.pstrain("train", *self.flags(20)).result()
            print(f"accuracy {result['test_accuracy']:.4f} loss {result['train_loss']:.4f} "
                  f"in {result['seconds']:.1f} s, {result['pushes']} pushes")
            self.assertGreaterEqual(result["test_accuracy"], self.wanted)
            self.assertEqual(result["lost_pushes"], 0)
            positions = [row["position"] for row in cluster.status()]
            self.assertTrue(all(position > 0 for position in positions), positions)

    def test_encodings_reach_the_accuracy_too(self):
        for encoding in (["bfloat16", "--reply-encoding", "float16"], ["int8"],
                         ["top_k", "--top-k-share", "0.05"]):
            with self.subTest(encoding=encoding[0]), Cluster() as cluster:
                if not self.real:
                    self.generate(cluster)
                cluster.start_servers()
                result = cluster.pstrain("train", *self.flags(10), "--encoding",
                                         *encoding).result()
                print(f"{encoding[0]}: accuracy {result['test_accuracy']:.4f} "
                      f"loss {result['train_loss']:.4f}")
                self.assertGreaterEqual(result["test_accuracy"], self.wanted - 0.002)

    def test_training_survives_kill_9_of_a_server(self):
        with Cluster() as cluster:
            if not self.real:
                self.generate(cluster)
            servers = cluster.start_servers()
            training = cluster.pstrain("train", *self.flags(30))
            wait_until(lambda: max(row.get("position", 0) for row in cluster.status()) > 1000,
                       "training is under way")
            victim = cluster.server_of(0)
            cluster.kill_server(victim)
            self.assertIsNone(training.child.poll(), "the training ended before the kill")
            replacement = cluster.pserver("pserver-again")
            replacement.wait_event("listening")
            result = training.result()
            print(f"accuracy {result['test_accuracy']:.4f} after a kill -9, "
                  f"in {result['seconds']:.1f} s, {result['lost_pushes']} pushes lost")
            self.assertGreaterEqual(result["test_accuracy"], self.wanted - 0.003)
            self.assertIsNotNone(replacement.event("checkpoint loaded"))
            self.assertEqual(sum(server.alive() for server in servers), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
