#include "control/status/metrics.hpp"

#include <functional>

#include "base/format.hpp"

namespace tutti::control {
namespace {

/// A value of a label: as OpenMetrics wants it.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return out;
}

std::string labels_of(const ProcessMetrics& process, const RankMetrics& rank) {
  return fmt::format(R"(process="{}",communicator="{}",id="{}",rank="{}")", process.process, escaped(rank.title),
                     escaped(rank.communicator.substr(0, 8)), rank.rank);
}

uint64_t least_bytes(const CallMetrics& calls) {
  return calls.size_class == 0 ? 0 : uint64_t{1} << (calls.size_class - 1U) % 64;
}

std::string number(uint64_t value, double divided) {
  return divided == 1 ? std::to_string(value) : fmt::format("{:.9f}", static_cast<double>(value) / divided);
}

class Text {
 public:
  Text(const std::vector<ProcessMetrics>& processes, bool classic) : processes_(processes), classic_(classic) {}
  std::string text;

  /// `suffix`: of the samples' names, which in the older format is the family's too.
  void head(const char* name, const char* suffix, const char* type, const char* unit, const char* help) {
    const std::string family = fmt::format("{}{}", name, classic_ ? suffix : "");
    text += fmt::format("# TYPE {} {}\n", family, type);
    if (*unit != '\0' && !classic_) text += fmt::format("# UNIT {} {}\n", family, unit);
    text += fmt::format("# HELP {} {}\n", family, help);
  }
  void each_rank(const std::function<void(const std::string& labels, const RankMetrics& rank)>& visit) const {
    for (const ProcessMetrics& process : processes_) {
      for (const RankMetrics& rank : process.ranks) visit(labels_of(process, rank), rank);
    }
  }
  /// A counter of calls. `divided`: 1e9 for nanoseconds that are told as seconds.
  void counter(const char* name, const char* unit, const char* help, uint64_t CallMetrics::*member,
               double divided = 1) {
    head(name, "_total", "counter", unit, help);
    each_rank([&](const std::string& labels, const RankMetrics& rank) {
      for (const CallMetrics& calls : rank.calls) {
        text += fmt::format(R"({}_total{{{},collective="{}",min_bytes="{}",transports="{}"}} {})", name, labels,
                            escaped(calls.collective), least_bytes(calls), escaped(rank.transports),
                            number(calls.*member, divided));
        text += '\n';
      }
    });
  }
  /// A counter of links.
  void link_counter(const char* name, const char* unit, const char* help, uint64_t LinkMetrics::*member,
                    double divided = 1) {
    head(name, "_total", "counter", unit, help);
    each_rank([&](const std::string& labels, const RankMetrics& rank) {
      for (const LinkMetrics& link : rank.links) {
        text += fmt::format(R"({}_total{{{},transport="{}",peer="{}",peer_host="{}",lane="{}"}} {})", name, labels,
                            escaped(link.transport), link.peer, escaped(link.peer_host), link.lane,
                            number(link.*member, divided));
        text += '\n';
      }
    });
  }
  void gauge(const char* name, const char* unit, const char* help,
             const std::function<double(const RankMetrics&)>& value) {
    head(name, "", "gauge", unit, help);
    each_rank([&](const std::string& labels, const RankMetrics& rank) {
      text += fmt::format("{}{{{}}} {}\n", name, labels, value(rank));
    });
  }

 private:
  const std::vector<ProcessMetrics>& processes_;
  const bool classic_;
};

std::string metrics_text(const std::vector<ProcessMetrics>& processes, bool classic) {
  Text all(processes, classic);
  all.head("tutti_build", "_info", classic ? "gauge" : "info", "", "The version of the library in each process.");
  for (const ProcessMetrics& process : processes) {
    all.text +=
        fmt::format("tutti_build_info{{process=\"{}\",version=\"{}\"}} 1\n", process.process, escaped(process.version));
  }
  all.counter("tutti_calls", "", "Calls that have ended; on GPUs: that were enqueued.", &CallMetrics::calls);
  all.counter("tutti_call_bytes", "bytes", "Bytes of the counts of these calls.", &CallMetrics::bytes);
  all.counter("tutti_sent_bytes", "bytes", "Bytes of messages that ranks have sent.", &CallMetrics::sent);
  all.counter("tutti_received_bytes", "bytes", "Bytes of messages that ranks have received.", &CallMetrics::received);
  all.counter("tutti_wait_seconds", "seconds", "Time in waits of more than 20 us.", &CallMetrics::waited, 1e9);
  all.counter("tutti_traced_calls", "",
              "Calls whose time is known: all long ones, and some of many short ones in a row.",
              &CallMetrics::traced_calls);
  all.counter("tutti_traced_seconds", "seconds", "Time in these calls.", &CallMetrics::traced, 1e9);
  all.link_counter("tutti_link_sent_bytes", "bytes", "Bytes that have arrived at the peer, headers included.",
                   &LinkMetrics::sent);
  all.link_counter("tutti_link_received_bytes", "bytes", "Bytes that have come from the peer, headers included.",
                   &LinkMetrics::received);
  all.link_counter("tutti_link_busy_seconds", "seconds", "Time in which bytes were on the way to the peer.",
                   &LinkMetrics::busy, 1e9);
  all.link_counter("tutti_link_resent_packets", "packets", "Packets that were sent to the peer once more.",
                   &LinkMetrics::resent);
  all.gauge("tutti_waiting_seconds", "seconds", "For so long the rank waits now, with nothing moving; 0: it does not.",
            [](const RankMetrics& rank) { return rank.stuck_ms / 1e3; });
  all.gauge("tutti_failed", "", "1: the communicator has failed.",
            [](const RankMetrics& rank) { return rank.failed != 0 ? 1.0 : 0.0; });
  all.gauge("tutti_registered_bytes", "bytes", "Bytes of buffers that are registered on the communicator.",
            [](const RankMetrics& rank) { return static_cast<double>(rank.registered); });
  all.head("tutti_mapped_bytes", "", "gauge", "bytes", "Memory of tuttiMemAlloc that other processes can map.");
  for (const ProcessMetrics& process : processes) {
    all.text += fmt::format("tutti_mapped_bytes{{process=\"{}\"}} {}\n", process.process, process.mapped);
  }
  all.gauge("tutti_ranks", "", "Ranks of the communicator.",
            [](const RankMetrics& rank) { return static_cast<double>(rank.ranks); });
  return all.text;
}

}  // namespace

std::string open_metrics(const std::vector<ProcessMetrics>& processes) {
  return metrics_text(processes, false) + "# EOF\n";
}

std::string classic_metrics(const std::vector<ProcessMetrics>& processes) { return metrics_text(processes, true); }

}  // namespace tutti::control
