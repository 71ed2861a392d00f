# SPDX-License-Identifier: Apache-2.0
"""GetCluster, BeginInit and EndInit as any client sees them, at a server that is alone."""

import time
import unittest

import grpc

from blackbox import Server
from calls import MESSAGES


def ask(server, method, **fields):
    request = MESSAGES[f"pserver.v1.{method}Request"](**fields)
    call = server.calls.channel.unary_unary(
        f"/pserver.v1.ParameterServer/{method}",
        request_serializer=lambda message: message.SerializeToString(),
        response_deserializer=MESSAGES[f"pserver.v1.{method}Response"].FromString)
    return call(request, timeout=60)


class Discovery(unittest.TestCase):
    """One server for all tests of the class."""

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server("--job", "mine"))
        cls.answer = ask(cls.server, "GetCluster", wait_ms=30000)
        while not cls.answer.members[0].address:
            cls.answer = ask(cls.server, "GetCluster", wait_ms=30000,
                             known_revision=cls.answer.revision)

    def refused(self, code, method, **fields):
        with self.assertRaises(grpc.RpcError) as refused:
            ask(self.server, method, **fields)
        self.assertEqual(refused.exception.code(), code)

    def test_a_server_says_where_it_is(self):
        answer = self.answer
        self.assertEqual((answer.shard_count, len(answer.members), answer.job, answer.alone),
                         (1, 1, "mine", True))
        self.assertEqual((answer.members[0].address, answer.members[0].state,
                          answer.members[0].answers), (self.server.address, "serving", True))
        self.assertGreater(answer.split_bytes, 0)
        self.assertNotEqual(answer.server_version, "")

    def test_a_question_waits_for_a_change_and_is_answered_without_one(self):
        known = self.answer.revision
        begun = time.monotonic()
        answer = ask(self.server, "GetCluster", known_revision=known, wait_ms=300)
        self.assertGreaterEqual(time.monotonic() - begun, 0.3)
        self.assertEqual(answer.revision, known)

    def test_another_job_is_not_found(self):
        for method, fields in (("GetCluster", {}), ("BeginInit", {"client": 1, "ttl_ms": 1000}),
                               ("EndInit", {"client": 1})):
            self.refused(grpc.StatusCode.NOT_FOUND, method, job="yours", **fields)

    def test_requests_that_make_no_sense_are_refused(self):
        for fields in ({"client": 0, "ttl_ms": 1000}, {"client": 1, "ttl_ms": 999},
                       {"client": 1, "ttl_ms": 3600001}):
            self.refused(grpc.StatusCode.INVALID_ARGUMENT, "BeginInit", **fields)
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "EndInit", client=0)

    def test_one_client_has_the_right_and_gives_it_up(self):
        first = ask(self.server, "BeginInit", client=1, ttl_ms=60000)
        second = ask(self.server, "BeginInit", client=2, ttl_ms=60000, wait_ms=100)
        self.assertEqual((first.turn, second.turn), (1, 0))
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "BeginInit", client=1, ttl_ms=60000,
                     right=first.right + 1)
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "EndInit", client=2, right=first.right)

        ask(self.server, "EndInit", client=1, right=first.right, abandon=True)
        third = ask(self.server, "BeginInit", client=2, ttl_ms=60000, wait_ms=30000,
                    right=second.right)
        self.assertEqual((third.turn, third.right), (1, second.right))
        ask(self.server, "EndInit", client=2, right=third.right, abandon=True)


if __name__ == "__main__":
    unittest.main()
