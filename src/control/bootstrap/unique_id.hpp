// The unique id: 128 bytes by which ranks find each other. One process makes it and passes it to the others by any
// means.
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

/// The content of an id: where its maker listens, and the key of the communicator. Anyone who has the id may join, so
/// treat it as a password.
struct UniqueId {
  static constexpr size_t kBytes = 128;
  static constexpr size_t kMaxAddresses = 4;
  using Bytes = std::array<uint8_t, kBytes>;

  Key key{};
  uint64_t host = 0;  ///< hash of the maker's host identity: ranks on that host use the loopback interface
  uint16_t port = 0;
  std::vector<Address> addresses;  ///< 1 … kMaxAddresses
  bool opens_later = false;  ///< its rendezvous server may not be open yet (Endpoint::derive_id); not in the bytes

  /// The communicator's name: public, the same on all its ranks, different from every other.
  std::string name() const { return public_name(key); }

  Bytes to_bytes() const;
  /// Throws Error(InvalidArgument) with the reason if the bytes are not an id.
  static UniqueId from_bytes(const Bytes& bytes);
  /// 256 hexadecimal digits, as for TUTTI_ID.
  std::string hex() const;
  /// Throws Error(InvalidArgument).
  static UniqueId from_hex(std::string_view text);

  bool operator==(const UniqueId&) const = default;
};

/// Makes an id and opens its rendezvous server (control/rendezvous_server.hpp) in this process, which must live until
/// all ranks have left. The server closes when all ranks have left, or after an hour without a rank. Throws
/// Error(SystemError).
UniqueId create_unique_id();

/// Closes the rendezvous server of an id that this process made and that no rank will use. Has no effect on one in use.
void release_unique_id(const UniqueId& id);

/// Tells the other ranks that this one cannot join, and why: ranks that wait fail with that reason, and so do those
/// that register in the next minute. If the rendezvous server is in this process, waits a fifth of a second at most
/// until all ranks but `informed_elsewhere` have received it. Throws nothing.
void withdraw(const UniqueId& id, Withdraw withdrawal, size_t informed_elsewhere = 0);

}  // namespace tutti::control
