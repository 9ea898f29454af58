# Sourced by tools/quickstart and tools/test: what both need. Bash, with set -euo pipefail.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
jobs=$(nproc)

say() { printf '\n== %s\n' "$*"; }
fail() {
  printf '\n%s: %s\n' "$0" "$*" >&2
  exit 1
}

# sources_in FOLDER…: all C, C++ and CUDA files there.
sources_in() {
  local folder
  for folder in "$@"; do
    [[ ! -d $folder ]] || find "$folder" -name '*.cpp' -o -name '*.[ch]' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh'
  done
}

# A required command, and the package that provides it.
needed_commands=(g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config python3:python3)
needed_packages=(libhwy-dev libspdlog-dev libfmt-dev libsodium-dev libhwloc-dev libcli11-dev nlohmann-json3-dev
  libpugixml-dev libgtest-dev libbenchmark-dev libopenblas-dev)

# Prints the packages that are missing, out of those above and those given (command:package).
missing_packages() {
  local pair package
  for pair in "${needed_commands[@]}" "$@"; do
    command -v "${pair%%:*}" >/dev/null || printf '%s ' "${pair#*:}"
  done
  for package in "${needed_packages[@]}"; do
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || printf '%s ' "$package"
  done
}

# Installs only missing packages with apt, and lists them.
install_missing() {
  command -v apt-get >/dev/null || fail "this script knows Debian and Ubuntu (no apt-get here); install by hand what" \
    "these packages hold, then use cmake --preset release: ${needed_commands[*]#*:} ${needed_packages[*]}"
  local -a missing as_root=()
  read -ra missing <<<"$(missing_packages "$@")"
  ((${#missing[@]})) || return 0

  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    else
      fail "packages are missing, and installing them takes root or sudo. Have somebody run:
  apt-get update && apt-get install --no-install-recommends ${missing[*]}"
    fi
  fi
  say "installing by apt what is missing: ${missing[*]}"
  "${as_root[@]}" apt-get update -qq || say "apt-get update failed; going on with the package lists at hand"
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
}

# configure PRESET: once; afterwards ninja configures again by itself whenever a CMake file changes.
configure() {
  [[ -f build/$1/build.ninja ]] && return
  say "configuring the $1 preset"
  local -a launcher=()
  command -v ccache >/dev/null && launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
  cmake --preset "$1" "${launcher[@]}"
}

# build PRESET [TARGET…]
build() {
  local preset=$1
  shift
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros}  # else it keeps nothing of precompiled headers
  configure "$preset"
  say "building the $preset preset, $jobs jobs"
  cmake --build --preset "$preset" -j "$jobs" ${1:+--target "$@"}
}
