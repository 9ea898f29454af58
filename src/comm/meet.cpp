// How the ranks of a launch come by one unique id: rank 0 opens a door for just so long, and the others fetch it there.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/format.hpp"
#include "base/socket.hpp"
#include "comm/control.hpp"
#include "comm/describe.hpp"
#include "comm/dial.hpp"
#include "comm/launch.hpp"
#include "comm/messages.hpp"

namespace tutti::comm {
namespace {

constexpr int kRetryMs = 20;  // rank 0 may come late, and there is nothing of it to wait on

/// What the key is derived from.
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

/// The way to one meeting of a launch. Its name and key differ from those of the one before and the one after.
struct Way {
  Way(const Launch& launch, const std::string& secret, uint64_t number)
      : one_host(launch.one_host()),
        key(derive_key(fmt::format("tutti meets {} {} {} {}", number, launch.size, secret, launch.job))),
        name("tutti-meet-" +
             public_name(derive_key(fmt::format("tutti meets at {} {} {}", number, geteuid(), launch.job)))),
        root(launch.root),
        port(launch.port) {}

  std::string describe() const {
    return one_host ? fmt::format("the abstract UNIX socket '{}' of this host", name)
                    : fmt::format("TCP port {} of host '{}'", port, root);
  }

  bool one_host;
  Key key;
  std::string name;  // of the UNIX socket
  std::string root;
  uint16_t port;
};

/// Hands out the id, on the control thread.
class Door final : public Party {
 public:
  Door(const Way& way, std::string hex, Rank ranks)
      : way_(way), hex_(std::move(hex)), served_(static_cast<size_t>(ranks), false) {
    served_[0] = true;
  }
  const Key& key() const override { return way_.key; }

  void welcome(Fd& fd, std::string_view first) override {
    const auto fetch = unpack<Fetch>(first);
    const auto ranks = static_cast<Rank>(served_.size());
    if (fetch.ranks != ranks || fetch.rank < 0 || fetch.rank >= ranks) {
      throw_error(Code::InvalidArgument, "rank {} of {} came to meet; rank 0 was launched as one of {}", fetch.rank,
                  fetch.ranks, ranks);
    }
    if (way_.one_host && peer_user(fd.get()) != static_cast<int64_t>(geteuid())) {
      throw_error(Code::InvalidArgument, "rank 0 belongs to another user");
    }
    const std::string given = pack(IdGiven{hex_});
    if (send_now(fd.get(), given) != static_cast<ptrdiff_t>(given.size())) return;
    const std::lock_guard lock(mutex_);
    served_[static_cast<size_t>(fetch.rank)] = true;
    changed_.notify_all();
  }

  /// The ranks that have not come by the deadline.
  std::vector<Rank> wait(Deadline deadline) {
    std::unique_lock lock(mutex_);
    changed_.wait_until(lock, deadline.at(),
                        [this] { return std::all_of(served_.begin(), served_.end(), [](bool s) { return s; }); });
    std::vector<Rank> missing;
    for (size_t r = 0; r < served_.size(); ++r) {
      if (!served_[r]) missing.push_back(static_cast<Rank>(r));
    }
    return missing;
  }

 private:
  const Way way_;
  const std::string hex_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> served_;
};

Fd open_listener(const Way& way) {
  try {
    return way.one_host ? listen_unix(way.name) : listen_tcp(way.port);
  } catch (const Error& error) {
    throw_error(error.code(), "rank 0 cannot hand out the unique id: {}. {}", error.what(),
                way.one_host ? "Does another job with the same TUTTI_JOB run here?"
                             : "Set TUTTI_PORT to a free port, the same on all ranks");
  }
}

UniqueId hand_out(const Launch& launch, const Way& way, Deadline deadline) {
  UniqueId id = create_unique_id();
  if (launch.size == 1) return id;
  Control& control = Control::get();
  const auto door = std::make_shared<Door>(way, id.hex(), launch.size);
  const auto listener = std::make_shared<Fd>();
  try {
    *listener = open_listener(way);
  } catch (...) {
    release_unique_id(id);
    throw;
  }
  control.add_party(door);
  control.loop().post([&control, listener] { control.lobby().open(listener->get()); });
  const std::vector<Rank> missing = door->wait(deadline);
  control.loop().post([&control, listener] {
    control.lobby().close(listener->get());
    listener->reset();
  });
  control.remove_party(way.key);
  if (missing.empty()) return id;
  release_unique_id(id);
  throw_error(Code::Timeout, "rank 0 of {} ({}) waited in vain for {} to fetch the unique id at {}", launch.size,
              launch.launcher, list_ranks(missing), way.describe());
}

UniqueId fetch_once(const Launch& launch, const Way& way, Patience patience) {
  const Fd fd = way.one_host ? dial_unix(way.name, way.key, patience, true)
                             : dial(resolve(way.root), way.port, way.key, patience);
  return UniqueId::from_hex(call<IdGiven>(fd.get(), Fetch{launch.size, launch.rank}, patience).hex);
}

UniqueId fetch(const Launch& launch, uint64_t number, Deadline deadline) {
  for (;;) {
    const Way way(launch, secret_of(launch, deadline), number);  // a store may be opened anew, with another secret
    std::string reason;
    try {
      return fetch_once(launch, way, {deadline, nullptr});
    } catch (const Error& error) {
      reason = error.what();
    }
    if (deadline.passed()) {
      throw_error(Code::Timeout,
                  "rank {} of {} ({}) could not fetch the unique id from rank 0 at {}, with a key made from {}: {}",
                  launch.rank, launch.size, launch.launcher, way.describe(), launch.secret_source, reason);
    }
    poll(nullptr, 0, deadline.poll_ms(kRetryMs));
  }
}

}  // namespace

UniqueId meet(const Launch& launch, Deadline deadline) {
  if (!launch.id.empty()) return UniqueId::from_hex(launch.id);
  static std::atomic<uint64_t> meetings{0};
  const uint64_t number = meetings++;
  if (!launch.one_host() && launch.root.empty()) {
    throw_error(Code::InvalidArgument,
                "{} does not say where rank 0 runs, and this job has ranks on several hosts: set "
                "TUTTI_ROOT_ADDR to the name or address of rank 0's host on all ranks",
                launch.launcher);
  }
  if (launch.rank != 0) return fetch(launch, number, deadline);
  return hand_out(launch, Way(launch, secret_of(launch, deadline), number), deadline);
}

}  // namespace tutti::comm
