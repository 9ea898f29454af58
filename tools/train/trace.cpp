#include "tools/train/trace.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>

#include "base/format.hpp"

namespace tutti::tools {

void check_trace_names(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (file.ends_with(".svg") || file.ends_with(".json")) continue;
    throw_error(Code::InvalidArgument, "--trace {}: the name ends in .svg (a picture) or .json (a Chrome trace)", file);
  }
}

train::StepReport traced_step(train::Trainer& trainer, const std::vector<std::string>& files, bool writes) {
  train::StepReport report;
  const train::Timeline timeline = trainer.trace_step(report);
  if (!writes) return report;
  for (const std::string& file : files) {
    std::ofstream out(file);
    out << (file.ends_with(".svg") ? timeline_svg(timeline) : chrome_trace(timeline)) << std::flush;
    if (!out) throw_error(Code::SystemError, "--trace {}: {}", file, std::strerror(errno));
  }
  fmt::print("# bubble of step {}: {:.1f} % measured, {:.1f} % by {}\n", report.step, 100 * timeline.bubble(),
             100 * timeline.formula(), bubble_text(timeline.schedule));
  return report;
}

}  // namespace tutti::tools
