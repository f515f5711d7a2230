#!/usr/bin/env python3
"""doc_session.py DOC.md WEIR DATA [--write]: are the sessions of a document what the program prints?

In blocks marked `console`, a line that begins with "$ " is a shell command; what follows, up to the next
one, is what it printed. A block marked `yaml NAME` is a file of that name, which later commands find.
Commands run in an empty folder with `weir` in the PATH and the test data where a clone has them. --write puts what is
printed now into the document."""
import os
import re
import subprocess
import sys
import tempfile


def run(command, folder, env):
    done = subprocess.run(["sh", "-c", command], cwd=folder, env=env, text=True, timeout=60,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return [line.rstrip() for line in done.stdout.splitlines()]


def replay(block, folder, env):
    """The block's lines as they are printed now."""
    now = []
    for line in block:
        if line.startswith("$ "):
            now.append(line)
            now += run(line[2:], folder, env)
    return now


def main():
    path, weir, data = sys.argv[1:4]
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    out, at, differs = [], 0, 0
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(os.path.join(folder, "tests"))
        os.symlink(os.path.abspath(data), os.path.join(folder, "tests", "data"))
        os.symlink(os.path.abspath(weir), os.path.join(folder, "weir"))
        env = dict(os.environ, PATH=folder + ":" + os.environ["PATH"], WEIR_STATE=folder)
        while at < len(lines):
            fence = re.match(r"```(console|yaml (\S+))$", lines[at])
            out.append(lines[at])
            at += 1
            if not fence:
                continue
            end = lines.index("```", at)
            block = lines[at:end]
            if fence.group(2):
                with open(os.path.join(folder, fence.group(2)), "w", encoding="utf-8") as file:
                    file.write("\n".join(block) + "\n")
                now = block
            else:
                now = replay(block, folder, env)
            for was, become in zip(block + [None] * len(now), now + [None] * len(block)):
                if was != become:
                    differs += 1
                    print(f"{path}: line {at + 1} and on: '{was}' is now '{become}'")
                    break
            out += now
            at = end
    if "--write" in sys.argv[4:]:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(out))
        return 0
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
