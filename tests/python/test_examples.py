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


def test_train_and_update(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    pytest.importorskip("transformers", reason="transformers is not installed")
    lines = run(tmp_path, "train_and_update.py", "20").splitlines()
    nats = [float(line.split(": ")[1].split()[0]) for line in lines if " nats a token" in line]
    assert len(nats) == 3 and nats[0] > nats[1] > nats[2]
    theirs, ours = (float(part.split(": ")[1]) for part in lines[-2].replace("PyTorch, ", "").split("; Serval, "))
    assert abs(theirs - ours) < 0.02
    assert lines[-1] == "the story has changed"


def test_types_are_complete(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    check = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path)]
    for what in (["-p", "serval"], *([str(example)] for example in sorted(EXAMPLES.glob("*.py")))):
        result = subprocess.run([*check, *what], capture_output=True, text=True, timeout=280, cwd=tmp_path)
        assert result.returncode == 0, result.stdout
