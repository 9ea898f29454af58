#include "tools/lab/page.hpp"

#include <nlohmann/json.hpp>

#include "base/format.hpp"
#include "tools/embedded_text.hpp"
#include "tools/lab/lesson.hpp"
#include "train/planner/formulas.hpp"
#include "train/planner/published.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;
using nlohmann::json;

json sheet_json(const planner::Sheet& sheet) {
  json inputs = json::array(), rows = json::array();
  for (const planner::Input& i : sheet.inputs())
    inputs.push_back({{"name", i.name}, {"unit", i.unit}, {"label", i.label}});
  for (const planner::Row& r : sheet.rows()) {
    rows.push_back({{"part", name_of(r.part)},
                    {"name", r.name},
                    {"when", r.when},
                    {"formula", r.formula},
                    {"unit", r.unit},
                    {"label", r.label},
                    {"source", r.source}});
  }
  return {{"inputs", inputs}, {"rows", rows}};
}

/// By the symbols of the formulas.
json model_json(const std::string& name, const std::string& label, const planner::Model& m) {
  return {{"name", name},           {"label", label},    {"Ψ", m.parameters},   {"Ψe", m.in_experts},
          {"L", m.layers},          {"h", m.hidden},     {"a", m.heads},        {"da", m.attention},
          {"kv", m.keys},           {"f", m.ffn},        {"w", m.mlp_matrices}, {"drop", m.dropout ? 1 : 0},
          {"s", m.sequence},        {"V", m.vocabulary}, {"E", m.experts},      {"k", m.top_k},
          {"ks", m.shared_experts}, {"kn", m.fanout}};
}

json cluster_json(const std::string& name, const std::string& label, const planner::Cluster& c) {
  return {{"name", name},           {"label", label},
          {"H", c.gpus_per_host},   {"M", c.memory},
          {"η_m", c.matmul},        {"W_mem", c.memory_bandwidth},
          {"u", c.usable},          {"F", c.flops},
          {"η", c.efficiency},      {"ω", c.contention},
          {"α_in", c.alpha_in},     {"α_out", c.alpha_out},
          {"W_in", c.bandwidth_in}, {"W_out", c.bandwidth_out}};
}

json sources_json() {
  json sources = json::array();
  for (const auto& part : {planner::sources(), lesson_sources()}) {
    for (const planner::Source& source : part) {
      sources.push_back({{"key", source.key}, {"text", source.text}, {"url", source.url}});
    }
  }
  return sources;
}

json published_json() {
  json runs = json::array();
  for (const planner::PublishedRun& run : planner::published_runs()) {
    const planner::Prediction found = planner::predict(run);
    const planner::Layout& l = found.candidate.layout;
    runs.push_back({{"name", run.name},
                    {"label", run.label},
                    {"source", run.source},
                    {"layout", {{"tp", l.tp}, {"pp", l.pp}, {"dp", l.dp}, {"ep", l.ep}, {"zero", l.zero}}},
                    {"counted", run.with_recomputation ? "HFU" : "MFU"},
                    {"published", run.published},
                    {"predicted", found.share},
                    {"error", found.error},
                    {"fits", found.fits},
                    {"assumed", run.assumed}});
  }
  return runs;
}

json sheets_json() {
  json sheets{{"step", sheet_json(planner::step_sheet())},
              {"guess", sheet_json(planner::guess_sheet())},
              {"ring", sheet_json(planner::ring_sheet())}};
  for (const LessonSheet& lesson : lesson_sheets()) sheets[lesson.name] = sheet_json(lesson.sheet);
  return sheets;
}

/// The curves that the search needed; of other groups the page takes rings.
json calls_data(const planner::CallTimes& times) {
  json curves = json::array();
  for (const auto& [of, curve] : times.curves()) {
    const auto& [call, group] = of;
    curves.push_back({{"call", name_of(call)}, {"ranks", group.ranks}, {"in_host", group.in_host}, {"seconds", curve}});
  }
  return {{"first", planner::CallTimes::kFirst}, {"curves", curves}};
}

json page_data(const LabScenario& lab) {
  const planner::Scenario& s = lab.scenario;
  json data{{"models", json::array()}, {"clusters", json::array()}};
  if (lab.model_name == "custom") data["models"].push_back(model_json("custom", lab.model_label, s.model));
  for (const planner::NamedModel& m : planner::named_models()) {
    data["models"].push_back(model_json(m.name, m.label, planner::completed(m.model)));
  }
  for (const planner::NamedCluster& c : planner::named_clusters()) {
    data["clusters"].push_back(cluster_json(c.name, c.label, c.cluster));
  }
  data["sources"] = sources_json();
  data["published"] = published_json();
  data["sheets"] = sheets_json();
  data["start"] = {{"model", lab.model_name},    {"cluster", cluster_json(lab.cluster_name, "", s.cluster)},
                   {"s", s.model.sequence},      {"G", s.cluster.gpus},
                   {"B", s.job.batch},           {"sched", static_cast<int>(s.job.schedule)},
                   {"chunks", s.job.chunks},     {"sp", s.job.sequence_parallel ? 1 : 0},
                   {"gb", s.job.gradient_bytes}, {"fa", s.job.flash_attention ? 1 : 0},
                   {"p8", s.job.matmul_rate}};
  if (s.times != nullptr) data["calls"] = calls_data(*s.times);
  return data;
}

/// JSON that may stand in a <script>: it contains no "<".
std::string in_script(const json& data) {
  std::string text;
  for (const char c : data.dump()) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

std::string_view embedded(std::string_view name) {
  for (const EmbeddedText& file : lab_texts()) {
    if (file.name == name) return file.text;
  }
  throw_error(Code::InternalError, "the page has no file {}", name);
}

}  // namespace

std::string lab_page(const LabScenario& lab) {
  constexpr std::string_view kOpen = "{{", kClose = "}}";  // {{style.css}}: that file; {{data}}: the data
  std::string_view rest = embedded("page.html");
  std::string page;
  for (size_t at = rest.find(kOpen); at != std::string_view::npos; at = rest.find(kOpen)) {
    const size_t end = rest.find(kClose, at);
    const std::string_view name = rest.substr(at + kOpen.size(), end - at - kOpen.size());
    page += rest.substr(0, at);
    page += name == "data" ? in_script(page_data(lab)) : std::string(embedded(name));
    rest.remove_prefix(end + kClose.size());
  }
  return page += rest;
}

}  // namespace tutti::tools
