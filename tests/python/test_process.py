"""What belongs to the process: forks, the interpreter's end, memory, the command."""

import gc
import json
import os
import pickle
import resource
import subprocess
import sys
import tracemalloc

import pytest

from serval import LLM, Error, SamplingParams


COMMAND = os.path.join(os.path.dirname(sys.executable), "serval")


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


def test_after_cuda_a_forked_process_cannot_load_a_model() -> None:
    """CUDA does not work in a process that is forked after it has begun: an error says so, and what works instead."""
    code = (
        "import os, sys; from serval import LLM, Error\n"
        "try: llm = LLM(backend='device', context=64)\n"
        "except Error as error: print(error); sys.exit(77)\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    try: LLM(backend='device', context=64)\n"
        "    except Error as error: os._exit(7 if error.kind == 'usage' and 'spawn' in str(error) else 1)\n"
        "    os._exit(2)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    result = run(code)
    if result.returncode == 77:
        pytest.skip(f"no GPU: {result.stdout.strip()}")
    assert result.returncode == 7, result.stderr


def test_a_forked_process_may_load_a_model_of_its_own_on_the_host(llm: LLM) -> None:
    child = os.fork()
    if child == 0:
        ended = 1
        try:
            with LLM(backend="host", context=64) as own:
                ended = 0 if own.generate("A", SamplingParams(max_tokens=1)) else 2
        finally:
            os._exit(ended)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


UNDER_WAY = {
    "LLM": (
        "llm = LLM(backend='host', context=512)\n"
        "threading.Thread(target=lambda: llm.generate(['A'] * 4, params), daemon=True).start()\n"
        "time.sleep(0.5)\n"
    ),
    "AsyncLLM": (
        "llm = AsyncLLM(backend='host', context=512)\n"
        "async def begin():\n"
        "    async for piece in llm.generate('A', params): return\n"
        "pieces = asyncio.run(begin())\n"
    ),
    "an update": (
        "llm = LLM(backend='host', context=512)\n"
        "threading.Thread(target=lambda: llm.generate(['A'] * 4, params), daemon=True).start()\n"
        "time.sleep(0.3)\n"
        "norm = np.ones(256, np.float32)\n"
        "threading.Thread(target=lambda: llm.update_weights('model.norm.weight', norm), daemon=True).start()\n"
        "time.sleep(0.1)\n"
    ),
}


@pytest.mark.parametrize("what", UNDER_WAY)
def test_the_interpreter_ends_with_requests_under_way(what: str) -> None:
    code = (
        "import asyncio, threading, time; import numpy as np; from serval import LLM, AsyncLLM, SamplingParams\n"
        "params = SamplingParams(max_tokens=500, ignore_eos=True)\n"
        f"{UNDER_WAY[what]}"
        "print('end')\n"
    )
    result = run(code)
    assert result.returncode == 0 and result.stdout == "end\n", result.stderr


def test_errors_have_kinds_and_exit_codes(llm: LLM) -> None:
    def error_of(**options: object) -> Error:
        with pytest.raises(Error) as caught, LLM(backend="host", **options) as broken:
            broken.generate("A", SamplingParams(max_tokens=1))
        assert "\n" not in str(caught.value)
        copy = pickle.loads(pickle.dumps(caught.value))
        assert (str(copy), copy.kind) == (str(caught.value), caught.value.kind)
        return caught.value

    found = {
        (error.kind, error.exit_code)
        for error in (
            error_of(model="no/such-model"),
            error_of(context=-1),
            error_of(kv_cache_memory=1 << 38),
            error_of(fault_at_launch=1),
        )
    }
    assert found == {("runtime", 1), ("usage", 2), ("out_of_memory", 3), ("device_fault", 4)}


def test_ten_thousand_requests_keep_memory_flat(llm: LLM) -> None:
    def generate(count: int) -> None:
        llm.generate(["A"] * count, SamplingParams(max_tokens=1))

    generate(1000)
    gc.collect()
    tracemalloc.start()
    # Allocations are counted, not bytes: the interpreter's own tables double now and then.
    resident, kept = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(tracemalloc.take_snapshot().traces)
    for _ in range(9):
        generate(1000)
    gc.collect()
    kept = len(tracemalloc.take_snapshot().traces) - kept
    tracemalloc.stop()
    assert kept < 4500, "less than one for two requests"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 16 << 10  # KiB


def test_a_thousand_engines_leave_nothing() -> None:
    """Neither memory nor threads nor open files nor objects of Python."""
    code = (
        "import gc, os, sys, time, tracemalloc; from serval import LLM, AsyncLLM, SamplingParams, _serval\n"
        "def resident(): return int(open('/proc/self/statm').read().split()[1]) * os.sysconf('SC_PAGESIZE')\n"
        "def counts(): return len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))\n"
        "def allocations(): return len(tracemalloc.take_snapshot().traces)\n"  # bytes: tables double now and then
        "params, threads = SamplingParams(max_tokens=1), counts()[0]\n"
        "def load(count):\n"
        "    for i in range(count):\n"
        "        kind = AsyncLLM if i % 10 == 5 else LLM\n"
        "        llm = kind(backend='host', context=64, max_sequences=1, threads=1)\n"
        "        if i % 20 == 0: llm.generate('A', params)\n"
        "        if i % 2 == 0: llm.close()\n"
        "    del llm\n"
        "    gc.collect()\n"
        "    while counts()[0] > threads: time.sleep(0.01)\n"  # of AsyncLLM, which have to end
        "load(100)\n"
        "tracemalloc.start()\n"
        "before = resident(), counts(), sys.getrefcount(_serval.Engine), allocations()\n"
        "load(900)\n"
        "after = resident(), counts(), sys.getrefcount(_serval.Engine), allocations()\n"
        "assert after[0] - before[0] < 32 << 20, (before, after)\n"
        "assert after[1] == before[1], (before, after)\n"
        "assert abs(after[2] - before[2]) < 10, (before, after)\n"
        "assert after[3] - before[3] < 450, (before, after)\n"  # less than one for two engines
    )
    result = run(code, timeout=280)
    assert result.returncode == 0, result.stderr


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
    params = ["generate", "-p", "Once upon a time", "-n", "12", "--temp", "0", "--backend", "host"]
    result = subprocess.run([COMMAND, *params], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    with LLM(backend="host") as llm:
        text = llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=12))[0].outputs[0].text
    assert text.strip() in result.stdout


@pytest.mark.parametrize("seed", [0, 7, 12345])
def test_tokens_are_those_of_the_command_for_the_same_seed(llm: LLM, seed: int) -> None:
    flags = {"-s": seed, "--temp": 0.9, "--top-k": 40, "--top-p": 0.95, "--min-p": 0.02, "--repeat-penalty": 1.1}
    command = [COMMAND, "generate", "--json", "-p", "Once upon a time", "-n", "40", "--backend", "host"]
    command += [str(part) for flag in flags.items() for part in flag]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    expected = json.loads(result.stdout)["responses"][0]
    params = SamplingParams(
        temperature=0.9, top_k=40, top_p=0.95, min_p=0.02, repetition_penalty=1.1, seed=seed, max_tokens=40
    )
    answer = llm.generate("Once upon a time", params)[0].outputs[0]
    assert answer.token_ids.tolist() == expected["tokens"]
    assert answer.text == expected["text"]
    assert answer.token_logprobs.tolist() == pytest.approx(expected["log_probabilities"], abs=0)
