#include "control/revocation.hpp"

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <random>
#include <utility>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/socket.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_client.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/trunks.hpp"

namespace tutti::control {
namespace {

constexpr std::array kToldWithin = {0.5, 5.0};  // the first and the second time
constexpr double kRelayedWithin = 0.4;          // for the rendezvous server to relay a revocation
constexpr size_t kAll = SIZE_MAX;

/// False: it may hear it later.
bool tell_one(const ToTell& to, const Member& me, const Key& key, const std::string& text, double seconds) {
  const WaitLimit limit{Deadline::in(seconds), nullptr};
  bool is_reached = false;
  try {
    const Fd fd = dial(addresses_of(to.process, me), to.process.port, key, limit);
    is_reached = true;
    call<Accepted>(fd.get(), Fail{Code::Revoked, text}, limit);
    return true;
  } catch (const Error& error) {
    log_debug("{} was not told of the revocation: {}", describe_process(to.process), error.what());
    const bool is_gone = !is_reached && error.code() == Code::PeerFailed;  // nothing listens there
    return is_gone || is_rejection(error.code());                          // it has left: it knows the key no more
  } catch (const std::exception&) {
    return false;  // no memory, for example
  }
}

}  // namespace

std::vector<ToTell> processes_to_tell(const std::vector<Member>& members, const Member& me) {
  std::vector<ToTell> processes;
  std::map<std::pair<std::string, uint64_t>, size_t> known;  // place in `processes`, by host and nonce
  for (size_t r = 0; r < members.size(); ++r) {
    if (same_process(members[r], me)) continue;
    const auto [found, is_new] = known.emplace(std::pair(members[r].host, members[r].nonce), processes.size());
    if (is_new) processes.push_back({members[r], {}});
    processes[found->second].ranks.push_back(static_cast<Rank>(r));
  }
  std::shuffle(processes.begin(), processes.end(), std::mt19937_64(me.nonce));
  return processes;
}

void tell_of_revocation(std::vector<ToTell> processes, const Member& me, const Key& key, const std::string& text,
                        const std::function<bool(const ToTell&)>& needless) {
  for (const double seconds : kToldWithin) {
    std::erase_if(processes, [&](const ToTell& to) { return needless(to) || tell_one(to, me, key, text, seconds); });
  }
  for (const ToTell& to : processes) {
    if (!needless(to)) log_warn("{} could not be told that its communicator is revoked", list_ranks(to.ranks));
  }
}

// ---- the client's part, on the control thread

/// A peer says so, since it cannot rely on the rendezvous server.
void ControlClient::hear_revocation(const std::string& text) {
  if (!set_failure(Code::Revoked, text)) return;
  if (channel_) channel_->send(pack(Fail{Code::Revoked, text}));  // if it is reached from here
  revocation_ = text;
  pass_on_revocation(channel_ ? kRumours : kAll);  // who revoked tells all, and perhaps the server does
}

/// This rank revokes. The rendezvous server passes it on if it can, which its echo tells.
void ControlClient::begin_revocation(const std::string& text) {
  revocation_ = text;
  if (!channel_) return pass_on_revocation(kAll);
  control_.loop().at(Deadline::in(kRelayedWithin), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self && !self->closed_ && !self->revocation_is_relayed_) self->pass_on_revocation(kAll);
  });
}

/// To the other ranks of this process, and on a thread, since that waits for them, to other processes, at random and at
/// most so many: one rank of each process does it.
void ControlClient::pass_on_revocation(size_t most) {
  bool is_passed_on = std::exchange(passed_on_, true) || members_.empty();
  for (const auto& client : control_.clients(name_)) {
    client->set_failure(Code::Revoked, revocation_);
    is_passed_on = is_passed_on || (client.get() != this && client->passed_on_);
  }
  if (is_passed_on) return note_known_failure();
  const bool server_hears = channel_ != nullptr;
  const auto needless = [self = shared_from_this(), server_hears](const ToTell& to) {
    if (server_hears && same_process(to.process, self->server_)) return true;
    const std::lock_guard lock(self->mutex_);
    return std::all_of(to.ranks.begin(), to.ranks.end(), [&](Rank r) {
      return self->is_lost(r) || self->membership_[self->index(r)] == Membership::Left;
    });
  };
  try {
    passes_on_ = true;
    start_thread([self = shared_from_this(), needless, most, text = revocation_] {
      const Member& me = self->control_.local_member();
      std::vector<ToTell> processes = processes_to_tell(self->members_, me);
      if (processes.size() > most) processes.erase(processes.begin() + static_cast<ptrdiff_t>(most), processes.end());
      tell_of_revocation(std::move(processes), me, self->key_, text, needless);
      self->control_.loop().post([self] {
        self->passes_on_ = false;
        self->note_known_to_siblings();
        if (self->closes_then_) self->close();
      });
    }).detach();  // the process may end meanwhile
  } catch (const std::exception& error) {
    passes_on_ = false;
    log_warn("rank {}: other ranks may not hear that the communicator is revoked: {}", rank_, error.what());
    note_known_to_siblings();
  }
}

/// It is as well known as it can be, which ranks wait for before their process ends.
void ControlClient::note_known_to_siblings() {
  note_known_failure();
  for (const auto& client : control_.clients(name_)) client->note_known_failure();
}

/// Closes it, once a revocation has been passed on.
void ControlClient::finish() {
  closes_then_ = true;
  if (!passes_on_) close();
}

}  // namespace tutti::control
