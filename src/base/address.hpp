// IP addresses: of this host, and of a host name.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tutti {

/// An IPv4 or IPv6 address without a port; plain data, so that messages and ids can contain it.
struct Address {
  uint8_t family = 0;               ///< 4 or 6
  std::array<uint8_t, 16> bytes{};  ///< network order; the first four of them for IPv4

  static Address loopback() { return {4, {127, 0, 0, 1}}; }
  bool valid() const { return family == 4 || family == 6; }
  bool is_loopback() const;
  bool operator==(const Address&) const = default;
};

/// "10.0.0.7", "fe80::1".
std::string to_string(const Address& address);
/// "10.0.0.7:4711", "[fe80::1]:4711".
std::string to_string(const Address& address, uint16_t port);

struct HostPort {
  std::string host;
  uint16_t port = 0;
};
/// Reads "host:4711", "[fe80::1]:4711", ":4711". Throws Error(InvalidArgument) without a port from 1 to 65535.
HostPort parse_host_port(const std::string& text);

/// Reads "10.0.0.7", "fe80::1"; not valid() for anything else.
Address numeric_address(const std::string& text);

/// The operating system's form. Throws Error(InvalidArgument) unless `address.valid()`.
sockaddr_storage to_sockaddr(const Address& address, uint16_t port, socklen_t* length);

/// Addresses of this host's interfaces that are up, best for peers first; loopback only if there is no other. `choice`:
/// empty for all; "eth,ib0" for interfaces whose name begins so; "10.0.0.0/8" for addresses of
/// that subnet; "=eth0" for exactly that name; "^docker,veth" for all
/// others. Throws Error: InvalidArgument, listing the interfaces, if none matches; SystemError if none is up at all.
std::vector<Address> local_addresses(const std::string& choice);
/// As TUTTI_INTERFACE says.
std::vector<Address> local_addresses();

/// Addresses of a host name, of a numeric address, or of a list, "10.0.0.1,node7". Throws Error(SystemError) if one has
/// none.
std::vector<Address> resolve(const std::string& hosts);

/// The address of this host from which packets to `address` would be sent; empty if there is no route.
std::optional<Address> source_towards(const Address& address);

/// The name of the interface that has this address; "" if none has.
std::string interface_of(const Address& address);

}  // namespace tutti
