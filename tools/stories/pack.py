#!/usr/bin/env python3
"""Turns a corpus into token ids: DIR/NAME.bin holds 16-bit ids, every document starting with <|begin_of_text|>.

    ./pack.py corpus.jsonl.gz --tokenizer DIR -o train.bin

A story is <|begin_of_text|> text <|end_of_text|>; a conversation is what the chat template writes.
"""

import argparse
import gzip
import itertools
import json
import os

import numpy
from tokenizers import Tokenizer

from train_tokenizer import BEGIN, END, HEADER_END, HEADER_START, TURN_END

BATCH = 4000


def render(document):
    """A document as the text with special tokens that is to be encoded."""
    if "text" in document:
        return BEGIN + document["text"] + END
    return BEGIN + "".join(
        f"{HEADER_START}{m['role']}{HEADER_END}\n\n{m['content'].strip()}{TURN_END}"
        for m in document["messages"]
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus")
    parser.add_argument("--tokenizer", required=True, help="folder with tokenizer.json")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()

    tokenizer = Tokenizer.from_file(os.path.join(args.tokenizer, "tokenizer.json"))
    count = total = 0
    with gzip.open(args.corpus, "rt") as lines, open(args.output, "wb") as out:
        documents = (render(json.loads(line)) for line in lines)
        while batch := list(itertools.islice(documents, BATCH)):
            for encoding in tokenizer.encode_batch_fast(batch, add_special_tokens=False):
                numpy.asarray(encoding.ids, dtype="<u2").tofile(out)
                total += len(encoding.ids)
            count += len(batch)
    print(f"{count} documents, {total} tokens, {total / count:.0f} a document")


if __name__ == "__main__":
    main()
