// The options of a communicator, beside its id and its ranks.
#pragma once

#include <atomic>
#include <string>

#include "base/env.hpp"
#include "comm/groups.hpp"
#include "control/endpoint.hpp"

namespace tutti::comm {

/// Seconds, which may be set while other threads read them.
class SettableSeconds {
 public:
  SettableSeconds(double seconds) : seconds_(seconds) {}  // NOLINT(google-explicit-constructor): it is a number
  SettableSeconds(const SettableSeconds& other) : seconds_(other.get()) {}
  SettableSeconds& operator=(const SettableSeconds& other) {
    set(other.get());
    return *this;
  }
  void set(double seconds) { seconds_.store(seconds, std::memory_order_relaxed); }
  double get() const { return seconds_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> seconds_;
};

/// Seconds.
struct Timeouts {
  Timeouts() : call(0) {}

  SettableSeconds call;      ///< that a call may wait without progress; 0: TUTTI_TIMEOUT
  double init = 0;           ///< that making a communicator or a link may take; 0: TUTTI_INIT_TIMEOUT
  std::string call_setting;  ///< what the user raises to change `call`; empty: the configuration's field

  double of_calls() const { return call.get() > 0 ? call.get() : env().timeout; }
  /// "TUTTI_TIMEOUT", or the setting that overrides it: for texts.
  std::string setting_of_calls() const {
    return call.get() == 0 ? "TUTTI_TIMEOUT" : call_setting.empty() ? "tuttiConfig_t.timeout" : call_setting;
  }
  double of_init() const { return init > 0 ? init : env().init_timeout; }
};

struct JoinOptions {
  Groups groups;      ///< of near ranks, where the ranks know them already; null: by TUTTI_GROUPS, or else by host
  std::string title;  ///< names the communicator in messages, alike on all ranks; empty: one is made of the id
  Timeouts timeouts;
  int device = -1;  ///< on which this rank's calls on device memory run; −1: none
  control::JoinTerms terms;
};

inline const Timeouts kDefaultTimeouts{};

}  // namespace tutti::comm
