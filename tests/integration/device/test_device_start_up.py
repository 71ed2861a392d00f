# SPDX-License-Identifier: Apache-2.0
"""The start-up matrix: what a server does for each --device, with every kind of plugin and driver
that it may find. Each row runs the real program and looks at its exit code and its log.
"""

import os
import shutil
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "blackbox"))

from blackbox import BIN, run  # noqa: E402
from cluster import Process, wait_until  # noqa: E402

CUDA = os.path.join(BIN, "libpserver_cuda.so")
EMULATOR = os.path.join(BIN, "libpserver_emu.so")
STUBS = os.environ.get("PS_CUDA_STUBS", "")
EX_USAGE, EX_UNAVAILABLE = 64, 69
NO_DRIVER = "driver missing or too old (35 cudaErrorInsufficientDriver)"
STUB_DRIVER = "driver is a stub (34 cudaErrorStubLibrary)"


class Installation:
    """The program in a folder of its own, with the plugins that the test wants beside it."""

    def __init__(self, **plugins):
        self.folder = tempfile.mkdtemp(prefix="pserver-test-")
        self.program = os.path.join(self.folder, "bin", "pserver")
        os.mkdir(os.path.join(self.folder, "bin"))
        shutil.copy(os.path.join(BIN, "pserver"), self.program)
        for name, source in plugins.items():
            path = os.path.join(self.folder, "bin", f"libpserver_{name}.so")
            if isinstance(source, bytes):
                with open(path, "wb") as file:
                    file.write(source)
            else:
                shutil.copy(source, path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, device, *flags, **environment):
        """Starts a server; gives its exit code (None: it serves) and its log's rows."""
        process = Process("pserver", [self.program, "--listen", "127.0.0.1:0", "--log-format",
                                      "json", "--device", device, *flags],
                          self.folder, environment)
        try:
            wait_until(lambda: not process.alive() or process.event("listening"),
                       "the server listens or ends")
            return process.child.poll(), process
        finally:
            process.kill()
            process.log_file.close()


class StartUp(unittest.TestCase):
    def expect_cpu(self, installation, reason, device="auto", **environment):
        code, process = installation.start(device, **environment)
        self.assertIsNone(code, process.log())
        chosen = process.event("device chosen")
        self.assertEqual((chosen["device"], chosen["reason"]), ("cpu", reason))

    def expect_exit(self, installation, device, reason, **environment):
        code, process = installation.start(device, **environment)
        self.assertEqual(code, EX_UNAVAILABLE, process.log())
        self.assertIsNone(process.event("device chosen"))
        self.assertEqual(process.event("start failed")["error"], f"--device {device}: {reason}")

    def expect_device(self, installation, device, reason, **environment):
        code, process = installation.start(device, **environment)
        self.assertIsNone(code, process.log())
        chosen = process.event("device chosen")
        self.assertEqual((chosen["name"], chosen["uuid"], chosen["reason"]),
                         ("emulator", "EMU-0", reason))
        self.assertGreater(chosen["memory_bytes"], chosen["budget_bytes"])
        self.assertGreater(chosen["budget_bytes"], 0)
        return chosen

    def both(self, installation, reason, **environment):
        self.expect_cpu(installation, reason, **environment)
        self.expect_exit(installation, "cuda:0", reason, **environment)
        self.expect_cpu(installation, "asked for", device="cpu", **environment)

    def test_no_plugin(self):
        with Installation() as installation:
            self.both(installation, "there is no plugin libpserver_cuda.so beside the program")
            self.expect_exit(installation, "emu",
                             "there is no plugin libpserver_emu.so beside the program")

    @unittest.skipUnless(os.path.exists(CUDA), "this build has no CUDA plugin")
    def test_plugin_without_a_driver(self):
        if os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has a driver")
        with Installation(cuda=CUDA) as installation:
            self.both(installation, NO_DRIVER)

    @unittest.skipUnless(STUBS and os.path.exists(os.path.join(STUBS, "libcuda.so")),
                         "there is no stub of the driver")
    def test_stub_of_a_driver(self):
        with Installation(cuda=CUDA) as installation:
            os.symlink(os.path.join(STUBS, "libcuda.so"),
                       os.path.join(installation.folder, "libcuda.so.1"))
            self.both(installation, STUB_DRIVER, LD_LIBRARY_PATH=installation.folder)

    @unittest.skipUnless(os.path.exists(CUDA), "this build has no CUDA plugin")
    def test_no_visible_device_of_a_real_driver(self):
        if not os.path.exists("/dev/nvidiactl"):
            self.skipTest("this machine has no driver")
        with Installation(cuda=CUDA) as installation:
            self.both(installation, "no visible device (100 cudaErrorNoDevice)",
                      CUDA_VISIBLE_DEVICES="")

    # The emulator in the place of CUDA's plugin: a driver that works.

    def test_no_visible_device(self):
        with Installation(cuda=EMULATOR) as installation:
            self.both(installation, "no visible device (100 emulated error)",
                      PS_EMULATOR_DEVICES="0")

    def test_a_device(self):
        with Installation(cuda=EMULATOR) as installation:
            self.expect_device(installation, "auto", "it computes as the cpu")
            self.expect_device(installation, "cuda:0", "asked for")
            self.expect_device(installation, "cuda:GPU-1", "asked for")
            self.expect_exit(installation, "cuda:1", "there is no such device, 1 are visible")
            self.expect_device(installation, "cuda:1", "asked for", PS_EMULATOR_DEVICES="2")

    def test_a_device_that_fails_when_it_is_tried(self):
        broken = {"PS_EMULATOR_FAIL": "launch:1:719"}
        with Installation(cuda=EMULATOR) as installation:
            _, process = installation.start("auto", **broken)
            self.assertIn("(719)", process.event("device chosen")["reason"])
            code, process = installation.start("cuda:0", **broken)
            self.assertEqual(code, EX_UNAVAILABLE)
            self.assertIn("(719)", process.event("start failed")["error"])

    def test_a_device_without_the_memory_that_is_asked_for(self):
        with Installation(cuda=EMULATOR) as installation:
            code, process = installation.start("cuda:0", "--device-memory", "4GiB")
            self.assertEqual(code, EX_UNAVAILABLE)
            self.assertRegex(process.event("start failed")["error"],
                             "--device cuda:0: device memory: a budget of 4294967296 bytes was "
                             r"asked for, \d+ are free")
            chosen = installation.start("cuda:0", "--device-memory", "64MiB")[1]
            self.assertEqual(chosen.event("device chosen")["budget_bytes"], 64 << 20)

    def test_a_device_that_failed_three_times(self):
        with Installation(cuda=EMULATOR) as installation:
            data = os.path.join(installation.folder, "data")
            record = os.path.join(data, "device-EMU-0.failures")
            os.mkdir(data)
            with open(record, "w", encoding="ascii") as file:
                file.writelines(f"{number} illegal address\n" for number in (100, 300, 700))
            reason = (f"EMU-0 failed 3 times within 600 s: to use it again remove {record} "
                      "(illegal address)")
            code, process = installation.start("auto", "--data-dir", data)
            self.assertIsNone(code)
            self.assertEqual(process.event("device chosen")["device"], "cpu")
            self.assertEqual(process.event("device chosen")["reason"], reason)
            code, process = installation.start("cuda:0", "--data-dir", data)
            self.assertEqual(code, EX_UNAVAILABLE)
            self.assertEqual(process.event("start failed")["error"], f"--device cuda:0: {reason}")
            os.remove(record)
            _, process = installation.start("auto", "--data-dir", data)
            self.assertEqual(process.event("device chosen")["name"], "emulator")

    def test_a_plugin_that_is_none(self):
        with Installation(cuda=b"not a library") as installation:
            _, process = installation.start("auto")
            self.assertIn("the plugin cannot be loaded",
                          process.event("device chosen")["reason"])
            self.assertEqual(installation.start("cuda:0")[0], EX_UNAVAILABLE)

    def test_the_emulator_is_used_when_it_is_asked_for_and_only_then(self):
        with Installation(emu=EMULATOR) as installation:
            self.expect_device(installation, "emu", "asked for")
            self.expect_cpu(installation,
                            "there is no plugin libpserver_cuda.so beside the program")

    def test_words_that_are_no_device(self):
        for word in ("gpu", "cuda", "cuda:", "cuda:-1", "cuda:1x", "cuda:12345", "cuda:gpu-1", ""):
            done = run("pserver", "--device", word, "--check-config")
            self.assertEqual(done.returncode, EX_USAGE, word)
            self.assertIn("expected auto, cpu, cuda:N or cuda:UUID", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
