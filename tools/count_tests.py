#!/usr/bin/env python3
"""Counts tests, for ./test.

  count_tests.py meson TESTLOG.json COUNTS   adds Meson's tests, each TAP case for itself; prints failures
  count_tests.py node TAP.log COUNTS         adds what node's test runner reported
  count_tests.py sum COUNTS                  prints `N passed, N failed` as the last line; 1 if any failed

COUNTS has a line "passed failed skipped" for each part. Python is there because Meson needs it.
"""
import json
import re
import sys

TAP_CASE = re.compile(r"^(not )?ok\b(.*)$")


def tap_cases(text):
    """passed, failed, skipped of TAP's top-level cases."""
    passed = failed = skipped = 0
    for line in text.splitlines():
        case = TAP_CASE.match(line)
        if not case:
            continue
        if re.search(r"#\s*skip", case.group(2), re.IGNORECASE):
            skipped += 1
        elif case.group(1):
            failed += 1
        else:
            passed += 1
    return passed, failed, skipped


def count_meson(path):
    total = [0, 0, 0]
    try:
        lines = open(path, encoding="utf-8", errors="replace").read().splitlines()
    except OSError as error:
        print(f"not ok - no results of the unit tests: {error}")
        return [0, 1, 0]
    for line in lines:
        test = json.loads(line)
        output = test.get("stdout") or ""
        counts = list(tap_cases(output))
        result = test.get("result", "")
        if result == "EXPECTEDFAIL":
            counts = [1, 0, 0]  # it had to fail, whatever its cases say
        elif result == "OK":
            if sum(counts) == 0:
                counts[0] = 1
        elif result == "SKIP":
            if sum(counts) == 0:
                counts[2] = 1
        elif counts[1] == 0:
            counts[1] = 1  # crashed, timed out, or a sanitizer spoke at exit
        if counts[1]:
            print(f"not ok - {test.get('name')} ({result}, status {test.get('returncode')})")
            tail = (output + "\n" + (test.get("stderr") or "")).strip().splitlines()
            for text in [t for t in tail if not t.startswith("ok ")][-60:]:
                print("   " + text)
        total = [a + b for a, b in zip(total, counts)]
    if sum(total) == 0:
        print("not ok - the unit tests ran nothing")
        total[1] = 1
    return total


def count_node(path):
    text = open(path, encoding="utf-8", errors="replace").read()
    found = {key: int(value) for key, value in
             re.findall(r"^# (pass|fail|cancelled|skipped|todo) (\d+)$", text, re.MULTILINE)}
    if "pass" not in found:
        return [0, 1, 0]  # the runner itself died
    return [found["pass"], found.get("fail", 0) + found.get("cancelled", 0),
            found.get("skipped", 0) + found.get("todo", 0)]


def main():
    if len(sys.argv) == 4 and sys.argv[1] in ("meson", "node"):
        counts = (count_meson if sys.argv[1] == "meson" else count_node)(sys.argv[2])
        with open(sys.argv[3], "a", encoding="ascii") as out:
            out.write("%d %d %d\n" % tuple(counts))
        print("%d passed, %d failed, %d skipped here" % tuple(counts))
        return 0
    if len(sys.argv) == 3 and sys.argv[1] == "sum":
        rows = [[int(n) for n in row.split()] for row in open(sys.argv[2], encoding="ascii")]
        passed, failed, skipped = (sum(column) for column in zip(*rows)) if rows else (0, 0, 0)
        if passed == 0:
            failed += 1  # a run that tested nothing has not passed
        print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        return 1 if failed else 0
    print(__doc__, file=sys.stderr)
    return 2


sys.exit(main())
