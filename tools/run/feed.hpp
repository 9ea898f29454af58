// Forwards the launcher's standard input to one rank, where the launcher has to do so.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/fd.hpp"

namespace tutti::tools {

class Feed {
 public:
  /// `sink`: the writing end of the rank's standard input. Writes `first`, then everything from `source` until its end;
  /// nothing more if `source` is -1.
  Feed(Fd sink, std::string first, int source);

  /// Adds the descriptors that it waits for.
  void wait_for(std::vector<pollfd>& fds) const;
  /// Moves what can be moved without waiting. Called after poll, with its results.
  void pump(const std::vector<pollfd>& fds);

 private:
  void take();
  void give();

  Fd sink_;
  std::string pending_;
  int source_;
};

}  // namespace tutti::tools
