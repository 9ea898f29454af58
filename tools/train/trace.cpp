#include "tools/train/trace.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "tools/trace/chrome_reader.hpp"

namespace tutti::tools {

void check_trace_names(const std::vector<std::string>& files) {
  for (const std::string& file : files) {
    if (file.ends_with(".svg") || file.ends_with(".json")) continue;
    throw_error(Code::InvalidArgument, "--trace {}: the name ends in .svg (a picture) or .json (a Chrome trace)", file);
  }
}

std::vector<OutputFile> open_traces(const std::vector<std::string>& names) {
  std::vector<OutputFile> files;
  for (const std::string& name : names) files.emplace_back("--trace", name, false);
  return files;
}

train::StepReport traced_step(train::Trainer& trainer, const std::vector<std::string>& names,
                              std::vector<OutputFile>& files) {
  train::StepReport report;
  const train::Timeline timeline = trainer.trace_step(report);
  if (files.empty()) return report;
  const std::string trace = chrome_trace(timeline);
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].write(names[i].ends_with(".svg") ? to_svg(picture_of(nlohmann::json::parse(trace))) : trace);
    files[i].close();
  }
  if (timeline.shape.ranks == 1) return report;
  fmt::print("# bubble of step {}: {:.1f} % measured, {:.1f} % by {}\n", report.step, 100 * timeline.bubble(),
             100 * timeline.formula(), bubble_text(timeline.schedule));
  return report;
}

}  // namespace tutti::tools
