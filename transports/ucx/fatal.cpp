#include "transports/ucx/fatal.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <string_view>

#include "base/format.hpp"

extern "C" void ucs_debug_disable_signals();  // exported by libucs, and in no header

namespace tutti::transports::ucx {
namespace {

thread_local uint32_t inside = 0;                    // Guards of this thread
std::atomic<const std::string*> elsewhere{nullptr};  // what UCX said in a thread of its own

}  // namespace

Guard::Guard() {
  if (const std::string* text = elsewhere.load(std::memory_order_acquire)) throw Fatal{*text};
  ++inside;
}
Guard::~Guard() { --inside; }

void remove_signal_handlers() { ucs_debug_disable_signals(); }

/// UCX has one thread of its own, of this name, for all its workers.
static bool is_of_ucx() {
  char name[16] = {};
  return ::pthread_getname_np(::pthread_self(), name, sizeof name) == 0 && std::string_view(name) == "async";
}

static void give_up(std::string text) {
  if (inside > 0) throw Fatal{std::move(text)};
  if (!is_of_ucx()) return;
  elsewhere.store(new std::string(std::move(text)), std::memory_order_release);
  while (true) ::pause();
}

}  // namespace tutti::transports::ucx

/// UCX calls it when it cannot go on, and does not expect it to return. Threads of the program may use UCX too: for
/// them it is as it was.
extern "C" [[gnu::visibility("default")]] void ucs_fatal_error_message(const char* file, unsigned line,
                                                                       const char* function, char* message) {
  std::string name(file);
  name.erase(0, name.rfind('/') + 1);
  tutti::transports::ucx::give_up(
      fmt::format("{} ({}:{}, {})", message != nullptr ? message : "no reason", name, line, function));
  reinterpret_cast<decltype(&ucs_fatal_error_message)>(::dlsym(RTLD_NEXT, "ucs_fatal_error_message"))(
      file, line, function, message);
}
