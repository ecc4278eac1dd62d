"""Compiles each case of must_not_compile.cu: case 0 must compile, the others must not, with the message that stands
beside them, and with errors of that kind alone.

usage: must_not_compile.py SOURCE_ROOT COMPILER [OPTION]...
"""

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FILE = "tests/kernels/must_not_compile.cu"
CASE = re.compile(r"^#(?:el)?if SERVAL_CASE == (\d+)\s*// (.*)$", re.MULTILINE)
ERROR = re.compile(r"\berror\b[^:]*: (.*)")


def compile_case(root, command, case):
    """The exit code and what the compiler printed."""
    run = subprocess.run(
        [*command, f"-DSERVAL_CASE={case}", f"-I{root}", "-cubin", "-o", "/dev/null", FILE],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def fault_of(case, message, code, output):
    """What is wrong with a case's result; None if nothing is."""
    if case == 0:
        return None if code == 0 else f"the case without a mistake does not compile:\n{output}"
    if code == 0:
        return "it compiles"
    errors = ERROR.findall(output)
    if not errors or message not in errors[0]:
        return f"the first error is not {message!r}:\n{output}"
    return None


def main():
    root, command = sys.argv[1], sys.argv[2:]
    cases = [(0, "")] + [(int(n), message) for n, message in CASE.findall((Path(root) / FILE).read_text(encoding="utf-8"))]
    if len(cases) < 10:
        sys.exit(f"{FILE}: {len(cases)} cases were found")
    faults = 0
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = pool.map(lambda case: compile_case(root, command, case[0]), cases)
        for (case, message), (code, output) in zip(cases, results):
            fault = fault_of(case, message, code, output)
            print(f"case {case}: {fault or 'ok: ' + (message or 'compiles')}")
            faults += fault is not None
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
