# SPDX-License-Identifier: Apache-2.0
"""Pulls that wait for a version: one, a batch, and beside gradients. Each is answered when the push
has come, told what is missing when its time is over, and sent away by a server that goes."""

import signal
import struct
import unittest

import grpc

from blackbox import Server, late_answer, late_failure
from calls import FLOAT32, MESSAGES
from cluster import PATIENCE, wait_until

HOUR = 3600  # the longest wait that there is: whoever waits for it is not there in time
PULL, PULLS = MESSAGES["pserver.v1.GetParamRequest"], MESSAGES["pserver.v1.GetParamsRequest"]
NUMBERED = MESSAGES["pserver.v1.RequestId"](client_id=b"trainer", session=1, sequence=1)


def values(content):
    return list(struct.unpack(f"<{len(content) // 4}f", content))


class PullWaits(unittest.TestCase):
    def start(self, *flags):
        self.server = Server(*flags, http=True)
        self.addCleanup(self.server.__exit__)
        self.server.make_ready()

    def begin(self, method, request, timeout=HOUR):
        path = f"/pserver.v1.ParameterServer/{method}"
        return self.server.calls.channel.unary_unary(path).future(request.SerializeToString(),
                                                                  timeout=timeout)

    def parked(self):
        for line in self.server.get("/metrics")[1].splitlines():
            if line.startswith("ps_rpc_parked_calls"):
                return int(float(line.split()[-1]))
        return 0

    def until_parked(self, count):
        wait_until(lambda: self.parked() == count, f"{count} calls wait")

    def push(self):
        return self.server.calls.push("w", [-1.0] * 4)

    def push_pull(self, version):
        """One gradient, and the version that it shall help to make."""
        request = MESSAGES["pserver.v1.PushPullRequest"]()
        request.grads.add(name="w", element_type=FLOAT32, content=struct.pack("<4f", *[-1.0] * 4))
        request.params.add(name="w", at_least_version=version)
        return request

    def test_a_pull_waits_for_the_push_that_makes_its_version(self):
        self.start()
        waiting = [self.begin("GetParam", PULL(name="w", at_least_version=2)) for _ in range(3)]
        self.until_parked(3)
        self.push()
        self.assertFalse(any(call.done() for call in waiting))
        self.push()
        for call in waiting:
            reply = MESSAGES["pserver.v1.GetParamResponse"].FromString(call.result(PATIENCE))
            self.assertEqual((values(reply.content), reply.version), ([2.0] * 4, 2))

    def test_every_pull_of_a_batch_waits(self):
        self.start()
        request = PULLS()
        request.params.add(name="w", at_least_version=1)
        request.params.add(name="w", at_least_version=2)
        call = self.begin("GetParams", request)
        self.until_parked(1)
        self.push()
        self.push()
        reply = MESSAGES["pserver.v1.GetParamsResponse"].FromString(call.result(PATIENCE))
        self.assertEqual([item.reply.version for item in reply.params][1], 2)

    def test_pulls_beside_gradients_wait_when_those_are_applied(self):
        self.start()
        first = self.begin("PushPull", self.push_pull(2))
        self.until_parked(1)
        self.assertEqual(self.server.calls.pull("w"), ([1.0] * 4, 1))
        for call in first, self.begin("PushPull", self.push_pull(2)):
            reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(call.result(PATIENCE))
            self.assertEqual(values(reply.params[0].reply.content), [2.0] * 4)

    def test_who_waits_too_long_hears_what_is_missing(self):
        self.start()
        late = grpc.StatusCode.DEADLINE_EXCEEDED
        failure = late_failure(
            lambda timeout: self.begin("GetParam", PULL(name="w", at_least_version=2), timeout))
        self.assertEqual(failure.code(), late)
        self.assertEqual(failure.details(), "parameter: w is at version 0, waited for: 2")
        # Of a message with gradients only the pull is late.
        request = self.push_pull(2)
        request.request.MergeFrom(NUMBERED)
        call = late_answer(lambda timeout: self.begin("PushPull", request, timeout))
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(call.result(PATIENCE))
        self.assertEqual(reply.grads[0].status.code, 0)
        self.assertEqual(reply.params[0].status.code, late.value[0])
        self.assertEqual(self.server.calls.pull("w"), ([1.0] * 4, 1))

    def test_where_no_more_calls_may_wait_gradients_are_answered(self):
        self.start("--waiting-calls", "1")
        waiting = self.begin("GetParam", PULL(name="w", at_least_version=9))
        self.until_parked(1)
        refused = self.begin("GetParam", PULL(name="w", at_least_version=9)).exception(PATIENCE)
        self.assertEqual(refused.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        call = self.begin("PushPull", self.push_pull(9))
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(call.result(PATIENCE))
        self.assertEqual((reply.grads[0].status.code, reply.grads[0].reply.version), (0, 1))
        self.assertEqual(reply.params[0].status.code, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
        self.assertIn("--waiting-calls", reply.params[0].status.message)
        self.assertFalse(waiting.done())

    def test_a_server_that_goes_does_not_keep_them(self):
        self.start("--drain", "1h")
        waiting = [self.begin("GetParam", PULL(name="w", at_least_version=2)),
                   self.begin("PushPull", self.push_pull(2))]
        self.until_parked(2)
        self.server.process.signal(signal.SIGTERM)
        self.assertEqual(self.server.process.wait_exit(), 0, self.server.process.log())
        self.assertEqual(waiting[0].exception(PATIENCE).code(), grpc.StatusCode.UNAVAILABLE)
        reply = MESSAGES["pserver.v1.PushPullResponse"].FromString(waiting[1].result(PATIENCE))
        self.assertEqual(reply.grads[0].status.code, 0)
        self.assertEqual(reply.params[0].status.code, grpc.StatusCode.UNAVAILABLE.value[0])
        self.server.start()
        self.assertEqual(self.server.calls.pull("w"), ([1.0] * 4, 1))


if __name__ == "__main__":
    unittest.main()
