// What `tutti tune --hosts` has measured of the network: a part of the profile.
//
// Hosts have names, and are found by them in a job's topology (select/network.hpp). Rates hold for both directions, of
// which the slower one was measured while both carried data, as in a ring.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>
#include <vector>

namespace tutti::select {

/// Messages between two hosts, while no others were under way.
struct MeasuredPair {
  std::string a, b;
  double alpha = 0;       ///< seconds for an empty message
  double beta = 0;        ///< seconds per byte
  bool doubtful = false;  ///< of several measurements no two agreed
};

/// Hosts that exchange data faster among themselves than with the others.
struct MeasuredIsland {
  std::vector<std::string> hosts;
  double beta = 0;  ///< seconds per byte: of the link to the others, which all messages between share
};

struct MeasuredHosts {
  std::string transport;  ///< over which all was measured
  std::vector<MeasuredPair> pairs;
  std::map<std::string, double> links;  ///< by host: seconds per byte of all its links to others together
  std::vector<MeasuredIsland> islands;  ///< none: the network joins all hosts alike
  std::set<std::string> doubtful;       ///< hosts of whose links no two measurements agreed

  bool empty() const { return pairs.empty() && links.empty() && islands.empty(); }
  /// Takes over what newer measurements say of their hosts. What is known of other hosts stays.
  void update(const MeasuredHosts& newer);
};

nlohmann::json to_json(const MeasuredHosts& hosts);
/// Throws Error(InvalidArgument) for figures that no network can have, more hosts than a job can have, a host paired
/// with itself or in two islands; and nlohmann::json::exception.
MeasuredHosts measured_hosts_of(const nlohmann::json& page);

/// "25 MB/s", "1.2 GB/s".
std::string rate_text(double bytes_per_second);
/// What is slower than the rest, and what is in doubt, one line each: "link host2: 25 MB/s".
std::vector<std::string> lines_of(const MeasuredHosts& hosts);
/// Of what no two measurements agreed: "a – b (25 MB/s at best), all links of a (1 GB/s at best)"; "": of nothing.
std::string doubts_of(const MeasuredHosts& hosts);

}  // namespace tutti::select
