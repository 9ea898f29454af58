// Which links of a communicator carry less than others while they carry something.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "control/status/call_timing.hpp"

namespace tutti::control {

struct SlowLink {
  Rank from = 0, to = 0;
  std::string transport;
  double rate = 0;     ///< bytes a second while it was busy
  double others = 0;   ///< the median of the other links, likewise; the mean over the slices
  double busy = 0;     ///< share of the time
  double seconds = 0;  ///< in which this was so
};

/// A link is slow that in 12 of the last 16 slices of a second, while bytes were on the way, carried at most 0.7 of
/// what the median of the communicator's other links of this transport did. Where several links of a host were busy it
/// counts as if it had been alone: they share the host's interface. Slices count in which a link carries 4 MiB and is
/// busy for a tenth of the time: of short messages the delay says nothing about the rate.
class SlowLinks {
 public:
  static constexpr size_t kSlices = 16, kHits = 12;
  static constexpr uint64_t kLeastSent = 4 << 20;  ///< bytes
  static constexpr size_t kMaxLinks = 1024;        ///< for each rank, that are remembered
  static constexpr double kLeastBusy = 0.1, kSlower = 0.7;

  /// `hosts`: of each rank.
  explicit SlowLinks(std::vector<std::string> hosts) : hosts_(std::move(hosts)) {}

  /// The timing of all ranks, by rank. Called each second.
  void take(const std::vector<const RankTiming*>& ranks);
  std::vector<SlowLink> found() const;
  /// Links that are remembered.
  size_t known() const { return links_.size(); }

 private:
  using Link = std::tuple<Rank, Rank, std::string, uint32_t>;  // from, to, transport, link lane
  struct Slice {
    double span = 0, busy = 0, sent = 0;  // seconds, seconds, bytes
    double alone = 0;                     // bytes a second, if no other link had been busy at its hosts
    double others = 0;                    // bytes a second
    double rate() const { return sent / busy; }
  };
  using Now = std::map<Link, Slice>;
  struct Known {
    uint64_t now = 0, sent = 0, busy = 0;  // when it was seen last
    std::deque<Slice> slices;
    size_t idle = 0;  // seconds without a slice
  };

  Now slices_of(const std::vector<const RankTiming*>& ranks);
  void share(Now& now) const;
  static void compare(Now& now);

  std::vector<std::string> hosts_;
  std::map<Link, Known> links_;
};

}  // namespace tutti::control
