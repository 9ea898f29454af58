#include "tools/run/hosts.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "base/format.hpp"

namespace tutti::tools {
namespace {

/// The number of ranks of each host.
std::vector<int> share(const std::vector<Host>& hosts, int ranks) {
  const auto open = std::count_if(hosts.begin(), hosts.end(), [](const Host& h) { return !h.slots; });
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots.value_or(0);
  if (ranks == 0) ranks = slots + static_cast<int>(open);
  if (open == 0 && ranks > slots) {
    throw_error(Code::InvalidArgument, "-n {}: the hosts have {} slots; give them more, e.g. {}:{}", ranks, slots,
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

}  // namespace

std::vector<Placement> place(const std::vector<Host>& list, int ranks, const std::string& here) {
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
