#include "select/measured_on.hpp"

#include <algorithm>
#include <string_view>

#include "base/counted.hpp"
#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "select/profile.hpp"

namespace tutti::select {
namespace {

using nlohmann::json;
using topo::NodeKind;

constexpr size_t kMaxModels = 64, kMaxName = 200;
constexpr std::string_view kStandInName = "Fake ";  // begins the names of the GPUs of tests/gpu/fake

/// A text of a file, for people.
std::string name_from(const json& value) {
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() > kMaxName) throw_error(Code::InvalidArgument, "a name has more than {} bytes", kMaxName);
  return printable(text);
}

}  // namespace

MeasuredMachine measured_machine(const topo::Graph& graph) {
  MeasuredMachine machine{.packages = graph.all(NodeKind::Package).size(),
                          .cores = graph.all(NodeKind::Core).size(),
                          .numa = graph.all(NodeKind::Numa).size(),
                          .key = machine_key(graph)};
  for (const topo::NodeId package : graph.all(NodeKind::Package)) {
    if (machine.model.empty()) machine.model = printable(graph.nodes[package].model).substr(0, kMaxName);
  }
  return machine;
}

std::string to_text(const MeasuredMachine& machine) {
  const uint64_t packages = std::max<uint64_t>(1, machine.packages), each = machine.cores / packages;
  const std::string cores = machine.cores == 0                 ? ""
                            : each * packages == machine.cores ? " of " + counted(each, "core")
                                                               : " with " + counted(machine.cores, "core");
  return fmt::format("{}{}{}{}{}", counted(packages, "package"), cores,
                     packages > 1 && machine.cores > 0 && each * packages == machine.cores ? " each" : "",
                     machine.numa > 1 ? fmt::format(" in {} NUMA nodes", machine.numa) : "",
                     machine.model.empty() ? "" : fmt::format(" ({})", machine.model));
}

bool is_same(const MeasuredMachine& a, const MeasuredMachine& b) {
  const auto alike = [](uint64_t one, uint64_t other) { return one == 0 || other == 0 || one == other; };
  return (a.model.empty() || b.model.empty() || a.model == b.model) && alike(a.packages, b.packages) &&
         alike(a.cores, b.cores) && alike(a.numa, b.numa);
}

bool is_stand_in(const MeasuredGpus& gpus) {
  return std::any_of(gpus.models.begin(), gpus.models.end(),
                     [](const std::string& model) { return model.starts_with(kStandInName); });
}

json to_json(const MeasuredMachine& machine) {
  return {{"model", machine.model},
          {"packages", machine.packages},
          {"cores", machine.cores},
          {"numa", machine.numa},
          {"key", fmt::format("{:016x}", machine.key)}};
}

json to_json(const MeasuredGpus& gpus) { return {{"models", gpus.models}, {"driver", gpus.driver}}; }

MeasuredMachine measured_machine_from(const json& page) {
  const auto& key = page.at("key").get_ref<const std::string&>();
  constexpr size_t kDigits = 16;
  if (key.size() != kDigits || key.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw_error(Code::InvalidArgument, "a machine's key has not {} hexadecimal digits", kDigits);
  }
  return {.model = name_from(page.at("model")),
          .packages = whole_number(page.at("packages")),
          .cores = whole_number(page.at("cores")),
          .numa = whole_number(page.at("numa")),
          .key = std::stoull(key, nullptr, 16)};
}

MeasuredGpus measured_gpus_from(const json& page) {
  MeasuredGpus gpus{.models = {}, .driver = name_from(page.at("driver"))};
  for (const json& model : page.at("models").get_ref<const json::array_t&>()) {
    if (gpus.models.size() == kMaxModels) throw_error(Code::InvalidArgument, "more than {} models of GPUs", kMaxModels);
    gpus.models.push_back(name_from(model));
  }
  return gpus;
}

}  // namespace tutti::select
