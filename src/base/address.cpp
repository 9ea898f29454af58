#include "base/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>
#include <set>
#include <string_view>

#include "base/env.hpp"
#include "base/fd.hpp"
#include "base/format.hpp"

namespace tutti {
namespace {

Address from_sockaddr(const sockaddr* from) {
  Address address;
  if (from->sa_family == AF_INET) {
    address.family = 4;
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in*>(from)->sin_addr, 4);
  } else if (from->sa_family == AF_INET6) {
    address.family = 6;
    std::memcpy(address.bytes.data(), &reinterpret_cast<const sockaddr_in6*>(from)->sin6_addr, 16);
  }
  return address;
}

/// A link-local address is useless without its interface, which the peer cannot know.
bool is_link_local(const Address& a) {
  return (a.family == 4 && a.bytes[0] == 169 && a.bytes[1] == 254) ||
         (a.family == 6 && a.bytes[0] == 0xfe && (a.bytes[1] & 0xc0) == 0x80);
}

/// Bridges of container and machine managers have the same address on many hosts, so they are offered last.
bool is_bridge(std::string_view name) {
  return name.starts_with("docker") || name.starts_with("virbr") || name.starts_with("veth") || name.starts_with("br-");
}

/// Is `word` a subnet, such as 10.0.0.0/8 or fd00::/64, and `address` in it? Throws Error(InvalidArgument).
bool in_subnet(const Address& address, std::string_view word) {
  const size_t slash = word.find('/');
  const std::string base(word.substr(0, slash));
  const std::string_view digits = word.substr(slash + 1);
  Address net;
  net.family = base.find(':') == std::string::npos ? 4 : 6;
  const uint32_t most = net.family == 4 ? 32 : 128;
  uint32_t bits = 0;
  const auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  const bool number = failure == std::errc{} && end == digits.data() + digits.size() && bits <= most;
  if (!number || inet_pton(net.family == 4 ? AF_INET : AF_INET6, base.c_str(), net.bytes.data()) != 1) {
    throw_error(Code::InvalidArgument, "TUTTI_INTERFACE: '{}' is not a subnet; write one as 10.0.0.0/8 or fd00::/64",
                word);
  }
  if (address.family != net.family) return false;
  for (uint32_t bit = 0; bit < bits; ++bit) {
    const uint8_t mask = static_cast<uint8_t>(0x80 >> bit % 8);
    if (((address.bytes[bit / 8] ^ net.bytes[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

bool chosen(std::string_view name, const Address& address, std::string_view choice) {
  if (choice.empty()) return true;
  const bool exclude = choice.front() == '^';
  if (exclude) choice.remove_prefix(1);
  const bool exact = choice.starts_with('=');
  if (exact) choice.remove_prefix(1);
  bool found = false;
  while (!choice.empty()) {
    const auto word = choice.substr(0, choice.find(','));
    choice.remove_prefix(std::min(choice.size(), word.size() + 1));
    if (word.find('/') != std::string_view::npos) {
      found |= in_subnet(address, word);
    } else if (!word.empty()) {
      found |= exact ? name == word : name.starts_with(word);
    }
  }
  return found != exclude;
}

void resolve_one(const std::string& host, std::vector<Address>& found) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int rc = getaddrinfo(host.c_str(), nullptr, &hints, &list); rc != 0) {
    throw_error(Code::SystemError, "cannot find the address of host '{}': {}", host, gai_strerror(rc));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, freeaddrinfo);
  for (const addrinfo* i = list; i != nullptr; i = i->ai_next) {
    const Address address = from_sockaddr(i->ai_addr);
    if (address.valid() && std::find(found.begin(), found.end(), address) == found.end()) found.push_back(address);
  }
}

}  // namespace

bool Address::is_loopback() const {
  static constexpr std::array<uint8_t, 16> kLoopback6{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  return family == 4 ? bytes[0] == 127 : bytes == kLoopback6;
}

std::string to_string(const Address& address) {
  if (!address.valid()) return "invalid address";
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.bytes.data(), text, sizeof text);
  return text;
}

std::string to_string(const Address& address, uint16_t port) {
  if (!address.valid()) return "invalid address";
  return address.family == 4 ? fmt::format("{}:{}", to_string(address), port)
                             : fmt::format("[{}]:{}", to_string(address), port);
}

sockaddr_storage to_sockaddr(const Address& address, uint16_t port, socklen_t* length) {
  sockaddr_storage storage{};
  if (address.family == 4) {
    auto& v4 = reinterpret_cast<sockaddr_in&>(storage);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), 4);
    *length = sizeof v4;
  } else if (address.family == 6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(storage);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
    *length = sizeof v6;
  } else {
    throw_error(Code::InvalidArgument, "an address of family {} where only 4 and 6 exist", address.family);
  }
  return storage;
}

std::vector<Address> local_addresses(const std::string& choice) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) {
    throw_error(Code::SystemError, "cannot list the network interfaces: {}", std::strerror(errno));
  }
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  std::vector<Address> good, bridges, loopbacks;
  std::set<std::string> names;
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if ((i->ifa_flags & IFF_UP) != 0) names.insert(i->ifa_name);
    if (i->ifa_addr == nullptr || (i->ifa_flags & IFF_UP) == 0) continue;
    const Address address = from_sockaddr(i->ifa_addr);
    if (!address.valid() || is_link_local(address) || !chosen(i->ifa_name, address, choice)) continue;
    (address.is_loopback() ? loopbacks : is_bridge(i->ifa_name) ? bridges : good).push_back(address);
  }
  std::stable_partition(good.begin(), good.end(), [](const Address& a) { return a.family == 4; });
  good.insert(good.end(), bridges.begin(), bridges.end());
  if (good.empty()) good = loopbacks;
  if (good.empty() && choice.empty()) {
    throw_error(
        Code::SystemError,
        "no network interface of this host is up and has an address, not even loopback, over which ranks of one "
        "host meet: `ip link set lo up`, as root of this network namespace");
  }
  if (good.empty()) {
    throw_error(Code::InvalidArgument,
                "TUTTI_INTERFACE='{}' matches no network interface of this host that is up and has an address; there "
                "are: {}",
                choice, fmt::join(names, ", "));
  }
  return good;
}

std::vector<Address> local_addresses() { return local_addresses(env().interfaces); }

std::string interface_of(const Address& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* i = list; i != nullptr; i = i->ifa_next) {
    if (i->ifa_addr != nullptr && from_sockaddr(i->ifa_addr) == address) return i->ifa_name;
  }
  return "";
}

std::vector<Address> resolve(const std::string& hosts) {
  std::vector<Address> found;
  for (size_t start = 0; start <= hosts.size();) {
    const size_t comma = std::min(hosts.find(',', start), hosts.size());
    resolve_one(hosts.substr(start, comma - start), found);
    start = comma + 1;
  }
  return found;
}

std::optional<Address> source_towards(const Address& address) {
  constexpr uint16_t kAnyPort = 9;  // nothing is sent
  socklen_t length = 0;
  const sockaddr_storage to = to_sockaddr(address, kAnyPort, &length);
  const Fd fd(socket(to.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage from{};
  socklen_t room = sizeof from;
  if (!fd || connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), length) != 0 ||
      getsockname(fd.get(), reinterpret_cast<sockaddr*>(&from), &room) != 0) {
    return std::nullopt;
  }
  const Address source = from_sockaddr(reinterpret_cast<const sockaddr*>(&from));
  return source.valid() ? std::optional(source) : std::nullopt;
}

Address numeric_address(const std::string& text) {
  Address address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes.data()) == 1) address.family = 4;
  if (!address.valid() && inet_pton(AF_INET6, text.c_str(), address.bytes.data()) == 1) address.family = 6;
  return address;
}

HostPort parse_host_port(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  const bool is_number =
      !digits.empty() && digits.size() <= 5 && digits.find_first_not_of("0123456789") == std::string::npos;
  const unsigned long port = is_number ? std::stoul(digits) : 0;
  if (port == 0 || port > 65535)
    throw_error(Code::InvalidArgument, "'{}' has no port from 1 to 65535 at its end", text);
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return {.host = host, .port = static_cast<uint16_t>(port)};
}

}  // namespace tutti
