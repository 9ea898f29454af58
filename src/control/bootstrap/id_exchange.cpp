// How the ranks of a launch get one unique id: rank 0 serves it until all ranks have it, and the others fetch it.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/socket.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/bootstrap/launch.hpp"
#include "control/bootstrap/rendezvous_address.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/host.hpp"
#include "control/messages.hpp"

namespace tutti::control {
namespace {

constexpr double kWithdrawSeconds = 2;  // for the others to receive the reason why a rank cannot continue
constexpr int kRetryMs = 20;            // rank 0 may start late, and there is nothing of it to wait on

/// The secret from which the key is derived.
std::string secret_of(const Launch& launch, Deadline deadline) {
  if (!launch.store) return launch.secret;
  try {
    return secret_from_store(*launch.store, "tutti/" + public_name(derive_key("tutti store " + launch.job)), deadline);
  } catch (const Error& error) {
    throw_error(error.code(),
                "rank {} of {} ({}): {}. The ranks run on several hosts and need a secret in common: let torchrun keep "
                "its store, or set TUTTI_KEY to the same secret on all ranks; TUTTI_INSECURE_KEY=1 accepts a key that "
                "can be guessed",
                launch.rank, launch.size, launch.launcher, error.what());
  }
}

/// A possible reason why ranks do not find each other.
std::string possible_reason(const Launch& launch) {
  if (!launch.job_is_parent) return "";
  return ". TUTTI_JOB is not set, so only processes with the same parent find each other: set it to the same new word "
         "on all ranks (on several hosts also TUTTI_ROOT_ADDR and TUTTI_KEY), or start them with tutti run";
}

/// Serves the id, or the reason why there is none, on the control thread.
class IdServer final : public ConnectionHandler {
 public:
  IdServer(const RendezvousAddress& address, Rank ranks)
      : address_(address), answered_(static_cast<size_t>(ranks), false) {
    answered_[0] = true;
  }
  const Key& key() const override { return address_.key; }

  /// The first reason to refuse is kept.
  void set_id(const std::string& hex) { hex_ = hex; }
  void refuse(Refused refusal) {
    const std::lock_guard lock(mutex_);
    if (!refusal_) refusal_ = std::move(refusal);
    changed_.notify_all();
  }
  std::optional<Refused> refusal() {
    const std::lock_guard lock(mutex_);
    return refusal_;
  }

  void on_connection(Fd& fd, std::string_view first) override {
    if (address_.one_host && peer_user(fd.get()) != static_cast<int64_t>(geteuid())) {
      throw_error(Code::InvalidArgument, "rank 0 belongs to another user");
    }
    if (kind_of(first) == Kind::Withdraw) {
      auto withdrawal = unpack<Withdraw>(first);
      check_rank(withdrawal.ranks, withdrawal.rank);
      refuse({withdrawal.code, std::move(withdrawal.text)});
      return answer(fd, withdrawal.rank, pack(Accepted{}));
    }
    const auto fetch = unpack<Fetch>(first);
    check_rank(fetch.ranks, fetch.rank);
    const auto refused = refusal();
    answer(fd, fetch.rank, refused ? pack(*refused) : pack(IdReply{hex_}), !refused);
  }

  /// Waits until all ranks have been answered, or one has withdrawn.
  void wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(), [this] { return refusal_ || all_answered(); });
  }
  void wait_for_all(Deadline deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(), [this] { return all_answered(); });
  }
  /// How many ranks have fetched the id.
  size_t served() {
    const std::lock_guard lock(mutex_);
    return served_.size();
  }
  std::vector<Rank> missing() {
    const std::lock_guard lock(mutex_);
    std::vector<Rank> ranks;
    for (size_t r = 0; r < answered_.size(); ++r) {
      if (!answered_[r]) ranks.push_back(static_cast<Rank>(r));
    }
    return ranks;
  }

 private:
  bool all_answered() const {
    return std::all_of(answered_.begin(), answered_.end(), [](bool s) { return s; });
  }
  void check_rank(Rank ranks, Rank rank) const {
    const auto expected = static_cast<Rank>(answered_.size());
    if (ranks == expected && rank >= 0 && rank < ranks) return;
    throw_error(Code::InvalidArgument, "rank {} of {} asked for the unique id; rank 0 was launched as one of {}", rank,
                ranks, expected);
  }
  void answer(const Fd& fd, Rank rank, const std::string& bytes, bool serves_id = false) {
    if (send_now(fd.get(), bytes) != static_cast<ptrdiff_t>(bytes.size())) return;
    const std::lock_guard lock(mutex_);
    answered_[static_cast<size_t>(rank)] = true;
    if (serves_id) served_.insert(rank);
    changed_.notify_all();
  }

  const RendezvousAddress address_;
  std::string hex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> answered_;
  std::set<Rank> served_;
  std::optional<Refused> refusal_;
};

/// The server is open while this object lives.
class OpenIdServer {
 public:
  OpenIdServer(const RendezvousAddress& address, std::shared_ptr<IdServer> id_server)
      : key_(address.key), listener_(std::make_shared<RendezvousListener>(address)) {
    control_.add_handler(std::move(id_server));
    control_.loop().post([&control = control_, listener = listener_] { control.acceptor().open(listener->fd()); });
  }
  ~OpenIdServer() {
    control_.loop().post(
        [&control = control_, listener = std::move(listener_)] { control.acceptor().close(listener->fd()); });
    control_.remove_handler(key_);
  }
  OpenIdServer(const OpenIdServer&) = delete;
  OpenIdServer& operator=(const OpenIdServer&) = delete;

 private:
  ControlThread& control_ = ControlThread::get();
  const Key key_;
  std::shared_ptr<RendezvousListener> listener_;
};

/// Rank 0 cannot continue: sends the reason to each rank that asks.
void refuse_all(const Launch& launch, const RendezvousAddress& address, const Error& why) {
  if (launch.size == 1) return;
  try {
    const auto id_server = std::make_shared<IdServer>(address, launch.size);
    id_server->refuse({why.code(), describe_withdrawal(0, why)});
    const OpenIdServer open(address, id_server);
    id_server->wait_for_all(Deadline::in(kWithdrawSeconds));
  } catch (const Error&) {  // then they wait until their own deadline
  }
}

/// Ranks on other hosts cannot reach addresses of the loopback interface.
void check_reachable(const RendezvousAddress& address) {
  const ControlThread& control = ControlThread::get();
  control.check_settings();
  const auto reaches_only_itself = [](const std::vector<Address>& addresses) {
    return std::all_of(addresses.begin(), addresses.end(), [](const Address& a) { return a.is_loopback(); });
  };
  if (address.one_host || !reaches_only_itself(control.local_member().addresses) ||
      reaches_only_itself(resolve(address.root)))
    return;
  throw_error(Code::InvalidArgument,
              "rank 0 offers only its loopback address, which ranks on other hosts cannot reach: set "
              "TUTTI_INTERFACE to an interface that they reach, or unset it");
}

UniqueId serve_id(const Launch& launch, const RendezvousAddress& address, Deadline deadline) {
  if (launch.size == 1) return on_this_host([] { return create_unique_id(); });
  try {
    check_reachable(address);
  } catch (const Error& error) {
    refuse_all(launch, address, error);
    throw;
  }
  UniqueId id = on_this_host([] { return create_unique_id(); });
  const auto id_server = std::make_shared<IdServer>(address, launch.size);
  id_server->set_id(id.hex());
  try {
    const OpenIdServer open(address, id_server);
    id_server->wait(deadline);
    if (id_server->refusal()) id_server->wait_for_all(Deadline::in(kWithdrawSeconds));
  } catch (const Error&) {
    release_unique_id(id);
    throw;
  }
  const std::vector<Rank> missing = id_server->missing();
  auto refusal = id_server->refusal();
  if (!refusal && missing.empty()) return id;
  if (!refusal) {
    refusal = Refused{
        Code::Timeout,
        fmt::format("rank 0 of {} ({}) timed out waiting for {} to fetch the unique id at {}: {} exited, or not "
                    "called yet? TUTTI_INIT_TIMEOUT waits longer{}",
                    launch.size, launch.launcher, list_ranks(missing), address.describe(),
                    missing.size() == 1 ? "has it" : "have they", possible_reason(launch))};
  }
  const auto served = id_server->served();  // these wait for the other ranks, or soon will
  withdraw(id, {launch.size, 0, refusal->code, refusal->text}, static_cast<size_t>(launch.size) - 1 - served);
  throw Error(refusal->code, refusal->text);
}

UniqueId id_from_environment(const Launch& launch) {
  try {
    return UniqueId::from_hex(launch.id);
  } catch (const Error& error) {
    throw_error(error.code(), "TUTTI_ID: {}", error.what());
  }
}

/// The id in rank 0's answer. Throws the reason if there is none.
UniqueId id_in(const std::string& answer) {
  if (kind_of(answer) != Kind::Refused) return UniqueId::from_hex(unpack<IdReply>(answer).hex);
  const auto refused = unpack<Refused>(answer);
  throw Error(refused.code, refused.text);
}

/// One attempt to get rank 0's answer. Throws if rank 0 cannot be reached.
std::string fetch_once(const Launch& launch, const RendezvousAddress& address, WaitLimit limit) {
  const Fd fd = dial_rank_zero(address, limit);
  send_all(fd.get(), pack(Fetch{launch.size, launch.rank}), limit);
  return receive_frame(fd.get(), kMaxFirstFrame, limit);
}

UniqueId fetch(const Launch& launch, uint64_t number, Deadline deadline) {
  std::string refused;  // of a process that listened there and rejected the key
  for (;;) {
    const RendezvousAddress address(launch, secret_of(launch, deadline),
                                    number);  // a store may be restarted with another secret
    std::string answer, reason;
    Code code = Code::Timeout;
    try {
      answer = fetch_once(launch, address, {deadline, nullptr});
    } catch (const NoDescriptor& error) {
      throw_error(error.code(), "rank {} of {} ({}; {}) could not fetch the unique id: {}", launch.rank, launch.size,
                  launch.launcher, this_process(), error.what());
    } catch (const Error& error) {
      reason = error.what();
      if (error.code() == Code::SystemError) code = error.code();
      if (is_rejection(error.code())) refused = reason;
    }
    if (reason.empty()) return id_in(answer);
    if (deadline.passed()) {
      if (!refused.empty() && refused != reason) reason += "; before: " + refused;
      throw_error(code,
                  "rank {} of {} ({}) could not fetch the unique id from rank 0 at {}, with a key made from {}: {}{}",
                  launch.rank, launch.size, launch.launcher, address.describe(), launch.secret_source, reason,
                  possible_reason(launch));
    }
    poll(nullptr, 0, deadline.poll_ms(kRetryMs));
  }
}

/// Counts the unique ids of this launch, attempts included.
uint64_t next_exchange_number() {
  static std::atomic<uint64_t> exchanges{0};
  return exchanges++;
}

void send_withdrawal(const Launch& launch, const RendezvousAddress& address, const Error& why, WaitLimit limit) {
  const Withdraw withdrawal{launch.size, launch.rank, why.code(), describe_withdrawal(launch.rank, why)};
  while (!limit.deadline.passed()) {
    try {
      call<Accepted>(dial_rank_zero(address, limit).get(), withdrawal, limit);
      return;
    } catch (const Error&) {  // rank 0 may start later
      poll(nullptr, 0, limit.deadline.poll_ms(kRetryMs));
    }
  }
}

}  // namespace

UniqueId exchange_unique_id(const Launch& launch, Deadline deadline) {
  if (!launch.id.empty()) return id_from_environment(launch);
  const uint64_t number = next_exchange_number();
  if (!launch.one_host() && launch.root.empty()) {
    throw_error(Code::InvalidArgument,
                "{} does not say where rank 0 runs, and this job has ranks on several hosts: set "
                "TUTTI_ROOT_ADDR to the name or address of rank 0's host on all ranks",
                launch.launcher);
  }
  if (launch.rank != 0) return fetch(launch, number, deadline);
  return serve_id(launch, RendezvousAddress(launch, secret_of(launch, deadline), number), deadline);
}

void withdraw(const Launch& launch, const Error& why) {
  if (launch.size == 1) return;
  const Deadline deadline = Deadline::in(kWithdrawSeconds);
  try {
    if (!launch.id.empty()) {
      return withdraw(UniqueId::from_hex(launch.id),
                      {launch.size, launch.rank, why.code(), describe_withdrawal(launch.rank, why)});
    }
    const RendezvousAddress address(launch, secret_of(launch, deadline), next_exchange_number());
    launch.rank == 0 ? refuse_all(launch, address, why) : send_withdrawal(launch, address, why, {deadline, nullptr});
  } catch (const Error&) {  // then the others wait until their own deadline
  }
}

}  // namespace tutti::control
