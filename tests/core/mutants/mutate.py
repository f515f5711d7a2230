"""mutate.py INPUT OUTPUT OLD NEW [OLD NEW]...: a copy of a source file with something broken in it.

Each OLD must be found exactly once; else nothing is written and the build fails, so that a mutant
whose line has changed is mended rather than forgotten."""
import sys


def main():
    source, target, *edits = sys.argv[1:]
    with open(source, encoding='utf-8') as file:
        text = file.read()
    for old, new in zip(edits[::2], edits[1::2], strict=True):
        found = text.count(old)
        if found != 1:
            sys.exit(f'{source}: what a mutant replaces is there {found} times, not once:\n{old}\n'
                     'Mend its entry in tests/core/mutants/meson.build.')
        text = text.replace(old, new)
    with open(target, 'w', encoding='utf-8') as file:
        file.write(f'#line 1 "{source}"\n' + text)


main()
