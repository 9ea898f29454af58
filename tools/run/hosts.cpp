#include "tools/run/hosts.hpp"

#include <unistd.h>
#include <cerrno>
#include <cstring>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>

#include "base/address.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/port_range.hpp"

namespace tutti::tools {
namespace {

constexpr int kMaxSlots = 65536;

struct Host {
  std::string name;
  std::optional<int> slots;
};

Host parse_host(const std::string& text) {
  const size_t colon = text.rfind(':');
  Host host{text.substr(0, colon), std::nullopt};
  // ssh would take a name with a leading dash as an option.
  if (host.name.empty() || host.name.front() == '-' || host.name.find_first_of(": \t") != std::string::npos) {
    throw_error(Code::InvalidArgument, "--hosts: \"{}\" is not a host; write name or name:slots, e.g. --hosts a,b:4",
                text);
  }
  if (colon == std::string::npos) return host;
  int slots = 0;
  const char* const last = text.data() + text.size();
  const auto [end, failure] = std::from_chars(text.data() + colon + 1, last, slots);
  if (failure != std::errc{} || end != last || slots < 1 || slots > kMaxSlots) {
    throw_error(Code::InvalidArgument, "--hosts: \"{}\": the number of slots must be from 1 to {}", text, kMaxSlots);
  }
  host.slots = slots;
  return host;
}

std::vector<Host> parse_hosts(const std::string& text) {
  std::vector<Host> hosts;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    hosts.push_back(parse_host(text.substr(start, comma - start)));
    for (size_t i = 0; i + 1 < hosts.size(); ++i) {
      if (hosts[i].name == hosts.back().name) {
        throw_error(Code::InvalidArgument, "--hosts: {} is listed twice; write {}:2 for two ranks", hosts[i].name,
                    hosts[i].name);
      }
    }
    start = comma + 1;
  }
  return hosts;
}

/// The number of ranks of each host.
std::vector<int> share(const std::vector<Host>& hosts, int ranks) {
  const auto open = std::count_if(hosts.begin(), hosts.end(), [](const Host& h) { return !h.slots; });
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots.value_or(0);
  if (ranks == 0) ranks = slots + static_cast<int>(open);
  if (open == 0 && ranks > slots) {
    throw_error(Code::InvalidArgument, "-n {}: the hosts have {} slots; give them more (--hosts {}:{})", ranks, slots,
                hosts.front().name, hosts.front().slots.value_or(0) + ranks - slots);
  }
  std::vector<int> shares;
  int rest = std::max(0, ranks - slots);  // for hosts without a slot count
  int still_open = static_cast<int>(open);
  int left = ranks;
  for (const Host& host : hosts) {
    int mine = 0;
    if (host.slots) {
      mine = std::min(*host.slots, left);
    } else {
      mine = (rest + still_open - 1) / still_open;
      rest -= mine;
      --still_open;
    }
    shares.push_back(mine);
    left -= mine;
  }
  return shares;
}

bool is_here(const std::string& name, const std::string& here) {
  return name == "localhost" || name.starts_with("127.") || name == here || name == here.substr(0, here.find('.'));
}

/// ssh's form, "user@host".
std::string without_user(const std::string& host) { return host.substr(host.find('@') + 1); }

/// This host's addresses on the route to `host`; empty if only ssh knows that name.
std::vector<Address> sources_towards(const std::string& host) {
  std::vector<Address> sources;
  try {
    for (const Address& address : resolve(host)) {
      const auto source = source_towards(address);
      if (source && !source->is_loopback()) sources.push_back(*source);
    }
  } catch (const Error&) {
  }
  return sources;
}

}  // namespace

std::string meeting_host(const std::vector<Placement>& ranks, const std::string& here) {
  std::set<std::string> others;
  for (const Placement& rank : ranks) {
    if (!rank.host.empty()) others.insert(without_user(rank.host));
  }
  if (others.empty()) return "";
  if (!ranks.front().host.empty()) return without_user(ranks.front().host);
  std::vector<std::string> found;
  const auto add = [&found](const Address& address) {
    const std::string text = to_string(address);
    if (!address.is_loopback() && std::find(found.begin(), found.end(), text) == found.end()) found.push_back(text);
  };
  const std::vector<Address> offered = local_addresses();  // as TUTTI_INTERFACE says
  for (const std::string& host : others) {
    for (const Address& source : sources_towards(host)) {
      if (std::find(offered.begin(), offered.end(), source) != offered.end()) add(source);
    }
  }
  if (found.empty()) std::for_each(offered.begin(), offered.end(), add);
  return found.empty() ? here : fmt::format("{}", fmt::join(found, ","));
}

void set_meeting_point(Job& job, int port, const std::string& here) {
  const std::string host = meeting_host(job.ranks, here);
  if (host.empty()) return;
  const bool nested = env().rank.has_value();
  job.root = env().root_addr.empty() || nested ? host : env().root_addr;
  if (port == 0 && env().port && !nested) port = *env().port;
  if (const auto ports = fixed_ports(); port == 0 && ports) port = ports->first;
  // Below the ports that kernels assign to outgoing connections.
  job.port = static_cast<uint16_t>(
      port != 0 ? port : std::uniform_int_distribution(20000, 29999)(*std::make_unique<std::random_device>()));
}

std::vector<Placement> place(const std::string& hosts, int ranks, const std::string& here) {
  const std::vector<Host> list = parse_hosts(hosts);
  const std::vector<int> shares = share(list, ranks);
  std::vector<Placement> placements;
  std::map<std::string, int> local_sizes;  // this host may have several names
  for (size_t h = 0; h < list.size(); ++h) {
    const std::string name = is_here(list[h].name, here) ? "" : list[h].name;
    for (int i = 0; i < shares[h]; ++i) placements.push_back({name, local_sizes[name]++, 0, std::nullopt});
  }
  for (Placement& placement : placements) placement.local_size = local_sizes[placement.host];
  return placements;
}

std::vector<Placement> place_here(int ranks) {
  std::vector<Placement> placements;
  for (int i = 0; i < ranks; ++i) placements.push_back({"", i, ranks, std::nullopt});
  return placements;
}

std::string host_name() {
  char name[256] = {};
  if (gethostname(name, sizeof name - 1) != 0)
    throw_error(Code::SystemError, "cannot read this host's name: {}", std::strerror(errno));
  return name;
}

}  // namespace tutti::tools
