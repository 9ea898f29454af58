// The C interface's making and ending of communicators: at once, or in the background (tuttiConfig_t::blocking = 0).
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/printable.hpp"
#include "capi/handles.hpp"
#include "capi/leaving.hpp"
#include "comm/join.hpp"
#include "comm/placement.hpp"
#include "comm/submit.hpp"

namespace tutti::capi {
namespace {

using State = tuttiComm::State;

struct Configured {
  comm::JoinOptions options;
  bool blocking = true;
};

/// Throws Error(InvalidArgument).
double checked_seconds(const char* what, double seconds) {
  if (!(seconds >= 0 && seconds <= 1e9)) {
    throw_error(Code::InvalidArgument, "{} is {}: it is a number of seconds, or 0 for the default", what, seconds);
  }
  return seconds;
}

/// A text of the configuration, which messages will hold. Throws Error(InvalidArgument).
std::string checked(const char* field, const char* text) {
  if (text == nullptr) return "";
  const size_t bytes = std::strlen(text);
  if (bytes > TUTTI_MAX_NAME) {
    throw_error(Code::InvalidArgument, "config->{} has {} bytes, {} are the most", field, bytes, TUTTI_MAX_NAME);
  }
  if (printable(text) != text) {
    throw_error(Code::InvalidArgument, "config->{} has characters that are not printable: {}", field, printable(text));
  }
  return text;
}

/// Fields that the caller's structure is too short to have keep their defaults. Throws Error(InvalidArgument).
Configured configured(const tuttiConfig_t* config) {
  Configured result;
  result.options.processors = comm::current_processors();  // of this thread; another one may join
  if (config == nullptr) return result;
  if (config->size < sizeof config->size || config->size > 4096) {
    throw_error(Code::InvalidArgument, "config->size is {}: begin with TUTTI_CONFIG_INITIALIZER", config->size);
  }
  tuttiConfig_t known = TUTTI_CONFIG_INITIALIZER;
  std::memcpy(&known, config, std::min(config->size, sizeof known));
  result.blocking = known.blocking != 0;
  result.options.timeouts.call = checked_seconds("config->timeout", known.timeout);
  result.options.timeouts.init = checked_seconds("config->init_timeout", known.init_timeout);
  result.options.timeouts.call_setting = checked("timeout_setting", known.timeout_setting);
  result.options.title = checked("name", known.name);
  return result;
}

comm::UniqueId id_from(const tuttiUniqueId& raw) {
  comm::UniqueId::Bytes bytes;
  std::memcpy(bytes.data(), raw.bytes, bytes.size());
  return comm::UniqueId::from_bytes(bytes);
}

void check_place(int ranks, int rank) {
  if (ranks < 1) throw_error(Code::InvalidArgument, "a communicator of {} ranks: at least 1 is needed", ranks);
  if (ranks > comm::kMaxRanks)
    throw_error(Code::InvalidArgument, "a communicator of {} ranks: {} are the most", ranks, comm::kMaxRanks);
  if (rank < 0 || rank >= ranks) {
    throw_error(Code::InvalidArgument, "rank {} of {}: ranks are 0 to {}", rank, ranks, ranks - 1);
  }
}

/// What a step in the background has come to. The handle may be Leaving by then: then it stays so.
void settle(tuttiComm_t handle, State from, State to, Status outcome) {
  const std::lock_guard lock(handle->mutex);
  handle->outcome = std::move(outcome);
  if (handle->state.load(std::memory_order_relaxed) == from) handle->state.store(to, std::memory_order_release);
}

Status status_of(const std::function<void()>& body) {
  try {
    body();
    return {};
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {
    return {Code::OutOfMemory, error.what()};
  }
}

/// On a thread of its own.
void join_in_background(tuttiComm_t handle, const comm::UniqueId& id, int ranks, int rank, comm::JoinOptions options) {
  options.terms.stop = &handle->stop;
  std::shared_ptr<comm::Communicator> made;
  Status outcome = status_of([&] { made = comm::Communicator::join(id, ranks, rank, std::move(options)); });
  if (outcome.code == Code::Aborted) outcome.text = fmt::format("rank {}: aborted while it was being made", rank);
  {
    const std::lock_guard lock(handle->mutex);
    handle->comm = std::move(made);
  }
  settle(handle, State::Joining, outcome.ok() ? State::Live : State::NotMade, std::move(outcome));
}

/// Takes the handle from its users, and what works on it in the background. Returns what it was before; throws
/// Error(InvalidUsage) where another thread has taken it.
State take(tuttiComm_t handle, std::thread& work) {
  check_handle(handle);
  const std::lock_guard lock(handle->mutex);
  const State before = handle->state.load(std::memory_order_relaxed);
  if (before == State::Leaving) throw Error(Code::InvalidUsage, "another thread destroys the communicator");
  if (before == State::Destroyed) throw Error(Code::InvalidUsage, "the communicator was destroyed");
  handle->state.store(State::Leaving, std::memory_order_release);
  work = std::move(handle->work);
  return before;
}

/// Its first failure, or that of what is done in the background.
Status failure_of(tuttiComm_t handle) {
  const auto communicator = communicator_until_gone(handle);
  const std::lock_guard lock(handle->mutex);
  const State state = handle->state.load(std::memory_order_relaxed);
  if (state == State::Joining || state == State::Finalizing) return {Code::InProgress, ""};
  Status failure = handle->outcome;
  if (failure.ok() && communicator != nullptr) failure = communicator->failure();
  if (!failure.ok() && communicator != nullptr) communicator->note_heard();
  return failure;
}

}  // namespace
}  // namespace tutti::capi

using namespace tutti;        // NOLINT: this file is the border
using namespace tutti::capi;  // NOLINT

tuttiResult_t tuttiCommInitRank(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank) {
  return tuttiCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t* comm, int ranks, tuttiUniqueId id, int rank,
                                      const tuttiConfig_t* config) {
  bool blocking = true;
  const tuttiResult_t result = guarded([&] {
    required(comm, "comm") = nullptr;
    check_place(ranks, rank);
    const auto with = configured(config);
    blocking = with.blocking;
    if (blocking) {
      const auto join = [=, parsed = id_from(id), options = with.options] {
        *comm = make_handle(comm::Communicator::join(parsed, ranks, rank, options));
      };
      comm::in_group() ? comm::group_add(join) : join();
      return;
    }
    const comm::UniqueId parsed = id_from(id);
    const tuttiComm_t made = make_handle(std::shared_ptr<comm::Communicator>());
    made->blocking = false;
    made->work = std::thread([=, options = with.options] { join_in_background(made, parsed, ranks, rank, options); });
    *comm = made;
  });
  return result == tuttiSuccess && !blocking ? tuttiInProgress : result;
}

tuttiResult_t tuttiCommInitAll(tuttiComm_t* comms, int ranks) {
  return guarded([&] {
    required(comms, "comms");
    check_place(ranks, 0);
    const comm::UniqueId id = comm::create_unique_id();
    std::fill_n(comms, ranks, nullptr);
    comm::group_start();
    try {
      comm::JoinOptions options;
      options.processors = comm::current_processors();
      for (int rank = 0; rank < ranks; ++rank) {
        comm::group_add([=] { comms[rank] = make_handle(comm::Communicator::join(id, ranks, rank, options)); });
      }
    } catch (...) {
      comm::group_discard();
      throw;
    }
    try {
      comm::group_end();
    } catch (...) {  // those who did join are not left behind
      for (int rank = 0; rank < ranks; ++rank) {
        if (comms[rank] == nullptr) continue;
        comms[rank]->comm->abort();
        tuttiCommDestroy(std::exchange(comms[rank], nullptr));
      }
      throw;
    }
  });
}

tuttiResult_t tuttiCommSetTimeout(tuttiComm_t comm, double seconds) {
  return guarded([&] { communicator_of(comm)->set_timeout(checked_seconds("seconds", seconds)); });
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm) {
  bool blocking = true;
  const tuttiResult_t result = guarded([&] {
    const auto communicator = communicator_of(comm);
    comm::check_not_in_group(*communicator, "tuttiCommFinalize");
    const auto finalize = [comm, communicator] {
      Status status = leave(*communicator);
      settle(comm, State::Finalizing, State::Finalized, status);
      return status;
    };
    std::thread joined;  // it has made the communicator
    {
      const std::lock_guard lock(comm->mutex);
      auto expected = State::Live;
      if (!comm->state.compare_exchange_strong(expected, State::Finalizing)) {
        throw Error(Code::InvalidUsage, "another thread finalizes or destroys the communicator");
      }
      blocking = comm->blocking;
      joined = std::move(comm->work);
      if (!blocking) comm->work = std::thread(finalize);
    }
    if (joined.joinable()) joined.join();
    if (!blocking) return;
    const Status status = finalize();
    if (!status.ok()) communicator->note_heard();
    status.throw_if_bad();
  });
  return result == tuttiSuccess && !blocking ? tuttiInProgress : result;
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm) {
  return guarded([&] {
    if (const auto known = communicator_until_gone(comm)) comm::check_not_in_group(*known, "tuttiCommDestroy");
    std::thread work;
    const State before = take(comm, work);
    if (before == State::Joining) comm->stop.store(1, std::memory_order_release);
    if (work.joinable()) work.join();
    Status status;
    if (before == State::Finalizing || before == State::Finalized) {
      if (!comm->comm->heard()) status = comm->outcome;  // of what finalize did in the background
    } else if (comm->comm != nullptr) {
      status = leave(*comm->comm);
    }
    retire(comm);
    status.throw_if_bad();
  });
}

void tuttiCommRelease(tuttiComm_t comm) {
  bool heard = false;
  guarded([&] {
    if (const auto known = communicator_until_gone(comm)) heard = known->heard();
  });
  if (tuttiCommDestroy(comm) != tuttiSuccess && !heard) log_error("{}", last_error());
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm) {
  return guarded([&] {
    const auto communicator = communicator_until_gone(comm);
    comm->stop.store(1, std::memory_order_release);
    if (communicator != nullptr) {
      communicator->note_heard();
      communicator->abort();
    }
  });
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t* result) {
  return guarded([&] {
    required(result, "result");
    *result = static_cast<tuttiResult_t>(failure_of(comm).code);
  });
}

const char* tuttiCommGetErrorText(tuttiComm_t comm) {
  const char* text = "";
  const tuttiResult_t result = guarded([&] {
    const Status failure = failure_of(comm);
    const std::lock_guard lock(comm->mutex);
    if (comm->error_text.empty()) comm->error_text = failure.text;  // once it has words, they stay
    text = comm->error_text.empty() ? "" : comm->error_text.c_str();
  });
  return result == tuttiSuccess ? text : last_error();
}
