// Groups of calls that run together.
#pragma once

#include <exception>

#include "tutti/check.hpp"
#include "tutti/tutti.h"

namespace tutti {

/// Collects the calls made during its lifetime and runs them together at `end()`.
class Group {
 public:
  Group() { check(tuttiGroupStart()); }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  /// Where `end()` was not reached, no call has run. If an exception propagates, they are dropped, since their buffers
  /// may be gone; enclosing groups are dropped too: their `end()` throws, see tuttiGroupDiscard. Otherwise `end()` was
  /// forgotten: that is logged, and the communicators of the calls fail, see tuttiGroupAbandon.
  ~Group() {
    if (!open_) return;
    if (std::uncaught_exceptions() > exceptions_) {
      tuttiGroupDiscard();
    } else if (tuttiGroupAbandon("a tutti::Group ends without end()") != tuttiSuccess) {
      tuttiLog("error", tuttiGetLastError());
    }
  }
  void end() {
    open_ = false;
    check(tuttiGroupEnd());
  }
  /// Seconds that the calls collected so far would take, by the cost model.
  static double estimate() {
    double seconds = 0;
    check(tuttiGroupEstimate(&seconds));
    return seconds;
  }

 private:
  bool open_ = true;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace tutti
