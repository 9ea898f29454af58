// The unique id: 128 bytes that let ranks find each other, made by one process and handed to the others by any means.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.hpp"
#include "base/secret.hpp"

namespace tutti::control {

struct Withdraw;  // control/messages.hpp

/// What an id says: where the process that made it listens, and the key of the communicator. Whoever has the id may
/// join, so hand it around as one would a password.
struct UniqueId {
  static constexpr size_t kBytes = 128;
  static constexpr size_t kMaxAddresses = 4;
  using Bytes = std::array<uint8_t, kBytes>;

  Key key{};
  uint64_t host = 0;  ///< hash of the maker's host identity: ranks on that host use the loopback interface
  uint16_t port = 0;
  std::vector<Address> addresses;  ///< 1 … kMaxAddresses

  /// The name of the communicator: public, the same on all its ranks, unlike that of any other.
  std::string name() const { return public_name(key); }

  Bytes to_bytes() const;
  /// Throws Error(InvalidArgument) saying what is wrong with bytes that are no id.
  static UniqueId from_bytes(const Bytes& bytes);
  /// 256 hexadecimal digits, as for TUTTI_ID.
  std::string hex() const;
  /// Throws Error(InvalidArgument).
  static UniqueId from_hex(std::string_view text);

  bool operator==(const UniqueId&) const = default;
};

/// Makes an id and opens its rendezvous server (control/rendezvous_server.hpp) in this process, which must live until
/// all ranks have left. The rendezvous server closes when all ranks left, or after an hour in which nobody came. Throws
/// Error(SystemError).
UniqueId create_unique_id();

/// Closes the rendezvous server of an id that this process made and that nobody will use; nothing happens to one in
/// use.
void release_unique_id(const UniqueId& id);

/// Tells the other ranks that one cannot join, and why: those that wait for it fail with that reason, and so do those
/// that come in the next minute. Where the rendezvous server is in this process, waits up to two seconds for them, but
/// for `told_elsewhere` of them. Throws nothing.
void withdraw(const UniqueId& id, const Withdraw& withdrawal, size_t told_elsewhere = 0);

}  // namespace tutti::control
