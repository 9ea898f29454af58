// The turn of a call: a communicator serves the tickets of its calls in order.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>

#include "comm/communicator.hpp"

namespace tutti::comm {

/// All tickets of a group are taken under one lock, else two groups could wait for each other. A ticket is also taken
/// and enqueued on a stream under that lock, else the stream could run a later ticket first.
inline std::mutex& ticket_mutex() {
  static auto* const kMutex = new std::mutex;  // never destroyed: threads may outlive main()
  return *kMutex;
}

/// Waits until a communicator serves the ticket; ends it on every path.
class TicketGuard {
 public:
  TicketGuard(Communicator& comm, uint64_t ticket) : comm_(&comm) { comm.await_ticket(ticket); }
  TicketGuard(TicketGuard&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  TicketGuard(const TicketGuard&) = delete;
  TicketGuard& operator=(const TicketGuard&) = delete;
  ~TicketGuard() {
    if (comm_ != nullptr) comm_->end_ticket();
  }

 private:
  Communicator* comm_;
};

}  // namespace tutti::comm
