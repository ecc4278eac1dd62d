#!/usr/bin/env bash
# Checks that every C++ and CUDA file in git is laid out as .clang-format says; --fix lays them out.
# Version 14 decides, because releases differ in their layout.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly kVersion=14

find_clang_format() {
  local name
  for name in "clang-format-${kVersion}" clang-format; do
    if command -v "${name}" >/dev/null && "${name}" --version | grep -q " version ${kVersion}\."; then
      echo "${name}"
      return
    fi
  done
  echo "check_format: clang-format ${kVersion} is not installed (tools/install_packages.sh check)" >&2
  return 1
}

# safe.directory: a checkout that belongs to another user, as in a container, is still only read here.
sources() { git -c safe.directory='*' ls-files -z -- '*.cc' '*.h' '*.cu' '*.cuh'; }

case ${1:-} in
  '') mode=(--dry-run -Werror) ;;
  --fix) mode=(-i) ;;
  *) echo "usage: tools/check_format.sh [--fix]" >&2; exit 2 ;;
esac
clang_format=$(find_clang_format)
sources | xargs -0 -r -n 16 -P "$(nproc)" "${clang_format}" --style=file "${mode[@]}"
echo "$(sources | tr '\0' '\n' | wc -l) files: layout ok"
