#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Workers, by hand, of a server program over libpserver: its handlers have what is asked without
any call of a taker, and answer at once or later, each request once.

usage: test_program_library.py PROGRAM_SERVER DESCRIPTOR_SET
"""
import array
import os
import subprocess
import sys
import threading
import unittest

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "rpc"))
import test_rpc  # noqa: E402
from test_rpc import TIMEOUT, TYPES  # noqa: E402

PUSH, PULL, PUSH_PULL, SIMPLE, BATCH = range(5)
ADD, ASSIGN, LATER, REFUSES, SILENT, ROOM = range(6)


def message(kind, /, **fields):
    return TYPES(f"pserver.v1.{kind}")(**fields)


def tensor(content, size=4, key=0):
    return message("ProgramTensor", key=key, size=len(content), element_size=size,
                   shape=[len(content) // size])


class LibraryTest(unittest.TestCase):
    def setUp(self):
        self.server = subprocess.Popen(
            [test_rpc.RIG_SERVER, "--listen", "127.0.0.1:0", "--log-level", "error"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.server.stdout.readline().split()[1])
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.await_serving()

    def tearDown(self):
        self.channel.close()
        self.server.stdin.close()
        self.assertEqual(self.server.wait(TIMEOUT), 0)
        self.server.stdout.close()

    def stub(self, method):
        return TYPES.stub(self.channel, f"/pserver.v1.Programs/{method}")

    def await_serving(self):
        """Its lease may take a moment."""
        while True:
            try:
                self.ask(ADD, kind=PULL, keys=[1], lens=[1])
                return
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNAVAILABLE:
                    raise

    def ask(self, app, **fields):
        return self.stub("Ask")(message("AskRequest", app=app, **fields), timeout=TIMEOUT)

    def fails(self, app, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.ask(app, **fields)
        return caught.exception

    def push_pull(self, kind, keys, values, lens=(), app=ADD, code="f"):
        numbers = array.array(code, values)
        content = numbers.tobytes()
        reply = self.ask(app, kind=kind, keys=keys, lens=lens, content=content,
                         tensors=[tensor(content, numbers.itemsize)] if content else [])
        out = array.array(code)
        out.frombytes(reply.content)
        return list(out), list(reply.lens)


class ReadyMade(LibraryTest):
    def test_add_is_ps_lites_default(self):
        self.push_pull(PUSH, [3, 8], [1.0, 2.0])
        self.push_pull(PUSH, [3, 8], [0.5, 0.5])
        self.assertEqual(self.push_pull(PULL, [3, 8], [], [1, 1])[0], [1.5, 2.5])
        self.assertEqual(self.push_pull(PUSH_PULL, [8], [1.0])[0], [3.5])

    def test_keys_have_lengths_of_their_own(self):
        keys, lens = [1, 2, 2**64 - 1], [1, 3, 2]
        values = [float(i) for i in range(6)]
        self.push_pull(PUSH, keys, values, lens)
        self.assertEqual(self.push_pull(PUSH_PULL, keys, values, lens),
                         ([2 * value for value in values], lens))
        error = self.fails(ADD, kind=PUSH, keys=[2], content=bytes(8), tensors=[tensor(bytes(8))])
        self.assertIn("a value has the length of its first push", error.details())
        error = self.fails(ADD, kind=PUSH, keys=[2, 1], lens=[3, 2], content=bytes(16),
                           tensors=[tensor(bytes(16))])
        self.assertIn("lengths are of more", error.details())

    def test_many_keys(self):
        keys = [i * 0x9e3779b97f4a7c15 % 2**64 for i in range(20000)]
        for turn in range(1, 3):
            values, _ = self.push_pull(PUSH_PULL, keys, [float(i) for i in range(20000)])
            self.assertEqual(values, [float(turn * i) for i in range(20000)])

    def test_large_values(self):
        for size in [1000, 100000, 1000000]:
            values = [float(i % 1000) for i in range(size)]
            for turn in range(1, 3):
                got, _ = self.push_pull(PUSH_PULL, [size], values)
                self.assertEqual(got, [turn * value for value in values])

    def test_assign_and_tensors_by_key(self):
        content = array.array("q", range(5)).tobytes()
        tensors = [tensor(content[:16], 8, key=5), tensor(content[16:], 8, key=6)]
        reply = self.ask(ASSIGN, kind=BATCH, tensors=tensors, outputs=tensors, content=content)
        self.assertEqual(reply.content, content)
        self.assertEqual([(one.key, list(one.shape)) for one in reply.tensors],
                         [(5, [2]), (6, [3])])
        reply = self.ask(ASSIGN, kind=PULL, outputs=[message("ProgramTensor", key=6)])
        self.assertEqual(reply.content, content[16:])

    def test_workers_at_once_lose_no_addition(self):
        def work():
            for _ in range(100):
                self.push_pull(PUSH, [7], [1.0] * 64)
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
        self.assertEqual(self.push_pull(PULL, [7], [], [64])[0], [800.0] * 64)


class Handlers(LibraryTest):
    def test_an_answer_from_another_thread(self):
        for size in [0, 10, 5000, 500000]:
            content = bytes(i % 253 for i in range(size))
            reply = self.ask(LATER, kind=SIMPLE, command=-3, body=b"hello", content=content,
                             tensors=[tensor(content, 1)] if content else [])
            self.assertEqual((reply.content, reply.body), (content, b"-3:hello"))

    def test_room_for_the_answer(self):
        for size in [4, 4096, 700000]:
            content = bytes(i % 253 for i in range(size))
            reply = self.ask(ROOM, kind=BATCH, content=content, tensors=[tensor(content, 1)])
            self.assertEqual(reply.content, content)

    def test_a_refusal_and_silence(self):
        error = self.fails(REFUSES, kind=PULL)
        self.assertEqual(error.code(), grpc.StatusCode.NOT_FOUND)
        self.assertIn("there is nothing here", error.details())
        error = self.fails(SILENT, kind=PULL, wait_ms=30)
        self.assertEqual(error.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.assertIn("the program has the request", error.details())

    def test_a_repeat_gets_the_answer_that_is_kept(self):
        content = array.array("f", [1.0]).tobytes()
        replies = [self.ask(ADD, kind=PUSH_PULL, keys=[9], token=5, content=content,
                            tensors=[tensor(content)]) for _ in range(3)]
        self.assertEqual([reply.content for reply in replies], [content] * 3)

    def test_nobody_else_takes_what_has_a_handler(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub("Take")(message("TakeRequest", app=ADD, taker=1, turn=1), timeout=TIMEOUT)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.ALREADY_EXISTS)
        apps = self.stub("ListApps")(message("ListAppsRequest"), timeout=TIMEOUT).apps
        self.assertEqual(sorted(app.app for app in apps), list(range(6)))


if __name__ == "__main__":
    unittest.main(argv=[__file__])
