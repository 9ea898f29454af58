// A communicator's calls on memory of a device: its executor and its programs, and what becomes of errors that are
// found after a call has been enqueued.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/agreement.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/device_network.hpp"
#include "comm/devices.hpp"
#include "comm/planner.hpp"

namespace tutti::comm {

/// The call that ran when the communicator failed: the failure in its words. Any thread.
class CutOffCall {
 public:
  void set(const Status& status) {
    const std::lock_guard lock(mutex_);
    status_ = status;
  }
  /// Ok: there was none, or it is not known.
  Status status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  mutable std::mutex mutex_;
  Status status_;
};

/// The calls that were enqueued last, by the number that the device gives them; and the errors in which they end.
class EnqueuedCalls final : public exec::Observer {
 public:
  EnqueuedCalls(control::Endpoint& endpoint, const CallBoard& board, std::string title, const Timeouts& timeouts,
                std::shared_ptr<CutOffCall> cut_off)
      : diagnostics_(endpoint, board, std::move(title), timeouts), cut_off_(std::move(cut_off)) {}

  /// A collective with its number on the call board …
  void add(uint64_t board_number, const CallSpec& spec, const Prepared& prepared);
  /// … or a group of transfers.
  void add(const std::vector<NumberedCall>& group, const char* algorithm);

  Status fault(const exec::Fault& fault) override;
  Status stalled(const exec::Stall& stall) override;
  void cut_off(const exec::Stall& stall) override;
  void device_failed(const std::string& why, const exec::Stall& stall) override;
  Status failed() override;
  /// The network has failed while the device ran the call of this number.
  void network_failed(const Status& status, uint64_t device_number);
  bool lost(Rank peer) const override { return diagnostics_.lost(peer); }

 private:
  struct Entry {
    uint64_t board_number = 0;
    CallSpec spec;
    const char* algorithm = "";
    std::vector<NumberedCall> group;  ///< empty: a collective
  };
  /// The last calls of one kind: those of kernels, or of copies, which the device numbers apart.
  struct Sequence {
    Entry& next() { return last[count++ % last.size()]; }
    const Entry& at(uint64_t number) const;
    std::array<Entry, CallBoard::kEntries> last;
    uint64_t count = 0;
  };
  void describe(uint64_t device_number);
  const Entry& entry(uint64_t device_number) const;

  std::mutex mutex_;
  CallDiagnostics diagnostics_;
  std::vector<NumberedCall> described_group_;  // which diagnostics_ is about, if that is no collective
  const std::shared_ptr<CutOffCall> cut_off_;
  Sequence kernels_, copies_;
  uint64_t described_ = 0;  // the number of the call that diagnostics_ is about
};

class DeviceCalls {
 public:
  /// Throws Error(Unsupported) where the device cannot be used.
  DeviceCalls(control::Endpoint& endpoint, Fabric& fabric, const CallBoard& board, std::string title,
              const Timeouts& timeouts, int device, const exec::Backoff& backoff, std::shared_ptr<CutOffCall> cut_off);

  exec::DeviceExecutor& executor() { return *executor_; }
  Planner& planner() { return planner_; }
  EnqueuedCalls& enqueued() { return enqueued_; }
  int device() const { return executor_->device(); }
  /// Whose GPUs these are, and which profile holds for them. Equal on all ranks. Throws Error(InvalidArgument) if
  /// TUTTI_PROFILE names one of other GPUs.
  void take_reports(const std::vector<RankReport>& reports);
  /// Has the profile times of NVLS for as many ranks?
  bool has_times_of_nvls() const;
  /// What the decision table was made from.
  const select::CostInputs& inputs() const { return inputs_; }
  /// Makes the decision table for links between devices, on rank 0 from the topology of the hosts with their GPUs.
  /// Collective. What it was made from, on rank 0: notes().
  /// `sharers`: ranks of the communicator that use the device. `all_whole`: lines stay whole between any two ranks.
  /// `why_no_nvls`: why there cannot be one between the devices.
  void agree(const Agreement& agreed, const Groups& groups, uint32_t sharers, bool all_whole,
             const std::string& why_no_nvls, Deadline deadline);
  const select::MachineNotes& notes() const { return notes_; }
  /// Of all ranks.
  const select::MeasuredGpus& gpus() const { return gpus_; }
  /// Throws Error(InvalidArgument | InvalidUsage) with the first mistake in the call's buffers and stream.
  void check(const Call& call, Rank rank, Rank ranks) const;

 private:
  bool meet_hosts(const plan::Grouping& groups, bool inside) const;
  std::vector<select::UsableMethod> usable_methods(bool all_whole, const std::string& why_no_nvls) const;
  topo::Graph make_graph(const Agreement& agreed, const Groups& groups, Deadline deadline);
  control::Endpoint& endpoint_;
  EnqueuedCalls enqueued_;
  std::unique_ptr<DeviceNetwork> network_;  // null: all ranks are of this host
  std::unique_ptr<exec::DeviceExecutor> executor_;
  Planner planner_;
  select::CostInputs inputs_;
  select::MachineNotes notes_;
  select::MeasuredGpus gpus_;
  std::shared_ptr<const select::Profile> profile_;  // null: none holds for these GPUs
};

}  // namespace tutti::comm
