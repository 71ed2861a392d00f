# SPDX-License-Identifier: Apache-2.0
"""What the package shows: every public name is explained and typed."""

import glob
import importlib
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = os.path.realpath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
PACKAGE = os.path.join(REPOSITORY, "client", "python")
MODULES = ["pserver", *(f"pserver.{name}" for name in (
    "about", "aio", "arrays", "batches", "client", "errors", "loops", "operation", "optimizers",
    "protobuf", "rendezvous", "replica", "rounds", "table_settings", "tables", "testing"))]


def public_names(module):
    """(name, object) of what a module defines for others, and the methods of its classes."""
    for name, value in vars(module).items():
        if name.startswith("_") or inspect.ismodule(value):
            continue
        if getattr(value, "__module__", None) != module.__name__:
            continue
        yield name, value
        if inspect.isclass(value):
            for inner, method in vars(value).items():
                if not inner.startswith("_") and (callable(method) or isinstance(method, property)):
                    yield f"{name}.{inner}", method


class Surface(unittest.TestCase):
    def test_every_public_name_is_explained(self):
        silent = []
        for module in map(importlib.import_module, MODULES):
            if not module.__doc__:
                silent.append(module.__name__)
            silent += [f"{module.__name__}.{name}" for name, value in public_names(module)
                       if callable(value) or isinstance(value, property)
                       if not inspect.getdoc(value)]
        self.assertEqual(silent, [])

    def test_every_name_of_all_is_there(self):
        package = importlib.import_module("pserver")
        self.assertEqual([name for name in package.__all__ if not hasattr(package, name)], [])
        self.assertEqual(sorted(package.__all__, key=str.lower),
                         sorted(set(package.__all__), key=str.lower))

    def test_what_the_extension_has_is_declared(self):
        extension = importlib.import_module("pserver._pserver")
        with open(os.path.join(PACKAGE, "pserver", "_pserver.pyi"), encoding="utf-8") as file:
            declared = file.read()
        for kind in (extension.Client, extension.Operation, extension.Replica, extension.Table,
                     extension.Ahead):
            for name in vars(kind):
                if not name.startswith("_"):
                    self.assertIn(f"def {name}(", declared)

    @unittest.skipUnless(shutil.which("mypy"), "no mypy")
    def test_types_of_the_examples_without_the_package_are_strict(self):
        """But for what protoc and gRPC have no types of."""
        folder = os.path.join(REPOSITORY, "client", "examples", "python")
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports",
                 "--cache-dir", cache, "example.py", "trainer.py", "table.py"],
                capture_output=True, text=True, check=False, cwd=folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    @unittest.skipUnless(shutil.which("mypy"), "no mypy")
    def test_types_are_strict(self):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run(
                [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, "pserver",
                 *sorted(glob.glob(os.path.join(PACKAGE, "examples", "*.py")))],
                capture_output=True, text=True, check=False, cwd=PACKAGE,
                env={**os.environ, "MYPYPATH": os.path.join(PACKAGE, "examples")})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
