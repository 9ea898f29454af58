#include "transports/verbs/mapping_watch.hpp"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/limits.hpp"
#include "base/log.hpp"
#include "tutti/error.hpp"

namespace tutti::transports::verbs {
namespace {

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

Fd open_reports() {
  Fd fd(static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)));
  uffdio_api api{};
  api.api = UFFD_API;
  api.features =
      UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_PAGEFAULT_FLAG_WP;
  if (fd && ::ioctl(fd.get(), UFFDIO_API, &api) != 0) fd.reset();
  return fd;
}

/// A thread in which no handler of the program's signals runs.
template <class Body>
void start_quiet_thread(const Body& body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    start_thread(body).detach();
  } catch (const Error&) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

MappingWatch& MappingWatch::of_this_process() {
  static auto* const kWatch = new MappingWatch;
  return *kWatch;
}

MappingWatch::MappingWatch() : reports_of_kernel_(open_reports()) {
  if (!reports_of_kernel_) {
    log_info(
        "verbs: messages are copied before they are sent, because the system has no userfaultfd that reports when "
        "registered memory is unmapped: {}",
        std::strerror(errno));
    return;
  }
  try {
    start_quiet_thread([this] { read_reports(); });
  } catch (const Error& error) {
    log_warn("verbs: messages are copied before they are sent: {}", error.what());
    reports_of_kernel_.reset();
  }
}

bool MappingWatch::watch(uint64_t begin, uint64_t end) {
  if (!reports_of_kernel_) return false;
  uffdio_register range{};
  range.range = {begin, end - begin};
  range.mode = UFFDIO_REGISTER_MODE_WP;
  return ::ioctl(reports_of_kernel_.get(), UFFDIO_REGISTER, &range) == 0;
}

bool MappingWatch::take(uint64_t& position, Gone& gone) const {
  while (reading_.load(std::memory_order_seq_cst) != 0) sched_yield();
  const uint64_t end = reports_.load(std::memory_order_acquire);
  if (position == end) return false;
  const Stored& stored = stored_[position % kKept];
  gone = {stored.begin.load(std::memory_order_relaxed), stored.end.load(std::memory_order_relaxed)};
  if (reports_.load(std::memory_order_acquire) - position < kKept) {
    ++position;
    return true;
  }
  gone = {0, ~uint64_t{0}};
  position = reports_.load(std::memory_order_acquire);
  return true;
}

void MappingWatch::read_reports() {
  while (true) {
    pollfd wait{reports_of_kernel_.get(), POLLIN, 0};
    ::poll(&wait, 1, -1);
    // Before a report is read: a thread that unmapped something sees this, or the report.
    reading_.store(1, std::memory_order_seq_cst);
    uffd_msg message{};
    if (::read(reports_of_kernel_.get(), &message, sizeof message) == sizeof message) {
      Gone gone{};
      if (message.event == UFFD_EVENT_REMAP) {
        gone = {message.arg.remap.from, message.arg.remap.from + message.arg.remap.len};
      } else if (message.event == UFFD_EVENT_UNMAP || message.event == UFFD_EVENT_REMOVE) {
        gone = {message.arg.remove.start, message.arg.remove.end};
      }
      const uint64_t number = reports_.load(std::memory_order_relaxed);
      stored_[number % kKept].begin.store(gone.begin, std::memory_order_relaxed);
      stored_[number % kKept].end.store(gone.end, std::memory_order_relaxed);
      reports_.store(number + 1, std::memory_order_release);
    }
    reading_.store(0, std::memory_order_seq_cst);
  }
}

}  // namespace tutti::transports::verbs
