#include "tools/check/host_facts.hpp"

#include <fstream>

#include "base/address.hpp"
#include "base/format.hpp"
#include "base/port_range.hpp"
#include "base/printable.hpp"
#include "base/shallow_json.hpp"
#include "base/socket.hpp"
#include "tools/info_transports.hpp"
#include "tools/run/binding.hpp"
#include "tools/run/hosts.hpp"
#include "topo/cgroup.hpp"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

constexpr size_t kMaxText = 256;  // characters of a text from another host

std::string text_in(const nlohmann::json& object, const char* name) {
  return printable(object.at(name).get<std::string>().substr(0, kMaxText));
}

std::vector<std::string> texts_in(const nlohmann::json& object, const char* name) {
  std::vector<std::string> texts;
  for (const auto& text : object.at(name)) texts.push_back(printable(text.get<std::string>().substr(0, kMaxText)));
  return texts;
}

}  // namespace

HostFacts local_facts() {
  HostFacts facts;
  facts.name = host_name();
  facts.version = tuttiGetVersion();
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), facts.machine);
  facts.cores = static_cast<int>(usable_cores().size());
  facts.memory = available_memory();
  try {
    for (const Address& address : local_addresses()) {
      if (!address.is_loopback()) facts.addresses.push_back(to_string(address));
    }
    if (facts.addresses.empty()) facts.problem = "it has no address but loopback; is a network interface up?";
    const auto ports = fixed_ports();
    const Fd listener = ports ? listen_tcp(ports->first, ports->last) : listen_tcp(0);
    facts.port = port_of(listener.get());
  } catch (const Error& error) {
    facts.problem = error.what();
  }
  facts.transports = usable_between_hosts();
  return facts;
}

nlohmann::ordered_json to_json(const HostFacts& facts) {
  return {{"name", facts.name},
          {"version", facts.version},
          {"machine", facts.machine},
          {"cores", facts.cores},
          {"memory", facts.memory},
          {"addresses", facts.addresses},
          {"transports", facts.transports},
          {"port", facts.port},
          {"problem", facts.problem}};
}

HostFacts parse_facts(std::string_view text) {
  try {
    const nlohmann::json object = parse_shallow_json(std::string(text));
    HostFacts facts;
    facts.name = text_in(object, "name");
    facts.version = text_in(object, "version");
    facts.machine = text_in(object, "machine");
    facts.cores = static_cast<int>(std::min<uint64_t>(whole_number(object.at("cores")), 1 << 20));
    facts.memory = whole_number(object.at("memory"));
    facts.addresses = texts_in(object, "addresses");
    facts.transports = texts_in(object, "transports");
    facts.port = static_cast<uint16_t>(std::min<uint64_t>(whole_number(object.at("port")), 65535));
    facts.problem = text_in(object, "problem");
    return facts;
  } catch (const nlohmann::json::exception& error) {
    throw_error(Code::ProtocolError, "not an answer of tutti: {}", error.what());
  }
}

}  // namespace tutti::tools
