# SPDX-License-Identifier: Apache-2.0
"""The Python package: copies of tables that are kept up to date and read in this process."""

import threading
import unittest

import numpy as np
import pserver
from test_python_tables import F4, WIDTH, TwoServers


class Replicas(TwoServers):
    def test_a_replica_has_the_rows_of_its_table(self):
        table = self.ps.table("t", WIDTH, init=pserver.Uniform(-1, 1, seed=4))
        keys = self.keys(3000)
        replica = self.enterContext(table.replica())
        for early in (lambda: replica.get(keys), replica.keys):
            with self.assertRaises(pserver.NotInitializedError):
                early()
        replica.update()
        self.assertEqual(len(replica), 0)
        self.assertEqual((replica.keys().dtype, replica.keys().tolist()), (np.uint64, []))
        np.testing.assert_array_equal(replica.get(keys), table.get(keys))
        for count in (2000, 20, 1):
            table.add(keys[:count], self.gradients(count))
            replica.update()
            np.testing.assert_array_equal(replica.get(keys), table.get(keys))
        self.assertEqual(len(replica), 2000)
        self.assertEqual(replica.counters.received_bytes, 2021 * (8 + 4 * WIDTH))
        self.assertEqual((replica.counters.copies, replica.counters.anchors), (2, 0))
        self.assertEqual(replica.keys().tolist(), sorted(keys[:2000].tolist()))
        self.ps.drop(["t"])
        self.ps.table("t", WIDTH, init=pserver.Uniform(-1, 1, seed=4)).add(keys[:3],
                                                                         self.gradients(3))
        replica.update()
        self.assertEqual(replica.keys().tolist(), sorted(keys[:3].tolist()))
        into = np.empty((2, WIDTH), F4)
        self.assertIs(replica.get(keys[:2], out=into), into)
        np.testing.assert_array_equal(into, table.get(keys[:2]))

    def test_threads_read_while_one_updates(self):
        table = self.ps.table("t", WIDTH)
        keys = self.keys(2000)
        replica = self.enterContext(table.replica())
        replica.update()
        uneven = []

        def read():
            for _ in range(50):
                rows = replica.get(keys)
                uneven.append(bool(np.any(rows != rows[:, :1])))

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        for _ in range(10):
            table.add(keys, np.ones((len(keys), WIDTH), F4))
            replica.update()
        for thread in threads:
            thread.join()
        self.assertEqual((len(uneven), any(uneven)), (150, False))
        np.testing.assert_array_equal(replica.get(keys), table.get(keys))

    def test_a_closed_replica_says_so(self):
        table = self.ps.table("t", WIDTH)
        replica = table.replica()
        replica.close()
        replica.close()
        for call in (replica.update, lambda: replica.get([1]), lambda: len(replica)):
            with self.assertRaisesRegex(RuntimeError, "closed"):
                call()
        with self.assertRaises(pserver.NotFoundError):
            pserver._pserver.TableReplica(table._client, "nobody", 60000)


if __name__ == "__main__":
    unittest.main()
