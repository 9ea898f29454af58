// A communicator's calls on one backend: its programs, and how they are chosen.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/backend_network.hpp"
#include "comm/enqueued_calls.hpp"
#include "comm/planner.hpp"
#include "exec/backend.hpp"

namespace tutti::comm {

class BackendCalls {
 public:
  /// Of memory of the host.
  BackendCalls(std::unique_ptr<exec::Backend> host, Rank rank, Rank ranks);
  /// What the backends of a communicator share; all of it outlives them.
  struct Context {
    control::Endpoint& endpoint;
    Fabric& fabric;
    const CallBoard& board;
    const std::string& title;
    const Timeouts& timeouts;
    const exec::Backoff& backoff;
    exec::Observer& observer;  ///< of driven calls
    std::shared_ptr<CutOffCall> cut_off;
  };
  /// Of another backend's memory, by a processor of its. If that cannot be used, refused() says why.
  BackendCalls(const exec::BackendEntry& entry, int processor, const Context& context);

  const char* name() const { return entry_ == nullptr ? exec::kHost : entry_->name; }
  /// By the threads that make calls; else it is asynchronous (exec/backend.hpp).
  bool is_driven() const { return enqueued_ == nullptr; }
  /// Why no call can run on it; "": it serves them.
  const std::string& refused() const { return refused_; }
  /// Throws Error(Unsupported) if calls are refused.
  void check_served(Rank rank, const std::string& title) const;
  /// kNoProcessor if calls are refused.
  int processor() const { return refused_.empty() ? processor_ : exec::kNoProcessor; }
  exec::Backend& backend() const { return *backend_; }
  Planner& planner() { return *planner_; }
  EnqueuedCalls& enqueued() { return *enqueued_; }
  const select::CostInputs& inputs() const { return inputs_; }
  /// On rank 0: what the inputs were made from.
  const select::MachineNotes& notes() const { return notes_; }
  /// Likewise, for those who explain choices (TUTTI_EXPLAIN), once.
  topo::Graph take_graph() { return std::exchange(graph_, {}); }
  /// Of all ranks.
  const select::MeasuredGpus& processors() const { return measured_on_; }

  /// The host's: what was agreed on (comm/agreement.hpp).
  void use(const select::CostInputs& inputs, select::DecisionTable table, const Groups& groups);
  BackendReport report() const;
  /// What ranks conclude from each other's reports. Collective: makes the decision table, on rank 0 from the topology
  /// of the hosts with their processors. Refuses calls if some rank cannot make them. Throws Error: Unsupported where
  /// TUTTI_METHOD forces what these ranks cannot use, InvalidArgument if TUTTI_PROFILE names a profile of other
  /// processors.
  void agree(const Agreement& agreed, const Groups& groups, Deadline deadline);
  /// Throws Error(InvalidArgument | InvalidUsage) with the first mistake in the call's buffers and stream.
  void check(const Call& call, Rank rank, Rank ranks) const;
  /// The collective with its program, and with regions that stay what they are until it is enqueued. Throws what
  /// compiling throws.
  const KnownCall& plan(const Call& call);
  /// Ends it; refused() is `why`.
  void refuse(std::string why);

 private:
  void meet(const Agreement& agreed);
  bool add_captured(const Call& call, const KnownCall& known);
  exec::WantedMethods wanted(const Agreement& agreed) const;
  bool meet_hosts(const plan::Grouping& groups, bool inside) const;
  void take_offer(exec::Offer offer, const Agreement& agreed, const Groups& groups);
  void check_forced() const;
  void use_graph(const Agreement& agreed, const Groups& groups, Deadline deadline);
  topo::Graph make_graph(const Agreement& agreed, const Groups& groups, Deadline deadline) const;
  select::LinkCost relayed(const select::LinkCost& network) const;

  const exec::BackendEntry* const entry_ = nullptr;  // null: the host's
  control::Endpoint* const endpoint_ = nullptr;      // likewise
  const int processor_ = exec::kNoProcessor;
  std::string refused_;
  std::unique_ptr<EnqueuedCalls> enqueued_;  // null: the backend is driven
  std::unique_ptr<BackendNetwork> network_;
  std::unique_ptr<exec::Backend> backend_;
  std::unique_ptr<Planner> planner_;
  std::vector<exec::Processor> processors_;  // by rank
  exec::Offer offer_;
  select::CostInputs inputs_;
  select::MachineNotes notes_;
  topo::Graph graph_;  // empty unless choices are explained
  select::MeasuredGpus measured_on_;
  std::shared_ptr<const select::Profile> profile_;  // null: none holds for these processors
};

}  // namespace tutti::comm
