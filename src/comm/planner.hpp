// From a call to its program: its row, plan, compilation; all of it cached. What runs is decided by the row alone.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/env.hpp"
#include "base/hash.hpp"
#include "comm/call.hpp"
#include "comm/call_totals.hpp"
#include "comm/groups.hpp"
#include "exec/backend.hpp"
#include "link/mapped_memory.hpp"
#include "plan/algorithm.hpp"
#include "select/decision_table.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {

/// The key of a program.
struct ProgramKey {
  CallSpec spec;
  bool in_place = false;
  bool shared_in = false, shared_out = false;  ///< the buffers are shared memory
  bool operator==(const ProgramKey&) const = default;
};

/// A program, ready to run, and what it was made from.
struct Prepared {
  ProgramKey key;
  select::Row row;
  const char* algorithm = "";  ///< of the row
  uint64_t salt = 0;           ///< the part of the tag that is equal in all calls with this program
  std::unique_ptr<exec::Execution> execution;
  CallTotal* total = nullptr;  ///< of its calls; null: they are not counted
  uint64_t bytes = 0;          ///< of its count
};

/// A recent collective: its program, and where its buffers lie.
struct KnownCall {
  CallSpec spec;
  const void* in = nullptr;
  const void* out = nullptr;
  Prepared* program = nullptr;  ///< null: none
  std::list<Prepared>::iterator entry;
  uint64_t generation = 0;                   ///< of shared memory, when the regions …
  link::SharedRegion in_region, out_region;  ///< … of the buffers were looked up
  bool is(const Call& call) const {
    return program != nullptr && in == call.in && out == call.out && spec == call.spec;
  }
};

class Planner {
 public:
  Planner(Rank rank, Rank ranks, exec::Backend& backend)
      : rank_(rank), ranks_(ranks), backend_(backend), memory_(backend.regions()) {}

  void agree(select::DecisionTable table, Groups groups) {
    table_ = std::move(table);
    groups_ = std::move(groups);
  }

  /// Calls are counted in these, which must outlive the planner.
  void count_in(CallTotals& totals) { totals_ = &totals; }

  /// `first` is called with every new program.
  void on_new_program(std::function<void(const Prepared&)> first) { on_new_program_ = std::move(first); }

  /// True if this very collective was called recently with the same buffers: then its arguments are valid.
  bool was_checked(const Call& call) const { return last_->is(call) || known_calls_[slot_of(call)].is(call); }
  /// A collective with its program. The reference is valid until the planner's next call. Throws what compiling throws.
  const KnownCall& collective(const Call& call) {
    return last_->is(call) && last_->generation == memory_.generation() ? *last_ : find(call);
  }
  /// Of a collective with equal blocks.
  uint64_t buffer_bytes(const CallSpec& spec, plan::Buffer buffer) const;
  /// The program of a vector call. This rank's own block is not copied, only folded.
  Prepared& vector(const Call& call);
  /// The program of a group of sends and receives, none of them with this rank itself.
  Prepared& transfers(const std::vector<NumberedCall>& group);

 private:
  /// The slot of a call; calls with the same slot replace each other.
  static size_t slot_of(const Call& call) {
    const auto in = reinterpret_cast<uintptr_t>(call.in), out = reinterpret_cast<uintptr_t>(call.out);
    return (in + 3 * out + 5 * call.spec.count + static_cast<uint64_t>(call.spec.collective)) * kGoldenRatio >> 59;
  }
  const KnownCall& find(const Call& call);
  void look_up(const Call& call, KnownCall& known);
  void bring_to_front(const ProgramKey& key);
  Prepared make_with_room(const ProgramKey& key);
  void forget_oldest();
  Prepared make(const ProgramKey& key);
  void set_total(Prepared& prepared) const;
  const plan::RankPlan& plan_for(const plan::Algorithm& algorithm, Rank root);
  Prepared& prepare(exec::Direct direct, const CallSpec& spec);

  Rank rank_;
  Rank ranks_;
  exec::Backend& backend_;
  select::DecisionTable table_;
  CallTotals* totals_ = nullptr;
  const bool reproducible_ = env().reproducible;
  Groups groups_;                                        // of hosts; those that plans follow are the table's
  std::function<void(const Prepared&)> on_new_program_;  // empty: no observer
  // By the rank's number counted from the root, and so by root: the groups counted from there are part of the shape.
  std::map<std::pair<const plan::Algorithm*, Rank>, plan::RankPlan> plans_;
  struct ProgramKeyHash {
    size_t operator()(const ProgramKey& key) const;
  };
  const link::Regions& memory_;
  std::list<Prepared> cache_;  // most recently used first
  std::array<KnownCall, 32> known_calls_;
  const KnownCall* last_ = known_calls_.data();  // the call that ran last
  std::unordered_map<ProgramKey, std::list<Prepared>::iterator, ProgramKeyHash> index_;
  Prepared direct_;
};

/// True if the call is in place on this rank. Other overlap has been rejected before.
bool is_in_place(const Call& call, Rank rank);

}  // namespace tutti::comm
