#include "tools/run/meeting.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "base/address.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/port_range.hpp"
#include "tools/run/ask.hpp"

namespace tutti::tools {
namespace {

constexpr double kAskSeconds = 30;

/// ssh's form, "user@host".
std::string without_user(const std::string& host) { return host.substr(host.find('@') + 1); }

/// This host's addresses on the route to `host`; empty if only ssh knows that name.
std::vector<Address> sources_towards(const std::string& host) {
  std::vector<Address> sources;
  try {
    for (const Address& address : resolve(host)) {
      const auto source = source_towards(address);
      if (source && !source->is_loopback()) sources.push_back(*source);
    }
  } catch (const Error&) {
  }
  return sources;
}

bool resolves(const std::string& host) {
  try {
    return !resolve(host).empty();
  } catch (const Error&) {
    return false;
  }
}

/// The addresses that rank 0's host has by its own account, separated by ','; "" if it cannot be asked.
std::string asked_addresses(const Job& job) {
  Job question = job;
  question.ranks = {{job.ranks.front().host, 0, 1, std::nullopt}};
  question.program = {"hostname", "-I"};
  question.prefix = false;
  const Answer answer = ask(question, kAskSeconds).front();
  std::vector<std::string> found;
  std::istringstream words(answer.out);
  for (std::string word; answer.status == 0 && words >> word;) {
    const bool numeric = word.find_first_not_of("0123456789abcdefABCDEF.:") == std::string::npos;
    if (numeric && resolves(word)) found.push_back(word);
  }
  return fmt::format("{}", fmt::join(found, ","));
}

}  // namespace

std::string meeting_host(const std::vector<Placement>& ranks, const std::string& here) {
  std::set<std::string> others;
  for (const Placement& rank : ranks) {
    if (!rank.host.empty()) others.insert(without_user(rank.host));
  }
  if (others.empty()) return "";
  if (!ranks.front().host.empty()) return without_user(ranks.front().host);
  std::vector<std::string> found;
  const auto add = [&found](const Address& address) {
    const std::string text = to_string(address);
    if (!address.is_loopback() && std::find(found.begin(), found.end(), text) == found.end()) found.push_back(text);
  };
  const std::vector<Address> offered = local_addresses();  // as TUTTI_INTERFACE says
  for (const std::string& host : others) {
    for (const Address& source : sources_towards(host)) {
      if (std::find(offered.begin(), offered.end(), source) != offered.end()) add(source);
    }
  }
  if (found.empty()) std::for_each(offered.begin(), offered.end(), add);
  return found.empty() ? here : fmt::format("{}", fmt::join(found, ","));
}

void set_meeting_point(Job& job, int port, const std::string& here) {
  const std::string host = meeting_host(job.ranks, here);
  if (host.empty()) return;
  const bool nested = env().rank.has_value();
  job.root = env().root_addr.empty() || nested ? host : env().root_addr;
  if (port == 0 && env().port && !nested) port = *env().port;
  if (const auto ports = fixed_ports(); port == 0 && ports) port = ports->first;
  // Below the ports that kernels assign to outgoing connections.
  job.port = static_cast<uint16_t>(
      port != 0 ? port : std::uniform_int_distribution(20000, 29999)(*std::make_unique<std::random_device>()));
}

void resolve_meeting_point(Job& job) {
  const bool given = !env().root_addr.empty() && !env().rank.has_value();  // by the user, not by an outer tutti run
  if (given || job.root.empty() || job.ranks.front().host.empty()) return;
  if (resolves(job.root)) return;
  if (const std::string addresses = asked_addresses(job); !addresses.empty()) job.root = addresses;
}

}  // namespace tutti::tools
