#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that a purpose needs: demo, test, bench, check.
# Does nothing, in milliseconds, when none is missing. Without apt, root or sudo it says what is needed and lets the
# build go on if the tools are there from elsewhere.
set -euo pipefail

# purpose | package | how to see it without dpkg: a command or a header | what it is for
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
test|libgtest-dev|header gtest/gtest.h|GoogleTest
test|libgmock-dev|header gmock/gmock.h|GoogleMock
test|python3|command python3|tests of the executable and of the layering, 3.10 or later
bench|libbenchmark-dev|header benchmark/benchmark.h|Google Benchmark
check|git|command git|lists the files to check
check|ccache|command ccache|compiles unchanged files only once over all build folders
check|clang-format-14|command clang-format-14|the layout that the format check asks for
check|clang-tidy|command clang-tidy|static checks
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

present() {  # "command NAME" or "header PATH" → is it there, wherever it came from?
  case $1 in
    command\ *) command -v "${1#command }" >/dev/null ;;
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

install() {  # package...
  echo "Installing packages: $*"
  apt_as_root update || echo "apt-get update failed; trying with the package lists at hand" >&2
  apt_as_root install --yes --no-install-recommends "$@" >/dev/null
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
      demo | test | bench | check) ;;
      *) echo "usage: tools/install_packages.sh [demo|test|bench|check]..." >&2; exit 2 ;;
    esac
  done
  local rows missing reason
  rows=$(packages_for "$@")
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    reason="apt is not on this machine"
  else
    missing=$(missing_in_dpkg <<<"${rows}")
    [[ -n ${missing} ]] || exit 0
    if ! can_be_root; then
      reason="installing packages needs root or sudo"
    else
      # shellcheck disable=SC2086
      install ${missing} && exit 0
      reason="apt could not install all packages"
    fi
  fi
  explain "${reason}" <<<"${rows}"
}

main "$@"
