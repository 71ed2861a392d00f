# SPDX-License-Identifier: Apache-2.0
"""Arrays in a device's memory, the emulator's: pushed and pulled without a copy on the host.

What stands for a tensor of PyTorch is an object with the same interface. Its memory cannot be read
by this process but through the device: a copy by numpy would end the test with a fault.
"""

import ctypes
import json
import os
import time
import unittest
import urllib.request

import numpy as np
import pserver
from pserver.testing import Server

BIN = os.environ["PS_BIN"]
PLUGIN = os.path.join(BIN, "libpserver_emu.so")
COUNT = 100_003


class Memory:
    """The device's allocator, by the C interface."""

    def __init__(self):
        self.library = ctypes.CDLL(os.environ["PS_CLIENT_LIBRARY"])
        self.device = ctypes.c_void_p()
        status = self.library.psclient_device_load(PLUGIN.encode(), ctypes.byref(self.device), None)
        assert status == 0, status
        self.library.psclient_device_release.restype = None

    def copy_in(self, address, array):
        status = self.library.psclient_device_copy_in(
            self.device, ctypes.c_void_p(address), array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_size_t(array.nbytes), None)
        assert status == 0, status

    def copy_out(self, address, array):
        status = self.library.psclient_device_copy_out(
            self.device, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_void_p(address),
            ctypes.c_size_t(array.nbytes), None)
        assert status == 0, status


class Tensor:
    """As much of a tensor as the package looks at."""

    def __init__(self, memory, array, strides=None):
        self.memory = memory
        self.array = np.ascontiguousarray(array)
        self.strides = strides
        address = ctypes.c_void_p()
        status = memory.library.psclient_device_acquire(
            memory.device, ctypes.c_size_t(self.array.nbytes), ctypes.byref(address), None)
        assert status == 0, status
        self.address = address.value
        memory.copy_in(self.address, self.array)

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.array.shape, "typestr": self.array.dtype.str,
                "data": (self.address, False), "strides": self.strides, "version": 2}

    def numpy(self):
        back = np.empty_like(self.array)
        self.memory.copy_out(self.address, back)
        return back


class OnDevice(unittest.TestCase):
    def begin(self, *flags):
        os.environ["PSERVER_DEVICE_MIN_BYTES"] = "0"
        server = self.enterContext(
            Server("--ack=memory", "--http", "127.0.0.1:0", *flags, data=False))
        self.server = server
        self.ps = self.enterContext(pserver.connect(server.address))
        self.ps.initialize({"w": np.zeros((COUNT,), np.float32), "b": np.zeros(3, np.float32)},
                           pserver.SGD(lr=1))
        self.ps.use_device(PLUGIN)
        self.memory = Memory()

    def metric(self, name):
        with open(self.server.log_path, encoding="utf-8") as log:
            lines = [json.loads(line) for line in log if line.endswith("}\n")]
        port = next(line["port"] for line in lines if line["msg"] == "http listening")
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60).read()
        for line in page.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(f"no metric {name}")

    def tensor(self, array):
        return Tensor(self.memory, array)

    def test_a_step_leaves_nothing_on_the_host(self):
        self.begin("--device", "emu")
        gradient = self.tensor(-np.arange(COUNT, dtype=np.float32))
        into = self.tensor(np.zeros(COUNT, np.float32))
        for turn in range(1, 4):
            self.assertEqual(self.ps.push({"w": gradient}), {"w": turn})
            self.assertIs(self.ps.pull(into={"w": into})["w"], into)
            np.testing.assert_array_equal(into.numpy(), turn * np.arange(COUNT, dtype=np.float32))
        self.assertEqual(self.ps.versions["w"], 3)
        self.assertGreaterEqual(self.ps.device_bytes, 4 * gradient.array.nbytes)
        # The first push may come before the server's socket is known.
        self.assertGreaterEqual(self.metric("ps_device_in_place_bytes_total"),
                                2 * gradient.array.nbytes)
        held = self.metric("ps_shared_memory_device_bytes")
        self.assertGreater(held, gradient.array.nbytes)
        self.ps.forget_device(gradient)
        self.assertLess(self.metric("ps_shared_memory_device_bytes"), held)
        self.ps.close()
        until = time.monotonic() + 60
        while self.metric("ps_shared_memory_device_bytes") > 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)

    def test_a_gradient_in_shared_memory_is_copied_by_the_device_from_where_it_lies(self):
        self.begin("--device", "emu")
        gradient = -np.ones(COUNT, np.float32)  # more than is worth to be registered, and one range
        for turn in range(1, 20):
            self.ps.push({"w": gradient})
        np.testing.assert_array_equal(self.ps.pull(["w"])["w"], np.full(COUNT, turn, np.float32))
        self.assertGreater(self.metric("ps_device_direct_bytes_total"), gradient.nbytes)
        self.assertEqual(self.metric("ps_device_in_place_bytes_total"), 0)

    def test_arrays_of_both_kinds_go_in_one_call(self):
        self.begin("--device", "emu")
        self.ps.pull(["b"])
        pushed = self.ps.push({"b": -np.ones(3, np.float32),
                               "w": self.tensor(-np.ones(COUNT, np.float32))})
        self.assertEqual(pushed, {"b": 1, "w": 1})
        into = {"w": self.tensor(np.zeros(COUNT, np.float32)), "b": np.zeros(3, np.float32)}
        pulled = self.ps.pull(into=into)
        np.testing.assert_array_equal(pulled["w"].numpy(), np.ones(COUNT, np.float32))
        np.testing.assert_array_equal(pulled["b"], np.ones(3, np.float32))

    def test_a_server_without_a_device_gets_it_by_the_host(self):
        self.begin("--device", "cpu")
        self.assertEqual(self.ps.push({"w": self.tensor(-np.ones(COUNT, np.float32))}), {"w": 1})
        into = self.tensor(np.zeros(COUNT, np.float32))
        self.ps.pull(into={"w": into})
        np.testing.assert_array_equal(into.numpy(), np.ones(COUNT, np.float32))
        self.assertEqual(self.ps.device_bytes, 0)

    def test_what_does_not_travel_as_it_lies_is_a_type_error(self):
        self.begin("--device", "emu")
        with self.assertRaisesRegex(TypeError, "w: elements of type float16 do not go"):
            self.ps.push({"w": self.tensor(np.zeros(COUNT, np.float16))})
        with self.assertRaisesRegex(TypeError, "w: the array is not C-contiguous"):
            self.ps.push({"w": Tensor(self.memory, np.zeros(COUNT, np.float32), strides=(8,))})
        with self.assertRaises(pserver.InvalidError):
            self.ps.push({"w": self.tensor(np.zeros(COUNT - 1, np.float32))})
        with self.assertRaises(pserver.NotFoundError):
            self.ps.push({"nothing": self.tensor(np.zeros(COUNT, np.float32))})
        self.assertEqual(self.ps.push({"w": self.tensor(np.zeros(COUNT, np.float32))}), {"w": 1})

    def test_a_plugin_that_is_not_there_is_said(self):
        self.begin("--device", "emu")
        with pserver.connect(self.server.address) as other:
            with self.assertRaisesRegex(pserver.InvalidError, "no plugin libpserver_nowhere"):
                other.use_device("nowhere")


if __name__ == "__main__":
    unittest.main()
