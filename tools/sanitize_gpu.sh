#!/usr/bin/env bash
# Runs the bundled model on the GPU under compute-sanitizer's tools; fails on anything that one reports.
# Usage: sanitize_gpu.sh BUILD_DIR [TOOL...]    default: memcheck initcheck synccheck
# TOKENS (4), SMS (8) and PROMPT set how much is run: under these tools the kernel is slow.
set -euo pipefail

if [[ $# -lt 1 ]]; then
  sed -n '2,4s/^# //p' "$0" >&2
  exit 2
fi
readonly build=$1
shift
if [[ $# -eq 0 ]]; then
  set -- memcheck initcheck synccheck
fi
readonly root=$(cd "$(dirname "$0")/.." && pwd)
readonly reported=77  # compute-sanitizer's exit code where it has something to say

if ! command -v compute-sanitizer >/dev/null; then
  echo "sanitize_gpu.sh: compute-sanitizer is not installed (it comes with CUDA)" >&2
  exit 1
fi

run() {  # tool flags...
  local tool=$1
  shift
  compute-sanitizer --tool "${tool}" --error-exitcode "${reported}" \
    "${build}/bin/serval" generate -m "${root}/assets/serval-stories" --backend device -c 64 \
    -p "${PROMPT:-Once upon a time}" -n "${TOKENS:-4}" --temp 0.8 --seed 1 "$@"
}

# What one GPU runs: kernels of vectors, of tiles, and those of two ranks, which share it.
readonly -a cases=("--sms ${SMS:-8}" "--sms ${SMS:-8} --batch-invariant" "--sms ${SMS:-8} --gpus 0,0"
  "--sms ${SMS:-8} --gpus 0,0 --batch-invariant")

failed=0
for tool in "$@"; do
  for flags in "${cases[@]}"; do
    echo "== ${tool} ${flags}"
    status=0
    # shellcheck disable=SC2086  # words
    run "${tool}" ${flags} || status=$?
    if [[ ${status} -ne 0 ]]; then
      echo "sanitize_gpu.sh: ${tool} ${flags}: exit code ${status}" >&2
      failed=1
    fi
  done
done
exit "${failed}"
