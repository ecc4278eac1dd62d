#!/usr/bin/env python3
"""Draws how a layer crosses the link between two GPUs, as docs/several_gpus.md shows it.

Usage: tools/layer_picture.py TRACE PICTURE.svg [LAYER]

TRACE: what `serval profile -m llama-3.1-8b --random-weights 1 --gpus 2 --trace TRACE` wrote. LAYER: 16 unless given. For each
GPU a band has the SMs whose consumers compute, by op; between the bands a line leads from each signal that another GPU
waits for to the first SM there that has seen it and all else it needed; the graph below has what each GPU pushes.
"""

import gzip
import json
import sys
from collections import defaultdict

WIDTH, LEFT, RIGHT = 900, 84, 12
TOP, BAND, LINK, GRAPH, GAP = 56, 110, 84, 46, 22
BIN_NS = 250
COLOURS = {"qkv_rope": "#4a78b5", "attention": "#c98a1b", "attention_merge": "#e3b95f", "matvec_push": "#3f8f5b",
           "reduce_residual": "#b3446c", "gate_up_silu": "#7d6bb0"}
OTHER = "#9aa3ad"
OF_GPU = ["#1f5fbf", "#b3261e"]


class Trace:
    """The data of a trace file that the picture needs; profiling.md lists the members."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        root = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        self.head = root["serval"]
        if self.head.get("ranks") != 2:
            raise SystemExit(f"{path}: ranks: {self.head.get('ranks', 1)}; the picture is of two")
        self.sms = self.head["machine"]["sms"] // 2
        self.instructions = root["servalInstructions"]
        self.executions = root["servalExecutions"]
        self.column = {name: 7 + n for n, name in enumerate(self.head["events"])}

    def time(self, execution, event):
        return execution[self.column[event]]

    def op(self, execution):
        return self.head["ops"][self.instructions[execution[0]][0]]

    def layer(self, execution):
        return self.instructions[execution[0]][1]

    def rank(self, execution):
        return execution[2] // self.sms

    def span(self, layer):
        """From the layer's first product to the next one's."""
        begins = [min((self.time(x, "compute_begin") for x in self.executions
                       if self.op(x) == "qkv_rope" and self.layer(x) == n and self.time(x, "compute_begin") >= 0), default=None)
                  for n in (layer, layer + 1)]
        if None in begins:
            raise SystemExit(f"layer {layer}: not one with another behind it")
        return begins[0] - 1000, begins[1] + 4000

    def computing(self, begin, end):
        """[rank][op][bin]: SMs whose consumers compute, on average."""
        bins = (end - begin) // BIN_NS + 1
        out = [defaultdict(lambda: [0.0] * bins) for _ in range(2)]
        for x in self.executions:
            first = max(begin, self.time(x, "compute_begin") + x[6])
            spread(out[self.rank(x)][self.op(x)] if self.time(x, "compute_begin") >= 0 else None, begin, first,
                   min(end, self.time(x, "compute_end")), 1)
        return out

    def pushed(self, begin, end):
        """[rank][bin]: GB/s that it pushes."""
        bins = (end - begin) // BIN_NS + 1
        out = [[0.0] * bins for _ in range(2)]
        pushes = defaultdict(int)
        for instruction, _, size, _ in self.head["pushes"]:
            pushes[instruction] += size
        for x in self.executions:
            first, last = self.time(x, "store_begin"), self.time(x, "stored")
            if not pushes[x[0]] or first < begin or last > end:
                continue
            spread(out[self.rank(x)], begin, min(first, last - 1), last, pushes[x[0]] / max(1, last - first))
        return out

    def crossings(self, begin, end):
        """(op, rank that sends, sent, first seen with all else that is needed) of each counter by which the other GPU
        waits for data: what pushes signals it."""
        pushing = {self.instructions[i][0] for i, *_ in self.head["pushes"]}
        sent = defaultdict(lambda: (-1, None))  # by pass, counter and rank
        for x in self.executions:
            i = self.instructions[x[0]]
            if i[0] not in pushing:
                continue
            for counter, _ in self.head["signals"][i[8]:i[8] + i[9]]:
                key = x[1], counter, self.rank(x)
                sent[key] = max(sent[key], (self.time(x, "signalled"), self.op(x)))
        seen = {}
        for x in self.executions:
            i = self.instructions[x[0]]
            for counter, threshold, _ in self.head["waits"][i[6]:i[6] + i[7]]:
                # Waits for all of this pass: those for the one before have no data.
                key = x[1], counter, 1 - self.rank(x)
                if threshold == self.head["increments_per_pass"][counter] and sent[key][0] >= 0:
                    seen[key] = min(seen.get(key, self.time(x, "inputs_ready")), self.time(x, "inputs_ready"))
        return sorted((sent[key][1], key[2], sent[key][0], at) for key, at in seen.items()
                      if begin <= sent[key][0] and at <= end and sent[key][0] <= at)


def spread(bins, begin, first, last, rate):
    """Adds `rate` to the bins of a stretch of time, each by its share."""
    if bins is None or last <= first:
        return
    for b in range((first - begin) // BIN_NS, (last - 1 - begin) // BIN_NS + 1):
        if 0 <= b < len(bins):
            low, high = begin + b * BIN_NS, begin + (b + 1) * BIN_NS
            bins[b] += rate * (min(high, last) - max(low, first)) / BIN_NS


def steps(values, x_of, y_of):
    """A path along the tops of bins, of whole pixels."""
    out = []
    for b, value in enumerate(values):
        y = round(y_of(value), 1)
        if not out or out[-1][1] != y:
            out.append((x_of(b), y))
    return "".join(f"{'L' if n == 0 else 'H'}{x:.1f}{f' {y:g}' if n == 0 else f'V{y:g}'}" for n, (x, y) in enumerate(out))


def area(values, base, x_of, y_of, floor_of):
    """Between `base` and `base + values`."""
    tops = [b + v for b, v in zip(base, values)]
    x0, x1 = x_of(0), x_of(len(values))
    points = [(x0, floor_of(0))]
    path = f"M{x0:.1f} {y_of(tops[0]):.1f}" + steps(tops, x_of, y_of) + f"H{x1:.1f}V{y_of(base[-1]):.1f}"
    for b in range(len(values) - 1, -1, -1):
        y = round(y_of(base[b]), 1)
        if points[-1][1] != y:
            path += f"H{x_of(b + 1):.1f}V{y:g}"
            points.append((x_of(b), y))
    return path + f"H{x0:.1f}Z"


def text(x, y, words, **attributes):
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in attributes.items())
    return f'<text x="{x:g}" y="{y:g}"{more}>{words}</text>'


def picture(trace, layer):
    begin, end = trace.span(layer)
    per_ns = (WIDTH - LEFT - RIGHT) / (end - begin)
    x_at = lambda ns: LEFT + (ns - begin) * per_ns
    x_of = lambda b: min(WIDTH - RIGHT, x_at(begin + b * BIN_NS))
    tops = [TOP, TOP + BAND + LINK]
    graph = tops[1] + BAND + GAP
    height = graph + GRAPH + 34
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" '
           'font-size="12" fill="#14212b" role="img" aria-labelledby="title">',
           f'<title id="title">Layer {layer} on two GPUs: what their SMs compute, and what crosses the link</title>',
           f'<rect width="{WIDTH}" height="{height}" rx="8" fill="#fff"/>']
    computing = trace.computing(begin, end)
    drawn = [op for op in trace.head["ops"] if any(any(of_rank.get(op, ())) for of_rank in computing)]
    x = LEFT
    for op in drawn:
        out += [f'<rect x="{x}" y="14" width="11" height="11" fill="{COLOURS.get(op, OTHER)}"/>', text(x + 16, 24, op)]
        x += 34 + 7 * len(op)
    for rank, top in enumerate(tops):
        y_of = lambda sms, top=top: top + BAND * (1 - sms / trace.sms)
        base = [0.0] * len(next(iter(computing[rank].values())))
        out.append(f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - RIGHT}" height="{BAND}" fill="#f3f4f6"/>')
        for op in drawn:
            values = computing[rank].get(op)
            if values:
                out.append(f'<path d="{area(values, base, x_of, y_of, y_of)}" fill="{COLOURS.get(op, OTHER)}"/>')
                base = [b + v for b, v in zip(base, values)]
        out += [text(LEFT - 8, top + BAND / 2 - 2, f"GPU {rank}", text_anchor="end", font_weight="bold", fill=OF_GPU[rank]),
                text(LEFT - 8, top + BAND / 2 + 14, f"{trace.sms} SMs", text_anchor="end", fill="#5b6675")]
    out.append(text(LEFT - 8, TOP + BAND + LINK / 2 + 4, "link", text_anchor="end", fill="#5b6675"))
    lines = defaultdict(str)
    for op, rank, sent, seen in trace.crossings(begin, end):
        y0, y1 = (TOP + BAND, tops[1]) if rank == 0 else (tops[1], TOP + BAND)
        lines[op] += f"M{x_at(sent):.1f} {y0}L{x_at(seen):.1f} {y1}"
    for op, path in lines.items():
        out.append(f'<path d="{path}" stroke="{COLOURS.get(op, OTHER)}" stroke-width=".8" opacity=".6"/>')
    pushed = trace.pushed(begin, end)
    most = max(max(values) for values in pushed) or 1
    y_of = lambda gb: graph + GRAPH * (1 - gb / most)
    out.append(f'<path d="M{LEFT} {graph + GRAPH}H{WIDTH - RIGHT}" stroke="#9aa3ad" fill="none"/>')
    for rank, values in enumerate(pushed):
        out.append(f'<path d="M{LEFT} {graph + GRAPH}{steps(values, x_of, y_of)}H{WIDTH - RIGHT}" stroke="{OF_GPU[rank]}" '
                   'fill="none"/>')
    out += [text(LEFT - 8, graph + GRAPH / 2 - 2, "pushed", text_anchor="end"),
            text(LEFT - 8, graph + GRAPH / 2 + 14, f"to {most:.0f} GB/s", text_anchor="end", fill="#5b6675")]
    for tick in range(0, int((end - begin) / 1000), 10):
        out += [f'<path d="M{x_at(begin + tick * 1000):.1f} {TOP}V{graph + GRAPH}" stroke="#14212b" opacity=".12"/>',
                text(x_at(begin + tick * 1000), height - 14, f"{tick} µs", text_anchor="middle", fill="#5b6675")]
    return "\n".join([*out, "</svg>", ""])


def main(arguments):
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    drawn = picture(Trace(arguments[0]), int(arguments[2]) if len(arguments) == 3 else 16)
    with open(arguments[1], "w", encoding="utf-8") as file:
        file.write(drawn)
    print(f"{arguments[1]}: {len(drawn.encode()) / 1e3:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
