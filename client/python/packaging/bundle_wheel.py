#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes of a wheel that needs this machine's libraries one that brings them along.

    bundle_wheel.py WHEEL FOLDER     prints the path of the wheel that it writes into FOLDER

The libraries lie in pserver.libs, where the extension's DT_RPATH has them looked for, each under a
name of its own: a program that has loaded another libssl keeps it, and pserver uses this one. The C
library and the C++ runtime stay the user's; the wheel's tag says from which glibc on they will do.
Needs binutils, Python's wheel, and libraries of Debian packages, whose licences go along.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

# Every Linux that can run a wheel at all has these: PEP 600 lists them.
OF_THE_USER = re.compile(r"^(ld-linux.*|lib(c|m|dl|rt|pthread|resolv|util|gcc_s|stdc\+\+)\.so.*)$")


def run(*command):
    """What a command prints; its failure ends this program with what it said."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def libraries_of(extension):
    """{name: path} of all libraries that are loaded with it and are not the user's."""
    found = re.findall(r"^\s*(\S+) => (.*?) \(0x", run("ldd", extension), re.MULTILINE)
    missing = [name for name, path in found if not path.startswith("/")]
    if missing:
        sys.exit(f"{extension}: not found: {', '.join(missing)}")
    return {name: path for name, path in found if not OF_THE_USER.match(name)}


def renamed(content, names):
    """The bytes of a file, asking for other names of the same lengths."""
    for name in names:
        content = content.replace(f"\0{name}\0".encode(), f"\0{own_name(name)}\0".encode())
    return content


def own_name(name):
    """psvgrpc.so.29 of libgrpc.so.29: no other program's library has the name."""
    return "psv" + name.removeprefix("lib")


def bring_along(tree, extension):
    """Copies the libraries into the tree. Gives the paths of the originals and of the copies."""
    libraries = libraries_of(extension)
    folder = os.path.join(tree, "pserver.libs")
    os.makedirs(folder)
    copies = {path: os.path.join(folder, own_name(name)) for name, path in libraries.items()}
    for original, copy in {**copies, extension: extension}.items():
        with open(original, "rb") as file:
            content = file.read()
        with open(copy, "wb") as file:
            file.write(renamed(content, libraries))
    wanted = run("readelf", "-dW", extension, *copies.values())
    left = set(re.findall(r"\[(.*)\]", wanted)) & set(libraries)
    if left:
        sys.exit(f"these names could not be changed: {', '.join(left)}")
    return [os.path.realpath(path) for path in libraries.values()], list(copies.values())


def add_licences(folder, libraries):
    """The copyright file of every Debian package that a library is of."""
    os.makedirs(folder)
    owners = run("dpkg-query", "--search", *(f"*/{os.path.basename(path)}" for path in libraries))
    for package in {line.split(":", 1)[0] for line in owners.splitlines()}:
        shutil.copyfile(f"/usr/share/doc/{package}/copyright", os.path.join(folder, package))


def platform_tag(files):
    """manylinux_2_36_x86_64, say: by the newest symbol of glibc that any of the files asks for."""
    versions = re.findall(r"\bGLIBC_2\.(\d+)", run("readelf", "-VW", *files))
    return f"manylinux_2_{max(map(int, versions))}_{os.uname().machine}"


def set_tag(description, tag):
    """In the file WHEEL; `wheel pack` names the archive after it."""
    with open(description, encoding="utf-8") as file:
        text = file.read()
    with open(description, "w", encoding="utf-8") as file:
        file.write(re.sub(r"^(Tag: [^-]+-[^-]+)-.*$", rf"\1-{tag}", text, flags=re.MULTILINE))


def main():
    """Unpacks, completes, packs."""
    wheel, folder = sys.argv[1:]
    with tempfile.TemporaryDirectory() as work:
        run(sys.executable, "-m", "wheel", "unpack", "--dest", work, wheel)
        tree, = glob.glob(os.path.join(work, "*"))
        extension = os.path.join(tree, "pserver", "_pserver.abi3.so")
        information, = glob.glob(os.path.join(tree, "*.dist-info"))
        run("strip", "--strip-unneeded", extension)
        originals, copies = bring_along(tree, extension)
        add_licences(os.path.join(information, "licenses"), originals)
        set_tag(os.path.join(information, "WHEEL"), platform_tag([extension, *copies]))
        os.makedirs(folder, exist_ok=True)
        packed = run(sys.executable, "-m", "wheel", "pack", "--dest-dir", folder, tree)
    print(re.search(r"as (.*\.whl)", packed).group(1))


if __name__ == "__main__":
    main()
