// Warns of ranks and links that are slow again and again, before anything is stuck. The process of a communicator's
// rank 0 asks all others once a second how their calls went, from 512 ranks on every second second, and so on; where no
// call was made it asks nobody. Belongs to the control thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/status/slow_findings.hpp"
#include "control/status/slow_links.hpp"
#include "control/status/slow_ranks.hpp"
#include "control/status/survey.hpp"

namespace tutti::control {

class SlowWatch {
 public:
  SlowWatch(ControlThread& control, Survey& survey) : control_(control), survey_(survey) {}

  /// Does nothing if TUTTI_SLOW is 0.
  void open();

 private:
  /// A communicator.
  struct Watched {
    SlowRanks ranks;
    SlowLinks links;
    SlowFindings findings;
    bool asked = false;     // and not all have answered
    int quiet = 0;          // seconds since it was judged last
    bool has_gaps = false;  // not all ranks have told their timing: the log says so
  };

  void look();
  void ask(const std::shared_ptr<ControlClient>& client);
  void judge(ControlClient& client, const std::vector<Survey::Asked>& others);
  std::map<std::string, std::string> found(const Watched& of, const ControlClient& client) const;
  void publish() const;

  ControlThread& control_;
  Survey& survey_;
  double least_lost_ = 0;
  uint64_t seconds_ = 0;                    // looks
  std::map<std::string, Watched> watched_;  // by communicator
};

}  // namespace tutti::control
