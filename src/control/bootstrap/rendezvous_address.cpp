#include "control/bootstrap/rendezvous_address.hpp"

#include <unistd.h>

#include <optional>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "control/bootstrap/dial.hpp"

namespace tutti::control {
namespace {

constexpr const char* kPrefix = "tutti-exchange_unique_id-";
constexpr size_t kLongestName = 100;  // of a UNIX socket
constexpr double kHolderSeconds = 1;  // for the holder of a name to take a connection

/// The user whose process listens at a name; −1: nobody does, or it cannot be told.
int64_t holder_of(const std::string& name) {
  try {
    return peer_user(connect_unix(name, {Deadline::in(kHolderSeconds), nullptr}).get());
  } catch (const Error&) {
    return -1;
  }
}

/// Another process holds the address's name: listens at a random one, and writes that into a file.
Fd listen_elsewhere(const RendezvousAddress& address, const std::string& why, std::string& file) {
  const int64_t holder = holder_of(address.name);
  if (holder == static_cast<int64_t>(geteuid()))
    throw_error(Code::SystemError, "{}. Does another job with the same TUTTI_JOB run here?", why);
  const std::string who = holder < 0 ? "another process" : fmt::format("uid {}", holder);
  const std::string path = address.file_of_other_name();
  if (path.empty()) {
    throw_error(Code::SystemError,
                "{}: it is held by {}, and there is no HOME for a file with another name. Set TUTTI_KEY to the same "
                "secret on all ranks: nobody else can then compute the name",
                why, who);
  }
  const std::string name = kPrefix + random_hex(16);
  Fd fd = listen_unix(name);
  write_private(path, name);
  file = path;
  log_warn(
      "the abstract UNIX socket '{}', where rank 0 hands out the unique id, is held by {}: the ranks meet at another "
      "one, named in {}. With TUTTI_KEY set to a secret nobody else can compute the name",
      address.name, who, path);
  return fd;
}

Fd listen_on_this_host(const RendezvousAddress& address, std::string& file) {
  try {
    return listen_unix(address.name);
  } catch (const NoDescriptor&) {
    throw;
  } catch (const Error& error) {
    return listen_elsewhere(address, error.what(), file);
  }
}

}  // namespace

RendezvousAddress::RendezvousAddress(const Launch& launch, const std::string& secret, uint64_t number)
    : one_host(launch.one_host()),
      key(derive_key(fmt::format("tutti meets {} {} {} {}", number, launch.size, secret, launch.job))),
      name(kPrefix +
           public_name(derive_key(fmt::format("tutti meets at {} {} {} {}", number, geteuid(), secret, launch.job)))),
      root(launch.root),
      port(launch.port) {}

std::string RendezvousAddress::describe() const {
  return one_host ? fmt::format("the abstract UNIX socket '{}' of this host", name)
                  : fmt::format("TCP port {} of host '{}'{}", port, root,
                                root == env().root_addr ? " (TUTTI_ROOT_ADDR)" : "");
}

std::string RendezvousAddress::file_of_other_name() const {
  const std::string folder = cache_folder();
  return folder.empty() ? "" : folder + "/" + name;
}

RendezvousListener::RendezvousListener(const RendezvousAddress& address) {
  try {
    fd_ = address.one_host ? listen_on_this_host(address, file_) : listen_tcp(address.port);
  } catch (const Error& error) {
    throw_error(error.code(), "rank 0 cannot hand out the unique id: {}{}", error.what(),
                address.one_host ? "" : ". Set TUTTI_PORT to a free port, the same on all ranks");
  }
}

RendezvousListener::~RendezvousListener() {
  if (!file_.empty()) unlink(file_.c_str());
}

Fd dial_rank_zero(const RendezvousAddress& address, WaitLimit limit) {
  if (!address.one_host) return dial(resolve(address.root), address.port, address.key, limit);
  try {
    return dial_unix(address.name, address.key, limit, true);
  } catch (const NoDescriptor&) {
    throw;
  } catch (const Error&) {
    const std::string file = address.file_of_other_name();
    const auto other = file.empty() ? std::nullopt : read_file(file, kLongestName, true);
    if (!other) throw;
    return dial_unix(*other, address.key, limit, true);
  }
}

}  // namespace tutti::control
