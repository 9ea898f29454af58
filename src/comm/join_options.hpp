// The options of a communicator, beside its id and its ranks.
#pragma once

#include <atomic>
#include <string>

#include "base/env.hpp"
#include "comm/groups.hpp"
#include "control/endpoint.hpp"
#include "link/segment.hpp"

namespace tutti::comm {

/// Seconds, which may be set while other threads read them.
class SettableSeconds {
 public:
  SettableSeconds(double seconds) : seconds_(seconds) {}  // NOLINT(google-explicit-constructor): it is a number
  SettableSeconds(const SettableSeconds& other) : seconds_(other.get()), was_set_(other.was_set()) {}
  SettableSeconds& operator=(const SettableSeconds& other) {
    seconds_ = other.get();
    was_set_ = other.was_set();
    return *this;
  }
  void set(double seconds) {
    seconds_.store(seconds, std::memory_order_relaxed);
    was_set_.store(true, std::memory_order_relaxed);
  }
  double get() const { return seconds_.load(std::memory_order_relaxed); }
  bool was_set() const { return was_set_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> seconds_;
  std::atomic<bool> was_set_{false};
};

/// Seconds.
struct Timeouts {
  Timeouts() : call(0) {}

  SettableSeconds call;      ///< that a call may wait without progress; 0: TUTTI_TIMEOUT
  double init = 0;           ///< that making a communicator or a link may take; 0: TUTTI_INIT_TIMEOUT
  std::string call_setting;  ///< what the user raises to change `call`; empty: Tutti's own setting

  double of_calls() const { return call.get() > 0 ? call.get() : env().timeout; }
  /// "TUTTI_TIMEOUT", or the setting that overrides it: for texts.
  std::string setting_of_calls() const {
    if (call.get() == 0) return "TUTTI_TIMEOUT";
    if (!call_setting.empty()) return call_setting;
    return call.was_set() ? "the limit of tuttiCommSetTimeout" : "tuttiConfig_t.timeout";
  }
  double of_init() const { return init > 0 ? init : env().init_timeout; }
};

struct JoinOptions {
  Groups groups;      ///< of near ranks, where the ranks know them already; null: by TUTTI_GROUPS, or else by host
  std::string title;  ///< names the communicator in messages, alike on all ranks; empty: one is made of the id
  Timeouts timeouts;
  std::vector<int> processors = {};  ///< by backend: which this rank's calls use (comm/placement.hpp); empty: none
  std::shared_ptr<link::SegmentFiles> arenas;  ///< of the communicator that is split; null: this is no split
  control::JoinTerms terms;
};

inline const Timeouts kDefaultTimeouts{};

}  // namespace tutti::comm
