#include "comm/groups.hpp"

#include <map>

namespace tutti::comm {

Groups groups_of(std::span<const std::string> hosts, const std::string& wanted) {
  const auto ranks = static_cast<Rank>(hosts.size());
  if (!wanted.empty()) {
    return std::make_shared<const plan::Grouping>(plan::parse_labels(wanted, ranks, "TUTTI_GROUPS"));
  }
  std::map<std::string, Rank> known;
  std::vector<Rank> labels;
  for (const std::string& host : hosts)
    labels.push_back(known.emplace(host, static_cast<Rank>(known.size())).first->second);
  return std::make_shared<const plan::Grouping>(labels);
}

Groups groups_among(const plan::Grouping& all, std::span<const Rank> some) {
  std::vector<Rank> labels;
  for (const Rank rank : some) labels.push_back(all.group_of(rank));
  return std::make_shared<const plan::Grouping>(labels);
}

}  // namespace tutti::comm
