#!/usr/bin/env bash
# What libtutti.so shows to and wants from the outside: only names that start with tutti, and no device or fabric library.
#
#   symbols.sh LIBRARY HEADER      e.g. symbols.sh build/release/libtutti.so include/tutti/tutti.h
set -euo pipefail
library=$1
header=$2
fail() { printf '%s: %s\n%s\n' "$library" "$1" "$2" >&2 && exit 1; }

exported=$(nm -D --defined-only --without-symbol-versions "$library" | awk '$2 != "A" {print $3}' | LC_ALL=C sort)
strangers=$(grep -v '^tutti' <<<"$exported" || true)
[[ -z $strangers ]] || fail "exports names that are not ours:" "$strangers"

declared=$(grep -o '^TUTTI_API [^(]*(' "$header" | sed 's/($//; s/.*[ *]//' | LC_ALL=C sort)
missing=$(comm -13 <(echo "$exported") <(echo "$declared"))
[[ -z $missing ]] || fail "does not export what $header declares:" "$missing"

needed=$(readelf -d "$library" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
optional=$(grep -E '^lib(cuda|cudart|nvidia-ml|nccl|ucp|uct|ucs|ucm|ibverbs|rdmacm|mlx5)\.' <<<"$needed" || true)
[[ -z $optional ]] || fail "needs libraries that not every machine has; load them at run time:" "$optional"
wanted=$(nm -D --undefined-only "$library" | awk '{print $2}' |
  grep -E '^(cu[A-Z]|cuda[A-Z]|nvml|nccl|uc[pstm]_|ibv_|rdma_|mlx5dv_)' || true)
[[ -z $wanted ]] || fail "wants symbols of libraries that not every machine has:" "$wanted"
echo "exports $(wc -l <<<"$exported") names, all tutti*; needs $(tr '\n' ' ' <<<"$needed")"
