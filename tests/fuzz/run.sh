#!/usr/bin/env bash
# Runs all fuzz targets concurrently, FUZZ_PROCESSES (default 2) processes for each: run.sh SECONDS OUT [FOLDER]
# FOLDER has the fuzz_* programs (default: this script's folder). Writes to the folder OUT: logs, inputs that broke a
# target (crash-*, timeout-*, oom-*), and new-corpus.tar.gz with the inputs that reach code which the committed corpus
# does not reach (tests/fuzz/corpus.py adds them to it). Prints a table at the end. Exit code 1 if a target broke.
# The folders corpus/ and dictionaries/ must be beside this script.
set -euo pipefail

if [[ $# -lt 2 ]]; then
  echo "usage: $0 SECONDS OUT [FOLDER]" >&2
  exit 2
fi
readonly kSeconds=$1
mkdir -p "$2"
kOut=$(cd "$2" && pwd)
kHere=$(cd "$(dirname "$0")" && pwd)
kPrograms=$(cd "${3:-${kHere}}" && pwd)
readonly kOut kHere kPrograms
readonly kProcesses=${FUZZ_PROCESSES:-2}
readonly kTimeout_s=10
readonly kMemory_MiB=2048
readonly kMaxArtifacts=20            # kept for each kind and target, smallest first
readonly kMaxCorpusBytes=9000000     # new inputs kept, smallest first; keeps the archive below 10 MB
readonly kTargets=(body chat config gbnf gguf http index jinja program quantised safetensors schema tokenizer trace)
declare -rA kMaxInputBytes=([body]=4096 [http]=4096 [chat]=2048 [config]=4096 [gbnf]=2048 [gguf]=8192 [index]=4096 [jinja]=4096 [program]=32768 [quantised]=8192 [safetensors]=4096 [schema]=4096 [tokenizer]=8192
  [trace]=8192)

copy_known() {  # target folder: copies the target's named seeds and the inputs of its archive
  mkdir -p "$2"
  cp -r "${kHere}/corpus/$1/." "$2"
  if [[ -f ${kHere}/corpus/$1.tar.gz ]]; then tar -xzf "${kHere}/corpus/$1.tar.gz" -C "$2"; fi
}

fuzz() {  # target
  local target=$1 folder=${kOut}/$1
  local -a options=(-fork="${kProcesses}" -ignore_crashes=1 -ignore_timeouts=1 -ignore_ooms=1
    -max_total_time="${kSeconds}" -timeout="${kTimeout_s}" -rss_limit_mb="${kMemory_MiB}"
    -max_len="${kMaxInputBytes[${target}]}" -artifact_prefix="${folder}/" -print_final_stats=1)
  if [[ -f ${kHere}/dictionaries/${target}.dict ]]; then
    options+=(-dict="${kHere}/dictionaries/${target}.dict")
  fi
  mkdir -p "${folder}/work" "${folder}/corpus"
  copy_known "${target}" "${folder}/corpus"
  "${kPrograms}/fuzz_${target}" "${options[@]}" "${folder}/work" "${folder}/corpus" >"${folder}/log" 2>&1 || true
  # Adds only those new inputs to the corpus that reach new code.
  "${kPrograms}/fuzz_${target}" -merge=1 -timeout="${kTimeout_s}" -rss_limit_mb="${kMemory_MiB}" \
    -artifact_prefix="${folder}/merge-" "${folder}/corpus" "${folder}/work" >"${folder}/merge.log" 2>&1 || true
  copy_known "${target}" "${folder}/known"
  local known
  for known in "${folder}/known"/*; do rm -f "${folder}/corpus/$(basename "${known}")"; done
  rm -rf "${folder}/work" "${folder}/known"
}

smallest() {  # limit files... → at most `limit` files, smallest first
  local limit=$1
  shift
  [[ $# -eq 0 ]] || stat -c "%s %n" -- "$@" | sort -n | head -n "${limit}" | cut -d" " -f2-
}

keep_few_artifacts() {
  local target kind artifact
  shopt -s nullglob
  for target in "${kTargets[@]}"; do
    for kind in crash timeout oom slow-unit; do
      local -a found=("${kOut}/${target}/${kind}"-*)
      local -A kept=()
      while read -r artifact; do [[ -z ${artifact} ]] || kept[${artifact}]=1; done \
        < <(smallest "${kMaxArtifacts}" "${found[@]}")
      for artifact in "${found[@]}"; do [[ -n ${kept[${artifact}]:-} ]] || rm -f "${artifact}"; done
    done
  done
}

pack() {
  (cd "${kOut}" && find ./*/corpus -type f -printf '%s %p\n' | sort -n |
    awk -v limit="${kMaxCorpusBytes}" '(sum += $1) <= limit { print $2 }' | tar -czf new-corpus.tar.gz -T -)
  (cd "${kOut}" && find . -name 'crash-*' -o -name 'timeout-*' -o -name 'oom-*' | tar -czf broken.tar.gz -T -)
}

# A fork job's lines read "#EXECUTIONS: cov: … oom/timeout/crash: A/B/C time: …".
report() {
  local target line executions counts broken=0
  printf '%-12s %14s %10s %10s  %s\n' target executions exec/s 'new units' 'ooms/timeouts/crashes'
  for target in "${kTargets[@]}"; do
    line=$(grep -a '^#[0-9]*: cov:' "${kOut}/${target}/log" | tail -n 1)
    executions=$(sed -E 's/^#([0-9]+):.*/\1/' <<<"${line:-#0:}")
    counts=$(grep -oE 'oom/timeout/crash: [0-9/]+' <<<"${line}" | cut -d' ' -f2 || true)
    [[ ${counts} == 0/0/0 ]] || broken=1
    printf '%-12s %14s %10s %10s  %s\n' "${target}" "${executions}" $((executions / kSeconds)) \
      "$(find "${kOut}/${target}/corpus" -type f | wc -l)" "${counts:-did not run}"
  done
  return "${broken}"
}

pids=()
for target in "${kTargets[@]}"; do
  fuzz "${target}" &
  pids+=($!)
done
for pid in "${pids[@]}"; do wait "${pid}"; done
keep_few_artifacts
pack
report
