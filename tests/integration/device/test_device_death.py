# SPDX-License-Identifier: Apache-2.0
"""A device that dies at work: nothing is acknowledged any more, the shard is given back, the server
ends with 70, and the next one goes on from checkpoint and journal.
"""

import os
import sys
import unittest

import grpc

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from device_work import Server, Work, config, FLOAT32  # noqa: E402
from calls import Calls  # noqa: E402
from cluster import Cluster, wait_until  # noqa: E402
from psckpt_run import digest  # noqa: E402

EX_UNAVAILABLE, EX_SOFTWARE = 69, 70
ONE = {"w": (FLOAT32, 4, config(optimizer=4))}


def dies_at(kernel, code=700):
    """The probe launches the first kernel."""
    return {"PS_EMULATOR_FAIL": f"launch:{kernel}:{code}"}


class Death(unittest.TestCase):
    def push_until_it_dies(self, calls):
        """How many were acknowledged."""
        for number in range(1, 100):
            try:
                calls.push("w", [1.0] * 4)
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.UNAVAILABLE)
                return number - 1
        raise AssertionError("it did not die")

    def expect_end(self, process, why="(700)"):
        self.assertEqual(process.wait_exit(), EX_SOFTWARE, process.log())
        died = process.event("device died")
        self.assertIn(why, died["error"])
        self.assertEqual(died["device"], "emu: emulator, EMU-0")

    def test_the_next_server_goes_on_with_all_that_was_acknowledged(self):
        with Cluster(shards=1, ttl="1h", interval="1h") as cluster:
            first = cluster.pserver("pserver-1", "--device", "emu", environment=dies_at(7))
            calls = Calls(first.wait_event("listening")["address"])
            calls.init("w", [0.0] * 4, config())
            calls.finish()
            acknowledged = self.push_until_it_dies(calls)
            self.assertEqual(acknowledged, 5)
            # The lease would have lasted an hour.
            wait_until(lambda: cluster.etcdctl("get", "/ps/0") == "", "the key is gone")
            self.expect_end(first)

            second = cluster.pserver("pserver-2", "--device", "emu")
            calls = Calls(second.wait_event("listening")["address"])
            values, version = calls.pull("w")
            # What was not acknowledged may have been in the journal.
            self.assertIn(version, (acknowledged, acknowledged + 1))
            expected = 0.0
            for _ in range(version):
                expected -= 0.1
            for value in values:
                self.assertAlmostEqual(value, expected, places=5)

    def test_the_state_is_that_of_a_server_that_never_failed(self):
        with Server("--device", "emu", environment=dies_at(30)) as device, \
                Server("--device", "cpu") as host:
            workers = [Work(server.calls, 7) for server in (device, host)]
            for worker in workers:
                worker.initialise()
            number = 1
            try:
                while number < 10:
                    workers[0].step(number)
                    number += 1
            except (grpc.RpcError, AssertionError):
                pass
            self.assertEqual(device.process.wait_exit(), EX_SOFTWARE)
            # Again what failed: sequence numbers make that exactly once.
            device.environment = None
            device.flags = ("--device", "cpu")
            device.start()
            workers[0] = Work(device.calls, 7)
            pulled = workers[0].step(number)
            for before in range(1, number):
                workers[1].step(before)
            self.assertEqual(pulled, workers[1].step(number))
            for server in (device, host):
                self.assertEqual(server.psctl("checkpoint").returncode, 0)
            self.assertEqual(digest(device.data), digest(host.data))

    def test_one_that_dies_while_it_recovers_leaves_everything_as_it_was(self):
        with Cluster(shards=1, ttl="1h", interval="1h") as cluster:
            first = cluster.pserver("pserver-1", "--device", "emu")
            calls = Calls(first.wait_event("listening")["address"])
            calls.init("w", [0.0] * 4, config())
            calls.finish()
            for _ in range(20):
                calls.push("w", [1.0] * 4)
            cluster.kill_server(first)
            before = digest(cluster.data)

            second = cluster.pserver("pserver-2", "--device", "emu", environment=dies_at(2))
            self.assertEqual(second.wait_exit(), EX_SOFTWARE, second.log())
            wait_until(lambda: cluster.etcdctl("get", "/ps/0") == "", "the key is gone")
            self.assertEqual(digest(cluster.data), before)

            third = cluster.pserver("pserver-3", "--device", "cpu")
            calls = Calls(third.wait_event("listening")["address"])
            self.assertEqual(calls.pull("w")[1], 20)

    def test_a_batch_in_flight_is_not_acknowledged(self):
        parameters = {f"p{i}": (FLOAT32, 100, config(optimizer=4)) for i in range(8)}
        with Server("--device", "emu", "--ack", "memory",
                    environment=dies_at(2)) as device:
            work = Work(device.calls, 1, parameters)
            work.initialise()
            with self.assertRaises((grpc.RpcError, AssertionError)):
                work.step(1)
            self.assertEqual(device.process.wait_exit(), EX_SOFTWARE)

    def test_one_that_hangs_is_given_up_after_its_time(self):
        with Cluster(shards=1, ttl="1h", interval="1h") as cluster:
            first = cluster.pserver("pserver-1", "--device", "emu", "--device-timeout", "3s",
                                    environment={"PS_EMULATOR_FAIL": "hang:7"})
            calls = Calls(first.wait_event("listening")["address"])
            calls.init("w", [0.0] * 4, config())
            calls.finish()
            self.assertEqual(self.push_until_it_dies(calls), 5)
            # What waits for it never comes back, and the lease would have lasted an hour.
            wait_until(lambda: cluster.etcdctl("get", "/ps/0") == "", "the key is gone")
            self.expect_end(first, "no answer within 3000 ms (702)")

            second = cluster.pserver("pserver-2", "--device", "emu")
            calls = Calls(second.wait_event("listening")["address"])
            self.assertIn(calls.pull("w")[1], (5, 6))

    def test_an_etcd_that_does_not_answer_is_not_waited_for(self):
        with Cluster(shards=1, ttl="1h", interval="1h") as cluster:
            server = cluster.pserver("pserver-1", "--device", "emu", "--ack", "memory",
                                     environment=dies_at(3))
            calls = Calls(server.wait_event("listening")["address"])
            calls.init("w", [0.0] * 4, config())
            calls.finish()
            cluster.etcd.signal(19)  # SIGSTOP
            self.push_until_it_dies(calls)
            self.expect_end(server)


class Record(unittest.TestCase):
    """Three failures within ten minutes."""

    def fail_once(self, server):
        server.environment = dies_at(2)
        server.start()
        calls = server.calls
        if server.started == 2:
            calls.init("w", [0.0] * 4, config())
            calls.finish()
        with self.assertRaises(grpc.RpcError):
            calls.push("w", [1.0] * 4)
        self.assertEqual(server.process.wait_exit(), EX_SOFTWARE)

    def test_a_device_that_fails_again_and_again_is_not_used_until_it_is_allowed(self):
        with Server("--device", "emu", "--no-journal") as server:
            server.process.kill()
            for _ in range(3):
                self.fail_once(server)
            record = os.path.join(server.data, "device-EMU-0.failures")
            with open(record, encoding="ascii") as file:
                lines = file.read().splitlines()
            self.assertEqual(len(lines), 3)
            self.assertTrue(all("(700)" in line for line in lines), lines)

            server.environment = None
            process = server.start(wait=False)
            self.assertEqual(process.wait_exit(), EX_UNAVAILABLE)
            error = process.event("start failed")["error"]
            self.assertIn(f"EMU-0 failed 3 times within 600 s: to use it again remove {record}",
                          error)

            os.remove(record)
            server.start()
            self.assertEqual(server.process.event("device chosen")["device"], "emu")
            server.calls.push("w", [1.0] * 4)


if __name__ == "__main__":
    unittest.main(verbosity=2)
