#!/usr/bin/env python3
"""Compares executables on one machine: runs `serval bench` of each in turn, and prints medians beside each other.

usage: benchmarks/in_turn.py EXECUTABLE... [--rounds 3] [--timeout 300] [--json FILE] -- FLAGS [-- FLAGS]...

Each list of FLAGS is one command line of `serval bench` (without --json), for which every executable is run once a round, in
the order given and then the other way round. A row of the table is a test of it; a figure is the median of the rounds'
medians, and behind it the ratio to the first executable's. The exit code is 1 if a command fails.
"""

import argparse
import json
import statistics
import subprocess
import sys

# The figures of a result, one of which it has: with --depth (of the GPU's kernel, if there is one), of other tests, of
# --requests.
UNITS = {
    "us_per_pass_kernel": "us",
    "us_per_pass_total": "us",
    "median_tokens_per_second": "tokens/s",
    "output_throughput": "tokens/s",
}


def command_lines(arguments):
    """Splits arguments at each --: those before the first, and the lists between the others."""
    lists = [[]]
    for argument in arguments:
        if argument == "--":
            lists.append([])
        else:
            lists[-1].append(argument)
    return lists[0], lists[1:]


def figures(output):
    """{(name of a test, unit): figure} of what `serval bench --json` has printed."""
    results = json.loads(output)
    found = {}
    for result in results if isinstance(results, list) else [results]:
        key = next(key for key in UNITS if result.get(key) is not None)
        test = result.get("test", "requests")
        if result.get("batch", 1) > 1:
            test += f" x {result['batch']}"
        found[(test, UNITS[key])] = result[key]
    return found


def run(executable, flags, timeout):
    done = subprocess.run([executable, "bench", *flags, "--json"], capture_output=True, text=True, timeout=timeout, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{executable} bench {' '.join(flags)}: exit code {done.returncode}: {done.stderr.strip()}")
    return figures(done.stdout)


def measure(executables, flags, rounds, timeout):
    """[{test: median of the rounds}] of each executable."""
    found = [{} for _ in executables]
    for number in range(rounds):
        order = list(enumerate(executables))
        for index, executable in order if number % 2 == 0 else reversed(order):
            for test, figure in run(executable, flags, timeout).items():
                found[index].setdefault(test, []).append(figure)
    return [{test: statistics.median(of_rounds) for test, of_rounds in tests.items()} for tests in found]


def print_table(flags, executables, found):
    print(f"serval bench {' '.join(flags)}: {', '.join(executables)}")
    for test, first in found[0].items():
        cells = [f"{first:,.1f}"]
        for tests in found[1:]:
            cells.append(f"{tests[test]:,.1f} ({tests[test] / first:.3f})" if test in tests else "none")
        print(f"  {test[0]}, {test[1]}: " + "  ".join(cells))
    sys.stdout.flush()


def main():
    own, lists = command_lines(sys.argv[1:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("executables", nargs="+")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--timeout", type=float, default=300, help="seconds of one command")
    parser.add_argument("--json", help="a file for all figures")
    options = parser.parse_args(own)
    if not lists or options.rounds < 1:
        parser.error("give the flags of a `serval bench` behind --, and at least one round")
    all_found = []
    for flags in lists:
        try:
            found = measure(options.executables, flags, options.rounds, options.timeout)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            print(f"in_turn.py: {error}", file=sys.stderr)
            return 1
        print_table(flags, options.executables, found)
        all_found.append(
            {
                "flags": flags,
                "figures": [
                    {"executable": executable, "test": test, "unit": unit, "median": figure}
                    for executable, tests in zip(options.executables, found)
                    for (test, unit), figure in tests.items()
                ],
            }
        )
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(all_found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
