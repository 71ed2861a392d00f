#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""psbench with tiny sizes: it ends, checks its results, prints whole documents, leaves nothing."""

import csv
import io
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.realpath(__file__))
BIN = os.environ.get("PS_BIN", os.path.join(HERE, "../../../build/release/bin"))
PROGRAM = os.path.join(BIN, "psbench")
PATIENCE = 120  # seconds that a broken run may hang
TINY = ["--size", "4KiB", "--time", "30ms", "--repeat", "2"]
SMALL_SHARD = ["--shard-size", "64KiB", "--journal-size", "16KiB"]
FIELDS = {"name", "bytes", "outstanding", "supported", "per_second", "gigabytes_per_second",
          "p50_us", "p99_us", "spread", "lowest", "highest", "repeats", "ratios", "ratios_lowest",
          "ratios_highest", "details"}
REFERENCES = {"bare_grpc", "raw_tcp", "raw_unix", "raw_tcp_one_way", "memcpy", "update_loop"}
DISK = {"disk", "memory", "lower_of_both"}
DISK_SIZES = [4096, 64 << 10, 1 << 20, 4 << 20, 8 << 20]


class Folder:
    """A folder for a run's private folder, which must be empty afterwards."""

    def __enter__(self):
        self.holder = tempfile.TemporaryDirectory(prefix="test-psbench-")
        return self.holder.name

    def __exit__(self, *failure):
        self.holder.cleanup()


def clean_environment():
    return {key: value for key, value in os.environ.items()
            if not key.startswith(("PSERVER_", "PSBENCH_"))}


def run(*arguments, timeout=120, environment=None):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=timeout,
                          check=False, stdin=subprocess.DEVNULL,
                          env={**clean_environment(), **(environment or {})})


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def processes_with(word):
    """Process ids of everything that has `word` on its command line."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as file:
                if word in file.read() and int(pid) != os.getpid():
                    found.append(int(pid))
        except OSError:
            continue
    return found


def wait_for_server(folder):
    """Returns when a server of a run with that folder has said that it serves."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        logs = [os.path.join(top, name) for top, _, names in os.walk(folder) for name in names]
        if any("serving" in read(path) for path in logs if path.endswith(".log")):
            return
        time.sleep(0.02)
    raise AssertionError("no server was started")


class Measuring(unittest.TestCase):
    """One benchmark at a time, and what all documents have in common."""

    def measure(self, *arguments, timeout=120):
        """Runs one benchmark; returns its document after looking at what all have in common."""
        with Folder() as folder:
            done = run(*arguments, "--dir", folder, "--output", "json", timeout=timeout)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(done.stderr, "")
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual(processes_with(folder), [])
        document = json.loads(done.stdout)
        self.assertEqual(document["benchmark"], arguments[0])
        for key in ("version", "commit", "machine", "settings"):
            self.assertIn(key, document)
        self.assertTrue(document["rows"])
        for row in document["rows"]:
            self.assertLessEqual(FIELDS, set(row))
            self.look_at(row)
        return document

    def look_at(self, row):
        if not row["supported"]:
            self.assertTrue(row["reason"])
            self.assertIsNone(row["per_second"])
            return
        self.assertGreater(row["per_second"], 0)
        self.assertGreater(row["gigabytes_per_second"], 0)
        self.assertLessEqual(row["lowest"], row["per_second"])
        self.assertGreaterEqual(row["highest"], row["per_second"])
        for name, value in row["ratios"].items():
            self.assertLessEqual(row["ratios_lowest"][name], value)
            self.assertGreaterEqual(row["ratios_highest"][name], value)
            if not name.startswith("cost_to_"):
                self.assertGreater(value, 0, name)
        if "disk_gigabytes_per_second" in row["details"]:
            self.assertRegex(row["reference"], "^(direct|buffered) [148] MiB$")

    def row(self, document, name):
        rows = [row for row in document["rows"] if row["name"] == name]
        self.assertEqual(len(rows), 1, f"{name} in {document['rows']}")
        return rows[0]


class PsbenchTest(Measuring):
    def test_tls_stands_beside_bare_grpc_with_tls(self):
        for name in ("pushpull", "pull", "latency"):
            rows = {row["name"]: row for row in
                    self.measure(name, *TINY, "--tls", "--ack", "memory")["rows"]}
            secure = [name for name in rows if name.endswith("_tls") and "bare" not in name]
            self.assertEqual(len(secure), 2 if name == "latency" else 1)
            for row in secure:
                self.assertIn("bare_grpc", rows[row]["ratios"])
        for words in (("journal", "--tls"), ("push", "--tls", "--servers", "127.0.0.1:1"),
                      ("push", "--tls", "--via", "channel")):
            self.assertIn("--tls", run(*words).stderr)

    def test_push_stands_beside_sockets_memory_and_the_update(self):
        document = self.measure("push", *TINY)
        row = self.row(document, "push_memory")
        self.assertEqual((row["bytes"], row["outstanding"], row["repeats"]), (4096, 1, 2))
        self.assertEqual(set(row["ratios"]), REFERENCES)
        self.assertGreaterEqual(row["p99_us"], row["p50_us"])
        self.assertEqual(DISK, {name for name in self.row(document, "push_logged")["ratios"]
                                if not name.startswith("cost_to_")})

    def test_the_disk_is_measured_by_both_ways_and_several_sizes(self):
        document = self.measure("push", *TINY)
        for name in ("disk_append", "disk_direct"):
            sizes = [row["bytes"] for row in document["rows"] if row["name"] == name]
            self.assertEqual(sizes, DISK_SIZES)

    def test_memory_has_no_direct_writes(self):
        with tempfile.TemporaryDirectory(prefix="test-psbench-", dir="/dev/shm") as folder:
            done = run("push", *TINY, "--dir", folder, "--output", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(done.stdout)
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(document["settings"]["file_system"], "tmpfs")
        for row in document["rows"]:
            self.look_at(row)
            self.assertEqual(row["supported"], row["name"] != "disk_direct")
        self.assertRegex(self.row(document, "push_logged")["reference"], "^buffered [148] MiB$")

    def test_pull_stands_beside_sockets_and_memory(self):
        row = self.row(self.measure("pull", *TINY, "--outstanding", "4"), "pull")
        self.assertEqual(set(row["ratios"]), {"bare_grpc", "raw_tcp", "raw_unix",
                                              "raw_tcp_one_way", "memcpy"})

    def test_pushpull_keeps_several_in_flight(self):
        document = self.measure("pushpull", *TINY, "--outstanding", "4")
        self.assertEqual(self.row(document, "pushpull_memory")["outstanding"], 4)
        self.assertEqual(self.row(document, "pushpull_logged")["outstanding"], 4)
        self.assertEqual(self.row(document, "raw_tcp")["outstanding"], 4)

    def test_pushpull_over_the_bare_channel(self):
        document = self.measure("pushpull", *TINY, "--via", "channel", "--outstanding", "4")
        self.assertEqual(document["settings"]["via"], "channel")

    def test_content_goes_through_shared_memory_when_asked_to(self):
        arguments = ["--size", "256KiB", "--time", "300ms", "--repeat", "2", "--outstanding", "4"]
        for via in ("client", "channel"):
            for name, row in (("push", "push_memory"), ("pull", "pull")):
                document = self.measure(name, *arguments, "--transport", "shared", "--via", via)
                row = self.row(document, row)
                self.assertIn("shared_bytes", row["details"])
                self.assertGreater(row["ratios"]["memcpy_far"], 0)

    def test_content_too_small_for_shared_memory_is_said_to_be(self):
        done = run("push", *TINY, "--transport", "shared")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("nothing went through shared memory", done.stderr)

    def test_a_parameter_larger_than_a_default_message(self):
        self.measure("pushpull", "--size", "65MiB", "--time", "1ms", "--repeat", "1", "--ack",
                     "memory")

    def test_pushpull_from_a_thread_for_each_in_flight(self):
        document = self.measure("pushpull", *TINY, "--via", "threads", "--outstanding", "4")
        self.assertEqual(document["settings"]["via"], "threads")

    def test_busy_polling_on_both_sides(self):
        document = self.measure("pushpull", *TINY, "--busy-poll", "100us")
        self.assertEqual(document["settings"]["busy_poll"], "100us")

    def test_encodings_stand_beside_float32(self):
        document = self.measure("encoding", "--size", "64KiB", "--time", "30ms", "--repeat", "2")
        wire = {"float32": 65536, "float64": 131072, "bfloat16": 32768, "float16": 32768,
                "int8": 16640, "top_k": 1312}
        for name, size in wire.items():
            for promise in ("memory", "logged"):
                row = self.row(document, f"encoding_{name}_{promise}")
                self.assertEqual(row["details"]["wire_bytes"], size)
                self.assertGreater(row["per_second"], 0)
                self.assertEqual("float32" in row["ratios"], name != "float32")
                self.assertEqual("disk" in row["ratios"], promise == "logged")

    def test_batches_stand_beside_single_calls(self):
        document = self.measure("batch", "--size", "64", "--time", "10ms", "--repeat", "1")
        for promise in ("memory", "logged"):
            row = self.row(document, f"batch_{promise}")
            self.assertIn("single_calls", row["ratios"])
            self.assertEqual(row["details"]["parameters"], 1000)
        self.assertLessEqual(DISK, set(row["ratios"]))

    def test_delta_pulls_stand_beside_full_ones(self):
        document = self.measure("delta", "--size", "4KiB", "--time", "30ms", "--repeat", "1")
        for name, changed in (("0", 0), ("0.1_percent", 1), ("10_percent", 100),
                              ("100_percent", 1000)):
            row = self.row(document, f"delta_{name}")
            self.assertEqual(row["details"]["received_bytes"], changed * 4096)
            self.assertIn("full_pull", row["ratios"])

    def test_update_loops_stand_beside_memory(self):
        document = self.measure("update", "--size", "2MiB", "--time", "30ms", "--repeat", "2")
        for rule, traffic in (("sgd", 3), ("adam", 7)):
            row = self.row(document, f"update_{rule}")
            self.assertEqual(row["bytes"], traffic << 21)
            self.assertEqual(set(row["ratios"]), {"memory"})

    def test_latency_has_a_row_for_each_direction(self):
        document = self.measure("latency", "--time", "30ms", "--repeat", "1")
        for name in ("latency_push_memory", "latency_push_logged", "latency_pull"):
            self.assertEqual(self.row(document, name)["bytes"], 4096)
        self.assertIn("cost_to_fdatasync", self.row(document, "latency_push_logged")["ratios"])

    def test_scale_stands_beside_one_by_one(self):
        document = self.measure("scale", *TINY, "--workers", "2", "--num-pservers", "2")
        for name in ("scale_memory", "scale_logged"):
            self.assertIn("one_by_one", self.row(document, name)["ratios"])
        self.assertLessEqual(DISK, set(self.row(document, "scale_logged")["ratios"]))

    def test_rounds_stand_beside_the_same_bytes_through_sockets(self):
        document = self.measure("rounds", *TINY, "--workers", "3", "--num-pservers", "2")
        for name in ("rounds_memory", "rounds_logged"):
            row = self.row(document, name)
            self.assertIn("raw_tcp", row["ratios"])
            self.assertEqual(row["details"]["workers"], 3)
            self.assertGreater(row["p99_us"], 0)
        self.row(document, "raw_tcp_rounds")

    def test_values_of_the_rendezvous_stand_beside_raw_tcp(self):
        document = self.measure("rendezvous", *TINY)
        for name in ("rendezvous_tcp", "rendezvous_shared"):
            row = self.row(document, name)
            self.assertLessEqual({"raw_tcp_there_and_back", "raw_tcp_one_way"},
                                 set(row["ratios"]))
            self.assertGreater(row["per_second"], 0)
        self.row(document, "raw_tcp_there_and_back")

    def test_a_trainers_steps_stand_beside_those_that_wait_for_the_disk(self):
        document = self.measure("train", "--time", "20ms", "--repeat", "1")
        for name in ("train_memory", "train_logged", "train_pipeline_logged"):
            row = self.row(document, name)
            self.assertEqual((row["bytes"], row["outstanding"]), (496, 2))
        self.assertIn("memory", self.row(document, "train_logged")["ratios"])
        self.assertIn("without_pipeline", self.row(document, "train_pipeline_logged")["ratios"])

    def test_journal_stands_beside_memory_and_the_disk(self):
        document = self.measure("journal", "--size", "64KiB", "--time", "30ms", "--repeat", "1")
        shapes = {"": (64 << 10, 8), "medium_": (64 << 10, 16), "small_": (4096, 1)}
        for prefix, shape in shapes.items():
            for name in ("push_memory", "push_logged", "journal_alone"):
                row = self.row(document, prefix + name)
                self.assertEqual((row["bytes"], row["outstanding"]), shape)
            self.assertGreater(row["details"]["processor_seconds_per_gigabyte"], 0)
        for name in ("push_memory_journaled", "small_push_memory_64", "small_journal_alone_64"):
            self.assertTrue(self.row(document, name)["supported"])
        for name in ("push_logged", "medium_push_logged", "small_push_logged_64"):
            self.assertEqual(set(self.row(document, name)["ratios"]), DISK | {"journal_alone"})
        row = self.row(document, "small_push_logged")
        self.assertIn("p50_over_memory_us", row["details"])
        self.assertEqual("cost_to_direct" in row["ratios"], "direct_p50_us" in row["details"])

    def test_the_longest_push_stands_beside_the_disks_own_writes(self):
        document = self.measure("journal", "--pause", "--time", "300ms", "--size", "64KiB")
        row = self.row(document, "push_memory_journaled")
        self.assertLessEqual({"longest_us", "disk_p99_us", "disk_longest_us"},
                             set(row["details"]))
        self.assertGreaterEqual(row["details"]["longest_us"], row["p50_us"])
        self.assertGreater(row["ratios"]["p99_to_disk"], 0)

    def test_checkpoint_stands_beside_pushing_in_peace(self):
        row = self.row(self.measure("checkpoint", *TINY, "--shard-size", "1MiB"),
                       "push_during_checkpoint")
        self.assertIn("without_checkpoint", row["ratios"])
        self.assertGreater(row["details"]["checkpoint_to_disk"], 0)
        self.assertGreater(row["details"]["idle_checkpoint_to_disk"], 0)
        self.assertGreater(row["details"]["longest_us"], 0)

    def test_recover_stands_beside_reading_the_same_bytes(self):
        document = self.measure("recover", "--size", "4KiB", "--repeat", "1", "--cache", "cold",
                                *SMALL_SHARD)
        row = self.row(document, "recover")
        self.assertLessEqual({"read_and_checksum", "read_into_fresh_memory"}, set(row["ratios"]))
        details = row["details"]
        self.assertLessEqual({"detect_ms", "load_ms", "replay_ms", "total_ms", "first_touch_ms"},
                             set(details))
        self.assertEqual((details["cold_cache"], details["replayed_records"]), (1, 4))

    def test_one_promise_alone(self):
        for promise, other in (("logged", "memory"), ("memory", "logged")):
            document = self.measure("push", *TINY, "--ack", promise)
            self.assertEqual(document["settings"]["ack"], promise)
            self.assertLessEqual(REFERENCES, set(self.row(document, f"push_{promise}")["ratios"]))
            self.assertNotIn(f"push_{other}", [row["name"] for row in document["rows"]])

    def test_csv_has_a_line_for_each_row(self):
        done = run("latency", "--time", "10ms", "--repeat", "1", "--output", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertIn("latency_push_logged", [row["name"] for row in rows])
        self.assertTrue(all(float(row["per_second"]) > 0 for row in rows
                            if row["supported"] == "true"))

    def test_table_names_machine_and_settings(self):
        done = run("latency", "--time", "10ms", "--repeat", "1")
        for word in ("machine", "program", "settings", "latency_push_memory", "ratio to raw_tcp",
                     "ratio to disk", "disk is"):
            self.assertIn(word, done.stdout)

    def test_plot_is_a_picture(self):
        with Folder() as folder:
            path = os.path.join(folder, "a.svg")
            done = run("latency", "--time", "10ms", "--repeat", "1", "--plot", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            picture = xml.etree.ElementTree.parse(path)
            self.assertTrue(picture.getroot().tag.endswith("svg"))
            texts = [node.text for node in picture.iter() if node.tag.endswith("text")]
            self.assertEqual(texts[0], "psbench latency: microseconds of one operation (median)")
            pushes = texts[texts.index("latency_push_memory") + 1]
            self.assertRegex(pushes, r"^[0-9.e+]+ \(p99 [0-9.e+]+\)$")
            self.assertGreater(float(pushes.split()[0]), 1)  # no GB/s of 4 KiB are

    def test_plot_that_cannot_be_written_is_an_error(self):
        done = run("latency", "--time", "10ms", "--repeat", "1", "--plot", "/nowhere/a.svg")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/a.svg", done.stderr)

    def test_namespace_is_its_own(self):
        done = run("push", *TINY, "--namespace", "reno", "--output", "json")
        if os.geteuid() != 0 or "cannot be made" in done.stderr or "cannot choose" in done.stderr:
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--namespace", done.stderr)
            return
        self.assertEqual(done.returncode, 0, done.stderr)
        settings = json.loads(done.stdout)["settings"]
        self.assertEqual((settings["congestion_control"], settings["own_namespace"]),
                         ("reno", True))

    def test_namespace_with_an_unknown_algorithm_says_so(self):
        done = run("push", *TINY, "--namespace", "pigeon")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("--namespace", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_wrong_line_is_a_usage_error(self):
        for line in (["dance"], [], ["push", "--size", "3"], ["push", "--no-such"],
                     ["push", "--pause"], ["push", "--ack", "often"], ["push", "--quick"],
                     ["push", "--output", "docs"], ["report", "--size", "4KiB"]):
            done = run(*line)
            self.assertEqual(done.returncode, 64, line)
            self.assertIn("psbench:", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_settings_of_other_servers_do_not_reach_the_private_one(self):
        done = run("push", *TINY, environment={"PSERVER_ETCD": "http://127.0.0.1:1",
                                               "PSERVER_LANES": "many", "PSERVER_": "x"})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_server_that_is_not_there_is_named(self):
        done = run("push", *TINY, "--pserver", "/nowhere/pserver", "--output", "json")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere/pserver", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_a_server_that_ends_at_once_is_quoted(self):
        done = run("push", *TINY, "--pserver", "/bin/false")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the server ended", done.stderr)

    def test_a_folder_that_is_not_there_is_named(self):
        done = run("push", *TINY, "--dir", "/nowhere")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/nowhere", done.stderr)

    def test_interrupted_it_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Folder() as folder:
                child = subprocess.Popen([PROGRAM, "push", "--time", "30s", "--dir", folder],
                                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                         env=clean_environment())
                wait_for_server(folder)
                child.send_signal(number)
                self.assertEqual(child.wait(30), 128 + number)
                self.assertEqual(os.listdir(folder), [])
                self.assertEqual(processes_with(folder), [])

    def test_a_server_that_dies_ends_the_run_and_is_named(self):
        with Folder() as folder:
            child = subprocess.Popen([PROGRAM, "pushpull", "--time", "120s", "--dir", folder],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                     env=clean_environment())
            self.addCleanup(child.terminate)
            wait_for_server(folder)
            for pid in processes_with(os.path.realpath(os.path.join(BIN, "pserver"))):
                if self.is_child_of(pid, child.pid):
                    os.kill(pid, signal.SIGKILL)
            out, error = child.communicate(timeout=120)
            self.assertNotEqual(child.returncode, 0)
            self.assertIn("the server ended", error)
            self.assertEqual(out, "")
            self.assertEqual(os.listdir(folder), [])

    @staticmethod
    def is_child_of(pid, ancestor):
        """Is the ancestor among the parents of the process?"""
        while pid > 1:
            if pid == ancestor:
                return True
            pid = int(read(f"/proc/{pid}/stat").rsplit(")", 1)[1].split()[1])
        return False

    def test_servers_named_are_measured_and_left_running(self):
        with Folder() as folder:
            with open(os.path.join(folder, "log"), "wb") as log:
                server = subprocess.Popen(
                    [os.path.join(BIN, "pserver"), "--listen", "127.0.0.1:0"], stderr=log,
                    env=clean_environment())
            try:
                address = self.listening(os.path.join(folder, "log"))
                for _ in range(2):
                    done = run("push", *TINY, "--servers", address, "--output", "json")
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.row(json.loads(done.stdout), "push")
                other = run("push", *TINY, "--size", "8KiB", "--servers", address)
                self.assertNotEqual(other.returncode, 0)
                self.assertIn("psbench: push:", other.stderr)
                self.assertIsNone(server.poll())
            finally:
                server.kill()
                server.wait()

    def listening(self, path):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for line in read(path).splitlines(keepends=True):
                if "listening address=" in line and line.endswith("\n"):
                    return line.split("listening address=")[1].split()[0]
            time.sleep(0.02)
        return self.fail("the server does not listen")


if __name__ == "__main__":
    unittest.main(verbosity=2)
