"""Compiles each block of C++ code of docs/tiles.md; a block that begins with an #include is a file of its own, another one
belongs to the block before.

usage: compile_page.py SOURCE_ROOT COMPILER [OPTION]...
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAGE = "docs/tiles.md"
BLOCK = re.compile(r"^```cpp\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def files_of(page):
    files = []
    for block in BLOCK.findall(page):
        if block.startswith("#include"):
            files.append(block)
        else:
            files[-1] += block
    return files


def main():
    root, command = sys.argv[1], sys.argv[2:]
    files = files_of((Path(root) / PAGE).read_text(encoding="utf-8"))
    if not files:
        sys.exit(f"{PAGE} has no code")
    for number, text in enumerate(files, 1):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / f"example_{number}.cu"
            source.write_text(text, encoding="utf-8")
            run = subprocess.run([*command, f"-I{root}", "-c", "-o", f"{folder}/out.o", str(source)], check=False)
        if run.returncode != 0:
            sys.exit(f"{PAGE}: example {number} does not compile")
    print(f"{len(files)} examples compile")


if __name__ == "__main__":
    main()
