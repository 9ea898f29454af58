// What a job has done for some time, for the page of `tutti watch`.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "tools/top/rates.hpp"

namespace tutti::tools {

class History {
 public:
  static constexpr size_t kMaxSamples = 900;      ///< that are kept, …
  static constexpr size_t kMaxCells = 1'000'000;  ///< … if they have no more than so many ranks' shares
  static constexpr size_t kMaxRows = 500;         ///< ranks that are told one by one, and of those that wait
  static constexpr size_t kMaxAwaited = 64;       ///< ranks for which one waits

  /// `interval`: seconds between two samples.
  explicit History(double interval);

  /// What the ranks have done until now. `seconds`: of a clock that does not stand still.
  void add(TopTable table, double seconds);
  /// There is no answer any more: why.
  void end(std::string why) { error_ = std::move(why); }

  /// As JSON: the job as it is now, or was when ranks were last seen if there is no answer any more; and the samples
  /// after this one.
  ///
  ///   title, processes, hosts, interval   of `tutti top`, and seconds
  ///   rows      rank, host, process, state, calls, sent, received, waiting, awaited_by, doing: the worst first
  ///   waits     [rank, [ranks for which it waits]], of ranks that wait now
  ///   verdicts  as `tutti status` has them
  ///   error     why there is no answer; null: there is, or there was none yet
  ///   run       a number that each History draws for itself
  ///   last      the number of the last sample; 0: there is none yet
  ///   samples   number, seconds, calls and sent (a second, of all ranks), waiting: percent by rank, null: not known
  std::string page(uint64_t after) const;

 private:
  struct Sample {
    uint64_t number = 0;
    double seconds = 0, calls = 0, sent = 0;
    std::vector<int8_t> waiting;  // percent by rank; −1: not known
  };

  const double interval_;
  TopTable now_;
  TopTable last_seen_;  // the last that had ranks: a process that ends may answer once more, without its communicators
  const uint64_t run_;
  std::string error_;
  uint64_t last_ = 0;
  size_t cells_ = 0;  // in samples_
  std::deque<Sample> samples_;
};

}  // namespace tutti::tools
