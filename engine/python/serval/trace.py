"""Traces: when each SM did what, in reports and pictures."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

from serval import _serval


class Trace:
    """One or several tokens as a GPU, the host or the simulator ran them. In a notebook it shows its Gantt chart.

    Attributes:
        metadata: model, policy, context and the like, as text.
        source: "host", "device" or "sim".
        tokens: that it has.
    """

    def __init__(self, native: _serval.Trace) -> None:
        self._native = native
        self.metadata: dict[str, str] = native.metadata
        self.source: str = native.source
        self.tokens: int = native.tokens

    def __repr__(self) -> str:
        return f"<serval.Trace of {self.metadata.get('model', 'a program')} ({self.source}): {self.tokens} tokens>"

    def report(self) -> str:
        """Where a token's time goes, as text: `serval profile --report`."""
        return self._native.report_text()

    def figures(self) -> dict[str, Any]:
        """The same as numbers: `serval profile --json`."""
        return dict(json.loads(self._native.report_json()))

    def diff(self, after: Trace) -> str:
        """What became slower and what faster from this trace to `after`."""
        return self._native.diff_text(after._native)

    def diff_figures(self, after: Trace) -> dict[str, Any]:
        """The same as numbers."""
        return dict(json.loads(self._native.diff_json(after._native)))

    def html(self) -> str:
        """A page of its own with the Gantt chart of all SMs, the critical path and tables."""
        return self._native.html(repr(self))

    def save(self, path: str | Path) -> None:
        """Writes Chrome trace events to FILE.json or FILE.json.gz, or the page to FILE.html."""
        if str(path).endswith(".html"):
            Path(path).write_text(self.html(), encoding="utf-8")
        else:
            self._native.save(str(path))

    def _repr_html_(self) -> str:
        page = base64.b64encode(self.html().encode()).decode()
        return f'<iframe src="data:text/html;base64,{page}" width="100%" height="640" style="border:0"></iframe>'


def read_trace(path: str | Path) -> Trace:
    """Reads a trace that `save()`, `serval profile --trace` or `LLM.profile()` wrote."""
    return Trace(_serval.read_trace(str(path)))
