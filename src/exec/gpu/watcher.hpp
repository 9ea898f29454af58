// The thread that stands between an executor's calls and the communicator: it ends kernels, and the waits of streams,
// when the communicator has failed, and tells the observer what kernels report, how long calls have waited, and that
// their GPU has failed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/deadline.hpp"
#include "exec/backend.hpp"
#include "exec/gpu/gpu.hpp"
#include "exec/gpu/lanes.hpp"

namespace tutti::exec::gpu {

/// Calls that streams run without a kernel, as the watcher's thread sees them: of copy engines, and waits for signals.
class CopyCalls {
 public:
  virtual ~CopyCalls() = default;
  /// Is one under way?
  virtual bool runs() const = 0;
  /// Changes whenever the stream has come further.
  virtual uint64_t progress() const = 0;
  /// What the stream waits for.
  virtual std::optional<Stall> wait() const = 0;
  /// The message of another call that it waits behind, if the words say so now.
  virtual std::optional<Fault> wrong() const = 0;
  /// Lets all waits end.
  virtual void release() const = 0;
};

class Watcher {
 public:
  /// Its thread starts with the first call.
  /// `copies`: null if the copy engines run no calls. `close` sets Counters::closed; it may wait for the driver.
  Watcher(const BackendContext& context, const Gpu& gpu, HostRecord& record, const CopyCalls* copies,
          std::function<void()> close)
      : context_(context), gpu_(gpu), record_(record), copies_(copies), close_(std::move(close)) {}
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// A call has been enqueued. `launched`: as a kernel that will run now, and not when its graph does.
  void called(bool launched);
  /// Ends the kernels and copies that wait, and soon all later ones before they read anything: a peer that has left may
  /// have freed what it had published.
  void end_kernels();
  /// Waits until the observer knows all that kernels have reported so far.
  void poll_again(Deadline deadline);

 private:
  void work();
  void poll();
  void poll_copies();
  void log_board();
  void release_copies();
  void check_stall(uint64_t call);
  void check_wait(Stall stall, uint64_t waiting);
  bool check_device(uint64_t started, uint64_t ended, bool copies);
  void ask_device();
  void close_calls();
  bool apart(std::function<void()> task);
  std::string answer();
  void report_wait() const;
  bool report_copies_wait() const;
  std::optional<Stall> current_wait() const;

  const BackendContext context_;
  const Gpu& gpu_;
  HostRecord& record_;
  const CopyCalls* const copies_;
  const std::function<void()> close_;
  std::mutex mutex_;
  std::condition_variable changed_, polled_;
  bool ending_ = false;
  uint64_t calls_ = 0;                     // of kernels, enqueued, but not captured
  uint64_t quiet_ = 0;                     // turns since anything ran
  uint64_t polls_ = 0, wanted_polls_ = 0;  // that have ended, and that shall end without a pause between
  bool asking_ = false;                    // the driver, in a thread of its own
  std::string answer_;
  // Of the thread alone.
  bool reported_ = false, closed_ = false;
  uint64_t running_ = 0;  // the call that was running at the last turn; of copies: how far it was
  int wrong_ = 0;         // turns in a row in which a call of copies had a message of another one
  double since_ = 0, next_check_ = 0;
  uint64_t stall_id_ = 0;
  uint64_t signs_ = 0;       // of life: a sum of what kernels have told
  double alive_ = 0;         // when that last changed, or the device was seen to work
  double aborted_ = 0;       // when that was seen
  uint64_t board_sign_ = 0;  // changes when a call has ended
  double next_board_ = 0;
  std::thread thread_, driver_probe_;
};

}  // namespace tutti::exec::gpu
