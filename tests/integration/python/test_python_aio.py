# SPDX-License-Identifier: Apache-2.0
"""The Python package in event loops."""

import asyncio
import unittest

import numpy as np
import pserver
import pserver.aio
from pserver.testing import Server

F4 = np.float32
ONES = {"w": np.ones(4, F4)}


class Loops(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.server = self.enterContext(Server("--ack=memory", data=False))

    async def test_the_names_of_the_client_can_be_awaited(self):
        async with pserver.aio.connect(self.server.address) as ps:
            self.assertTrue(await ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0)))
            self.assertEqual(await ps.push(ONES), {"w": 1})
            stepped = await ps.push_pull(ONES)
            np.testing.assert_array_equal(stepped["w"], np.full(4, -2, F4))
            np.testing.assert_array_equal((await ps.pull())["w"], np.full(4, -2, F4))
            into = {"w": np.empty(4, F4)}
            await ps.pull(into=into)
            np.testing.assert_array_equal(into["w"], np.full(4, -2, F4))
            self.assertEqual((await ps.parameters())["w"].version, 2)
            with self.assertRaises(pserver.NotFoundError):
                await ps.push({"nobody": np.ones(4, F4)})

    async def test_many_calls_are_under_way_at_once(self):
        async with pserver.aio.connect(self.server.address) as ps:
            await ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))
            done = await asyncio.gather(*(ps.push(ONES) for _ in range(300)))
            self.assertEqual(sorted(versions["w"] for versions in done), list(range(1, 301)))

    async def test_the_loop_goes_on_while_a_call_waits(self):
        async with pserver.aio.connect(self.server.address) as ps:
            await ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))
            self.server.pause()
            pushed = asyncio.ensure_future(ps.push(ONES))
            await asyncio.sleep(0.05)
            self.assertFalse(pushed.done())
            self.server.resume()
            self.assertEqual(await pushed, {"w": 1})

    async def test_a_cancelled_coroutine_leaves_its_call_going(self):
        async with pserver.aio.connect(self.server.address) as ps:
            await ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))
            self.server.pause()
            pushed = asyncio.ensure_future(ps.push(ONES))
            await asyncio.sleep(0.05)
            pushed.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await pushed
            self.server.resume()
            self.assertEqual(await ps.push(ONES), {"w": 2})

    async def test_an_operation_that_a_thread_has_waited_for_can_be_awaited(self):
        with pserver.connect(self.server.address) as ps:
            ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))
            self.server.pause()
            pushed = ps.push_async(ONES)
            with self.assertRaises(TimeoutError):
                pushed.wait(0.05)
            self.server.resume()
            self.assertEqual(await pushed, {"w": 1})
            self.assertEqual(await ps.push_async(ONES), {"w": 2})

    def test_one_loop_after_the_other_may_use_a_client(self):
        with pserver.connect(self.server.address) as ps:
            ps.initialize({"w": np.zeros(4, F4)}, pserver.SGD(1.0))

            async def push():
                return await ps.push_async(ONES)

            self.assertEqual([asyncio.run(push())["w"] for _ in range(3)], [1, 2, 3])


if __name__ == "__main__":
    unittest.main(verbosity=2)
