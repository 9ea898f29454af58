#include "control/trunks.hpp"

#include <unistd.h>

#include <new>
#include <utility>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_thread.hpp"
#include "control/rendezvous_server.hpp"

namespace tutti::control {

std::vector<Address> addresses_of(const Member& member, const Member& local_member) {
  return member.host == local_member.host ? std::vector{Address::loopback()} : member.addresses;
}

Trunks::Trunks(ControlThread& control, const Key& key) : control_(control), key_(key), name_(public_name(key)) {}

Trunks::~Trunks() {
  std::vector<std::shared_ptr<Trunk>> trunks(accepted_.begin(), accepted_.end());
  for (auto& [process, trunk] : dialed_) trunks.push_back(std::move(trunk));
  dialed_.clear();
  accepted_.clear();
  if (control_.forked()) {  // they are the parent process's, and so are the locks of its threads
    static_cast<void>(new (std::nothrow) std::vector(std::move(trunks)));
    return;
  }
  if (!trunks.empty()) {
    control_.loop().post([trunks = std::move(trunks)] {
      for (const auto& trunk : trunks) trunk->close_when_unused();
    });
  }
  control_.remove_if_unused(name_);
}

std::shared_ptr<Trunk> Trunks::to(const Member& member, WaitLimit limit) {
  const Process process(member.host, member.nonce);
  const double fresh = env().heartbeat / 2;
  {
    const std::lock_guard lock(mutex_);
    const auto known = dialed_.find(process);
    if (known != dialed_.end() && known->second->is_alive(fresh)) {
      known->second->reserve();
      return known->second;
    }
  }
  const Member& here = control_.local_member();
  Fd fd = dial(addresses_of(member, here), member.port, key_, limit);
  call<Accepted>(fd.get(), OpenTrunk{}, limit);
  auto trunk = std::make_shared<Trunk>(control_.loop(), std::move(fd), kMaxFromServer);
  control_.loop().post([trunk, weak = weak_from_this(), process] {
    trunk->open([weak, process, ended = std::weak_ptr(trunk)] {
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard lock(self->mutex_);
      const auto known = self->dialed_.find(process);
      if (known != self->dialed_.end() && known->second == ended.lock()) self->dialed_.erase(known);
    });
  });
  const std::lock_guard lock(mutex_);
  std::shared_ptr<Trunk>& known = dialed_[process];
  // Another rank of this process may have dialed it at the same time.
  if (known == nullptr || !known->is_alive(fresh)) std::swap(known, trunk);
  if (trunk != nullptr) control_.loop().post([unused = std::move(trunk)] { unused->close_when_unused(); });
  known->reserve();
  return known;
}

void Trunks::accept(Fd& fd) {
  static std::atomic<size_t> all{0};  // of this process
  if (all >= max_descriptors() / 2) {
    throw_error(Code::SystemError,
                "{} connections of peers for splits are open in process {}, which is the maximum (half of ulimit -n)",
                all.load(), getpid());
  }
  ++all;
  send_now(fd.get(), pack(Accepted{}));
  const std::shared_ptr<void> counted(&all, [](std::atomic<size_t>* count) { --*count; });
  const auto trunk =
      std::make_shared<Trunk>(control_.loop(), std::move(fd), kMaxToServer,
                              [weak = weak_from_this(), counted](const auto& channel, const OpenChannel& request) {
                                if (const auto self = weak.lock()) self->serve(channel, request);
                              });
  trunk->open([weak = weak_from_this(), ended = std::weak_ptr(trunk)] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard lock(self->mutex_);
    self->accepted_.erase(ended.lock());
  });
  const std::lock_guard lock(mutex_);
  accepted_.insert(trunk);
}

std::shared_ptr<const void> Trunks::count(std::atomic<size_t>& what) {
  ++what;
  return {&what, [self = shared_from_this()](std::atomic<size_t>* counted) { --*counted; }};
}

std::shared_ptr<const void> Trunks::add_client() { return count(clients_); }

std::shared_ptr<const void> Trunks::begin_server() {
  constexpr size_t kBesideOwn = 256;
  if (incomplete_servers_ >= kBesideOwn + clients_) {
    throw_error(Code::SystemError, "{} splits wait for ranks in process {}, or were refused in the last minute",
                incomplete_servers_.load(), getpid());
  }
  return count(incomplete_servers_);
}

/// The first request for a split opens its rendezvous server, so that no rank waits for this process's own.
void Trunks::serve(const std::shared_ptr<Channel>& channel, const OpenChannel& request) {
  const auto server = [&] { return control_.server_of_split(request.communicator, shared_from_this()); };
  switch (kind_of(request.first)) {
    case Kind::Register: {
      auto registration = unpack<Register>(request.first);
      const auto at = server();
      try {
        return at->admit(std::move(registration), [&] { return channel; });
      } catch (...) {
        at->close_if_unused();
        throw;
      }
    }
    case Kind::Withdraw:
      server()->withdraw(unpack<Withdraw>(request.first));
      return channel->close();
    default:
      throw_error(Code::ProtocolError, "a channel began with a control message of kind {}",
                  static_cast<int>(request.first[0]));
  }
}

}  // namespace tutti::control
