// This rank's queue pair to a rank of another host, for all windows (RDMA).
#pragma once

#include <cstdint>
#include <memory>

#include "base/deadline.hpp"
#include "base/rank.hpp"
#include "rma/refusals.hpp"
#include "rma/remote_part.hpp"
#include "transports/remote_memory.hpp"
#include "tutti/error.hpp"

namespace tutti::rma {

class Connections;  // it is one of them

/// Made at its first use.
class RdmaConnection final : public Connection {
 public:
  RdmaConnection(Connections& connections, Rank peer, transports::RemoteMemory& device)
      : connections_(connections), peer_(peer), device_(device) {}

  transports::RemoteMemory& device() const { return device_; }
  /// Connects it if necessary. False: the peer, or this rank's device, cannot; the log has the reason.
  bool is_usable(double limit);
  bool is_refused() const { return is_refused_; }
  transports::RemoteAtomics atomics() const { return queue_->atomics(); }

  /// work(queue, wait), after is_usable(). `signals`: of the window, for its errors and a later flush().
  template <class Work>
  void use(uint64_t window, const transports::RemoteKey& signals, double limit, const Work& work) {
    Wait wait = begin(window, signals, limit);
    try {
      work(*queue_, wait);
    } catch (const Error& error) {
      explain(error, wait);
    }
  }
  void flush(double limit) override;
  void flush_if_dirty(double limit);

 private:
  /// Waits of a call for the peer's device.
  class Wait final : public transports::RemoteWait {
   public:
    Wait(const Ends& ends, Rank peer, double limit) : ends_(ends), peer_(peer), deadline_(Deadline::in(limit)) {}
    void check() override;
    bool has_ended() const { return has_ended_; }

   private:
    const Ends& ends_;
    const Rank peer_;
    const Deadline deadline_;
    bool has_ended_ = false;
  };
  Wait begin(uint64_t window, const transports::RemoteKey& signals, double limit);
  [[noreturn]] void explain(const Error& error, const Wait& wait) const;

  Connections& connections_;
  const Rank peer_;
  transports::RemoteMemory& device_;
  std::unique_ptr<transports::RemoteQueue> queue_;
  bool is_refused_ = false;
  uint64_t window_ = 0;            // the last one that was used
  transports::RemoteKey signals_;  // its
};

}  // namespace tutti::rma
