// The backend for host memory: runs calls on the calling thread, and wide programs on further threads too.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "exec/backend.hpp"
#include "exec/host/steps.hpp"
#include "exec/host/workers.hpp"
#include "exec/observer.hpp"
#include "exec/wait.hpp"
#include "transports/transport.hpp"

namespace tutti::exec {

inline constexpr uint32_t kMaxThreads = 64;  ///< of one rank

class HostBackend final : public Backend, public Pending {
 public:
  /// What it stands on; all of it outlives the backend.
  struct Context {
    Rank rank = 0, ranks = 1;
    Links* links = nullptr;
    link::Arena* arena = nullptr;
    std::vector<transports::Transport*> engines;
    const std::atomic<uint32_t>* failed = nullptr;  ///< non-zero: the communicator has failed
    Observer* observer = nullptr;
    const Backoff* backoff = nullptr;
    uint32_t threads = 1;  ///< that run a wide program
  };
  explicit HostBackend(Context context);
  ~HostBackend() override;

  std::unique_ptr<Execution> compile(const plan::RankPlan& plan, const Geometry& geometry,
                                     const Reduction* reduction) override;
  std::unique_ptr<Execution> compile(const Direct& direct, const Reduction* reduction) override;
  Pending* enqueue(Execution& execution, const Binding& binding) override;

  bool poll() override;
  void wait() override;
  void abort() override;
  void check_failure(double seconds) override;
  void check_stall(double seconds, uint64_t stall_id) override;
  void long_wait_begins() override;
  void long_wait_ends(Deadline::Clock::time_point began) override;
  /// A message that a worker publishes meanwhile does not end it: engines send that afterwards. The delay is that of
  /// every thread that sleeps in a call: MachineConstants::longest_nap at most, and only where nothing moved before.
  bool sleep(double seconds) override;

 private:
  static constexpr uint32_t kNoPause = 0;
  /// What a worker and the calling thread exchange.
  struct alignas(2 * link::kLine) WorkerState {
    static constexpr uint32_t kRuns = 0, kDone = ~uint32_t{0};  // others: paused, the number of the pause
    std::atomic<uint32_t> state{kDone};
    std::atomic<uint64_t> moves{0};  // raised when something has moved
    const Replica* faulted = nullptr;
    std::exception_ptr exception;
  };

  bool pass();
  [[gnu::noinline]] void wait_on(bool moved);
  PeerTraits traits_of(const std::vector<Rank>& peers);
  void give_staging(HostExecution& execution);
  std::vector<Stage*> shared_stages(const HostExecution& execution);
  Status drain_staging();
  unsigned char* scratch_for(const HostExecution& execution);
  void start_workers();
  void run_worker(uint32_t thread);
  void pause(WorkerState& worker, uint32_t number);
  bool pause_workers();
  uint32_t threads_used() const;
  Turn step_replicas(uint32_t thread);
  void collect_workers(Turn& turn);
  bool move_engines(bool& flushed);
  void end_by_fault(const Replica& replica);
  bool loss_may_not_matter(double stalled);

  const Context context_;
  Links& links_;
  Staging staging_;
  HostExecution* current_ = nullptr;
  Rank awaited_ = kNoRank;  // in the long wait that began last
  std::optional<Deadline>
      loss_matters_;  // a rank was lost while the current call ran: no message comes later than this
  std::unique_ptr<unsigned char[]> scratch_;
  unsigned char* scratch_begin_ = nullptr;  // scratch_, aligned
  uint64_t scratch_bytes_ = 0;
  // Stages of direct programs, by out-links and slot size: data that a peer has not read yet stays in place.
  std::map<std::pair<std::vector<uint32_t>, uint64_t>, std::unique_ptr<OwnedStage>> shared_stages_;

  bool wide_ = false;  // the current call has several replicas
  std::atomic<bool> stop_{false};
  std::atomic<uint32_t> pause_{kNoPause};
  uint32_t last_pause_ = 0;
  std::array<WorkerState, kMaxThreads> worker_states_;  // by thread; the calling thread's is not used
  uint64_t moves_seen_ = 0;
  Workers workers_;
};

}  // namespace tutti::exec
