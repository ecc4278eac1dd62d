"""Serval: a megakernel inference engine for the Llama family.

    from serval import LLM, SamplingParams

    llm = LLM()                                   # the bundled model; LLM("meta-llama/Llama-3.2-1B-Instruct")
    for output in llm.generate(["Once upon a time"], SamplingParams(temperature=0.8, max_tokens=100)):
        print(output.outputs[0].text)

`compile()` gives a model's program, to look at, prove and simulate; `read_trace()` and `LLM.profile()` give traces
with reports and Gantt charts. Errors are `serval.Error`.
"""

from serval._engine import bundled_model
from serval._errors import Error
from serval._serval import version as __version__
from serval.async_llm import AsyncLLM
from serval.embeddings import EmbeddingOutput, EmbeddingRequestOutput, PoolingParams
from serval.llm import LLM
from serval.outputs import CompletionOutput, Logprob, RequestOutput
from serval.program import Program, Violation, compile, read_program
from serval.sampling_params import SamplingParams
from serval.scores import TextScore
from serval.trace import Trace, read_trace

__all__ = [
    "AsyncLLM",
    "CompletionOutput",
    "EmbeddingOutput",
    "EmbeddingRequestOutput",
    "Error",
    "LLM",
    "Logprob",
    "PoolingParams",
    "Program",
    "RequestOutput",
    "SamplingParams",
    "TextScore",
    "Trace",
    "Violation",
    "__version__",
    "bundled_model",
    "compile",
    "read_program",
    "read_trace",
]
