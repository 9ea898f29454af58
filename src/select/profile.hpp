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
#include <vector>

#include "exec/method.hpp"
#include "plan/grouping.hpp"
#include "select/measured_hosts.hpp"
#include "select/measured_on.hpp"
#include "topo/graph.hpp"
#include "tutti/types.hpp"

namespace tutti::select {

/// "2 ranks, shm", "8 ranks in groups of 4, shm+tcp, sharing cores".
std::string situation_of(const plan::Grouping& groups, const std::string& transports, bool sharing_cores);
/// Of calls that processors of another kind run: "4 ranks on 4 GPUs, NVLink". `processor`: one of so many. `over`: the
/// kinds of the slowest paths between them (MachineNotes::over); "": unknown. `host_memory`: links lie on the host.
std::string situation_on(const plan::Grouping& groups, uint64_t count, const char* processor, const std::string& over,
                         bool host_memory);

/// Is it a situation of such calls?
bool is_on_processors(const std::string& situation);

/// What times are kept by: an algorithm, "ring"; with a method for memory of GPUs, "ring by ll".
std::string candidate_name(const std::string& algorithm, const exec::Method& method);

struct MeasuredLink {
  double alpha = 0;  ///< seconds for an empty message
  double beta = 0;   ///< seconds per byte
};

struct Profile {
  std::vector<MeasuredMachine> machines;      ///< all hosts that it was measured on; none: an older version wrote it
  std::map<std::string, MeasuredLink> links;  ///< "threads", "processes", "tcp" …: the slowest pair of each
  std::optional<double> gamma;                ///< seconds per byte folded
  std::optional<MeasuredGpus> gpus;           ///< none: no calls on memory of GPUs were measured
  /// Between two GPUs, by the kind of their path ("NVLink"): the slowest pair of each.
  std::map<std::string, MeasuredLink> gpu_links;
  MeasuredHosts hosts;                       ///< the network between hosts
  using Times = std::map<uint64_t, double>;  ///< seconds of a call, by bytes of a block
  /// By situation, collective, and candidate_name().
  std::map<std::string, std::map<Collective, std::map<std::string, Times>>> measured;

  /// Between two measured sizes, their times are interpolated (both on logarithmic scales). Below the smallest: its
  /// time; above the largest: in proportion. None where a neighbouring size of the collective was not measured.
  std::optional<double> seconds(const std::string& situation, Collective collective, const std::string& candidate,
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
/// Throws Error if TUTTI_PROFILE names a file that cannot be read, or that was measured on another machine. (A fault in
/// the cache folder is only warned about.)
std::shared_ptr<const Profile> local_profile();
/// Has it times of calls on host memory? One of GPUs or of links alone has not.
bool has_host_profile();
/// Puts what is known of this host into machine_constants(): the quick calibration, unless the profile has times of
/// calls; and above it what the profile has measured of links.
void use_local_figures();
/// Why this is a profile of other machines than `here`, in words that follow the file's name; "" if it is of this one,
/// or does not say of which.
std::string why_of_another(const Profile& profile, const MeasuredMachine& here);
/// The same for GPUs; "" too where it has no times of GPUs.
std::string why_of_other_gpus(const Profile& profile, const MeasuredGpus& here);
/// Writes it for this user only, at once or not at all. Throws Error(SystemError).
void save_profile(const Profile& profile, const std::string& path);

}  // namespace tutti::select
