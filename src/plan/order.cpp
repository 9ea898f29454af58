#include "plan/order.hpp"

#include "base/format.hpp"

namespace tutti::plan {

RankOrder::RankOrder(std::vector<Rank> ranks) {
  const size_t n = ranks.size();
  std::vector<Rank> places(n, kNoRank);
  bool natural = true;
  for (size_t place = 0; place < n; ++place) {
    const Rank rank = ranks[place];
    if (rank < 0 || static_cast<size_t>(rank) >= n || places[static_cast<size_t>(rank)] != kNoRank) {
      throw_error(Code::InvalidArgument, "an order of {} ranks has rank {} in place {}", n, rank, place);
    }
    places[static_cast<size_t>(rank)] = static_cast<Rank>(place);
    natural = natural && static_cast<size_t>(rank) == (place + static_cast<size_t>(ranks.front())) % n;
  }
  if (!natural) given_ = std::make_shared<const Given>(Given{std::move(ranks), std::move(places)});
}

std::shared_ptr<const Grouping> RankOrder::seen(const std::shared_ptr<const Grouping>& groups, Rank root) const {
  if (groups == nullptr || (root == 0 && given_ == nullptr)) return groups;
  std::vector<Rank> labels;
  const Rank n = groups->ranks();
  for (Rank planned = 0; planned < n; ++planned) labels.push_back(groups->group_of(actual(planned, root, n)));
  return std::make_shared<const Grouping>(labels);
}

}  // namespace tutti::plan
