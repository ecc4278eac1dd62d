"""The model class of lm-eval, EleutherAI's evaluation harness: `--model serval`.

    serval-lm-eval run --model serval --model_args pretrained=path/to/Llama-3.2-1B --tasks arc_easy,wikitext

runs the harness's own command with this model. From Python, `import serval.lm_eval` before
`lm_eval.simple_evaluate(model="serval", …)`. Needs lm-eval 0.4.13 or later: `pip install 'serval[lm-eval]'`.
"""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from typing import Any, Sequence

from serval import _engine, scores
from serval._errors import USAGE, Error
from serval.llm import LLM
from serval.sampling_params import SamplingParams

# mypy: disable-error-code="import-not-found, import-untyped, misc, unused-ignore, no-any-return"
try:
    from lm_eval.api.model import TemplateLM
    from lm_eval.api.registry import model_registry
    from lm_eval.models.utils import normalize_gen_kwargs
    from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
except ImportError as missing:
    raise ImportError("serval.lm_eval needs lm-eval 0.4.13 or later: pip install 'serval[lm-eval]'") from missing
from tqdm import tqdm

# Requests that are submitted together: enough to keep the engine busy between two updates of the progress bar.
_TOGETHER = 2048
# Of lm-eval's command, for models that need them. Here the engine decides what runs together, and where.
_IGNORED = ("batch_size", "max_batch_size", "device", "trust_remote_code")
# Parameters of a task's `generation_kwargs` besides those that are handled by name.
_SAMPLING = ("top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty", "seed")


class ServalLM(TemplateLM):
    """A model that lm-eval evaluates.

    Args:
        pretrained: as `LLM`'s model; empty: the bundled one.
        max_gen_toks: of answers whose task does not say.
        add_bos_token: whether texts begin with the model's BOS; as for lm-eval's `hf` and `vllm`, unless a task does.
        options: those of `LLM`: max_model_len, max_num_seqs, batch_invariant, …
    """

    def __init__(
        self, pretrained: str = "", max_gen_toks: int = 256, add_bos_token: bool = False, **options: Any
    ) -> None:
        super().__init__()
        self.max_gen_toks = max_gen_toks
        self.add_bos_token = add_bos_token
        self._name = pretrained or "serval-stories"
        self._llm = LLM(pretrained, **{name: o for name, o in options.items() if name not in _IGNORED})
        self._engine = self._llm._engine

    @property
    def eot_token_id(self) -> int:
        return self._token(self._llm.info.eos_token)

    @property
    def prefix_token_id(self) -> int:
        prefix = scores.prefix_token(self._engine)
        if prefix is None:
            raise Error("model: it has neither a BOS nor an end-of-text token, one of which lm-eval needs")
        return prefix

    @property
    def max_length(self) -> int:
        """Tokens that come before a token, at most."""
        return scores.longest(self._engine) - 1

    @property
    def tokenizer_name(self) -> str:
        return self._name.replace("/", "__")

    def chat_template(self, chat_template: bool | str = False) -> str | None:
        return self._llm.info.chat_template_text if chat_template else None

    def apply_chat_template(
        self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True
    ) -> str:
        messages = _engine.chat_messages(chat_history)
        ids = self._engine.tokenize_chat(messages, add_generation_prompt)
        return self._llm.detokenize(ids, special=True)

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **more: Any) -> list[int]:
        bos = self._llm.info.bos_token
        if add_special_tokens is None:
            add_special_tokens = self.add_bos_token and not (bos and string.startswith(bos))
        return self._llm.tokenize(string, add_special_tokens=add_special_tokens)

    def loglikelihood_rolling(self, requests: list[Any], disable_tqdm: bool = False) -> list[float]:
        cut = [self._windows(request.args[0]) for request in requests]
        found = iter(self._loglikelihood_tokens([w for windows in cut for w in windows], disable_tqdm=disable_tqdm))
        sums = []
        for request, windows in zip(requests, cut):
            sums.append(sum(next(found)[0] for _ in windows))
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, sums[-1])
        return sums

    def generate_until(self, requests: list[Any], disable_tqdm: bool = False) -> list[str]:
        prompts: list[list[int]] = []
        params: list[SamplingParams] = []
        for request in requests:
            context, arguments = request.args
            params.append(self._sampling(arguments))
            room = self.max_length + 1 - (params[-1].max_tokens or 0)
            if room < 1:
                raise Error(f"max_gen_toks: {params[-1].max_tokens}; limit: {self.max_length} (context)", USAGE)
            prompts.append(self.tok_encode(context)[-room:])
        outputs = self._llm.generate(prompts, params, use_tqdm=not disable_tqdm) if prompts else []
        texts = [output.outputs[0].text for output in outputs]
        for request, text in zip(requests, texts):
            self.cache_hook.add_partial("generate_until", request.args, text)
        return texts

    def _loglikelihood_tokens(
        self,
        requests: Sequence[tuple[tuple[str, str] | None, list[int], list[int]]],
        disable_tqdm: bool = False,
        **more: Any,
    ) -> list[tuple[float, bool]]:
        """For each continuation: the sum of its log-probabilities, and whether each token is the likeliest."""
        found: list[tuple[float, bool]] = []
        with tqdm(total=len(requests), disable=disable_tqdm, desc="log-likelihoods") as bar:
            for begin in range(0, len(requests), _TOGETHER):
                batch = requests[begin : begin + _TOGETHER]
                windows = [[self._scored(context, continuation)] for _, context, continuation in batch]
                for (texts, _, _), score in zip(batch, scores.run(self._engine, windows)):
                    found.append((score.logprob, score.is_greedy))
                    if texts is not None:
                        self.cache_hook.add_partial("loglikelihood", texts, found[-1])
                bar.update(len(batch))
        return found

    def _scored(self, context: list[int], continuation: list[int]) -> scores.ScoredTokens:
        """Cut from the left where it is too long."""
        tokens = (context + continuation)[-(self.max_length + 1) :]
        return scores.ScoredTokens(tokens, max(len(tokens) - len(continuation), 1))

    def _windows(self, text: str) -> list[tuple[None, list[int], list[int]]]:
        cut = get_rolling_token_windows(
            token_list=self.tok_encode(text),
            prefix_token=self.prefix_token_id,
            max_seq_len=self.max_length,
            context_len=1,
        )
        return [(None, *make_disjoint_window(window)) for window in cut]

    def _sampling(self, arguments: dict[str, Any]) -> SamplingParams:
        wanted = normalize_gen_kwargs(arguments, self.max_gen_toks)
        return SamplingParams(
            temperature=wanted["temperature"] if wanted.get("do_sample") else 0,
            max_tokens=wanted["max_gen_toks"],
            stop=[text for text in wanted["until"] if text],
            **{name: wanted[name] for name in _SAMPLING if wanted.get(name) is not None},
        )

    def _token(self, text: str) -> int:
        ids = self._llm.tokenize(text, add_special_tokens=False)
        if not ids:
            raise Error("model: it has no end-of-text token, which lm-eval needs")
        return ids[0]


def register() -> None:
    """Makes `--model` known by the names of the entry points of the group lm_eval.models: this package's, and others'.

    lm-eval itself reads no entry points as of 0.4.13.
    """
    importlib.import_module("lm_eval.models")  # its own models, which it only adds to an empty registry
    for entry in metadata.entry_points(group="lm_eval.models"):
        if entry.name not in model_registry:
            model_registry.register(entry.name, target=entry)


def main() -> None:
    """lm-eval's command."""
    register()
    from lm_eval.__main__ import cli_evaluate

    sys.exit(cli_evaluate())


register()
