# SPDX-License-Identifier: Apache-2.0
"""How often an array is copied on its way: never into gRPC, and once out of what gRPC has received.

count_copies.c, which ctest preloads, counts what memcpy copies in this process."""

import ctypes
import os
import unittest

import numpy as np
import pserver
from pserver.testing import Server

SIZE = 4 << 20
NOISE = 0.1  # of the size: whatever else gRPC copies in pieces of 4 KiB


class Copies(unittest.TestCase):
    def setUp(self):
        if not os.environ.pop("LD_PRELOAD", None):  # and the server shall be as it is
            self.skipTest("count_copies is not preloaded: run it by ctest")
        self.count = ctypes.CDLL(None).copied_bytes
        self.count.restype = ctypes.c_uint64

    def copies(self, call):
        """How many times SIZE bytes a call copies, when all is warm."""
        call()
        before = self.count()
        call()
        return (self.count() - before) / SIZE

    def test_content_is_copied_at_most_once(self):
        gradient = np.ones(SIZE // 4, np.float32)
        into = np.empty_like(gradient)
        with Server("--ack=memory", data=False) as server, \
                pserver.connect(server.address, shared_memory=False) as ps:
            ps.initialize({"w": gradient})
            self.assertLess(self.copies(lambda: ps.push({"w": gradient})), NOISE)
            pulled = self.copies(lambda: ps.pull(into={"w": into}))
            both = self.copies(lambda: ps.push_pull({"w": gradient}, {"w": into}))
            strided = self.copies(lambda: ps.push({"w": np.ones((SIZE // 4, 2), np.float32)[:, 0]}))
        print(f"copies: {pulled:.2f} of a pull, {both:.2f} of a push_pull")
        self.assertLess(max(pulled, both), 1 + NOISE)
        self.assertLess(strided, 1 + NOISE)
        self.assertGreater(pulled, 1 - NOISE, "the counter does not count")


if __name__ == "__main__":
    unittest.main(verbosity=2)
