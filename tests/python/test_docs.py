"""docs/python_api.md is what the docstrings say; docs/python.md shows code that runs."""

import os
import re
from pathlib import Path

import pytest
import reference

import serval

DOCS = Path(__file__).parents[2] / "docs"


def test_the_reference_has_what_the_docstrings_say() -> None:
    path = DOCS / "python_api.md"
    if os.environ.get("SERVAL_WRITE_DOCS"):
        path.write_text(reference.page(), encoding="utf-8")
    assert path.read_text(encoding="utf-8") == reference.page(), "SERVAL_WRITE_DOCS=1 make test-python writes it"


def test_every_public_name_has_a_docstring() -> None:
    for name in serval.__all__:
        if not name.startswith("__"):
            assert getattr(serval, name).__doc__, name


@pytest.mark.parametrize("page", ["python.md"])
def test_the_first_lines_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), re.DOTALL)[0]
    exec(compile(code, page, "exec"), {})
    assert capsys.readouterr().out
