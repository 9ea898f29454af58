#include "tools/perf/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/given.hpp"
#include "tools/output_file.hpp"

namespace tutti::tools {
namespace {

const char* redop_of(const PerfOptions& options, const PerfRow& row) {
  return reduces(options.collective) ? op_name(row.op) : "none";
}

int root_of(const PerfOptions& options, const PerfRow& row) { return has_root(options.collective) ? row.root : -1; }

// The table's columns are nccl-tests', in their order, and two more, of which the last is as long as its words.
constexpr int kTimeWidth = 6, kSpeedWidth = 5, kWrongWidth = 4;

/// With nccl-tests' precision.
std::string time_text(double seconds) {
  const double us = seconds * 1e6;
  if (us >= 10000) return fmt::format("{:.0f}", us);
  return us >= 100 ? fmt::format("{:.1f}", us) : fmt::format("{:.2f}", us);
}

std::string speed_text(double gigabytes) { return fmt::format("{:.{}f}", gigabytes, gigabytes < 100 ? 2 : 1); }

std::string half_columns(std::string_view time, std::string_view algbw, std::string_view busbw,
                         std::string_view wrong) {
  return fmt::format(" {:>{}} {:>{}} {:>{}} {:>{}}", time, kTimeWidth, algbw, kSpeedWidth, busbw, kSpeedWidth, wrong,
                     kWrongWidth);
}

/// The busbw of the bound.
std::string bound_column(std::string_view busbw) { return fmt::format(" {:>{}}", busbw, kSpeedWidth); }

/// Has TUTTI_PLAN a plan for these calls?
bool has_plan(Collective collective, size_t ranks) {
  return select::given_plans(env().plan, static_cast<Rank>(ranks)).count(collective) > 0;
}

/// The variables that affect calls and are set: "TUTTI_ALGO=all_reduce:ring".
std::string settings(Collective collective, size_t ranks) {
  constexpr std::string_view kDeciding[] = {"TUTTI_ALGO",         "TUTTI_ARENA", "TUTTI_GROUPS", "TUTTI_MESSAGE",
                                            "TUTTI_REPRODUCIBLE", "TUTTI_PLAN",  "TUTTI_SYNTH",  "TUTTI_TRANSPORT"};
  std::string text;
  for (const EnvRow& row : env_table()) {
    const bool decides = std::find(std::begin(kDeciding), std::end(kDeciding), row.name) != std::end(kDeciding);
    if (!decides || row.value(env()) == row.fallback) continue;
    text += fmt::format(" {}={}", row.name, row.value(env()));
    if (row.name == std::string_view("TUTTI_PLAN") && !has_plan(collective, ranks)) {
      text += fmt::format(" (not used: no plan for {} of {})", name_of(collective), counted(ranks, "rank"));
    }
  }
  return text;
}

/// What ran the calls, in the words of docs/selection.md: "ring/lanes/cma", "two_shot/slots/x8/pushed".
std::string row_words(const Measurement& m) {
  const std::string width = m.width > 1 ? fmt::format("/x{}", m.width) : "";
  return fmt::format("{}/{}{}/{}", m.algorithm, m.method, width, m.delivery);
}

}  // namespace

Report::Report(const PerfOptions& options, std::vector<RankPlace> places, const std::vector<PerfRow>& rows,
               Bounds bounds)
    : options_(options), places_(std::move(places)), bounds_(std::move(bounds)) {
  const auto widen = [](size_t& width, const std::string& text) { width = std::max(width, text.size()); };
  for (const PerfRow& row : rows) {
    widen(widths_.size, std::to_string(row.bytes));
    widen(widths_.count, std::to_string(row.count));
    widen(widths_.type, name_of(row.type));
    widen(widths_.op, redop_of(options_, row));
  }
}

double Report::algbw(const PerfRow& row, const Measurement& m) const {
  return m.seconds > 0 ? static_cast<double>(row.bytes) / m.seconds / 1e9 : 0;
}

double Report::busbw(const PerfRow& row, const Measurement& m) const {
  return algbw(row, m) * bus_factor(options_.collective, static_cast<int>(places_.size()));
}

double Report::bound_busbw(const PerfRow& row, const Measurement& m) const {
  const auto found = bounds_.find(row.root);
  if (found == bounds_.end()) return 0;
  const select::KnownBound* const bound = found->second.of(m.method);
  if (bound == nullptr) return 0;
  // A root does not wait for its call's messages: calls that follow each other take less than the way to a rank.
  const double least =
      has_root(options_.collective) ? bound->seconds_per_byte * static_cast<double>(row.bytes) : bound->of(row.bytes);
  if (least <= 0) return 0;
  return static_cast<double>(row.bytes) / least / 1e9 *
         bus_factor(options_.collective, static_cast<int>(places_.size()));
}

bool Report::output_taken() const { return options_.json == kStandardOutput; }

void Report::header() const {
  if (output_taken()) return;
  fmt::print("# tutti {}: {}, {}; {}, {} timed, {} checked, for each size\n", tuttiGetVersion(),
             name_of(options_.collective), counted(places_.size(), "rank"),
             counted(static_cast<uint64_t>(options_.warmup), "warm-up call"), options_.iterations, options_.checks);
  if (const std::string set = settings(options_.collective, places_.size()); !set.empty())
    fmt::print("# with{}\n", set);
  fmt::print("#\n# Using ranks\n");
  for (size_t rank = 0; rank < places_.size(); ++rank) {
    const RankPlace& place = places_[rank];
    fmt::print("#  Rank {:2} Pid {:6} on {:>10} cpu {:2} [{}]\n", rank, place.pid, place.host, place.cpu,
               place.bound_to);
  }
  if (alone()) {
    fmt::print("# One rank sends nothing, so there is no bandwidth. More ranks: --np 2, -t 2, or tutti run -n 2\n");
  }
  if (options_.bound && bounds_.empty()) {
    fmt::print("# bound: unknown of this collective, or of ranks that share a core or a GPU\n");
  }
  for (const auto& [root, bound] : bounds_) {
    fmt::print("# bound{}: {}\n", has_root(options_.collective) ? fmt::format(", root {}", root) : "",
               bound.known.words);
    if (!bound.of_nvls || bound.of_nvls->words == bound.known.words) continue;
    fmt::print("# bound of calls by nvls: {}\n", bound.of_nvls->words);
  }
  const int half = kTimeWidth + 2 * kSpeedWidth + kWrongWidth + 4;
  fmt::print("#\n#{:>{}}{:>{}}\n", "out-of-place", columns("", "", "", "", "").size() - 1 + half, "in-place", half);
  const auto line = [&](const char* size, const char* count, const char* type, const char* op, const char* root,
                        const char* time, const char* algbw, const char* busbw, const char* wrong) {
    std::string text = columns(size, count, type, op, root);
    text[0] = '#';
    fmt::print("{}", text);
    for (int i = 0; i < 2; ++i) fmt::print("{}", half_columns(time, algbw, busbw, wrong));
    if (options_.bound) fmt::print("{}", bound_column(*busbw == 'b' ? "bound" : busbw));
  };
  line("size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#bad");
  fmt::print(" via row\n");
  line("B", "elem", "", "", "", "us", "GB/s", "GB/s", "");
  fmt::print("\n");
  std::fflush(stdout);
}

/// The first columns, as wide as the rows need.
std::string Report::columns(std::string_view size, std::string_view count, std::string_view type, std::string_view op,
                            std::string_view root) const {
  return fmt::format("{:>{}} {:>{}} {:>{}} {:>{}} {:>4}", size, widths_.size, count, widths_.count, type, widths_.type,
                     op, widths_.op, root);
}

std::string Report::half(const PerfRow& row, const std::optional<Measurement>& m) const {
  if (!m) return half_columns("N/A", "N/A", "N/A", "N/A");
  const std::string wrong = options_.checks > 0 ? fmt::format("{}", m->wrong) : "N/A";
  if (alone()) return half_columns(time_text(m->seconds), "N/A", "N/A", wrong);
  return half_columns(time_text(m->seconds), speed_text(algbw(row, *m)), speed_text(busbw(row, *m)), wrong);
}

void Report::row(const PerfRow& row, const Measurement& out_of_place, const std::optional<Measurement>& in_place) {
  lines_.push_back({row, out_of_place, in_place});
  if (output_taken()) return;
  std::string text = columns(std::to_string(row.bytes), std::to_string(row.count), name_of(row.type),
                             redop_of(options_, row), std::to_string(root_of(options_, row)));
  text += half(row, out_of_place) + half(row, in_place);
  const double most = bound_busbw(row, out_of_place);
  if (options_.bound) text += bound_column(most > 0 ? speed_text(most) : "N/A");
  fmt::print("{} {} {}\n", text, out_of_place.transport, row_words(out_of_place));
  std::fflush(stdout);
}

uint64_t Report::wrong() const {
  uint64_t all = 0;
  for (const Line& line : lines_) all += line.out_of_place.wrong + (line.in_place ? line.in_place->wrong : 0);
  return all;
}

double Report::average_busbw() const {
  double total = 0;
  int number = 0;
  for (const Line& line : lines_) {
    total += busbw(line.row, line.out_of_place);
    ++number;
    if (!line.in_place) continue;
    total += busbw(line.row, *line.in_place);
    ++number;
  }
  return number == 0 ? 0 : total / number;
}

void Report::footer() const {
  if (output_taken()) return;
  fmt::print("# Out of bounds values : {} {}\n", wrong(),
             options_.checks == 0 ? "(not checked)" : (wrong() == 0 ? "OK" : "FAILED"));
  fmt::print("# Avg bus bandwidth    : {}\n", alone() ? "N/A (one rank)" : fmt::format("{:g}", average_busbw()));
  std::fflush(stdout);
}

void Report::write_json() const {
  if (options_.json.empty()) return;
  using nlohmann::json;
  const auto bandwidth = [this](double value) { return alone() ? json(nullptr) : json(value); };
  json page{{"tutti", tuttiGetVersion()},
            {"collective", name_of(options_.collective)},
            {"iterations", options_.iterations},
            {"warmup", options_.warmup},
            {"checks", options_.checks},
            {"wrong", wrong()},
            {"average_busbw", bandwidth(average_busbw())},
            {"ranks", json::array()},
            {"results", json::array()}};
  for (const auto& [root, bound] : bounds_) {
    json one{{"certificate", bound.known.words}, {"exact", bound.known.exact}};
    if (bound.of_nvls) one["of_nvls"] = {{"certificate", bound.of_nvls->words}, {"exact", bound.of_nvls->exact}};
    if (has_root(options_.collective)) one["root"] = root;
    if (bounds_.size() > 1) {
      page["bounds"].push_back(std::move(one));
    } else {
      page["bound"] = std::move(one);
    }
  }
  for (const RankPlace& place : places_) {
    page["ranks"].push_back(
        {{"pid", place.pid}, {"host", place.host}, {"cpu", place.cpu}, {"bound_to", place.bound_to}});
  }
  const auto measured = [&](const PerfRow& row, const Measurement& m) {
    return json{{"time_us", m.seconds * 1e6},
                {"model_us", m.model > 0 ? json(m.model * 1e6) : json(nullptr)},
                {"algbw", bandwidth(algbw(row, m))},
                {"busbw", bandwidth(busbw(row, m))},
                {"wrong", m.wrong},
                {"method", m.method},
                {"window", m.window},
                {"width", m.width},
                {"delivery", m.delivery}};
  };
  for (const Line& line : lines_) {
    page["results"].push_back({{"size", line.row.bytes},
                               {"count", line.row.count},
                               {"type", name_of(line.row.type)},
                               {"redop", redop_of(options_, line.row)},
                               {"root", root_of(options_, line.row)},
                               {"algorithm", line.out_of_place.algorithm},
                               {"transport", line.out_of_place.transport},
                               {"out_of_place", measured(line.row, line.out_of_place)},
                               {"in_place", line.in_place ? measured(line.row, *line.in_place) : json(nullptr)}});
    const double most = bound_busbw(line.row, line.out_of_place);
    if (most > 0) page["results"].back()["bound_busbw"] = most;
  }
  write_file("--json", options_.json, page.dump(2) + "\n");
}

}  // namespace tutti::tools
