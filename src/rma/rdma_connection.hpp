// This rank's queue pair to a rank of another host, for all windows (RDMA).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

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
  /// Connects it if necessary, and tries it on the peer's `signals` of some window. False: the peer, or this rank's
  /// device, cannot, or the two do not reach each other; the log has the reason.
  bool is_usable(const transports::RemoteKey& signals, double limit) {
    return queue_ != nullptr || (!is_refused() && connect(signals, limit));
  }
  bool is_refused() const { return !refusal_.empty(); }
  const std::string& refusal() const { return refusal_; }
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
    Wait(const Ends& ends, Rank peer, double limit) : ends_(ends), peer_(peer), patience_(limit) {}
    void check() override;
    void progressed() override { patience_.renew(); }
    bool has_ended() const { return has_ended_; }

   private:
    const Ends& ends_;
    const Rank peer_;
    Patience patience_;
    bool has_ended_ = false;
  };
  bool connect(const transports::RemoteKey& signals, double limit);
  std::unique_ptr<transports::RemoteQueue> make_queue(Deadline deadline);
  bool answers(transports::RemoteQueue& queue, const transports::RemoteKey& signals, double limit);
  Wait begin(uint64_t window, const transports::RemoteKey& signals, double limit);
  [[noreturn]] void explain(const Error& error, const Wait& wait) const;

  Connections& connections_;
  const Rank peer_;
  transports::RemoteMemory& device_;
  std::unique_ptr<transports::RemoteQueue> queue_;
  std::string refusal_;            // why it is not used; "": it may be
  uint64_t window_ = 0;            // the last one that was used
  transports::RemoteKey signals_;  // its
};

}  // namespace tutti::rma
