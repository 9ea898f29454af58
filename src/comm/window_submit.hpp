// Calls on windows that are to run: at once, on a stream, or at the end of a group.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "comm/communicator.hpp"
#include "comm/window.hpp"

namespace tutti::comm {

class Stream;

/// A call on a window.
struct WindowCall {
  std::shared_ptr<Communicator> comm;
  std::shared_ptr<Window> window;
  OneSided call;
  std::shared_ptr<Stream> stream;
};

/// Runs it, or passes it to its stream. Throws its error.
void run_on_window(const WindowCall& of);
/// At once, on this thread.
void run_now(Communicator& comm, Window& window, const OneSided& call);
/// Those of a group that do not wait for signals, then between(), then those that do: all of it. Throws the first
/// error.
void run_on_windows(const std::vector<WindowCall>& calls, const std::function<void()>& between);

}  // namespace tutti::comm
