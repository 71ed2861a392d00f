# SPDX-License-Identifier: Apache-2.0
"""What is true in the world of test_python_table_model.py: of rows as clients see them, and of the
folders of servers that were killed."""

import contextlib
import os
import shutil
import subprocess
import tempfile

import numpy as np

from table_model import EDGES


def psckpt(*words, codes=(0,)):
    done = subprocess.run([os.path.join(os.environ["PS_BIN"], "psckpt"), *map(str, words)],
                          capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in codes:
        raise AssertionError(f"psckpt {words}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def checkpoints_of(data):
    """The oldest first."""
    folder = os.path.join(data, "shard-0")
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))
            if name.endswith(".safetensors")]


class Checks:
    """Of a World."""

    # ---- Rows ----

    def check_sums(self):
        keys = np.arange(50, dtype=np.uint64)
        wanted = np.array([[self.sums.get(key, 0)] * 2 for key in range(50)], np.int64)
        for client in self.clients:
            np.testing.assert_array_equal(client.table("sum").get(keys), wanted)

    def check(self, name):
        """Rows by their keys, which rows there are, and the copy that follows."""
        model, spec, tables = self.models[name], self.models[name].spec, self.tables[name]
        asked = [key for key in [*range(spec.keys + 3), *EDGES] if key < (spec.keys_max or 2 ** 64)]
        asked = np.array(asked, np.uint64)
        replica, _ = self.replicas[name]
        with self.maybe_killed(0.05):
            replica.update()
        if spec.expire_clocks:
            self.check_expiring(name)
            return
        rows = [table.get(asked) for table in tables]
        self.test.assertEqual(rows[0].tobytes(), rows[1].tobytes(), spec)
        counts = [client.parameters()[name].shape[0] for client in self.clients]
        self.test.assertEqual(*counts, spec)
        self.test.assertEqual(len(replica), counts[0], spec)
        self.test.assertEqual(replica.get(asked).tobytes(), rows[0].tobytes(), spec)
        if not model.certain:
            return
        self.test.assertEqual(replica.keys().tolist(), sorted(model.rows), spec)
        self.check_values(model, asked, rows[0])

    def check_values(self, model, keys, rows):
        if not model.exact:
            return
        for key, row in zip(keys.tolist(), rows):
            if key in model.rows and key not in model.loose:
                self.test.assertEqual(row.tobytes(), model.rows[key].tobytes(), (key, model.spec))

    def check_expiring(self, name):
        """Rows that are not due are there; those of the copy have the model's values."""
        model, spec = self.models[name], self.models[name].spec
        if not model.certain:
            return
        replica, _ = self.replicas[name]
        there = set(replica.keys().tolist())
        self.test.assertLessEqual(there, set(model.rows), spec)
        gone = set(model.rows) - there
        for key in gone:
            self.test.assertTrue(key in model.loose or model.is_due(key, min(self.clock)),
                                 (key, spec))
        self.check_values(model, replica.keys(), replica.get(replica.keys()))

    def check_all(self):
        for name in self.tables:
            self.check(name)
        self.check_sums()

    def stopped(self):
        """What the programs say of the folders of servers that were killed."""
        self.log("look at the files")
        is_above = self.is_above()
        for server in self.servers:
            server.kill()
        digests = [self.look(number, is_above) for number in range(self.count)]
        for server in self.servers:
            server.start()
        if self.expiring or self.dice.random() < 0.5:
            return
        self.clients[0].save()
        for server, digest in zip(self.servers, digests):
            server.kill()
            saved = psckpt("digest", "--no-journal", server.data_path).split()[0]
            server.start()
            self.test.assertEqual(saved, digest)

    def look(self, number, is_above):
        data, dice = self.servers[number].data_path, self.dice
        psckpt("verify", data)
        digest = psckpt("digest", data).split()[0]
        with tempfile.TemporaryDirectory() as folder:
            other = os.path.join(folder, "other")
            # Of a table above a limit that was lowered there is no other shard (64).
            psckpt("reshard", data, "--to", dice.choice([1, 2, 3]), "--out", other,
                   codes=(0, 64) if is_above else (0,))
            if dice.random() < 0.5 and os.path.exists(other):
                psckpt("export", other, "--out", os.path.join(folder, "plain"), "--merge")
            self.without_one(data, os.path.join(folder, "copy"), digest)
            for name in list(self.sets)[-2:]:  # as many are kept
                self.restore(data, os.path.join(folder, name), name)
        if not self.expiring:
            self.compare_files(data, self.beside[number].data_path)
        if dice.random() < 0.3:
            psckpt("prune", data)
            self.test.assertEqual(psckpt("digest", data).split()[0], digest)
        if dice.random() < 0.4:
            self.damage(data)
        return digest

    def without_one(self, data, copy, digest):
        """Of two whole checkpoints either one and the journal have all of what there is."""
        shutil.copytree(data, copy)
        names = checkpoints_of(copy)
        if sum("-on-" not in name for name in names) > 1:
            gone = self.dice.choice(names)
            self.log("without", os.path.basename(gone))
            os.remove(gone)
            self.test.assertEqual(psckpt("digest", copy).split()[0], digest)

    def restore(self, data, copy, name):
        shutil.copytree(data, copy)
        psckpt("restore-set", copy, "--set", name)
        self.test.assertEqual(psckpt("digest", copy).split()[0], self.sets[name])

    def compare_files(self, data, beside):
        """The other server is at work, and its notes take each other's place meanwhile."""
        copy = data + "-beside"
        while True:
            with contextlib.suppress(shutil.Error):
                shutil.copytree(beside, copy)
                break
            shutil.rmtree(copy)
        told = psckpt("diff", data, copy, codes=(0, 1)).splitlines()
        shutil.rmtree(copy)
        self.test.assertEqual([line for line in told if self.is_different(line)], [])

    def is_different(self, line):
        """Of psckpt diff. Who came last is not determined where two came together."""
        name = line.split()[1].rstrip(":")
        if name == "iterated":  # of one side
            return False
        any_order = name == "sum" or self.models[name].in_any_order
        return not (any_order and line.startswith(f"changed  {name}: clock,"))

    def damage(self, data):
        """The newest checkpoint, at any place."""
        names = checkpoints_of(data)
        if len(names) < 2:
            return
        self.sets.clear()  # it may be the newest one's
        at = self.dice.randrange(os.path.getsize(names[-1]))
        self.log("damage", names[-1], at, "of", os.path.getsize(names[-1]))
        with open(names[-1], "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 0x5a]))

    def is_above(self):
        """Whether a table has more rows than a limit that was lowered."""
        there = self.clients[0].parameters()
        return any(0 < model.spec.rows_max < there[name].shape[0]
                   for name, model in self.models.items())
