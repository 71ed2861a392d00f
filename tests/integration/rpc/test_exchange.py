#!/usr/bin/python3
"""Exchange, a stream of batches: several at a time, each parameter's in order, answered under their
ids, whatever becomes of the client.

usage: test_exchange.py RIG_SERVER DESCRIPTOR_SET
"""
import queue
import threading
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


class SideBySide(BundleTest):
    """With a journal that is written only when this test says so: messages wait in between."""
    RIG_ARGUMENTS = ["journals"]
    OPEN_MAX = 8

    def setUp(self):
        super().setUp()
        for name in ("a", "b", "c"):
            self.call("InitParam", message("InitParamRequest", name=name, element_type=4,
                                           content=floats([0.0] * 4)))
        stub = TYPES.stub(self.channel, "/pserver.v1.ParameterServer/FinishInitParams")
        finish = stub.future(message("FinishInitParamsRequest"), timeout=TIMEOUT)
        while not finish.done():
            self.order("save")
            time.sleep(0.01)
        finish.result()
        self.stream = Stream(self.channel)

    def tearDown(self):
        self.stream.close()
        super().tearDown()

    def logged(self, name):
        gradient = self.push([-1.0] * 4, name)
        gradient.ack = 2
        return gradient

    def await_pushes(self, count):
        for _ in range(1000):
            if self.order("prove") == count:
                return
            time.sleep(0.01)
        self.assertEqual(self.order("prove"), count)

    def collect(self, count):
        """So many answers, while the journal is written again and again."""
        answers = []

        def read():
            while len(answers) < count:
                answers.append(next(self.stream.call))
        reader = threading.Thread(target=read)
        reader.start()
        while reader.is_alive():
            self.order("write")
            reader.join(0.002)
        self.assertEqual(len(answers), count)
        return answers

    def test_one_that_waits_for_the_disk_does_not_keep_others(self):
        self.stream.send(id=1, grads=[self.logged("a")])
        self.stream.send(id=2, params=self.pulls(["a", "b"]))
        self.stream.send(id=3, grads=[self.push([-1.0] * 4, "b")])
        answers = [next(self.stream.call), next(self.stream.call)]
        self.assertEqual([a.id for a in answers], [2, 3])
        self.assertEqual(answers[0].params[0].reply.version, 1)  # it came after the gradient
        self.order("write")
        self.assertEqual(next(self.stream.call).id, 1)

    def test_what_happens_to_a_parameter_happens_in_order(self):
        self.stream.send(id=1, grads=[self.logged("a")], params=self.pulls(["a", "b"]))
        self.stream.send(id=2, grads=[self.push([-1.0] * 4, "b"), self.push([-1.0] * 4, "c")])
        self.stream.send(id=3, params=self.pulls(["b"]))
        self.await_pushes(1)
        time.sleep(0.05)
        self.assertEqual(self.order("prove"), 1)  # the second waits for the first one's pull
        answers = {a.id: a for a in self.collect(3)}
        self.assertEqual([r.reply.version for r in answers[1].params], [1, 0])
        self.assertEqual([r.reply.version for r in answers[2].grads], [1, 1])
        self.assertEqual(answers[3].params[0].reply.version, 1)

    def test_gradients_of_a_stream_are_applied_in_order(self):
        for step in range(1, 101):
            self.stream.send(id=step, grads=[self.logged("a")])
        versions = {a.id: a.grads[0].reply.version for a in self.collect(100)}
        self.assertEqual(versions, {step: step for step in range(1, 101)})

    def test_so_many_are_open_and_no_more(self):
        for step in range(1, 31):
            self.stream.send(id=step, grads=[self.logged("a")])
        self.await_pushes(self.OPEN_MAX)
        time.sleep(0.1)
        self.assertEqual(self.order("prove"), self.OPEN_MAX)
        self.collect(30)
        self.assertEqual(self.order("prove"), 30)

    def test_the_end_of_the_requests_ends_the_stream_after_the_last_answer(self):
        for step in (1, 2, 3):
            self.stream.send(id=step, grads=[self.logged("a")])
        self.stream.close()
        self.await_pushes(3)
        self.order("write")
        self.assertEqual([a.id for a in self.stream.call], [1, 2, 3])
        self.assertEqual(self.stream.call.code(), grpc.StatusCode.OK)

    def test_what_came_before_a_message_that_is_none_is_answered(self):
        good = message("ExchangeRequest", id=1, grads=[self.logged("a")]).SerializeToString()
        parse = TYPES("pserver.v1.ExchangeResponse").FromString
        stub = self.channel.stream_stream(PATH, response_deserializer=parse)
        call = stub(iter([good, b"\x0a\x7f", good]), timeout=TIMEOUT)
        self.await_pushes(1)
        self.order("write")
        self.assertEqual(next(call).id, 1)
        with self.assertRaises(grpc.RpcError) as caught:
            next(call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.order("prove"), 1)

    def test_streams_that_are_cancelled_with_messages_open_leave_their_slots(self):
        for round in range(1, 151):  # more than there are slots on both lanes
            stream = Stream(self.channel)
            for step in (1, 2, 3):
                stream.send(id=step, grads=[self.logged("a")], params=self.pulls(["b"]))
            if round % 2:
                self.order("prove")
            stream.call.cancel()
            stream.close()
        self.order("write")
        self.stream.send(id=1, params=self.pulls(["b"]))
        self.assertEqual(next(self.stream.call).id, 1)

    def test_a_server_that_goes_ends_streams_whose_messages_wait(self):
        self.stream.send(id=1, grads=[self.logged("a")])
        self.await_pushes(1)
        self.order("drain 300")
        with self.assertRaises(grpc.RpcError) as caught:
            next(self.stream.call)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
