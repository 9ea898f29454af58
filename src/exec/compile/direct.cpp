#include "exec/compile/direct.hpp"

#include <algorithm>
#include <set>

#include "exec/compile/direct_store.hpp"
#include "exec/compile/link_table.hpp"

namespace tutti::exec {
namespace {

class DirectLowering {
 public:
  DirectLowering(const Direct& direct, const PeerTraits& traits) : direct_(direct), links_(whole_, traits) {
    whole_.max_arrivals = whole_.max_sources = 1;
  }

  /// Adds a lane of transfers with the same peers and direction.
  void add_lane(const std::vector<const Transfer*>& queue) {
    const uint32_t first = begin_lane();
    queue.front()->send ? add_sends(queue, first) : add_receives(queue, first);
    end_lane(first);
  }

  void add_fold(const BlockFold& fold, Rank rank, Rank ranks) {
    const uint32_t first = begin_lane();
    const auto begin = static_cast<uint32_t>(program_.arrivals.size());
    for (Rank peer = 0; peer < ranks; ++peer) {
      if (peer != rank) program_.arrivals.push_back(links_.in(peer, direct_.link_lane));
    }
    const Range used{begin, static_cast<uint32_t>(program_.arrivals.size())};
    each_length(fold.bytes, [&](uint64_t done, uint64_t bytes, uint64_t messages) {
      const Instruction op{.arrivals = used,
                           .bytes = bytes,
                           .repeats = messages,
                           .salt = fold.tag,
                           .sources = static_cast<uint32_t>(ranks),
                           .shape = FoldShape::Tree,
                           .completes = true};
      std::vector<Ref> sources(static_cast<size_t>(ranks), Ref{Base::Message, 0});
      sources[static_cast<size_t>(rank)] = ref_of(fold.mine + done);
      add(op, sources, ref_of(fold.to + done), direct_.scaled ? rank : -1, first);
    });
    end_lane(first);
    whole_.max_sources = std::max(whole_.max_sources, static_cast<uint32_t>(ranks));
    whole_.max_arrivals = std::max(whole_.max_arrivals, used.end - used.begin);
  }

  Program take() {
    mark_landing(program_);
    mark_cooperative(program_, links_, direct_.rules);
    mark_zero_copy_arrivals(program_, links_, direct_.rules);
    whole_.last = std::move(program_);
    return std::move(whole_);
  }

 private:
  void add_sends(const std::vector<const Transfer*>& queue, uint32_t first) {
    std::vector<uint32_t> links;
    for (const Rank peer : queue.front()->peers) links.push_back(links_.out(peer, direct_.link_lane));
    for (const Transfer* t : queue) {
      each_length(t->bytes, [&](uint64_t done, uint64_t bytes, uint64_t messages) {
        Instruction op{.bytes = bytes, .repeats = messages, .salt = t->tag, .sources = 1};
        const Ref data = ref_of(t->data + done);
        choose_delivery(links, data, op);
        add(op, {data}, Ref{}, direct_.scaled ? 0 : -1, first);
      });
    }
  }

  void add_receives(const std::vector<const Transfer*>& queue, uint32_t first) {
    const auto begin = static_cast<uint32_t>(program_.arrivals.size());
    for (const Rank peer : queue.front()->peers) program_.arrivals.push_back(links_.in(peer, direct_.link_lane));
    const Range used{begin, static_cast<uint32_t>(program_.arrivals.size())};
    for (const Transfer* t : queue) {
      each_length(t->bytes, [&](uint64_t done, uint64_t bytes, uint64_t messages) {
        const Instruction op{.arrivals = used, .bytes = bytes, .repeats = messages, .salt = t->tag, .sources = 1};
        add(op, {Ref{Base::Message, 0}}, ref_of(t->data + done), -1, first);
      });
    }
  }

  static Ref ref_of(const unsigned char* data) { return {Base::Input, reinterpret_cast<uint64_t>(data)}; }

  /// A transfer is messages of the greatest length, one after the other, and a shorter one for the rest: two
  /// instructions at most, whatever its size. Calls visit(bytes before them, bytes of each, how many); 0 bytes are one
  /// empty message.
  template <class Visit>
  void each_length(uint64_t bytes, Visit&& visit) const {
    const uint64_t whole = bytes / direct_.message, rest = bytes % direct_.message;
    if (whole > 0) visit(0, direct_.message, whole);
    if (rest > 0 || whole == 0) visit(bytes - rest, rest, 1);
  }

  void choose_delivery(const std::vector<uint32_t>& links, const Ref& data, Instruction& op) {
    const OutMessage message{.bytes = op.bytes, .stays = !direct_.scaled, .in_memory = !direct_.scaled};
    if (message.stays) op.message = data;
    add_outs(whole_, program_, links_, links, message, direct_.rules, op);
  }

  uint32_t begin_lane() const { return static_cast<uint32_t>(program_.ops.size()); }
  void end_lane(uint32_t first) { program_.lanes.push_back({first, static_cast<uint32_t>(program_.ops.size())}); }

  void add(Instruction op, const std::vector<Ref>& sources, const Ref& to, Rank raw, uint32_t first_of_lane) {
    op.step = static_cast<uint32_t>(program_.ops.size()) - first_of_lane;
    const auto segment = static_cast<uint32_t>(program_.segments.size());
    op.segments = {segment, segment + (op.bytes > 0 ? 1 : 0)};
    if (op.bytes > 0) {
      program_.segments.push_back(
          {.bytes = op.bytes, .to = to, .sources = static_cast<uint32_t>(program_.sources.size()), .raw = raw});
      uint32_t messages = 0;
      for (Ref source : sources) {
        if (source.base == Base::Message) source.message = messages++;
        program_.sources.push_back(source);
      }
    }
    program_.ops.push_back(op);
  }

  const Direct& direct_;
  Program whole_;
  WindowProgram program_;
  LinkTable links_;
};

}  // namespace

TransferLanes lanes_of(const Direct& direct) {
  TransferLanes lanes;
  for (const Transfer& t : direct.transfers) lanes[{t.peers, t.send}].push_back(&t);
  return lanes;
}

std::vector<Rank> peers_of(const Direct& direct, Rank rank, Rank ranks) {
  std::set<Rank> peers;
  for (const Transfer& t : direct.transfers) peers.insert(t.peers.begin(), t.peers.end());
  for (Rank peer = 0; peer < ranks && !direct.folds.empty(); ++peer) {
    if (peer != rank) peers.insert(peer);
  }
  return {peers.begin(), peers.end()};
}

Program lower_direct(const Direct& direct, Rank rank, Rank ranks, const PeerTraits& traits) {
  DirectLowering lowering(direct, traits);
  for (const auto& [ends, queue] : lanes_of(direct)) lowering.add_lane(queue);
  for (const BlockFold& fold : direct.folds) lowering.add_fold(fold, rank, ranks);
  return lowering.take();
}

}  // namespace tutti::exec
