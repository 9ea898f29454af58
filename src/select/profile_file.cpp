// Where profiles lie.
#include <dirent.h>
#include <algorithm>

#include <mutex>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/private_file.hpp"
#include "select/calibration.hpp"
#include "select/profile.hpp"
#include "topo/constants.hpp"
#include "topo/detect.hpp"

namespace tutti::select {
namespace {

constexpr size_t kMaxProfileText = size_t{16} << 20;
constexpr const char* kNone = "off";

bool describes_another_machine() { return foreign_env("HWLOC_XMLFILE") || foreign_env("HWLOC_SYNTHETIC"); }

bool has_profiles(const std::string& folder) {
  DIR* const open = opendir(folder.c_str());
  if (open == nullptr) return false;
  bool any = false;
  while (const dirent* const entry = readdir(open)) {
    const std::string_view name(entry->d_name);
    any = any || (name.size() > 5 && name.substr(name.size() - 5) == ".json" && name.substr(0, 6) != "synth-");
  }
  closedir(open);
  return any;
}

/// This machine's key. Detection takes longer than creating a communicator, so the key is kept, by boot.
std::string key_of_this_machine(const std::string& folder) {
  const auto boot =
      describes_another_machine() ? std::nullopt : read_file("/proc/sys/kernel/random/boot_id", kMaxProfileText, false);
  const std::string memo = folder + "/boot-" + (boot ? boot->substr(0, boot->find('\n')) : "");
  constexpr size_t kDigits = 16;
  if (boot) {
    const auto known = read_file(memo, kMaxProfileText, true);
    if (known && known->size() == kDigits && known->find_first_not_of("0123456789abcdef") == std::string::npos) {
      return *known;
    }
  }
  std::string key = fmt::format("{:016x}", machine_key(topo::local_topology()));
  if (boot) write_private(memo, key);
  return key;
}

std::string path_in(const std::string& folder) { return folder + "/" + key_of_this_machine(folder) + ".json"; }

void use(const Profile& profile) {
  MachineConstants& constants = internal::constants_in_use;
  const auto put = [&](const char* kind, double& alpha, double& beta) {
    const auto link = profile.links.find(kind);
    if (link != profile.links.end()) alpha = link->second.alpha, beta = link->second.beta;
  };
  put("threads", constants.local_alpha, constants.local_beta);
  put("processes", constants.shm_alpha, constants.shm_beta);
  put("tcp", constants.tcp_alpha, constants.tcp_beta);  // predictions without a job assume it between hosts
  if (profile.gamma) constants.fold_gamma = *profile.gamma;
}

/// Throws Error(InvalidArgument) for a profile of another machine. One that cannot be described may be this one.
void check_machine(const Profile& profile, const std::string& name) {
  std::string why;
  try {
    why = why_of_another(profile, measured_machine(topo::kept_topology()));
  } catch (const Error& error) {
    log_debug("{} may be of another machine: this one's topology is unknown ({})", name, error.what());
  }
  if (why.empty()) return;
  throw_error(Code::InvalidArgument, "{} {}: `tutti tune` measures here, TUTTI_PROFILE=off uses none", name, why);
}

/// What TUTTI_PROFILE names.
std::shared_ptr<const Profile> load_given(const std::string& path) {
  const auto text = read_file(path, kMaxProfileText, false);
  if (!text) throw_error(Code::InvalidArgument, "TUTTI_PROFILE: there is no file {}; `tutti tune` makes it", path);
  const std::string name = "TUTTI_PROFILE: " + path;
  auto profile = std::make_shared<const Profile>(parse_profile(*text, name));
  if (!profile->machines.empty()) {
    check_machine(*profile, name);
  } else if (env().local_rank.value_or(0) == 0) {
    log_warn(
        "{} does not say on which machine it was measured (an older version wrote it); it is used: `tutti tune` "
        "adds what is missing",
        name);
  }
  return profile;
}

std::shared_ptr<const Profile> load_profile() {
  const std::string& given = env().profile;
  if (given == kNone) return nullptr;
  if (!given.empty()) return load_given(given);
  const std::string folder = cache_folder();
  if (folder.empty() || !has_profiles(folder)) return nullptr;
  try {
    const std::string path = path_in(folder);
    const auto text = read_file(path, kMaxProfileText, true);
    if (!text) return nullptr;
    auto profile = std::make_shared<const Profile>(parse_profile(*text, path));
    check_machine(*profile, path);
    return profile;
  } catch (const Error& error) {
    log_warn("the profile of this machine is not used: {}; `tutti tune` makes a new one, TUTTI_PROFILE=off uses none",
             error.what());
    return nullptr;
  }
}

}  // namespace

uint64_t machine_key(topo::Graph graph) {
  for (topo::Node& node : graph.nodes) node.usable.clear(), node.quota = 0;
  return hash_of(graph);
}

std::string profile_path(const std::string& given) {
  if (given == kNone) return "";
  if (!given.empty()) return given;
  const std::string folder = cache_folder();
  return folder.empty() ? "" : path_in(folder);
}

std::shared_ptr<const Profile> local_profile() {
  static std::once_flag once;  // a failed attempt is made again
  static std::shared_ptr<const Profile> loaded;
  std::call_once(once, [] {
    loaded = load_profile();
    if (loaded != nullptr) use(*loaded);
  });
  return loaded;
}

bool has_host_profile() {
  const auto profile = local_profile();
  return profile != nullptr && std::any_of(profile->measured.begin(), profile->measured.end(),
                                           [](const auto& one) { return !is_on_processors(one.first); });
}

void use_local_figures() {
  const auto profile = local_profile();
  if (has_host_profile()) return;
  local_calibration();
  static std::once_flag once;
  if (profile != nullptr) std::call_once(once, [&] { use(*profile); });  // above the calibration
}

void save_profile(const Profile& profile, const std::string& path) { write_private(path, profile.text()); }

}  // namespace tutti::select
