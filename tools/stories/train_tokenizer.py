#!/usr/bin/env python3
"""Trains the byte-level BPE tokenizer on a corpus and writes tokenizer.json and tokenizer_config.json.

    ./train_tokenizer.py corpus.jsonl.gz -o DIR

The settings are Llama 3's: its split expression, byte-level symbols, ignore_merges, special tokens after the vocabulary and
a post-processor that puts <|begin_of_text|> in front. Needs `tokenizers` (0.23.3 was used).
"""

import argparse
import gzip
import itertools
import json
import os

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

VOCABULARY = 3072
BEGIN, END, HEADER_START, HEADER_END, TURN_END = SPECIAL = [
    "<|begin_of_text|>",
    "<|end_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
]
SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CONTEXT = 2048

CHAT_TEMPLATE = (
    "{%- for message in messages -%}"
    "{%- if loop.first -%}{{ bos_token }}{%- endif -%}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + (message['content'] | trim) + '<|eot_id|>' }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif -%}"
)


def texts(path):
    with gzip.open(path, "rt") as lines:
        for line in lines:
            document = json.loads(line)
            if "text" in document:
                yield document["text"]
            else:
                yield from (m["content"] for m in document["messages"])


def train(path, most_texts):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(SPLIT), behavior="isolated", invert=False),
            pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=True, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=True, trim_offsets=True, use_regex=True)
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY - len(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(itertools.islice(texts(path), most_texts), trainer)
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in SPECIAL])
    begin = tokenizer.token_to_id(BEGIN)
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN}:1 $B:1", special_tokens=[(BEGIN, begin)]
            ),
        ]
    )
    return tokenizer


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--texts", type=int, default=200000, help="train on at most this many texts")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()

    tokenizer = train(args.corpus, args.texts)
    if tokenizer.get_vocab_size() != VOCABULARY:
        raise SystemExit(
            f"the corpus gave {tokenizer.get_vocab_size()} tokens, wanted {VOCABULARY}: use a larger corpus"
        )
    os.makedirs(args.output, exist_ok=True)
    tokenizer.save(os.path.join(args.output, "tokenizer.json"))
    config = {
        "added_tokens_decoder": {
            str(tokenizer.token_to_id(t)): {
                "content": t,
                "lstrip": False,
                "normalized": False,
                "rstrip": False,
                "single_word": False,
                "special": True,
            }
            for t in SPECIAL
        },
        "bos_token": BEGIN,
        "eos_token": END,
        "chat_template": CHAT_TEMPLATE,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": CONTEXT,
        "tokenizer_class": "PreTrainedTokenizerFast",
    }
    with open(os.path.join(args.output, "tokenizer_config.json"), "w") as out:
        json.dump(config, out, indent=2)
        out.write("\n")
    print(f"{VOCABULARY} tokens in {args.output}")


if __name__ == "__main__":
    main()
