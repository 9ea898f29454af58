// What one rank reads on its standard input, where the launcher has to pass it on.
#pragma once

#include <poll.h>

#include <string>
#include <vector>

#include "base/fd.hpp"

namespace tutti::tools {

class Feed {
 public:
  /// `sink`: the writing end of the rank's standard input. `first` goes before all else; then what `source` gives until
  /// it ends, or nothing when it is -1.
  Feed(Fd sink, std::string first, int source);

  /// Adds what it waits for.
  void wait_for(std::vector<pollfd>& fds) const;
  /// Moves what can be moved without waiting. Call it after poll, with what came back.
  void pump(const std::vector<pollfd>& fds);

 private:
  void take();
  void give();

  Fd sink_;
  std::string pending_;
  int source_;
};

}  // namespace tutti::tools
