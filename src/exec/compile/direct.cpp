#include "exec/compile/direct.hpp"

#include <algorithm>
#include <map>

#include "exec/compile/direct_store.hpp"
#include "topo/constants.hpp"

namespace tutti::exec {
namespace {

class DirectLowering {
 public:
  DirectLowering(const Direct& direct, Links& links) : direct_(direct), links_(links) {
    lowered_.most_arrivals = lowered_.most_sources = 1;
  }

  /// Adds a lane of transfers with the same peers and direction.
  void add_lane(const std::vector<const Transfer*>& queue) {
    const uint32_t first = begin_lane();
    const bool send = queue.front()->send;
    std::vector<uint32_t>& table = send ? program_.outs : program_.arrivals;
    const auto begin = static_cast<uint32_t>(table.size());
    uint64_t zcopy_threshold = send ? 0 : link::kNever;
    std::vector<uint32_t> ends;
    for (const Rank peer : queue.front()->peers) {
      ends.push_back(send ? links_.out(peer, direct_.link_lane) : links_.in(peer, direct_.link_lane));
      if (send) zcopy_threshold = std::max(zcopy_threshold, zcopy_threshold_of(links_.outs()[ends.back()]));
    }
    table.insert(table.end(), ends.begin(), ends.end());
    const Range used{begin, static_cast<uint32_t>(table.size())};
    uint64_t largest = 0;
    for (const Transfer* t : queue) {
      each_message(t->bytes, [&](uint64_t done, uint64_t bytes) {
        Instruction op{.bytes = bytes, .salt = t->tag, .sources = 1};
        (send ? op.outs : op.arrivals) = used;
        const Ref data = ref_of(t->data + done);
        if (send) choose_delivery(data, zcopy_threshold, largest, op);
        add(op, {send ? data : Ref{Base::Message, 0}}, send ? Ref{} : data, send && direct_.scaled ? 0 : -1, first);
      });
    }
    end_lane(first);
    if (largest > 0) lowered_.stages.push_back({.stage = {.slot_bytes = largest}, .outs = ends});
  }

  void add_fold(const BlockFold& fold, Rank rank, Rank ranks) {
    const uint32_t first = begin_lane();
    const auto begin = static_cast<uint32_t>(program_.arrivals.size());
    for (Rank peer = 0; peer < ranks; ++peer) {
      if (peer != rank) program_.arrivals.push_back(links_.in(peer, direct_.link_lane));
    }
    const Range used{begin, static_cast<uint32_t>(program_.arrivals.size())};
    each_message(fold.bytes, [&](uint64_t done, uint64_t bytes) {
      const Instruction op{.arrivals = used,
                           .bytes = bytes,
                           .salt = fold.tag,
                           .sources = static_cast<uint32_t>(ranks),
                           .shape = FoldShape::Tree,
                           .completes = true};
      std::vector<Ref> sources(static_cast<size_t>(ranks), Ref{Base::Message, 0});
      sources[static_cast<size_t>(rank)] = ref_of(fold.mine + done);
      add(op, sources, ref_of(fold.to + done), direct_.scaled ? rank : -1, first);
    });
    end_lane(first);
    lowered_.most_sources = std::max(lowered_.most_sources, static_cast<uint32_t>(ranks));
    lowered_.most_arrivals = std::max(lowered_.most_arrivals, used.end - used.begin);
  }

  Lowered take() {
    if (direct_.cooperative) mark_cooperative(program_);
    mark_zcopy(program_, links_);
    lowered_.last = std::move(program_);
    return std::move(lowered_);
  }

 private:
  /// Over CMA, zero-copy pays from a length on: below, staging's two copies are cheaper than one by the kernel.
  static uint64_t zcopy_threshold_of(const link::OutLink& out) {
    const uint64_t cma_from = machine_constants().cma_transfer_from;
    return out.by_cma && out.zcopy_threshold != 0 ? std::max(cma_from, out.zcopy_threshold) : out.zcopy_threshold;
  }
  static Ref ref_of(const unsigned char* data) { return {Base::Input, reinterpret_cast<uint64_t>(data)}; }

  /// Calls visit(bytes before the message, bytes of the message) for each message; 0 bytes are one empty message.
  template <class Visit>
  void each_message(uint64_t bytes, Visit&& visit) const {
    uint64_t done = 0;
    do {
      const uint64_t now = std::min(direct_.message, bytes - done);
      visit(done, now);
      done += now;
    } while (done < bytes);
  }

  void choose_delivery(const Ref& data, uint64_t zcopy_threshold, uint64_t& largest, Instruction& op) const {
    op.inlined = op.bytes <= link::kInlineBytes;
    op.zcopy = !op.inlined && !direct_.scaled && op.bytes >= zcopy_threshold;
    op.allow_cma = true;
    op.zcopy_at = data;
    if (op.inlined || op.zcopy) return;
    op.stage = static_cast<uint32_t>(lowered_.stages.size());
    largest = std::max(largest, op.bytes);
  }

  uint32_t begin_lane() const { return static_cast<uint32_t>(program_.ops.size()); }
  void end_lane(uint32_t first) { program_.lanes.push_back({first, static_cast<uint32_t>(program_.ops.size())}); }

  void add(Instruction op, const std::vector<Ref>& sources, const Ref& to, Rank raw, uint32_t first_of_lane) {
    op.step = static_cast<uint32_t>(program_.ops.size()) - first_of_lane;
    lowered_.has_zcopy = lowered_.has_zcopy || op.zcopy;
    const auto segment = static_cast<uint32_t>(program_.segments.size());
    op.segments = {segment, segment + (op.bytes > 0 ? 1 : 0)};
    if (op.bytes > 0) {
      program_.segments.push_back(
          {.bytes = op.bytes, .to = to, .sources = static_cast<uint32_t>(program_.sources.size()), .raw = raw});
      program_.sources.insert(program_.sources.end(), sources.begin(), sources.end());
    }
    program_.ops.push_back(op);
  }

  const Direct& direct_;
  Links& links_;
  Lowered lowered_;
  Program program_;
};

}  // namespace

Lowered lower_direct(const Direct& direct, Rank rank, Rank ranks, Links& links) {
  DirectLowering lowering(direct, links);
  std::map<std::pair<std::vector<Rank>, bool>, std::vector<const Transfer*>> lanes;
  for (const Transfer& t : direct.transfers) lanes[{t.peers, t.send}].push_back(&t);
  for (const auto& [ends, queue] : lanes) lowering.add_lane(queue);
  for (const BlockFold& fold : direct.folds) lowering.add_fold(fold, rank, ranks);
  return lowering.take();
}

}  // namespace tutti::exec
