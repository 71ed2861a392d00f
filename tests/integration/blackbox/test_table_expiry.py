# SPDX-License-Identifier: Apache-2.0
"""Rows that expire, around kill -9: what has gone stays gone after every recovery, what has not is
there. Nothing is timed: rows are waited for until they are gone, and those that must stay have an
hour, or a clock that nobody advances meanwhile."""

import glob
import json
import os
import unittest

from blackbox import Server, patiently, run, run_until
from calls import MESSAGES
from cluster import wait_until
from test_clocks import Workers
from test_tables import CONFIG, WIDTH, Rows, configuration

CHANGE = MESSAGES["pserver.v1.ConfigureParamRequest"]
FIRST = [8.0] * WIDTH  # of a key without a row
ONCE = [7.0] * WIDTH   # one gradient of 2 at a rate of 0.5
TWICE = [6.0] * WIDTH
HOUR_MS = 3_600_000
OLD, YOUNG = list(range(10)), list(range(10, 20))


class TableExpiry(unittest.TestCase):
    def setUp(self):
        # A server looks for rows that are of age when it keeps its lease alive: every two seconds.
        # On a busy machine it may lose that lease, and is asked again then.
        self.server = Server("--ack", "logged", ttl="6s")
        self.addCleanup(self.server.__exit__)
        patiently(self.server.make_ready)

    def restart(self):
        self.server.process.kill()
        self.server.start()

    def checkpoint(self):
        done = run_until(lambda done: done.returncode == 0, "psctl", "checkpoint", "--servers",
                         self.server.address)
        self.assertEqual(done.returncode, 0, done.stderr)

    def recover(self):
        """By the journal, by a checkpoint, and by both."""
        yield self.restart()
        self.checkpoint()
        yield self.restart()
        yield self.restart()

    def table(self, name="t", client=b"rows", **expiry):
        table = Rows(self.server, name, client=client)
        patiently(lambda: table.define(configuration(init=1, low=8.0, **expiry)))
        return table

    def push(self, table, keys):
        table.sequence += 1
        patiently(lambda: table.push([(key, [2.0] * WIDTH) for key in keys], table.sequence))

    def values(self, table, keys):
        return patiently(lambda: table.values(keys))

    def until_gone(self, table, keys):
        wait_until(lambda: self.values(table, keys) == [FIRST] * len(keys), "the rows expire")

    def expire_in(self, table, expire_ms):
        change = CONFIG()
        change.table.expire_ms = expire_ms
        request = CHANGE(name=table.name, change=change.SerializeToString())
        patiently(lambda: self.server.calls.call("ConfigureParam", request))

    def rows_of(self, name):
        """As the server counts them, which a read of keys without a row does not change."""
        done = run_until(lambda done: done.returncode == 0, "psctl", "params", "--output", "json",
                         "--servers", self.server.address)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.replace(" ", "").replace("\n", "")

    def test_rows_that_went_by_time_stay_gone_and_others_stay(self):
        table = self.table(expire_ms=100)
        other = self.table("other", b"other", expire_ms=HOUR_MS)
        self.push(other, OLD)
        self.push(table, OLD)
        self.until_gone(table, OLD)
        # From here on nothing goes by itself, however long a recovery takes.
        self.expire_in(table, HOUR_MS)
        self.push(table, YOUNG)
        for _ in self.recover():
            self.assertEqual(self.values(table, OLD), [FIRST] * len(OLD))
            self.assertEqual(self.values(table, YOUNG), [ONCE] * len(YOUNG))
            self.assertEqual(self.values(other, OLD), [ONCE] * len(OLD))
            self.assertIn(f'"shape":[{len(YOUNG)},{WIDTH}]', self.rows_of("t"))

    def test_a_row_that_went_and_came_again_is_the_new_one(self):
        table = self.table(expire_ms=100)
        for _ in range(3):
            self.push(table, OLD)
            self.until_gone(table, OLD)
            self.restart()
        self.expire_in(table, HOUR_MS)
        self.push(table, OLD[:5])
        self.push(table, OLD[:5])
        for _ in self.recover():
            self.assertEqual(self.values(table, OLD), [TWICE] * 5 + [FIRST] * 5)

    def test_rows_that_are_of_age_at_a_recovery_go_after_it(self):
        table = self.table(expire_ms=HOUR_MS)
        self.push(table, OLD)
        self.expire_in(table, 100)
        self.restart()
        self.until_gone(table, OLD)
        self.expire_in(table, HOUR_MS)
        self.push(table, YOUNG)
        for _ in self.recover():
            self.assertEqual(self.values(table, OLD + YOUNG),
                             [FIRST] * len(OLD) + [ONCE] * len(YOUNG))

    def ages_of(self, table):
        """As the newest checkpoint has them, or None."""
        newest = max(glob.glob(self.server.data + "/**/*.safetensors", recursive=True),
                     key=os.path.basename)
        shown = run("psckpt", "show", newest, "--output", "json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        entries = {entry["name"]: entry for entry in json.loads(shown.stdout)["parameters"]}
        return entries[table.name].get("ages")

    def until_ages(self, table, ages):
        """Until a checkpoint has them, which the server knows when it has looked. Nothing but
        `other` makes versions meanwhile, without which no further checkpoint would be written."""
        def are_saved():
            self.push(self.other, OLD)
            self.checkpoint()
            return self.ages_of(table) == ages
        wait_until(are_saved, lambda: f"ages {ages}, and not {self.ages_of(table)}")

    def test_rows_that_were_old_before_a_crash_go_behind_it_and_younger_ones_stay(self):
        workers = Workers(self.server)
        patiently(lambda: workers.set(1))
        self.other = self.table("other", b"other")
        table = self.table(expire_clocks=4, clocks="c")
        self.push(table, OLD)
        self.until_ages(table, "clocks 0 1")
        self.assertIsNone(self.ages_of(self.other))
        patiently(lambda: workers.clock(0, 3))
        self.restart()  # behind the checkpoint the clock is in the journal
        self.push(table, YOUNG)
        self.until_ages(table, "clocks 0 1 3 2")
        self.restart()
        patiently(lambda: workers.clock(0, 4))
        self.until_gone(table, OLD)
        self.assertEqual(self.values(table, YOUNG), [ONCE] * len(YOUNG))
        self.restart()  # with the records of what went
        self.assertEqual(self.values(table, OLD + YOUNG), [FIRST] * 10 + [ONCE] * 10)
        patiently(lambda: workers.clock(0, 7))
        self.until_gone(table, YOUNG)

    def test_rows_by_time_age_on_behind_a_crash(self):
        self.other = self.table("other", b"other")
        table = self.table(expire_ms=HOUR_MS)
        self.push(table, OLD)

        def oldest():
            self.push(self.other, OLD)
            self.checkpoint()
            return int((self.ages_of(table) or "time -1").split()[1])
        wait_until(lambda: oldest() >= 0, "the server has looked")
        age = oldest()
        for _ in range(2):
            self.restart()
            self.assertGreaterEqual(oldest(), age)
            age = oldest()
        self.assertEqual(self.values(table, OLD), [ONCE] * len(OLD))

    def advance_until_gone(self, workers, table, keys):
        """How old rows are is counted from when the server has looked at them."""
        def gone():
            self.clock += 1
            patiently(lambda: workers.clock(0, self.clock))
            return self.values(table, keys) == [FIRST] * len(keys)
        wait_until(gone, "the rows expire")

    def test_rows_that_went_by_a_clock_stay_gone_and_others_stay(self):
        self.clock = 0
        workers = Workers(self.server)
        patiently(lambda: workers.set(1))
        table = self.table(expire_clocks=3, clocks="c")
        self.push(table, OLD)
        for _ in self.recover():  # nobody advances the clock: all stay
            self.assertEqual(self.values(table, OLD), [ONCE] * len(OLD))
        self.advance_until_gone(workers, table, OLD)
        self.push(table, YOUNG)
        for _ in self.recover():
            self.assertEqual(self.values(table, OLD), [FIRST] * len(OLD))
            self.assertEqual(self.values(table, YOUNG), [ONCE] * len(YOUNG))
        self.advance_until_gone(workers, table, YOUNG)
        for _ in self.recover():
            self.assertEqual(self.values(table, OLD + YOUNG), [FIRST] * 20)


if __name__ == "__main__":
    unittest.main(verbosity=2)
