# SPDX-License-Identifier: Apache-2.0
"""The Python package: tables whose servers are killed. Rows, what an optimizer remembers of them
and what went are there again, and every add counts once."""

import threading
import unittest

import numpy as np
import pserver
from test_python_tables import WIDTH, TwoServers


class Crashes(TwoServers):
    FLAGS = ("--ack=logged",)

    def kill(self, number):
        """As kill -9 does; the same server again is there at once."""
        self.servers[number % 2].kill()
        self.servers[number % 2].start()

    def look(self, table):
        """Every row that there may be, and how many there are."""
        return table.get(np.arange(3000)), self.ps.parameters()[table.name].shape

    def compare_after_kills(self, table, before):
        """Rows of the journal, rows of a checkpoint, and of both."""
        for number in range(2):
            self.kill(number)
        rows, shape = self.look(table)
        np.testing.assert_array_equal(rows, before[0])
        self.assertEqual(shape, before[1])

    def push_at_random(self, table, batches):
        for _ in range(batches):
            keys = self.keys(200, 3000)
            table.add(keys, self.gradients(200))

    def test_every_rule_goes_on_where_it_was(self):
        """What an optimizer remembers of a row comes back with it: the next steps are the same as
        without a crash."""
        rules = {"momentum": pserver.SGD(0.1, momentum=0.9), "adam": pserver.Adam(0.1),
                 "ftrl": pserver.Ftrl(0.1, l1=0.01), "adagrad": pserver.Adagrad(0.1)}
        first = pserver.Normal(0, 1, seed=5)
        pairs = [(self.ps.table(name, WIDTH, rule, init=first),
                  self.ps.table(name + " beside", WIDTH, rule, init=first))
                 for name, rule in rules.items()]
        batches = [(self.keys(200, 300), self.gradients(200)) for _ in range(6)]
        for table, beside in pairs:
            for batch in batches:
                beside.add(*batch)
            for batch in batches[:2]:
                table.add(*batch)
        self.ps.save()
        for table, _ in pairs:
            table.add(*batches[2])
        for number in range(2):
            self.kill(number)
        for table, beside in pairs:
            for batch in batches[3:]:
                table.add(*batch)
            np.testing.assert_array_equal(table.get(np.arange(300)), beside.get(np.arange(300)))

    def test_the_same_rows_have_gone_after_a_crash(self):
        table = self.ps.table("t", WIDTH, rows_max=500, full="oldest",
                              init=pserver.Uniform(-1, 1, seed=2))
        self.push_at_random(table, 10)
        self.compare_after_kills(table, self.look(table))
        self.ps.save()
        self.compare_after_kills(table, self.look(table))
        self.push_at_random(table, 10)
        before = self.look(table)
        self.assertLessEqual(before[1][0], 1000)
        self.compare_after_kills(table, before)

    def test_every_add_counts_once_whatever_is_killed(self):
        """Two trainers count keys while servers are killed under them; what each of them added is
        known, and every row is looked at."""
        ends = [np.zeros(200, np.int64) for _ in range(2)]
        over = threading.Event()

        def count(number):
            table = self.connect().table("t", 1, pserver.Add(), dtype=np.int64)
            random = np.random.default_rng(number)
            while not over.is_set():
                keys = random.integers(0, 200, 500)
                table.add(keys, np.ones((500, 1), np.int64))
                np.add.at(ends[number], keys, 1)

        threads = [threading.Thread(target=count, args=(number,)) for number in range(2)]
        table = self.ps.table("t", 1, pserver.Add(), dtype=np.int64)
        for thread in threads:
            thread.start()
        for number in range(4):
            while table.get([0])[0, 0] < 5 * (number + 1):
                pass
            if number == 2:
                self.ps.save()
            self.kill(number)
        over.set()
        for thread in threads:
            thread.join()
        np.testing.assert_array_equal(table.get(np.arange(200)).ravel(), ends[0] + ends[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
