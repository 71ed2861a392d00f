# SPDX-License-Identifier: Apache-2.0
"""The Python package: parameters that come, go and change while a job trains."""

import asyncio
import collections
import threading
import unittest

import numpy as np
import pserver
from pserver.testing import Server

F4 = np.float32


class Storm(unittest.TestCase):
    """Two servers, killed while parameters come and go under the hands of two trainers."""

    ROUNDS = 40

    def setUp(self):
        self.servers = [self.enterContext(Server()) for _ in range(2)]
        self.over = threading.Event()

    def connect(self):
        # "x" is cut over both servers.
        return self.enterContext(pserver.connect(
            ",".join(server.address for server in self.servers), split_bytes=2048, timeout=120))

    def train(self, ps, mine):
        while not self.over.is_set():
            for name, size in (("x", 1000), ("y", 10), ("w", 4)):
                try:
                    ps.push({name: np.ones(size, F4)})
                    mine[name] += 1
                except pserver.NotFoundError:
                    mine["gone"] += 1

    def test_nothing_is_lost_and_nothing_is_done_twice(self):
        ps = self.connect()
        ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(0.5))
        counts = [collections.Counter(), collections.Counter()]
        threads = [threading.Thread(target=self.train, args=(self.connect(), mine))
                   for mine in counts]
        for thread in threads:
            thread.start()
        try:
            for number in range(self.ROUNDS):
                made = ps.define({"x": np.zeros(1000, F4), "y": np.zeros(10, F4)},
                                 pserver.SGD(1.0))
                self.assertEqual(made, {"x": True, "y": True})
                if number % 10 == 5:
                    killed = self.servers[number // 10 % 2]
                    killed.kill()
                    killed.start()
                steps = ps.configure("*", lr=1 / (number % 7 + 1))
                self.assertEqual(set(steps), {"w", "x", "y"})
                ps.drop(["x", "y"])
        finally:
            self.over.set()
            for thread in threads:
                thread.join()
        self.assertEqual(list(ps.parameters()), ["w"])
        self.assertEqual(ps.parameters()["w"].version, sum(mine["w"] for mine in counts))


class Change(unittest.TestCase):
    def setUp(self):
        self.server = self.enterContext(Server())
        self.ps = self.enterContext(pserver.connect(self.server.address))
        self.ps.initialize({"a/w": np.zeros(4, F4), "a/b": np.zeros(2, F4), "c": np.zeros(3, F4)},
                           pserver.SGD(1.0))

    def kill(self):
        self.server.kill()
        self.server.start()

    def rates(self):
        return {name: info.learning_rate for name, info in self.ps.parameters().items()}

    def test_a_parameter_is_defined_once_by_whoever_comes_first(self):
        values = {"d": np.full((2, 3), 5, F4)}
        self.assertEqual(self.ps.define(values, pserver.Adam(1e-2)), {"d": True})
        self.ps.push({"d": np.ones((2, 3), F4)})
        self.kill()
        with pserver.connect(self.server.address) as other:
            other.initialize({"a/w": np.zeros(4, F4)})
            self.assertEqual(other.define({"d": np.zeros((2, 3), F4)}, pserver.Adam(1e-2)),
                             {"d": False})
            pulled = other.pull(["d"])["d"]
            self.assertEqual(pulled.shape, (2, 3))
            np.testing.assert_allclose(pulled, 4.99)
            self.assertEqual(other.versions["d"], 1)

    def test_another_parameter_of_the_name_is_refused(self):
        with self.assertRaises(pserver.AlreadyInitializedError) as caught:
            self.ps.define({"c": np.zeros(4, F4), "d": np.zeros(4, F4)}, pserver.SGD(1.0))
        self.assertEqual([result.status for result in caught.exception.results], ["already", "ok"])
        self.assertIn("d", self.ps.parameters())

    def test_what_is_dropped_is_gone(self):
        self.ps.drop(["c", "a/b"])
        self.kill()
        self.assertEqual(list(self.ps.parameters()), ["a/w"])
        for call in (lambda: self.ps.push({"c": np.ones(3, F4)}), lambda: self.ps.pull(["c"]),
                     lambda: self.ps.drop(["c"]), lambda: self.ps.configure("c", lr=0.5)):
            with self.assertRaises(pserver.NotFoundError):
                call()
        self.assertEqual(self.ps.define({"c": np.ones(2, F4)}), {"c": True})

    def test_rates_are_changed_by_name_and_by_prefix(self):
        self.assertEqual(self.ps.configure("c", lr=0.5), {"c": 0})
        self.assertEqual(set(self.ps.configure("a/*", lr=0.25)), {"a/w", "a/b"})
        self.assertEqual(self.ps.configure(["c"], lr=0.125), {"c": 0})
        self.kill()
        self.assertEqual(self.rates(), {"a/w": 0.25, "a/b": 0.25, "c": 0.125})
        self.ps.push({"c": np.ones(3, F4)})
        np.testing.assert_array_equal(self.ps.pull(["c"])["c"], np.full(3, -0.125, F4))
        self.assertEqual(self.ps.configure("c", lr=1.0), {"c": 1})
        self.assertEqual(self.ps.configure("none*", lr=1.0), {})

    def test_a_schedule_goes_on_at_the_step_that_it_finds(self):
        for _ in range(3):
            self.ps.push({"c": np.ones(3, F4)})
        self.ps.configure("c", lr=1.0, schedule=pserver.Schedule("linear", a=0.125, b=0.0))
        self.assertEqual(self.rates()["c"], 1.0 - 4 * 0.125)
        self.ps.configure("c", lr=2.0)
        self.assertEqual(self.rates()["c"], 2.0 - 4 * 0.125)
        with self.assertRaisesRegex(ValueError, "give lr"):
            self.ps.configure("c", schedule=pserver.Schedule("exp", a=0.5, b=1))

    def test_other_numbers_of_the_rule_and_no_other_rule(self):
        self.ps.configure("c", clip_norm=1.0)
        self.ps.push({"c": np.array([0, 3, 4], F4)})
        np.testing.assert_allclose(self.ps.pull(["c"])["c"], [0, -0.6, -0.8], rtol=1e-6)
        self.ps.configure("c", optimizer=pserver.SGD(0.5))
        self.ps.push({"c": np.array([0, 3, 4], F4)})
        np.testing.assert_allclose(self.ps.pull(["c"])["c"], [0, -2.1, -2.8], rtol=1e-6)
        with self.assertRaises(pserver.InvalidError):
            self.ps.configure("c", optimizer=pserver.Adam())
        with self.assertRaisesRegex(ValueError, "nothing"):
            self.ps.configure("c")

    def test_coroutines_have_the_same_calls(self):
        async def change():
            async with pserver.aio.connect(self.server.address) as ps:
                made = await ps.define({"e": np.zeros(2, F4)})
                steps = await ps.configure("e", lr=0.5)
                await ps.drop(["e"])
                return made, steps

        self.assertEqual(asyncio.run(change()), ({"e": True}, {"e": 0}))


if __name__ == "__main__":
    import pserver.aio
    unittest.main(verbosity=2)
