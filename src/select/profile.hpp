// What `tutti tune` has measured of a machine. Measured times are preferred to modelled ones.
//
// A profile is a JSON file, kept by a hash of the machine's topology in the user's private cache folder. Times hold for
// a *situation*: so many ranks, in these groups, over these transports.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "plan/grouping.hpp"
#include "topo/graph.hpp"
#include "tutti/types.hpp"

namespace tutti::select {

/// "2 ranks, shm", "8 ranks in groups of 4, shm+tcp, sharing cores".
std::string situation_of(const plan::Grouping& groups, const std::string& transports, bool sharing_cores);

struct MeasuredLink {
  double alpha = 0;  ///< seconds for an empty message
  double beta = 0;   ///< seconds per byte
};

struct Profile {
  std::map<std::string, MeasuredLink> links;  ///< "threads", "processes", "tcp" …: the slowest pair of each
  std::optional<double> gamma;                ///< seconds per byte folded
  using Times = std::map<uint64_t, double>;   ///< seconds of a call, by bytes of a block
  /// By situation, collective, and algorithm.
  std::map<std::string, std::map<Collective, std::map<std::string, Times>>> measured;

  /// Between two measured sizes, their times are interpolated (both on logarithmic scales). Below the smallest: its
  /// time; above the largest: in proportion. None where a neighbouring size of the collective was not measured.
  std::optional<double> seconds(const std::string& situation, Collective collective, const std::string& algorithm,
                                uint64_t bytes) const;
  std::string text() const;
  /// Equal for equal contents.
  uint64_t hash() const;
};

/// Throws Error(InvalidArgument).
Collective collective_named(std::string_view name);

/// Throws Error(InvalidArgument), which names `name` and the fault.
Profile parse_profile(const std::string& text, const std::string& name);

/// The key of a machine: as hash_of(graph), but equal whatever part of the machine a process may use.
uint64_t machine_key(topo::Graph graph);
/// The file of this machine's profile: `given`, as TUTTI_PROFILE, else FOLDER/tutti/KEY.json in the user's cache
/// folder. "" if `given` is "off", or if there is no such folder.
std::string profile_path(const std::string& given);
/// This machine's profile; null if there is none. Read once a process, and its α, β, γ put into machine_constants().
/// Throws Error if TUTTI_PROFILE names a file that cannot be read. (A fault in the cache folder is only warned about.)
std::shared_ptr<const Profile> local_profile();
/// Writes it for this user only, at once or not at all. Throws Error(SystemError).
void save_profile(const Profile& profile, const std::string& path);

}  // namespace tutti::select
