#!/usr/bin/env python3
"""doc_session_test.py DOC_SESSION WEIR: what the runner of documents lets pass, and what it does not. TAP."""
import os
import subprocess
import sys
import tempfile

TOOL, WEIR = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
CASES = []


def case(function):
    CASES.append(function)
    return function


def session(text, *flags):
    """Status, what was said, and the document afterwards, with ~ for the fences' three quotes."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "doc.md")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("~~~", "```"))
        done = subprocess.run([sys.executable, TOOL, path, WEIR, folder, *flags], text=True, timeout=50,
                              capture_output=True, check=False)
        with open(path, encoding="utf-8") as file:
            return done.returncode, done.stdout + done.stderr, file.read().replace("```", "~~~")


def status(text):
    return session(text)[0]


def console(kind, printed, said):
    """A block whose command prints one thing where the document has another."""
    return f"~~~console{kind}\n$ printf '%s\\n' '{printed}'\n{said}\n~~~\n"


@case
def what_a_command_prints__is_compared_to_the_byte():
    assert status(console("", "17 requests", "17 requests")) == 0
    assert status(console("", "17 requests", "18 requests")) == 1
    assert status(console("", "17  requests", "17 requests")) == 1
    assert status("~~~console\n$ true\nmore than there is\n~~~\n") == 1
    assert status("~~~console\n$ echo less\n~~~\n") == 1


@case
def times__differ_by_a_factor_of_two__and_counts_not_at_all():
    assert status(console(" times", "14 x 200 in 2.9 s", "14 x 200 in 1.6 s")) == 0
    assert status(console(" times", "14 x 200 in 3.9 s", "14 x 200 in 1.6 s")) == 1
    assert status(console(" times", "0.91 s", "0.02 s")) == 0
    assert status(console(" times", "1.91 s", "0.02 s")) == 1
    assert status(console(" times", "14 200", "13 200")) == 1
    assert status(console(" times", "14 200", "14 429")) == 1
    assert status(console(" times", "872 ms", "1.31 s")) == 0
    assert status(console(" times", "was refused in 1 s", "was answered in 1 s")) == 1
    assert status(console(" times", "2026-11-30T13:43:09Z by 3e12e1b4a1", "2027-01-01T00:00:00Z by 93ab01cd5f")) == 0
    assert status(console(" times", "at http://127.0.0.1:45033", "at http://127.0.0.1:7")) == 0
    assert status(console(" times", "2 of 7 noticeably; at most 2 at once", "6 of 7 noticeably; at most 3 at once")) == 0
    assert status(console(" times", "2 of 7 noticeably", "2 of 8 noticeably")) == 1


@case
def measurements__agree_by_their_shape():
    assert status(console(" measured", "16 1023 ok", "16  900 ok")) == 0
    assert status(console(" measured", "16 1023 ok", "16 400 ok")) == 1
    assert status(console(" measured", "16 1023 99 ok", "16 400 99 ok")) == 0  # one of three
    assert status(console(" measured", "16 1023 99 ok", "16 400 9 ok")) == 1
    assert status(console(" measured", "16 1023 429 x6", "16 1023 ok")) == 1
    assert status(console(" measured", "This machine was busy itself: late by up to 7.5 ms", "").replace("\n\n~", "\n~")) == 0


@case
def a_measurement_that_is_off__is_taken_again():
    text = "~~~console measured\n$ echo x >>n; test $(wc -l <n) -gt 1 && echo 10 || echo 99\n10\n~~~\n"
    assert status(text) == 0
    assert status(text.replace(" measured", "")) == 1


@case
def files_variables_and_long_commands__are_what_a_reader_has():
    assert status("~~~sh say\n#!/bin/sh\necho said $1\n~~~\n~~~console\n$ word=two\n$ ./say \\\n    $word |\n"
                  "    sed s/said/heard/\nheard two\n~~~\n") == 0
    assert status("~~~console\n$ pwd\n~/workshop\n~~~\n") == 0
    assert status("~~~sh ../say\n~~~\n") == 1


@case
def a_port_of_the_document__is_a_free_one_here():
    text = ("~~~console times\n$ weir mock --listen 127.0.0.1:8777 >log 2>&1 & mock=$!\n$ cat log\n"
            "weir mock 0.1.0 listens on port 8777\n$ curl -s http://127.0.0.1:8777/mock/stats | grep -c requests\n1\n"
            "$ kill $mock; wait $mock\n~~~\n")
    two = [subprocess.Popen([sys.executable, __file__, TOOL, WEIR, "--only", text], stdout=subprocess.DEVNULL)
           for _ in range(2)]
    assert [one.wait(timeout=50) for one in two] == [0, 0]


@case
def what_is_left_running__fails_and_is_ended():
    code, said, _ = session("~~~console\n$ sleep 321 & echo $! >&3\n~~~\n".replace(" >&3", " >pid"))
    assert code == 1 and "still running at the end: " in said, said
    found = subprocess.run(["pgrep", "-fx", "sleep 321"], capture_output=True, check=False).stdout
    assert found == b"", found


@case
def a_command_that_ends_the_shell__is_told():
    for command in ("exit 3", "if"):
        code, said, _ = session(f"~~~console\n$ {command}\n~~~\n")
        assert code == 1 and "ended the shell" in said, said


@case
def a_block_that_cannot_be__is_told_with_its_line():
    for text, told in (("~~~console live\n$ true\n~~~\n", "line 1: a console block is plain"),
                       ("\n~~~console\noutput\n~~~\n", "line 3: a console block begins"),
                       ("~~~console\n$ true\n", "line 1: a block without an end")):
        code, said, _ = session(text)
        assert code == 1 and told in said, said


@case
def write__changes_only_what_no_longer_agrees():
    text = console(" times", "2.0 s", "1.9 s") + console("", "old", "new") + "the end\n"
    code, _, now = session(text, "--write")
    assert code == 0 and now == console(" times", "2.0 s", "1.9 s") + console("", "old", "old") + "the end\n", now


def main():
    if sys.argv[3:4] == ["--only"]:
        return status(sys.argv[4])
    failed = 0
    for function in CASES:
        try:
            function()
            print(f"ok - doc_session__{function.__name__}")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            line = error.__traceback__.tb_next.tb_lineno if error.__traceback__.tb_next else error.__traceback__.tb_lineno
            print(f"not ok - doc_session__{function.__name__}\n# line {line}: {error}")
    print(f"1..{len(CASES)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
