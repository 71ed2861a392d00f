# SPDX-License-Identifier: Apache-2.0
"""psctl and pstrain against real servers: tables, documents, exit codes, files that are none."""

import json
import os
import resource
import signal
import struct
import subprocess
import tempfile
import unittest

import grpc

from blackbox import Server, program, run, run_until
from calls import MESSAGES, Calls
from cluster import PATIENCE, Cluster, wait_until

USAGE, DATA_ERROR, NO_INPUT, UNAVAILABLE, CANNOT_CREATE, IO_ERROR = 64, 65, 66, 69, 73, 74


def rows_of(table):
    """A table as dictionaries; a cell holds no blank."""
    lines = [line.split() for line in table.splitlines()]
    return [dict(zip(lines[0], line)) for line in lines[1:]]


class Job(unittest.TestCase):
    """Two servers, found through etcd, with a trained model whose weights are cut over both."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(shards=2, interval="1h")
        cls.addClassCleanup(cls.cluster.__exit__)
        cls.servers = cls.cluster.start_servers()
        cls.data = os.path.join(cls.cluster.folder, "train.svm")
        cls.where = ["--etcd", cls.cluster.etcd_url, "--timeout", f"{PATIENCE // 2}s"]
        run("pstrain", "generate", "--out", cls.data, "--rows", "500")
        cls.training = run("pstrain", "--data", cls.data, "--test", cls.data, *cls.where,
                           "--split-bytes", "64", "--epochs", "2", "--workers", "2",
                           "--output", "json")

    def psctl(self, *words, code=0):
        """The table and the document of one command."""
        table = run("psctl", *self.where, *words)
        document = run("psctl", *self.where, *words, "--output", "json")
        self.assertEqual((table.returncode, document.returncode), (code, code),
                         table.stderr + document.stderr)
        return table.stdout, json.loads(document.stdout) if document.stdout else None

    def test_training_prints_one_document_and_nothing_else_there(self):
        self.assertEqual(self.training.returncode, 0, self.training.stderr)
        document = json.loads(self.training.stdout)
        for name in ("train_loss", "train_accuracy", "test_loss", "test_accuracy", "seconds",
                     "retries", "steps_per_second", "computing_seconds", "waiting_seconds"):
            self.assertIsInstance(document[name], (int, float), name)
            self.assertGreaterEqual(document[name], 0, name)
        self.assertEqual((document["steps"], document["pipeline"]), (8, 0))
        self.assertEqual(document["examples"], 1000)
        self.assertEqual(document["lost_pushes"], 0)
        self.assertIs(document["interrupted"], False)
        self.assertIn("training 100 %", self.training.stderr)

    def test_training_prints_words_without_output_json(self):
        done = run("pstrain", "--data", self.data, *self.where, "--split-bytes", "64", "--epochs",
                   "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("train accuracy", done.stdout)
        self.assertRegex(done.stdout, r"steps           4 \([\d.]+/s; each [\d.]+ ms of computing, "
                                      r"[\d.]+ ms of waiting\)\n")

    def test_training_takes_both_settings_of_the_pipeline(self):
        for pipeline in ("0", "1"):
            done = run("pstrain", "--data", self.data, *self.where, "--split-bytes", "64",
                       "--epochs", "3", "--pipeline", pipeline, "--output", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            document = json.loads(done.stdout)
            self.assertEqual((document["pipeline"], document["steps"]), (int(pipeline), 12))
            self.assertEqual((document["pushes"], document["lost_pushes"]), (24, 0))

    def test_status_shows_every_server(self):
        table, document = self.psctl("status")
        rows = rows_of(table)
        self.assertEqual([row["INDEX"] for row in rows], ["0", "1"])
        self.assertEqual([row["index"] for row in document], [0, 1])
        for row, entry in zip(rows, document):
            self.assertEqual((row["STATE"], entry["state"]), ("ready", "ready"))
            self.assertEqual(row["ADDRESS"], entry["address"])
            self.assertEqual(int(row["POSITION"]), entry["position"])
            self.assertGreater(entry["position"], 0)
        self.assertEqual(sum(entry["parameter_bytes"] for entry in document), 404)

    def test_members_are_those_in_etcd(self):
        table, document = self.psctl("members")
        for row, entry in zip(rows_of(table), document):
            address = self.cluster.etcdctl("get", f"/ps/{entry['index']}", "--print-value-only")
            self.assertEqual(entry["address"], address.strip())
            self.assertEqual(row["ADDRESS"], entry["address"])
            self.assertEqual(int(row["EPOCH"]), entry["epoch"])

    def test_params_are_listed_server_by_server(self):
        table, document = self.psctl("params")
        self.assertEqual(len(rows_of(table)), len(document))
        pieces = [entry for entry in document if entry["name"].startswith("linear/weight#")]
        self.assertEqual([entry["index"] for entry in pieces], [0, 1])
        self.assertEqual(sum(entry["element_count"] for entry in pieces), 100)
        self.assertEqual([entry["type"] for entry in document], ["f32"] * 3)

    def test_get_joins_a_parameter_that_was_cut(self):
        table, document = self.psctl("get", "linear/weight")
        pieces = [entry for entry in self.psctl("params")[1]
                  if entry["name"].startswith("linear/weight#")]
        addresses = [entry["address"] for entry in self.psctl("members")[1]]
        expected = []
        for piece in pieces:
            expected += Calls(addresses[piece["index"]]).pull(piece["name"])[0]
        shown = [struct.unpack("f", struct.pack("f", value))[0] for value in document["values"]]
        self.assertEqual(shown, expected)
        self.assertEqual([struct.unpack("f", struct.pack("f", float(line)))[0]
                          for line in table.splitlines()], expected)

    def test_get_of_a_whole_parameter(self):
        _, document = self.psctl("get", "linear/bias")
        self.assertEqual((document["name"], document["type"], len(document["values"])),
                         ("linear/bias", "f32", 1))

    def test_get_of_what_is_not_there(self):
        for name in ("nope", "linear/weigh", "linear/weight#0", ""):
            done = run("psctl", "get", name, *self.where)
            self.assertEqual((done.returncode, done.stdout), (DATA_ERROR, ""), name)
            self.assertIn(f"parameter: {name} does not exist", done.stderr)

    def test_client_shows_what_of_its_pushes_was_applied(self):
        entry = next(entry for entry in self.psctl("params")[1] if entry["index"] == 0)
        request = MESSAGES["pserver.v1.SendGradRequest"](
            name=entry["name"], element_type=4, content=bytes(4 * entry["element_count"]))
        request.request.client_id = b"@seven#0"
        request.request.session = 1
        request.request.sequence = 5
        Calls(self.psctl("members")[1][0]["address"]).call("SendGrad", request)
        table, document = self.psctl("client", "seven")
        self.assertEqual([(row["known"], row["whole"], row["session"], row["sequence"])
                          for row in document], [(True, True, 1, 5), (False, True, 0, 0)])
        self.assertEqual([[(push["name"], push["pushes"]) for push in row["pushes"]]
                          for row in document], [[(entry["name"], 1)], []])
        self.assertIn(entry["name"], table)
        self.assertIn("1      never seen, or forgotten", table)
        self.assertEqual(run("psctl", *self.where, "client", "a b").returncode, USAGE)

    def test_checkpoint_writes_files_and_says_which(self):
        table, document = self.psctl("checkpoint")
        self.assertEqual(len(rows_of(table)), 2)
        for entry in document:
            self.assertEqual(os.path.getsize(entry["path"]), entry["bytes"])
            pointer = json.loads(self.cluster.etcdctl("get", f"/checkpoints/{entry['index']}",
                                                      "--print-value-only"))
            self.assertEqual(pointer["uuid"], entry["uuid"])

    def test_standard_output_that_is_full_is_no_success(self):
        for command in (["psctl", "status"], ["psctl", "get", "linear/bias"],
                        ["psctl", "params", "--output", "json"]):
            with open("/dev/full", "w", encoding="ascii") as full:
                self.assertEqual(run(*command, *self.where, stdout=full).returncode, IO_ERROR)

    def test_zz_a_server_that_is_missing_is_shown_and_no_success(self):
        """The last one: it ends a server."""
        self.cluster.kill_server(self.servers[1])
        where = ["--etcd", self.cluster.etcd_url]
        gone = self.servers[1].event("serving")["index"]
        for command in ("status", "members"):
            table = run_until(lambda done: "ready" in done.stdout, "psctl", *where, command)
            document = run_until(lambda done: "ready" in done.stdout, "psctl", *where, command,
                                 "--output", "json")
            self.assertEqual((table.returncode, document.returncode), (UNAVAILABLE, UNAVAILABLE))
            self.assertEqual(
                rows_of(table.stdout)[gone]["STATE" if command == "members" else "ADDRESS"],
                "missing" if command == "members" else "-")
            document = json.loads(document.stdout)
            self.assertEqual(document[gone]["state"], "missing")
            self.assertEqual(document[1 - gone]["state"], "ready")
        for command in (["params"], ["checkpoint"], ["get", "linear/weight"]):
            done = run_until(lambda done: f"server {gone}" in done.stderr, "psctl", *where,
                             *command)
            self.assertEqual(done.returncode, UNAVAILABLE, command)
            self.assertIn(f"server {gone}", done.stderr)


class Reasons(unittest.TestCase):
    """What people read where something is missing."""

    def test_a_checkpoint_that_cannot_be_written_says_why_at_once(self):
        with Server() as server:
            server.make_ready()
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
            done = server.psctl("checkpoint", timeout="1h")
            self.assertEqual(done.returncode, UNAVAILABLE)
            self.assertRegex(done.stderr, "server 0 saved nothing: .*File too large")
            resource.prlimit(server.pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            done = server.psctl("checkpoint")
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_health_says_by_its_exit_status_whether_all_serve(self):
        with Cluster(shards=2, interval="1h") as cluster:
            servers = cluster.start_servers()
            code, rows, _ = cluster.psctl("health")
            self.assertEqual(code, 0)
            self.assertEqual([(row["index"], row["state"], row["serving"])
                              for row in json.loads(rows)],
                             [(0, "uninitialized", True), (1, "uninitialized", True)])
            gone = servers[0].event("serving")["index"]
            cluster.kill_server(servers[0])
            done = run_until(lambda done: "true" in done.stdout, "psctl", "health", "--etcd",
                             cluster.etcd_url, "--output", "json")
            self.assertEqual(done.returncode, UNAVAILABLE)
            self.assertEqual([row["serving"] for row in json.loads(done.stdout)],
                             [i != gone for i in range(2)])
            self.assertIn(f"server {gone}", done.stderr)

    def test_a_server_that_is_told_to_drain_saves_and_ends_and_a_spare_goes_on(self):
        with Cluster(shards=1, interval="1h") as cluster:
            first = cluster.start_servers()[0]
            calls = Calls(first.event("listening")["address"])
            calls.init("w", [0.0])
            calls.finish()
            calls.push("w", [-1.0])
            before = cluster.status()[0]["epoch"]
            code, told, errors = cluster.psctl("drain", "0")
            self.assertEqual((code, errors), (0, ""))
            self.assertEqual(json.loads(told)["epoch"], before)
            self.assertEqual(first.wait_exit(), 0, first.log())
            spare = cluster.pserver("pserver-spare", "--drain-delay", "1h")
            calls = Calls(spare.wait_event("listening")["address"])
            wait_until(lambda: cluster.status()[0]["state"] == "ready", "the spare serves")
            self.assertEqual(calls.pull("w"), ([1.0], 1))
            drain = calls.channel.unary_unary("/pserver.v1.Admin/Drain")
            request = MESSAGES["pserver.v1.DrainRequest"]
            for meant, code in ((request(epoch=before).SerializeToString(), "FAILED_PRECONDITION"),
                                (b"", "INVALID_ARGUMENT")):
                with self.assertRaises(grpc.RpcError) as refused:
                    drain(meant, timeout=PATIENCE)
                self.assertEqual(refused.exception.code().name, code)
            self.assertEqual(cluster.psctl("health")[0], 0)
            # One signal however often it is told: a second one would end the delay.
            again = request(epoch=cluster.status()[0]["epoch"]).SerializeToString()
            for _ in range(3):
                self.assertEqual(drain(again, timeout=PATIENCE), b"")
            self.assertEqual(calls.pull("w"), ([1.0], 1))
            # Signals do not queue: one that comes before the first was taken is lost.
            spare.wait_event("stopping")
            spare.signal(signal.SIGTERM)
            self.assertEqual(spare.wait_exit(), 0, spare.log())

    def test_a_drain_of_no_server_is_wrong_usage(self):
        with Server() as server:
            for index in ("1", "x", "0x0", "all"):
                refused = server.psctl("drain", index)
                self.assertEqual(refused.returncode, USAGE, refused.stderr)
                self.assertIn("0 to 0", refused.stderr)

    def test_training_that_is_interrupted_says_where_it_stands(self):
        for pipeline in ("0", "1"):
            with self.subTest(pipeline=pipeline):
                self.interrupt_training(pipeline)

    def interrupt_training(self, pipeline):
        with Server() as server, tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "t")
            run("pstrain", "generate", "--out", data, "--rows", "1000")
            errors = os.path.join(folder, "errors")
            with open(errors, "wb") as file:
                child = subprocess.Popen(
                    [program("pstrain"), "--data", data, "--servers", server.address, "--epochs",
                     "1000000", "--output", "json", "--pipeline", pipeline],
                    stdout=subprocess.PIPE, stderr=file, text=True)
            self.addCleanup(child.kill)

            def said():
                with open(errors, encoding="utf-8") as file:
                    return file.read()

            wait_until(lambda: "training" in said(), "it trains")
            child.send_signal(signal.SIGINT)
            output, _ = child.communicate(timeout=PATIENCE)
            self.assertEqual(child.returncode, 128 + signal.SIGINT, said())
            self.assertTrue(json.loads(output)["interrupted"])
            self.assertRegex(said(), r"interrupted at 0 %: \d+ examples in \d+ pushes \(0 lost\)")
            self.assertIn("the same command trains on from there", said())
            version = json.loads(server.psctl("params", "--output", "json").stdout)[0]["version"]
            self.assertEqual(json.loads(output)["pushes"], 2 * version)

    def test_a_shard_that_nobody_serves_is_named(self):
        with Cluster(shards=2, interval="1h") as cluster:
            cluster.pserver("pserver-1", "--index", "1").wait_event("listening")
            done = run_until(lambda done: "nobody serves" in done.stderr, "psctl", "status",
                             "--etcd", cluster.etcd_url)
            self.assertEqual(done.returncode, UNAVAILABLE)
            self.assertIn("nobody serves shard 0", done.stderr)


class Values(unittest.TestCase):
    """Every type, extreme numbers, odd names."""

    def test_get_shows_every_type_as_it_is(self):
        cases = {"i32": (0, "<3i", [-2**31, 0, 2**31 - 1]),
                 "u32": (1, "<2I", [0, 2**32 - 1]),
                 "i64": (2, "<2q", [-2**63, 2**63 - 1]),
                 "u64": (3, "<2Q", [0, 2**64 - 1]),
                 "f32": (4, "<4f", [0.0, -0.0, 2.0**-149, 3.4028234663852886e+38]),
                 "f64": (5, "<3d", [0.1, 5e-324, 1.7976931348623157e+308])}
        with Server() as server:
            for name, (number, form, values) in cases.items():
                server.calls.call("InitParam", MESSAGES["pserver.v1.InitParamRequest"](
                    name=name, element_type=number, content=struct.pack(form, *values),
                    config=add_rule() if number < 4 else b""))
            server.calls.finish()
            for name, (_, _, values) in cases.items():
                document = json.loads(server.psctl("get", name, "--output", "json").stdout)
                self.assertEqual((document["type"], document["values"]), (name, values))
                lines = server.psctl("get", name).stdout.split()
                self.assertEqual(len(lines), len(values))
                if name[0] != "f":
                    self.assertEqual(lines, [str(value) for value in values])

    def test_odd_names_and_values_stay_json(self):
        names = ["quote\"back\\slash", "ü/😀", "new\nline", "#", "a#b/c", " ", "x" * 512]
        with Server() as server:
            for name in names:
                server.calls.call("InitParam", MESSAGES["pserver.v1.InitParamRequest"](
                    name=name, element_type=4, content=struct.pack("<2f", 1, float("nan")),
                    config=allow_nonfinite()))
            server.calls.finish()
            listed = json.loads(server.psctl("params", "--output", "json").stdout)
            self.assertEqual([entry["name"] for entry in listed],
                             sorted(names, key=lambda name: name.encode()))
            self.assertEqual(len(server.psctl("params").stdout.splitlines()), len(names) + 1)
            for name in names:
                document = json.loads(server.psctl("get", name, "--output", "json").stdout)
                self.assertEqual((document["name"], document["values"]), (name, [1, None]))

    def test_a_server_that_does_not_answer_is_given_up_in_time(self):
        with tempfile.TemporaryDirectory() as folder:
            data = os.path.join(folder, "t")
            run("pstrain", "generate", "--out", data, "--rows", "10")
            done = run_until(lambda done: "127.0.0.1:1" in done.stderr, "pstrain", "--data", data,
                             "--servers", "127.0.0.1:1", "--output", "json")
            self.assertEqual((done.returncode, done.stdout), (UNAVAILABLE, ""))
            self.assertIn("127.0.0.1:1", done.stderr)


def add_rule():
    return MESSAGES["paddle.OptimizerConfig"](optimizer=205).SerializeToString()


def allow_nonfinite():
    return MESSAGES["paddle.OptimizerConfig"](nonfinite=2).SerializeToString()


class Usage(unittest.TestCase):
    def refused(self, code, wanted, name, *arguments):
        self.is_refused(code, wanted, run(name, *arguments), name, *arguments)

    def is_refused(self, code, wanted, done, name, *arguments):
        with self.subTest(arguments=arguments):
            self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
            self.assertTrue(done.stderr.startswith(name), done.stderr)
            self.assertIn(wanted, done.stderr)

    def test_psctl_says_how_it_is_used(self):
        here = ["--servers", "127.0.0.1:1"]
        self.refused(USAGE, "which command?", "psctl", *here)
        self.refused(USAGE, "\"dance\"", "psctl", "dance", *here)
        self.refused(USAGE, "--etcd", "psctl", "status")
        self.refused(USAGE, "--servers", "psctl", "status", *here, "--etcd", "http://127.0.0.1:1")
        self.refused(USAGE, "--timeout", "psctl", "status", *here, "--timeout", "soon")
        self.refused(USAGE, "--output", "psctl", "status", *here, "--output", "xml")
        for words in (["get"], ["get", "a", "b"], ["status", "x"], ["params", "x"]):
            self.refused(USAGE, "argument", "psctl", *words, *here)
        for servers in ("nonsense", "a:1,,b:2", "", "a:99999"):
            self.refused(USAGE, "HOST:PORT", "psctl", "status", "--servers", servers)
        self.refused(USAGE, "ftp://x", "psctl", "status", "--etcd", "ftp://x")
        words = ("psctl", "status", "--etcd", "http://127.0.0.1:1")
        done = run_until(lambda done: "127.0.0.1:1" in done.stderr, *words)
        self.is_refused(UNAVAILABLE, "127.0.0.1:1", done, *words)

    def test_pstrain_says_how_it_is_used(self):
        here = ["--servers", "127.0.0.1:1"]
        self.refused(USAGE, "--data", "pstrain", *here)
        self.refused(USAGE, "--servers", "pstrain", "--data", "x")
        self.refused(USAGE, "\"dance\"", "pstrain", "dance")
        for option, value in [("workers", "0"), ("workers", "1000000"), ("part", "1"),
                              ("parts", "0"), ("batch", "0"), ("epochs", "9999999999"),
                              ("learning-rate", "-1"), ("l2", "-1"), ("name", "x" * 65),
                              ("model", "deep"), ("pipeline", "2"), ("optimizer", "magic"),
                              ("l2", "nan")]:
            self.refused(USAGE, "--" + option, "pstrain", "--data", "/none", *here,
                         f"--{option}={value}")
        for option, value in [("features", "1"), ("features", "1000000"), ("rows", "0"),
                              ("noise", "0.5"), ("noise", "-1")]:
            self.refused(USAGE, "--" + option, "pstrain", "generate", "--out", "/none/such",
                         f"--{option}={value}")
        self.refused(USAGE, "--out", "pstrain", "generate")
        self.refused(CANNOT_CREATE, "/none/such", "pstrain", "generate", "--out", "/none/such")
        self.refused(CANNOT_CREATE, "/dev/full", "pstrain", "generate", "--out", "/dev/full",
                     "--rows", "10")

    def test_files_that_are_none_are_refused_with_their_line(self):
        good = "+1 1:1\n-1 2:1\n"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "data.svm")
            where = ["--servers", "127.0.0.1:1"]
            for text, line in [("+1 0:1\n", 1), (good + "+1 2:1 1:1\n", 3), ("+1 -1:1\n", 1),
                               ("+1 1:nan\n", 1), ("+1 1:inf\n", 1), ("one 1:1\n", 1),
                               (good + "+1 1\n", 3), (good + "+1 1:\n", 3), ("nan 1:1\n", 1),
                               ("+1 99999999999999999999:1\n", 1), (good + "+1 1:1 x", 3),
                               ("+1 1:\n1\n", 1), ("\x00\x01\x02", 1), ("+1 1:1\x00\n", 1)]:
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                self.refused(DATA_ERROR, f"{path}:{line}: ", "pstrain", "--data", path, *where)
            for text, wanted in [("", "no rows"), ("\n \n", "no rows"), ("+1 1:1\n", "same label"),
                                 ("1 1:1\n2 1:1\n3 1:1\n", "3 classes")]:
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                self.refused(DATA_ERROR, wanted, "pstrain", "--data", path, *where)
            self.refused(NO_INPUT, "/none/such", "pstrain", "--data", "/none/such", *where)
            self.refused(NO_INPUT, folder, "pstrain", "--data", folder, *where)
            with open(path, "w", encoding="ascii") as file:
                file.write(good)
            self.refused(NO_INPUT, "/none/such", "pstrain", "--data", path, "--test",
                         "/none/such", *where)

    def test_odd_files_that_are_fine_are_trained(self):
        """Windows line ends, blank lines, no last line end, and labels of the test alone."""
        with tempfile.TemporaryDirectory() as folder, Server() as server:
            train, test = os.path.join(folder, "a \"b\""), os.path.join(folder, "test")
            with open(train, "w", encoding="ascii", newline="") as file:
                file.write("+1 1:1 \r\n\r\n  -1\t2:1\r\n+1")
            with open(test, "w", encoding="ascii") as file:
                file.write("+1 1:1\n7 99:1\n")
            done = run("pstrain", "--data", train, "--test", test, "--servers", server.address,
                       "--output", "json", "--epochs", "1")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(json.loads(done.stdout)["test_accuracy"], 0.5)

    def test_generate_prints_one_document(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "odd \"name\\ ü")
            done = run("pstrain", "generate", "--out", path, "--rows", "10", "--output", "json")
            document = json.loads(done.stdout)
            self.assertEqual((document["file"], document["rows"]), (path, 10))


if __name__ == "__main__":
    unittest.main(verbosity=2)
