#!/usr/bin/env bash
# Runs small models on the GPU under compute-sanitizer's tools; fails on anything that one reports.
# Usage: sanitize_gpu.sh BUILD_DIR [TOOL...]    default: memcheck initcheck synccheck
# CASES ("tiles heads128") picks some of those below; SMS (8), and for a text TOKENS (4) and PROMPT, set how much
# is run: under these tools the kernel is slow.
# shellcheck disable=SC2054  # lists of numbers have commas
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
readonly root
readonly reported=77  # compute-sanitizer's exit code where it has something to say
readonly sms=${SMS:-8}
readonly bundled=${root}/assets/serval-stories

# In this order. All but those of ranks run each kernel of one GPU at least once (instructions/sm90/kernels.def).
readonly -a cases=(vectors tiles ranks ranks-tiles heads64 heads64-batch heads128 heads128-few heads128-batch norms
  norms-few norms-batch parts)

if [[ $# -lt 1 ]]; then
  sed -n '2,5s/^# //p' "$0" >&2
  echo "Cases: ${cases[*]}" >&2
  exit 2
fi
readonly build=$1
shift
if [[ $# -eq 0 ]]; then
  set -- memcheck initcheck synccheck
fi
read -r -a picked <<<"${CASES:-${cases[*]}}"
for name in "${picked[@]}"; do
  if [[ " ${cases[*]} " != *" ${name} "* ]]; then
    echo "sanitize_gpu.sh: CASES: no case '${name}'; there are: ${cases[*]}" >&2
    exit 2
  fi
done
if ! command -v compute-sanitizer >/dev/null; then
  echo "sanitize_gpu.sh: compute-sanitizer is not installed (it comes with CUDA)" >&2
  exit 1
fi

models=$(mktemp -d)
readonly models
trap 'rm -rf "${models}"' EXIT

# Two layers, for random weights: a directory needs no more than this.
write_model() {  # name, architecture, model_type, hidden_size, intermediate_size, heads, head_dim
  mkdir "${models}/$1"
  cat >"${models}/$1/config.json" <<JSON
{"architectures": ["$2"], "model_type": "$3", "hidden_size": $4, "intermediate_size": $5,
 "num_attention_heads": $6, "num_key_value_heads": 2, "head_dim": $7, "num_hidden_layers": 2, "vocab_size": 512,
 "max_position_embeddings": 1024, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": false,
 "bos_token_id": 0, "eos_token_id": [1]}
JSON
}
# O and down have columns for several parts; of the last one, ranks cut the columns of Q, K and V, too.
write_model heads128 LlamaForCausalLM llama 256 1152 10 128
write_model norms Qwen3ForCausalLM qwen3 256 1152 10 128
write_model parts LlamaForCausalLM llama 4096 256 8 64

# These set `words` to what serval is to do.
generate() {  # flags...
  words=(generate -m "${bundled}" -c 64 -p "${PROMPT:-Once upon a time}" -n "${TOKENS:-4}" --temp 0.8 --seed 1 "$@")
}
# Prompts of one pass of 64 rows, 128 and 300, then one row.
prompts() {  # model flags...
  words=(bench -m "$@" -c 512 -p 64,128,300 -n 2 -b 1 -r 1 --max-batch-tokens 300)
}
# Generation of few sequences; and, where the batch is not to show, of one, of as many as a small tile has rows and of
# more.
few() {
  words=(bench -m "$@" -c 64 -p 0 -n 2 -b 4,8,16 -r 1 --max-batch-tokens 16)
}
batch() {
  words=(bench -m "$@" -c 64 -p 0 -n 2 -b 1,16,64,80 -r 1 --max-batch-tokens 80 --batch-invariant)
}

find_words() {  # case
  local -ra random=(--random-weights 1)
  case $1 in
    vectors) generate ;;
    tiles) generate --batch-invariant ;;
    ranks) generate --gpus 0,0 ;;
    ranks-tiles) generate --gpus 0,0 --batch-invariant ;;
    heads64) prompts "${bundled}" ;;
    heads64-batch) batch "${bundled}" ;;
    parts) prompts "${models}/parts" "${random[@]}" --gpus 0,0 --batch-invariant ;;
    *-few) few "${models}/${1%-few}" "${random[@]}" ;;
    *-batch) batch "${models}/${1%-batch}" "${random[@]}" ;;
    *) prompts "${models}/$1" "${random[@]}" ;;
  esac
}

run() {  # tool case
  local -a words
  find_words "$2"
  compute-sanitizer --tool "$1" --error-exitcode "${reported}" "${build}/bin/serval" "${words[@]}" \
    --backend device --sms "${sms}" --progress off
}

failed=0
for tool in "$@"; do
  for name in "${picked[@]}"; do
    echo "== ${tool} ${name}"
    begin=${SECONDS}
    status=0
    run "${tool}" "${name}" || status=$?
    echo "== ${tool} ${name}: $((SECONDS - begin)) s"
    if [[ ${status} -ne 0 ]]; then
      echo "sanitize_gpu.sh: ${tool} ${name}: exit code ${status}" >&2
      failed=1
    fi
  done
done
exit "${failed}"
