# SPDX-License-Identifier: Apache-2.0
"""Batched serving and customers from Python: the names of StepMesh and ps-lite, and the example."""

import os
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref

import numpy as np
import pserver
from pserver import serving as stepmesh
from pserver.customers import ALL, KEY_MAX, KVWorker, SimpleApp
from pserver.serving import SERVER, WORKER, Serving
from pserver.testing import Server

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
EXAMPLE = os.path.join(REPOSITORY, "client", "python", "examples", "attention.py")
STEPS = 10000
TYPES = ("float32", "float16", "float64", "int8", "uint8", "int16", "int64", "bool")


class Pair(unittest.TestCase):
    """A worker and a program of one server, in this process."""

    def setUp(self):
        self.server = self.enterContext(Server(data=False))
        self.client = self.enterContext(pserver.connect(self.server.address, timeout=60))
        self.worker = Serving(self.client, WORKER, rank=0, workers=1)
        self.program = Serving(self.client, SERVER, rank=0, workers=1, name="test")

    def tearDown(self):
        self.worker.stop(0)
        self.program.stop(0)

    def test_tensors_of_every_type_go_there_and_back(self):
        for name in TYPES:
            pushed = (np.arange(12).reshape(3, 4) % 2).astype(name)
            pulled = np.zeros((3, 4), name)
            handler = self.worker.push_pull([pushed], [7], [pulled], [8])
            request, = self.program.get_batch([0], timeout=60)
            self.assertEqual(request.tensor_keys, [7])
            self.assertEqual(request.wanted[0].shape, (3, 4))
            np.testing.assert_array_equal(np.asarray(request.tensors[0]), pushed)
            self.program.respond([np.array(request.tensors[0])], request.handler)
            del request
            self.worker.wait(handler)
            np.testing.assert_array_equal(pulled, pushed)

    def test_what_is_wrong_has_an_exception(self):
        pulled = np.zeros(4, np.float32)
        with self.assertRaises(TypeError):
            self.worker.push_pull([np.zeros((4, 4))[:, 1]], [0], [], [])
        with self.assertRaises(TypeError):
            self.worker.push_pull([[1, 2]], [0], [], [])
        with self.assertRaises(pserver.InvalidError):
            self.worker.push_pull([], [], [], [])
        with self.assertRaises(pserver.NotFoundError):
            self.worker.wait(99)
        handler = self.worker.push_pull([], [], [pulled], [0])
        with self.assertRaisesRegex(pserver.UnknownOutcomeError, "goes on"):
            self.worker.wait(handler, 0.05)
        with self.assertRaisesRegex(pserver.UnknownOutcomeError, "1 of 2 .*missing: 1$"):
            self.worker.barrier(timeout=0.05)
        request, = self.program.get_batch([0], timeout=60)
        with self.assertRaises(pserver.InvalidError):
            self.program.respond([np.zeros(3, np.float32)], request.handler)
        self.program.respond([np.ones(4, np.float32)], request.handler)
        with self.assertRaises(pserver.AlreadyInitializedError):
            self.program.respond([np.ones(4, np.float32)], request.handler)
        self.worker.wait(handler)
        self.assertEqual(pulled.tolist(), [1, 1, 1, 1])
        self.assertEqual(self.program.get_batch([0], timeout=0.05), [])

    def test_a_failure_of_the_program_is_the_workers(self):
        pulled = np.zeros(4, np.float32)
        handler = self.worker.push_pull([], [], [pulled], [0])
        request, = self.program.get_batch(timeout=60)
        self.program.reply(request.handler, status=3, text="no such layer")
        with self.assertRaisesRegex(pserver.InvalidError, "no such layer"):
            self.worker.wait(handler)

    def test_arrays_of_a_batch_keep_it(self):
        handler = self.worker.push_pull([np.arange(4.0)], [0], [], [])
        kept = self.program.get_batch(timeout=60)[0].tensors[0]
        with self.assertRaises(RuntimeError):
            self.program.stop(0)
        self.assertEqual(np.asarray(kept).tolist(), [0, 1, 2, 3])
        del kept
        self.worker.stop(0)
        self.worker = Serving(self.client, WORKER, rank=0, workers=1)
        del handler

    def test_traces_and_handlers(self):
        pulled = np.zeros(4, np.float32)
        handler = self.worker.push_pull([pulled], [0], [pulled], [1])
        request, = self.program.get_batch(timeout=60)
        self.program.respond([np.ones(4, np.float32)], request.handler)
        self.worker.wait(handler)
        self.assertEqual(self.worker.get_all_handlers(handler), [handler, handler + 1])
        row, = self.worker.fetch_trace(handler)
        times = [row.begun, row.sent, row.arrived, row.taken, row.answered, row.replied,
                 row.received, row.waited]
        self.assertEqual(times, sorted(times))
        self.assertGreater(times[0], 0)

    def test_a_registered_buffer_is_received_into(self):
        buffer = np.zeros((2, 4), np.float32)
        self.program.register_recv_buffer(buffer, [0, 0], [5, 6])
        handler = self.worker.push_pull([np.full(4, 9, np.float32)], [6], [], [])
        request, = self.program.get_batch(timeout=60)
        self.assertEqual(buffer.tolist(), [[0] * 4, [9] * 4])
        self.program.respond([], request.handler)
        del request
        self.worker.wait(handler)


class Keys(unittest.TestCase):
    """KVWorker and SimpleApp against a program in a thread."""

    def setUp(self):
        self.server = self.enterContext(Server(data=False))
        self.client = self.enterContext(pserver.connect(self.server.address, timeout=60))
        self.program = Serving(self.client, SERVER, rank=0, workers=1)
        self.store = {}
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def tearDown(self):
        with SimpleApp(self.client) as app:
            app.wait(app.request(99))
        self.thread.join()
        self.program.stop(0)

    def serve(self):
        goes_on = True
        while goes_on:
            for request in self.program.get_batch(max=16, timeout=1):
                goes_on = goes_on and not (request.kind == "simple" and request.command == 99)
                self.answer(request)
                del request

    def answer(self, request):
        if request.kind == "simple":
            self.program.reply(request.handler, body=request.body[::-1])
            return
        if "push" in request.kind:
            for key, value in zip(request.keys.tolist(), np.asarray(request.tensors[0])):
                self.store[key] = self.store.get(key, 0) + value
        values = [self.store.get(key, 0) for key in request.keys.tolist()]
        self.program.reply(request.handler, [np.array(values, np.float32)]
                           if "pull" in request.kind else [])

    def test_push_pull_and_wait(self):
        keys = np.array([1, 5, KEY_MAX], np.uint64)
        values, pulled = np.array([1, 2, 3], np.float32), np.zeros(3, np.float32)
        called = []
        with KVWorker(self.client) as worker:
            worker.wait(worker.push(keys, values, callback=lambda *word: called.append(word)))
            worker.wait(worker.pull(keys, pulled))
            self.assertEqual(pulled.tolist(), [1, 2, 3])
            worker.wait(worker.push_pull(keys, values, pulled))
            self.assertEqual(pulled.tolist(), [2, 4, 6])
            self.assertEqual(called, [(0, 0, "")])
            self.assertEqual(worker.open_count, 0)
            for wrong in ([5, 1, 7], [1, 1, 2]):
                with self.assertRaises(pserver.InvalidError):
                    worker.push(wrong, values)

    def test_a_wait_ends_with_its_request(self):
        with SimpleApp(self.client, app=1, timeout=0.1) as nobody:
            timestamp = nobody.request(1)
            for timeout in (3600, 3600):
                with self.assertRaisesRegex(pserver.UnknownOutcomeError, "carried it out is open"):
                    nobody.wait(timestamp, timeout)

    def test_a_callback_is_kept_until_it_was_called(self):
        keys, values = np.array([1], np.uint64), np.ones(1, np.float32)
        goes_on, called = threading.Event(), []

        class Second:
            def __call__(self, *word):
                called.append(word)

        with KVWorker(self.client) as worker:
            worker.push(keys, values, callback=lambda *word: goes_on.wait(120))
            second = Second()
            kept = weakref.ref(second)
            timestamp = worker.push(keys, values, callback=second)
            del second
            try:
                with self.assertRaisesRegex(pserver.UnknownOutcomeError, "goes on"):
                    worker.wait(timestamp, 1.5)
                self.assertIsNotNone(kept())
            finally:
                goes_on.set()
            worker.wait(timestamp)
            self.assertEqual(called, [(timestamp, 0, "")])

    def test_a_simple_request_has_answers(self):
        with SimpleApp(self.client) as app:
            self.assertEqual(app.wait(app.request(1, "abc")), [(8, b"cba")])
            with self.assertRaises(pserver.InvalidError):
                app.request(1, b"", 10)
        self.assertEqual(ALL, 7)


class StepMesh(unittest.TestCase):
    """The module's own names, as a port has them: worker and program are two processes."""

    PROGRAM = """
import numpy as np, pserver.serving as f
f.init()
for step in range(20):
    for handler, tensors, keys in f.get_batch():
        f.respond([np.asarray(tensors[0]) + np.float32(keys[0])], handler)
    tensors = None
f.barrier()
f.stop()
"""

    def test_a_program_and_a_worker_by_their_environment(self):
        server = self.enterContext(Server(data=False))
        environment = {**os.environ, "PSERVER_SERVERS": server.address, "DMLC_NUM_WORKER": "1"}
        program = subprocess.Popen([sys.executable, "-c", self.PROGRAM], env=environment)
        os.environ.update(DMLC_ROLE="worker", DMLC_NUM_WORKER="1", PSERVER_SERVERS=server.address)
        stepmesh.init()
        pulled = np.zeros(4, np.float32)
        for step in range(20):
            handler = stepmesh.push_pull([np.full(4, step, np.float32)], [3], [pulled], [4])
            stepmesh.wait(handler, 60000)
            self.assertEqual(pulled.tolist(), [step + 3.0] * 4)
        self.assertEqual(stepmesh.get_all_handlers(handler)[0], handler)
        self.assertEqual(len(stepmesh.fetch_trace(handler)), 8)
        stepmesh.barrier()
        stepmesh.stop()
        self.assertEqual(program.wait(60), 0)


class Example(unittest.TestCase):
    """Two workers and a program, 10,000 steps, every value checked by the workers."""

    def test_attention_and_feed_forward(self):
        server = self.enterContext(Server(data=False))
        folder = self.enterContext(tempfile.TemporaryDirectory())
        picture = os.path.join(folder, "trace.svg")

        def start(role, rank, *more):
            return subprocess.Popen(
                [sys.executable, EXAMPLE, role, server.address, str(rank), "2", str(STEPS), *more],
                stdout=subprocess.PIPE, text=True)

        processes = [start("server", 0), start("worker", 0, picture), start("worker", 1)]
        texts = [process.communicate(timeout=600)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0, 0])
        self.assertIn(f"worker 0: {STEPS} steps, every value checked", texts[1])
        self.assertIn("begun", texts[1])
        with open(picture, encoding="utf-8") as file:
            self.assertIn("<rect", file.read())


if __name__ == "__main__":
    unittest.main()
