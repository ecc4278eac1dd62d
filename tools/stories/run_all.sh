#!/usr/bin/env bash
# Makes everything from nothing: corpus, tokenizer, token ids, model.
#   run_all.sh OUT [STORIES [train.py's options: --minutes M or --steps N ...]]
# OUT/serval-stories is the finished directory (its README.md is written by hand). Training has two stages: a long one, and a
# short one at a lower rate on a third as many stories that the first has not seen.
set -euo pipefail

out=${1:?usage: run_all.sh OUT [STORIES [options]]}
stories=${2:-500000}
shift $(($# < 2 ? $# : 2))
first=("$@")
second=("$@")
if (($# == 0)); then
  first=(--minutes 5)
  second=(--minutes 1.2)
fi
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$here/make_corpus.py" --stories "$stories" --seed 1 -o "$scratch/first.jsonl.gz"
"$here/make_corpus.py" --stories $((stories / 3)) --seed 3 -o "$scratch/second.jsonl.gz"
"$here/make_corpus.py" --stories 2000 --seed 4 -o "$scratch/held.jsonl.gz"
"$here/train_tokenizer.py" "$scratch/first.jsonl.gz" -o "$scratch/tokenizer"
for part in first second held; do
  "$here/pack.py" "$scratch/$part.jsonl.gz" --tokenizer "$scratch/tokenizer" -o "$scratch/$part.bin"
done
common=(--held-out "$scratch/held.bin" --tokenizer "$scratch/tokenizer")
"$here/train.py" --train "$scratch/first.bin" "${common[@]}" -o "$scratch/stage" "${first[@]}"
"$here/train.py" --train "$scratch/second.bin" "${common[@]}" -o "$out/serval-stories" "${second[@]}" \
  --continue-from "$scratch/stage" --peak 1e-3 --warmup 100
