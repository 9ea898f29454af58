// UCX aborts the process when it finds itself in a state that it does not expect. Here that becomes an exception.
//
// libutti_ucx.so exports a function with the name of UCX's own last one, ucs_fatal_error_message(). The dynamic linker
// looks up the symbols of UCX's libraries, which are loaded for this module, in the module first. What UCX leaves
// behind is in an unknown state: nothing of that worker may be called any more, and its memory stays.
#pragma once

#include <string>

#include "base/rank.hpp"
#include "tutti/error.hpp"

namespace tutti::transports::ucx {

/// Thrown out of a call of UCX, inside Guard.
struct Fatal {
  std::string text;
};

/// While it exists, what UCX cannot go on from in this thread is thrown as Fatal. Throws Fatal at once if that has
/// happened in the thread of UCX's own, which then waits for ever.
class Guard {
 public:
  Guard();
  ~Guard();
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

/// Takes back UCX's handlers of the program's signals, which its library sets when it is loaded.
void remove_signal_handlers();

}  // namespace tutti::transports::ucx
