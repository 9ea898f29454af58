#include "comm/submit.hpp"

#include <algorithm>
#include <exception>
#include <latch>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/float_environment.hpp"
#include "base/format.hpp"
#include "comm/stream.hpp"

namespace tutti::comm {
namespace {

/// All that a group does on one communicator, in order.
struct Share {
  std::shared_ptr<Communicator> comm;
  std::vector<std::vector<Call>> works;
  std::vector<uint64_t> tickets;
};

struct Group {
  int depth = 0;
  std::vector<Share> shares;
  std::vector<std::shared_ptr<Stream>> streams;
  std::vector<std::function<void()>> tasks;
};
thread_local Group t_group;

/// One call, on this thread.
Status run_one(Communicator& comm, const Call& call, uint64_t ticket) {
  const FloatEnvironment environment;
  comm.await_turn(ticket);
  Status status;
  exec::Execution* execution = comm.begin({&call, 1}, status);
  if (execution != nullptr) {
    exec::run({&execution, 1}, comm.patience());
    status = comm.finish();
  }
  comm.end_turn();
  return status;
}

/// The k-th works of all communicators run side by side, so one thread can be several ranks.
Status run_side_by_side(std::vector<Share>& shares, size_t k) {
  std::vector<exec::Execution*> executions;
  std::vector<Communicator*> running, turns;
  Status first;
  for (Share& share : shares) {
    if (k >= share.works.size()) continue;
    share.comm->await_turn(share.tickets[k]);
    turns.push_back(share.comm.get());
    Status status;
    exec::Execution* execution = share.comm->begin(share.works[k], status);
    if (execution != nullptr) {
      executions.push_back(execution);
      running.push_back(share.comm.get());
    }
    if (first.ok()) first = std::move(status);
  }
  if (!executions.empty()) exec::run(executions, running.front()->patience());
  for (Communicator* comm : running) {
    Status status = comm->finish();
    if (first.ok()) first = std::move(status);
  }
  for (Communicator* comm : turns) comm->end_turn();
  return first;
}

Status run_shares(std::vector<Share>& shares) {
  const FloatEnvironment environment;
  Status first;
  size_t most = 0;
  for (const Share& share : shares) most = std::max(most, share.works.size());
  for (size_t k = 0; k < most; ++k) {
    Status status = run_side_by_side(shares, k);
    if (first.ok()) first = std::move(status);
  }
  return first;
}

/// Tickets of a group are taken as one, or two groups could each hold what the other waits for.
void take_tickets(std::vector<Share>& shares) {
  static std::mutex* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  for (Share& share : shares) {
    for (size_t i = 0; i < share.works.size(); ++i) share.tickets.push_back(share.comm->take_ticket());
  }
}

void collect(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream) {
  auto& shares = t_group.shares;
  auto share = std::find_if(shares.begin(), shares.end(), [&](const Share& s) { return s.comm == comm; });
  if (share == shares.end()) share = shares.insert(shares.end(), {comm, {}, {}});
  const auto is_transfer = [](const Call& c) { return c.spec.collective == Collective::SendRecv; };
  const bool joins = is_transfer(call) && !share->works.empty() && is_transfer(share->works.back().front());
  if (!joins) share->works.emplace_back();
  share->works.back().push_back(call);
  auto& streams = t_group.streams;
  const bool known = std::find(streams.begin(), streams.end(), stream) != streams.end();
  if (stream != nullptr && !known) streams.push_back(stream);
}

/// Runs tasks side by side; throws the first failure.
void run_tasks(std::vector<std::function<void()>> tasks) {
  std::vector<std::exception_ptr> errors(tasks.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < tasks.size(); ++i) {
    threads.emplace_back([&, i] {
      try {
        tasks[i]();
      } catch (...) {
        errors[i] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// The first stream runs the group; the others wait for it, so that what follows on them comes after.
void leave_with_streams(std::vector<Share> shares, const std::vector<std::shared_ptr<Stream>>& streams) {
  auto done = std::make_shared<std::latch>(1);
  auto owned = std::make_shared<std::vector<Share>>(std::move(shares));
  streams.front()->enqueue([owned, done] {
    Status status = run_shares(*owned);
    done->count_down();
    return status;
  });
  for (size_t i = 1; i < streams.size(); ++i) {
    streams[i]->enqueue([done] {
      done->wait();
      return Status{};
    });
  }
}

}  // namespace

void submit(const std::shared_ptr<Communicator>& comm, const Call& call, const std::shared_ptr<Stream>& stream) {
  comm->check(call);
  if (t_group.depth > 0) return collect(comm, call, stream);
  const uint64_t ticket = comm->take_ticket();
  if (stream == nullptr) return run_one(*comm, call, ticket).throw_if_bad();
  stream->enqueue([comm, call, ticket] { return run_one(*comm, call, ticket); });
}

void group_start() { ++t_group.depth; }

bool in_group() { return t_group.depth > 0; }

void group_add(std::function<void()> task) { t_group.tasks.push_back(std::move(task)); }

void group_end() {
  if (t_group.depth == 0) throw_error(Code::InvalidUsage, "tuttiGroupEnd without tuttiGroupStart");
  if (--t_group.depth > 0) return;
  Group group = std::exchange(t_group, {});
  run_tasks(std::move(group.tasks));
  if (group.shares.empty()) return;
  take_tickets(group.shares);
  if (group.streams.empty()) return run_shares(group.shares).throw_if_bad();
  leave_with_streams(std::move(group.shares), group.streams);
}

}  // namespace tutti::comm
