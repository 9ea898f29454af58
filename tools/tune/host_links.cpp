#include "tools/tune/host_links.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "capi/handles.hpp"
#include "select/islands.hpp"
#include "tools/gather.hpp"
#include "tools/run/hosts.hpp"
#include "tools/tune/steady.hpp"
#include "tools/tune/timing.hpp"

namespace tutti::tools {
namespace {

constexpr size_t kMaxAlone = 16;                           // hosts whose pairs are measured one after the other
constexpr size_t kFirst = 1 << 10, kLongest = 2 << 20;     // words of a message
constexpr double kMessageSeconds = 0.02, kSeconds = 0.25;  // of one message; of all messages of a pair
constexpr double kPingSeconds = 0.05;                      // of all its empty messages
constexpr size_t kMinPings = 10, kMinMessages = 5;         // of a pair
constexpr size_t kRepeats = 3;                             // of rounds, and of each host with all others
constexpr size_t kProbes = 3;                              // of a message's length
constexpr size_t kMostTries = 3;                           // more, of what no two figures agree on

struct Message {
  int peer;
  size_t count;  // words, each way
};

/// One rank's part. Of each pair, the first host's rank is the client, which takes the times; the other answers.
class HostBench {
 public:
  explicit HostBench(Communicator& comm) : comm_(comm), out_(kLongest, 1), in_(kLongest) {
    const plan::Grouping& groups = *capi::communicator_of(comm.handle())->inputs().groups;
    for (Rank host = 0; host < groups.groups(); ++host) first_.push_back(groups.members(host).front());
    n_ = first_.size();
    alpha_.resize(n_ * n_), alone_.resize(n_ * n_), decisive_.resize(n_ * n_), decisive_at_once_.resize(n_);
    together_.resize(kRepeats, std::vector<double>(n_ * n_)), again_.resize(kMostTries, std::vector<double>(n_ * n_));
    at_once_.resize(kRepeats + kMostTries, std::vector<double>(n_));
  }

  select::MeasuredHosts run() {
    const std::vector<std::string> hosts = names();
    const auto rounds = select::round_robin(n_);
    for (const auto& round : rounds) {
      if (n_ <= kMaxAlone) {
        for (const select::HostPair& pair : round) measure({pair}, alone_);
      } else {
        measure(round, alone_);
      }
      for (std::vector<double>& betas : together_) measure(round, betas);
    }
    share(alone_), share(decisive_);
    for (std::vector<double>& betas : together_) share(betas);
    for (std::vector<double>& betas : again_) measure_what_is_in_doubt(rounds, betas);
    share(alpha_);
    for (size_t i = 0; i < kRepeats * n_; ++i) measure_at_once(i % n_, at_once_[i / n_]);
    for (size_t i = 0; i < kRepeats; ++i) share(at_once_[i]);
    share(decisive_at_once_);
    for (size_t i = kRepeats; i < at_once_.size(); ++i) {
      const std::vector<bool> settled = settled_at_once();  // measuring changes it on one host, ahead of the others
      for (size_t host = 0; host < n_; ++host) {
        if (!settled[host]) measure_at_once(host, at_once_[i]);
      }
      share(at_once_[i]), share(decisive_at_once_);
    }
    return conclusion(hosts, rounds);
  }

 private:
  size_t at(const select::HostPair& pair) const { return pair.first * n_ + pair.second; }

  /// Only the client of a pair, or the host that was measured, has the figures.
  void share(std::vector<double>& figures) {
    std::vector<double> mine = figures;
    check(tuttiAllReduce(mine.data(), figures.data(), mine.size(), tuttiFloat64, tuttiMax, comm_.handle(), nullptr));
  }

  /// Pairs of which no two figures agree, each alone. All ranks see the same of them.
  void measure_what_is_in_doubt(const std::vector<std::vector<select::HostPair>>& rounds, std::vector<double>& betas) {
    std::vector<select::HostPair> pairs;
    for (const auto& round : rounds) {
      std::copy_if(round.begin(), round.end(), std::back_inserter(pairs), [&](const auto& p) { return !settled(p); });
    }
    if (pairs.size() > kMaxAlone * kMaxAlone) pairs.resize(kMaxAlone * kMaxAlone);  // the others stay in doubt
    for (const select::HostPair& pair : pairs) measure({pair}, betas);
    share(betas), share(decisive_);
  }

  std::vector<double> figures_of(const select::HostPair& pair) const {
    std::vector<double> figures = {alone_[at(pair)]};
    for (const auto* repeats : {&together_, &again_}) {
      for (const std::vector<double>& betas : *repeats) figures.push_back(betas[at(pair)]);
    }
    return figures;
  }
  bool settled(const select::HostPair& pair) const { return is_settled(figures_of(pair)) && decisive_[at(pair)] > 0; }

  std::vector<double> figures_at_once(size_t host) const {
    std::vector<double> figures;
    for (const std::vector<double>& betas : at_once_) figures.push_back(betas[host]);
    return figures;
  }
  std::vector<bool> settled_at_once() const {
    std::vector<bool> settled;
    for (size_t host = 0; host < n_; ++host) {
      settled.push_back(is_settled(figures_at_once(host)) && decisive_at_once_[host] > 0);
    }
    return settled;
  }

  /// These pairs at the same time. Ranks of other hosts wait.
  void measure(const std::vector<select::HostPair>& pairs, std::vector<double>& betas) {
    check(tuttiBarrier(comm_.handle(), nullptr));
    bool idle = true;
    for (const select::HostPair& pair : pairs) {
      const int client = first_[pair.first], other = first_[pair.second];
      if (comm_.rank() == client || comm_.rank() == other) idle = false;
      if (comm_.rank() == client) {
        double& alpha = alpha_[at(pair)];
        alpha = std::min(time_pings(other), alpha > 0 ? alpha : std::numeric_limits<double>::infinity());
        const Times times = time_exchanges(other);
        betas[at(pair)] = pairs.size() > 1 ? times.mean : times.median;
        if (times.is_decisive) decisive_[at(pair)] = 1;
      } else if (comm_.rank() == other) {
        while (receive(client) > 0) send(client);
        while (const size_t count = receive(client)) exchange({{client, count}});
      }
    }
    if (idle) rest(kPingSeconds + kSeconds);
  }

  /// One host with all others at the same time: each gets as much as it takes, by what the two reach alone.
  void measure_at_once(size_t host, std::vector<double>& betas) {
    check(tuttiBarrier(comm_.handle(), nullptr));
    const auto me = std::find(first_.begin(), first_.end(), comm_.rank());
    if (me == first_.end()) return rest(kSeconds);
    if (me != first_.begin() + static_cast<ptrdiff_t>(host)) {
      while (const size_t count = receive(first_[host])) exchange({{first_[host], count}});
      return;
    }
    std::vector<double> rates(n_);
    double all = 0;
    for (size_t other = 0; other < n_; ++other) {
      if (other != host) all += rates[other] = 1 / beta_of(std::minmax(host, other));
    }
    const auto timed = [&](size_t count) {  // each has a word at least, and all together have `count` at most
      const double divided = count < n_ ? 0 : static_cast<double>(count - (n_ - 1));
      std::vector<Message> messages;
      for (size_t other = 0; other < n_; ++other) {
        if (other != host) messages.push_back({first_[other], 1 + static_cast<size_t>(divided * rates[other] / all)});
      }
      for (const auto& [peer, part] : messages) send(peer, part);
      const double start = now();
      exchange(messages);
      return now() - start;
    };
    const Times times = times_of(timed);
    betas[host] = times.median;
    if (times.is_decisive) decisive_at_once_[host] = 1;
    for (size_t other = 0; other < n_; ++other) {
      if (other != host) send(first_[other], 0);
    }
  }

  /// A rank that waits in a call may take a core from those that measure, where hosts are namespaces of one machine.
  static void rest(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

  /// Seconds of an empty message: of the fastest one, for others may have waited for a core.
  double time_pings(int other) {
    double best = std::numeric_limits<double>::infinity();
    const double end = now() + kPingSeconds;
    for (size_t i = 0; i < kMinPings || now() < end; ++i) {
      const double start = now();
      send(other, 1), receive(other);
      best = std::min(best, (now() - start) / 2);
    }
    send(other, 0);
    return best;
  }

  /// Seconds per byte. Of a pair that is alone the middle message counts: a packet that TCP has lost may hold up a few.
  /// Pairs that share a link do so in turns, so there all messages together count.
  struct Times {
    double mean = 0, median = 0;
    bool is_decisive = false;  ///< see Length
  };

  Times time_exchanges(int other) {
    const Times times = times_of([&](size_t count) {
      send(other, count);
      const double start = now();
      exchange({{other, count}});
      return now() - start;
    });
    send(other, 0);
    return times;
  }

  /// Of as many messages of one length as there is time for.
  template <class Timed>
  static Times times_of(const Timed& timed) {
    const auto [count, is_decisive] = long_enough(timed, {kFirst, kLongest, kMessageSeconds, kProbes});
    std::vector<double> times;
    const double start = now(), end = start + kSeconds;
    while (now() < end || times.size() < kMinMessages) times.push_back(timed(count));
    const double mean = (now() - start) / static_cast<double>(times.size());
    const auto middle = times.begin() + static_cast<ptrdiff_t>(times.size() / 2);
    std::nth_element(times.begin(), middle, times.end());
    const auto bytes = static_cast<double>(count * sizeof(uint64_t));
    return {mean / bytes, *middle / bytes, is_decisive};
  }

  void send(int to, uint64_t word = 0) { check(tuttiSend(&word, 1, tuttiUint64, to, comm_.handle(), nullptr)); }
  uint64_t receive(int from) {
    uint64_t word = 0;
    check(tuttiRecv(&word, 1, tuttiUint64, from, comm_.handle(), nullptr));
    return std::min<uint64_t>(word, kLongest);
  }
  /// Of this rank with some others, both ways.
  void exchange(const std::vector<Message>& messages) {
    check(tuttiGroupStart());
    size_t at = 0;
    for (const auto& [peer, count] : messages) {
      check(tuttiSend(out_.data() + at, count, tuttiUint64, peer, comm_.handle(), nullptr));
      check(tuttiRecv(in_.data() + at, count, tuttiUint64, peer, comm_.handle(), nullptr));
      at += count;
    }
    check(tuttiGroupEnd());
  }

  std::vector<std::string> names() {
    const std::vector<std::string> all = gather(comm_, host_name());
    std::vector<std::string> names;
    for (const Rank rank : first_) names.push_back(all[static_cast<size_t>(rank)]);
    return names;
  }

  /// A pair that was slower alone than beside others was disturbed.
  double beta_of(const select::HostPair& pair) const { return least_of(figures_of(pair)); }

  /// Of a round's repeats, the one in which most data went: others were disturbed.
  std::vector<double> best_of(const std::vector<select::HostPair>& round) const {
    std::vector<double> best;
    double most = 0;
    for (const std::vector<double>& betas : together_) {
      std::vector<double> some;
      double rate = 0;
      for (const select::HostPair& pair : round) some.push_back(betas[at(pair)]), rate += 1 / some.back();
      if (rate > most) most = rate, best = std::move(some);
    }
    return best;
  }

  select::MeasuredHosts conclusion(const std::vector<std::string>& names,
                                   const std::vector<std::vector<select::HostPair>>& rounds) const {
    std::vector<std::vector<double>> together;
    std::vector<select::MeasuredPair> pairs;
    for (const auto& round : rounds) {
      together.push_back(best_of(round));
      for (const select::HostPair& pair : round) {
        pairs.push_back({names[pair.first], names[pair.second], alpha_[at(pair)], beta_of(pair), !settled(pair)});
      }
    }
    std::vector<double> at_once;
    for (size_t host = 0; host < n_; ++host) at_once.push_back(least_of(figures_at_once(host)));
    select::MeasuredHosts found = select::wiring_of(names, std::move(pairs), together, at_once, n_ <= kMaxAlone);
    const std::vector<bool> settled = settled_at_once();
    for (size_t host = 0; host < n_; ++host) {
      if (!settled[host]) found.doubtful.insert(names[host]);
    }
    return found;
  }

  Communicator& comm_;
  std::vector<uint64_t> out_, in_;
  std::vector<Rank> first_;  // of each host
  size_t n_ = 0;
  std::vector<double> alpha_, alone_;          // by pair: seconds, and seconds per byte
  std::vector<std::vector<double>> together_;  // by repeat and pair: seconds per byte
  std::vector<std::vector<double>> again_;     // likewise, of a pair alone that was in doubt; 0: not taken
  std::vector<std::vector<double>> at_once_;   // by repeat and host, with all others at the same time; 0: not taken
  std::vector<double> decisive_, decisive_at_once_;  // by pair, by host: 1 if a measurement was
};

}  // namespace

select::MeasuredHosts measure_hosts(Communicator& comm) { return HostBench(comm).run(); }

}  // namespace tutti::tools
