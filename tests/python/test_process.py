"""What belongs to the process: forks, the interpreter's end, memory, the command."""

import gc
import os
import resource
import subprocess
import sys

import pytest

from serval import LLM, Error, SamplingParams


def run(code: str, timeout: float = 120) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)


def test_a_forked_process_gets_an_error(llm: LLM) -> None:
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            llm.generate("A", SamplingParams(max_tokens=1))
            os.write(write, b"no error")
        except Error as error:
            os.write(write, str(error).encode())
        os._exit(0)
    os.close(write)
    assert b"loaded before fork()" in os.read(read, 1000)
    assert os.waitpid(child, 0)[1] == 0
    llm.generate("A", SamplingParams(max_tokens=1))  # the parent's still runs


def test_a_forked_process_ends() -> None:
    code = (
        "import os, sys; from serval import LLM\n"
        "llm = LLM(backend='host', context=64)\n"
        "child = os.fork()\n"
        "if child == 0: sys.exit(7)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    assert run(code).returncode == 7


def test_the_interpreter_ends_with_requests_under_way() -> None:
    code = (
        "import threading; from serval import LLM, SamplingParams\n"
        "llm = LLM(backend='host', context=512)\n"
        "params = SamplingParams(max_tokens=500, ignore_eos=True)\n"
        "threading.Thread(target=lambda: llm.generate(['A'] * 4, params), daemon=True).start()\n"
        "import time; time.sleep(0.5); print('end')\n"
    )
    result = run(code)
    assert result.returncode == 0 and result.stdout == "end\n", result.stderr


def test_many_requests_keep_memory_flat(llm: LLM) -> None:
    def generate(count: int) -> None:
        llm.generate(["A"] * count, SamplingParams(max_tokens=1))

    generate(500)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(4):
        generate(500)
    gc.collect()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10  # KiB


def test_arrays_outlive_the_model() -> None:
    llm = LLM(backend="host", context=64)
    tokens = llm.generate("A", SamplingParams(temperature=0, max_tokens=8))[0].outputs[0].token_ids
    copy = tokens.copy()
    llm.close()
    del llm
    gc.collect()
    assert (tokens == copy).all()
    with pytest.raises(ValueError):
        tokens[0] = 0


def test_the_command_is_installed() -> None:
    command = os.path.join(os.path.dirname(sys.executable), "serval")
    params = ["generate", "-p", "Once upon a time", "-n", "12", "--temp", "0", "--backend", "host"]
    result = subprocess.run([command, *params], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    with LLM(backend="host") as llm:
        text = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=12))[0].outputs[0].text
    assert text.strip() in result.stdout
