#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Batches as a Python client sees them: many items in one call, each with a result of its own.

usage: test_bundles.py RIG_SERVER DESCRIPTOR_SET
"""
import array
import threading
import time
import unittest

import grpc

import test_rpc
from test_rpc import TIMEOUT, TYPES


def message(kind, /, **fields):
    return TYPES(f"pserver.v1.{kind}")(**fields)


def floats(values):
    return array.array("f", values).tobytes()


class BundleTest(test_rpc.RpcTest):
    def init_many(self, count, length=4):
        for i in range(count):
            self.call("InitParam", message("InitParamRequest", name=f"p{i}", element_type=4,
                                           content=floats([float(i)] * length)))
        self.call("FinishInitParams")

    def grads(self, names, values):
        return [self.push(values, name) for name in names]

    def pulls(self, names):
        return [self.pull(name) for name in names]

    def request_id(self, sequence, client=b"python-client"):
        return message("RequestId", client_id=client, session=1, sequence=sequence)


class Bundles(BundleTest):
    def test_gradients_go_up_and_parameters_come_down_in_one_call(self):
        self.init_many(50)
        names = [f"p{i}" for i in range(50)]
        reply = self.call("PushPull", message("PushPullRequest",
                                              grads=self.grads(names, [0.5] * 4),
                                              params=self.pulls(names)))
        self.assertEqual([r.reply.version for r in reply.grads], [1] * 50)
        self.assertEqual(sorted(r.reply.position for r in reply.grads), list(range(1, 51)))
        for i, result in enumerate(reply.params):
            self.assertEqual(result.reply.name, f"p{i}")
            self.assertEqual(result.reply.version, 1)
            self.assertEqual(result.reply.content, floats([i - 0.5] * 4))

    def test_each_item_has_a_status_of_its_own(self):
        self.init_many(3)
        grads = [self.push([1.0] * 4, "p0"), self.push([1.0] * 4, "nobody"),
                 self.push([1.0] * 3, "p1"), self.push([1.0] * 4, "p2")]
        reply = self.call("SendGrads", message("SendGradsRequest", grads=grads))
        self.assertEqual([r.status.code for r in reply.grads], [0, 5, 3, 0])
        self.assertEqual([r.status.word for r in reply.grads], ["", "not_found", "bad_input", ""])
        self.assertEqual(reply.grads[1].status.message, "parameter: nobody does not exist")
        self.assertEqual(reply.grads[2].status.message,
                         "Name: p1, parameter and gradient does not have same content len, "
                         "parameter: 16, gradient: 12")
        pulled = self.call("GetParams", message("GetParamsRequest",
                                                params=self.pulls(["p0", "nobody", "p1"])))
        self.assertEqual([r.status.word for r in pulled.params], ["", "not_found", ""])
        self.assertEqual([r.reply.version for r in pulled.params], [1, 0, 0])

    def test_a_repeated_batch_is_applied_once_item_by_item(self):
        self.init_many(4)
        names = ["p0", "p1", "p2", "p3"]
        first = message("SendGradsRequest", grads=self.grads(names[:2], [1.0] * 4),
                        request=self.request_id(1))
        whole = message("SendGradsRequest", grads=self.grads(names, [1.0] * 4),
                        request=self.request_id(1))
        self.call("SendGrads", first)
        reply = self.call("SendGrads", whole)
        self.assertEqual([r.reply.duplicate for r in reply.grads], [True, True, False, False])
        self.assertEqual([r.reply.version for r in reply.grads], [1] * 4)
        reply = self.call("SendGrads", whole)
        self.assertEqual([r.reply.duplicate for r in reply.grads], [True] * 4)

    def test_an_item_may_carry_a_number_of_its_own(self):
        self.init_many(2)
        self.call("SendGrads", message("SendGradsRequest", grads=self.grads(["p0"], [1.0] * 4),
                                       request=self.request_id(5)))
        again = self.push([1.0] * 4, "p0")
        again.request.sequence = 5
        other = self.push([1.0] * 4, "p1")
        reply = self.call("SendGrads", message("SendGradsRequest", grads=[other, again],
                                               request=self.request_id(6)))
        self.assertEqual([r.reply.duplicate for r in reply.grads], [False, True])

    def test_pulls_wait_for_initialisation_and_gradients_do_not(self):
        self.call("InitParam", message("InitParamRequest", name="w", element_type=4,
                                       content=floats([1.0, 2.0])))
        reply = self.call("PushPull", message("PushPullRequest", grads=[self.push([1.0, 1.0])],
                                              params=[self.pull()]))
        self.assertEqual([r.status.word for r in reply.grads], ["not_ready"])
        self.assertEqual([r.status.word for r in reply.params], ["not_ready"])
        stub = TYPES.stub(self.channel, "/pserver.v1.ParameterServer/GetParams")
        waiting = stub.future(message("GetParamsRequest", params=self.pulls(["w", "v"])),
                              timeout=TIMEOUT)
        time.sleep(0.05)
        self.assertFalse(waiting.done())
        self.call("FinishInitParams")
        reply = waiting.result()
        self.assertEqual([r.status.word for r in reply.params], ["", "not_found"])
        self.assertEqual(reply.params[0].reply.content, floats([1.0, 2.0]))

    def test_an_empty_batch_is_answered(self):
        self.assertEqual(len(self.call("SendGrads").grads), 0)
        self.assertEqual(len(self.call("GetParams").params), 0)
        self.assertEqual(len(self.call("PushPull").grads), 0)

    def test_malformed_batches_change_nothing(self):
        self.init_many(1)
        good = message("SendGradsRequest", grads=self.grads(["p0"], [1.0] * 4))
        stub = self.channel.unary_unary("/pserver.v1.ParameterServer/SendGrads")
        whole = good.SerializeToString()
        for bad in [whole + b"\x0b", whole + b"\x0a\x7f", whole + b"\x08\x01"]:
            with self.assertRaises(grpc.RpcError) as caught:
                stub(bad, timeout=TIMEOUT)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.call("GetParam", self.pull("p0")).version, 0)


class Bounds(BundleTest):
    def test_too_many_items_are_refused_whole(self):
        self.init_many(1)
        with self.assertRaises(grpc.RpcError) as caught:
            self.call("GetParams", message("GetParamsRequest", params=self.pulls(["p0"] * 4097)))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        with self.assertRaises(grpc.RpcError) as caught:
            self.call("SendGrads", message("SendGradsRequest", request=self.request_id(1),
                                           grads=self.grads(["p0"] * 193, [1.0] * 4)))
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        self.assertEqual(self.call("GetParam", self.pull("p0")).version, 0)

    def test_a_reply_is_bounded_whatever_is_asked(self):
        self.call("InitParam", message("InitParamRequest", name="w", element_type=4,
                                       content=bytes(1 << 20)))
        self.call("FinishInitParams")
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}",
                                        [("grpc.max_receive_message_length", -1)])
        stub = TYPES.stub(channel, "/pserver.v1.ParameterServer/GetParams")
        reply = stub(message("GetParamsRequest", params=self.pulls(["w"] * 1000)),
                     timeout=TIMEOUT)
        words = [r.status.word for r in reply.params]
        self.assertEqual(words, [""] * 64 + ["busy"] * 936)
        self.assertGreater(reply.params[64].status.retry_ms, 0)
        channel.close()

    def test_a_parameter_larger_than_any_reply_fills_one_alone(self):
        size, part = 65 << 20, 13 << 20
        for offset in range(0, size, part):
            self.call("InitParam", message("InitParamRequest", name="w", element_type=4,
                                           content=bytes(part), offset=offset // 4, count=part // 4,
                                           total=size // 4, request=self.request_id(1)))
        self.call("InitParam", message("InitParamRequest", name="small", element_type=4,
                                       content=bytes(16)))
        self.call("FinishInitParams")
        channel = grpc.insecure_channel(f"127.0.0.1:{self.port}",
                                        [("grpc.max_receive_message_length", -1)])
        stub = TYPES.stub(channel, "/pserver.v1.ParameterServer/GetParams")
        reply = stub(message("GetParamsRequest", params=self.pulls(["w", "w", "small"])),
                     timeout=TIMEOUT)
        self.assertEqual([r.status.word for r in reply.params], ["", "busy", "busy"])
        self.assertEqual(len(reply.params[0].reply.content), size)
        channel.close()

    def test_a_long_batch_leaves_room_for_others(self):
        self.call("InitParam", message("InitParamRequest", name="w", element_type=4,
                                       content=bytes(1 << 18)))
        self.call("FinishInitParams")
        big = message("SendGradsRequest", grads=[self.push([1.0] * (1 << 16))] * 240)
        stop = threading.Event()
        done = []

        def flood():
            stub = TYPES.stub(self.channel, "/pserver.v1.ParameterServer/SendGrads")
            while not stop.is_set():
                done.append(stub(big, timeout=TIMEOUT))
        thread = threading.Thread(target=flood)
        thread.start()
        other = grpc.insecure_channel(f"127.0.0.1:{self.port}",
                                      [("grpc.use_local_subchannel_pool", 1)])
        stub = TYPES.stub(other, "/pserver.v1.ParameterServer/SendGrad")
        answered = 0
        for _ in range(50):
            with self.assertRaises(grpc.RpcError):
                stub(self.push([0.0]), timeout=TIMEOUT)
            answered += 1
        stop.set()
        thread.join()
        other.close()
        self.assertEqual(answered, 50)
        self.assertTrue(all(r.status.code == 0 for reply in done for r in reply.grads))

    def test_a_batch_that_is_cancelled_on_the_way_harms_nobody(self):
        self.init_many(1)
        stub = TYPES.stub(self.channel, "/pserver.v1.ParameterServer/GetParams")
        for _ in range(20):
            call = stub.future(message("GetParamsRequest", params=self.pulls(["p0"] * 4096)),
                               timeout=TIMEOUT)
            call.cancel()
        self.assertEqual(self.call("GetParam", self.pull("p0")).version, 0)


class Logged(BundleTest):
    """With a journal that is written only when this test says so: batches wait in between."""
    RIG_ARGUMENTS = ["journals"]

    def setUp(self):
        super().setUp()
        for name in ("a", "b"):
            self.call("InitParam", message("InitParamRequest", name=name, element_type=4,
                                           content=floats([0.0] * 4)))
        finish = self.begin("FinishInitParams", message("FinishInitParamsRequest"))
        while not finish.done():
            self.order("save")
            time.sleep(0.01)
        finish.result()

    def begin(self, name, request):
        stub = TYPES.stub(self.channel, f"/pserver.v1.ParameterServer/{name}")
        return stub.future(request, timeout=TIMEOUT)

    def begin_logged(self, pulls=()):
        gradient = self.push([-1.0] * 4, "a")
        gradient.ack = 2
        return self.begin("PushPull", message("PushPullRequest", grads=[gradient],
                                              params=self.pulls(pulls)))

    def await_pushes(self, count):
        deadline = time.monotonic() + TIMEOUT
        while self.order("prove") != count and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.order("prove"), count)

    def test_one_that_waits_for_the_disk_does_not_keep_others(self):
        waiting = self.begin_logged(["a", "b"])
        self.await_pushes(1)
        reply = self.call("PushPull", message("PushPullRequest",
                                              grads=[self.push([-1.0] * 4, "b")],
                                              params=self.pulls(["a"])))
        self.assertEqual(reply.grads[0].reply.version, 1)
        self.assertEqual(reply.params[0].reply.version, 1)  # it came after the gradient
        self.assertFalse(waiting.done())
        self.order("write")
        self.assertEqual([r.reply.version for r in waiting.result().params], [1, 1])

    def test_many_that_wait_are_all_answered(self):
        waiting = [self.begin_logged() for _ in range(100)]
        while not all(call.done() for call in waiting):
            self.order("write")
            time.sleep(0.002)
        versions = [call.result().grads[0].reply.version for call in waiting]
        self.assertEqual(sorted(versions), list(range(1, 101)))

    def test_clients_that_go_while_their_batch_waits_leave_its_slots(self):
        for turn in range(1, 9):  # together more than there are slots on both lanes
            waiting = [self.begin_logged(["b"]) for _ in range(50)]
            self.await_pushes(50 * turn)
            for call in waiting:
                call.cancel()
        self.order("write")
        last = self.call("PushPull", message("PushPullRequest", params=self.pulls(["b"])))
        self.assertEqual(last.params[0].reply.version, 0)

    def test_a_server_that_goes_ends_batches_that_wait(self):
        waiting = self.begin_logged()
        self.await_pushes(1)
        self.order("drain 300")
        self.assertEqual(waiting.exception(TIMEOUT).code(), grpc.StatusCode.UNAVAILABLE)


if __name__ == "__main__":
    unittest.main(argv=test_rpc.sys.argv[:1])
