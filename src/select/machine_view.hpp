// A machine whose pairs of ranks are not all alike: what algorithms cost there follows from their plans, message by
// message, on the links that the messages share. (Where all pairs are alike, the closed forms say the same; and of very
// many ranks, all plans would take too long to make.)
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exec/method.hpp"
#include "plan/algorithm.hpp"
#include "plan/order.hpp"
#include "select/pairs.hpp"

namespace tutti::select {

/// Of an algorithm's plans, in seconds, for a block of one byte where a figure is per byte.
struct Traffic {
  double latency = 0;  ///< of the longest chain of messages, if they were empty
  double fill = 0;     ///< per byte of a window: what the longest chain of messages takes for its bytes
  double busiest = 0;  ///< per byte: of the rank or link that is busy the longest
  double in_turn = 0;  ///< per byte: of the rank that is busy the longest if its links work one after the other
  std::string where;   ///< that rank or link: "rank 2", "host2: NIC eth0 – network"
};

/// The mean of several: of plans for different roots.
Traffic mean_of(const std::vector<Traffic>& all);

/// Of calls whose root is not known, those that are looked at: all, or as many evenly spread ones as can be in
/// reasonable time while a communicator is made.
std::vector<Rank> likely_roots(Rank ranks);

class MachineView {
 public:
  static constexpr Rank kMaxRanks = 128;

  /// Keeps copies of what it needs.
  MachineView(const Pairs& pairs, double message_share, bool in_place);

  /// Do messages between any two ranks cost the same, and are all ranks on one host, or each on its own with one way to
  /// all others?
  bool is_uniform() const { return uniform_; }
  /// Of the algorithm's plans for this shape, for calls with this root. Its groups are of the plan's ranks
  /// (RankOrder::seen).
  Traffic traffic(const plan::Algorithm& algorithm, const plan::Shape& shape, const plan::RankOrder& order,
                  Rank root = 0) const {
    return traffic(plan::generate_all(algorithm, shape), order, root);
  }
  Traffic traffic(const std::vector<plan::RankPlan>& plans, const plan::RankOrder& order, Rank root) const;

 private:
  struct Pair {
    double alpha = 0, beta = 0;
    bool near = false;                               // on one host
    bool own = false;                                // β is that of these two hosts, not of any two
    bool by_links = false;                           // between GPUs whose links are all that is known
    std::string name;                                // of what joins two hosts, with its figure; "": it has none
    std::vector<uint32_t> shared;                    // links, as numbers in links_
    std::array<topo::SharedFigure, 2> figures = {};  // of `own`: what else shares β
  };
  struct SharedLink {
    double beta = 0;  // of one byte
    std::string name;
  };
  const Pair& pair(Rank a, Rank b) const {
    return pairs_[static_cast<size_t>(a) * static_cast<size_t>(ranks_) + static_cast<size_t>(b)];
  }
  using ActualRank = std::function<Rank(Rank planned)>;
  using LinkNumbers = std::map<std::pair<uint32_t, bool>, uint32_t>;  // by link and direction
  void take_links(const topo::Graph& graph, topo::NodeId at, const topo::Path& path, LinkNumbers& numbers, Pair& pair);
  void take_port(const topo::Graph& graph, Rank from, const PairCost& cost);
  void busiest_rank(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const;
  void busiest_link(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const;
  void busiest_pair(const std::vector<plan::RankPlan>& plans, const ActualRank& at, Traffic& traffic) const;
  double beta_at(Rank end, const Pair& pair) const;

  Rank ranks_ = 0;
  double message_share_;
  bool in_place_, uniform_ = true;
  std::vector<Pair> pairs_;          // by sender and receiver
  std::vector<double> fastest_far_;  // by rank: β of its fastest pair with another host, or of its host's links
  std::vector<SharedLink> links_;
};

}  // namespace tutti::select
