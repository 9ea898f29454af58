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
#include "base/process_generation.hpp"
#include "comm/stream.hpp"
#include "reduce/float_environment.hpp"

namespace tutti::comm {
namespace {

/// All that a group does on one communicator, in order.
struct Share {
  std::shared_ptr<Communicator> comm;
  std::vector<std::vector<Call>> works;
  std::vector<uint64_t> tickets;
};

/// What a group runs on a thread of its own.
struct Task {
  std::shared_ptr<Communicator> comm;  // whose turn it takes; null: no one's
  std::function<void(uint64_t ticket)> run;
  uint64_t ticket = 0;
};

struct Group {
  uint64_t process = 0;  // who began it, see process_generation()
  std::vector<Share> shares;
  std::vector<std::shared_ptr<Stream>> streams;
  bool blocks = false;  // some call has no stream: the end waits
  std::vector<Task> tasks;
  bool discarded = false;  // by an inner level: the outer ones are still to be ended, and run nothing
};
thread_local Group t_group;

// How deep this thread is in groups. Apart from them, and at a fixed place of the thread's memory, because every call
// asks for it.
[[gnu::tls_model("initial-exec")]] constinit thread_local int t_depth = 0;

/// A child of fork() has inherited the calls of its parent's group: they are not its to run.
void check_own_group() {
  if (t_group.process == process_generation()) return;
  t_group = {};
  t_depth = 0;
  throw_error(Code::InvalidUsage,
              "this process was forked within a group; the group is its parent's, and is forgotten");
}

void refuse_if_discarded() {
  if (!t_group.discarded) return;
  throw_error(Code::InvalidUsage,
              "tuttiGroupDiscard has given up this whole group, with its outer levels: nothing of it runs. End or "
              "discard the levels that are still open, then begin a new group");
}

/// Tickets of a group are taken as one, or two groups could each hold what the other waits for; and a ticket is taken
/// and left with a stream as one, or the stream could run a later ticket before an earlier one.
std::mutex& order() {
  static auto* const kMutex = new std::mutex;  // never destroyed: threads may outlive main()
  return *kMutex;
}

/// A communicator's turn, given back whatever happens.
class Turn {
 public:
  Turn(Communicator& comm, uint64_t ticket) : comm_(&comm) { comm.await_turn(ticket); }
  Turn(Turn&& other) noexcept : comm_(std::exchange(other.comm_, nullptr)) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    if (comm_ != nullptr) comm_->end_turn();
  }

 private:
  Communicator* comm_;
};

/// One call, on this thread, which has the turn.
Status run_silently(Communicator& comm, const Call& call) {
  const FloatEnvironment environment;
  Status status;
  exec::Execution* execution = nullptr;
  try {
    execution = comm.begin({&call, 1}, status);
    if (execution != nullptr) {
      exec::run(*execution, comm.backoff());
      comm.finish(status);
    }
  } catch (const std::exception& error) {
    status = comm.broke(error.what());
    if (execution != nullptr) exec::abandon(*execution);
  }
  return status;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Logging costs a call that is not logged this one branch.
Status run_one(Communicator& comm, const Call& call) {
  if (!comm.traces()) [[likely]] {
    return run_silently(comm, call);
  }
  const auto start = std::chrono::steady_clock::now();
  Status status = run_silently(comm, call);
  comm.trace({&call, 1}, status, seconds_since(start));
  return status;
}

/// The same at once. A call that is known to be right is not checked again, and only who has the turn can know.
Status check_and_run(Communicator& comm, const Call& call) {
  const Turn turn(comm, comm.take_ticket());
  if (!comm.knows(call)) comm.check(call);
  return run_one(comm, call);
}

/// How far a group has come on one communicator.
struct Progress {
  Share& share;
  size_t next = 0;                       // work to begin
  std::optional<Turn> turn;              // of the one that runs …
  exec::Execution* execution = nullptr;  // … if any does
  std::chrono::steady_clock::time_point start{};

  bool begin_next(Status& first) {
    while (execution == nullptr && next < share.works.size()) {
      turn.emplace(*share.comm, share.tickets[next]);
      Status status;
      if (share.comm->traces()) start = std::chrono::steady_clock::now();
      execution = share.comm->begin(share.works[next++], status);
      if (share.comm->traces() && execution == nullptr) share.comm->trace(share.works[next - 1], status, 0);
      if (execution == nullptr) turn.reset();
      if (first.ok()) first = std::move(status);
    }
    return execution != nullptr;
  }

  void finish(Status& first) {
    execution = nullptr;
    Status status;
    share.comm->finish(status);
    if (share.comm->traces()) share.comm->trace(share.works[next - 1], status, seconds_since(start));
    turn.reset();
    if (first.ok()) first = std::move(status);
  }
};

/// Begins what can be begun and runs until something is done. False when there was nothing left to do.
bool run_on(std::vector<Progress>& all, std::vector<exec::Execution*>& executions, Status& first) {
  executions.clear();
  for (Progress& one : all) {
    if (one.begin_next(first)) executions.push_back(one.execution);
  }
  if (executions.empty()) return false;
  exec::run_until_one_is_done(executions, all.front().share.comm->backoff());
  for (Progress& one : all) {
    if (one.execution != nullptr && one.execution->done) one.finish(first);
  }
  return true;
}

/// What a group does on one communicator runs in order, and beside what it does on others: so one thread can be several
/// ranks, and no order among communicators is imposed on those that call them one by one.
Status run_shares(std::vector<Share>& shares) {
  const FloatEnvironment environment;
  Status first;
  std::vector<Progress> all;
  for (Share& share : shares) all.push_back({share});
  std::vector<exec::Execution*> executions;
  for (bool more = true; more;) {
    try {
      more = run_on(all, executions, first);
    } catch (const std::exception& error) {  // what is still to come fails, and takes its turn to do so
      for (Progress& one : all) {
        first = one.share.comm->broke(error.what());
        if (one.execution != nullptr) exec::abandon(*std::exchange(one.execution, nullptr));
        one.turn.reset();
      }
    }
  }
  return first;
}

/// Needs order().
void take_tickets(std::vector<Task>& tasks) {
  for (Task& task : tasks) {
    if (task.comm != nullptr) task.ticket = task.comm->take_ticket();
  }
}

/// Needs order().
void take_tickets(std::vector<Share>& shares) {
  for (Share& share : shares) {
    for (size_t i = 0; i < share.works.size(); ++i) share.tickets.push_back(share.comm->take_ticket());
  }
}

/// A group's transfers on one communicator run first, all at the same time; its collectives follow in their order.
void collect(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream) {
  refuse_if_discarded();
  auto& shares = t_group.shares;
  auto share = std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.comm == comm; });
  if (share == shares.end()) share = shares.insert(shares.end(), {comm, {}, {}});
  auto& works = share->works;
  const auto is_transfer = [](const Call& c) { return c.spec.collective == Collective::SendRecv; };
  if (!is_transfer(call)) {
    works.push_back({call});
  } else if (!works.empty() && is_transfer(works.front().front())) {
    works.front().push_back(call);
  } else {
    works.insert(works.begin(), {call});
  }
  auto& streams = t_group.streams;
  if (stream == nullptr) {
    t_group.blocks = true;
  } else if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
    streams.push_back(stream);
  }
}

/// Runs tasks side by side, for each waits for the others; throws the first failure. Where a thread is missing none of
/// them begins.
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
    const std::lock_guard lock(order());
    take_tickets(tasks);
  }
  begins.set_value(true);
  threads.clear();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// Makes a split in its turn. The new communicator is joined after it: others may use this one meanwhile.
std::shared_ptr<Communicator> split_in_turn(Communicator& comm, uint64_t ticket, int colour, int key) {
  std::optional<Part> part;
  {
    const Turn turn(comm, ticket);
    part = comm.split(colour, key);
  }
  if (!part) return nullptr;
  try {
    return Communicator::join(part->id, part->ranks, part->rank,
                              {part->groups, part->title, comm.timeouts(), &comm.failed()});
  } catch (const Error& error) {
    if (error.code() == Code::Aborted) comm.failure().throw_if_bad();
    throw;
  }
}

/// The first stream runs the group; the others wait for it, so that what follows on them comes after.
std::shared_ptr<Outcome> leave_with_streams(const std::vector<std::shared_ptr<Stream>>& streams,
                                            std::vector<Share>&& group) {
  auto outcome = std::make_shared<Outcome>();
  auto shares = std::make_shared<std::vector<Share>>(std::move(group));
  streams.front()->enqueue([shares, outcome] {
    outcome->settle(run_shares(*shares));
    return outcome->wait();
  });
  for (size_t i = 1; i < streams.size(); ++i) streams[i]->enqueue([outcome] { return outcome->wait(); });
  return outcome;
}

}  // namespace

void submit(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream) {
  if (t_depth == 0 && stream == nullptr) return check_and_run(*comm, call).throw_if_bad();
  comm->check(call);
  if (t_depth > 0) return collect(comm, call, stream);
  const std::lock_guard lock(order());
  const uint64_t ticket = comm->take_ticket();
  stream->enqueue([comm, call, ticket] {
    const Turn turn(*comm, ticket);
    return run_one(*comm, call);
  });
}

CallInfo last_call(Communicator& comm) {
  const Turn turn(comm, comm.take_ticket());
  return comm.last_call();
}

void group_start() {
  if (t_depth > 0) {
    check_own_group();
  } else {
    t_group.process = process_generation();
  }
  ++t_depth;
}

bool in_group() { return t_depth > 0; }

void group_add(std::function<void()> task) {
  refuse_if_discarded();
  t_group.tasks.push_back({nullptr, [task = std::move(task)](uint64_t) { task(); }});
}

void submit_split(const std::shared_ptr<Communicator>& comm, int colour, int key,
                  std::function<void(std::shared_ptr<Communicator>)> made) {
  if (!in_group()) return made(split_in_turn(*comm, comm->take_ticket(), colour, key));
  refuse_if_discarded();
  t_group.tasks.push_back({comm, [comm, colour, key, made = std::move(made)](uint64_t ticket) {
                             made(split_in_turn(*comm, ticket, colour, key));
                           }});
}

void group_discard() {
  if (t_depth == 0) throw_error(Code::InvalidUsage, "tuttiGroupDiscard without tuttiGroupStart");
  check_own_group();
  --t_depth;
  t_group = {.process = t_group.process, .discarded = t_depth > 0};
}

void group_end() {
  if (t_depth == 0) throw_error(Code::InvalidUsage, "tuttiGroupEnd without tuttiGroupStart");
  check_own_group();
  if (--t_depth > 0) return;
  Group group = std::exchange(t_group, {});
  if (group.discarded) {
    throw_error(Code::InvalidUsage, "nothing of this group has run: tuttiGroupDiscard gave it up at an inner level");
  }
  run_tasks(group.tasks);
  if (group.shares.empty()) return;
  std::unique_lock lock(order());
  take_tickets(group.shares);
  if (group.streams.empty()) {
    lock.unlock();
    return run_shares(group.shares).throw_if_bad();
  }
  const auto outcome = leave_with_streams(group.streams, std::move(group.shares));
  lock.unlock();
  if (group.blocks) outcome->wait().throw_if_bad();
}

}  // namespace tutti::comm
