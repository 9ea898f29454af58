#!/usr/bin/env bash
# Installs the build into a temporary prefix and uses it from outside: a C++ project by find_package, a C program by
# pkg-config, a program for NCCL as docs/nccl.md says; each runs alone and, where the command line was built, as two ranks.
#
#   check.sh BUILD_FOLDER      e.g. tests/install/check.sh build/release
set -euo pipefail
build=$(realpath "$1")
here=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

# expect TEXT COMMAND…: the command succeeds and prints exactly that.
expect() {
  local want=$1 got
  shift
  got=$("$@") || { echo "failed with status $?: $*" >&2 && exit 1; }
  [[ $got == "$want" ]] || { printf '%s\n  printed: %s\n  wanted:  %s\n' "$*" "$got" "$want" >&2 && exit 1; }
}

cmake --install "$build" --prefix "$prefix" >"$work/install.log" || { cat "$work/install.log" && exit 1; }

cmake -S "$here/cpp" -B "$work/cpp" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
  { cat "$work/configure.log" && exit 1; }
cmake --build "$work/cpp"

pc=$(find "$prefix" -name tutti.pc)
export PKG_CONFIG_PATH=${pc%/*}
libdir=$(pkg-config --variable=libdir tutti)
[[ $(realpath "$libdir") == "$prefix"/* ]] || { echo "tutti.pc points outside the prefix: $libdir" >&2 && exit 1; }
read -ra flags <<<"$(pkg-config --cflags --libs tutti)"
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror "$here/c/sum.c" "${flags[@]}" -o "$work/sum_c"
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror "$here/cpp/parts.cpp" "${flags[@]}" -o "$work/parts"
export LD_LIBRARY_PATH=$libdir

for program in "$work/cpp/sum" "$work/sum_c"; do
  expect "rank 0 of 1: the sum is 1" "$program"
  if [[ -x $prefix/bin/tutti ]]; then
    two=$("$prefix/bin/tutti" run -n 2 -- "$program")
    for rank in 0 1; do
      grep -q "rank $rank of 2: the sum is 3$" <<<"$two" || { printf 'under tutti run -n 2:\n%s\n' "$two" >&2 && exit 1; }
    done
  fi
done
expect "rank 0: left is 0, 1 of my colour, sum 1" "$work/parts"
three=$(python3 -B "$here/launch.py" 3 "$work/parts" | sort)  # that page's launcher: ranks that meet by TUTTI_ID
want="rank 0: left is 2, 2 of my colour, sum 3
rank 1: left is 0, 1 of my colour, sum 3
rank 2: left is 1, 2 of my colour, sum 3"
[[ $three == "$want" ]] || { printf 'under launch.py 3:\n%s\n' "$three" >&2 && exit 1; }

# A program under ThreadSanitizer, where the compiler has it: the installed file keeps the library's own threads out of its
# reports, which are there without it.
if echo 'int main() {}' | "${CXX:-c++}" -x c++ -fsanitize=thread - -o "$work/can_tsan" 2>/dev/null &&
  setarch "$(uname -m)" -R "$work/can_tsan" 2>/dev/null; then
  "${CXX:-c++}" -std=c++20 -g -fsanitize=thread "$here/cpp/thread_ranks.cpp" "${flags[@]}" -o "$work/thread_ranks"
  suppressions=$prefix/share/tutti/tsan.supp
  export UCX_MEM_EVENTS=n
  TSAN_OPTIONS=suppressions=$suppressions setarch "$(uname -m)" -R "$work/thread_ranks" 2>"$work/errors" ||
    { cat "$work/errors" >&2 && exit 1; }
  setarch "$(uname -m)" -R "$work/thread_ranks" 2>"$work/errors" &&
    { echo "ThreadSanitizer reports nothing without tsan.supp: is it still needed?" >&2 && exit 1; }
  grep -q "WARNING: ThreadSanitizer" "$work/errors" || { cat "$work/errors" >&2 && exit 1; }
fi

[[ ! -x $prefix/bin/tutti ]] || "$prefix/bin/tutti" plan list >/dev/null  # a command of tutti-extra

# A job that goes on without the ranks that died.
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror "$here/../../docs/examples/survivors.cpp" "${flags[@]}" -o "$work/survivors"
if [[ -x $prefix/bin/tutti ]]; then
  for victim in 0 2; do
    "$prefix/bin/tutti" run -n 4 --keep-going --no-prefix -- "$work/survivors" 6 "$victim" 3 >"$work/out" 2>"$work/errors" ||
      { cat "$work/out" "$work/errors" >&2 && exit 1; }
    for step in 3 4 5; do
      grep -q "^step $step: 3 ranks, sum $((6 - victim))$" "$work/out" || { cat "$work/out" "$work/errors" >&2 && exit 1; }
    done
  done
fi

# A job in which a rank that died is started again.
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror "$here/../../docs/examples/elastic.cpp" "${flags[@]}" -o "$work/elastic"
if [[ -x $prefix/bin/tutti ]]; then
  "$prefix/bin/tutti" run -n 4 --restarts 1 --no-prefix -- "$work/elastic" 500 2 100 >"$work/out" 2>"$work/errors" ||
    { cat "$work/out" "$work/errors" >&2 && exit 1; }
  grep -qx "4 ranks, generation 2, 500 steps, sum 5000" "$work/out" || { cat "$work/out" "$work/errors" >&2 && exit 1; }
fi

# One-sided calls.
"${CXX:-c++}" -std=c++20 -Wall -Wextra -Werror "$here/../../docs/examples/mailbox.cpp" "${flags[@]}" -o "$work/mailbox"
if [[ -x $prefix/bin/tutti ]]; then
  "$prefix/bin/tutti" run -n 4 --no-prefix -- "$work/mailbox" 3 >"$work/out" 2>"$work/errors" ||
    { cat "$work/out" "$work/errors" >&2 && exit 1; }
  for line in "rank 0: 3 from rank 3" "rank 3: 202 from rank 2" "letters: 12"; do
    grep -qx "$line" "$work/out" || { cat "$work/out" "$work/errors" >&2 && exit 1; }
  done
fi

# What docs/windows.md and docs/elastic.md say to type in the repository, word for word.
if [[ -x $build/tools/tutti ]]; then
  mkdir -p "$work/repository/build"
  ln -s "$here/../../docs" "$here/../../include" "$work/repository"
  ln -s "$build" "$work/repository/build/release"
  typed=$(sed -n '/^c++ /,/^```$/p' "$here/../../docs/windows.md" "$here/../../docs/elastic.md" | grep -v '^```')
  (cd "$work/repository" && LD_LIBRARY_PATH='' bash -euc "$typed") >"$work/out" 2>"$work/errors" ||
    { cat "$work/out" "$work/errors" >&2 && exit 1; }
  for line in "letters: 12" "4 ranks, generation 2, 500 steps, sum 5000" "step 5: 3 ranks, sum 4"; do
    grep -q "$line$" "$work/out" || { cat "$work/out" "$work/errors" >&2 && exit 1; }
  done
fi

# What docs/programs.md says to type for a prefix of one's own, word for word; LD_LIBRARY_PATH is not needed.
mkdir "$work/own_prefix"
cp "$here/c/sum.c" "$work/own_prefix"
typed=$(sed -n '/^export PKG_CONFIG_PATH=/,/^```$/p' "$here/../../docs/programs.md" | grep -v '^```')
(cd "$work/own_prefix" && P=$prefix bash -euc "$typed")
expect "rank 0 of 1: the sum is 1" env LD_LIBRARY_PATH= "$work/own_prefix/sum"

# What cannot be had says why.
# refused TEXT COMMAND…: the command fails and prints that text somewhere.
refused() {
  local want=$1 got
  shift
  ! got=$("$@" 2>&1) || { echo "succeeded: $*" >&2 && exit 1; }
  [[ $(tr -s ' \n' ' ' <<<"$got") == *"$want"* ]] || { printf '%s\n  printed: %s\n  wanted:  %s\n' "$*" "$got" "$want" >&2 && exit 1; }
}
mkdir "$work/refused"
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(refused LANGUAGES CXX)' \
  'find_package(Tutti REQUIRED COMPONENTS ${WANTED})' >"$work/refused/CMakeLists.txt"
refused "Tutti has no component trian; its components are train and nccl" \
  cmake -S "$work/refused" -B "$work/refused/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" -DWANTED=trian
refused "Tutti has no component cli; leave --component out for all that users need" \
  cmake --install "$build" --prefix "$work/none" --component cli
[[ ! -e $work/none ]] || { echo "an unknown component was installed" >&2 && exit 1; }
refused "tutti/tutti.hpp needs C++20" "${CXX:-c++}" -std=c++17 -fsyntax-only "$here/cpp/sum.cpp" "${flags[@]}"

# NCCL's interface: what docs/nccl.md says to type, word for word, of `prog.c`.
mkdir "$work/nccl"
cp "$here/../nccl/first.c" "$work/nccl/prog.c"
typed=$(grep -o 'cc prog\.c [^`]*' "$here/../../docs/nccl.md")
(cd "$work/nccl" && PREFIX=$prefix bash -euc "$typed" && LD_LIBRARY_PATH='' ./a.out 2) >"$work/nccl.log" ||
  { cat "$work/nccl.log" && exit 1; }
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(prog LANGUAGES C)' 'find_package(Tutti REQUIRED)' \
  'add_executable(prog prog.c)' 'target_link_libraries(prog PRIVATE Tutti::nccl)' >"$work/nccl/CMakeLists.txt"
cmake -S "$work/nccl" -B "$work/nccl/build" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
  { cat "$work/configure.log" && exit 1; }
cmake --build "$work/nccl/build"
LD_LIBRARY_PATH='' "$work/nccl/build/prog" 2

# The training layer, where it was built.
if [[ -e $libdir/libtutti_train.so ]]; then
  cmake -S "$here/train" -B "$work/train" -G Ninja -DCMAKE_PREFIX_PATH="$prefix" >"$work/configure.log" ||
    { cat "$work/configure.log" && exit 1; }
  cmake --build "$work/train"
  expect "1 ranks: the weight is 3.00" "$work/train/ddp"
  [[ ! -x $prefix/bin/tutti ]] || expect "2 ranks: the weight is 3.00" "$prefix/bin/tutti" run -n 2 --no-prefix -- "$work/train/ddp"
  expect "1 ranks: the error fell; rank 0 holds 64064 of 64064 bytes of state" "$work/train/zero"
  [[ ! -x $prefix/bin/tutti ]] || expect "2 ranks: the error fell; rank 0 holds 32064 of 64064 bytes of state" \
    "$prefix/bin/tutti" run -n 2 --no-prefix -- "$work/train/zero"
  for kind in tensor context expert; do
    expect "1 ranks: $kind agrees" "$work/train/$kind"
    [[ ! -x $prefix/bin/tutti ]] || expect "2 ranks: $kind agrees" "$prefix/bin/tutti" run -n 2 --no-prefix -- "$work/train/$kind"
  done
  [[ ! -x $prefix/bin/tutti ]] || expect "2 stages: the product of the weights is 3.00" "$prefix/bin/tutti" run -n 2 --no-prefix -- "$work/train/pipeline"
fi

# A transport module in the prefix is found by its library and its command line; without it nothing changes.
[[ ! -e $libdir/tutti/libtutti_push.so ]] || { echo "modules of the tests were installed" >&2 && exit 1; }
export TUTTI_MODULES=push TUTTI_TRANSPORT=push
! "$work/cpp/sum" >"$work/absent.log" 2>&1 || { echo "ran over a module that is not there" >&2 && exit 1; }
real=$(realpath "$libdir")
grep -q "push cannot be used: not installed (libtutti_push.so is in none of $real, $real/tutti)" "$work/absent.log" ||
  { cat "$work/absent.log" >&2 && exit 1; }
cmake --install "$build" --prefix "$prefix" --component tutti_test_modules >"$work/install.log" ||
  { cat "$work/install.log" && exit 1; }
expect "rank 0 of 1: the sum is 1" "$work/cpp/sum"
if [[ -x $prefix/bin/tutti ]]; then
  info=$("$prefix/bin/tutti" info)
  grep -q "^  push  *usable: " <<<"$info" || { printf 'tutti info does not find a module:\n%s\n' "$info" >&2 && exit 1; }
fi
echo "installed, built from outside and run: find_package and pkg-config"
