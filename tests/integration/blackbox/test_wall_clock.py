# SPDX-License-Identifier: Apache-2.0
"""The clock of a server's machine is set, or the machine sleeps, while the server is at work: by
libfaketime under the server alone (Debian: faketime), the clock of this machine stays as it is."""

import glob
import os
import unittest

import grpc

from blackbox import Server, patiently
from cluster import wait_until
from test_sessions_outside import Client
from test_tables import WIDTH, Rows, configuration

LIBRARY = glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")
HOUR, YEAR = 3600, 365 * 86400
FIRST = [8.0] * WIDTH  # of a key without a row
KEYS = list(range(10))


class FakeTime:
    """Seconds by which a clock is ahead, in a file that is read at each look."""

    def __init__(self, folder, sleeps):
        self.path = os.path.join(folder, "ahead")
        self.environment = {"LD_PRELOAD": LIBRARY[0], "FAKETIME_TIMESTAMP_FILE": self.path,
                            "FAKETIME_NO_CACHE": "1"}
        if not sleeps:  # the wall clock alone
            self.environment["FAKETIME_DONT_FAKE_MONOTONIC"] = "1"
        self.set(0)

    def set(self, seconds):
        with open(self.path + ".next", "w", encoding="ascii") as file:
            file.write(f"{seconds:+d}")
        os.rename(self.path + ".next", self.path)


class WallClock(unittest.TestCase):
    def start(self, sleeps):
        self.server = Server("--ack", "logged", ttl="6s", wait=False, http=True)
        self.addCleanup(self.server.__exit__)
        self.server.process.kill()
        self.time = FakeTime(self.server.cluster.folder, sleeps)
        self.server.environment = self.time.environment
        self.server.start()
        patiently(lambda: self.server.make_ready(values=[0.0]))
        self.table = Rows(self.server, "t")
        patiently(lambda: self.table.define(
            configuration(init=1, low=8.0, expire_ms=HOUR * 1000)))
        patiently(lambda: self.table.push([(key, [2.0] * WIDTH) for key in KEYS], 1))

    def assert_rows_stay(self):
        """Over some sweeps: a server looks when it keeps its lease, every two seconds."""
        def swept():
            values = patiently(lambda: self.table.values(KEYS))
            self.assertNotIn(FIRST, values)
            kept.append(len(self.server.process.events()))
            return len(kept) > 60
        kept = []
        wait_until(swept, "some sweeps have passed")

    def assert_durations_are_short(self):
        """Sums of seconds: a jump would be in them for ever."""
        lines = self.server.get("/metrics")[1].splitlines()
        sums = [line.split() for line in lines if "_seconds_sum" in line]
        self.assertGreater(len(sums), 3)
        for name, seconds in sums:
            self.assertLess(float(seconds), HOUR, name)

    def test_a_clock_that_is_set_ends_no_session_and_no_row(self):
        self.start(sleeps=False)
        clients = []
        version = 0
        for ahead in (0, HOUR, -HOUR, YEAR, 0, -YEAR, 0):
            self.time.set(ahead)
            clients.append(Client(self.server))
            try:
                patiently(lambda: clients[-1].push(sequence=1))
            except grpc.RpcError as error:
                # Its clock is ahead of the server's, which names a session that is not.
                told = dict(error.trailing_metadata())
                self.assertEqual(told["ps-status"], "stale_session")
                clients[-1].session = int(told["ps-session"])
                patiently(lambda: clients[-1].push(sequence=1))
            version += 1
            # Whoever is known goes on, and whatever was applied is known.
            for client in clients:
                self.assertTrue(patiently(lambda: client.push(sequence=1)).duplicate)
            self.assertEqual(patiently(lambda: self.server.calls.pull("w"))[1], version)
        self.assert_rows_stay()
        self.assert_durations_are_short()
        self.server.process.kill()
        self.time.set(YEAR)
        self.server.start()
        for client in clients:
            self.assertTrue(patiently(lambda: client.push(sequence=1)).duplicate)
        self.assert_rows_stay()

    def test_a_jump_ahead_says_why_nothing_is_answered(self):
        self.start(sleeps=False)
        said = set()

        def told():
            """Each time a second further, until a call meets it before the lease is kept again."""
            self.ahead = getattr(self, "ahead", 0) + 1000
            self.time.set(self.ahead)
            try:
                self.server.calls.pull("w")
            except grpc.RpcError as error:
                said.add(error.details())
            return any("the wall clock" in text for text in said)
        wait_until(told, lambda: f"the reason is said, and not {said}")

    def test_rows_are_there_when_a_machine_has_slept(self):
        self.start(sleeps=True)
        self.assert_rows_stay()  # the server has looked, and knows their age
        for nights in (1, 2):
            self.time.set(nights * 12 * HOUR)
            self.assert_rows_stay()


if __name__ == "__main__":
    if not LIBRARY:
        print("there is no libfaketime here: deploy/install-deps.sh installs it")
        raise SystemExit(77)
    unittest.main(verbosity=2)
