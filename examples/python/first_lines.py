"""Load the bundled model, continue a story, draw another one."""

from serval import LLM, SamplingParams

llm = LLM()
params = SamplingParams(temperature=0.8, top_p=0.95, max_tokens=120, n=2)
for output in llm.generate(["Once upon a time, there was a little robot"], params):
    for answer in output.outputs:
        print(f"--- {len(answer.token_ids)} tokens, mean log-probability {answer.token_logprobs.mean():.2f}")
        print(output.prompt + answer.text)
