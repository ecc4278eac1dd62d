#!/usr/bin/env bash
# Prints the coverage of some folders by the tests: report_coverage.sh BUILD FOLDER...
# A build with the preset `coverage` has run its tests. Prints lines and branches of each folder and what is not covered of
# each file; BUILD/coverage.html and the pages beside it show the lines.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ $# -lt 2 ]]; then
  echo "usage: $0 BUILD FOLDER..." >&2
  exit 2
fi
readonly kBuild=$1
shift
readonly kCounts=${kBuild}/coverage.json

filters=()
for folder in "$@"; do filters+=(--filter "${folder}/"); done
gcovr --root . "${filters[@]}" --exclude-throw-branches --exclude-unreachable-branches --json "${kCounts}" \
  --html-details "${kBuild}/coverage.html" "${kBuild}"
for folder in "$@"; do
  echo "=== ${folder}"
  gcovr --root . --add-tracefile "${kCounts}" --filter "${folder}/" --txt - --print-summary
done
