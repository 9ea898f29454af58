// tutti trace: the last calls of a job's ranks, who came late to them, and what that cost.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <climits>
#include <memory>
#include <string>
#include <vector>

#include "base/counted.hpp"
#include "base/file_kind.hpp"
#include "base/format.hpp"
#include "base/private_file.hpp"
#include "base/shallow_json.hpp"
#include "tools/commands.hpp"
#include "tools/output_file.hpp"
#include "tools/output_option.hpp"
#include "tools/status/ask.hpp"
#include "tools/trace/chrome.hpp"
#include "tools/trace/chrome_reader.hpp"
#include "tools/trace/report.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kMaxFile = size_t{1} << 30;  // bytes

struct TraceOptions {
  std::vector<std::string> from;    // one process, or files
  std::string chrome, events, svg;  // files to write; "": none
  bool json = false;
};

/// The traces of the processes of this host that belong to the job of `process`.
std::vector<nlohmann::json> traces_of_job(uint32_t process) {
  const nlohmann::json status = ask_status(process);
  std::vector<nlohmann::json> pages;
  size_t elsewhere = 0;
  for (const auto& one : status.at("processes")) {
    if (one.at("host") != status.at("host")) {
      ++elsewhere;
    } else if (one.at("state") == "answers") {
      try {
        pages.push_back(ask_trace(one.at("process").get<uint32_t>()));
      } catch (const Error& error) {  // it has ended meanwhile
        fmt::print(stderr, "tutti trace: {}\n", error.what());
      }
    } else {
      fmt::print(stderr, "tutti trace: process {} is left out: it does not answer\n", one.at("process").dump());
    }
  }
  if (elsewhere > 0) {
    fmt::print(stderr,
               "tutti trace: {} of the job on other hosts: run `tutti trace -o HOST.trace` on each host, then `tutti "
               "trace` with all these files\n",
               counted(elsewhere, "process", "processes"));
  }
  return pages;
}

std::string text_in(const std::string& path) {
  auto text = read_file(path, kMaxFile, false);
  if (!text) throw_error(Code::InvalidArgument, "there is no file {}, and no process of that number", path);
  return std::move(*text);
}

/// A file has a line for each process.
std::vector<nlohmann::json> traces_in(const std::string& path) {
  const std::string text = text_in(path);
  if (is_chrome_trace(text)) {
    throw_error(Code::InvalidArgument, "{} is a Chrome trace, which is drawn alone: tutti trace {} -o picture.svg",
                path, path);
  }
  std::vector<nlohmann::json> pages;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    if (end > at) {
      nlohmann::json page = parse_shallow_json(text.substr(at, end - at), false);
      if (page.is_discarded()) throw_error(Code::InvalidArgument, "{} has a line that is not JSON", path);
      make_printable(page);
      pages.push_back(std::move(page));
    }
    at = end + 1;
  }
  return pages;
}

bool is_process(const std::string& word) {
  return !word.empty() && word.size() <= 10 && std::all_of(word.begin(), word.end(), ::isdigit) &&
         std::stoull(word) <= INT_MAX;
}

std::vector<nlohmann::json> pages_of(const std::vector<std::string>& from) {
  if (from.size() == 1 && is_process(from.front())) {
    return traces_of_job(process_to_ask(static_cast<uint32_t>(std::stoul(from.front()))));
  }
  std::vector<nlohmann::json> pages;
  for (const std::string& path : from) {
    for (nlohmann::json& page : traces_in(path)) pages.push_back(std::move(page));
  }
  if (!from.empty()) return pages;
  return traces_of_job(any_process_to_ask(0));
}

/// Of `tutti train`, or `tutti sim`.
void draw_chrome_trace(const std::string& text, const TraceOptions& options) {
  if (!options.chrome.empty() || !options.events.empty() || options.json) {
    throw_error(Code::InvalidArgument, "a Chrome trace can be drawn (-o FILE.svg) and summed up, and nothing else");
  }
  nlohmann::json page = parse_shallow_json(text, false);
  if (page.is_discarded()) throw_error(Code::InvalidArgument, "{} is not JSON", options.from.front());
  make_printable(page);
  const TimelinePicture picture = picture_of(page);
  if (!options.svg.empty()) write_file("-o", options.svg, to_svg(picture));
  std::fputs(text_of(picture).c_str(), stdout);
}

void trace_job(const TraceOptions& options) {
  for (const std::string* file : {&options.events, &options.chrome, &options.svg})
    check_output("-o", *file, options.from);
  if (options.from.size() == 1 && !is_process(options.from.front())) {
    const std::string text = text_in(options.from.front());
    check_kind_of_file(text, options.from.front(), "tutti-trace", "a trace");
    if (is_chrome_trace(text)) return draw_chrome_trace(text, options);
  }
  const std::vector<nlohmann::json> pages = pages_of(options.from);
  std::vector<ProcessCalls> processes;
  std::string events;
  for (const nlohmann::json& page : pages) {
    processes.push_back(read_trace(page));
    if (!options.events.empty()) events += page.dump() + "\n";
  }
  if (processes.empty()) throw_error(Code::InvalidArgument, "there is no trace to read");
  const auto clocks = host_clocks(processes);
  shift(processes, clocks);
  if (!options.events.empty()) write_file("-o", options.events, events);
  if (!options.chrome.empty()) write_file("-o", options.chrome, chrome_trace(processes));
  if (!options.svg.empty()) {
    TimelinePicture picture = picture_of(nlohmann::json::parse(chrome_trace(processes)));
    picture.title = "the last calls of a job's ranks";
    write_file("-o", options.svg, to_svg(picture));
  }
  const std::string text = options.json ? trace_json(processes, clocks).dump() + "\n" : trace_text(processes, clocks);
  std::fputs(text.c_str(), stdout);
}

}  // namespace

void add_trace(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("trace", "the last calls of a job's ranks, and who came late to them; pictures of traces");
  const auto options = std::make_shared<TraceOptions>();
  command->add_option("PROCESS|FILE", options->from,
                      "a process of the job, or its launcher, by number; or files that -o, or TUTTI_TRACE_FILE, has "
                      "written; or one that tutti train, or sim, has written by --trace; default: a job of this host");
  command->add_flag("--json", options->json, "what the text says as one line of JSON: docs/watching.md");
  add_output(*command, {{".json", "for ui.perfetto.dev or chrome://tracing", &options->chrome},
                        {".trace", "the events, which `tutti trace` reads again", &options->events},
                        {".svg", "a picture", &options->svg}});
  command->footer(
      "Examples:\n  tutti trace 4711 -o job.json\n  tutti trace host1.trace host2.trace\n"
      "  tutti trace step.json -o step.svg\n");
  command->callback([options] { trace_job(*options); });
}

}  // namespace tutti::tools
