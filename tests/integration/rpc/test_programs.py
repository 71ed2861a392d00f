#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Server programs by hand, as docs/programs.md tells clients in any language: workers ask, a taker
takes and answers, each request once.

usage: test_programs.py RIG_SERVER DESCRIPTOR_SET
"""
import threading
import time
import unittest

import grpc

import test_rpc
from test_rpc import TIMEOUT, TYPES, word_of

APP = 7


def message(kind, /, **fields):
    return TYPES(f"pserver.v1.{kind}")(**fields)


def path(method):
    return f"/pserver.v1.Programs/{method}"


class ProgramTest(test_rpc.RpcTest):
    def setUp(self):
        super().setUp()
        self.turn = 0
        self.waiting = []

    def tearDown(self):
        for call in self.waiting:
            call.cancel()
        super().tearDown()

    def stub(self, method):
        return TYPES.stub(self.channel, path(method))

    def ask(self, worker=0, content=b"", **fields):
        """A call that waits."""
        tensors = [message("ProgramTensor", key=1, size=len(content))] if content else []
        request = message("AskRequest", app=APP, worker=worker, tensors=tensors, content=content,
                          **fields)
        call = self.stub("Ask").future(request, timeout=TIMEOUT)
        self.waiting.append(call)
        return call

    def await_waiting(self, count):
        """Until so many requests are in the mailbox."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if self.app().waiting == count:
                return
            time.sleep(0.002)
        self.fail(f"not {count} requests: {self.app()}")

    def asks(self, *arguments, **fields):
        """A call that waits, once its request is there."""
        before = self.app().waiting
        call = self.ask(*arguments, **fields)
        self.await_waiting(before + 1)
        return call

    @staticmethod
    def life_of(error):
        """What a refusal tells beside its status."""
        return int(dict(error.trailing_metadata())["ps-session"])

    def app(self):
        apps = self.call(path("ListApps"), message("ListAppsRequest")).apps
        return next((app for app in apps if app.app == APP), message("AppState"))

    def take_request(self, taker=1, **fields):
        self.turn += 1
        return message("TakeRequest", **{"app": APP, "taker": taker, "turn": self.turn, **fields})

    def take(self, **fields):
        return self.call(path("Take"), self.take_request(**fields))

    def answer(self, handles, content=b"", taker=1, token=1, parts=None, **fields):
        size = len(content)
        tensors = [message("ProgramTensor", key=1, size=size, element_size=1, dtype=3,
                           shape=[size])] if content else []
        answers = []
        for i, handle in enumerate(handles):
            own = [message("AnswerPart")] if content and parts is None else []
            if parts is not None:
                own = [message("AnswerPart", row_begin=parts[i][0], rows=parts[i][1])]
            answers.append(message("Answered", handle=handle, parts=own, **fields))
        return list(self.call(path("Answer"), message(
            "AnswerRequest", app=APP, taker=taker, token=token, tensors=tensors, answers=answers,
            content=content)).status)

    def fails_with(self, call, code):
        with self.assertRaises(grpc.RpcError) as caught:
            call.result()
        self.assertEqual(caught.exception.code(), code, caught.exception)
        return caught.exception


class Asking(ProgramTest):
    def test_there_and_back(self):
        for size in [0, 5, 5000, 300000]:
            content = bytes(i % 251 for i in range(size))
            call = self.asks(3, content, command=-9, priority=-2, timestamp=77, kind=2,
                             body=b"what", customer=4, keys=[1, 2**64 - 1], lens=[5],
                             stamps=[11, 12], host=13,
                             outputs=[message("ProgramTensor", key=6, size=9)])
            taken = self.take(wait_ms=1000)
            self.assertEqual(taken.content, content)
            one = taken.taken[0]
            self.assertEqual((one.worker, one.customer, one.kind, one.command, one.priority),
                             (3, 4, 2, -9, -2))
            self.assertEqual((one.timestamp, one.body, list(one.keys), list(one.lens)),
                             (77, b"what", [1, 2**64 - 1], [5]))
            self.assertEqual((one.outputs[0].key, one.outputs[0].size), (6, 9))
            self.assertEqual((one.host, list(one.stamps[:2])), (13, [11, 12]))
            self.assertEqual(self.answer([one.handle], content[::-1], body=b"that"), [""])
            reply = call.result()
            self.assertEqual((reply.content, reply.body), (content[::-1], b"that"))
            self.assertEqual(reply.handle, one.handle)
            stamps = list(reply.stamps)
            self.assertEqual(len(stamps), 4)
            self.assertEqual(stamps, sorted(stamps))
        self.assertEqual(self.app().answered, 4)
        self.assertEqual(self.app().bytes, 0)

    def test_an_app_without_a_program_says_so(self):
        error = self.fails_with(self.ask(wait_ms=50), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertIn(f"app {APP}: no program takes its requests", error.details())
        self.assertEqual(self.app().waiting, 0)

    def test_one_that_nobody_took_is_not_carried_out_later(self):
        self.take(wait_ms=1)
        error = self.fails_with(self.ask(wait_ms=50, token=5), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertIn("nobody has taken the request", error.details())
        self.assertEqual(len(self.take(wait_ms=50).taken), 0)

    def test_the_program_may_refuse(self):
        call = self.asks()
        one = self.take().taken[0]
        self.answer([one.handle], status="bad_input", text="no such thing")
        error = self.fails_with(call, grpc.StatusCode.INVALID_ARGUMENT)
        self.assertIn("no such thing", error.details())
        self.assertEqual(self.app().failed, 1)

    def test_a_busy_of_the_program_has_the_servers_life_beside_it(self):
        life = self.call(path("ListApps"), message("ListAppsRequest")).epoch
        call = self.asks(token=4)
        self.answer([self.take().taken[0].handle], status="busy", text="not today")
        error = self.fails_with(call, grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.assertIn("not today", error.details())
        self.assertEqual(self.life_of(error), life)

    def test_a_call_that_is_cancelled_leaves_nothing(self):
        self.asks(content=b"x" * 10000).cancel()
        self.await_waiting(0)
        self.assertEqual(self.app().bytes, 0)


class Order(ProgramTest):
    def test_equal_priorities_keep_their_order(self):
        for i in range(12):
            self.asks(0, command=i)
        taken = self.take(max=100).taken
        self.assertEqual([one.command for one in taken], list(range(12)))

    def test_the_senders_order_is_that_of_its_numbers(self):
        self.asks(0, command=1, sender=9, order=1, order_from=1)
        for i in [4, 3, 5]:
            self.ask(0, command=i, sender=9, order=i, order_from=1)
        time.sleep(0.05)
        self.assertEqual([one.command for one in self.take(max=9).taken], [1])
        self.ask(0, command=2, sender=9, order=2, order_from=1)
        commands = []
        while len(commands) < 4:
            commands += [one.command for one in self.take(max=9).taken]
        self.assertEqual(commands, [2, 3, 4, 5])

    def test_larger_priorities_go_first(self):
        for i, priority in enumerate([0, 5, -5, 5, 0]):
            self.asks(0, command=i, priority=priority)
        taken = self.take(max=100).taken
        self.assertEqual([one.command for one in taken], [1, 3, 0, 4, 2])


class Taking(ProgramTest):
    def test_a_gang_is_one_of_each_in_the_order_of_the_mask(self):
        for worker in [2, 0, 2]:
            self.asks(worker, command=worker)
        late = self.stub("Take").future(self.take_request(workers=[0, 1, 2]), timeout=TIMEOUT)
        time.sleep(0.02)
        self.assertFalse(late.done())
        self.ask(1, command=1)
        self.assertEqual([one.worker for one in late.result().taken], [0, 1, 2])
        self.assertEqual(self.app().waiting, 1)

    def test_a_partial_gang_when_the_time_is_over(self):
        self.asks(1)
        self.assertEqual(len(self.take(workers=[0, 1], wait_ms=30).taken), 0)
        taken = self.take(workers=[0, 1], wait_ms=30, partial=True).taken
        self.assertEqual([one.worker for one in taken], [1])

    def test_respond_vec_cuts_one_buffer_by_true_offsets(self):
        calls = [self.asks(worker) for worker in range(3)]
        taken = self.take(workers=[0, 1, 2]).taken
        content = bytes(range(60))
        self.assertEqual(self.answer([one.handle for one in taken], content,
                                     parts=[(0, 10), (10, 20), (30, 30)]), ["", "", ""])
        self.assertEqual([call.result().content for call in calls],
                         [content[:10], content[10:30], content[30:]])
        self.assertEqual(list(calls[1].result().tensors[0].shape), [20])

    def test_the_same_turn_gets_the_same_requests(self):
        self.asks(0, b"abc")
        self.asks(0, b"def")
        request = self.take_request()
        first, again = (self.call(path("Take"), request) for _ in range(2))
        self.assertEqual(first.taken[0].handle, again.taken[0].handle)
        self.assertEqual(again.content, b"abc")
        self.assertEqual(self.take().content, b"def")
        self.assertEqual(self.fails(path("Take"), request).code(), grpc.StatusCode.ABORTED)


class Once(ProgramTest):
    def test_a_second_answer_is_refused_and_a_repeat_is_not(self):
        call = self.asks(token=3)
        handle = self.take().taken[0].handle
        self.assertEqual(self.answer([handle, handle + 99], b"one", token=8), ["", "not_found"])
        self.assertEqual(self.answer([handle], b"one", token=8), [""])
        self.assertEqual(self.answer([handle], b"two", token=9), ["exists"])
        self.assertEqual(self.answer([handle], b"two", token=8, taker=2), ["exists"])
        self.assertEqual(call.result().content, b"one")

    def test_a_repeat_gets_the_answer_that_is_kept(self):
        first = self.asks(content=b"x", token=3)
        again = self.ask(content=b"x", token=3)
        taken = self.take(max=9).taken
        self.assertEqual(len(taken), 1)
        self.answer([taken[0].handle], b"once")
        self.assertEqual([call.result().content for call in (first, again)], [b"once", b"once"])
        self.assertEqual(self.ask(content=b"x", token=3).result().content, b"once")
        self.assertEqual(self.app().answered, 1)

    def test_what_its_sender_is_done_with_is_not_kept(self):
        for order in [1, 2]:
            call = self.asks(token=order, sender=9, order=order, order_from=order)
            self.answer([self.take().taken[0].handle], b"x" * 100)
            call.result()
        self.assertLess(self.app().bytes, 1000)
        error = self.fails_with(self.ask(token=1, sender=9, order=1, order_from=1),
                                grpc.StatusCode.ABORTED)
        self.assertIn("nobody can say", error.details())

    def test_another_life_carries_nothing_out_again(self):
        reply = self.call(path("ListApps"), message("ListAppsRequest"))
        error = self.fails_with(self.ask(epoch=reply.epoch + 1, token=4), grpc.StatusCode.ABORTED)
        self.assertIn("nobody can say", error.details())
        self.assertEqual(self.life_of(error), reply.epoch)
        # One that names no life, and may have run: only where its token is known.
        error = self.fails_with(self.ask(epoch=2**64 - 1, token=4), grpc.StatusCode.ABORTED)
        self.assertEqual(self.life_of(error), reply.epoch)
        self.assertEqual(self.app().waiting, 0)
        call = self.asks(epoch=reply.epoch, token=4)
        self.ask(epoch=2**64 - 1, token=4)
        self.assertEqual(self.app().waiting, 1)
        self.answer([self.take().taken[0].handle])
        self.assertEqual(call.result().epoch, reply.epoch)


class Leases(ProgramTest):
    def test_a_taker_that_dies_fails_what_it_had_by_its_name(self):
        call = self.asks()
        self.take(name="the program", lease_ms=1)
        time.sleep(0.02)
        self.order("sweep")
        error = self.fails_with(call, grpc.StatusCode.ABORTED)
        self.assertIn('the taker "the program"', error.details())
        self.assertEqual(len(self.app().takers), 0)

    def test_or_it_is_given_to_the_next(self):
        calls = [self.asks(command=i) for i in range(3)]
        old = self.take(lease_ms=1, again=True).taken[0]
        time.sleep(0.02)
        self.order("sweep")
        taken = self.take(taker=2, max=9).taken
        self.assertEqual([one.command for one in taken], [0, 1, 2])
        self.assertEqual([one.again for one in taken], [True, False, False])
        self.assertEqual(self.answer([old.handle], b"late", token=5), ["not_found"])
        self.answer([one.handle for one in taken], b"good", taker=2)
        self.assertEqual([call.result().content for call in calls], [b"good"] * 3)

    def test_a_taker_that_touches_lives(self):
        call = self.asks()
        handle = self.take(lease_ms=3600000).taken[0].handle
        self.call(path("Take"), message("TakeRequest", app=APP, taker=1, touch=True,
                                        lease_ms=3600000))
        self.order("sweep")
        self.answer([handle], b"in time")
        self.assertEqual(call.result().content, b"in time")

    def test_a_taker_that_leaves(self):
        call = self.asks()
        self.take(name="leaver")
        self.call(path("Take"), message("TakeRequest", app=APP, taker=1, leave=True,
                                        name="leaver"))
        self.assertIn('"leaver"', self.fails_with(call, grpc.StatusCode.ABORTED).details())

    def test_a_server_that_lost_its_shard_takes_nothing(self):
        self.order("fence")
        self.assertEqual(self.fails_with(self.ask(), grpc.StatusCode.UNAVAILABLE).code(),
                         grpc.StatusCode.UNAVAILABLE)
        self.order("prove")


class Bounds(ProgramTest):
    def test_a_flood_is_refused_by_the_apps_name(self):
        threads = []
        request = message("AskRequest", app=APP, wait_ms=60000,
                          tensors=[message("ProgramTensor", size=1 << 20)],
                          content=bytes(1 << 20))
        refused = []

        def flood():
            try:
                self.stub("Ask")(request, timeout=TIMEOUT)
            except grpc.RpcError as error:
                refused.append(error)

        for _ in range(1 << 10):
            if refused:
                break
            threads.append(threading.Thread(target=flood))
            threads[-1].start()
            time.sleep(0.001)
        self.assertTrue(refused)
        self.assertEqual(refused[0].code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
        self.channel.close()
        for thread in threads:
            thread.join(TIMEOUT)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.await_waiting(0)
        self.assertEqual(word_of(refused[0]), "busy")


if __name__ == "__main__":
    unittest.main(argv=[__file__])
