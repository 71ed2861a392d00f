#!/usr/bin/python3
"""Exchange, a stream of batches: answered in order under their ids, whatever becomes of the client.

usage: test_exchange.py RIG_SERVER DESCRIPTOR_SET
"""
import queue
import time
import unittest

import grpc

import test_rpc
from test_bundles import BundleTest, floats, message
from test_rpc import TIMEOUT, TYPES

PATH = "/pserver.v1.ParameterServer/Exchange"


class Stream:
    """A stream whose messages are sent one by one, until None."""

    def __init__(self, channel, timeout=TIMEOUT):
        self.outbox = queue.Queue()
        self.call = TYPES.stub(channel, PATH)(iter(self.outbox.get, None), timeout=timeout)

    def send(self, **fields):
        self.outbox.put(message("ExchangeRequest", **fields))

    def close(self):
        self.outbox.put(None)


class Exchange(BundleTest):
    def test_messages_are_answered_in_order_under_their_ids(self):
        self.init_many(8)
        names = [f"p{i}" for i in range(8)]
        stream = Stream(self.channel)
        for step in range(1, 21):  # all of them without waiting
            stream.send(id=step, grads=self.grads(names, [1.0] * 4), params=self.pulls(names))
        for step in range(1, 21):
            reply = next(stream.call)
            self.assertEqual(reply.id, step)
            self.assertEqual([r.reply.version for r in reply.grads], [step] * 8)
            self.assertEqual(reply.params[3].reply.content, floats([3.0 - step] * 4))
        stream.close()
        self.assertEqual(list(stream.call), [])
        self.assertEqual(stream.call.code(), grpc.StatusCode.OK)

    def test_items_have_statuses_and_repeats_are_dropped(self):
        self.init_many(1)
        stream = Stream(self.channel)
        for id in (1, 2):
            stream.send(id=id, request=self.request_id(1),
                        grads=self.grads(["p0", "nobody"], [1.0] * 4))
        first, second = next(stream.call), next(stream.call)
        self.assertEqual([r.status.word for r in first.grads], ["", "not_found"])
        self.assertFalse(first.grads[0].reply.duplicate)
        self.assertTrue(second.grads[0].reply.duplicate)
        stream.close()

    def test_a_message_that_is_none_ends_the_stream(self):
        self.init_many(1)
        call = self.channel.stream_stream(PATH)(iter([b"\x0a\x7f"]), timeout=TIMEOUT)
        with self.assertRaises(grpc.RpcError) as caught:
            next(call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(test_rpc.word_of(caught.exception), "bad_input")
        self.assertEqual(self.call("GetParam", self.pull("p0")).version, 0)

    def test_a_stream_that_is_cancelled_leaves_its_slot(self):
        self.init_many(1)
        for _ in range(300):  # more than there are slots
            stream = Stream(self.channel)
            stream.send(id=1, params=self.pulls(["p0"] * 100))
            stream.call.cancel()
            stream.close()
        stream = Stream(self.channel)
        stream.send(id=7, params=self.pulls(["p0"]))
        self.assertEqual(next(stream.call).id, 7)
        stream.close()

    def test_a_client_that_goes_while_its_message_waits_leaves_its_slot(self):
        for _ in range(300):
            stream = Stream(self.channel, timeout=0.05)
            stream.send(id=1, params=self.pulls(["w"]))  # waits for initialisation
            with self.assertRaises(grpc.RpcError):
                next(stream.call)
            stream.close()
        self.make_ready()
        stream = Stream(self.channel)
        stream.send(id=1, params=self.pulls(["w"]))
        self.assertEqual(next(stream.call).params[0].reply.version, 0)
        stream.close()

    def test_a_pull_waits_for_initialisation(self):
        stream = Stream(self.channel)
        stream.send(id=1, params=self.pulls(["w"]))
        time.sleep(0.05)
        self.make_ready()
        self.assertEqual(next(stream.call).params[0].reply.content, floats([1.0, 2.0]))
        stream.close()

    def test_a_server_that_goes_ends_its_streams(self):
        self.make_ready()
        stream = Stream(self.channel)
        stream.send(id=1, params=self.pulls(["w"]))
        next(stream.call)
        self.order("drain 10000")
        with self.assertRaises(grpc.RpcError) as caught:
            next(stream.call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)
        stream.close()


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
