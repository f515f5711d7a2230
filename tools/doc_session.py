#!/usr/bin/env python3
"""Are the sessions of a document what the program prints?

  doc_session.py DOC.md WEIR ROOT            runs them; one TAP line a command; status 1 if any printed something else
  doc_session.py DOC.md WEIR ROOT --write    puts what is printed now into the document where it no longer agrees

WEIR is the program, ROOT the clone: the sessions find its deploy/, src/ and tests/data/. What a document may hold:

  ```console            A line that begins with "$ " is a command, and goes on below while a line ends with \\, | or &&.
                        What follows, up to the next one, is what it printed, byte for byte.
  ```console times      The same of a live run: numbers with a decimal point or a unit of time agree when one is at most
                        twice the other, or they lie 1 apart (a second). All other numbers, and all words, are exact.
  ```console measured   A table of measurements: in each line two of three numbers agree in that way, or lie 0.3 apart, whatever
                        their kind (one late answer moves a 99th percentile as it likes). What does not agree is measured twice more.
  ```LANGUAGE FILE      A file of that name, as the reader saves it; with the language sh it is a program.

In live blocks empty lines, the width of columns, dates, ports nobody chose and names made of hex digits do not count, nor does how
many waited "noticeably" and at once, nor do notes that only a busy machine causes.

Commands run one after the other in one shell, in an empty folder, so that variables and background processes stay.
What they print of the folder's path reads ~/workshop.
Ports that the document names (127.0.0.1:8767) are free ones here: put in before a command or a file is used, and taken
out of what it prints. A command that ends with & is waited for until the addresses it listens at take connections,
as anybody's typing would take. What runs at the end of the document is a failure: it did not say how to stop it."""
import os
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

COMMAND_S = 60  # longest time for one command
LISTEN_S = 20  # longest time until something in the background listens
FACTOR, SLACK = 2.0, {"times": 1.0, "measured": 0.3}

ADDRESS = re.compile(r"\b127\.0\.0\.1:(\d+)")
LISTENS = re.compile(r"(?:--(?:listen|admin)[ =]|^\s*(?:listen|admin):\s*)127\.0\.0\.1:(\d+)", re.MULTILINE)
DATE = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:\d\d)?")
DIGEST = re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{10,}\b")
NUMBER = re.compile(r"(?<![\w.])(\d[\d,]*)(\.\d+)?(\s?(?:ns|us|ms|s|m|h)\b)?")
NOTICEABLY = re.compile(r"\b\d+(?= of \d+ noticeably)|(?<=; at most )\d+(?= at once)")
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
BUSY = re.compile(r"^$|did not keep up|machine was busy itself")


class Fault(Exception):
    """The document cannot be run as it stands."""


# ---- what may differ ----


def skeleton(line, kind):
    """The line's words, and its numbers that may differ a little, in a common unit."""
    line = ADDRESS.sub("ADDRESS", DATE.sub("DATE", line))
    line = NOTICEABLY.sub("SOME", DIGEST.sub("DIGEST", line))
    loose = []

    def take(match):
        whole, fraction, unit = match.groups()
        unit = (unit or "").strip()
        if kind == "times" and not fraction and not unit:
            return match.group(0)
        loose.append(float(whole.replace(",", "") + (fraction or "")) * SECONDS.get(unit, 1.0))
        return "TIME" if unit else "NUMBER"

    line = NUMBER.sub(take, line)
    return re.sub(r"\s+", " ", line).strip(), loose


def agrees(was, now, kind):
    """Whether two printed lines say the same, for a block of that kind."""
    if kind == "exact":
        return was == now
    (words, numbers), (words_now, numbers_now) = skeleton(was, kind), skeleton(now, kind)
    if words != words_now:
        return False
    off = sum(max(a, b) > FACTOR * min(a, b) and abs(a - b) > SLACK[kind] for a, b in zip(numbers, numbers_now, strict=True))
    return 3 * off <= len(numbers) if kind == "measured" else off == 0


def difference(was, now, kind):
    """The first pair of lines that do not agree, or None."""
    if kind != "exact":
        was, now = ([line for line in lines if not BUSY.search(line)] for lines in (was, now))
    missing = "(nothing)"
    for i in range(max(len(was), len(now))):
        one = was[i] if i < len(was) else missing
        other = now[i] if i < len(now) else missing
        if missing in (one, other) or not agrees(one, other, kind):
            return one, other
    return None


# ---- the document ----


def parse(lines):
    """Parts in order: ("file", name, language, first, end) and ("command", kind, first, output, end), by line."""
    at = 0
    while at < len(lines):
        fence = re.match(r"```(\w+)(?: (\S+))?$", lines[at])
        at += 1
        if not fence:
            continue
        language, word = fence.groups()
        try:
            end = lines.index("```", at)
        except ValueError:
            raise Fault(f"line {at}: a block without an end") from None
        if language == "console":
            kind = word or "exact"
            if kind not in ("exact", "times", "measured"):
                raise Fault(f"line {at}: a console block is plain, 'times' or 'measured', not '{kind}'")
            yield from commands(lines, at, end, kind)
        elif word:
            yield "file", word, language, at, end
        at = end + 1


def commands(lines, at, end, kind):
    if at == end or not lines[at].startswith("$ "):
        raise Fault(f"line {at + 1}: a console block begins with a command")
    while at < end:
        output = at
        while output < end and re.search(r"(\\|\||&&)$", lines[output]):
            output += 1
        output += 1
        after = output
        while after < end and not lines[after].startswith("$ "):
            after += 1
        yield "command", kind, at, output, after
        at = after


# ---- the machine ----


def free_ports(wanted):
    """A free port for each, with as many digits, below those that the system hands out by itself."""
    taken = {}
    for port in sorted(wanted):
        low, high = (1024, 9999) if len(port) == 4 else (10000, 32000)
        for _ in range(1000):
            other = str(random.randint(low, high))
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", int(other)))
                except OSError:
                    continue
            if other not in taken.values() and other not in wanted:
                taken[port] = other
                break
        else:
            raise Fault(f"no free port in place of {port}")
    return taken


class Shell:
    """One shell for the whole document, in a folder of its own."""

    def __init__(self, folder, scratch, env):
        self.mark = "end-of-command-" + os.urandom(8).hex()
        self.file = os.path.join(scratch, "command")
        self.process = subprocess.Popen(["sh"], cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.STDOUT, start_new_session=True)

    def run(self, command):
        """What it printed, in lines."""
        with open(self.file, "w", encoding="utf-8") as file:
            file.write(command + "\n")
        quoted = shlex.quote(self.file)
        self.process.stdin.write(f". {quoted} </dev/null; printf '\\n%s\\n' {self.mark}\n".encode())
        self.process.stdin.flush()
        stop, data, mark = time.monotonic() + COMMAND_S, b"", f"\n{self.mark}\n".encode()
        while not data.endswith(mark):
            if not select.select([self.process.stdout], [], [], max(0, stop - time.monotonic()))[0]:
                raise Fault(f"'{command}' was not over after {COMMAND_S} s")
            more = os.read(self.process.stdout.fileno(), 65536)
            if not more:
                raise Fault(f"'{command}' ended the shell")
            data += more
        return [line.rstrip() for line in data[: -len(mark)].decode(errors="replace").splitlines()]

    def close(self):
        """Ends the shell; the commands of background processes that were still there, which are killed."""
        left = []
        try:
            for pid in map(int, self.run("jobs -p")):
                try:
                    with open(f"/proc/{pid}/cmdline", encoding="utf-8") as file:
                        words = file.read().split("\0")
                except OSError:
                    continue
                if any(words):
                    left.append(" ".join(words).strip())
        except (Fault, ValueError, OSError):
            pass  # the shell has ended, which was said
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own session: only what this document started
        except ProcessLookupError:
            pass
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass  # what could not be written any more
        return left


def wait_until_it_listens(command, folder):
    """For a command in the background: until each address that it was told takes connections."""
    ports = LISTENS.findall(command)
    for name in re.findall(r"(?:-c|--config)[ =](\S+)", command):
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                ports += LISTENS.findall(file.read())
        except OSError:
            continue
    stop = time.monotonic() + LISTEN_S
    for port in ports:
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(port))) == 0:
                    break
            if time.monotonic() > stop:
                raise Fault(f"'{command}' does not listen on port {port}")
            time.sleep(0.02)


# ---- all of it ----


class Run:
    def __init__(self, path, weir, root):
        self.path = path
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")
        self.parts = list(parse(self.lines))
        self.ports = free_ports({port for line in self.lines for port in ADDRESS.findall(line)})
        self.doc_ports = {mine: port for port, mine in self.ports.items()}
        self.scratch = os.path.realpath(tempfile.mkdtemp(prefix="weir-doc-"))
        self.folder = os.path.join(self.scratch, "folder")
        os.makedirs(os.path.join(self.folder, "tests"))
        os.makedirs(os.path.join(self.scratch, "bin"))
        root = os.path.abspath(root)
        os.symlink(os.path.join(root, "tests", "data"), os.path.join(self.folder, "tests", "data"))
        for name in ("deploy", "src"):
            os.symlink(os.path.join(root, name), os.path.join(self.folder, name))
        os.symlink(os.path.abspath(weir), os.path.join(self.scratch, "bin", "weir"))
        env = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_") and not name.endswith("_API_KEY")}
        env.update(PATH=os.path.join(self.scratch, "bin") + ":" + env["PATH"], LC_ALL="C.UTF-8",
                   WEIR_STATE=os.path.join(self.folder, "state"))
        self.shell = Shell(self.folder, self.scratch, env)

    def there(self, text):
        return ADDRESS.sub(lambda match: "127.0.0.1:" + self.ports[match.group(1)], text)

    def back(self, line):
        line = line.replace(self.folder, "~/workshop")
        return re.sub(r"\b(127\.0\.0\.1:|port )(\d+)\b",
                      lambda match: match.group(1) + self.doc_ports.get(match.group(2), match.group(2)), line)

    def save(self, name, language, first, end):
        if "/" in name:
            raise Fault(f"line {first}: the file '{name}' lies in another folder")
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.there("\n".join(self.lines[first:end])) + "\n")
        if language == "sh":
            os.chmod(path, 0o755)

    def printed(self, first, output):
        command = self.there("\n".join([self.lines[first][2:], *self.lines[first + 1 : output]]))
        now = [self.back(line) for line in self.shell.run(command)]
        if re.search(r"&(\s*\w+=\$!)?\s*$", command):
            wait_until_it_listens(command, self.folder)
        return now

    def close(self):
        left = self.shell.close()
        shutil.rmtree(self.scratch, ignore_errors=True)
        return left


def main():
    if len(sys.argv) not in (4, 5) or sys.argv[4:] not in ([], ["--write"]):
        sys.exit(__doc__)
    path, weir, root = sys.argv[1:4]
    failed, told, out, copied = 0, 0, [], 0
    try:
        doc = Run(path, weir, root)
    except Fault as fault:
        print(f"not ok - {path}: {fault}\n1..1")
        return 1
    try:
        for part in doc.parts:
            if part[0] == "file":
                doc.save(*part[1:])
                continue
            _, kind, first, output, end = part
            was, now = doc.lines[output:end], doc.printed(first, output)
            for _ in range(2 if kind == "measured" else 0):
                if difference(was, now, kind):
                    now = doc.printed(first, output)
            differs = difference(was, now, kind)
            what = f"{os.path.basename(path)}, line {first + 1}: {doc.lines[first][2:82].replace('#', '')}"
            print(f"{'not ok' if differs else 'ok'} - {what}", flush=True)
            told += 1
            if differs:
                failed += 1
                print(f"# '{differs[0]}' is now '{differs[1]}'\n# if that is meant: "
                      f"tools/doc_session.py {path} WEIR . --write, and say why in the commit")
                out += doc.lines[copied:output]
                out += [line for line in now if kind == "exact" or line == "" or not BUSY.search(line)]
                copied = end
    except Fault as fault:
        failed, told, copied = failed + 1, told + 1, 0  # nothing is written of half a document
        print(f"not ok - {path}: {fault}")
    finally:
        for command in doc.close():
            failed, told = failed + 1, told + 1
            print(f"not ok - {path}: still running at the end: {command}")
    print(f"1..{told}")
    if len(sys.argv) == 5 and copied:
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(out + doc.lines[copied:]))
        return 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
