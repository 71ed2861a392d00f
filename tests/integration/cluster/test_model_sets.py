# SPDX-License-Identifier: Apache-2.0
"""One snapshot of the whole model: real servers, a real etcd, kill -9 at every step."""

import glob
import json
import os
import signal
import subprocess
import threading
import unittest

from calls import Calls
from cluster import BIN, Cluster, wait_until


def make_ready(cluster, servers):
    """One parameter "w<i>" of four zeros on shard i; returns the calls of each by index."""
    calls = {}
    for row in cluster.status():
        calls[row["index"]] = Calls(row["address"])
        calls[row["index"]].init(f"w{row['index']}", [0.0] * 4)
    for index in calls:
        calls[index].finish()
    cluster.wait_states("ready")
    return calls


def save(cluster, name, timeout="60s"):
    code, out, err = cluster.psctl("checkpoint", "--model", "--set", name, timeout=timeout)
    return code, json.loads(out) if out else None, err


def rows_of(cluster, name):
    out = cluster.etcdctl("get", "--prefix", f"/checkpoints/model/{name}/")
    lines = out.splitlines()
    return {key.rsplit("/", 1)[1]: json.loads(value) for key, value in zip(lines[::2], lines[1::2])}


def files_of(cluster, index):
    return sorted(glob.glob(os.path.join(cluster.data, f"shard-{index}", "*.safetensors")))


class Sets(unittest.TestCase):
    def test_a_set_has_every_shard_and_all_that_was_acknowledged(self):
        with Cluster(shards=2, interval="1h") as cluster:
            calls = make_ready(cluster, cluster.start_servers())
            for i in range(2):
                for _ in range(3 + i):
                    calls[i].push(f"w{i}", [-1.0] * 4)

            code, saved, err = save(cluster, "first")

            self.assertEqual(code, 0, err)
            self.assertTrue(saved["whole"])
            self.assertEqual([row["position"] for row in saved["shards"]], [3, 4])
            rows = rows_of(cluster, "first")
            self.assertEqual({index: row["uuid"] for index, row in rows.items()},
                             {str(row["index"]): row["uuid"] for row in saved["shards"]})
            self.assertEqual(cluster.etcdctl("get", "/ps_wanted"), "")
            self.assertNotEqual(cluster.etcdctl("get", "/checkpoints/whole/first"), "")


class Attacks(unittest.TestCase):
    """Owners that die at each step, and askers that do."""

    def test_a_successor_does_what_a_killed_owner_has_not(self):
        with Cluster(shards=2, interval="1h") as cluster:
            servers = cluster.start_servers()
            calls = make_ready(cluster, servers)
            for i in range(2):
                calls[i].push(f"w{i}", [-1.0] * 4)
            victim = cluster.server_of(1)
            victim.signal(signal.SIGSTOP)  # sees nothing of the set, and keeps its lease
            asker = asking(cluster, "first")
            wait_until(lambda: "0" in rows_of(cluster, "first"), "the row of shard 0")
            self.assertEqual(cluster.etcdctl("get", "/checkpoints/whole/first"), "")
            cluster.kill_server(victim)
            cluster.pserver("pserver-next").wait_event("serving")

            code, saved = ended(asker)

            self.assertEqual(code, 0, saved)
            self.assertEqual([row["position"] for row in saved["shards"]], [1, 1])
            self.assertEqual(cluster.etcdctl("get", "/ps_wanted"), "")

    def test_another_server_goes_on_for_an_asker_whose_server_is_killed(self):
        with Cluster(shards=2, interval="1h") as cluster:
            calls = make_ready(cluster, cluster.start_servers())
            calls[1].push("w1", [-1.0] * 4)
            asked = cluster.server_of(0)  # the client asks shard 0 first
            other = cluster.server_of(1)
            other.signal(signal.SIGSTOP)
            asker = asking(cluster, "first")
            wait_until(lambda: "0" in rows_of(cluster, "first"), "the row of shard 0")
            cluster.kill_server(asked)
            other.signal(signal.SIGCONT)

            code, saved = ended(asker)

            self.assertEqual(code, 0, saved)
            self.assertEqual([row["position"] for row in saved["shards"]], [0, 1])

    def test_two_askers_of_one_name_get_one_set_and_another_name_waits(self):
        with Cluster(shards=2, interval="1h") as cluster:
            make_ready(cluster, cluster.start_servers())
            askers = [asking(cluster, name) for name in ("a", "a", "b")]

            answers = [ended(asker) for asker in askers]

            self.assertEqual([saved["set"] for _, saved in answers], ["a", "a", "b"])
            self.assertTrue(all(saved["whole"] for _, saved in answers))
            uuids = [[row["uuid"] for row in saved["shards"]] for _, saved in answers]
            self.assertEqual(uuids[0], uuids[1])
            self.assertNotEqual(uuids[0], uuids[2])

    def test_servers_go_on_when_the_asker_is_gone_and_etcd_was_away(self):
        with Cluster(shards=2, interval="1h") as cluster:
            calls = make_ready(cluster, cluster.start_servers())
            calls[0].push("w0", [-1.0] * 4)
            other = cluster.server_of(1)
            other.signal(signal.SIGSTOP)
            asker = asking(cluster, "first")
            wait_until(lambda: "0" in rows_of(cluster, "first"), "the row of shard 0")
            asker.kill()
            asker.communicate()
            cluster.etcd.signal(signal.SIGSTOP)
            other.signal(signal.SIGCONT)
            cluster.etcd.signal(signal.SIGCONT)

            wait_until(lambda: cluster.etcdctl("get", "/checkpoints/whole/first"), "a whole set")
            self.assertEqual(sorted(rows_of(cluster, "first")), ["0", "1"])

    def test_under_load_every_row_has_what_was_acknowledged_before_the_call(self):
        with Cluster(shards=2, interval="200ms") as cluster:
            calls = make_ready(cluster, cluster.start_servers())
            acknowledged = [0, 0]
            stop = threading.Event()

            def train(index):
                while not stop.is_set():
                    acknowledged[index] = calls[index].push(f"w{index}", [-1.0] * 4)
            trainers = [threading.Thread(target=train, args=(i,)) for i in range(2)]
            for trainer in trainers:
                trainer.start()
            try:
                for number in range(5):
                    before = list(acknowledged)
                    code, saved, err = save(cluster, f"set-{number}")
                    self.assertEqual(code, 0, err)
                    for row in saved["shards"]:
                        self.assertGreaterEqual(row["position"], before[row["index"]])
            finally:
                stop.set()
                for trainer in trainers:
                    trainer.join()
            # Two sets are kept, of each shard their files.
            for name in ("set-3", "set-4"):
                for row in rows_of(cluster, name).values():
                    self.assertTrue(os.path.exists(row["path"]), row)
            self.assertEqual(rows_of(cluster, "set-2"), {})

    def test_a_name_that_was_whole_before_is_said_to_be_old(self):
        with Cluster(shards=2, interval="1h") as cluster:
            make_ready(cluster, cluster.start_servers())
            self.assertEqual(save(cluster, "first")[0], 0)

            code, saved, err = save(cluster, "first")

            self.assertEqual(code, 69)
            self.assertTrue(saved["existed"])
            self.assertIn("was there already", err)


def asking(cluster, name):
    """psctl, which asks until the set is whole."""
    return subprocess.Popen(
        [os.path.join(BIN, "psctl"), "checkpoint", "--model", "--set", name, *cluster.where(),
         "--output", "json", "--timeout", "100s"], stdout=subprocess.PIPE, text=True)


def ended(asker):
    out, _ = asker.communicate(timeout=120)
    return asker.returncode, json.loads(out)


class Alone(unittest.TestCase):
    def test_without_etcd_the_store_has_the_same_keys(self):
        with Cluster(etcd=False, interval="1h") as cluster:
            server = cluster.pserver("pserver", etcd=False)
            address = server.wait_event("listening")["address"]
            calls = Calls(address)
            calls.init("w", [0.0] * 4)
            calls.finish()
            calls.push("w", [-1.0] * 4)

            code, out, err = cluster.psctl("checkpoint", "--model", servers=address)

            self.assertEqual(code, 0, err)
            saved = json.loads(out)
            self.assertRegex(saved["set"], r"^set-\d+$")
            self.assertEqual(saved["shards"][0]["position"], 1)

    def test_the_interval_makes_sets_of_which_the_newest_stay(self):
        with Cluster(shards=2, interval="1h") as cluster:
            make_ready(cluster, cluster.start_servers("--model-checkpoint-interval", "300ms",
                                                      "--model-checkpoints-keep", "1"))
            seen = set()

            def third():
                out = cluster.etcdctl("get", "--prefix", "/checkpoints/whole/", "--keys-only")
                seen.update(out.split())
                return len(seen) > 2
            wait_until(third, "three sets by the interval")

    def test_a_server_that_saves_nothing_refuses(self):
        with Cluster(etcd=False) as cluster:
            server = cluster.run("pserver", [os.path.join(BIN, "pserver"), "--listen",
                                             "127.0.0.1:0", "--log-format", "json"])
            address = server.wait_event("listening")["address"]
            code, _, err = cluster.psctl("checkpoint", "--model", servers=address)
            self.assertEqual(code, 69)
            self.assertIn("without a data directory", err)


class Restored(unittest.TestCase):
    """psckpt on sets of a real job, and servers that go on from one."""

    def psckpt(self, cluster, *words, code=0):
        done = subprocess.run([os.path.join(BIN, "psckpt"), *words], capture_output=True, text=True,
                              timeout=120, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def export(self, cluster, out, *words):
        self.psckpt(cluster, "export", cluster.data, "--out", os.path.join(cluster.folder, out),
                    "--merge", *words)
        with open(os.path.join(cluster.folder, out, "merged.safetensors"), "rb") as file:
            return file.read()

    def end(self, servers):
        for server in servers:
            if server.alive():
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait_exit(), 0, server.log())

    def test_a_restored_set_is_the_set_to_the_byte_and_what_came_later_is_counted(self):
        with Cluster(shards=3, interval="1h") as cluster:
            servers = cluster.start_servers()
            calls = make_ready(cluster, servers)
            for i in range(3):
                for _ in range(i + 1):
                    calls[i].push(f"w{i}", [-1.0] * 4)
            self.assertEqual(save(cluster, "good")[0], 0)
            for i in range(3):
                for _ in range(5):
                    calls[i].push(f"w{i}", [-1.0] * 4)
            self.assertEqual(save(cluster, "later")[0], 0)
            store = ["--etcd", cluster.etcd_url]
            exported = self.export(cluster, "before", "--set", "good", *store)
            # Files alone say the same, for a copy of the folder.
            self.assertEqual(self.export(cluster, "files", "--set", "good"), exported)
            for timeout in ("1s", "60s"):  # a busy machine may need more to ask etcd at all
                done = self.psckpt(cluster, "restore-set", cluster.data, "--set", "good", *store,
                                   "--timeout", timeout, code=69)
                if "a server owns" in done.stderr:
                    break
            self.assertIn("a server owns shard 0", done.stderr)
            self.end(servers)

            done = self.psckpt(cluster, "restore-set", cluster.data, "--set", "good", *store)

            self.assertIn("given up: 5 pushes", done.stdout)
            self.assertEqual(self.export(cluster, "after"), exported)
            again = [cluster.pserver(f"again-{i}") for i in range(3)]
            for server in again:
                server.wait_event("serving")
            rows = {row["index"]: row for row in cluster.status()}
            self.assertEqual([rows[i]["position"] for i in range(3)], [1, 2, 3])
            self.assertEqual([rows[i]["lost_push_count"] for i in range(3)], [5, 5, 5])
            for i in range(3):
                self.assertEqual(Calls(rows[i]["address"]).pull(f"w{i}"), ([i + 1.0] * 4, i + 1))
            # The set is still one that can be gone back to; those whose files are gone are not.
            self.assertEqual(save(cluster, "new")[0], 0)
            self.end(again)
            self.psckpt(cluster, "restore-set", cluster.data, "--set", "good", *store)
            self.psckpt(cluster, "restore-set", cluster.data, "--set", "later", *store, code=66)

    def test_a_restore_that_was_broken_off_is_typed_again(self):
        with Cluster(shards=2, interval="1h") as cluster:
            servers = cluster.start_servers()
            calls = make_ready(cluster, servers)
            calls[0].push("w0", [-1.0] * 4)
            self.assertEqual(save(cluster, "good")[0], 0)
            calls[1].push("w1", [-1.0] * 4)
            self.end(servers)
            store = ["--etcd", cluster.etcd_url]
            exported = self.export(cluster, "before", "--set", "good", *store)
            # What a run leaves that ended between the two folders.
            blocked = os.path.join(cluster.data, "shard-1.new")
            os.mkdir(blocked)
            open(os.path.join(blocked, "x"), "w").close()
            self.psckpt(cluster, "restore-set", cluster.data, "--set", "good", *store, code=73)
            half = cluster.pserver("half", "--index", "0")
            self.assertEqual(half.wait_exit(), 65, half.log())
            os.remove(os.path.join(blocked, "x"))

            self.psckpt(cluster, "restore-set", cluster.data, "--set", "good", *store)

            self.assertEqual(self.export(cluster, "after"), exported)

    def test_a_request_of_after_the_set_is_applied_once_more_and_one_of_before_is_not(self):
        with Cluster(shards=1, etcd=False, interval="1h") as cluster:
            server = cluster.pserver("pserver", etcd=False)
            calls = Calls(server.wait_event("listening")["address"])
            calls.init("w", [0.0] * 4)
            calls.finish()
            self.assertEqual(calls.push_as("w", [-1.0] * 4, 1).duplicate, False)
            code, _, err = cluster.psctl("checkpoint", "--model", "--set", "s",
                                         servers=server.event("listening")["address"])
            self.assertEqual(code, 0, err)
            self.assertEqual(calls.push_as("w", [-1.0] * 4, 2).duplicate, False)
            self.end([server])

            self.psckpt(cluster, "restore-set", cluster.data, "--set", "s")

            again = cluster.pserver("again", etcd=False)
            calls = Calls(again.wait_event("listening")["address"])
            self.assertEqual(calls.pull("w"), ([1.0] * 4, 1))
            # The push that was given up is not taken for applied; the one before it is.
            self.assertEqual(calls.push_as("w", [-1.0] * 4, 1).duplicate, True)
            self.assertEqual(calls.push_as("w", [-1.0] * 4, 2).duplicate, False)
            self.assertEqual(calls.push_as("w", [-1.0] * 4, 2).duplicate, True)
            self.assertEqual(calls.pull("w"), ([2.0] * 4, 2))


if __name__ == "__main__":
    unittest.main()
