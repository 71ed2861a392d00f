#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The CUDA plugin where there is no GPU: it loads, and says what is missing.

usage: test_device_plugin.py PLUGIN DEVICE_COUNT STUB_FOLDER
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest

PLUGIN, DEVICE_COUNT, STUBS = sys.argv[1:4]


def lines(**environment):
    done = subprocess.run([DEVICE_COUNT, PLUGIN], capture_output=True, text=True, timeout=60,
                          env={**os.environ, **environment}, check=True)
    return done.stdout.splitlines()


def ask(**environment):
    return lines(**environment)[0]


def listing(*command):
    return subprocess.run([*command, PLUGIN], capture_output=True, text=True, check=True).stdout


class Plugin(unittest.TestCase):
    def test_needs_neither_the_driver_nor_the_runtime_library(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", listing("readelf", "-d"))
        self.assertTrue(needed)
        self.assertFalse([name for name in needed if "cuda" in name], needed)

    def test_kernels_are_loaded_before_memory_is_counted_unless_told_otherwise(self):
        self.assertEqual(lines()[1], "kernels: EAGER")
        self.assertEqual(lines(CUDA_MODULE_LOADING="LAZY")[1], "kernels: LAZY")

    def test_shows_one_symbol(self):
        lines = listing("nm", "-D", "--defined-only").split("\n")
        self.assertEqual([line.split()[-1] for line in lines if line], ["ps_device_entry"])

    def test_without_a_driver_it_says_so(self):
        answer = ask()
        if re.fullmatch(r"cuda: \d+", answer):
            self.skipTest("this machine has a GPU")
        self.assertRegex(answer, r"cuda: driver missing or too old "
                                 r"\(35 cudaErrorInsufficientDriver\)")

    def test_a_stub_of_the_driver_is_told_from_a_driver(self):
        stub = os.path.join(STUBS, "libcuda.so")
        if not os.path.exists(stub):
            self.skipTest("the toolkit has no stub of libcuda")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(stub, os.path.join(folder, "libcuda.so.1"))
            answer = ask(LD_LIBRARY_PATH=folder)
        self.assertRegex(answer, r"cuda: driver is a stub \(34 cudaErrorStubLibrary\)")


unittest.main(argv=sys.argv[:1], verbosity=2)
