// tutti info: version, build, machine, the transports that can be used on it, and the measured constants.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>

#include "base/build_parts.hpp"
#include "base/bytes.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "select/calibration.hpp"
#include "select/profile.hpp"
#include "tools/commands.hpp"
#include "tools/info_machine.hpp"
#include "tools/info_transports.hpp"
#include "tools/output_file.hpp"
#include "tools/wrapped.hpp"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

using nlohmann::ordered_json;

ordered_json build_facts() {
  ordered_json facts;
#if defined(__clang__)
  facts["compiler"] = "Clang " __clang_version__;
#else
  facts["compiler"] = "GCC " __VERSION__;
#endif
#ifdef NDEBUG
  facts["kind"] = "release";
#else
  facts["kind"] = "debug";
#endif
#if defined(__SANITIZE_ADDRESS__)
  facts["sanitizer"] = "address, undefined";
#elif defined(__SANITIZE_THREAD__)
  facts["sanitizer"] = "thread";
#endif
  for (const BuildPart& part : build_parts()) {
    facts[std::string(part.name)] =
        part.in ? fmt::format("built with {}", part.words) : fmt::format("not in this build: {}", part.words);
  }
  return facts;
}

constexpr const char* kChosen = "chosen, not measured";  // what the table says of constants without a measurement
constexpr const char* kConstants = "constants";

/// "64K", "0.15 us", "2000 turns".
std::string quantity(double value, const std::string& unit) {
  if (unit == "B") return to_text(Bytes{static_cast<uint64_t>(value)});
  if (unit == "s") return fmt::format("{:.4g} us", value * 1e6);
  if (unit == "s/B") return fmt::format("{:.4g} ns/B", value * 1e9);
  return fmt::format("{:.4g} {}", value, unit);
}

/// Of a constant: its value, its meaning, who may change it, and where it was measured, if it was.
std::string text_of(const ordered_json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return value.dump();
  const auto word = [&](const char* name) { return value.at(name).get<std::string>(); };
  const std::string origin = word("measured");
  return fmt::format("{:<15} {} ({}; {}{})", quantity(value.at("value").get<double>(), word("unit")), word("meaning"),
                     word("scope"), origin == kChosen ? "" : "measured on ", origin);
}

std::string caches_text(const CacheSizes& caches) {
  if (caches.last == 0) return "not told by the kernel";
  return fmt::format("{} of a core's own, {} of {} of the last level", to_text(Bytes{caches.own}), caches.lasts,
                     to_text(Bytes{caches.last}));
}

/// What replaces the table's figures of local links, as in a communicator.
ordered_json calibration_facts() {
  ordered_json facts;
  if (select::has_host_profile()) {
    facts["source"] = "the profile of `tutti tune`, " + select::profile_path(env().profile);
    return facts;
  }
  const select::Calibration* const measured = select::local_calibration();
  if (measured == nullptr) {
    facts["source"] = "none: " + select::why_no_calibration();
    return facts;
  }
  const auto rates = [](const select::Calibration::Times& times) {
    std::string text;
    for (size_t i = 0; i < times.size(); ++i) {
      const uint64_t bytes = select::Calibration::kSizes[i];
      text += fmt::format("{}{} {:.3g} GB/s", text.empty() ? "" : ", ", to_text(Bytes{bytes}),
                          times[i] > 0 ? static_cast<double>(bytes) / times[i] / 1e9 : 0);
    }
    return text;
  };
  facts["source"] = "the quick calibration of this boot";
  facts["cache line"] = fmt::format("{:.0f} ns to the next core, {:.0f} ns to the last", measured->near_line * 1e9,
                                    measured->far_line * 1e9);
  facts["took"] = fmt::format("{:.0f} ms", measured->took * 1e3);
  facts["caches"] = caches_text(measured->caches);
  facts["written for others"] = rates(measured->write);
  facts["written for others and itself"] = rates(measured->both);
  const char* const ways[] = {"by memcpy", "by rep movsb", "by own loops"};
  for (size_t way = 0; way < measured->read.size(); ++way) {
    facts[std::string("read from others ") + ways[way]] = rates(measured->read[way]);
  }
  facts["read from others by the kernel"] = rates(measured->kernel);
  facts["sums with others' data"] = rates(measured->fold);
  facts["ordinary stores"] = rates(measured->stored);
  facts["streaming stores"] = rates(measured->streamed);
  if (measured->beyond_stored > 0) {
    facts["beyond the caches"] = fmt::format(
        "{:.3g} GB/s by ordinary stores, {} by streaming ones", 1e-9 / measured->beyond_stored,
        measured->beyond_streamed > 0 ? fmt::format("{:.3g}", 1e-9 / measured->beyond_streamed) : "not measured");
  }
  facts["switch of threads"] = fmt::format("{:.2f} us", measured->thread_switch * 1e6);
  const select::LengthShifts shifts = select::shifts_of(*measured);
  const auto factor = [](int shift) { return (shift < 0 ? "1/" : "") + std::to_string(1 << std::abs(shift)); };
  const char* const folds = shifts.no_cma || !shifts.no_cma_folds ? "" : " (never where blocks are folded)";
  facts["length thresholds"] = fmt::format(
      "CMA {}{}, reading in place times {}, cache sizes times {}: factors of the lengths in docs/delivery.md",
      shifts.no_cma ? "never (the kernel's copies are not faster here)" : "times " + factor(shifts.cma), folds,
      factor(shifts.wait), factor(shifts.caches));
  return facts;
}

/// Sections of "name: value" lines.
void print(const ordered_json& facts) {
  for (const auto& [section, content] : facts.items()) {
    if (!content.is_object()) {
      fmt::print("{} {}\n", section, content.get<std::string>());
      continue;
    }
    fmt::print("\n{}\n", section);
    size_t width = 18;
    for (const auto& [name, value] : content.items()) width = std::max(width, name.size());
    for (const auto& [name, value] : content.items()) {
      fmt::print("  {:<{}} {}\n", name, width, wrapped(text_of(value), width + 3));
    }
  }
}

}  // namespace

void add_info(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("info", "version, build, machine, transports usable on it, and the measured constants");
  const auto path = std::make_shared<std::string>();
  const auto verbose = std::make_shared<bool>(false);
  command->add_flag("-v,--verbose", *verbose, "the constants too: what decides where nothing was measured here");
  command->add_option("-o,--json", *path, "writes the same to a file as well; -: to standard output instead")
      ->type_name("FILE");
  command->footer("Example:\n  tutti info --json info.json\n");
  command->callback([path, verbose] {
    ordered_json facts;
    check_output("--json", *path);
    facts["tutti"] = tuttiGetVersion();
    facts["build"] = build_facts();
    const Machine machine = read_machine();
    facts["machine"] = machine_facts(machine);
    facts["this process"] = share_facts(machine);
    facts["transports"] = transport_lines();
    facts["calibration"] = calibration_facts();
    ordered_json constants = constant_facts();
    if (*path != kStandardOutput) {
      print(facts);
      if (*verbose) {
        print({{kConstants, constants}});
      } else {
        fmt::print("\n{} constants, used where nothing was measured here: tutti info -v\n", constants.size());
      }
    }
    if (path->empty()) return;
    facts[kConstants] = std::move(constants);
    write_file("--json", *path, facts.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  });
}

}  // namespace tutti::tools
