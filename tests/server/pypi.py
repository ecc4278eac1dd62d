"""Installs the packages from PyPI that tests need into the build folder (SERVAL_TEST_PYPI), once."""

import os
import subprocess
import sys
from pathlib import Path

SKIPPED = 77  # SKIP_RETURN_CODE in CMakeLists.txt
REQUIREMENTS = Path(__file__).parent / "requirements.txt"


def fetch():
    """Makes the packages of requirements.txt importable. If pip fails, prints why and ends the test as skipped."""
    folder = Path(os.environ.get("SERVAL_TEST_PYPI", "build/pypi"))
    sys.path.insert(0, str(folder))
    marker = folder / "installed.txt"
    if marker.exists() and marker.read_text() == REQUIREMENTS.read_text():
        return
    hurry = ["--retries", "1", "--timeout", "20"]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", *hurry, "--target", folder, "--upgrade", "-r", REQUIREMENTS]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode != 0:
        names = ", ".join(REQUIREMENTS.read_text().split())
        print(f"SKIPPED: cannot install {names} from PyPI: {done.stderr.strip()[-300:]}")
        sys.exit(SKIPPED)
    marker.write_text(REQUIREMENTS.read_text())
