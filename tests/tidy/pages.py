# SPDX-License-Identifier: Apache-2.0
"""Links between the pages: each leads somewhere, and every page of docs/ can be reached."""

import os
import re

INDEX = "docs/index.md"
LINK = re.compile(r"\]\(([^()\s]+)\)")
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.S | re.M)


def anchor_of(heading):
    """As the sites that show the pages make it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.replace("`", "").lower()).strip().replace(" ", "-")


def anchors_of(text):
    return {anchor_of(heading) for heading in re.findall(r"^#+ (.*)$", text, re.M)}


def links_of(path, text):
    """(line, file, anchor) of every link that stays in the tree."""
    blank = CODE.sub(lambda code: re.sub(r"[^\n]", " ", code.group(0)), text)
    for match in LINK.finditer(blank):
        target, _, anchor = match.group(1).partition("#")
        if "://" in target:
            continue
        line = text.count("\n", 0, match.start()) + 1
        folder = os.path.dirname(path)
        file = os.path.normpath(os.path.join(folder, target)) if target else path
        yield line, file, anchor


def reached_from(index, texts):
    reached, waiting = set(), [index]
    while waiting:
        path = waiting.pop()
        if path in reached or path not in texts:
            continue
        reached.add(path)
        waiting += [file for _, file, _ in links_of(path, texts[path])]
    return reached


def check(texts, paths, findings):
    """`texts`: the pages, by path; `paths`: every file of the tree."""
    folders = {os.path.dirname(path) for path in paths}
    folders |= {os.path.dirname(folder) for folder in folders}
    for path, text in texts.items():
        for line, file, anchor in links_of(path, text):
            if file not in paths and file not in folders:
                findings.add(path, line, "link", f"{file} is not there")
            elif anchor and file in texts and anchor not in anchors_of(texts[file]):
                findings.add(path, line, "link", f"{file} has no heading #{anchor}")
    reached = reached_from(INDEX, texts) if INDEX in texts else texts
    for path in texts:
        if path.startswith("docs/") and path not in reached:
            findings.add(path, 1, "page", f"no page leads here from {INDEX}")
