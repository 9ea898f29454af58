// The network of a simulation: messages under way, and the rates that they get where they share links.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tutti::sim {

/// What messages share: one direction of a link, or the copying of a core.
struct SharedResource {
  std::string name;  ///< for people: "NIC mlx5_0 > network"
  double rate = 0;   ///< bytes a second
};

/// Times that differ by less are the same: messages that share a link evenly end together, but for rounding.
inline constexpr double kInstant = 1e-13;

/// Time is in seconds from the start. A network starts empty, at 0.
class Network {
 public:
  Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;
  virtual ~Network() = default;

  /// Starts a message of `bytes` bytes (more than 0), which uses all of `resources` (at least one) at once. Returns its
  /// number; a message that starts after another has ended may get its number.
  virtual uint32_t start(std::span<const uint32_t> resources, double bytes) = 0;
  /// Goes on to the next time at which messages end, but at most to `until`, appends the ended ones to `ended`, and
  /// returns that time.
  virtual double advance(double until, std::vector<uint32_t>& ended) = 0;
  virtual bool idle() const = 0;
};

/// Tutti's own network: each link divides its rate equally among its messages, and a message gets the least of its
/// shares. What it leaves of the other shares is not given to others, so times are rather too long than too short.
/// `resources` must outlive it.
std::unique_ptr<Network> equal_shares(std::span<const SharedResource> resources);

/// Max-min fair shares: what a message cannot use of its share, because another of its links is slower, goes to the
/// others. Times are SimGrid's, which is slower. `resources` must outlive it.
std::unique_ptr<Network> fair_shares(std::span<const SharedResource> resources);

/// SimGrid's fluid model (max-min fair), for `run`, which gets the network and may use it until it returns. `routes`:
/// all sets of resources that messages use. Throws as `run` does, and Error(Unsupported) in a build without SimGrid.
void with_simgrid(std::span<const SharedResource> resources, std::span<const std::vector<uint32_t>> routes,
                  const std::function<void(Network&)>& run);
/// "3.32"; "": the build is without SimGrid.
std::string simgrid_version();

}  // namespace tutti::sim
