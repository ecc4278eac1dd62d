#!/usr/bin/env bash
# Runs the tests that need a GPU (ctest's label gpu), or says how many there are and why they cannot run.
# Usage: run_gpu_tests.sh BUILD_DIR [--required]    --required: not running them is a failure
set -euo pipefail

if [[ $# -lt 1 ]]; then
  sed -n '2,3s/^# //p' "$0" >&2
  exit 2
fi
readonly build=$1 required=${2:-}

cannot_run() {  # reason
  echo "GPU tests: $1"
  [[ ${required} != --required ]]
  exit
}

count=$(ctest --test-dir "${build}" -N -L gpu | sed -n 's/^Total Tests: //p')
if [[ ${count} -eq 0 ]]; then
  cannot_run "none in this build, which has no CUDA (nvcc 12.0 or later)"
fi
if ! reason=$("${build}/bin/gpu_probe"); then
  cannot_run "${count} compiled, all ${count} skipped: ${reason} (make test-gpu runs them)"
fi
ctest --test-dir "${build}" -L gpu --output-on-failure --timeout "${TEST_TIMEOUT_S:-300}"
