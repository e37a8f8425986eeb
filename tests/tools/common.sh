# shellcheck shell=bash disable=SC2034
# Functions that ./quickstart and ./test share; sourced by bash, never run. They expect the project's root as working
# directory and `set -eu`. What is said to people goes to standard output, logs of long steps to .quickstart/logs/.

CODEX_VERSION=0.145.0
CLAUDE_VERSION=2.1.218
LOGS=.quickstart/logs

# Debian 12 packages. `build` is all that the programs need, `demo` what the demo runs besides them.
PACKAGES_BUILD="cmake ninja-build g++ libc6-dev rapidjson-dev libyaml-cpp-dev libsqlitecpp-dev libsqlite3-dev
  libspdlog-dev libfmt-dev libcli11-dev libssl-dev libseccomp-dev"
PACKAGES_DEMO="git python3 ca-certificates"
PACKAGES_TEST="catch2 iproute2 jq make pkg-config"
PACKAGES_FULL="clang-14 libclang-rt-14-dev clang-tidy-14 llvm-14"

say() { printf '%s\n' "$*"; }
stop() {
  printf '\n%s: %s\n' "${0##*/}" "$1" >&2
  [ -z "${2:-}" ] || printf '  remedy: %s\n' "$2" >&2
  exit "${3:-4}"
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# ---- packages --------------------------------------------------------------------------------------------------------

missing_packages() {
  local package
  for package in "$@"; do
    if [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      printf '%s ' "$package"
    fi
  done
}

boost_version_of() { sed -n 's/^#define BOOST_VERSION \([0-9]*\).*/\1/p' "$1" 2>/dev/null || true; }

# installed: 1.81 or newer is there; package: libboost1.81-dev can be installed; unpack: older headers are installed and
# stay, so the package is only unpacked below .deps/.
boost_plan() {
  local own installed
  own=$(boost_version_of .deps/boost/usr/include/boost/version.hpp)
  installed=$(boost_version_of /usr/include/boost/version.hpp)
  if [ "${own:-0}" -ge 108100 ] || [ "${installed:-0}" -ge 108100 ]; then
    echo installed
  elif [ -n "$installed" ] || [ -z "$(missing_packages libboost1.74-dev)" ]; then
    echo unpack
  else
    echo package
  fi
}

unpack_boost() {
  local sandbox=()
  ! is_root || sandbox=(-o APT::Sandbox::User=root)
  mkdir -p .deps "$LOGS"
  rm -rf .deps/boost.new .deps/boost-download
  mkdir -p .deps/boost-download
  (cd .deps/boost-download && apt-get "${sandbox[@]}" download libboost1.81-dev) >"$LOGS/boost.log" 2>&1 ||
    stop "libboost1.81-dev could not be downloaded; $LOGS/boost.log says why" "apt-get update, then try again"
  dpkg-deb -x .deps/boost-download/*.deb .deps/boost.new
  rm -rf .deps/boost .deps/boost-download
  mv .deps/boost.new .deps/boost
}

# npm: any npm with a node will do; Debian's packages only where there is none.
missing_npm() {
  if ! command -v npm >/dev/null || ! command -v node >/dev/null; then
    printf 'npm nodejs '
  fi
}

install_line() { say "apt-get update && apt-get install --no-install-recommends --no-remove $*"; }

# Installs what is named; as an ordinary user prints the one line and stops.
install_packages() {
  [ $# -gt 0 ] || return 0
  if ! is_root; then
    say ""
    say "Missing packages: $*"
    say "Install them as root with this line, then start again:"
    say ""
    say "  $(install_line "$*")"
    exit 4
  fi
  mkdir -p "$LOGS"
  local log="$LOGS/apt.log"
  with_progress "package lists" "$log" true apt-get update
  with_progress "packages" "$log" apt_progress env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends --no-remove -o Dpkg::Use-Pty=0 -o APT::Color=0 "$@" ||
    stop "the packages could not be installed; the end of $log says why" "apt-get install --no-remove $*"
}

apt_progress() {
  local total=0 unpacked=0 configured=0
  total=$(sed -n 's/^.* \([0-9]*\) newly installed.*/\1/p' "$1" | tail -n 1)
  unpacked=$(grep -c '^Unpacking ' "$1" || true)
  configured=$(grep -c '^Setting up ' "$1" || true)
  [ "${total:-0}" -gt 0 ] && echo "$unpacked unpacked, $configured of $total set up" || echo "fetching"
}

# ---- long steps ------------------------------------------------------------------------------------------------------

# with_progress TITLE LOG PROGRESS COMMAND…: runs the command with its output in LOG; PROGRESS LOG prints what to show
# meanwhile. On a terminal one line is rewritten each second; elsewhere a line is printed every half minute.
with_progress() {
  local title=$1 log=$2 progress=$3 pid started status=0 elapsed shown=0 text
  shift 3
  mkdir -p "$LOGS"
  : >"$log"
  started=$SECONDS
  "$@" >>"$log" 2>&1 </dev/null &
  pid=$!
  trap 'kill "$pid" 2>/dev/null; exit 130' INT TERM
  while kill -0 "$pid" 2>/dev/null; do
    elapsed=$((SECONDS - started))
    text=$("$progress" "$log" 2>/dev/null | tail -n 1)
    if [ -t 1 ]; then
      printf '\r\033[K  %s: %s (%d s)' "$title" "$text" "$elapsed"
    elif [ "$elapsed" -ge $((shown + 30)) ]; then
      printf '  %s: %s (%d s)\n' "$title" "$text" "$elapsed"
      shown=$elapsed
    fi
    sleep 0.5
  done
  wait "$pid" || status=$?
  trap - INT TERM
  text=$("$progress" "$log" 2>/dev/null | tail -n 1)
  [ -t 1 ] && printf '\r\033[K'
  if [ "$status" -eq 0 ]; then
    printf '  %s: done%s (%d s)\n' "$title" "${text:+, $text}" $((SECONDS - started))
  else
    printf '  %s: FAILED (%d s); the end of %s:\n' "$title" $((SECONDS - started)) "$log"
    tail -n 40 "$log" | sed 's/^/    /'
  fi
  return "$status"
}

ninja_progress() { grep -o '^\[[0-9]*/[0-9]*\]' "$1" | tail -n 1 | tr -d '[]' | sed 's#/# of #; s#$# steps#'; }

# As many compilers as processors, but no more than memory allows (about 1 GiB each).
build_jobs() {
  local processors memory
  processors=$(nproc)
  memory=$(($(awk '/^MemAvailable:/ {print $2}' /proc/meminfo) / 1048576))
  [ "$memory" -ge 1 ] || memory=1
  [ "$processors" -le "$memory" ] && echo "$processors" || echo "$memory"
}

# build PRESET [TARGET…] with the CMake arguments in CMAKE_ARGUMENTS, for at most STEP_LIMIT seconds (0 or unset: any).
build() {
  local preset=$1
  shift
  # shellcheck disable=SC2086
  with_progress "configure $preset" "$LOGS/configure-$preset.log" true cmake --preset "$preset" ${CMAKE_ARGUMENTS:-} &&
    with_progress "build $preset" "$LOGS/build-$preset.log" ninja_progress \
      timeout "${STEP_LIMIT:-0}" ninja -C "build/$preset" -j "$(build_jobs)" "$@"
}

# ---- the tree for other users ------------------------------------------------------------------------------------------

as_nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }

# Prints the outermost directory above this tree that an ordinary user cannot pass: /root of a clone in root's home.
first_closed_directory() {
  local path=$PWD above=()
  while [ "$path" != / ]; do
    above=("$path" "${above[@]}")
    path=$(dirname "$path")
  done
  for path in "${above[@]}"; do
    as_nobody test -x "$path" || { printf '%s\n' "$path"; return; }
  done
}

# Runs a command that has parts for root and parts for an ordinary user. Where the tree lies below a closed directory it is
# shown at its own path in a mount namespace of the command's own, with an open, empty directory in the closed one's place;
# nothing is changed for anybody else.
in_reachable_tree() {
  local closed=""
  ! is_root || closed=$(first_closed_directory)
  if [ -z "$closed" ]; then
    "$@"
    return
  fi
  # shellcheck disable=SC2016
  unshare --mount --propagation private bash -c '
    set -eu
    closed=$1 tree=$2
    shift 2
    cd "$tree"
    mount -t tmpfs -o mode=0755 open "$closed"
    mkdir -p "$tree"
    # The working directory is still the real tree, below the new mount; -c keeps mount from looking it up by name.
    mount -c --bind . "$tree"
    cd "$tree"
    exec "$@"' in_reachable_tree "$closed" "$PWD" "$@"
}

# ---- real harnesses from npm ---------------------------------------------------------------------------------------------
# Each in a folder of its own below .deps; the demo needs codex, the tests codex and claude.

harness_package() { # NAME
  case $1 in
    codex) printf '%s' "@openai/codex" ;;
    claude) printf '%s' "@anthropic-ai/claude-code" ;;
  esac
}
harness_version() { case $1 in codex) printf '%s' "$CODEX_VERSION" ;; claude) printf '%s' "$CLAUDE_VERSION" ;; esac; }

harness_is_installed() { # NAME
  local modules=.deps/$1/node_modules
  [ -e "$modules/.bin/$1" ] &&
    [ "$(sed -n 's/^  "version": "\(.*\)",$/\1/p' "$modules/$(harness_package "$1")/package.json")" = "$(harness_version "$1")" ]
}

# Into a folder of its own, then renamed: an interrupted installation leaves nothing that looks like a whole one.
npm_install_harness() { # NAME
  rm -rf ".deps/$1.new"
  mkdir -p ".deps/$1.new"
  npm install --prefix ".deps/$1.new" --ignore-scripts --no-audit --no-fund --no-update-notifier \
    --fetch-retries 4 "$(harness_package "$1")@$(harness_version "$1")" &&
    rm -rf ".deps/$1" &&
    mv ".deps/$1.new" ".deps/$1"
}

harness_progress() { du -sm .deps | awk '{print $1 " MB in .deps"}'; }

install_harness() { # NAME
  ! harness_is_installed "$1" || return 0
  with_progress "$1 $(harness_version "$1")" "$LOGS/$1.log" harness_progress npm_install_harness "$1" ||
    stop "$1 could not be installed from npm; $LOGS/$1.log says why" \
      "npm install --prefix .deps/$1 $(harness_package "$1")@$(harness_version "$1")"
  harness_is_installed "$1" || stop "npm installed another version of $1 than $(harness_version "$1")"
}
