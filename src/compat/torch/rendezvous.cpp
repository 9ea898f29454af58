#include "compat/torch/rendezvous.hpp"

#include <cstring>
#include <thread>
#include <vector>

#include "compat/torch/python.hpp"
#include "compat/torch/work.hpp"
#include "tutti/check.hpp"

namespace tutti_torch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// An id in the store begins with this, the text of an error with anything else.
constexpr uint8_t kId = 1;

/// Calls `ready` until it is true, and in between lets signals and `check` end the waiting.
template <class Ready>
bool poll_until(Clock::time_point deadline, const std::function<void()>& check, const Ready& ready) {
  for (milliseconds pause{1}; !ready(); pause = std::min(2 * pause, milliseconds{20})) {
    if (Clock::now() >= deadline) return false;
    check_signals();
    if (check) check();
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::vector<uint8_t> made_id() {
  tuttiUniqueId id;
  std::vector<uint8_t> bytes{kId};
  if (tuttiGetUniqueId(&id) == tuttiSuccess) {
    bytes.insert(bytes.end(), id.bytes, id.bytes + sizeof id.bytes);
  } else {
    const std::string text = tuttiGetLastError();
    bytes.assign(text.begin(), text.end());
  }
  return bytes;
}

std::vector<uint8_t> exchanged_id(c10d::Store& store, const Joining& joining, Clock::time_point deadline) {
  if (joining.rank == 0) {
    auto bytes = made_id();
    store.set(joining.key, bytes);
    return bytes;
  }
  if (!poll_until(deadline, joining.check, [&] { return store.check({joining.key}); })) {
    throw tutti::Error(tutti::Code::Timeout,
                       c10::str("rank ", joining.rank, ": joining ", joining.name, " of ", joining.ranks,
                                " ranks: rank 0 did not open the rendezvous within ", seconds_of(joining.timeout),
                                " s: did it start, and has it the same store?"));
  }
  return store.get(joining.key);
}

tuttiResult_t state_of(tuttiComm_t comm) {
  tuttiResult_t state = tuttiSuccess;
  tutti::check(tuttiCommGetAsyncError(comm, &state));
  return state;
}

}  // namespace

int64_t round_of(c10d::Store& store, const std::string& key, int ranks) { return (store.add(key, 1) - 1) / ranks; }

tuttiComm_t join(c10d::Store& store, const Joining& joining) {
  const auto deadline = Clock::now() + joining.timeout;
  const auto bytes = exchanged_id(store, joining, deadline);
  tuttiUniqueId id;
  if (bytes.size() != 1 + sizeof id.bytes || bytes[0] != kId) {
    throw tutti::Error(tutti::Code::SystemError,
                       c10::str("rank ", joining.rank, ": joining ", joining.name,
                                ": rank 0 could not open the rendezvous: ", std::string(bytes.begin(), bytes.end())));
  }
  std::memcpy(id.bytes, &bytes[1], sizeof id.bytes);

  const std::string name = joining.name.substr(0, TUTTI_MAX_NAME);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.name = name.c_str();
  config.timeout = config.init_timeout = seconds_of(joining.timeout);
  config.timeout_setting = "init_process_group(timeout=...) or the call's own timeout";
  tuttiComm_t comm = nullptr;
  const tuttiResult_t begun = tuttiCommInitRankConfig(&comm, joining.ranks, id, joining.rank, &config);
  if (begun != tuttiInProgress) tutti::check(begun);
  try {
    const auto never = Clock::time_point::max();  // the library keeps the time
    poll_until(never, joining.check, [&] { return state_of(comm) != tuttiInProgress; });
  } catch (...) {
    tuttiCommAbort(comm);
    tuttiCommDestroy(comm);
    throw;
  }
  if (const tuttiResult_t state = state_of(comm); state != tuttiSuccess) {
    const tutti::Error error(static_cast<tutti::Code>(state), tuttiCommGetErrorText(comm));
    tuttiCommDestroy(comm);
    throw error;
  }
  return comm;
}

void leave(tuttiComm_t comm) {
  tuttiResult_t result = tuttiCommFinalize(comm);
  try {
    poll_until(Clock::time_point::max(), {}, [&] {
      if (result == tuttiInProgress) result = state_of(comm);
      return result != tuttiInProgress;
    });
  } catch (...) {
    tuttiCommAbort(comm);
    tuttiCommDestroy(comm);
    throw;
  }
  const tutti::Error error(static_cast<tutti::Code>(result), tuttiCommGetErrorText(comm));
  tuttiCommDestroy(comm);
  if (result != tuttiSuccess) throw error;
}

}  // namespace tutti_torch
