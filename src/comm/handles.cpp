#include "comm/handles.hpp"

#include <pthread.h>

#include <atomic>
#include <deque>
#include <mutex>
#include <utility>

#include "base/format.hpp"

namespace tutti::comm {
namespace {

[[maybe_unused]] const int g_registered =
    pthread_atfork(nullptr, nullptr, [] { detail::g_process_generation.fetch_add(1, std::memory_order_relaxed); });

template <class Shell>
Shell& new_shell() {
  static auto* const kMutex = new std::mutex;
  static auto* const kShells = new std::deque<Shell>;  // pointers into a deque stay
  const std::lock_guard lock(*kMutex);
  Shell& shell = kShells->emplace_back();
  shell.process = process_generation();
  return shell;
}

void check_process(uint64_t process, const char* what) {
  if (process == process_generation()) return;
  throw_error(Code::InvalidUsage, "this process was forked from the one that made the {}; make a new one here", what);
}

thread_local std::string t_last_error;

}  // namespace

constinit std::atomic<uint64_t> detail::g_process_generation{1};

tuttiComm* make_handle(std::shared_ptr<Communicator> comm) {
  auto& shell = new_shell<tuttiComm>();
  shell.comm = std::move(comm);
  return &shell;
}

tuttiStream* make_handle(std::shared_ptr<Stream> stream) {
  auto& shell = new_shell<tuttiStream>();
  shell.stream = std::move(stream);
  return &shell;
}

void refuse(tuttiComm_t handle) {
  if (handle == nullptr) throw Error(Code::InvalidArgument, "the communicator is null");
  check_process(handle->process, "communicator");
  throw Error(Code::InvalidUsage, "the communicator was destroyed");
}

std::shared_ptr<Communicator> communicator_until_gone(tuttiComm_t handle) {
  if (handle == nullptr) throw Error(Code::InvalidArgument, "the communicator is null");
  check_process(handle->process, "communicator");
  const std::lock_guard lock(handle->mutex);
  if (handle->comm == nullptr) throw Error(Code::InvalidUsage, "the communicator was destroyed");
  return handle->comm;
}

std::shared_ptr<Communicator> begin_destroy(tuttiComm_t handle) {
  auto communicator = communicator_of(handle);
  auto expected = tuttiComm::State::Live;
  if (handle->state.compare_exchange_strong(expected, tuttiComm::State::Leaving)) return communicator;
  throw Error(Code::InvalidUsage, "another thread destroys the communicator");
}

void end_destroy(tuttiComm_t handle) {
  const std::lock_guard lock(handle->mutex);
  handle->comm = nullptr;
  handle->state.store(tuttiComm::State::Destroyed, std::memory_order_release);
}

std::shared_ptr<Stream> live_stream_of(tuttiStream& handle) {
  check_process(handle.process, "stream");
  if (handle.stream == nullptr) throw Error(Code::InvalidUsage, "the stream was destroyed");
  return handle.stream;
}

void set_last_error(const char* text) {
  try {
    t_last_error = text;
  } catch (const std::exception&) {
    t_last_error.clear();
  }
}

const char* last_error() { return t_last_error.c_str(); }

}  // namespace tutti::comm
