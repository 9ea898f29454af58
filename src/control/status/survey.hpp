// One question to all other processes with which this one shares communicators. Belongs to the control thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/status/job_status.hpp"
#include "control/status/questions.hpp"

namespace tutti::control {

class ControlClient;
class ControlThread;

/// Processes of this host are asked at their sockets, so that no rendezvous server is needed, whose process may be the
/// one that is stopped; those of other hosts over the communicators' rendezvous servers.
class Survey {
 public:
  struct Question {
    std::string word;                                         ///< for a process's socket
    uint64_t key = 0;                                         ///< for its ranks' call boards
    size_t most = 0;                                          ///< bytes of an answer of a socket
    std::function<bool(const ControlClient&)> concerns = {};  ///< communicators of which all are asked; empty: of all
  };
  struct Asked {
    JobProcess process;                 ///< Silent if it has answered: whether that can be read has to be seen
    std::optional<std::string> answer;  ///< empty: there is none
  };
  using Then = std::function<void(std::vector<Asked>)>;

  Survey(ControlThread& control, Questions& questions) : control_(control), questions_(questions) {}

  /// `then` gets the processes, at once or later; not after an exception.
  void ask(const Question& question, Then then);

 private:
  struct Gathering;
  void ask_rank(const Question& question, const std::shared_ptr<ControlClient>& client, Rank rank,
                const std::shared_ptr<Gathering>& now);

  ControlThread& control_;
  Questions& questions_;
};

}  // namespace tutti::control
