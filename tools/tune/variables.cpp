#include "tools/tune/variables.hpp"

#include "base/env.hpp"
#include "base/format.hpp"

namespace tutti::tools {

void refuse_what_changes_times(const std::vector<std::string>& exported) {
  for (const std::string& variable : exported) {
    const std::string name = variable.substr(0, variable.find('='));
    for (const char* changes : {"TUTTI_ALGO", "TUTTI_METHOD", "TUTTI_PROFILE", "TUTTI_TRANSPORT", "TUTTI_GROUPS",
                                "TUTTI_PLAN", "TUTTI_REPRODUCIBLE", "TUTTI_THREADS", "TUTTI_ORDER"}) {
      if (name != changes) continue;
      throw_error(Code::InvalidArgument, "-x {}: each measurement sets it, or wants it unset; leave it out", variable);
    }
  }
  const auto refuse = [](bool is_set, const char* name, const auto& value) {
    if (!is_set) return;
    throw_error(Code::InvalidArgument, "{}={} would be measured, but a profile is used without it too; unset it", name,
                value);
  };
  refuse(!env().transport.empty(), "TUTTI_TRANSPORT", env().transport);
  refuse(!env().groups.empty(), "TUTTI_GROUPS", env().groups);
  refuse(!env().plan.empty(), "TUTTI_PLAN", env().plan);
  refuse(!env().method.empty(), "TUTTI_METHOD", env().method);
  refuse(env().reproducible, "TUTTI_REPRODUCIBLE", 1);
  refuse(env().threads > 1, "TUTTI_THREADS", env().threads);
  refuse(!env().order.empty(), "TUTTI_ORDER", env().order);
}

}  // namespace tutti::tools
