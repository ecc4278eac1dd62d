"""The machine code of an executable has no trap.

nvcc writes one where it finds undefined behaviour, such as the address of a constant that only the host has, and drops the
code after it.

usage: no_traps.py CUOBJDUMP EXECUTABLE
"""

import subprocess
import sys


def main():
    cuobjdump, executable = sys.argv[1:]
    lines = 0
    function = "?"
    trapped = set()
    with subprocess.Popen([cuobjdump, "-sass", executable], stdout=subprocess.PIPE, text=True) as dump:
        for line in dump.stdout:
            lines += 1
            if "Function :" in line:
                function = line.split(":", 1)[1].strip()
            elif "BPT.TRAP" in line:
                trapped.add(function)
    if dump.returncode != 0 or lines < 1000:
        sys.exit(f"{cuobjdump} -sass {executable}: exit code {dump.returncode}, {lines} lines")
    for name in sorted(trapped):
        print(f"{name}: BPT.TRAP")
    sys.exit(1 if trapped else 0)


if __name__ == "__main__":
    main()
