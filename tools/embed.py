#!/usr/bin/env python3
"""embed.py OUT.c FILE.yaml ...: the files as one table of C texts, named by their file names.

The table is `lab_scenarios` of src/cli/lab_setup.h: default first, the others by name."""
import os
import sys


def main():
    out, files = sys.argv[1], sys.argv[2:]
    named = sorted((os.path.splitext(os.path.basename(f))[0], f) for f in files)
    named.sort(key=lambda pair: pair[0] != "default")
    lines = ["/* Written by tools/embed.py. */", '#include "cli/lab_setup.h"', ""]
    for number, (_, path) in enumerate(named):
        with open(path, "rb") as file:
            text = file.read()
        lines.append(f"static const unsigned char text_{number}[] = {{")
        for at in range(0, len(text), 20):
            lines.append("".join(f"{byte}," for byte in text[at:at + 20]))
        lines.append("0};")  # a NUL behind it, which does not count
    lines.append("const struct lab_scenario_text lab_scenarios[] = {")
    for number, (name, _) in enumerate(named):
        lines.append(f'    {{"{name}", (const char *)text_{number}, sizeof text_{number} - 1}},')
    lines.append("};")
    lines.append("const size_t lab_scenarios_count = WEIR_COUNT(lab_scenarios);")
    with open(out, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
