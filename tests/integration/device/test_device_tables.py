# SPDX-License-Identifier: Apache-2.0
"""Tables of a server on a device (the emulator's) beside those of one on the CPU: the same pushes,
the same rows and digests, through checkpoints, kill -9 and moves from one to the other.
"""

import os
import random
import signal
import sys
import threading
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
for folder in ("", "../blackbox", "../psckpt", "../rpc"):
    sys.path.insert(0, os.path.join(HERE, folder))

from blackbox import Server  # noqa: E402
from calls import MESSAGES  # noqa: E402
from psckpt_run import digest  # noqa: E402
from test_tables import Rows, adagrad, configuration  # noqa: E402

SEED = int(os.environ.get("PS_SEED", random.randrange(2**32)))
CONFIG = MESSAGES["paddle.OptimizerConfig"]
KEYS = 500
FIRST = {"init": 2, "low": -0.5, "high": 0.5, "seed": 7}


def adam(config):
    config.optimizer = CONFIG.Adam


def row_wise(config):
    adagrad(config)
    config.adagrad.row_wise = True


# name -> (width, configuration)
TABLES = {
    "plain": (4, configuration(width=4, **FIRST)),
    "limited": (16, configuration(adagrad, width=16, rows_max=KEYS * 3 // 4, full=1, **FIRST)),
    "adam": (5, configuration(adam, width=5, **FIRST)),
    "together": (24, configuration(row_wise, width=24, **FIRST)),
    "admitted": (8, configuration(width=8, admission=2, **FIRST)),
}


class Work:
    """What one trainer does; a step is the same for every server."""

    def __init__(self, server, step=0):
        self.server = server
        self.tables = {name: Rows(server, name, width=width, client=name.encode())
                       for name, (width, _) in TABLES.items()}
        for table in self.tables.values():
            table.sequence = step * 100

    def define(self):
        self.server.make_ready()
        for name, table in self.tables.items():
            table.define(TABLES[name][1])

    def step(self, number, pushes=4):
        dice = random.Random(SEED * 7919 + number)
        for name, table in self.tables.items():
            table.sequence = number * 100
            for _ in range(pushes):
                keys = dice.choices(range(KEYS), k=dice.choice((1, 30, 300)))
                table.push([(key * 0x9E3779B97F4A7C15 % 2**64,
                             [dice.uniform(-1, 1) for _ in range(table.width)]) for key in keys],
                           ack=2)

    def rows(self):
        keys = [key * 0x9E3779B97F4A7C15 % 2**64 for key in range(KEYS)]
        return {name: table.pull(keys)[0] for name, table in self.tables.items()}


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


def told(server):
    return [row for row in server.process.events()
            if row["msg"] == "rows of a table stay on the cpu"]


class DeviceTables(unittest.TestCase):
    def setUp(self):
        print(f"seed {SEED} (PS_SEED={SEED})", end=" ", flush=True)

    def both(self, works, numbers):
        for number in numbers:
            for work in works:
                work.step(number)
            self.assertEqual(works[0].rows(), works[1].rows(), number)

    def test_the_bits_are_those_of_the_cpu_also_after_kill_9(self):
        with Server("--device", "emu", http=True) as device, \
                Server("--device", "cpu") as host:
            servers = (device, host)
            works = [Work(server) for server in servers]
            for work in works:
                work.define()
            self.both(works, range(1, 3))
            self.assertGreater(metric(device, "ps_table_device_rows"), KEYS)
            self.assertEqual(metric(device, "ps_table_device_rows"),
                             metric(device, "ps_table_rows"))
            self.assertEqual(told(device), [])
            for server in servers:
                self.assertEqual(server.psctl("checkpoint").returncode, 0)
            self.both(works, range(3, 5))
            for server in servers:
                server.process.kill()
            self.assertEqual(digest(device.data), digest(host.data))
            for server in servers:
                server.start()
            self.assertGreater(device.process.event("journal replayed")["records"], 0)
            works = [Work(server, 5) for server in servers]
            self.assertEqual(works[0].rows(), works[1].rows())
            self.both(works, range(5, 7))
            self.assertGreater(metric(device, "ps_table_device_rows"), 0)
            for server in servers:
                end(server)
            self.assertEqual(digest(device.data), digest(host.data))

    def test_tables_move_from_device_to_cpu_and_back(self):
        with Server("--device", "emu") as moving, Server("--device", "cpu") as still:
            works = [Work(server) for server in (moving, still)]
            for work in works:
                work.define()
            for number, place in enumerate(("emu", "cpu", "emu", "cpu"), start=1):
                if number > 1:
                    moving.flags = ("--device", place)
                    moving.start()
                self.assertEqual(moving.process.event("device chosen")["device"], place)
                self.both([Work(moving, number), Work(still, number)], [number])
                end(moving)
                self.assertEqual(still.psctl("checkpoint").returncode, 0)
                self.assertEqual(digest(moving.data), digest(still.data), place)

    def test_rows_that_have_no_room_stay_on_the_cpu_and_the_log_says_so(self):
        with Server("--device", "emu", "--device-memory", "144KiB", http=True) as device, \
                Server("--device", "cpu") as host:
            works = [Work(server) for server in (device, host)]
            for work in works:
                work.define()
            self.both(works, range(1, 4))
            seated = metric(device, "ps_table_device_rows")
            self.assertGreater(seated, 0)
            self.assertLess(seated, metric(device, "ps_table_rows"))
            self.assertIn("budget 147456", told(device)[0]["error"])
            self.assertEqual(len({row["name"] for row in told(device)}), len(told(device)))
            for server in (device, host):
                end(server)
            self.assertEqual(digest(device.data), digest(host.data))

    def test_a_checkpoint_beside_pushes_is_of_one_instant(self):
        """Whichever instant it is: what is loaded from it and the journal has every push."""
        with Server("--device", "emu") as device, Server("--device", "cpu") as host:
            works = [Work(server) for server in (device, host)]
            for work in works:
                work.define()
            self.both(works, [1])
            pushing = threading.Thread(
                target=lambda: [works[0].step(number) for number in range(2, 7)])
            pushing.start()
            while pushing.is_alive():
                self.assertEqual(device.psctl("checkpoint").returncode, 0)
            pushing.join()
            for number in range(2, 7):
                works[1].step(number)
            self.assertEqual(works[0].rows(), works[1].rows())
            device.process.kill()
            device.start()
            self.assertEqual(Work(device, 7).rows(), works[1].rows())
            for server in (device, host):
                end(server)
            self.assertEqual(digest(device.data), digest(host.data))


if __name__ == "__main__":
    unittest.main(verbosity=2)
