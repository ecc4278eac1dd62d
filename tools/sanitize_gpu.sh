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

run() {  # tool
  compute-sanitizer --tool "$1" --error-exitcode "${reported}" \
    "${build}/bin/serval" generate -m "${root}/assets/serval-stories" --backend device --sms "${SMS:-8}" -c 64 \
    -p "${PROMPT:-Once upon a time}" -n "${TOKENS:-4}" --temp 0.8 --seed 1
}

failed=0
for tool in "$@"; do
  echo "== ${tool}"
  status=0
  run "${tool}" || status=$?
  if [[ ${status} -ne 0 ]]; then
    echo "sanitize_gpu.sh: ${tool}: exit code ${status}" >&2
    failed=1
  fi
done
exit "${failed}"
