# Sourced by tools/quickstart, tools/build and tools/test: what they share. Bash, with set -euo pipefail.

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

# What the library and `tutti` need: commands, each with the package that provides it, and packages.
quick_packages=(g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config libhwy-dev libspdlog-dev libfmt-dev libsodium-dev
  libhwloc-dev libcli11-dev nlohmann-json3-dev libpugixml-dev liblemon-dev)
# What a whole build needs beside them.
needed_packages=("${quick_packages[@]}" python3:python3 libgtest-dev libbenchmark-dev)
# What optional parts are made of (cmake/Parts.cmake). Installed where apt has them.
part_packages=(libopenblas-dev libibverbs-dev libucx-dev libsimgrid-dev)

# missing_packages PACKAGE|COMMAND:PACKAGE…: prints the packages that are missing, one a line.
missing_packages() {
  local want
  for want in "$@"; do
    case $want in
      *:*) command -v "${want%%:*}" >/dev/null || echo "${want#*:}" ;;
      *) [[ $(dpkg-query -W -f '${db:Status-Status}' "$want" 2>/dev/null) == installed ]] || echo "$want" ;;
    esac
  done
}

# install_missing [PACKAGE|COMMAND:PACKAGE]…: installs by apt what is missing: of the packages above, and of these, which are
# optional as part_packages are: what cannot be installed of them is left out.
install_missing() {
  local -a needed optional as_root=()
  mapfile -t needed < <(missing_packages "${needed_packages[@]}")
  mapfile -t optional < <(missing_packages "${part_packages[@]}" "$@")
  ((${#needed[@]} + ${#optional[@]})) || return 0
  command -v apt-get >/dev/null || fail "this script knows Debian and Ubuntu (no apt-get here); install by hand what" \
    "these packages hold, then use cmake --preset release: ${needed_packages[*]#*:} ${part_packages[*]}" \
    "(without libgtest-dev and libbenchmark-dev: with -DTUTTI_BUILD_TESTS=OFF -DTUTTI_BUILD_BENCH=OFF)"

  if ((EUID != 0)); then
    if command -v sudo >/dev/null && { [[ -t 0 ]] || sudo -n true 2>/dev/null; }; then
      as_root=(sudo)
    elif ((${#needed[@]})); then
      fail "packages are missing, and installing them takes root or sudo. Have somebody run:
  apt-get update && apt-get install --no-install-recommends ${needed[*]} ${optional[*]}"
    else
      say "going on without ${optional[*]}: installing packages takes root or sudo"
      return 0
    fi
  fi
  "${as_root[@]}" apt-get update -qq || say "apt-get update failed; going on with the package lists at hand"
  if ((${#needed[@]})); then
    say "installing by apt what is missing: ${needed[*]}"
    apt_install "${needed[@]}" || fail "apt could not install what every build needs (above)"
  fi
  local package
  local -a known=()
  for package in "${optional[@]}"; do
    if apt-cache show "$package" >/dev/null 2>&1; then known+=("$package"); else say "apt has no package $package here"; fi
  done
  ((${#known[@]})) || return 0
  say "installing by apt for optional parts: ${known[*]}"
  apt_install "${known[@]}" && return 0
  for package in "${known[@]}"; do  # one that cannot be installed does not keep the others out
    apt_install "$package" || say "going on without $package: apt could not install it (above)"
  done
}

# --no-remove: a development package must not push out another vendor's library. `as_root` is install_missing's.
apt_install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends --no-remove "$@"
}

# configure PRESET [FLAGS…]: each time, since CMake itself does not notice that a package was installed meanwhile. The first time
# it shows CMake's output, later only that of a failure.
configure() {
  local preset=$1
  local -a flags=("${@:2}")
  command -v ccache >/dev/null && flags+=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache -DCMAKE_C_COMPILER_LAUNCHER=ccache)
  say "configuring the $preset preset"
  if [[ -f build/$preset/build.ninja ]]; then
    cmake --preset "$preset" "${flags[@]}" >"build/$preset/configure.log" 2>&1 || { cat "build/$preset/configure.log" && return 1; }
  else
    cmake --preset "$preset" "${flags[@]}"
  fi
}

# show_parts PRESET: what is in that build, what was left out, and why.
show_parts() {
  say "parts of build/$1"
  awk -F '\t' '{ printf "  %-4s %s: %s\n", $1, $3, $4 }' "build/$1/parts.txt"
}

# make_targets PRESET [TARGET…]: what configure() has configured.
make_targets() {
  export CCACHE_SLOPPINESS=${CCACHE_SLOPPINESS-pch_defines,time_macros}  # else it keeps nothing of precompiled headers
  say "building the $1 preset, $jobs jobs"
  cmake --build --preset "$1" -j "$jobs" ${2:+--target "${@:2}"}
}

# build PRESET [TARGET…]
build() {
  configure "$1"
  make_targets "$@"
}
