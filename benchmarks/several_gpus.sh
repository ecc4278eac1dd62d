#!/bin/sh
# Measures Llama-70B on several GPUs of this machine, one workload after the other: the exchange of one row, 1, 8, 64
# and 256 sequences, a prompt, requests. Results are appended to FILE, one line of JSON each
# (benchmarks/results/README.md), and printed as tables. A workload that fails does not end the others.
#
# usage: benchmarks/several_gpus.sh GPUS FILE [SERVAL]
#   GPUS    2, 4 or 8, or a list as 0,1
#   SERVAL  the executable, with exchange_benchmark beside it. Default: build/bin/serval
set -u
if [ $# -lt 2 ]; then
  sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
gpus=$1 file=$2 serval=${3:-build/bin/serval}
model="-m llama-3.1-70b --random-weights 1 --backend device"
failed=0

# measure SECONDS COMMAND...: at most so long.
measure() {
  seconds=$1
  shift
  timeout "$seconds" "$@" --gpus "$gpus" --record "$file" || {
    echo "several_gpus.sh: $*: exit code $?" >&2
    failed=1
  }
}
run() {
  seconds=$1
  shift
  measure "$seconds" "$serval" bench "$@"
}

measure 60 "$(dirname "$serval")/exchange_benchmark" --bytes 16K,128K,1M,16M
run 120 $model -p 0 -n 128 -d 128 -b 1,8,64
run 120 $model -p 0 -n 64 -d 128 -b 256 -c 256
run 120 $model -p 2048 -n 0 -d 0
run 240 $model --requests 256 --input 512 --output 256 --max-sequences 256 -c 1024
run 400 $model --requests 512 --input 1000 --output 1000 --max-sequences 512 -c 2048
exit $failed
