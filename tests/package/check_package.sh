#!/usr/bin/env bash
# Installs a build into a fresh prefix, moves the prefix, and builds and runs a project that uses it, through CMake's
# find_package and through pkg-config. Usage: check_package.sh BUILD_DIR [find_package|pkg_config|headers_stand_alone]...
set -euo pipefail

consumer=$(cd "$(dirname "$0")/consumer" && pwd)
readonly build=$1
shift
if [[ $# -eq 0 ]]; then set -- find_package pkg_config headers_stand_alone; fi

work=$(mktemp -d)
trap 'rm -rf "${work}"' EXIT

# Installed paths must not lead back to where the package was first put.
DESTDIR='' cmake --install "${build}" --prefix "${work}/first" >/dev/null
mv "${work}/first" "${work}/prefix"
readonly prefix=${work}/prefix
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "${build}/CMakeCache.txt")

find_package() {
  cmake -S "${consumer}" -B "${work}/build" -G Ninja -D CMAKE_BUILD_TYPE=Release \
    -D CMAKE_CXX_COMPILER="${compiler}" -D CMAKE_PREFIX_PATH="${prefix}"
  cmake --build "${work}/build"
  "${work}/build/consumer"
}

pkg_config() {
  local pc_dir flags
  pc_dir=$(dirname "$(find "${prefix}" -name serval.pc)")
  flags=$(PKG_CONFIG_PATH="${pc_dir}" pkg-config --cflags --libs serval)
  # shellcheck disable=SC2086
  "${compiler}" -std=c++20 "${consumer}/consumer.cc" ${flags} -o "${work}/consumer"
  "${work}/consumer"
}

# The public headers must be complete without any other of ours or of the libraries inside.
headers_stand_alone() {
  local header
  for header in "${prefix}"/include/serval/*.h; do
    "${compiler}" -std=c++20 -Wall -Wextra -Werror -fsyntax-only -I "${prefix}/include" -include "${header}" \
      -x c++ /dev/null
  done
}

for check in "$@"; do
  case ${check} in
    find_package | pkg_config | headers_stand_alone) "${check}" ;;
    *) echo "check_package.sh: ${check} is not a check" >&2; exit 2 ;;
  esac
  echo "package: ${check} ok"
done
