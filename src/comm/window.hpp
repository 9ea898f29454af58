// A rank's window as its communicator has it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "comm/fabric.hpp"
#include "comm/one_sided.hpp"
#include "exec/observer.hpp"
#include "exec/pending.hpp"
#include "exec/wait.hpp"
#include "exec/window.hpp"
#include "rma/connections.hpp"
#include "rma/own_part.hpp"
#include "rma/target.hpp"
#include "rma/window.hpp"

namespace tutti::comm {

/// Only the thread whose ticket is served uses it. Its parts lie in memory of the host, or of a backend: then `device`
/// has them, and all that is said of the host's is empty.
struct Window {
  Window(uint64_t window_number, std::shared_ptr<rma::OwnPart> part, Rank ranks)
      : number(window_number), own(std::move(part)), taken(static_cast<size_t>(ranks)) {}

  const uint64_t number;  ///< of the call that made it
  std::shared_ptr<rma::OwnPart> own;
  std::optional<rma::Window> parts;  ///< of all ranks; empty: deregistered
  uint8_t backend = kHostBackend;
  std::unique_ptr<exec::BackendWindow> device;  ///< null: deregistered, if it is not the host's
  /// By rank, as it was made: where its part is reached, or null, and its bytes. Any thread may read them.
  std::vector<std::pair<void*, uint64_t>> places;
  std::vector<std::array<uint64_t, rma::kSignals>> taken;  ///< signals that calls have waited for, by rank

  /// Takes those that a call waits for, if they have arrived.
  bool take(Rank from, uint32_t signal, uint64_t count) {
    uint64_t& before = taken[static_cast<size_t>(from)][signal];
    if (own->from(from).arrived[signal].load(std::memory_order_acquire) < before + count) return false;
    before += count;
    return true;
  }
};

/// What a rank's windows share.
struct WindowServices {
  WindowServices(transports::Wireup& wireup, link::PeerRegions& regions, rma::Ends ends, bool use_cma);
  ~WindowServices();
  /// Opens the device that reaches ranks of other hosts, if there is one (window_device.hpp).
  void find_device(const Fabric& fabric);

  const uint64_t process;  ///< process_generation(): a forked child has no part in it
  const std::shared_ptr<rma::Target> target;
  std::unique_ptr<transports::RemoteMemory> device;  ///< by which it reaches ranks of other hosts; null: none
  rma::Connections connections;
  std::map<uint64_t, std::shared_ptr<Window>> live;  ///< those that are registered, by their numbers
};

/// Waits until so many signals have arrived.
class SignalWait final : public exec::Pending {
 public:
  /// What it looks at while it waits.
  struct Context {
    rma::Target& target;
    const std::atomic<uint32_t>& failed;
    const exec::Backoff& backoff;
    exec::Observer& observer;
  };
  SignalWait(const rma::SignalLine& line, const OneSided& call, uint64_t wanted, const Context& context)
      : line_(line), from_(call.peer), signal_(call.signal), wanted_(wanted), context_(context) {
    done_ = false;
  }

  bool poll() override {
    done_ = done_ || line_.arrived[signal_].load(std::memory_order_acquire) >= wanted_;
    return done_;
  }
  void wait() override;
  void abort() override {}
  void check_failure(double seconds) override;
  void check_stall(double seconds, uint64_t stall_id) override;
  void long_wait_ends(Deadline::Clock::time_point began) override { context_.observer.waited(from_, began); }
  bool sleep(double) override { return false; }

 private:
  bool is_in_vain();
  bool has_all_that_was_sent() const;
  void tell(const exec::Stall& stall);

  const rma::SignalLine& line_;
  const Rank from_;
  const uint32_t signal_;
  const uint64_t wanted_;
  const Context context_;
  std::optional<Deadline> in_flight_;  // until when signals of the peer, which has left, may arrive
};

}  // namespace tutti::comm
