// Calls that have been enqueued on an asynchronous backend, and what becomes of errors that are found after that.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/call_board.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/planner.hpp"
#include "control/endpoint.hpp"
#include "exec/observer.hpp"
#include "exec/window.hpp"

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

/// The calls that were enqueued last, by the number that the backend gives them; and the errors in which they end.
class EnqueuedCalls final : public exec::Observer {
 public:
  EnqueuedCalls(control::Endpoint& endpoint, const CallBoard& board, std::string title, const Timeouts& timeouts,
                std::shared_ptr<CutOffCall> cut_off)
      : diagnostics_(endpoint, board, std::move(title), timeouts), cut_off_(std::move(cut_off)) {}

  /// A collective with its number on the call board …
  void add(uint64_t board_number, const CallSpec& spec, const Prepared& prepared);
  /// … or a group of transfers.
  void add(const std::vector<NumberedCall>& group, const char* algorithm);
  /// A call on the window that the call of this number made, in which a stream, or the caller itself, may wait for
  /// peers. Returns its exec::WindowCall::id, which is the next one's too if the call is refused.
  uint64_t add_wait(const CallSpec& spec, uint64_t window, bool by_stream);
  void accept_wait();

  Status fault(const exec::Fault& fault) override;
  Status stalled(const exec::Stall& stall) override;
  void cut_off(const exec::Stall& stall) override;
  void processor_failed(const std::string& why, const exec::Stall& stall) override;
  Status failed() override;
  /// The network has failed while the backend ran the call of this number.
  void network_failed(const Status& status, uint64_t number);
  bool lost(Rank peer) const override { return diagnostics_.lost(peer); }
  bool left(Rank peer) const override { return diagnostics_.left(peer); }

 private:
  struct Entry {
    uint64_t board_number = 0;
    CallSpec spec;
    const char* algorithm = "";
    std::vector<NumberedCall> group;  ///< empty: a collective
  };
  /// The last calls of one kind: those that are counted together.
  struct Sequence {
    Entry& next() { return last[count++ % last.size()]; }
    const Entry& at(uint64_t number) const;
    std::array<Entry, CallBoard::kEntries> last;
    uint64_t count = 0;
  };
  struct WindowWait {
    CallSpec spec;
    uint64_t window = 0;
    bool by_stream = true;
  };
  void describe(uint64_t number);
  const Entry& entry(uint64_t number) const;

  std::mutex mutex_;
  CallDiagnostics diagnostics_;
  std::vector<NumberedCall> described_group_;  // which diagnostics_ is about, if that is no collective
  const std::shared_ptr<CutOffCall> cut_off_;
  Sequence together_, apart_;  // exec::Method::counted_apart
  /// Of calls on windows, by id: those that are enqueued, and the next one.
  std::array<WindowWait, exec::kMaxWindowCallsAhead + 1> waits_;
  uint64_t last_wait_ = 0;  // that was accepted
  uint64_t described_ = 0;  // the number of the call that diagnostics_ is about
};

}  // namespace tutti::comm
