// From a call to the program that runs it: choice, plan, lowering, staging memory; all of it cached.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "comm/call.hpp"
#include "comm/delivery_policy.hpp"
#include "comm/groups.hpp"
#include "exec/compile/direct.hpp"
#include "exec/host/run.hpp"
#include "link/mapped_memory.hpp"
#include "plan/algorithm.hpp"
#include "select/select.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// What a program depends on.
struct Wanted {
  CallSpec spec;
  bool in_place = false;
  bool shared_in = false, shared_out = false;  ///< are the buffers shared memory?
  bool operator==(const Wanted&) const = default;
};

/// A program with what it was made for.
struct Prepared {
  Wanted wanted;
  const char* algorithm = "";
  uint64_t salt = 0;  ///< the part of the tag that is the same in every such call
  exec::Loaded program;
};

/// A transfer of a group, numbered: the `number`-th to (from) its peer.
struct NumberedCall {
  Call call;
  uint64_t number = 0;
};

class Planner {
 public:
  /// `execution` is whose links and engines are used when staging memory has to be drained; both outlive the planner.
  Planner(Rank rank, Rank ranks, exec::Links& links, exec::Staging& staging, exec::Execution& execution,
          const exec::Backoff& backoff)
      : rank_(rank), ranks_(ranks), links_(links), staging_(staging), execution_(execution), backoff_(backoff) {}

  void agree(select::DecisionTable table, const AgreedCapabilities& agreed, Groups groups) {
    table_ = std::move(table);
    agreed_ = agreed;
    groups_ = std::move(groups);
  }

  /// `first` is called with every program that is made.
  void tell(std::function<void(const Prepared&)> first) { first_ = std::move(first); }

  /// Was this very collective, with the same buffers, called not long ago? Then nothing is wrong with it.
  bool knows(const Call& call) const { return last_->is(call) || known_[place_of(call)].is(call); }
  /// The program of a collective. The reference is good until the next call of the planner.
  /// Throws what connecting throws, and Error(OutOfMemory).
  Prepared& collective(const Call& call) {
    const bool again = last_->is(call) && last_->generation == memory_.generation();
    return again && has_staging(last_->program->program.lowered) ? *last_->program : find(call);
  }
  /// The program of a collective whose blocks vary. This rank's own block is not moved, only folded.
  Prepared& varying(const Call& call);
  /// The program of a group of sends and receives, none of them with this rank itself.
  Prepared& transfers(const std::vector<NumberedCall>& group);
  /// To be called when a program has run.
  void ran(Prepared& prepared) {
    if (&prepared == &direct_) keep_stages();
  }
  /// Where the buffers of the last collective are, if that is shared memory.
  const link::SharedRegion& input() const { return last_->in_at; }
  const link::SharedRegion& output() const { return last_->out_at; }

 private:
  /// A call that was made, and what was found out for it.
  struct Known {
    CallSpec spec;
    const void* in = nullptr;
    const void* out = nullptr;
    Prepared* program = nullptr;  ///< null: none
    std::list<Prepared>::iterator entry;
    uint64_t generation = 0;           ///< of shared memory, as of which the buffers …
    link::SharedRegion in_at, out_at;  ///< … are here
    bool is(const Call& call) const {
      return program != nullptr && in == call.in && out == call.out && spec == call.spec;
    }
  };
  /// Where a call is kept; others may have the same place, then the last one has it.
  static size_t place_of(const Call& call) {
    const auto in = reinterpret_cast<uintptr_t>(call.in), out = reinterpret_cast<uintptr_t>(call.out);
    constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // spreads over the high bits
    return (in + 3 * out + 5 * call.spec.count + static_cast<uint64_t>(call.spec.collective)) * kOdd >> 59;
  }
  Prepared& find(const Call& call);
  void look_up(const Call& call, Known& known);
  void bring_to_front(const Wanted& wanted);
  void keep_stages();
  Prepared make(const Wanted& wanted);
  uint64_t window_of(const select::Choice& choice, const CallSpec& spec, bool pull) const;
  const plan::RankPlan& plan_for(const plan::Algorithm& algorithm, Rank root);
  Prepared& prepare(exec::Direct direct);
  void give_staging(exec::Loaded& program);
  bool assign_staging(exec::Lowered& lowered);
  bool has_staging(const exec::Lowered& lowered) const {
    return lowered.stages.empty() || lowered.generation == staging_.generation();
  }
  exec::Stage kept_stage(exec::OwnedStage& wanted);

  Rank rank_;
  Rank ranks_;
  exec::Links& links_;
  exec::Staging& staging_;
  exec::Execution& execution_;
  const exec::Backoff& backoff_;
  select::DecisionTable table_;
  AgreedCapabilities agreed_;
  const bool reproducible_ = env().reproducible;
  Groups groups_;
  std::function<void(const Prepared&)> first_;  // empty: nobody wants to know
  // By the rank that this one plays, and so by root: the groups as seen from there are part of the shape.
  std::map<std::pair<const plan::Algorithm*, Rank>, plan::RankPlan> plans_;
  struct WantedHash {
    size_t operator()(const Wanted& wanted) const;
  };
  const link::SharedMemory& memory_ = link::SharedMemory::of_this_process();
  std::list<Prepared> cache_;  // the most recently used first
  std::array<Known, 32> known_;
  const Known* last_ = known_.data();  // the call that ran last
  std::unordered_map<Wanted, std::list<Prepared>::iterator, WantedHash> index_;
  Prepared direct_;
  std::map<std::pair<std::vector<uint32_t>, uint64_t>, exec::Lowered> direct_stages_;  // by out-links and slot
};

/// Is this call in place on this rank? Overlap that is not in place has been refused before.
bool is_in_place(const Call& call, Rank rank);

}  // namespace tutti::comm
