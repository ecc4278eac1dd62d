"""Train the bundled model in PyTorch, and give Serval the new weights after every few steps: its stories change.

Needs torch and transformers. Rollouts of reinforcement learning work in the same way.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-call, unused-ignore"
import sys

import numpy as np
import torch
from transformers import AutoModelForCausalLM

import serval
from serval import LLM, SamplingParams
from serval.outputs import FloatArray

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 40
lesson = (
    "Once upon a time, there was a little robot who lived in a lighthouse by the sea. Every night the robot turned on "
    "the big lamp, and all the ships came home. One night the lamp was broken. The robot held up its own small light, "
    "and the ships came home all the same. The end."
)

llm = LLM()
model = AutoModelForCausalLM.from_pretrained(serval.bundled_model(), dtype=torch.float32)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
ids = torch.tensor([llm.tokenize(lesson)])


def scores() -> FloatArray:
    """Log-probabilities of the lesson's tokens, by Serval."""
    params = SamplingParams(prompt_logprobs=0, max_tokens=0)
    return llm.generate(lesson, params)[0].prompt_token_logprobs


def story() -> str:
    return llm.generate("Once upon a time", SamplingParams(temperature=0, max_tokens=40))[0].outputs[0].text


before = story()
print(f"before: {-scores().mean():.2f} nats a token; Once upon a time{before}")
for step in range(1, steps + 1):
    loss = model(input_ids=ids, labels=ids).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0 or step == steps:
        llm.update_weights(model.state_dict())  # all tensors; requests that run finish with the old ones
        print(f"step {step}: {-scores().mean():.2f} nats a token; Once upon a time{story()}")

with torch.no_grad():
    theirs = model(input_ids=ids, labels=ids).loss.item()
print(f"PyTorch, in float32: {theirs:.2f}; Serval, in bfloat16: {-np.mean(scores()):.2f}")
print("the story has changed" if story() != before else "the story is the same")
