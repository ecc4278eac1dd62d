#!/usr/bin/env bash
# Types the README's commands on a bare machine: a new chroot of this machine's Debian or Ubuntu release that holds the
# base system, git and a clone of HEAD. Fails unless each command ends as the README says.
# Usage: check_quickstart.sh [--test] [--keep] [--ubuntu SUITE]    as root, with debootstrap
#   --test          also the README's second command, which builds and runs all tests (long)
#   --keep          leave the chroot there, to look at
#   --ubuntu SUITE  a release of Ubuntu, as noble, instead of this machine's; its keys are in UBUNTU_KEYRING, a file that
#                   Ubuntu's package ubuntu-keyring has
# apt's sources and proxies are this machine's, for Ubuntu archive.ubuntu.com. Takes about 3 minutes on 2 cores without --test.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly kClone=/root/serval
readonly kStory='^serval: generated [0-9]+ tokens'
readonly kUbuntuKeyring=${UBUNTU_KEYRING:-/usr/share/keyrings/ubuntu-archive-keyring.gpg}
readonly kUbuntu=http://archive.ubuntu.com/ubuntu
readonly kTested='^100% tests passed'

usage() {
  sed -n '4,8s/^# //p' "$0" >&2
  exit 2
}

fail() {
  echo "check_quickstart: $1" >&2
  exit 1
}

# The indented command of the README's section "Try it" that holds the words.
readme_command() {  # words
  local command
  command=$(sed -n '/^## Try it$/,/^## Your/{/^```/,/^```/d;s/^    //p}' README.md | grep -F "$1" | head -n 1)
  [[ -n ${command} ]] || fail "README.md, section Try it: no command with '$1'"
  echo "${command}"
}

# One line an archive of the chroot's release: address|suite|component. Other vendors' archives are left out.
archives() {  # origin
  if [[ -n ${ubuntu} ]]; then
    printf "${kUbuntu}|%s|%s\n" "${ubuntu}" main "${ubuntu}" universe "${ubuntu}-updates" main "${ubuntu}-updates" universe
    return
  fi
  # shellcheck disable=SC2016
  apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)' 'Identifier: Packages' |
    sed -n "s/^$1|//p" | sort -u
}

# /etc/apt of the chroot: the archives of this machine's release, and how this machine reaches them.
write_apt_settings() {  # root, archives
  local keyring
  keyring=$(cd "$1" && find usr/share/keyrings -name "${ID}-archive-keyring.gpg")
  awk -F'|' -v key="/${keyring:-usr/share/keyrings}" '{print "deb [signed-by=" key "] " $1, $2, $3}' <<<"$2" \
    >"$1/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::([a-z]+::Proxy|Check-)' >"$1/etc/apt/apt.conf.d/90host" || true
  local file
  for file in /etc/resolv.conf /etc/hosts; do cp -L "${file}" "$1${file}"; done
}

make_chroot() {  # root
  local origin=${ID^} all main
  all=$(archives "${origin}")
  main=$(awk -F'|' -v suite="${VERSION_CODENAME}" '$2 == suite {print $1; exit}' <<<"${all}")
  [[ -n ${main} ]] || fail "apt on this machine has no source for ${origin} ${VERSION_CODENAME}"
  # All releases of Ubuntu have one script; debootstrap need not know the newest by name.
  debootstrap --variant=minbase --include=git ${ubuntu:+"--keyring=${kUbuntuKeyring}"} \
    "${VERSION_CODENAME}" "$1" "${main}" ${ubuntu:+/usr/share/debootstrap/scripts/gutsy} >"$1.log" 2>&1 ||
    fail "debootstrap failed: see $1.log"
  write_apt_settings "$1" "${all}"
  mount -t proc proc "$1/proc"
  mount -t devpts -o newinstance,ptmxmode=0666,mode=0620 devpts "$1/dev/pts"  # some tests talk to a terminal
  git -c safe.directory='*' clone --quiet --no-local . "$1${kClone}"
}

run_in_chroot() {  # root, command, pattern that a line of its output has to match
  local start=${SECONDS}
  echo "=== $2"
  # Only what a login as root gives, and the proxies.
  env -i HOME=/root TERM=dumb PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    ${http_proxy:+"http_proxy=${http_proxy}"} ${https_proxy:+"https_proxy=${https_proxy}"} \
    chroot "$1" bash -c "cd ${kClone} && $2" </dev/null 2>&1 | tee "$1.log" ||
    fail "'$2' failed"
  grep -qE "$3" "$1.log" || fail "'$2' did not print a line like '$3'"
  echo "=== ok, $((SECONDS - start)) s: $(grep -E "$3" "$1.log" | tail -n 1)"
}

main() {
  local with_test='' keep=''
  ubuntu=''
  while [[ $# -gt 0 ]]; do
    case $1 in
      --test) with_test=1 ;;
      --keep) keep=1 ;;
      --ubuntu)
        ubuntu=${2:-}
        [[ -n ${ubuntu} ]] || usage
        shift
        ;;
      *) usage ;;
    esac
    shift
  done
  [[ $(id -u) -eq 0 ]] || fail "needs root, for chroot"
  command -v debootstrap >/dev/null || fail "needs debootstrap (apt-get install debootstrap)"
  # shellcheck disable=SC1091
  source /etc/os-release
  if [[ -n ${ubuntu} ]]; then
    [[ -f ${kUbuntuKeyring} ]] || fail "needs ${kUbuntuKeyring} (of the package ubuntu-keyring; UBUNTU_KEYRING names another file)"
    ID=ubuntu VERSION_CODENAME=${ubuntu}
  fi

  local demo tests
  demo=$(readme_command 'make demo')
  tests=$(readme_command 'make test')
  root=$(mktemp -d)
  trap 'umount "${root}/dev/pts" "${root}/proc" 2>/dev/null || true; [[ -n "'"${keep}"'" ]] || rm -rf "${root}" "${root}.log"' EXIT
  make_chroot "${root}"
  run_in_chroot "${root}" "${demo}" "${kStory}"
  if [[ -n ${with_test} ]]; then run_in_chroot "${root}" "${tests}" "${kTested}"; fi
  if [[ -n ${keep} ]]; then echo "The chroot is ${root}"; fi
}

main "$@"
