# SPDX-License-Identifier: Apache-2.0
"""The journal of a server that is pushed to without a pause stays below its bound and what comes
during one checkpoint, however long --checkpoint-interval is. PS_SHARD_MIB=64 PS_BOUND_MIB=0 (the
default bound) PS_SECONDS=60 is the real case; the journal's folder needs 2 GiB then."""

import concurrent.futures
import glob
import os
import struct
import threading
import time
import unittest

import grpc

from blackbox import PATIENCE, Server, patiently
from calls import FLOAT32, MESSAGES

MIB = 1 << 20
SHARD = int(os.environ.get("PS_SHARD_MIB", "4")) * MIB
BOUND = int(os.environ.get("PS_BOUND_MIB", "64")) * MIB
SEGMENT = (1 if BOUND else 64) * MIB
SECONDS = float(os.environ.get("PS_SECONDS", "6"))
PIECE = min(SHARD, 4 * MIB)
OPTIONS = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


class JournalBound(unittest.TestCase):
    def setUp(self):
        self.server = Server("--checkpoint-journal-bytes", str(BOUND), "--journal-segment-bytes",
                             str(SEGMENT))  # an interval of an hour
        self.addCleanup(self.server.__exit__)
        self.counting = threading.Lock()
        self.pushed = 0
        self.names = [f"w{i}" for i in range(SHARD // PIECE)]
        for name in self.names:
            self.call("InitParam", MESSAGES["pserver.v1.InitParamRequest"](
                name=name, element_type=FLOAT32, content=bytes(PIECE)))
        self.server.calls.finish()

    def call(self, method, request, channel=None):
        channel = channel or self.server.calls.channel
        return patiently(lambda: channel.unary_unary(f"/pserver.v1.ParameterServer/{method}")(
            request.SerializeToString(), timeout=PATIENCE))

    def push_until(self, name, enough):
        """Counts the bytes that were pushed and acknowledged as durable."""
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name=name, element_type=FLOAT32, content=struct.pack("<f", 0.5) * (PIECE // 4))
        with grpc.insecure_channel(self.server.address, options=OPTIONS) as channel:
            while not enough.is_set():
                try:
                    self.call("SendGrad", request, channel)
                    with self.counting:
                        self.pushed += PIECE
                except grpc.RpcError as error:  # the queue is full: again
                    self.assertEqual(error.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)

    def saves(self):
        return [row for row in self.server.process.events() if row["msg"] == "checkpoint saved"]

    def journal_bytes(self):
        total = 0
        for path in glob.glob(os.path.join(self.server.data, "shard-0", "*.journal")):
            try:
                total += os.stat(path).st_size
            except FileNotFoundError:
                pass  # it was swept
        return total

    def test_b6_the_journal_stays_below_its_bound_and_one_checkpoint(self):
        bound = BOUND or max(2 * SHARD, 1024 * MIB)
        began = time.monotonic()
        enough = threading.Event()
        most = 0
        with concurrent.futures.ThreadPoolExecutor() as pool:
            pushers = [pool.submit(self.push_until, name, enough) for name in self.names[:4]]
            # Without a bound all that is pushed would be there.
            while time.monotonic() < began + SECONDS or self.pushed <= 2 * bound or \
                    (time.monotonic() < began + PATIENCE and len(self.saves()) <= 2):
                most = max(most, self.journal_bytes())
                time.sleep(0.01)
            enough.set()
            for pusher in pushers:
                pusher.result()
        seconds = time.monotonic() - began
        pushed, saves = self.pushed, self.saves()
        slowest = max(row["duration_ms"] for row in saves) / 1000
        # The rate is not constant, hence twice; a sample is a little late; files go as a whole.
        during = 2 * pushed / seconds * (slowest + 0.1)
        print(f"{pushed >> 20} MiB pushed, {len(saves)} checkpoints of {slowest:.2f} s at most, "
              f"journal {most >> 20} MiB at most: bound {bound >> 20} MiB, during one checkpoint "
              f"{int(during) >> 20} MiB", end=" ")
        self.assertGreater(len(saves), 2)
        self.assertLess(most, bound + during + 2 * SEGMENT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
