#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reads every C and C++ source of a build with clang, which has other warnings than gcc. Nothing is
made of what is read: a program of clang's would be run by nobody here, and to write and link it
takes longer than to look.

usage: clang_warnings.py BUILD_FOLDER

The build folder is one of gcc's that is built, since generated headers lie there. Prints what clang
says, and ends with 1 when any source was refused.
"""
import concurrent.futures
import json
import os
import shlex
import subprocess
import sys

COMPILERS = {".c": "clang", ".cpp": "clang++", ".cc": "clang++"}


def reading(entry):
    """The command by which clang reads what `entry` compiles; None: clang has no part in it."""
    compiler = COMPILERS.get(os.path.splitext(entry["file"])[1])
    if compiler is None:
        return None
    words = shlex.split(entry["command"])
    # A launcher may stand before the compiler; the options begin with the first dash.
    options = words[next(i for i, word in enumerate(words) if word.startswith("-")):]
    kept = []
    skipped = False
    for word in options:
        if skipped:
            skipped = False
        elif word in ("-o", "-MT", "-MF"):
            skipped = True
        elif word not in ("-c", "-MD") and not word.startswith("-O"):
            kept.append(word)
    return [compiler, "-fsyntax-only", "-O0", *kept]


def read(entry):
    command = reading(entry)
    if command is None:
        return None
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True,
                          check=False)
    return done.returncode, entry["file"], done.stderr


def main():
    with open(os.path.join(sys.argv[1], "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        done = [result for result in pool.map(read, entries) if result is not None]
    refused = [result for result in done if result[0] != 0]
    for _, path, said in refused:
        print(f"FAILED: {path}\n{said}")
    print(f"clang has read {len(done)} sources and refused {len(refused)}")
    # A build folder without sources would be a mistake of whoever called.
    sys.exit(1 if refused or not done else 0)


main()
