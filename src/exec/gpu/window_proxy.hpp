// The thread that connects a rank's windows in memory of a GPU with ranks of other hosts, which neither copies nor
// words of streams reach. It asks them for what this rank's calls want (far_caller.hpp), and carries out what they ask
// for (far_server.hpp). Streams and the thread talk through words in pinned memory only, so a call is enqueued as ever.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "base/fd.hpp"
#include "exec/backend.hpp"
#include "exec/gpu/far_caller.hpp"
#include "exec/gpu/far_server.hpp"
#include "exec/gpu/far_steps.hpp"

namespace tutti::exec::gpu {

class WindowProxy {
 public:
  /// `number`: of the call that runs, for the observer. Throws Error(OutOfMemory | SystemError).
  WindowProxy(const BackendContext& context, const Gpu& gpu, std::unique_ptr<FarStream> stream,
              std::function<uint64_t()> number);
  ~WindowProxy();
  WindowProxy(const WindowProxy&) = delete;
  WindowProxy& operator=(const WindowProxy&) = delete;

  const std::shared_ptr<FarSteps>& steps() const { return steps_; }
  const std::shared_ptr<FarServer>& server() const { return server_; }
  /// Before the first step for a peer. Throws what opening a stream throws.
  void connect(Rank peer) { caller_.connect(peer); }
  /// Steps have been added.
  void called();

 private:
  void work();
  bool turn();
  void rest(double seconds);

  const BackendContext context_;
  const Gpu& gpu_;
  const std::function<uint64_t()> number_;
  const std::shared_ptr<FarSteps> steps_;
  const std::shared_ptr<FarServer> server_;
  FarCaller caller_;
  const std::shared_ptr<Fd> wake_;  // an eventfd
  std::atomic<bool> ending_{false}, sleeps_{false};
  bool stopped_ = false;  // of the thread
  std::thread thread_;
};

}  // namespace tutti::exec::gpu
