#!/usr/bin/env python3
"""How smooth the profile's page is: opens one in headless Chromium, moves through it, prints what the frames took.

Usage: benchmarks/viewer_frames.py PAGE.html [--scale 2]

`draw` is what the page's own code takes for a frame, `interval` the time from one frame to the next with everything
that the browser adds. Chromium shows at most 60 frames a second: 16.7 ms is as good as it gets. Headless, it has no
GPU to help it. A page of 200,000 slices: build/bin/viewer_pages FOLDER large.
"""

import argparse
import os
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "viewer"))
import browser  # noqa: E402

WIDTH, HEIGHT = 1920, 1080
FRAMES = 120  # of each gesture
# Wraps the page's requests for frames before it makes any; the page itself does not measure.
MEASURE = """
  window.frames_ = [];
  const request = window.requestAnimationFrame.bind(window);
  window.requestAnimationFrame = (draw) => request((now) => {
    const begin = performance.now();
    draw(now);
    frames_.push([now, performance.now() - begin]);
  });
"""
# The gesture before each frame, `i` counting frames, after keys that are pressed first.
GESTURES = {
    "zoom in, rows by role": ("0", "wheel({ deltaY: -20, ctrlKey: true })"),
    "zoom out": ("", "wheel({ deltaY: 20, ctrlKey: true })"),
    "pan, whole token in view": ("0", "wheel({ deltaX: i % 40 < 20 ? 2 : -2 })"),
    "pan, a tenth of it": ("0wwwww", "wheel({ deltaX: 12 })"),
    "zoom in, rows by SM": ("0g", "wheel({ deltaY: -20, ctrlKey: true })"),
    "scroll, rows by SM": ("0", "wheel({ deltaY: 40 })"),
    "point": ("0g", "point(400 + 6 * i, 300 + 3 * i)"),
    "recolour": ("", "key('c')"),
}
HELPERS = """
  const chart = document.querySelector('.chart');
  const common = { clientX: 700, clientY: 500, bubbles: true, cancelable: true };
  const wheel = (more) => chart.dispatchEvent(new WheelEvent('wheel', { ...common, ...more }));
  const point = (x, y) => chart.dispatchEvent(new PointerEvent('pointermove', { ...common, clientX: x, clientY: y }));
  const key = (name) => chart.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
"""


def take(page, keys, action):
    """Draw times and intervals of a gesture's frames, ms."""
    for key in keys:
        page.key(key)
    page.evaluate("frames_.splice(0)")
    page.evaluate(f"""(async () => {{
        {HELPERS}
        for (let i = 0; i < {FRAMES}; ++i) {{
          {action};
          await new Promise((next) => requestAnimationFrame(next));
        }}
    }})()""")
    frames = page.evaluate("frames_.splice(0)")
    starts = sorted({now for now, _ in frames})
    # Callbacks of one frame share its time; the loop's own is one of them.
    draws = [sum(took for now, took in frames if now == start) for start in starts]
    return draws, [after - before for before, after in zip(starts, starts[1:])]


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", metavar="PAGE.html")
    parser.add_argument("--scale", type=float, default=1, help="device pixels a CSS pixel. Default: 1")
    arguments = parser.parse_args()
    if browser.find() is None:
        parser.exit(1, "viewer_frames: no Chromium on this machine: tools/install_packages.sh test\n")
    with browser.Browser(WIDTH, HEIGHT, arguments.scale) as page:
        page.prefer(calm=True)  # a gesture's frame is its end, not a part of a motion
        page.page("Page.addScriptToEvaluateOnNewDocument", source=MEASURE)
        begin = time.monotonic()
        page.open(os.path.abspath(arguments.page))
        print(f"{arguments.page}: {os.path.getsize(arguments.page) / 1e6:.2f} MB, "
              f"{WIDTH} × {HEIGHT} at {arguments.scale:g}, open after {time.monotonic() - begin:.2f} s")
        print(f"{'ms':<28}{'draw':>8}{'95 %':>8}{'worst':>8}{'interval':>10}{'95 %':>8}")
        for name, (keys, action) in GESTURES.items():
            draws, intervals = take(page, keys, action)
            print(f"{name:<28}{statistics.median(draws):>8.1f}{percentile(draws, 0.95):>8.1f}{max(draws):>8.1f}"
                  f"{statistics.median(intervals):>10.1f}{percentile(intervals, 0.95):>8.1f}")


if __name__ == "__main__":
    main()
