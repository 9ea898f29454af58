// tutti info: version, build, machine, and the transports that can be used on it.
#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/format.hpp"
#include "tools/commands.hpp"
#include "tools/info_machine.hpp"
#include "tools/info_transports.hpp"
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
    for (const auto& [name, value] : content.items()) {
      fmt::print("  {:<18} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
}

void write(const ordered_json& facts, const std::string& path) {
  std::ofstream file(path);
  file << facts.dump(2, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  file.close();
  if (!file) throw_error(Code::SystemError, "--json {}: {}", path, std::strerror(errno));
}

}  // namespace

void add_info(CLI::App& app, int& status) {
  CLI::App* command = app.add_subcommand("info", "version, build, machine, and the transports usable on it");
  const auto path = std::make_shared<std::string>();
  command->add_option("--json", *path, "writes the same to a file as well")->type_name("FILE");
  command->footer("Example:\n  tutti info --json info.json\n");
  command->callback([path, &status] {
    ordered_json facts;
    facts["tutti"] = tuttiGetVersion();
    facts["build"] = build_facts();
    facts["machine"] = machine_facts();
    facts["this process"] = share_facts();
    facts["transports"] = transport_lines();
    print(facts);
    if (!path->empty()) write(facts, *path);
    status = 0;
  });
}

}  // namespace tutti::tools
