#include "comm/configuration.hpp"

#include <nlohmann/json.hpp>
#include <vector>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "base/version.hpp"
#include "link/link.hpp"
#include "select/calibration.hpp"
#include "select/forced.hpp"
#include "select/profile.hpp"
#include "topo/detect.hpp"
#include "transports/transport.hpp"

namespace tutti::comm {
namespace {

using nlohmann::json;

constexpr int kPlanFormat = 1;
constexpr const char* kCmaWords[] = {"off", "auto", "always"};  // by Cma
constexpr const char* kSynthWords[] = {"off", "kept", "auto"};  // by Synth

/// A profile is named by its contents.
const std::string& profile_text() {
  static const std::string kText = [] {  // once a process, as it is read
    const auto profile = select::local_profile();
    return profile == nullptr ? "none" : fmt::format("{:016x}", profile->hash());
  }();
  return kText;
}

}  // namespace

std::string configuration() {
  topo::refuse_description_of_another();
  select::use_local_figures();      // before links' costs are asked for
  std::vector<std::string> usable;  // two ranks must choose the same, and some are modules that a host may lack
  if (env().transport.empty()) {
    for (const transports::TransportEntry& entry : transports::transports()) usable.emplace_back(entry.name);
  }
  const json all = {{"version", version()},
                    {"plan format", kPlanFormat},
                    {"link format", link::kLinkFormat},
                    {"TUTTI_ALGO", env().algorithm},
                    {"TUTTI_CMA", kCmaWords[static_cast<size_t>(env().cma)]},
                    {"TUTTI_GROUPS", env().groups},
                    {"the profile (TUTTI_PROFILE, `tutti tune`; TUTTI_PROFILE=off uses none)", profile_text()},
                    {"TUTTI_REPRODUCIBLE", env().reproducible},
                    {"TUTTI_MESSAGE", env().message.value},
                    {"TUTTI_MAX_BLOCKS", env().max_blocks},
                    {"TUTTI_METHOD", select::forced_methods_text()},
                    {"TUTTI_ORDER", env().order},
                    {"TUTTI_SYNTH", kSynthWords[static_cast<size_t>(env().synth)]},
                    {"TUTTI_THREADS", env().threads},
                    {"TUTTI_TRANSPORT", env().transport},
                    {"the list of transports (TUTTI_MODULES adds to it, TUTTI_TRANSPORT takes one)", usable}};
  return all.dump();
}

void compare_configurations(const control::Endpoint& endpoint) {
  const json mine = json::parse(endpoint.info(endpoint.rank()));
  for (Rank peer = 0; peer < endpoint.ranks(); ++peer) {
    if (endpoint.info(peer) == endpoint.info(endpoint.rank())) continue;
    const json theirs = parse_shallow_json(endpoint.info(peer), false);
    for (const auto& [name, value] : mine.items()) {
      const json other = theirs.is_object() && theirs.contains(name) ? theirs[name] : json();
      if (other == value) continue;
      throw_error(Code::Mismatch, "{} is {} on rank {} but {} on rank {}; it must be the same on all ranks", name,
                  value.dump(), endpoint.rank(), printable(other.dump()), peer);
    }
    throw_error(Code::Mismatch, "the configurations of ranks {} and {} differ", peer, endpoint.rank());
  }
}

}  // namespace tutti::comm
