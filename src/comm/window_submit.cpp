#include "comm/window_submit.hpp"

#include <exception>
#include <mutex>
#include <string>

#include "comm/stream.hpp"
#include "comm/ticket.hpp"

namespace tutti::comm {

void run_now(Communicator& comm, Window& window, const OneSided& call) {
  const TicketGuard guard(comm, comm.take_ticket());
  try {
    comm.run(window, call);
  } catch (const Error&) {
    comm.note_heard();
    throw;
  }
}

void run_on_window(const WindowCall& of) {
  Communicator& comm = *of.comm;
  if (of.stream == nullptr) {
    return run_now(comm, *of.window, of.call);
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

void run_on_windows(const std::vector<WindowCall>& calls, const std::function<void()>& between) {
  std::exception_ptr first;
  const auto attempt = [&](auto&& run) {
    try {
      run();
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  };
  const auto run_those = [&](bool waits) {
    for (const WindowCall& call : calls) {
      if (call.call.waits() == waits) attempt([&] { run_on_window(call); });
    }
  };
  run_those(false);
  attempt(between);
  run_those(true);
  if (first) std::rethrow_exception(first);
}

}  // namespace tutti::comm
