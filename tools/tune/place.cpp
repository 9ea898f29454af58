#include "tools/tune/place.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/format.hpp"
#include "base/private_file.hpp"
#include "topo/detect.hpp"

namespace tutti::tools {

select::Profile earlier_profile(const std::string& path, const char* speaker) {
  constexpr size_t kMaxText = size_t{16} << 20;
  try {
    const auto text = read_file(path, kMaxText, true);
    if (text) return select::parse_profile(*text, path);
  } catch (const Error& error) {
    if (speaker != nullptr) fmt::print(stderr, "{}: {}; it is replaced\n", speaker, error.what());
  }
  return {};
}

void check_place(const std::string& path) {
  struct stat found {};
  if (stat(path.c_str(), &found) == 0 && !S_ISREG(found.st_mode)) {
    throw_error(Code::InvalidArgument, "{} is not a regular file; name one for the profile by TUTTI_PROFILE or -o",
                path);
  }
  const std::string why =
      select::why_of_another(earlier_profile(path), select::measured_machine(topo::local_topology()));
  if (why.empty()) return;
  throw_error(Code::InvalidArgument, "{} {}: name another file by TUTTI_PROFILE or -o, or remove it", path, why);
}

void refuse_stand_in(const select::MeasuredGpus& gpus, const std::string& path, bool unnamed) {
  if (!select::is_stand_in(gpus)) return;
  const std::string what =
      fmt::format("the GPUs here ({}) are those of a stand-in for NVIDIA's driver, whose times mean nothing",
                  fmt::join(gpus.models, ", "));
  if (unnamed) throw_error(Code::InvalidUsage, "{}: name a file for them by -o", what);
  const select::Profile earlier = earlier_profile(path);
  if (access(path.c_str(), F_OK) != 0 || (earlier.gpus && select::is_stand_in(*earlier.gpus))) return;
  throw_error(Code::InvalidUsage, "{}, and {} has times of a real machine: name another file by -o", what, path);
}

void take_gpus(const select::Profile& measured, select::Profile& profile, const std::string& path) {
  if (profile.gpus && profile.gpus->models != measured.gpus->models) {
    fmt::print("tutti tune: {} had times of GPUs {}, which are removed\n", path, fmt::join(profile.gpus->models, ", "));
    std::erase_if(profile.measured, [](const auto& one) { return select::is_on_processors(one.first); });
    profile.gpu_links.clear();
  }
  profile.gpus = measured.gpus;
  for (const auto& [kind, link] : measured.gpu_links) profile.gpu_links[kind] = link;
}

void take_machines(const select::Profile& measured, select::Profile& profile) {
  for (const select::MeasuredMachine& machine : measured.machines) {
    auto& all = profile.machines;
    if (std::find(all.begin(), all.end(), machine) == all.end()) all.push_back(machine);
  }
}

}  // namespace tutti::tools
