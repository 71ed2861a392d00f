# SPDX-License-Identifier: Apache-2.0
"""docs/failure-modes.md, row by row, with real processes."""

import glob
import json
import os
import shutil
import signal
import unittest

import grpc

from calls import Calls
from cluster import PATIENCE, Cluster, wait_until


def one_server(cluster, *flags):
    """One initialised server alone on its data directory, with a parameter "w" of 4 zeros."""
    server = cluster.pserver("pserver", *flags, etcd=False)
    address = server.wait_event("listening")["address"]
    calls = Calls(address)
    calls.init("w", [0.0] * 4)
    calls.finish()
    return server, address, calls


def checkpoints(cluster, index=0):
    return sorted(glob.glob(os.path.join(cluster.data, f"shard-{index}", "*.safetensors")))


def damage(path):
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))


class Alone(unittest.TestCase):
    """Without etcd: the same promises on a local store."""

    def test_b27_sigterm_saves_everything_and_ends_with_0(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            server, _, calls = one_server(cluster)
            for _ in range(10):
                calls.push("w", [-1.0] * 4)
            server.signal(signal.SIGTERM)
            self.assertEqual(server.wait_exit(), 0, server.log())
            again = cluster.pserver("pserver-again", etcd=False)
            values, version = Calls(again.wait_event("listening")["address"]).pull("w")
            self.assertEqual(values, [10.0] * 4)
            self.assertEqual(version, 10)

    def test_b16_a_fixed_index_saves_and_stops(self):
        with Cluster(etcd=False, interval="200ms") as cluster:
            server, _, calls = one_server(cluster, "--index", "0")
            first = checkpoints(cluster)
            calls.push("w", [-1.0] * 4)
            wait_until(lambda: checkpoints(cluster) != first, "a checkpoint at the interval")
            server.signal(signal.SIGINT)
            self.assertEqual(server.wait_exit(), 0, server.log())

    def test_b3_a_recovered_server_goes_on_saving(self):
        with Cluster(etcd=False, interval="200ms") as cluster:
            server, _, _ = one_server(cluster)
            server.kill()
            again = cluster.pserver("pserver-again", etcd=False)
            calls = Calls(again.wait_event("listening")["address"])
            calls.push("w", [-1.0] * 4)
            wait_until(lambda: json.loads(cluster.psctl(
                "status", servers=again.event("listening")["address"])[1])[0]
                ["checkpoint_position"] >= 1, "a checkpoint with the push")

    def test_b5_the_first_checkpoint_is_there_when_finish_returns(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            server, _, _ = one_server(cluster)
            self.assertEqual(len(checkpoints(cluster)), 1)
            server.kill()
            again = cluster.pserver("pserver-again", etcd=False)
            values, _ = Calls(again.wait_event("listening")["address"]).pull("w")
            self.assertEqual(values, [0.0] * 4)

    def fall_back(self, *flags):
        """Two pushes, a checkpoint after each, the newer one damaged: what a restart has."""
        with Cluster(etcd=False, interval="1h") as cluster:
            server, address, calls = one_server(cluster, *flags)
            calls.push("w", [-1.0] * 4)
            self.assertEqual(cluster.psctl("checkpoint", servers=address)[0], 0)
            calls.push("w", [-1.0] * 4)
            self.assertEqual(cluster.psctl("checkpoint", servers=address)[0], 0)
            server.kill()
            self.assertEqual(len(checkpoints(cluster)), 2)
            newest = checkpoints(cluster)[-1]
            damage(newest)
            again = cluster.pserver("pserver-again", *flags, etcd=False)
            values, _ = Calls(again.wait_event("listening")["address"]).pull("w")
            self.assertIn(os.path.basename(newest), again.log())
            self.assertIn("checksum", again.log())
            return values

    def test_behind_a_damaged_checkpoint_the_journal_has_everything(self):
        self.assertEqual(self.fall_back(), [2.0] * 4)

    def test_without_a_journal_a_damaged_checkpoint_falls_back_to_the_older_one(self):
        self.assertEqual(self.fall_back("--no-journal"), [1.0] * 4)

    def first_segment_stays(self, *flags):
        """Whether the journal of the first of four lives is there in the end."""
        with Cluster(etcd=False, interval="1h") as cluster:
            server, _, calls = one_server(cluster, *flags)
            (first,) = glob.glob(os.path.join(cluster.data, "shard-0", "*.journal"))
            for life in range(3):
                calls.push("w", [-1.0] * 4)
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait_exit(), 0, server.log())
                server = cluster.pserver(f"pserver-{life}", *flags, etcd=False)
                calls = Calls(server.wait_event("listening")["address"])
                self.assertEqual(calls.pull("w"), ([life + 1.0] * 4, life + 1))
            return os.path.exists(first)

    def test_journal_files_go_when_checkpoints_cover_them(self):
        self.assertFalse(self.first_segment_stays())

    def test_journal_files_stay_when_they_are_to_be_kept(self):
        self.assertTrue(self.first_segment_stays("--journal-keep"))

    def test_a_store_that_was_made_anew_does_not_bring_old_values_back(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            server, _, calls = one_server(cluster)
            for life in range(3):
                for _ in range(10):
                    calls.push("w", [-1.0] * 4)
                server.kill()
                shutil.rmtree(os.path.join(cluster.data, "store"))
                server = cluster.pserver(f"pserver-{life}", etcd=False)
                calls = Calls(server.wait_event("listening")["address"])
                self.assertEqual(calls.pull("w"), ([10.0 * (life + 1)] * 4, 10 * (life + 1)))

    def test_no_whole_checkpoint_ends_with_a_clear_message(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            server, _, _ = one_server(cluster)
            server.kill()
            for path in checkpoints(cluster):
                damage(path)
            again = cluster.pserver("pserver-again", etcd=False)
            self.assertEqual(again.wait_exit(), 65, again.log())
            self.assertIn("checksum", again.log())
            self.assertIsNone(again.event("listening"))

    def test_a_request_for_more_than_the_server_offers_is_refused(self):
        with Cluster(etcd=False) as cluster:
            _, _, calls = one_server(cluster, "--no-journal")
            with self.assertRaises(grpc.RpcError) as refused:
                calls.push("w", [1.0] * 4, ack=2)
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_what_was_acknowledged_as_logged_survives_kill_9(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            server, _, calls = one_server(cluster)
            for _ in range(50):
                calls.push("w", [-1.0] * 4)
            server.kill()
            again = cluster.pserver("pserver-again", etcd=False)
            values, version = Calls(again.wait_event("listening")["address"]).pull("w")
            self.assertEqual(values, [50.0] * 4)
            self.assertEqual(version, 50)


class WithEtcd(unittest.TestCase):
    def initialised(self, cluster):
        servers = cluster.start_servers()
        training = cluster.pstrain("train", "--data", self.small(cluster), "--epochs", "2")
        training.result()
        return servers

    def small(self, cluster):
        path = os.path.join(cluster.folder, "small.svm")
        if not os.path.exists(path):
            with open(path, "w", encoding="ascii") as file:
                for i in range(64):
                    file.write(f"{'+1' if i % 2 else '-1'} {1 + i % 5}:1 {7 + i % 2}:1\n")
        return path

    def train_again(self, cluster):
        return cluster.pstrain("again", "--data", self.small(cluster), "--epochs", "1",
                               "--timeout", f"{PATIENCE}s").result()

    def test_etcd_down_at_start_is_waited_for(self):
        with Cluster(shards=1, etcd=False) as cluster:
            server = cluster.run("pserver-early", [
                *server_command(cluster), "--etcd", cluster.etcd_url, "--num-pservers", "1"])
            wait_until(lambda: "unavailable" in server.log(), "it says that etcd is away")
            self.assertTrue(server.alive(), server.log())
            cluster.start_etcd()
            server.wait_event("listening")
            cluster.wait_states("uninitialized")

    def test_etcd_away_for_longer_than_the_lease_then_back(self):
        with Cluster(shards=2, ttl="5s") as cluster:
            servers = self.initialised(cluster)
            address = servers[0].event("listening")["address"]
            cluster.etcd.kill()
            wait_until(lambda: fenced(address), "the server fences itself")
            self.assertTrue(all(server.alive() for server in servers))
            cluster.start_etcd()
            cluster.wait_states("ready")
            self.train_again(cluster)

    def test_b8_a_paused_owner_answers_nothing_after_its_lease(self):
        with Cluster(shards=1, ttl="5s") as cluster:
            owner = self.initialised(cluster)[0]
            address = owner.event("listening")["address"]
            spare = cluster.pserver("pserver-spare")
            owner.signal(signal.SIGSTOP)
            spare.wait_event("listening")
            owner.signal(signal.SIGCONT)
            with self.assertRaises(grpc.RpcError) as refused:
                Calls(address).push("linear/bias", [1.0])
            self.assertEqual(refused.exception.code(), grpc.StatusCode.UNAVAILABLE)
            cluster.wait_states("ready")
            self.assertEqual(self.train_again(cluster)["lost_pushes"], 0)

    def test_b6_a_shard_without_state_makes_the_job_start_again(self):
        with Cluster(shards=2) as cluster:
            servers = cluster.start_servers()
            cluster.etcdctl("put", "/init_ps/done", "1")
            cluster.kill_server(servers[0])
            again = cluster.pserver("pserver-again")
            again.wait_event("listening")
            wait_until(lambda: cluster.etcdctl("get", "/init_ps/done") == "",
                       "the job is to be initialised again")
            self.train_again(cluster)

    def test_b13_the_number_of_shards_survives_its_writer(self):
        with Cluster(shards=2) as cluster:
            servers = cluster.start_servers()
            for server in servers:
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait_exit(), 0, server.log())
            self.assertEqual(cluster.etcdctl("get", "/ps_desired", "--print-value-only").strip(),
                             "2")
            self.assertEqual(cluster.etcdctl("get", "--prefix", "/ps/"), "")

    def test_b25_two_jobs_share_an_etcd(self):
        with Cluster(shards=1) as cluster:
            one = cluster.pserver("pserver-one", "--job", "one")
            two = cluster.pserver("pserver-two", "--job", "two")
            one.wait_event("listening")
            two.wait_event("listening")
            keys = cluster.etcdctl("get", "--prefix", "/", "--keys-only").split()
            self.assertIn("/one/ps/0", keys)
            self.assertIn("/two/ps/0", keys)
            self.assertNotIn("/ps/0", keys)


def server_command(cluster):
    from cluster import BIN
    return [os.path.join(BIN, "pserver"), "--listen", "127.0.0.1:0", "--data-dir", cluster.data,
            "--log-format", "json"]


def fenced(address):
    try:
        Calls(address).pull("linear/bias", timeout=2)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE
    return False


if __name__ == "__main__":
    unittest.main(verbosity=2)
