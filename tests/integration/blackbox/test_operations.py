# SPDX-License-Identifier: Apache-2.0
"""What an operator meets: options and where they come from, pages of help, logs, refusals."""

import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from blackbox import Server, patiently, program, run
from calls import Calls
from cluster import PATIENCE, Cluster, wait_until

USAGE = 64
UNAVAILABLE = 69


def option_names():
    return re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)", run("pserver", "--help").stdout, re.M)


class Options(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="pserver-test-")
        self.addCleanup(self.folder.cleanup)

    def file(self, text, name="pserver.yaml"):
        path = os.path.join(self.folder.name, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def printed(self, *arguments, **options):
        done = run("pserver", *arguments, "--print-config", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_flag_wins_over_the_environment_over_the_file_over_the_default(self):
        path = self.file("drain: 30s\netcd-ttl: 31s\ncheckpoint-interval: 32s\n")
        environment = {"PSERVER_DRAIN": "20s", "PSERVER_ETCD_TTL": "21s", "PSERVER_CONFIG": path}
        lines = self.printed("--drain", "10s", environment=environment).splitlines()
        self.assertIn("drain: 10s", lines)
        self.assertIn("etcd-ttl: 21s", lines)
        self.assertIn("checkpoint-interval: 32s", lines)
        self.assertIn("drain-delay: 0ms", lines)

    def test_flags_may_be_taken_back(self):
        self.assertIn("reflection: false\n", self.printed("--no-reflection"))
        self.assertIn("reflection: true\n", self.printed(
            "--reflection", environment={"PSERVER_REFLECTION": "false"}))

    def test_what_print_config_prints_is_a_file_that_means_the_same(self):
        wishes = [[], ["--listen", "[::1]:0", "--advertise", "host:1", "--http", ":0",
                       "--num-pservers", "3", "--index", "2", "--job", "a.b-c_d", "--data-dir",
                       "/tmp/with \"quotes\" and \\ and: # ü", "--etcd",
                       "http://127.0.0.1:1,https://[::1]:2", "--etcd-user", "me: # \"",
                       "--message-bytes", "65537", "--memory-bytes", "1TiB", "--lanes", "64",
                       "--update-threads", "8",
                       "--drain", "1ms", "--no-tune-malloc", "--log-format", "json"]]
        for wish in wishes:
            first = self.printed(*wish)
            path = self.file(first)
            self.assertEqual(self.printed("--config", path), first)

    def test_a_password_is_never_printed(self):
        for name in ("--print-config", "--check-config"):
            done = run("pserver", name, environment={"PSERVER_ETCD_PASSWORD": "hunter2"})
            self.assertEqual(done.returncode, 0)
            self.assertNotIn("hunter2", done.stdout + done.stderr)

    def test_check_config_says_yes_or_no_and_starts_nothing(self):
        done = run("pserver", "--check-config", "--data-dir",
                   os.path.join(self.folder.name, "data"), "--listen", "127.0.0.1:0")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.listdir(self.folder.name), [])
        self.assertEqual(run("pserver", "--check-config", "--drain", "x").returncode, USAGE)

    def refuses(self, wanted, *arguments, **options):
        done = run("pserver", *arguments, "--check-config", **options)
        with self.subTest(arguments=arguments, **options):
            self.assertEqual(done.returncode, USAGE, done.stdout + done.stderr)
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            for text in wanted:
                self.assertIn(text, done.stderr)

    def test_nonsense_for_any_option_is_refused_by_its_name_wherever_it_stands(self):
        any_text = {"data-dir", "etcd-user", "etcd-password", "etcd-password-file", "etcd-ca",
                    "etcd-cert", "etcd-key", "tokens", "roles"}
        for name in option_names():
            if name in any_text:
                continue
            self.refuses([name if name != "config" else "?!"], f"--{name}=?!")
            if name == "config":
                continue
            variable = "PSERVER_" + name.upper().replace("-", "_")
            # What no type refuses is refused by a rule, which speaks of the flag.
            self.refuses([], environment={variable: "?!"})
            self.refuses([name], "--config", self.file(f"{name}: \"?!\"\n"))

    def test_values_out_of_range_are_refused_by_name(self):
        for option, value in [
                ("listen", "nonsense"), ("listen", "127.0.0.1"), ("listen", "127.0.0.1:65536"),
                ("listen", "127.0.0.1:99999"), ("listen", "127.0.0.1:"), ("listen", ":8000"),
                ("listen", "::1:8000"), ("listen", "127.0.0.1:-1"), ("listen", ""),
                ("advertise", "host"), ("advertise", "host:x"), ("http", "host"),
                ("http", "127.0.0.1:70000"), ("etcd", "ftp://host:1"), ("etcd", ""),
                ("etcd", "http://"), ("job", "a/b"), ("job", "ä"), ("job", "x" * 1000),
                ("data-dir", ""), ("num-pservers", "0"), ("num-pservers", "4097"),
                ("index", "1"), ("index", "-2"), ("index", " 0"), ("index", "+0"),
                ("index", "99999999999999999999"), ("etcd-ttl", "999ms"), ("etcd-ttl", "2h"),
                ("checkpoint-interval", "99ms"), ("checkpoint-interval", "0"),
                ("message-bytes", "1"), ("message-bytes", "4GiB"), ("lanes", "65"),
                ("update-threads", "0"), ("update-threads", "9"), ("update-threads", "many"),
                ("update-threads", "2x"), ("update-threads", ""),
                ("client-calls", "0"), ("busy-poll", "soon"), ("reply-timeout", "999ms"),
                ("ack", "logged"), ("ack", "replicated"), ("device", "cuda:"),
                ("device", "tpu"), ("drain", "10x"), ("drain", "-1s"), ("drain", "1d"),
                ("drain", "99999999999999999999s"), ("memory-bytes", "1.5GiB"),
                ("log-level", "loud"), ("log-format", "xml"), ("reflection", "maybe")]:
            self.refuses(["--" + option], f"--{option}={value}")

    def test_what_is_no_option_is_refused(self):
        self.refuses(["--lissten", "did you mean --listen?"], "--lissten", "x")
        self.refuses(["-l"], "-l")
        self.refuses(["unexpected word \"serve\""], "serve")
        self.refuses(["--drain needs a value"], "--drain")
        self.refuses(["--num-pservers 2 without --etcd needs --index"], "--num-pservers", "2")

    def test_a_bad_file_is_refused_with_its_line(self):
        for text, wanted in [("listen: a:1\nlissten: b:1\n", [":2: ", "listen"]),
                             ("drain: soon\n", [":1: ", "drain"]), ("- a\n", [":"]),
                             ("listen: [a\n", [":"]), ("a: b: c\n", [":1"]),
                             ("drain: 1s\ndrain: 2s\n", []), ("\x00\x01", [])]:
            path = self.file(text)
            self.refuses([path, *wanted], "--config", path)
        self.refuses(["/none/such.yaml"], "--config", "/none/such.yaml")
        self.refuses([self.folder.name], "--config", self.folder.name)


class Environment(unittest.TestCase):
    def test_a_misspelt_variable_is_named_and_others_are_left_alone(self):
        done = run("pserver", "--check-config",
                   environment={"PSERVER_ETCD_TLL": "5s", "PSERVER_SERVICE_HOST": "10.0.0.1",
                                "PSERVER_ACK": "memory"})
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr,
                         "pserver: PSERVER_ETCD_TLL is not an option; did you mean "
                         "PSERVER_ETCD_TTL?\n")


class Pages(unittest.TestCase):
    def test_help_names_every_option_and_fits_a_terminal(self):
        for name in ("pserver", "psctl", "pstrain"):
            done = run(name, "--help")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn("Usage:", done.stdout)
            self.assertIn("Print this and exit.", done.stdout)
            self.assertNotIn("Default: .", done.stdout)
            options = done.stdout[done.stdout.index("Options:"):done.stdout.index("\nAn option")]
            self.assertLessEqual(max(map(len, options.splitlines())), 80, name)

    def test_man_pages_render_without_a_warning(self):
        for name in ("pserver", "psctl", "pstrain"):
            page = run(name, "--man")
            self.assertEqual((page.returncode, page.stderr), (0, ""))
            shown = subprocess.run(["groff", "-man", "-Tutf8", "-wall", "-rHY=0", "-P-cbou"],
                                   input=page.stdout, capture_output=True, text=True, check=True,
                                   timeout=PATIENCE)
            self.assertEqual(shown.stderr, "")
            flat = re.sub(r"\s+", " ", shown.stdout.replace("‐", "-").replace("−", "-"))
            for option in re.findall(r"^  --(?:\[no-\])?([a-z0-9-]+)", run(name, "--help").stdout,
                                     re.M):
                self.assertIn(option, flat, name)

    def test_versions_are_told(self):
        for name in ("pserver", "psctl", "pstrain"):
            self.assertRegex(run(name, "--version").stdout, rf"^{name} \d+\.\d+\.\d+\n$")

    def test_a_full_disk_for_the_page_is_no_success(self):
        for name in ("pserver", "psctl", "pstrain"):
            with open("/dev/full", "w", encoding="ascii") as full:
                self.assertNotEqual(run(name, "--help", stdout=full).returncode, 0, name)


class Refusals(unittest.TestCase):
    """A start that cannot work ends at once, with one line that says why."""

    def refused(self, *arguments):
        done = run("pserver", *arguments, "--log-format", "json", "--log-level", "error")
        rows = [json.loads(line) for line in done.stderr.splitlines()]
        self.assertEqual(len(rows), 1, done.stderr)
        self.assertEqual(rows[0]["msg"], "start failed")
        return done.returncode, rows[0]["error"]

    def test_an_address_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            code, text = self.refused("--listen", address)
            self.assertEqual(code, UNAVAILABLE)
            self.assertEqual(text, f"cannot listen on {address}: Address already in use")
            code, text = self.refused("--listen", "127.0.0.1:0", "--http", address)
            self.assertEqual(code, UNAVAILABLE)
            self.assertIn(address, text)
            self.assertIn("Address already in use", text)

    def test_an_address_whose_owner_is_still_ending(self):
        """What kill -9 and a new start one after the other meet on a busy machine."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with subprocess.Popen([program("pserver"), "--listen", address],
                                  stderr=subprocess.PIPE, text=True) as server:
                seen = ""
                while "waiting for an address that is in use" not in seen:
                    seen = server.stderr.readline()
                    self.assertNotEqual(seen, "", "the server has ended")
                taken.close()
                while "listening address=" + address not in seen:
                    seen = server.stderr.readline()
                    self.assertNotEqual(seen, "", "the server has ended")
                server.terminate()
                server.stderr.read()
                self.assertEqual(server.wait(), 0)

    def test_asked_to_end_while_waiting_for_an_address(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            with subprocess.Popen([program("pserver"), "--listen", address],
                                  stderr=subprocess.PIPE, text=True) as server:
                while "waiting for an address" not in server.stderr.readline():
                    pass
                server.terminate()
                self.assertNotIn("listening", server.stderr.read())
                self.assertEqual(server.wait(), 0)

    def test_two_servers_do_not_share_an_address(self):
        with Server() as server:
            code, text = self.refused("--listen", server.address)
            self.assertEqual(code, UNAVAILABLE)
            self.assertIn("Address already in use", text)

    def test_a_host_that_is_not_ours_or_nobodys(self):
        code, text = self.refused("--listen", "192.0.2.1:0")
        self.assertEqual(code, UNAVAILABLE)
        self.assertIn("Cannot assign requested address", text)
        code, text = self.refused("--listen", "no-such-host.invalid:0")
        self.assertEqual(code, UNAVAILABLE)
        self.assertIn("cannot listen on no-such-host.invalid:0: ", text)

    def test_a_data_directory_that_cannot_be_written(self):
        with tempfile.NamedTemporaryFile() as file:
            for folder in (file.name, os.path.join(file.name, "below"), "/proc/none", "/sys/none"):
                for store in ([], ["--etcd", "http://127.0.0.1:1"]):
                    code, text = self.refused("--listen", "127.0.0.1:0", "--data-dir", folder,
                                              *store)
                    self.assertEqual(code, UNAVAILABLE)
                    self.assertIn(f"--data-dir {folder} cannot be written: ", text)


class Numbers(unittest.TestCase):
    """How many shards a job has, and which one a server is to have."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(shards=2, interval="1h")
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.first = cls.cluster.pserver("pserver-first", "--index", "0")
        cls.first.wait_event("listening")

    def test_a_message_below_what_clients_send_is_warned_of(self):
        for size, is_warned in ((str((3 << 20) - 1), True), ("3MiB", False)):
            with Server("--message-bytes", size) as server:
                self.assertEqual(server.process.event(
                    "--message-bytes is below what pserver's own clients send in one message: "
                    "larger content of theirs is refused") is not None, is_warned)

    def test_the_first_line_says_for_which_job_and_index(self):
        starting = self.first.event("starting")
        self.assertEqual((starting["job"], starting["index"]), ("", "0"))
        other = self.cluster.pserver("pserver-job", "--job", "blue")
        starting = other.wait_event("starting")
        self.assertEqual((starting["job"], starting["index"]), ("blue", "any"))
        other.kill()

    def test_another_number_of_shards_than_the_jobs_is_said_with_both(self):
        other = self.cluster.pserver("pserver-three", "--num-pservers", "3", "--index", "1")
        said = other.wait_event("--num-pservers is not the job's number of shards (/ps_desired), "
                                "which counts: psckpt reshard makes a job of another number")
        self.assertEqual((said["level"], said["num_pservers"], said["job_has"]), ("warn", 3, 2))
        other.kill()

    def test_an_index_that_the_job_does_not_have_is_a_wrong_option(self):
        other = self.cluster.pserver("pserver-beyond", "--num-pservers", "3", "--index", "2")
        self.assertEqual(other.wait_exit(), USAGE, other.log())
        self.assertIn("index 2 was asked for, but the job has 2 shards: 0 to 1", other.log())

    def test_an_index_that_is_taken_says_by_whom(self):
        other = self.cluster.pserver("pserver-second", "--index", "0")
        self.assertEqual(other.wait_event("waiting as a spare")["reason"],
                         "index 0 is taken by " + self.first.event("listening")["address"])
        other.kill()


class Logs(unittest.TestCase):
    def check_lines(self, text):
        rows = [json.loads(line) for line in text.splitlines()]
        for row in rows:
            self.assertTrue({"ts", "level", "component", "msg"} <= set(row), row)
            self.assertIn(row["level"], ("debug", "info", "warn", "error"))
        return rows

    def test_every_line_of_a_life_is_json(self):
        """Also with peers that make the libraries complain."""
        with Server("--log-level", "debug", http=True) as server:
            server.make_ready()
            for data in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100, b""):
                with socket.create_connection(("127.0.0.1", server.port)) as peer:
                    peer.sendall(data)
                    peer.shutdown(socket.SHUT_WR)
                    peer.settimeout(PATIENCE)
                    while peer.recv(4096):
                        pass
            server.get("/metrics")
            server.psctl("checkpoint")
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0)
            rows = self.check_lines(server.process.log())
            self.assertEqual(rows[-1]["msg"], "ended")
            messages = [row["msg"] for row in rows]
            for wanted in ("listening", "http listening", "serving", "checkpoint saved",
                           "stopping"):
                self.assertIn(wanted, messages)

    def test_odd_texts_in_fields_stay_json(self):
        with tempfile.TemporaryDirectory() as folder:
            odd = os.path.join(folder, "\"quote\\ \n ü \x01 \udcff")
            os.mkdir(odd)
            with Cluster(etcd=False) as cluster:
                cluster.data = odd
                server = cluster.pserver("pserver")
                server.wait_event("listening")
                server.signal(signal.SIGTERM)
                self.assertEqual(server.wait_exit(), 0)
                self.check_lines(server.log())

    def test_the_level_is_kept(self):
        with Server("--log-level", "warn", wait=False) as server:
            store = os.path.join(server.data, "store", "store")
            wait_until(lambda: os.path.exists(store), "the server has claimed its index")
            server.process.signal(signal.SIGTERM)
            self.assertEqual(server.process.wait_exit(), 0)
            self.assertEqual(server.process.log(), "")


class Alone(unittest.TestCase):
    def test_a12_a_server_in_memory_that_was_stopped_beyond_its_lease_goes_on(self):
        """A laptop that slept: nobody else could have had the lease, so nothing is forgotten."""
        with Cluster(etcd=False) as cluster:
            process = cluster.run("pserver", [
                program("pserver"), "--listen", "127.0.0.1:0", "--etcd-ttl", "1s",
                "--log-format", "json"])
            calls = Calls(process.wait_event("listening")["address"])
            patiently(lambda: calls.init("w", [1.0, 2.0]))
            patiently(calls.finish)
            patiently(lambda: calls.push("w", [-1.0, -1.0]))
            values, version = patiently(lambda: calls.pull("w"))
            process.signal(signal.SIGSTOP)
            time.sleep(4)  # the lease and all margins
            process.signal(signal.SIGCONT)
            self.assertEqual(patiently(lambda: calls.pull("w")), (values, version))
            self.assertGreater(patiently(lambda: calls.push("w", [-1.0, -1.0])), version)
            self.assertIsNone(process.event("ownership is lost: starting over"), process.log())


if __name__ == "__main__":
    unittest.main(verbosity=2)
