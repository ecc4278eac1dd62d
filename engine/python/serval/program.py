"""Compiled programs: what the GPU's interpreter runs."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any, NamedTuple, Sequence

from serval import _engine, _serval
from serval.trace import Trace


class Violation(NamedTuple):
    """Why a program may not run: the rule, one line, and the records concerned."""

    rule: str
    message: str
    explanation: str


class Program:
    """An immutable program: queues of instructions, the counters they wait for and signal.

    Attributes:
        metadata: model, policy and the like, as text.
        machine: what it is compiled for.
        sms: of all GPUs together.
    """

    def __init__(self, native: _serval.Program) -> None:
        self._native = native
        self.metadata: dict[str, str] = native.metadata
        self.machine: str = native.machine
        self.sms: int = native.sms

    def __len__(self) -> int:
        """Number of instructions."""
        return self._native.instructions

    def __repr__(self) -> str:
        model = self.metadata.get("model", "a model")
        return f"<serval.Program of {model} for {self.machine}: {len(self)} instructions on {self.sms} SMs>"

    def records(self) -> list[dict[str, Any]]:
        """Every instruction, queue by queue: "queue", "pc", "op", "layer" (None: of none), "text", "waits" and
        "signals", which are (counter, threshold) and (counter, increment)."""
        return self._native.records()

    def to_pandas(self) -> Any:
        """`records()` as a pandas DataFrame."""
        return importlib.import_module("pandas").DataFrame(self.records())

    def disassemble(self) -> str:
        """Every queue with every instruction, one a line."""
        return self._native.disassemble()

    def statistics(self, rows: int = 1, cached_tokens: int = 128) -> dict[str, Any]:
        """Counts, bytes and estimated times of a pass (docs/cli.md, `serval schedule --json`)."""
        return dict(json.loads(self._native.statistics(rows, cached_tokens)))

    def validate(
        self, model: str | Path | None = None, *, weights: str = "bf16", lm_head: str = "bf16"
    ) -> Violation | None:
        """None: the program may run in any state, with any timing; with `model`, it also computes that model, with
        weights of these types (as "bf16", "fp8" or "int4")."""
        options = None if model is None else _engine.options_of(str(model), {"weights": weights, "lm_head": lm_head})
        found = self._native.violation(options)
        return None if found is None else Violation(found.rule, found.message, found.explanation)

    def simulate(
        self, sequences: int = 1, context: int = 128, tokens: int = 1, what_if: Sequence[str] = ()
    ) -> Trace:
        """The trace that an H200 would give for `tokens` tokens of each sequence, after `context` cached ones.

        `what_if` changes the simulated GPU: "gb_per_s=6000", "round_factor=x0.5".
        """
        return Trace(self._native.simulate(sequences, context, tokens, list(what_if)))

    def save(self, path: str | Path) -> None:
        """Writes a program file, which `LLM(program=…)` and `serval generate --program` run."""
        self._native.save(str(path))


def compile(
    model: str | Path = "", machine: str = "h200", *, rows: int = 1, cached_tokens: int = 128, **options: Any
) -> Program:
    """Compiles a model to a proven program, without reading its weights.

    Args:
        model: as for `LLM`; a preset's name needs no weights here.
        machine: "h200" or "host".
        rows: tokens that a pass computes together. The program is the one that runs such passes.
        cached_tokens: in the KV cache before them, for the estimates that choose a placement.
        options: as for `LLM`: `context`, `policy`, `sms`, `gpus`, `global_queue`, `batch_invariant`, `weights`, …
    """
    return Program(_serval.compile(_engine.options_of(str(model), options), machine, rows, cached_tokens))


def read_program(path: str | Path) -> Program:
    """Reads a program file. Raises `Error` if it is damaged; `Program.validate()` proves it."""
    return Program(_serval.read_program(str(path)))
