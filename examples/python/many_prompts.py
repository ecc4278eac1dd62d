"""1,000 prompts together, with a progress bar; results are NumPy arrays."""

import sys
import time

import numpy as np

from serval import LLM, SamplingParams

count = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
names = ("Tom", "Lily", "Max", "Anna", "Ben")
prompts = [f"{names[i % len(names)]} had {i} apples and" for i in range(count)]

llm = LLM(context=128, max_sequences=64)
begin = time.monotonic()
outputs = llm.generate(prompts, SamplingParams(temperature=0, max_tokens=16), use_tqdm=True)
seconds = time.monotonic() - begin

lengths = np.array([len(o.outputs[0].token_ids) for o in outputs])
logprobs = np.concatenate([o.outputs[0].token_logprobs for o in outputs])
print(f"{count} prompts, {lengths.sum()} tokens, {lengths.sum() / seconds:.0f} tokens/s")
print(f"perplexity of the model's own words: {np.exp(-logprobs.mean()):.2f}")
