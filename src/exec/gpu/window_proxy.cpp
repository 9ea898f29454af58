#include "exec/gpu/window_proxy.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>
#include <vector>

#include "base/limits.hpp"
#include "exec/wait.hpp"

namespace tutti::exec::gpu {
namespace {

constexpr double kLongestRest = 200e-6;  // seconds from one look at words to the next, while they may change …
constexpr double kIdle = 1;              // … and while they do not

void signal_event(const Fd& event) {
  const uint64_t one = 1;
  (void)!::write(event.get(), &one, sizeof one);
}

std::shared_ptr<Fd> make_event() {
  auto event = std::make_shared<Fd>(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!*event) throw_system("open an eventfd", errno);
  return event;
}

}  // namespace

/// Streams of peers come on the control thread, also when this is gone.
WindowProxy::WindowProxy(const BackendContext& context, const Gpu& gpu, std::unique_ptr<FarStream> stream,
                         std::function<uint64_t()> number)
    : context_(context),
      gpu_(gpu),
      number_(std::move(number)),
      steps_(std::make_shared<FarSteps>(gpu)),
      server_(std::make_shared<FarServer>(gpu, std::move(stream))),
      caller_(context, steps_),
      wake_(make_event()) {
  thread_ = start_thread([this] { gpu_.use([this] { work(); }); });
  context.wireup->receive_streams(kFarLabel, [server = server_, wake = wake_](Rank from, Fd opened) {
    server->admit(from, std::move(opened));
    signal_event(*wake);
  });
}

WindowProxy::~WindowProxy() {
  context_.wireup->receive_streams(kFarLabel, {});
  ending_ = true;
  signal_event(*wake_);
  thread_.join();
}

/// Either this sees that the thread sleeps, or the thread sees the steps before it does.
void WindowProxy::called() {
  if (sleeps_.load(std::memory_order_seq_cst)) signal_event(*wake_);
}

void WindowProxy::work() {
  Waiter waiter(*context_.backoff);
  while (!ending_) {
    if (turn()) {
      waiter.progressed();
      continue;
    }
    const double seconds = waiter.turn();
    if (seconds > 0) rest(seconds);
  }
}

/// Moves what can be moved.
bool WindowProxy::turn() {
  stopped_ = stopped_ || context_.failed->load(std::memory_order_acquire) != 0;
  if (stopped_) return false;
  try {
    const bool asked = server_->progress();
    return caller_.progress() || asked;
  } catch (const Error& error) {
    context_.network->failed({error.code(), error.what()}, number_());
    stopped_ = true;
    return false;
  }
}

/// Until a socket is ready, a call has been enqueued, or words may have changed.
void WindowProxy::rest(double seconds) {
  std::vector<pollfd> events{{.fd = wake_->get(), .events = POLLIN, .revents = 0}};
  if (!stopped_) {
    server_->add_events(events);
    caller_.add_events(events);
  }
  sleeps_.store(true, std::memory_order_seq_cst);
  const bool idle = stopped_ || !(steps_->is_ahead() || server_->is_busy());
  const double most = idle ? kIdle : std::min(seconds, kLongestRest);
  const timespec limit{.tv_sec = static_cast<time_t>(most),
                       .tv_nsec = static_cast<long>((most - static_cast<double>(static_cast<time_t>(most))) * 1e9)};
  ::ppoll(events.data(), events.size(), &limit, nullptr);
  sleeps_.store(false, std::memory_order_relaxed);
  uint64_t count = 0;
  if (events.front().revents != 0) (void)!::read(wake_->get(), &count, sizeof count);
}

}  // namespace tutti::exec::gpu
