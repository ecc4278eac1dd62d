#!/usr/bin/env python3
"""Takes the pictures of the profile's page that docs/ shows.

Usage: tools/viewer_screenshots.py ONE.html TWO.html FOLDER

ONE.html: `serval profile --backend sim -m llama-3.2-1b -n 2 --html ONE.html`. TWO.html: a page of
`serval profile diff … --html TWO.html`.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "viewer"))
import browser  # noqa: E402

WIDTH, HEIGHT = 1360, 780


def take(page, source, picture, keys=(), dark=False):
    """Opens a page, presses keys and saves what is seen."""
    page.prefer(dark=dark)
    page.open(os.path.abspath(source))
    for key in keys:
        page.key(key)
    page.screenshot(picture)
    print(f"{picture}: {os.path.getsize(picture) / 1e3:.0f} KB")


def main(arguments):
    if len(arguments) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    one, two, folder = arguments
    with browser.Browser(WIDTH, HEIGHT) as page:
        take(page, one, f"{folder}/profile_token.png")
        # One instruction on the critical path among its SM's roles, coloured by op.
        take(page, one, f"{folder}/profile_instruction.png", ["g", "c", *[","] * 24, "f", *"ssss"])
        take(page, two, f"{folder}/profile_diff.png", dark=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
