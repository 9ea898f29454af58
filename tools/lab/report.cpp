#include "tools/lab/report.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/format.hpp"
#include "train/planner/formulas.hpp"

namespace tutti::tools {
namespace {

namespace planner = train::planner;
using planner::Candidate;
using planner::Figure;

constexpr size_t kColumns = 100;
constexpr const char* kRecomputed[] = {"nothing recomputed", "selective recomputation", "all recomputed"};

/// The rows of the table; `--all` shows the others too.
struct Section {
  const char* title;
  std::vector<std::string_view> rows;
};
const std::array<Section, 3>& sections() {
  static const std::array<Section, 3> kSections = {{
      {"Memory of a GPU",
       {"weights", "gradients", "optimizer", "states", "activations", "buffers", "total", "budget", "free"}},
      {"Sent by a GPU in a step", {"sent_tp", "sent_cp", "sent_ep", "sent_pp", "sent_dp", "sent"}},
      {"Time of a step",
       {"T_comp", "T_tp", "E_cp", "E_ep", "T_bubble", "T_pp", "E_dp", "T_opt", "T_step", "tokens", "MFU"}},
  }};
  return kSections;
}

/// The number of characters, not of bytes.
size_t width_of(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & '\xC0') != '\x80'; }));
}

std::string padded(std::string text, size_t width) {
  const size_t has = width_of(text);
  return text.append(width > has ? width - has : 0, ' ');
}

/// A label or a formula that finds no room stands on a line of its own.
std::string line(const Figure& figure) {
  constexpr size_t kLabel = 23, kName = 11;
  const planner::Row& row = *figure.row;
  const bool short_label = width_of(row.label) <= kLabel;
  const std::string label = short_label ? padded(row.label, kLabel) : fmt::format("{}\n  {:23}", row.label, "");
  const std::string value = fmt::format(" {} {:>11}", padded(row.name, kName), value_text(figure.value, row.unit));
  const bool fits = 2 + kLabel + width_of(value) + 2 + width_of(figure.formula) <= kColumns;
  return fmt::format("  {}{}{}{}\n", label, value, fits ? "  " : "\n      = ", figure.formula);
}

/// The names in a formula: letters of any alphabet, digits after them, '_'.
void add_names(std::string_view formula, std::set<std::string>& names) {
  std::string name;
  for (size_t i = 0; i <= formula.size(); ++i) {
    const char c = i < formula.size() ? formula[i] : ' ';
    const bool greek = c == '\xCE' || c == '\xCF', digit = c >= '0' && c <= '9';
    if (greek) {
      name += formula.substr(i++, 2);
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (digit && !name.empty())) {
      name += c;
    } else if (!name.empty()) {
      if (c != '(') names.insert(name);
      name.clear();
    }
  }
}

std::string unit_of(const std::string& name) {
  for (const planner::Input& input : planner::step_sheet().inputs()) {
    if (name == input.name) return input.unit;
  }
  for (const planner::Row& row : planner::step_sheet().rows()) {
    if (name == row.name) return row.unit;
  }
  return "";
}

/// "Where N = 64, Ψr = 7 G, …": what the formulas above use and no line above shows.
std::string legend(const std::set<std::string>& names, const Candidate& of) {
  std::vector<std::string> lines(1, "Where");
  for (const std::string& name : names) {
    const std::string part = fmt::format(" {} = {};", name, value_text(of.at(name.c_str()), unit_of(name)));
    if (width_of(lines.back()) + width_of(part) > kColumns) lines.emplace_back("     ");
    lines.back() += part;
  }
  lines.back().back() = '.';
  return fmt::format("{}\n", fmt::join(lines, "\n"));
}

std::string layout_text(const Candidate& of) {
  const planner::Layout& l = of.layout;
  return fmt::format("dp {} · pp {} · cp {} · ep {} · tp {}, ZeRO-{}, v {}, micro-batch {} (m = {}),\n      {}", l.dp,
                     l.pp, l.cp, l.ep, l.tp, l.zero, l.chunks, l.micro_batch, of.at("m"), kRecomputed[l.recompute]);
}

std::string scenario_text(const LabScenario& lab) {
  const planner::Model& m = lab.scenario.model;
  const planner::Cluster& c = lab.scenario.cluster;
  std::string text =
      fmt::format("{} on {} GPUs of {}, {} a host; a step: {} sequences of {} tokens\n", lab.model_label, c.gpus,
                  value_text(c.memory, "B"), c.gpus_per_host, lab.scenario.job.batch, m.sequence);
  text += fmt::format("  {} layers, hidden size {}, {} heads\n", m.layers, m.hidden, m.heads);
  text += fmt::format("  links of a GPU: {} inside a host", value_text(c.bandwidth_in, "B/s"));
  if (c.gpus > c.gpus_per_host) text += fmt::format(", {} between hosts", value_text(c.bandwidth_out, "B/s"));
  text += "\n";
  const double counted = planner::counted_parameters(m);
  if (std::abs(counted / m.parameters - 1) > 0.005) {
    text +=
        fmt::format("  Ψ = {} as given; this shape has {}\n", value_text(m.parameters, ""), value_text(counted, ""));
  }
  return text + "\n";
}

std::string figures_text(const Candidate& of, bool all) {
  const std::vector<Figure> figures = planner::step_sheet().figures(of.values);
  std::string text;
  std::set<std::string> used, shown;
  const auto show = [&](const Figure& figure) {
    text += line(figure);
    shown.insert(figure.row->name);
    add_names(figure.formula, used);
  };
  for (const Section& section : sections()) {
    const size_t before = text.size();
    text += fmt::format("{}\n", section.title);
    const size_t empty = text.size();
    for (const Figure& figure : figures) {
      const bool in = std::find(section.rows.begin(), section.rows.end(), figure.row->name) != section.rows.end();
      const bool zero = figure.value == 0 && std::string_view(figure.row->name) != "free";
      if (!all && in && !zero) show(figure);
    }
    if (text.size() > empty) {
      text += "\n";
    } else {
      text.resize(before);
    }
  }
  for (const Figure& figure : figures) {
    if (all) show(figure);
  }
  for (const std::string& name : shown) used.erase(name);
  return text + legend(used, of);
}

std::string others_text(const planner::Outcome& outcome) {
  std::string text =
      "\n     dp    pp    cp    ep    tp  ZeRO    v     b      m  recompute    memory      step    MFU\n";
  constexpr const char* kShort[] = {"none", "selective", "all"};
  for (const Candidate& c : outcome.best) {
    const planner::Layout& l = c.layout;
    text +=
        fmt::format("  {:5} {:5} {:5} {:5} {:5} {:5} {:4} {:5} {:6}  {:9} {:>9} {:>9} {:>6}\n", l.dp, l.pp, l.cp, l.ep,
                    l.tp, l.zero, l.chunks, l.micro_batch, c.at("m"), kShort[l.recompute],
                    value_text(c.at("total"), "B"), value_text(c.at("T_step"), "s"), value_text(c.at("MFU"), "share"));
  }
  text += fmt::format("Searched {} layouts: {} timed, {} too large, {} states alone too large, {} surely slower.\n",
                      outcome.layouts, outcome.timed, outcome.too_large, outcome.skipped_memory, outcome.skipped_time);
  return text;
}

nlohmann::ordered_json candidate_json(const Candidate& of) {
  const planner::Layout& l = of.layout;
  nlohmann::ordered_json figures = nlohmann::ordered_json::array(), symbols;
  for (const Figure& figure : planner::step_sheet().figures(of.values)) {
    const planner::Row& row = *figure.row;
    figures.push_back({{"name", row.name},
                       {"part", name_of(row.part)},
                       {"label", row.label},
                       {"value", figure.value},
                       {"unit", row.unit},
                       {"formula", figure.formula},
                       {"source", row.source}});
    symbols[row.name] = figure.value;
  }
  for (const planner::Input& input : planner::step_sheet().inputs()) symbols[input.name] = of.at(input.name);
  return {{"layout",
           {{"dp", l.dp},
            {"pp", l.pp},
            {"cp", l.cp},
            {"ep", l.ep},
            {"tp", l.tp},
            {"zero", l.zero},
            {"recompute", l.recompute},
            {"chunks", l.chunks},
            {"micro_batch", l.micro_batch},
            {"micro_batches", of.at("m")}}},
          {"figures", figures},
          {"symbols", symbols}};
}

}  // namespace

std::string value_text(double value, std::string_view unit) {
  if (unit == "share") return fmt::format("{:.1f} %", value * 100);
  if (value == 0) return unit.empty() ? "0" : fmt::format("0 {}", unit);
  const bool whole = unit.empty() && value == std::floor(value) && std::abs(value) < 1e5;
  if (whole) return fmt::format("{:.0f}", value);
  if (unit == "d" && std::abs(value) >= 999.5) return fmt::format("{:.0f} d", value);
  constexpr const char* kPrefixes[] = {"p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E", "Z", "Y"};
  constexpr int kNone = 4, kLast = 12;
  int prefix = kNone;
  double scaled = std::abs(value);
  while (scaled >= 999.5 && prefix < kLast) scaled /= 1000, ++prefix;
  const bool undivided = unit.empty() || unit == "d" || unit == "h" || unit == "$";  // half a dollar is not 500 m$
  while (scaled < 0.9995 && prefix > 0 && !undivided) scaled *= 1000, --prefix;
  const int small = 1 - static_cast<int>(std::floor(std::log10(scaled)));
  const int digits = scaled < 0.0995 ? small : scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  const bool word = unit.starts_with("token");
  std::string full = fmt::format("{}{}{}", kPrefixes[prefix], word && prefix != kNone ? " " : "", unit);
  return fmt::format("{}{:.{}f}{}{}", value < 0 ? "−" : "", scaled, digits, full.empty() ? "" : " ", full);
}

std::string figure_line(const Figure& figure) { return line(figure); }

std::string lab_table(const LabScenario& lab, const planner::Outcome& outcome, bool all) {
  std::string text = scenario_text(lab);
  if (outcome.best.empty()) {
    return text + "The smallest layout: " + layout_text(*outcome.smallest) + "\n\n" +
           figures_text(*outcome.smallest, all);
  }
  const Candidate& best = outcome.best.front();
  text +=
      fmt::format("Best: {}\n      {} a step, {}, MFU {}\n\n", layout_text(best), value_text(best.at("T_step"), "s"),
                  value_text(best.at("tokens"), "token/s"), value_text(best.at("MFU"), "share"));
  const std::string calls = lab.selector == nullptr ? "" : calls_text(*lab.selector, best.values);
  return text + figures_text(best, all) + calls + run_text(lab, best) + others_text(outcome);
}

nlohmann::ordered_json lab_json(const LabScenario& lab, const planner::Outcome& outcome) {
  nlohmann::ordered_json page{{"model", lab.model_label},      {"gpu", lab.cluster_name},
                              {"fits", !outcome.best.empty()}, {"best", nullptr},
                              {"smallest", nullptr},           {"others", nlohmann::ordered_json::array()}};
  for (const Candidate& c : outcome.best) {
    if (page["best"].is_null()) {
      page["best"] = candidate_json(c);
    } else {
      page["others"].push_back(candidate_json(c));
    }
  }
  if (!outcome.best.empty()) page["run"] = run_json(lab, outcome.best.front());
  if (!outcome.best.empty() && lab.selector != nullptr)
    page["calls"] = calls_json(*lab.selector, outcome.best.front().values);
  if (outcome.best.empty()) page["smallest"] = candidate_json(*outcome.smallest);
  page["search"] = {{"layouts", outcome.layouts},
                    {"timed", outcome.timed},
                    {"states_too_large", outcome.skipped_memory},
                    {"too_large", outcome.too_large},
                    {"certainly_slower", outcome.skipped_time}};
  return page;
}

std::string shortage(const LabScenario& lab, const planner::Fixed& fixed, const Candidate& smallest) {
  const planner::Cluster& cluster = lab.scenario.cluster;
  std::string text = fmt::format(
      "nothing fits: the smallest layout needs {} on each GPU, {} more than the usable {} ({} · {})",
      value_text(smallest.at("total"), "B"), value_text(-smallest.at("free"), "B"),
      value_text(smallest.at("budget"), "B"), value_text(cluster.memory, "B"), value_text(cluster.usable, "share"));
  const int64_t enough = planner::gpus_that_fit(lab.scenario, fixed);
  text += fmt::format("; GPUs of {} would do", value_text(smallest.at("total") / cluster.usable, "B"));
  if (enough > 0) text += fmt::format(", or {} of these", enough);
  return text;
}

}  // namespace tutti::tools
