# SPDX-License-Identifier: Apache-2.0
"""A server that is lost between InitParam and FinishInitParams, with real processes."""

import os
import shutil
import unittest

import grpc

from calls import Calls
from cluster import BIN, PATIENCE, Cluster, wait_until


def calls_of(server):
    return Calls(server.wait_event("listening")["address"])


class Initialisation(unittest.TestCase):
    def assert_refuses_to_finish(self, calls, epoch):
        """Twice, since a refusal changes nothing."""
        for _ in range(2):
            with self.assertRaises(grpc.RpcError) as refused:
                calls.finish(epoch=epoch)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.FAILED_PRECONDITION)
            self.assertIn("initialise again; nothing changed", refused.exception.details())
            self.assertEqual(dict(refused.exception.trailing_metadata())["ps-status"],
                             "stale_epoch")

    def assert_can_be_initialised(self, calls):
        epoch = calls.init("w", [1.0, 2.0])
        calls.finish(epoch=epoch)
        self.assertEqual(calls.push("w", [1.0, 1.0]), 1)
        self.assertEqual(calls.pull("w")[0], [0.0, 1.0])

    def kill_between_init_and_finish(self, cluster, start):
        first = start("pserver")
        calls = calls_of(first)
        epoch = calls.init("w", [1.0, 2.0])
        self.assertGreater(epoch, 0)
        cluster.kill_server(first)
        again = calls_of(start("pserver-again"))
        self.assert_refuses_to_finish(again, epoch)
        self.assert_can_be_initialised(again)

    def test_with_etcd_a_restarted_server_does_not_finish_empty(self):
        with Cluster(shards=1) as cluster:
            self.kill_between_init_and_finish(cluster, cluster.pserver)

    def test_alone_a_restarted_server_does_not_finish_empty(self):
        with Cluster(etcd=False) as cluster:
            self.kill_between_init_and_finish(cluster, cluster.pserver)

    def test_alone_without_data_directory_a_restarted_server_does_not_finish_empty(self):
        with Cluster(etcd=False) as cluster:
            self.kill_between_init_and_finish(cluster, lambda name: cluster.run(
                name, [os.path.join(BIN, "pserver"), "--listen", "127.0.0.1:0", "--log-format",
                       "json"]))

    def test_a_finish_whose_reply_was_lost_is_answered_after_a_restart_too(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            first = cluster.pserver("pserver", etcd=False)
            calls = calls_of(first)
            epoch = calls.init("w", [1.0, 2.0])
            calls.finish(epoch=epoch)
            first.kill()
            again = calls_of(cluster.pserver("pserver-again", etcd=False))
            with self.assertRaises(grpc.RpcError) as refused:
                again.finish(epoch=epoch)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.ALREADY_EXISTS)
            self.assertEqual(again.pull("w")[0], [1.0, 2.0])

    def test_a_finish_without_an_epoch_is_not_checked(self):
        with Cluster(etcd=False) as cluster:
            calls = calls_of(cluster.pserver("pserver", etcd=False))
            calls.init("w", [1.0, 2.0])
            calls.finish()
            self.assertEqual(calls.pull("w")[0], [1.0, 2.0])

    def test_a_trainer_initialises_again_when_the_first_checkpoint_was_never_written(self):
        with Cluster(shards=1) as cluster:
            server = cluster.start_servers()[0]
            # A file where the folder of checkpoints belongs: none can be written, so that the
            # trainer's finish waits until the server is killed.
            folder = os.path.join(cluster.data, "shard-0")
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(cluster.data, exist_ok=True)
            with open(folder, "w", encoding="ascii"):
                pass
            data = os.path.join(cluster.folder, "small.svm")
            with open(data, "w", encoding="ascii") as file:
                file.writelines(f"{'+1' if i % 2 else '-1'} {1 + i % 5}:1\n" for i in range(64))
            training = cluster.pstrain("train", "--data", data, "--epochs", "1", "--timeout",
                                       f"{PATIENCE}s")
            cluster.wait_states("ready")
            cluster.kill_server(server)
            self.assertIsNone(training.child.poll(), "the trainer waits for the checkpoint")
            os.remove(folder)
            again = cluster.pserver("pserver-again")
            self.assertEqual(training.result()["lost_pushes"], 0)
            self.assertIsNone(again.event("checkpoint loaded"))
            wait_until(lambda: cluster.status()[0]["parameter_count"] == 2, "it has both")


if __name__ == "__main__":
    unittest.main(verbosity=2)
