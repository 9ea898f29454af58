#include "compat/torch/rendezvous.hpp"

#include <algorithm>
#include <cstring>
#include <random>
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

tutti::Error not_opened(const Joining& joining, const char* then = "did it start, and has it the same store?") {
  return {tutti::Code::Timeout,
          c10::str("rank ", joining.rank, ": joining ", joining.name, " of ", joining.ranks,
                   " ranks: rank 0 did not open the rendezvous within ", seconds_of(joining.timeout), " s: ", then)};
}

std::vector<uint8_t> exchanged_id(c10d::Store& store, const Joining& joining, Clock::time_point deadline) {
  if (joining.rank == 0) {
    auto bytes = made_id();
    store.set(joining.key, bytes);
    return bytes;
  }
  if (!poll_until(deadline, joining.check, [&] { return store.check({joining.key}); })) {
    throw not_opened(joining);
  }
  return store.get(joining.key);
}

void check_is_id(const std::vector<uint8_t>& bytes, const Joining& joining) {
  if (bytes.size() == 1 + sizeof(tuttiUniqueId) && bytes[0] == kId) return;
  throw tutti::Error(tutti::Code::SystemError,
                     c10::str("rank ", joining.rank, ": joining ", joining.name,
                              ": rank 0 could not open the rendezvous: ", std::string(bytes.begin(), bytes.end())));
}

tuttiResult_t state_of(tuttiComm_t comm) {
  tuttiResult_t state = tuttiSuccess;
  tutti::check(tuttiCommGetAsyncError(comm, &state));
  return state;
}

tuttiComm_t connect(const std::vector<uint8_t>& bytes, const Joining& joining) {
  check_is_id(bytes, joining);
  tuttiUniqueId id;
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

// ---- a group, in a store in which earlier groups may have left anything

constexpr size_t kTokenDigits = 32;

std::string made_token() {
  std::random_device random;
  std::string token;
  while (token.size() < kTokenDigits) token += "0123456789abcdef"[random() % 16];
  return token;
}

std::string key_in(const std::string& token, const char* what, int64_t number) {
  return c10::str("tutti/", token, "/", what, " ", number);
}

/// Rank 0's part: answers each rank that asks, once.
class Admission {
 public:
  Admission(c10d::Store& store, std::string token, int ranks)
      : store_(store), token_(std::move(token)), has_come_(static_cast<size_t>(ranks)), missing_(ranks - 1) {}

  void answer() {
    for (; missing_ > 0 && store_.check({key_in(token_, "asks", next_)}); ++next_) {
      const auto asking = store_.get(key_in(token_, "asks", next_));
      int32_t rank = 0;
      if (asking.size() != sizeof rank) continue;
      std::memcpy(&rank, asking.data(), sizeof rank);
      if (rank <= 0 || static_cast<size_t>(rank) >= has_come_.size() || has_come_[static_cast<size_t>(rank)]) continue;
      has_come_[static_cast<size_t>(rank)] = true;
      --missing_;
      store_.set(key_in(token_, "answer", next_), std::vector<uint8_t>{1});
    }
  }

 private:
  c10d::Store& store_;
  const std::string token_;
  std::vector<bool> has_come_;
  int missing_;
  int64_t next_ = 1;
};

/// Another rank's part: what rank 0 has opened, once a living rank 0 has answered.
std::vector<uint8_t> answered(c10d::Store& store, const Joining& joining) {
  std::vector<uint8_t> opened;
  std::string answer;
  const auto is_answered = [&] {
    if (opened.empty() && !store.check({joining.key})) return false;
    if (auto now = store.get(joining.key); now != opened) {
      opened = std::move(now);
      const std::string token(opened.begin(), opened.begin() + std::min(opened.size(), kTokenDigits));
      check_is_id({opened.begin() + token.size(), opened.end()}, joining);
      const int64_t number = store.add(c10::str("tutti/", token, "/asking"), 1);
      std::vector<uint8_t> rank(sizeof(int32_t));
      const int32_t mine = joining.rank;
      std::memcpy(rank.data(), &mine, sizeof mine);
      store.set(key_in(token, "asks", number), rank);
      answer = key_in(token, "answer", number);
    }
    return store.check({answer});
  };
  if (!poll_until(Clock::now() + joining.timeout, joining.check, is_answered)) {
    if (opened.empty()) throw not_opened(joining);
    throw not_opened(joining, "one that did so before has ended, or does not answer. Did rank 0 start again?");
  }
  return opened;
}

}  // namespace

tuttiComm_t join(c10d::Store& store, const Joining& joining) {
  return connect(exchanged_id(store, joining, Clock::now() + joining.timeout), joining);
}

Joined join_group(c10d::Store& store, const Joining& joining) {
  if (joining.rank != 0) {
    const auto opened = answered(store, joining);
    const auto id = opened.begin() + kTokenDigits;
    return {connect({id, opened.end()}, joining), {opened.begin(), id}};
  }
  const std::string token = made_token();
  const auto id = made_id();
  std::vector<uint8_t> opened(token.begin(), token.end());
  opened.insert(opened.end(), id.begin(), id.end());
  store.set(joining.key, opened);
  Admission admission(store, token, joining.ranks);
  Joining answering = joining;
  answering.check = [&] {
    if (joining.check) joining.check();
    admission.answer();
  };
  return {connect(id, answering), token};
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
