#include "comm/window_submit.hpp"

#include <mutex>
#include <string>

#include "comm/stream.hpp"
#include "comm/ticket.hpp"

namespace tutti::comm {

void run_on_window(const WindowCall& of) {
  Communicator& comm = *of.comm;
  if (of.stream == nullptr) {
    const TicketGuard guard(comm, comm.take_ticket());
    return comm.run(*of.window, of.call);
  }
  const std::lock_guard lock(ticket_mutex());
  const uint64_t ticket = comm.take_ticket();
  of.stream->enqueue(
      [of, ticket] {
        const TicketGuard guard(*of.comm, ticket);
        try {
          of.comm->run(*of.window, of.call);
          return Status{};
        } catch (const Error& error) {
          return Status{error.code(), error.what()};
        }
      },
      [comm = of.comm.get(), ticket](const std::string& name, Rank rank) { return comm->is_next(ticket, name, rank); });
}

void run_on_windows(const std::vector<WindowCall>& calls, bool waits) {
  for (const WindowCall& call : calls) {
    if (call.call.waits() == waits) run_on_window(call);
  }
}

}  // namespace tutti::comm
