// What copy engines make of programs: one thread for each rank, its stream.
#include <utility>

#include "base/format.hpp"
#include "exec/compile/copy_items.hpp"
#include "proof/call_case.hpp"

namespace tutti::proof {
namespace {

using exec::Base;
using exec::CopyItem;

class CopyEngineJob {
 public:
  CopyEngineJob(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs)
      : how_(how), job_(empty_job(plans, how)), programs_(std::move(programs)), ranks_(plans.size()) {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      layouts_.push_back(
          exec::copy_layout(programs_[rank], static_cast<Rank>(rank), static_cast<Rank>(ranks_), how.slot_bytes));
      staging_.push_back(job_.add(Memory{fmt::format("rank {}'s staging memory", rank),
                                         link::kCopySlots * how.slot_bytes / how.geometry.element_bytes}));
    }
    for (size_t from = 0; from < ranks_; ++from) {
      for (size_t to = 0; to < ranks_; ++to) {
        for (uint32_t slot = 0; slot < link::kCopySlots; ++slot) {
          const std::string name = fmt::format("of rank {}'s slot {} for rank {}", from, slot, to);
          free_.push_back(job_.add(Word{"the word free " + name, false, 1}));
          arrived_.push_back(job_.add(Word{"the tag " + name, false, 0}));
        }
      }
    }
  }

  Job make() {
    for (size_t rank = 0; rank < ranks_; ++rank) {
      Thread thread{.rank = static_cast<Rank>(rank), .name = fmt::format("rank {}'s stream", rank)};
      for (uint32_t call = 0; call < how_.calls; ++call) {
        for (uint64_t round = 0; round < programs_[rank].rounds; ++round) {
          for (const CopyItem& item : exec::copy_items(programs_[rank], layouts_[rank], round)) add(thread, item);
        }
        thread.actions.push_back({.what = "return", .ends = true});
      }
      job_.threads.push_back(std::move(thread));
    }
    return std::move(job_);
  }

 private:
  void add(Thread& thread, const CopyItem& item) const {
    const auto rank = static_cast<size_t>(thread.rank), peer = static_cast<size_t>(item.peer);
    const auto push = [&](const char* what, Action action) {
      action.what = what, action.step = item.step;
      thread.actions.push_back(std::move(action));
    };
    switch (item.kind) {
      case CopyItem::Kind::AwaitFree:
        push("await free", {.waits = {{free_[word(rank, peer, item)], 1}}});
        return push("reset free", {.sets = {{free_[word(rank, peer, item)], 0}}});
      case CopyItem::Kind::AwaitMessage:
        push("await message", {.waits = {{arrived_[word(peer, rank, item)], 1}}});
        return push("reset message", {.sets = {{arrived_[word(peer, rank, item)], 0}}});
      case CopyItem::Kind::Stage:
        return push("stage",
                    {.moves = {move(item, in_buffer(rank, item.from), {staging_[rank], elements(item.staged)})}});
      case CopyItem::Kind::Store: {
        const bool comes = item.from.base == Base::Message;
        const Place from = comes ? Place{staging_[peer], elements(item.staged)} : in_buffer(rank, item.from);
        return push("store", {.moves = {move(item, from, in_buffer(rank, item.to))}});
      }
      case CopyItem::Kind::TellFree:
        return push("tell free", {.sets = {{free_[word(peer, rank, item)], 1}}});
      case CopyItem::Kind::TellMessage:
        return push("tell message", {.sets = {{arrived_[word(rank, peer, item)], 1}}});
    }
  }

  /// A copy to where it already is, which in place occurs, writes nothing.
  Move move(const CopyItem& item, Place from, Place to) const {
    const bool same = from.memory == to.memory && from.at == to.at;
    return {.elements = same ? 0 : elements(item.bytes), .from = {from}, .to = {to}};
  }
  Place in_buffer(size_t rank, const exec::Ref& ref) const {
    const Buffers& buffers = job_.buffers[rank];
    const Place& begin = ref.base == Base::Input ? buffers.in : buffers.out;
    return {begin.memory, begin.at + elements(ref.offset)};
  }
  uint64_t elements(uint64_t bytes) const { return bytes / how_.geometry.element_bytes; }
  size_t word(size_t from, size_t to, const CopyItem& item) const {
    return (from * ranks_ + to) * link::kCopySlots + item.slot;
  }

  const CallCase& how_;
  Job job_;
  const std::vector<exec::Program> programs_;
  const size_t ranks_;
  std::vector<exec::CopyLayout> layouts_;
  std::vector<uint32_t> staging_;         // by rank
  std::vector<uint32_t> free_, arrived_;  // by sender, receiver, slot
};

}  // namespace

Job copy_engine_job(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs) {
  return CopyEngineJob(plans, how, std::move(programs)).make();
}

}  // namespace tutti::proof
