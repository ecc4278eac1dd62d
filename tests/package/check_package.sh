#!/usr/bin/env bash
# Installs a build into a new prefix, moves the prefix, and uses the package there. The checks:
#   find_package         a CMake project finds, links and runs it
#   pkg_config           a compiler with pkg-config's flags links and runs it
#   headers_stand_alone  each public header compiles by itself, with the installed headers only
#   executable           bin/serval finds the installed model
#   readme               the README's program, built with the README's CMake lines, generates a story
# Usage: check_package.sh BUILD_DIR [CHECK]...
set -euo pipefail

readonly kChecks=(find_package pkg_config headers_stand_alone executable readme)

find_package() {
  cmake -S "${consumer}" -B "${work}/build" -G Ninja -D CMAKE_BUILD_TYPE=Release \
    -D CMAKE_CXX_COMPILER="${compiler}" -D CMAKE_PREFIX_PATH="${prefix}"
  cmake --build "${work}/build"
  run_consumer "${work}/build/consumer"
}

pkg_config() {
  local pc_dir flags
  pc_dir=$(dirname "$(find "${prefix}" -name serval.pc)")
  flags=$(PKG_CONFIG_PATH="${pc_dir}" pkg-config --cflags --libs serval)
  # shellcheck disable=SC2086
  "${compiler}" -std=c++20 "${consumer}/consumer.cc" ${flags} -o "${work}/consumer"
  run_consumer "${work}/consumer"
}

run_consumer() {  # program
  local -a arguments=()
  if [[ -d ${model} ]]; then arguments=("${model}"); fi
  "$1" "${arguments[@]}"
}

headers_stand_alone() {
  local header
  for header in "${prefix}"/include/serval/*.h; do
    "${compiler}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "${prefix}/include" -include "${header}" \
      -x c++ /dev/null
  done
}

executable() {
  "${prefix}/bin/serval" --version
  if [[ -d ${model} ]]; then
    env -u SERVAL_ASSETS "${prefix}/bin/serval" info --json | grep -F "${model}"
  fi
}

readme() {
  local project=${work}/readme
  mkdir "${project}"
  fenced cpp >"${project}/app.cc"
  {
    echo "cmake_minimum_required(VERSION 3.25)"
    echo "project(App LANGUAGES CXX)"
    echo "add_executable(app app.cc)"
    fenced cmake
  } >"${project}/CMakeLists.txt"
  cmake -S "${project}" -B "${project}/build" -G Ninja -D CMAKE_BUILD_TYPE=Release \
    -D CMAKE_CXX_COMPILER="${compiler}" -D CMAKE_PREFIX_PATH="${prefix}"
  cmake --build "${project}/build"
  SERVAL_ASSETS=$(dirname "${model}") "${project}/build/app" | grep .
}

fenced() {  # language → the README's block
  sed -n "/^\`\`\`$1\$/,/^\`\`\`\$/{/^\`\`\`/d;p}" "$(dirname "$0")/../../README.md"
}

if [[ $# -eq 0 ]]; then
  sed -n '2,/^set/{/^set/d;p}' "$0" >&2
  exit 2
fi
readonly build=$1
shift
if [[ $# -eq 0 ]]; then set -- "${kChecks[@]}"; fi

consumer=$(cd "$(dirname "$0")/consumer" && pwd)
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "${build}/CMakeCache.txt")
work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT

# Moves the package, so that paths into its first prefix break.
DESTDIR='' cmake --install "${build}" --prefix "${work}/first" >/dev/null
mv "${work}/first" "${work}/prefix"
readonly prefix=${work}/prefix
readonly model=${prefix}/share/serval/serval-stories

for check in "$@"; do
  if [[ " ${kChecks[*]} " != *" ${check} "* ]]; then
    echo "check_package.sh: ${check} is not one of ${kChecks[*]}" >&2
    exit 2
  fi
  "${check}"
  echo "package: ${check} ok"
done
