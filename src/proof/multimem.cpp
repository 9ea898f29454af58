// What NVLS makes of programs: one thread for each item of each rank, in the steps of MultimemSteps.
#include <algorithm>

#include "base/format.hpp"
#include "exec/compile/accepts.hpp"
#include "proof/call_case.hpp"

namespace tutti::proof {
namespace {

using exec::kMultimemSlots;
using exec::kPackBytes;
using exec::MultimemForm;
using exec::MultimemLayout;
using exec::MultimemSteps;

class NvlsJob {
 public:
  NvlsJob(std::span<const plan::RankPlan> plans, const CallCase& how, std::span<const exec::Program> programs)
      : how_(how), job_(empty_job(plans, how)), ranks_(static_cast<uint32_t>(plans.size())) {
    const exec::Program& program = programs.front();
    const bool alike = std::all_of(programs.begin(), programs.end(), [&](const exec::Program& one) {
      return one.rounds == program.rounds && one.width == program.width && one.window_bytes == program.window_bytes;
    });
    if (!alike) throw_error(Code::InternalError, "ranks run calls of different rounds");
    MultimemForm form{};
    if (const std::string why = exec::read_multimem_form(plans.front(), form); !why.empty())
      throw_error(Code::Unsupported, "{}", why);
    layout_ = {.form = form,
               .bytes = how.geometry.count * unit(),
               .window = program.window_bytes,
               .slot = how.slot_bytes,
               .windows = static_cast<uint32_t>(program.rounds),
               .items = program.width,
               .ranks = ranks_};
    if (layout_.blocks() * layout_.place() > layout_.slot)
      throw_error(Code::Unsupported, "a window is longer than its slot");
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      slots_.push_back(job_.add(
          Memory{fmt::format("rank {}'s slots", rank), elements(layout_.items * kMultimemSlots * layout_.slot)}));
      ended_.push_back(job_.add(Word{.name = fmt::format("the number of rank {}'s calls", rank)}));
      for (uint32_t item = 0; item < layout_.items; ++item) {
        signals_.push_back(job_.add(Word{.name = fmt::format("rank {}'s signal of item {}", rank, item)}));
        items_done_.push_back(job_.add(Word{.name = fmt::format("the end of rank {}'s item {}", rank, item)}));
      }
    }
  }

  Job make() {
    for (uint32_t rank = 0; rank < ranks_; ++rank) {
      layout_.rank = rank;
      for (uint32_t item = 0; item < layout_.items; ++item) add_block(rank, item);
      add_caller(rank);
    }
    return std::move(job_);
  }

 private:
  void add_block(uint32_t rank, uint32_t item) {
    Thread thread{.rank = static_cast<Rank>(rank), .name = fmt::format("rank {}, item {}", rank, item)};
    const uint64_t rounds = layout_.rounds_of(item);
    for (uint64_t call = 0; call < how_.calls; ++call) {
      thread.actions.push_back({.what = "begin", .waits = {{ended_[rank], call}}});
      for (MultimemSteps steps(rounds); !steps.ended(); steps.advance()) {
        thread.actions.push_back(action(rank, item, steps, call * 2 * rounds));
      }
      thread.actions.push_back({.what = "end", .sets = {{items_done_[number(rank, item)], call + 1}}});
    }
    job_.threads.push_back(std::move(thread));
  }

  /// The user's thread, for whom the call ends when all blocks have.
  void add_caller(uint32_t rank) {
    Thread thread{.rank = static_cast<Rank>(rank), .name = fmt::format("rank {}'s user", rank)};
    for (uint64_t call = 0; call < how_.calls; ++call) {
      Action end{.what = "return", .sets = {{ended_[rank], call + 1}}, .ends = true};
      for (uint32_t item = 0; item < layout_.items; ++item)
        end.waits.push_back({items_done_[number(rank, item)], call + 1});
      thread.actions.push_back(std::move(end));
    }
    job_.threads.push_back(std::move(thread));
  }

  Action action(uint32_t rank, uint32_t item, const MultimemSteps& now, uint64_t sent) const {
    using Kind = MultimemSteps::Kind;
    const Buffers& buffers = job_.buffers[rank];
    const uint64_t begin = layout_.begin_of(item, now.round()), bytes = layout_.bytes_of(begin);
    const uint64_t slot = elements(layout_.slot_of(item, now.round()));
    const Place own{slots_[rank], slot};
    std::vector<Move> moved;
    switch (now.kind()) {
      case Kind::CopyIn:
        for (uint32_t block = 0; block < layout_.copies_in(); ++block) {
          moved.push_back({elements(bytes), {of_block(buffers.in, block, begin)}, {place_of(own, block)}});
        }
        return {.what = "copy in", .moves = std::move(moved)};
      case Kind::CopyOut:
        for (uint32_t block = 0; block < layout_.copies_out(); ++block) {
          moved.push_back({elements(bytes), {place_of(own, block)}, {of_block(buffers.out, block, begin)}});
        }
        return {.what = "copy out", .moves = std::move(moved)};
      case Kind::Fold:
        return fold(rank, slot, begin, bytes);
      case Kind::SignalIn:
      case Kind::SignalFold:
        return {.what = "signal", .sets = {{signals_[number(rank, item)], sent + now.count()}}};
      default: {
        Action wait{.what = now.kind() == Kind::AwaitIn ? "await windows" : "await folds"};
        for (uint32_t peer = 0; peer < ranks_; ++peer)
          wait.waits.push_back({signals_[number(peer, item)], sent + now.count()});
        return wait;
      }
    }
  }

  /// This rank's packs: from all ranks, or its input, to all ranks, or its output. What is behind the window is
  /// padding, which only slots have.
  Action fold(uint32_t rank, uint64_t slot, uint64_t window, uint64_t bytes) const {
    Action action{.what = "fold"};
    const auto [first, last] = layout_.part_of(bytes);
    const uint64_t begin = first * kPackBytes, end = last * kPackBytes;
    const Buffers& own = job_.buffers[rank];
    if (layout_.form == MultimemForm::ToAll) {
      action.moves.push_back({elements(bytes), {moved(own.in, window)}, all_slots(slot, begin)});
    } else if (layout_.form == MultimemForm::Fold) {
      action.moves.push_back({.elements = elements(bytes),
                              .from = all_slots(slot, begin),
                              .to = {moved(own.out, window)},
                              .completes = true});
    } else {
      const uint64_t data = std::clamp(bytes, begin, end);
      for (const auto& [from, to] : {std::pair(begin, data), std::pair(data, end)}) {
        if (from == to) continue;
        const std::vector<Place> all = all_slots(slot, from);
        action.moves.push_back({.elements = elements(to - from),
                                .from = all,
                                .to = all,
                                .completes = from < bytes,
                                .padding = from >= bytes});
      }
    }
    return action;
  }

  std::vector<Place> all_slots(uint64_t slot, uint64_t bytes) const {
    std::vector<Place> all;
    for (uint32_t rank = 0; rank < ranks_; ++rank) all.push_back({slots_[rank], slot + elements(bytes)});
    return all;
  }
  Place moved(Place place, uint64_t bytes) const { return {place.memory, place.at + elements(bytes)}; }
  Place of_block(Place buffer, uint32_t block, uint64_t begin) const {
    return moved(buffer, block * layout_.bytes + begin);
  }
  Place place_of(Place slot, uint32_t block) const { return moved(slot, block * layout_.place()); }
  uint64_t unit() const { return how_.geometry.element_bytes; }
  uint64_t elements(uint64_t bytes) const { return bytes / unit(); }
  size_t number(uint32_t rank, uint32_t item) const { return size_t{rank} * layout_.items + item; }

  const CallCase& how_;
  Job job_;
  const uint32_t ranks_;
  MultimemLayout layout_;
  std::vector<uint32_t> slots_, ended_;         // by rank
  std::vector<uint32_t> signals_, items_done_;  // by rank and item
};

}  // namespace

Job nvls_job(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<exec::Program> programs) {
  return NvlsJob(plans, how, programs).make();
}

}  // namespace tutti::proof
