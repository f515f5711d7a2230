#!/usr/bin/env python3
"""Holds hot paths to the instructions they took when they were last measured.

  test_instructions.py BENCH-FOLDER TABLE [COUNTS]     one TAP line a row of the table; status 1 if any failed
  test_instructions.py BENCH-FOLDER TABLE --write      writes what it measures into the table

A row of the table is `program | row | count | instructions`. Each program does a row's work `count` and 3 x `count`
times under callgrind; half the difference, divided by `count`, is what one unit of work takes, start-up left out. Unlike
a time, that does not depend on the machine's load. More than 6 % above the table is a failure; so is more than 15 %
below it, because then the table no longer guards what was won. COUNTS: see count_tests.py.
"""
import re
import subprocess
import sys

ABOVE, BELOW = 1.06, 0.85


def instructions(command):
    run = subprocess.run(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command],
                         capture_output=True, text=True, timeout=300)
    total = re.search(r"Collected : (\d+)", run.stderr)
    if run.returncode != 0 or not total:
        raise RuntimeError(f"{' '.join(command)}: status {run.returncode}\n{run.stdout}{run.stderr}")
    return int(total.group(1))


def measure(folder, program, row, count):
    command = [f"{folder}/{program}", *row.split(" :: ")]
    few, many = (instructions([*command, str(n)]) for n in (count, 3 * count))
    return (many - few) / (2 * count)


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    folder, table = sys.argv[1:3]
    writes = sys.argv[3:] == ["--write"]
    lines, passed, failed = [], 0, 0
    for line in open(table, encoding="utf-8"):
        if line.startswith("#") or not line.strip():
            lines.append(line)
            continue
        program, row, count, wanted = (part.strip() for part in line.split("|"))
        try:
            seen = measure(folder, program, row, int(count))
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"not ok - {program}: {row}: {error}")
            failed += 1
            lines.append(line)  # --write keeps what it could not measure
            continue
        lines.append(f"{program} | {row} | {count} | {seen:.0f}\n")
        if writes:
            print(f"{program}: {row}: {seen:.0f} (was {wanted})")
            continue
        share = seen / float(wanted)
        if BELOW <= share <= ABOVE:
            print(f"ok - {program}: {row}: {seen:.0f} instructions")
            passed += 1
        else:
            print(f"not ok - {program}: {row}: {seen:.0f} instructions, {share - 1:+.1%} against {wanted} in {table}.\n"
                  f"#   If that is meant: tools/test_instructions.py {folder} {table} --write, and say why in the commit")
            failed += 1
    if writes:
        open(table, "w", encoding="utf-8").writelines(lines)
    elif len(sys.argv) > 3:
        with open(sys.argv[3], "a", encoding="utf-8") as counts:
            counts.write(f"{passed} {failed} 0\n")
    sys.exit(1 if failed else 0)


main()
