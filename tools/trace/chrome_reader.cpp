#include "tools/trace/chrome_reader.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/format.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

struct Thread {
  std::string name;
  std::vector<Bar> bars;
};

struct Process {
  std::string name;
  std::map<int64_t, Thread> threads;
};

std::string shown(const nlohmann::json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// What a viewer shows of an event.
std::string words_of(const nlohmann::json& event, const Bar& bar) {
  std::string text = fmt::format("{}: {} ms at {} ms", event.value("name", "?"),
                                 time_digits((bar.end - bar.start) * 1e3), time_digits(bar.start * 1e3));
  if (!event.contains("args")) return text;
  for (const auto& [name, value] : event["args"].items()) {
    if (name != "label") text += fmt::format(", {} {}", name, shown(value));
  }
  return text;
}

Bar bar_of(const nlohmann::json& event) {
  Bar bar;
  bar.start = event.at("ts").get<double>() * 1e-6;
  bar.end = bar.start + std::max(0.0, event.at("dur").get<double>()) * 1e-6;
  const std::string name = event.value("name", "");
  bar.kind = event.value("cat", "other");
  if (bar.kind == "call") bar.kind = name.substr(0, name.find('('));  // "all_reduce(count=4, f32, sum)"
  bar.label = event.contains("args") ? event["args"].value("label", name) : name;
  if (event.contains("args")) bar.shade = event["args"].value("chunk", 0);
  bar.text = words_of(event, bar);
  return bar;
}

void read_name(const nlohmann::json& event, std::map<int64_t, Process>& processes) {
  const std::string what = event.value("name", "");
  if (what != "process_name" && what != "thread_name") return;
  Process& process = processes[event.at("pid").get<int64_t>()];
  const std::string name = event.at("args").at("name").get<std::string>();
  (what == "process_name" ? process.name : process.threads[event.value("tid", int64_t{0})].name) = name;
}

/// "rank 3: stage 1" and "rank 3 of world (process 17 on a)" are rank 3, with a note.
TimelineGroup group_of(const Process& process) {
  size_t cut = process.name.size(), skip = 0;
  for (const std::string border : {": ", " of ", " ("}) {
    const size_t at = process.name.find(border);
    if (at < cut) cut = at, skip = border == ": " ? 2 : 1;
  }
  return {process.name.substr(0, cut), process.name.substr(std::min(cut + skip, process.name.size())), {}};
}

void add_notes(const nlohmann::json& page, TimelinePicture& picture) {
  picture.title = "trace";
  if (!page.contains("otherData")) return;
  const nlohmann::json& other = page["otherData"];
  picture.title = other.value("title", picture.title);
  if (other.contains("note")) picture.notes.push_back(shown(other["note"]));
  if (!other.contains("notes")) return;
  for (const nlohmann::json& note : other["notes"]) picture.notes.push_back(shown(note));
}

/// Threads of one name are one row.
void add_rows(Process& process, TimelinePicture& picture) {
  TimelineGroup group = group_of(process);
  for (auto& [number, thread] : process.threads) {
    if (thread.bars.empty()) continue;
    const auto same = std::find_if(group.rows.begin(), group.rows.end(),
                                   [&name = thread.name](const TimelineRow& row) { return row.name == name; });
    if (same == group.rows.end()) {
      group.rows.push_back({thread.name, false, std::move(thread.bars)});
    } else {
      same->side_by_side = true;
      same->bars.insert(same->bars.end(), thread.bars.begin(), thread.bars.end());
    }
  }
  if (!group.rows.empty()) picture.groups.push_back(std::move(group));
}

bool has_shades(const TimelinePicture& picture) {
  for (const TimelineGroup& group : picture.groups) {
    for (const TimelineRow& row : group.rows) {
      if (std::any_of(row.bars.begin(), row.bars.end(), [](const Bar& bar) { return bar.shade > 0; })) return true;
    }
  }
  return false;
}

TimelinePicture read_page(const nlohmann::json& page) {
  std::map<int64_t, Process> processes;
  for (const nlohmann::json& event : page.at("traceEvents")) {
    const std::string phase = event.at("ph").get<std::string>();
    if (phase == "M") read_name(event, processes);
    if (phase != "X") continue;
    processes[event.at("pid").get<int64_t>()].threads[event.value("tid", int64_t{0})].bars.push_back(bar_of(event));
  }
  TimelinePicture picture;
  add_notes(page, picture);
  for (auto& [number, process] : processes) add_rows(process, picture);
  if (has_shades(picture)) picture.notes.push_back("Lighter: a rank's later chunks of layers.");
  return picture;
}

/// Seconds of a row. What is under way twice counts once, and waits do not count as busy.
struct Spent {
  double busy = 0, waits = 0;
};
Spent spent_in(const TimelineRow& row) {
  std::vector<const Bar*> bars;
  for (const Bar& bar : row.bars) bars.push_back(&bar);
  std::sort(bars.begin(), bars.end(), [](const Bar* a, const Bar* b) { return a->start < b->start; });
  Spent spent;
  double until = -std::numeric_limits<double>::infinity();
  for (const Bar* bar : bars) {
    spent.busy += std::max(0.0, bar->end - std::max(bar->start, until));
    until = std::max(until, bar->end);
    if (bar->kind == "wait") spent.waits += bar->end - bar->start;
  }
  spent.busy -= spent.waits;
  return spent;
}

}  // namespace

bool is_chrome_trace(const std::string& text) { return text.find("\"traceEvents\"") != std::string::npos; }

TimelinePicture picture_of(const nlohmann::json& page) {
  try {
    TimelinePicture picture = read_page(page);
    if (!picture.groups.empty()) return picture;
  } catch (const nlohmann::json::exception& error) {
    throw_error(Code::InvalidArgument, "this is not a Chrome trace: {}", error.what());
  }
  throw_error(Code::InvalidArgument, "the trace has nothing that lasted (no event of the phase X)");
}

std::string text_of(const TimelinePicture& picture) {
  double from = std::numeric_limits<double>::infinity(), to = 0;
  size_t name = 4, row_name = 3;
  for (const TimelineGroup& group : picture.groups) {
    name = std::max(name, group.name.size());
    for (const TimelineRow& row : group.rows) {
      row_name = std::max(row_name, row.name.size());
      for (const Bar& bar : row.bars) from = std::min(from, bar.start), to = std::max(to, bar.end);
    }
  }
  std::string text = fmt::format("{}: {} ms\n  {:<{}}  {:<{}}  {:>7}  {:>9}  {:>6}  {:>9}\n", picture.title,
                                 time_digits((to - from) * 1e3), "rank", name, "row", row_name, "events", "busy, ms",
                                 "share", "waits, ms");
  for (const TimelineGroup& group : picture.groups) {
    for (const TimelineRow& row : group.rows) {
      const Spent spent = spent_in(row);
      text += fmt::format("  {:<{}}  {:<{}}  {:>7}  {:>9}  {:>4.0f} %  {:>9}\n", group.name, name, row.name, row_name,
                          row.bars.size(), time_digits(spent.busy * 1e3), 100 * spent.busy / std::max(1e-12, to - from),
                          time_digits(spent.waits * 1e3));
    }
  }
  for (const std::string& note : picture.notes) text += note + "\n";
  return text;
}

}  // namespace tutti::tools
