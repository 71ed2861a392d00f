# SPDX-License-Identifier: Apache-2.0
"""A network of its own for every process of a storm: namespaces joined by a bridge that stands in a
namespace too, so that nothing of the machine's own network is touched.
"""

import ctypes
import os
import subprocess

PREFIX = "10.231.7"


def run(*words, text=None):
    subprocess.run(words, check=True, input=text, text=True, capture_output=True, timeout=20)


def why_not():
    """None where namespaces can be made; else the reason."""
    if os.geteuid() != 0:
        return "not root"
    name = f"storm-try-{os.getpid()}"
    try:
        run("ip", "netns", "add", name)
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespaces: {reason(error)}"
    try:
        run("ip", "netns", "exec", name, "nft", "add", "table", "inet", "storm")
        run("ip", "-n", name, "link", "add", "try0", "type", "bridge")
        run("ip", "-n", name, "link", "add", "try1", "type", "veth", "peer", "name", "try2")
    except (OSError, subprocess.SubprocessError) as error:
        return f"no veth, bridge or nft: {reason(error)}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return None


def reason(error):
    return (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]


class Loopback:
    """Everything on 127.0.0.1: no partitions."""

    namespaces = False

    def address(self, _node):
        return "127.0.0.1"

    def command(self, _node, words):
        return list(words)

    def heal(self, _node=None):
        pass

    def close(self):
        pass


class Namespaces:
    """One namespace per node name; made when first asked for."""

    namespaces = True

    def __init__(self):
        self.base = f"storm-{os.getpid()}"
        self.nodes = {}
        self.cuts = {}
        self.switch = f"{self.base}-switch"
        run("ip", "netns", "add", self.switch)
        run("ip", "-n", self.switch, "link", "add", "bridge0", "type", "bridge")
        run("ip", "-n", self.switch, "link", "set", "bridge0", "up")

    def add(self, node):
        number = len(self.nodes) + 1
        name = f"{self.base}-{number}"
        run("ip", "netns", "add", name)
        self.nodes[node] = (name, f"{PREFIX}.{number}")
        run("ip", "-n", self.switch, "link", "add", f"port{number}", "type", "veth",
            "peer", "name", "eth0", "netns", name)
        run("ip", "-n", self.switch, "link", "set", f"port{number}", "master", "bridge0", "up")
        run("ip", "-n", name, "addr", "add", f"{PREFIX}.{number}/24", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")

    def address(self, node):
        if node not in self.nodes:
            self.add(node)
        return self.nodes[node][1]

    def command(self, node, words):
        self.address(node)
        return ["ip", "netns", "exec", self.nodes[node][0], *words]

    def cut(self, node, peer, way):
        """Drops what `node` gets from `peer` ("in"), what it sends there ("out"), or both."""
        self.cuts.setdefault(node, set()).add((self.address(peer), way))
        self.apply(node)

    def heal(self, node=None):
        for one in [node] if node else list(self.cuts):
            self.cuts.pop(one, None)
            self.apply(one)

    def apply(self, node):
        rules = {"in": [], "out": []}
        for address, way in sorted(self.cuts.get(node, ())):
            if way in ("in", "both"):
                rules["in"].append(f"ip saddr {address} drop")
            if way in ("out", "both"):
                rules["out"].append(f"ip daddr {address} drop")
        chains = "".join(
            f"chain {way} {{ type filter hook {way}put priority 0;\n"
            + "".join(f"{rule}\n" for rule in rules[way]) + "}\n" for way in ("in", "out"))
        text = f"table inet storm\ndelete table inet storm\ntable inet storm {{\n{chains}}}\n"
        run(*self.command(node, ["nft", "-f", "-"]), text=text)

    def close(self):
        for name, _ in self.nodes.values():
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", self.switch], capture_output=True, check=False)
