#include "comm/vector_calls.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "base/format.hpp"
#include "base/hash.hpp"

namespace tutti::comm {
namespace {

/// Bytes [begin, end) of memory.
struct BlockExtent {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

class Builder {
 public:
  Builder(const Call& call, Rank rank, Rank ranks)
      : call_(call), element_(size_of(call.spec.type)), rank_(rank), ranks_(static_cast<size_t>(ranks)) {}

  VectorBlocks run(size_t in_count, UserBlocks in, size_t out_count, UserBlocks out) const {
    VectorBlocks v;
    const Collective c = call_.spec.collective;
    if (call_.spec.root < 0 || static_cast<size_t>(call_.spec.root) >= ranks_) {
      bad("root {} is not a rank of this communicator (0 to {})", call_.spec.root, ranks_ - 1);
    }
    const bool root = rank_ == call_.spec.root;
    const bool gathers = c == Collective::AllGather || c == Collective::Gather;
    v.in = gathers ? same_to_all(in_count) : given(c != Collective::Scatter || root, in, "sendcounts");
    if (c == Collective::ReduceScatter) out_count = v.in.counts[static_cast<size_t>(rank_)];
    const bool one_block = c == Collective::ReduceScatter || c == Collective::Scatter;
    v.out = one_block ? same_to_all(out_count) : given(c != Collective::Gather || root, out, "recvcounts");
    check(v, gathers, one_block);
    return v;
  }

 private:
  template <class... Args>
  [[noreturn]] void bad(fmt::format_string<Args...> text, Args&&... args) const {
    throw_error(Code::InvalidArgument, "rank {}: {}: {}", rank_, describe(call_.spec),
                fmt::format(text, std::forward<Args>(args)...));
  }

  /// One block at the start of the buffer, for every rank.
  Blocks same_to_all(size_t count) const {
    check_end(count, 0, rank_);
    return {std::vector<uint64_t>(ranks_, count), std::vector<uint64_t>(ranks_, 0)};
  }

  Blocks given(bool needed, UserBlocks blocks, const char* name) const {
    Blocks result{std::vector<uint64_t>(ranks_, 0), std::vector<uint64_t>(ranks_, 0)};
    if (!needed) return result;
    if (blocks.counts == nullptr) bad("{} is null", name);
    uint64_t next = 0;
    for (size_t r = 0; r < ranks_; ++r) {
      result.counts[r] = blocks.counts[r];
      result.offsets[r] = blocks.offsets == nullptr ? next : blocks.offsets[r];
      check_end(result.counts[r], result.offsets[r], static_cast<Rank>(r));
      next = result.offsets[r] + result.counts[r];
    }
    return result;
  }

  /// A negative number that was cast has the highest bit set.
  void check_end(uint64_t count, uint64_t offset, Rank r) const {
    const uint64_t most = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) / element_;
    if (count > most || offset > most - count) bad("the block of rank {} is negative or too large", r);
  }

  BlockExtent extent(const void* data, uint64_t count, uint64_t offset, const char* what) const {
    if (count == 0) return {};
    if (data == nullptr) bad("{} is null", what);
    const auto begin = reinterpret_cast<uintptr_t>(data);
    if (begin > kEndOfMemory || (offset + count) * element_ > kEndOfMemory - begin) {
      bad("{} goes beyond the end of memory", what);
    }
    return {begin + offset * element_, begin + (offset + count) * element_};
  }

  std::vector<BlockExtent> extents(const void* data, const Blocks& blocks, bool one, const char* what) const {
    std::vector<BlockExtent> all;
    for (size_t r = 0; r < (one ? 1 : ranks_); ++r) {
      const BlockExtent e = extent(data, blocks.counts[r], blocks.offsets[r], what);
      if (e.begin != e.end) all.push_back(e);
    }
    std::sort(all.begin(), all.end(), [](const BlockExtent& a, const BlockExtent& b) { return a.begin < b.begin; });
    return all;
  }

  /// No byte may be received twice, or received while it is sent. This rank's own block may stay in place.
  void check(const VectorBlocks& v, bool one_in, bool one_out) const {
    const auto in = extents(call_.in, v.in, one_in, "sendbuff"), out = extents(call_.out, v.out, one_out, "recvbuff");
    for (size_t i = 1; i < out.size(); ++i) {
      if (out[i].begin < out[i - 1].end) bad("the blocks of recvbuff overlap each other");
    }
    const auto me = static_cast<size_t>(rank_);
    const BlockExtent mine_in = extent(call_.in, v.in.counts[me], v.in.offsets[me], "sendbuff");
    const BlockExtent mine_out = extent(call_.out, v.out.counts[me], v.out.offsets[me], "recvbuff");
    if (sends_block(call_.spec, rank_, rank_) && v.in.counts[me] != v.out.counts[me]) {
      bad("it sends itself {} elements and receives {}", v.in.counts[me], v.out.counts[me]);
    }
    const bool never = call_.spec.collective == Collective::AllToAll;
    const bool in_place = !never && mine_in.begin == mine_out.begin && mine_in.end == mine_out.end;
    for (const BlockExtent& from : in) {
      auto to = std::partition_point(out.begin(), out.end(), [&](const BlockExtent& e) { return e.end <= from.begin; });
      for (; to != out.end() && to->begin < from.end; ++to) {
        const bool own = in_place && to->begin == mine_out.begin && from.begin == mine_in.begin;
        if (own && from.end == mine_in.end) continue;
        bad("input and output overlap{}", never ? "; this call cannot run in place" : " without being in place");
      }
    }
  }

  const Call& call_;
  const uint64_t element_;
  const Rank rank_;
  const size_t ranks_;
};

uint64_t hash_of(const std::vector<uint64_t>& counts) {
  Hash hash;
  for (const uint64_t count : counts) hash.add(count);
  return hash.value();
}

}  // namespace

OwnBlock own_block(const Call& call, Rank rank) {
  if (reduces(call.spec.collective) || !sends_block(call.spec, rank, rank)) return {};
  const auto me = static_cast<size_t>(rank);
  const uint64_t element = size_of(call.spec.type), bytes = call.blocks->in.counts[me] * element;
  const auto* from = static_cast<const unsigned char*>(call.in) + call.blocks->in.offsets[me] * element;
  auto* to = static_cast<unsigned char*>(call.out) + call.blocks->out.offsets[me] * element;
  return {to, from, from != to ? bytes : 0};
}

bool sends_block(const CallSpec& spec, Rank from, Rank to) {
  if (spec.collective == Collective::Gather) return to == spec.root;
  if (spec.collective == Collective::Scatter) return from == spec.root;
  return true;
}

Call vector_call(Call call, Rank rank, Rank ranks, size_t in_count, UserBlocks in, size_t out_count, UserBlocks out) {
  call.spec.is_vector = true;
  call.blocks = std::make_shared<const VectorBlocks>(Builder(call, rank, ranks).run(in_count, in, out_count, out));
  if (reduces(call.spec.collective)) call.spec.count = hash_of(call.blocks->in.counts);
  return call;
}

}  // namespace tutti::comm
