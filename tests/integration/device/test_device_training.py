# SPDX-License-Identifier: Apache-2.0
"""Servers on a device (the emulator's) beside servers on the CPU: the same pushes, the same bits,
through checkpoints, kill -9 and moves from one to the other.
"""

import os
import random
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from device_work import FLOAT32, PARAMETERS, Server, Work, config  # noqa: E402
from psckpt_run import digest, psckpt_json  # noqa: E402

SEED = int(os.environ.get("PS_SEED", random.randrange(2**32)))


def metric(server, name):
    for line in server.get("/metrics")[1].splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"no metric {name}")


def end(server):
    server.process.signal(signal.SIGTERM)
    code = server.process.wait_exit()
    if code != 0:
        raise AssertionError(f"exit {code}: {server.process.log()[-2000:]}")


class Training(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED} (PS_SEED={SEED})", end=" ", flush=True)

    def both_step(self, workers, numbers):
        for number in numbers:
            pulled = [worker.step(number) for worker in workers]
            self.assertEqual(pulled[0], pulled[1])

    def test_the_bits_are_those_of_the_cpu_also_after_kill_9(self):
        with Server("--device", "emu") as device, \
                Server("--device", "cpu") as host:
            workers = [Work(device.calls, SEED), Work(host.calls, SEED)]
            for worker in workers:
                worker.initialise()
            self.both_step(workers, range(1, 4))
            for server in (device, host):
                self.assertEqual(server.psctl("checkpoint").returncode, 0)
            self.both_step(workers, range(4, 7))
            for server in (device, host):
                server.process.kill()
            self.assertEqual(digest(device.data), digest(host.data))

            for server in (device, host):
                server.start()
            workers = [Work(device.calls, SEED), Work(host.calls, SEED)]
            self.assertGreater(device.process.event("journal replayed")["records"], 0)
            self.both_step(workers, range(7, 9))
            repeated = workers[0].step(8)
            self.assertEqual(repeated, workers[1].step(8))
            for server in (device, host):
                end(server)
            self.assertEqual(digest(device.data), digest(host.data))
            self.assertEqual(digest(device.data, "--sessions"), digest(host.data, "--sessions"))

    def test_a_state_moves_from_device_to_cpu_and_back(self):
        with Server("--device", "emu") as moving, \
                Server("--device", "cpu") as still:
            for server in (moving, still):
                Work(server.calls, SEED).initialise()
            number = 1
            for place in ("emu", "cpu", "emu", "cpu"):
                if number > 1:
                    moving.flags = ("--device", place)
                    moving.start()
                chosen = moving.process.event("device chosen")
                self.assertEqual(chosen["device"], place)
                self.both_step([Work(moving.calls, SEED), Work(still.calls, SEED)],
                               range(number, number + 2))
                number += 2
                end(moving)
                self.assertEqual(still.psctl("checkpoint").returncode, 0)
                self.assertEqual(digest(moving.data), digest(still.data), place)

    def test_operators_see_the_same_and_where_it_lives(self):
        with Server("--device", "emu", http=True) as device, \
                Server("--device", "cpu", http=True) as host:
            for server in (device, host):
                work = Work(server.calls, SEED)
                work.initialise()
                work.step(1)
            self.assertEqual(device.psctl("params").stdout, host.psctl("params").stdout)
            for server in (device, host):
                self.assertEqual(server.psctl("checkpoint").returncode, 0)
            shows = [psckpt_json("list", server.data)[0]["checkpoints"][0]["position"]
                     for server in (device, host)]
            self.assertEqual(shows[0], shows[1])
            self.assertEqual(device.cluster.status(device.address)[0]["device"],
                             "emu: emulator, EMU-0")
            self.assertEqual(host.cluster.status(host.address)[0]["device"], "cpu")
            self.assertEqual(metric(device, "ps_device_parameters"), len(PARAMETERS) - 1)
            self.assertEqual(metric(device, "ps_parameters"), len(PARAMETERS))
            self.assertGreater(metric(device, "ps_device_used_bytes"), 0)
            self.assertGreater(metric(device, "ps_device_budget_bytes"),
                               metric(device, "ps_device_used_bytes"))
            self.assertGreater(metric(device, "ps_device_launches_total"), 1)
            self.assertGreater(metric(device, "ps_device_pinned_bytes"), 0)
            self.assertEqual(metric(host, "ps_device_parameters"), 0)
            self.assertEqual(metric(host, "ps_device_budget_bytes"), 0)

    def test_what_is_small_lives_on_the_cpu_and_nobody_is_told(self):
        parameters = {"large": (FLOAT32, 200003, config(optimizer=4)),
                      "small": (FLOAT32, 16383, config(optimizer=4))}
        with Server("--device", "emu", "--device-min-bytes", "64KiB", http=True) as device, \
                Server("--device", "cpu") as host:
            workers = [Work(server.calls, SEED, parameters) for server in (device, host)]
            for worker in workers:
                worker.initialise()
            self.both_step(workers, range(1, 4))
            self.assertEqual(metric(device, "ps_device_parameters"), 1)
            self.assertEqual([row for row in device.process.events()
                              if row["msg"] == "parameter stays on the cpu"], [])
            for server in (device, host):
                end(server)
            self.assertEqual(digest(device.data), digest(host.data))

    def test_what_has_no_room_lives_on_the_cpu(self):
        parameters = {"large": (FLOAT32, 300000, config(optimizer=4)),
                      "small": (FLOAT32, 1000, config(optimizer=4))}
        with Server("--device", "emu", "--device-memory", "1MiB", http=True) as device, \
                Server("--device", "cpu") as host:
            workers = [Work(server.calls, SEED, parameters) for server in (device, host)]
            for worker in workers:
                worker.initialise()
            self.both_step(workers, range(1, 4))
            spilled = [row for row in device.process.events()
                       if row["msg"] == "parameter stays on the cpu"]
            self.assertEqual([(row["name"], row["bytes"]) for row in spilled],
                             [("large", 3600000)])
            self.assertIn("bytes needed", spilled[0]["error"])
            self.assertIn("budget 1048576", spilled[0]["error"])
            self.assertEqual(metric(device, "ps_device_parameters"), 1)
            for server in (device, host):
                end(server)
            self.assertEqual(digest(device.data), digest(host.data))


if __name__ == "__main__":
    unittest.main(verbosity=2)
