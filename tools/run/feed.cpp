#include "tools/run/feed.hpp"

#include <fcntl.h>

#include <cerrno>

namespace tutti::tools {
namespace {

bool came_back(const std::vector<pollfd>& fds, int fd) {
  for (const pollfd& entry : fds) {
    if (entry.fd == fd && entry.revents != 0) return true;
  }
  return false;
}

}  // namespace

Feed::Feed(Fd sink, std::string first, int source)
    : sink_(std::move(sink)), pending_(std::move(first)), source_(source) {
  fcntl(sink_.get(), F_SETFL, fcntl(sink_.get(), F_GETFL) | O_NONBLOCK);
  give();
}

void Feed::wait_for(std::vector<pollfd>& fds) const {
  if (!sink_) return;
  if (!pending_.empty()) {
    fds.push_back({sink_.get(), POLLOUT, 0});
  } else if (source_ >= 0) {
    fds.push_back({source_, POLLIN, 0});
    fds.push_back({sink_.get(), 0, 0});  // the rank may close its end first
  }
}

void Feed::pump(const std::vector<pollfd>& fds) {
  if (!sink_) return;
  if (!pending_.empty()) {
    if (came_back(fds, sink_.get())) give();
    return;
  }
  if (came_back(fds, sink_.get())) {
    sink_.reset();  // nothing reads it any more
  } else if (source_ >= 0 && came_back(fds, source_)) {
    take();
  }
}

void Feed::take() {
  char block[65536];
  const ssize_t got = read(source_, block, sizeof block);
  if (got > 0) pending_.assign(block, static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR && errno != EAGAIN)) source_ = -1;
  give();
}

void Feed::give() {
  while (!pending_.empty()) {
    const ssize_t written = ::write(sink_.get(), pending_.data(), pending_.size());
    if (written > 0) {
      pending_.erase(0, static_cast<size_t>(written));
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR) {
      sink_.reset();
      return;
    }
  }
  if (source_ < 0) sink_.reset();  // everything was written
}

}  // namespace tutti::tools
