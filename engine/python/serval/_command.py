"""The `serval` command: the executable that the package contains."""

import os
import sys
from pathlib import Path


def main() -> None:
    executable = Path(__file__).parent / "bin" / "serval"
    os.execv(executable, [str(executable), *sys.argv[1:]])
