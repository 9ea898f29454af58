#include "tools/check/check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <map>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/printable.hpp"
#include "base/secret.hpp"
#include "tools/check/report.hpp"
#include "tools/output_file.hpp"
#include "tools/run/ask.hpp"
#include "tools/run/hosts.hpp"
#include "tools/run/remote.hpp"
#include "tools/run/self_job.hpp"
#include "tutti/tutti.h"

namespace tutti::tools {
namespace {

constexpr double kFactsSeconds = 40;  // a login included
constexpr double kReachSeconds = 15;  // for connections to all others
constexpr double kPairSeconds = 2;    // for each round of pairs
constexpr size_t kMaxAlike = 4;       // errors of one communicator that are shown

/// The last lines of a host's complaints, in one.
std::string last_words(const std::string& text) {
  constexpr size_t kMax = 600;
  const size_t end = text.find_last_not_of(" \r\n");
  if (end == std::string::npos) return "it said nothing";
  const size_t start = end + 1 > kMax ? end + 1 - kMax : 0;
  return printable(text.substr(start, end + 1 - start));
}

/// The last line: a login shell may have written others before.
std::string last_line(const std::string& text) {
  const std::string trimmed = text.substr(0, text.find_last_not_of("\r\n") + 1);
  return trimmed.substr(trimmed.rfind('\n') + 1);  // npos + 1 is 0
}

/// The check itself, a part after the other.
class Check {
 public:
  explicit Check(const Job& job) : job_(job) {
    job_.ranks.clear();
    std::map<std::string, size_t> known;
    for (const Placement& rank : job.ranks) {
      const auto [entry, fresh] = known.try_emplace(rank.host, report_.hosts.size());
      if (fresh) {
        report_.hosts.push_back({rank.host.empty() ? host_name() : rank.host, 0, {}});
        job_.ranks.push_back({rank.host, 0, 1, std::nullopt});
      }
      ++report_.hosts[entry->second].ranks;
    }
    job_.prefix = job_.feed_stdin = false;
  }

  const CheckReport& run() {
    fmt::print("# checking {} hosts for {} ranks\n", report_.hosts.size(), ranks());
    std::fflush(stdout);
    ask_facts();
    compare_facts();
    print_hosts(report_);
    std::fflush(stdout);
    if (report_.problems.empty()) try_connections();
    if (report_.problems.empty()) measure();
    print_pairs(report_);
    print_verdict(report_);
    return report_;
  }

 private:
  int ranks() const {
    int sum = 0;
    for (const CheckedHost& host : report_.hosts) sum += host.ranks;
    return sum;
  }
  const std::string& name(size_t host) const { return report_.hosts[host].name; }
  void wrong(std::string text) { report_.problems.push_back(std::move(text)); }

  /// Asks all hosts for a part, and calls `read` with each host and the last line of its answer. A host without an
  /// answer is a problem, of which at most `most` are told one by one; so is an answer that cannot be read.
  template <class Read>
  void ask_all(const char* part, const std::string& input, double seconds, size_t most, const Read& read) {
    job_.program = {program_, "run", "--check-part", part};
    job_.input = input;
    const std::vector<Answer> answers = ask(job_, seconds);
    size_t failed = 0;
    for (size_t host = 0; host < answers.size(); ++host) {
      if (const std::string text = objection(host, answers[host], seconds); !text.empty()) {
        if (++failed <= most) wrong(text);
        continue;
      }
      try {
        read(host, last_line(answers[host].out));
      } catch (const Error& error) {
        wrong(fmt::format("{}: {}: {}", name(host), error.what(), last_words(answers[host].out)));
      }
    }
    if (failed > most) wrong(fmt::format("{} more hosts had errors", failed - most));
  }

  /// The objection to a host's answer; "": none.
  std::string objection(size_t host, const Answer& answer, double seconds) const {
    if (answer.late) {
      return fmt::format("{}: no answer within {:.0f} s{}", name(host), seconds,
                         answer.err.empty() ? "" : ": " + last_words(answer.err));
    }
    if (answer.status == 0) return "";
    if (answer.status == 126 || answer.status == 127) {
      return fmt::format(
          "{}: {} cannot be run there ({}); install the same tutti under the same path, and start this "
          "in a folder that exists there",
          name(host), program_, last_words(answer.err));
    }
    const std::string& there = job_.ranks[host].host;
    if (answer.status == 255 && !there.empty()) {
      const std::string starter = starter_of(job_.launcher, there);
      return fmt::format("{}: {} could not start it ({}); does \"{} true\" work?", name(host),
                         starter.substr(0, starter.find(' ')), last_words(answer.err), starter);
    }
    return fmt::format("{}: {} ({})", name(host), answer.became, last_words(answer.err));
  }

  void ask_facts() {
    ask_all("facts", "", kFactsSeconds, report_.hosts.size(), [&](size_t host, const std::string& line) {
      report_.hosts[host].facts = parse_facts(line);
      const std::string& problem = report_.hosts[host].facts->problem;
      if (!problem.empty() && report_.hosts.size() > 1) wrong(fmt::format("{}: {}", name(host), problem));
    });
  }

  void compare_facts() {
    std::map<std::string, std::string> machines, names;
    for (const CheckedHost& host : report_.hosts) {
      if (!host.facts) continue;
      if (host.facts->version != tuttiGetVersion()) {
        wrong(fmt::format("{}: tutti {} there, {} here: all ranks must run the same version", host.name,
                          host.facts->version, tuttiGetVersion()));
      }
      const auto [same_name, fresh_name] = names.try_emplace(host.facts->name, host.name);
      const auto [same_machine, fresh_machine] = machines.try_emplace(host.facts->machine, host.name);
      if (!fresh_machine && !host.facts->machine.empty()) {
        report_.remarks.push_back(fmt::format("{} and {} are one machine", same_machine->second, host.name));
      } else if (!fresh_name) {
        report_.remarks.push_back(
            fmt::format("{} and {} both call themselves {}: in messages only rank numbers tell them "
                        "apart",
                        same_name->second, host.name, host.facts->name));
      }
      if (host.ranks > host.facts->cores) {
        report_.remarks.push_back(
            fmt::format("{}: {} ranks on {} cores: they will take turns", host.name, host.ranks, host.facts->cores));
      }
    }
  }

  void try_connections() {
    ReachRequest request{random_hex(32), {}, kReachSeconds};
    for (const CheckedHost& host : report_.hosts) request.hosts.push_back({host.facts->addresses, host.facts->port});
    report_.reached.resize(report_.hosts.size());
    const double seconds = kFactsSeconds + kReachSeconds;
    ask_all("reach", to_text(request), seconds, report_.hosts.size(), [&](size_t host, const std::string& line) {
      report_.reached[host] = parse_reached(line);
      judge_connections(host);
    });
  }

  /// A host must reach each other one at one of its addresses; the library would try all of them.
  void judge_connections(size_t from) {
    std::map<int, std::vector<const Reached*>> by_host;
    for (const Reached& one : report_.reached[from]) {
      if (one.host >= 0 && static_cast<size_t>(one.host) < report_.hosts.size()) by_host[one.host].push_back(&one);
    }
    for (const auto& [to, tried] : by_host) {
      const bool reached =
          std::any_of(tried.begin(), tried.end(), [](const Reached* one) { return one->why_not.empty(); });
      for (const Reached* one : tried) {
        if (one->why_not.empty()) continue;
        const HostFacts& there = *report_.hosts[static_cast<size_t>(to)].facts;
        const std::string text = fmt::format("{} does not reach {} at {} port {}: {}", name(from),
                                             name(static_cast<size_t>(to)), one->address, there.port, one->why_not);
        reached ? report_.remarks.push_back(text) : wrong(text);
      }
    }
  }

  void measure() {
    const double seconds = kFactsSeconds + kPairSeconds * rounds_of(static_cast<int>(report_.hosts.size()));
    ask_all("pairs", "", seconds, kMaxAlike, [&](size_t, const std::string& line) {
      for (const PairFigures& pair : parse_pairs(line)) report_.pairs.push_back(pair);
    });
  }

  Job job_;
  const std::string program_ = own_program();
  CheckReport report_;
};

}  // namespace

int check_hosts(const Job& job, const std::string& json) {
  check_output("--json", json);
  Check check(job);
  const CheckReport& report = check.run();
  if (!json.empty()) {
    const auto replaced = nlohmann::ordered_json::error_handler_t::replace;
    write_file("--json", json, to_json(report).dump(2, ' ', false, replaced) + "\n");
  }
  return report.problems.empty() ? 0 : 1;
}

int check_here(const std::string& part) {
  nlohmann::ordered_json answer;
  if (part == "facts") {
    answer = to_json(local_facts());
  } else if (part == "reach") {
    const std::string text{std::istreambuf_iterator<char>(std::cin), {}};
    const ReachRequest request = parse_request(text);
    const int self = env().rank.value_or(0);
    if (static_cast<size_t>(self) >= request.hosts.size()) throw_error(Code::ProtocolError, "no host {}", self);
    answer = to_json(reach(request, self));
  } else {
    Communicator comm = Communicator::from_environment();
    answer = to_json(measure_pairs(comm));
    comm.close();
  }
  fmt::print("{}\n", answer.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  return 0;
}

}  // namespace tutti::tools
