#include "tools/check/pairs.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/printable.hpp"
#include "tools/check/rows.hpp"

namespace tutti::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kWord = 8, kStreamed = 4 << 20;  // bytes
constexpr int kRoundTrips = 200, kWarmUp = 20;
constexpr double kStream = 0.1;  // seconds in which large messages are sent one way

double elapsed(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One end of a pair. Both call the same functions; `first` says which end sends first.
class Pair {
 public:
  Pair(Communicator& comm, int peer) : comm_(comm), peer_(peer), first_(comm.rank() < peer), large_(kStreamed) {}

  double latency() {
    std::vector<double> times;
    for (int i = 0; i < kWarmUp + kRoundTrips; ++i) {
      const auto start = Clock::now();
      turn(first_, std::span(large_).first(kWord));
      turn(!first_, std::span(large_).first(kWord));
      if (i >= kWarmUp) times.push_back(elapsed(start) / 2);
    }
    std::nth_element(times.begin(), times.begin() + kRoundTrips / 2, times.end());
    return times[kRoundTrips / 2];
  }

  /// Bytes per second from this end, or to it. The last message is answered, so that both ends see all arrive.
  double bandwidth(bool from_here) {
    std::vector<uint8_t> answer(1);
    stream(from_here, 1, answer);  // warm-up
    const double one = std::max(stream(from_here, 1, answer), 1e-6);
    std::vector<int> times{std::clamp(static_cast<int>(kStream / one), 1, 1000)};
    from_here ? comm_.send(times, peer_) : comm_.recv(times, peer_);
    return static_cast<double>(kStreamed) * times[0] / stream(from_here, times[0], answer);
  }

 private:
  void turn(bool sends, std::span<uint8_t> bytes) { sends ? comm_.send(bytes, peer_) : comm_.recv(bytes, peer_); }
  double stream(bool sends, int times, std::vector<uint8_t>& answer) {
    const auto start = Clock::now();
    for (int i = 0; i < times; ++i) turn(sends, large_);
    turn(!sends, answer);
    return elapsed(start);
  }

  Communicator& comm_;
  int peer_;
  bool first_;
  std::vector<uint8_t> large_;
};

}  // namespace

int rounds_of(int ranks) { return ranks + ranks % 2 - 1; }

int partner_of(int self, int round, int ranks) {
  // Players 0 … m - 2 stand on a circle that turns; player m - 1 stays outside, and is a rest where ranks are odd.
  const int players = ranks + ranks % 2, circle = players - 1;
  int partner = 0;
  if (self == circle) {
    partner = round * (players / 2) % circle;  // the one for whom 2 * partner = round
  } else {
    partner = ((round - self) % circle + circle) % circle;
    if (partner == self) partner = circle;
  }
  return partner < ranks ? partner : -1;
}

std::vector<PairFigures> measure_pairs(Communicator& comm) {
  std::vector<PairFigures> figures;
  for (int round = 0; round < rounds_of(comm.size()); ++round) {
    const int peer = partner_of(comm.rank(), round, comm.size());
    if (peer < 0) continue;
    Pair pair(comm, peer);
    const bool first = comm.rank() < peer;
    PairFigures found{comm.rank(), peer, pair.latency(), 0, 0, ""};
    found.bandwidth = pair.bandwidth(first);
    found.back = pair.bandwidth(!first);
    found.transport = comm.last_call().transport;
    if (first) figures.push_back(found);
  }
  return figures;
}

nlohmann::ordered_json to_json(const std::vector<PairFigures>& pairs) {
  auto rows = nlohmann::ordered_json::array();
  for (const PairFigures& pair : pairs) {
    rows.push_back({{"from", pair.from},
                    {"to", pair.to},
                    {"latency", pair.latency},
                    {"bandwidth", pair.bandwidth},
                    {"back", pair.back},
                    {"transport", pair.transport}});
  }
  return rows;
}

std::vector<PairFigures> parse_pairs(std::string_view text) {
  return parse_rows<PairFigures>(text, [](const nlohmann::json& row) {
    return PairFigures{row.at("from").get<int>(),       row.at("to").get<int>(),
                       row.at("latency").get<double>(), row.at("bandwidth").get<double>(),
                       row.at("back").get<double>(),    printable(row.at("transport").get<std::string>())};
  });
}

}  // namespace tutti::tools
