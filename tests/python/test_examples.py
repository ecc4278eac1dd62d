"""The examples of examples/python run as they are; mypy accepts them."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples" / "python"


def run(tmp_path: Path, name: str, *arguments: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_first_lines(tmp_path: Path) -> None:
    assert run(tmp_path, "first_lines.py").count("Once upon a time, there was a little robot") == 2


def test_many_prompts(tmp_path: Path) -> None:
    assert "100 prompts, 1600 tokens" in run(tmp_path, "many_prompts.py", "100")


def test_program_and_gantt(tmp_path: Path) -> None:
    assert "us a token" in run(tmp_path, "program_and_gantt.py", "token.html")
    assert (tmp_path / "token.html").stat().st_size > 100_000


def test_types_are_complete(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    for what in (["-p", "serval"], *([str(example)] for example in sorted(EXAMPLES.glob("*.py")))):
        result = subprocess.run([*check, *what], capture_output=True, text=True, timeout=280, cwd=tmp_path)
        assert result.returncode == 0, result.stdout
