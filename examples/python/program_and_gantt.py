"""Compile Llama-3.2-1B for an H200 without its weights, look at the program, simulate a token, draw it."""

import collections
import sys

import serval

program = serval.compile("llama-3.2-1b")
print(program)
assert program.validate() is None  # proven: no race, no deadlock, in any state

records = program.records()
print(collections.Counter(record["op"] for record in records).most_common(5))
print("first of SM 0:", records[0]["text"])

trace = program.simulate(context=1024)
faster_memory = program.simulate(context=1024, what_if=["gb_per_s=6000"])
print(f"simulated: {trace.figures()['median_token_ns'] / 1000:.0f} us a token")
print(trace.diff(faster_memory))

page = sys.argv[1] if len(sys.argv) > 1 else "token.html"
trace.save(page)  # in a notebook, `trace` as a cell's last line shows the same
print("Gantt chart:", page)
