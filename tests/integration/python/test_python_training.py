# SPDX-License-Identifier: Apache-2.0
"""The Python package: parameters in and out, as numpy arrays, of a real server."""

import gc
import threading
import unittest
import weakref

import numpy as np
import pserver
from pserver.testing import Server

F4 = np.float32


class Job(unittest.TestCase):
    """One server for all tests of a class, each with parameters of its own name."""

    VALUES = {"w": np.arange(6, dtype=F4).reshape(2, 3), "b": np.zeros(3, F4)}
    OPTIMIZER = pserver.SGD(lr=0.5)

    def setUp(self):
        server = Server("--ack=memory", data=False)
        self.enterContext(server)
        self.server = server
        self.ps = self.enterContext(pserver.connect(server.address))

    def begin(self, values=None, optimizer=None):
        self.assertTrue(self.ps.initialize(values or self.VALUES, optimizer or self.OPTIMIZER))


class Training(Job):
    def test_a_trainer_is_selected_and_the_next_one_finds_its_values(self):
        self.begin()
        with pserver.connect(self.server.address) as other:
            self.assertFalse(other.initialize({"w": np.ones((2, 3), F4), "b": np.ones(3, F4)}))
            pulled = other.pull()
        self.assertEqual(list(pulled), ["b", "w"])
        np.testing.assert_array_equal(pulled["w"], self.VALUES["w"])
        self.assertEqual(pulled["w"].dtype, F4)

    def test_a_client_that_gave_no_values_pulls_them_in_their_shapes(self):
        self.begin({"w": np.zeros((2, 3, 4), F4), "scalar": np.float32(5), "line": np.zeros(7, F4)})
        with pserver.connect(self.server.address) as other:
            pulled = other.pull()
        self.assertEqual({name: array.shape for name, array in pulled.items()},
                         {"w": (2, 3, 4), "scalar": (), "line": (7,)})

    def test_a_step_pushes_and_pulls_what_the_push_has_made(self):
        self.begin()
        gradient = np.ones((2, 3), F4)
        stepped = self.ps.push_pull({"w": gradient})
        np.testing.assert_array_equal(stepped["w"], self.VALUES["w"] - 0.5)
        self.assertEqual(self.ps.push({"w": gradient, "b": np.ones(3, F4)}), {"w": 2, "b": 1})
        self.assertEqual(dict(self.ps.versions), {"w": 2, "b": 1})
        pulled = self.ps.pull(["w"])
        np.testing.assert_array_equal(pulled["w"], self.VALUES["w"] - 1)

    def test_arrays_to_pull_into_are_filled_where_they_lie(self):
        self.begin()
        into = {"w": np.empty((2, 3), F4), "b": np.empty(3, F4)}
        before = into["w"].ctypes.data
        given = self.ps.pull(into=into)
        self.assertIs(given["w"], into["w"])
        self.assertEqual(into["w"].ctypes.data, before)
        self.ps.push_pull({"w": np.ones((2, 3), F4)}, into)
        np.testing.assert_array_equal(into["w"], self.VALUES["w"] - 0.5)

    def test_each_element_type_goes_there_and_back(self):
        kinds = ("i4", "u4", "i8", "u8", "f4", "f8")
        values = {kind: np.array([1, 2, 3], kind) for kind in kinds}
        self.begin(values, pserver.Add())
        stepped = self.ps.push_pull({kind: np.array([3, 2, 1], kind) for kind in kinds})
        for kind in kinds:
            np.testing.assert_array_equal(stepped[kind], np.array([4, 4, 4], kind))
            self.assertEqual(self.ps.pull([kind])[kind].dtype, np.dtype(kind))

    def test_half_precision_is_of_the_trainers_memory_only(self):
        self.begin({"w": np.arange(6, dtype=np.float16)}, pserver.SGD(1.0))
        stepped = self.ps.push_pull({"w": np.full(6, 0.5, np.float16)})
        self.assertEqual(stepped["w"].dtype, np.float16)
        np.testing.assert_array_equal(stepped["w"], np.arange(6) - 0.5)
        self.assertEqual(self.ps.pull()["w"].dtype, F4)

    def test_types_that_do_not_travel_are_refused_by_name(self):
        self.begin()
        for kind in ("?", "c8", ">f4", "i2"):
            with self.assertRaisesRegex(TypeError, "^w: .*do not travel"):
                self.ps.push({"w": np.ones((2, 3), kind)})
        self.assertEqual(self.ps.push({"w": np.ones((2, 3), F4)}), {"w": 1})

    def test_a_strided_gradient_is_copied_and_a_strided_target_refused(self):
        self.begin()
        wide = np.arange(12, dtype=F4).reshape(2, 6)
        with self.assertLogs("pserver", "DEBUG") as logs:
            stepped = self.ps.push_pull({"w": wide[:, ::2]})
        self.assertIn("w: 24 bytes copied", logs.output[0])
        np.testing.assert_array_equal(stepped["w"], self.VALUES["w"] - 0.5 * wide[:, ::2])
        with self.assertRaisesRegex(TypeError, "^w: .*C-contiguous"):
            self.ps.pull(into={"w": wide[:, ::2]})
        fixed = np.zeros((2, 3), F4)
        fixed.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "^w: .*read-only"):
            self.ps.pull(into={"w": fixed})
        self.assertEqual(self.ps.push({"w": fixed}), {"w": 2})

    def test_lists_and_scalars_are_arrays_too(self):
        self.begin({"x": [1.0, 2.0], "y": 3.0}, pserver.SGD(1.0))
        stepped = self.ps.push_pull({"x": [1, 1.0], "y": 1.0})
        np.testing.assert_array_equal(stepped["x"], [0.0, 1.0])
        self.assertEqual(float(stepped["y"]), 2.0)

    def test_a_gradient_and_its_target_may_not_share_memory(self):
        self.begin()
        both = np.ones((2, 3), F4)
        with self.assertRaisesRegex(ValueError, "^w: .*share memory"):
            self.ps.push_pull({"w": both}, {"w": both})
        with self.assertRaisesRegex(ValueError, "^w: .*must be alike"):
            self.ps.push_pull({"w": both}, {"w": np.empty(5, F4)})

    def test_failures_have_a_class_and_every_items_result(self):
        self.begin()
        with self.assertRaises(pserver.NotFoundError) as caught:
            self.ps.push({"w": np.ones((2, 3), F4), "nobody": np.ones(3, F4)})
        self.assertFalse(caught.exception.retryable)
        found, missing = caught.exception.results
        self.assertEqual((found.name, found.status, found.version), ("w", "ok", 1))
        self.assertEqual((missing.name, missing.status), ("nobody", "not_found"))
        with self.assertRaises(pserver.InvalidError):
            self.ps.push({"w": np.ones(2, F4)})
        with self.assertRaises(pserver.NotFoundError):
            self.ps.pull(["nobody"])
        self.assertTrue(issubclass(pserver.UnavailableError, ConnectionError))
        self.assertTrue(pserver.UnavailableError.retryable)

    def test_an_optimizer_may_be_chosen_for_each_name(self):
        self.begin(optimizer=lambda name: pserver.Assign() if name == "b" else pserver.SGD(1.0))
        stepped = self.ps.push_pull({"w": np.ones((2, 3), F4), "b": np.full(3, 7, F4)})
        np.testing.assert_array_equal(stepped["b"], [7, 7, 7])
        np.testing.assert_array_equal(stepped["w"], self.VALUES["w"] - 1)
        infos = self.ps.parameters()
        self.assertEqual([info.rule for info in infos.values()], ["assign", "sgd"])
        self.assertEqual(infos["w"].shape, (2, 3))

    def test_progress_is_told_of_every_portion(self):
        steps = []
        large = np.zeros(12 << 20, F4)
        self.ps.initialize({"a": large, "b": large[:1], "c": large},
                           progress=lambda done, whole: steps.append((done, whole)))
        whole = 2 * large.nbytes + 4
        self.assertEqual(steps, [(large.nbytes + 4, whole), (whole, whole)])

    def test_servers_say_what_they_are(self):
        self.begin()
        self.ps.push({"w": np.ones((2, 3), F4)})
        status, = self.ps.status()
        self.assertEqual((status.state, status.push_count), ("ready", 1))
        self.assertEqual(status.address, self.server.address)
        self.assertEqual(self.ps.counters.retries, 0)
        self.assertIn("1 shards", repr(self.ps))

    def test_trainers_meet_at_a_barrier(self):
        met = []
        with pserver.connect(self.server.address) as other:
            thread = threading.Thread(target=lambda: met.append(other.barrier("end", 1, 0, 2)))
            thread.start()
            self.ps.barrier("end", 1, 1, 2)
            thread.join()
        self.assertEqual(met, [None])


class Operations(Job):
    def test_an_operation_gives_later_what_the_call_would_have_given(self):
        self.begin()
        gradient = np.ones((2, 3), F4)
        pushed = self.ps.push_async({"w": gradient})
        self.assertEqual(pushed.wait(), {"w": 1})
        self.assertTrue(pushed.done())
        self.assertEqual(pushed.wait(), {"w": 1})
        both = self.ps.push_pull_async({"w": gradient})
        np.testing.assert_array_equal(both.wait()["w"], self.VALUES["w"] - 1)
        np.testing.assert_array_equal(self.ps.pull_async(["w"]).wait()["w"], self.VALUES["w"] - 1)

    def test_arrays_live_until_the_operation_is_over(self):
        self.begin()
        gradient = np.ones((2, 3), F4)
        alive = weakref.ref(gradient)
        pushed = self.ps.push_async({"w": gradient})
        del gradient
        gc.collect()
        self.assertIsNotNone(alive())
        pushed.wait()
        del pushed
        self.assertIsNone(alive())

    def test_one_that_nobody_waits_for_is_over_with_the_client(self):
        self.begin()
        with pserver.connect(self.server.address) as other:
            for _ in range(20):
                other.push_async({"w": np.ones((2, 3), F4)})
        self.assertEqual(self.ps.parameters()["w"].version, 20)

    def test_many_at_once_are_all_applied_once(self):
        self.begin()
        gradients = [np.ones((2, 3), F4) for _ in range(200)]
        pending = {self.ps.push_async({"w": gradient}) for gradient in gradients}
        while pending:
            over, pending = pserver.wait(pending)
            for operation in over:
                operation.wait()
        np.testing.assert_array_equal(self.ps.pull(["w"])["w"], self.VALUES["w"] - 100)

    def test_threads_share_a_client(self):
        self.begin()

        def work():
            for _ in range(50):
                self.ps.push_pull({"w": np.ones((2, 3), F4)})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.ps.parameters()["w"].version, 200)


class Replicas(Job):
    def test_a_replica_follows_the_pushes(self):
        self.begin()
        copy = {"w": np.zeros((2, 3), F4)}
        with self.ps.replica(copy) as replica:
            self.assertEqual(replica.update(), {"w": 0})
            np.testing.assert_array_equal(copy["w"], self.VALUES["w"])
            self.ps.push({"w": np.ones((2, 3), F4)})
            self.assertEqual(replica.update(), {"w": 1})
            np.testing.assert_array_equal(copy["w"], self.VALUES["w"] - 0.5)
            replica.verify()
            copy["w"][0, 0] = 99
            with self.assertRaises(pserver.DataLossError):
                replica.verify()
            replica.update()
            np.testing.assert_array_equal(copy["w"], self.VALUES["w"] - 0.5)
            self.assertEqual(replica.counters.received_bytes, 3 * copy["w"].nbytes)
            with self.assertRaises(RuntimeError):
                self.ps.close()


if __name__ == "__main__":
    unittest.main(verbosity=2)
