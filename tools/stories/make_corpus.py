#!/usr/bin/env python3
"""Writes a corpus: one JSON object a line, {"text": story} or {"messages": conversation}, all different.

    ./make_corpus.py --stories 300000 --seed 1 -o corpus.jsonl.gz

Document i depends on (seed, i) only, so that a corpus is the same whatever the number of workers.
"""

import argparse
import gzip
import hashlib
import json
import multiprocessing
import random

from dialogue import converse
from grammar import Story
from plots import tell

CHUNK = 500
CONVERSATIONS = 0.38
TITLED = 0.06
SMALL_WORDS = "the a an and of to was who for not in".split()


def headline(title):
    """A title with a capital for each word, except small words after the first."""
    words = title.split()
    return " ".join(w if i and w in SMALL_WORDS else w[0].upper() + w[1:] for i, w in enumerate(words))


def document(seed, index):
    """One document as a dict. The random source is keyed by both numbers through a string, which hashes alike everywhere."""
    rng = random.Random(f"{seed}/{index}")
    if rng.random() < CONVERSATIONS:
        return {"messages": converse(rng)}
    story = tell(Story(rng))
    text = story.text()
    if rng.random() < TITLED and story.title:
        text = f"{headline(story.line(story.title))}\n\n{text}"
    return {"text": text}


def lines(job):
    """The documents of one job as lines of JSON, each with a digest and whether it is a conversation."""
    seed, first, count = job
    result = []
    for index in range(first, first + count):
        doc = document(seed, index)
        line = json.dumps(doc)
        result.append((line, hashlib.blake2b(line.encode(), digest_size=12).digest(), "messages" in doc))
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--stories", type=int, required=True, help="number of documents")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=multiprocessing.cpu_count())
    parser.add_argument("-o", "--output", required=True, help="a .jsonl.gz file")
    args = parser.parse_args()

    jobs = [(args.seed, first, min(CHUNK, args.stories - first)) for first in range(0, args.stories, CHUNK)]
    seen, words, talks = set(), 0, 0
    with multiprocessing.Pool(args.workers) as pool, gzip.open(args.output, "wt", compresslevel=1) as out:
        for batch in pool.imap(lines, jobs):
            for line, digest, conversation in batch:
                if digest in seen:
                    continue
                seen.add(digest)
                talks += conversation
                words += line.count(" ")
                out.write(line + "\n")
    repeats = args.stories - len(seen)
    print(f"{len(seen)} documents ({talks} conversations), about {words / 1e6:.1f} million words, {repeats} repeats left out")


if __name__ == "__main__":
    main()
