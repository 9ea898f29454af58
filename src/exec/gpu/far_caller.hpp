// Does a rank's steps on parts of other hosts (far_steps.hpp): sends requests over a stream to each peer, and puts the
// answers into the steps' slots. Requests are sent in the order of the steps; answers of several peers are awaited at
// the same time.
#pragma once

#include <poll.h>

#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "base/fd.hpp"
#include "exec/backend.hpp"
#include "exec/gpu/far_steps.hpp"

namespace tutti::exec::gpu {

class FarCaller {
 public:
  FarCaller(const BackendContext& context, std::shared_ptr<FarSteps> steps);

  /// Opens the stream to the peer, if there is none, on the thread that makes calls. Throws what opening throws.
  void connect(Rank peer);

  // ---- the proxy's thread
  /// Does what can be done now; true if that was something. Throws Error with what the communicator fails with.
  bool progress();
  /// What to wait for before the next look, beside words.
  void add_events(std::vector<pollfd>& events) const;

 private:
  struct Peer {
    Fd stream;
    std::deque<uint64_t> awaited;  // steps whose answers are due
    FarAnswer answer;
    size_t received = 0;            // bytes of it, and of what follows
    std::optional<Deadline> ended;  // the stream has; until then it is found out why
  };
  void take_new();
  bool send();
  bool receive(Peer& peer);
  bool skip_ended(Peer& peer, uint64_t number);
  void check_answer(const Peer& peer, const FarStep& step) const;
  void complete(uint64_t number);
  [[noreturn]] void fail(Code code, const FarStep& step, const std::string& why) const;

  const BackendContext context_;
  const std::shared_ptr<FarSteps> steps_;
  std::vector<bool> is_open_;  // of the thread that makes calls: streams by peer
  std::mutex mutex_;           // guards new_
  std::vector<std::pair<Rank, Fd>> new_;
  // Of the proxy's thread.
  std::vector<Peer> peers_;  // by rank
  uint64_t next_ = 0;        // step to be sent; …
  uint64_t sent_ = 0;        // … so many bytes of it are
  uint64_t done_ = 0;
  std::array<bool, FarSteps::kMaxAhead> is_done_ = {};  // of those behind done_
};

}  // namespace tutti::exec::gpu
