#include "comm/submit.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/process_generation.hpp"
#include "comm/group_run.hpp"
#include "comm/placement.hpp"
#include "comm/stream.hpp"
#include "comm/ticket.hpp"
#include "comm/window_submit.hpp"
#include "exec/pending.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::comm {
namespace {

/// A task that a group runs on a thread of its own.
struct Task {
  std::shared_ptr<Communicator> comm;  // whose ticket it takes; null: none
  std::function<void(uint64_t ticket)> run;
  uint64_t ticket = 0;
};

struct Group {
  uint64_t process = 0;  // the process that began it, see process_generation()
  std::vector<CommunicatorCalls> per_communicator;
  std::vector<std::shared_ptr<Stream>> streams;
  bool blocks = false;  // some call has no stream, so group_end() waits
  std::vector<Task> tasks;
  std::vector<WindowCall> on_windows;
  bool discarded = false;  // by an inner level: the outer levels must still end, and run nothing
};
[[gnu::tls_model("initial-exec")]] constinit thread_local bool t_ended = false;  // t_open is destroyed
/// A thread that ends, or the process, with a group open has lost its calls.
struct GroupOfThread {
  Group group;
  ~GroupOfThread() {
    t_ended = true;
    if (const std::string why = group_abandon("a thread ends with a group open"); !why.empty()) log_error("{}", why);
  }
};
thread_local GroupOfThread t_open;

// The depth of nested groups on this thread. Kept apart from t_open.group and at a fixed offset of the thread's memory,
// since every call reads it.
[[gnu::tls_model("initial-exec")]] constinit thread_local int t_depth = 0;

/// A child of fork() inherits the calls of its parent's group and must not run them.
void check_own_group() {
  if (t_open.group.process == process_generation()) return;
  t_open.group = {};
  t_depth = 0;
  throw_error(Code::InvalidUsage,
              "this process was forked within a group; the group belongs to its parent and is dropped here");
}

void refuse_if_discarded() {
  if (!t_open.group.discarded) return;
  throw_error(
      Code::InvalidUsage,
      "this whole group was dropped, with its outer levels, by tuttiGroupDiscard or for want of tuttiGroupEnd at an "
      "inner one: no call of it runs. End or "
      "discard the levels that are still open, then begin a new group");
}

/// Runs one call on this thread, whose ticket is served.
[[gnu::always_inline]] inline Status run_unnoted(Communicator& comm, const Call& call) {
  const FloatEnvironment environment;
  Status status;
  exec::Pending* pending = nullptr;
  try {
    pending = comm.begin({&call, 1}, status);
    if (pending != nullptr) {
      pending->wait();
      comm.finish(*pending, status);
    }
  } catch (const std::exception& error) {
    status = comm.fail_internally(error.what());
    if (pending != nullptr) pending->abort();
  }
  return status;
}

/// The same, for the log or a profiler.
[[gnu::noinline]] Status run_noted(Communicator& comm, const Call& call) {
  Communicator::Noted noted = comm.note({&call, 1});
  Status status = run_unnoted(comm, call);
  comm.note_end(noted, {&call, 1}, status);
  return status;
}

[[gnu::always_inline]] inline Status run_one(Communicator& comm, const Call& call) {
  if (comm.notes()) [[unlikely]]
    return run_noted(comm, call);
  return run_unnoted(comm, call);
}

/// A repeated call is not checked again; only the thread whose ticket is served can tell. Throws the call's error.
void check_and_run(Communicator& comm, const Call& call) {
  const TicketGuard guard(comm, comm.take_ticket());
  if (!comm.was_checked(call)) comm.check(call);
  const Status status = run_one(comm, call);
  if (status.ok()) [[likely]]
    return;
  comm.note_heard();
  status.throw_if_bad();
}

/// Needs order().
void take_tickets(std::vector<Task>& tasks) {
  for (Task& task : tasks) {
    if (task.comm != nullptr) task.ticket = task.comm->take_ticket();
  }
}

/// Needs order().
void take_tickets(std::vector<CommunicatorCalls>& per_communicator) {
  for (CommunicatorCalls& calls : per_communicator) {
    for (size_t i = 0; i < calls.works.size(); ++i) calls.tickets.push_back(calls.comm->take_ticket());
  }
}

/// A group's transfers on one communicator run first, all at the same time; its collectives follow in order.
void collect(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream) {
  refuse_if_discarded();
  auto& per_communicator = t_open.group.per_communicator;
  auto calls = std::find_if(per_communicator.begin(), per_communicator.end(),
                            [&](const CommunicatorCalls& s) { return s.comm == comm; });
  if (calls == per_communicator.end()) calls = per_communicator.insert(per_communicator.end(), {comm, {}, {}});
  auto& works = calls->works;
  const auto is_transfer = [](const Call& c) { return c.spec.collective == Collective::SendRecv; };
  if (!is_transfer(call)) {
    works.push_back({call});
  } else if (!works.empty() && is_transfer(works.front().front())) {
    works.front().push_back(call);
  } else {
    works.insert(works.begin(), {call});
  }
  auto& streams = t_open.group.streams;
  if (stream == nullptr) {
    t_open.group.blocks = true;
  } else if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
    streams.push_back(stream);
  }
}

/// Runs tasks concurrently, since each waits for the others; throws the first error. If a thread cannot be started, no
/// task begins.
void run_tasks(std::vector<Task>& tasks) {
  if (tasks.empty()) return;
  std::vector<std::exception_ptr> errors(tasks.size());
  std::promise<bool> begins;
  const std::shared_future<bool> all_there = begins.get_future();
  std::vector<std::jthread> threads;
  threads.reserve(tasks.size());
  try {
    for (size_t i = 0; i < tasks.size(); ++i) {
      threads.push_back(start_thread<std::jthread>([&, i, all_there] {
        try {
          if (all_there.get()) tasks[i].run(tasks[i].ticket);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      }));
    }
  } catch (...) {
    begins.set_value(false);
    throw;
  }
  {
    const std::lock_guard lock(ticket_mutex());
    take_tickets(tasks);
  }
  begins.set_value(true);
  threads.clear();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Splits when the ticket is served. Joins the new communicator afterwards, so that others can use this one meanwhile.
std::shared_ptr<Communicator> split_with_ticket(Communicator& comm, uint64_t ticket, int colour, int key) {
  std::optional<SplitResult> part;
  {
    const TicketGuard guard(comm, ticket);
    part = comm.split(colour, key);
  }
  if (!part) return nullptr;
  try {
    return Communicator::join(
        part->id, part->ranks, part->rank,
        {part->groups, part->title, comm.timeouts(), comm.processors(), part->arenas, part->terms});
  } catch (const Error& error) {
    comm.failure().throw_if_bad();
    throw_error(error.code(), "rank {}: split(), call {}: {}", comm.rank(), part->call, error.what());
  }
}

/// The first stream runs the group; the others wait for it, so that their later calls run after it.
std::shared_ptr<Outcome> enqueue_on_streams(const std::vector<std::shared_ptr<Stream>>& streams,
                                            std::vector<CommunicatorCalls>&& group) {
  auto outcome = std::make_shared<Outcome>();
  auto per_communicator = std::make_shared<std::vector<CommunicatorCalls>>(std::move(group));
  streams.front()->enqueue([per_communicator, outcome] {
    outcome->settle(run_communicators(*per_communicator));
    return outcome->wait();
  });
  for (size_t i = 1; i < streams.size(); ++i) streams[i]->enqueue([outcome] { return outcome->wait(); });
  return outcome;
}

/// The collectives and transfers of a group.
void run_calls(Group& group) {
  std::unique_lock lock(ticket_mutex());
  take_tickets(group.per_communicator);
  if (group.streams.empty()) {
    lock.unlock();
    const Status status = run_communicators(group.per_communicator);
    if (!status.ok() && group.per_communicator.size() == 1) group.per_communicator.front().comm->note_heard();
    return status.throw_if_bad();
  }
  const auto outcome = enqueue_on_streams(group.streams, std::move(group.per_communicator));
  lock.unlock();
  if (group.blocks) outcome->wait().throw_if_bad();
}

}  // namespace

void submit(const std::shared_ptr<Communicator>& comm, const std::shared_ptr<Window>& window, const OneSided& call,
            const std::shared_ptr<Stream>& stream) {
  comm->check(call);
  if (t_depth == 0 && stream == nullptr) return run_now(*comm, *window, call);
  if (t_depth == 0) return run_on_window({comm, window, call, stream});
  refuse_if_discarded();
  t_open.group.on_windows.push_back({comm, window, call, stream});
}

std::shared_ptr<Window> register_window(const std::shared_ptr<Communicator>& comm, void* memory, uint64_t bytes,
                                        uint8_t backend, const Status& refusal) {
  const TicketGuard guard(*comm, comm->take_ticket());
  return comm->register_window(memory, bytes, backend, refusal);
}

void deregister_window(const std::shared_ptr<Communicator>& comm, Window& window) {
  const TicketGuard guard(*comm, comm->take_ticket());
  comm->deregister_window(window);
}

void submit(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream) {
  if (t_depth == 0 && stream == nullptr) return check_and_run(*comm, call);
  comm->check(call);
  if (t_depth > 0) return collect(comm, call, stream);
  const std::lock_guard lock(ticket_mutex());
  const uint64_t ticket = comm->take_ticket();
  stream->enqueue(
      [comm, call, ticket] {
        const TicketGuard guard(*comm, ticket);
        return run_one(*comm, call);
      },
      [comm = comm.get(), ticket](const std::string& name, Rank rank) { return comm->is_next(ticket, name, rank); });
}

CallInfo last_call(Communicator& comm) {
  const TicketGuard guard(comm, comm.take_ticket());
  return comm.last_call();
}

uint64_t sent_bytes(Communicator& comm) {
  const TicketGuard guard(comm, comm.take_ticket());
  return comm.sent();
}

void group_start() {
  if (t_ended)
    throw_error(Code::InvalidUsage, "a group begins as its thread ends: in the destructor of a static object?");
  if (t_depth > 0) {
    check_own_group();
  } else {
    t_open.group.process = process_generation();
  }
  ++t_depth;
}

bool in_group() { return t_depth > 0; }

void group_add(std::function<void()> task) {
  refuse_if_discarded();
  t_open.group.tasks.push_back({nullptr, [task = std::move(task)](uint64_t) { task(); }});
}

void submit_split(const std::shared_ptr<Communicator>& comm, int colour, int key,
                  std::function<void(std::shared_ptr<Communicator>)> made) {
  if (!in_group()) {
    try {
      return made(split_with_ticket(*comm, comm->take_ticket(), colour, key));
    } catch (const Error&) {
      comm->note_heard();
      throw;
    }
  }
  refuse_if_discarded();
  t_open.group.tasks.push_back({comm, [comm, colour, key, made = std::move(made)](uint64_t ticket) {
                                  made(split_with_ticket(*comm, ticket, colour, key));
                                }});
}

uint64_t add_buffer(const std::shared_ptr<Communicator>& comm, const void* data, uint64_t bytes) {
  const uint8_t backend = backend_of(data);
  const TicketGuard guard(*comm, comm->take_ticket());
  return comm->add_buffer(backend, data, bytes);
}

void drop_buffer(const std::shared_ptr<Communicator>& comm, uint64_t registration) {
  const TicketGuard guard(*comm, comm->take_ticket());
  comm->drop_buffer(registration);
}

double group_estimate() {
  if (t_depth == 0) throw_error(Code::InvalidUsage, "tuttiGroupEstimate without tuttiGroupStart");
  check_own_group();
  refuse_if_discarded();
  double longest = 0;
  for (const CommunicatorCalls& calls : t_open.group.per_communicator) {
    double seconds = 0;
    for (const auto& work : calls.works) seconds += calls.comm->estimate(work);
    longest = std::max(longest, seconds);
  }
  return longest;
}

void group_discard() {
  if (t_depth == 0) throw_error(Code::InvalidUsage, "tuttiGroupDiscard without tuttiGroupStart");
  check_own_group();
  --t_depth;
  t_open.group = {.process = t_open.group.process, .discarded = t_depth > 0};
}

void check_not_in_group(const Communicator& comm, const char* call) {
  if (t_depth == 0 || t_open.group.process != process_generation()) return;
  if (comm.failed().load(std::memory_order_acquire) != 0) return;  // none of them would run
  const bool used = std::any_of(t_open.group.per_communicator.begin(), t_open.group.per_communicator.end(),
                                [&](const CommunicatorCalls& calls) { return calls.comm.get() == &comm; }) ||
                    std::any_of(t_open.group.tasks.begin(), t_open.group.tasks.end(),
                                [&](const Task& task) { return task.comm.get() == &comm; }) ||
                    std::any_of(t_open.group.on_windows.begin(), t_open.group.on_windows.end(),
                                [&](const WindowCall& other) { return other.comm.get() == &comm; });
  if (!used) return;
  throw_error(
      Code::InvalidUsage,
      "rank {}: {} within a group that has calls on this communicator, none of which has run: tuttiGroupEnd, or "
      "tuttiGroupDiscard, comes first",
      comm.rank(), call);
}

std::string group_abandon(const std::string& why) {
  if (t_depth == 0 || t_open.group.process != process_generation()) return "";
  if (t_open.group.per_communicator.empty() && t_open.group.tasks.empty() && t_open.group.on_windows.empty()) {
    --t_depth;
    return "";
  }
  const int outer = --t_depth;
  const Group group = std::exchange(t_open.group, {.process = process_generation(), .discarded = outer > 0});
  std::string text = fmt::format("{}: none of the group's calls has run", why);
  for (const CommunicatorCalls& calls : group.per_communicator) calls.comm->fail(Code::InvalidUsage, text);
  for (const Task& task : group.tasks) {
    if (task.comm != nullptr) task.comm->fail(Code::InvalidUsage, text);
  }
  for (const WindowCall& call : group.on_windows) call.comm->fail(Code::InvalidUsage, text);
  return text;
}

void group_end() {
  if (t_depth == 0) throw_error(Code::InvalidUsage, "tuttiGroupEnd without tuttiGroupStart");
  check_own_group();
  if (--t_depth > 0) return;
  Group group = std::exchange(t_open.group, {});
  if (group.discarded) {
    throw_error(Code::InvalidUsage,
                "no call of this group has run: it was dropped at an inner level, by tuttiGroupDiscard or for want of "
                "tuttiGroupEnd");
  }
  run_tasks(group.tasks);
  run_on_windows(group.on_windows, [&] {
    if (!group.per_communicator.empty()) run_calls(group);
  });
}

}  // namespace tutti::comm
