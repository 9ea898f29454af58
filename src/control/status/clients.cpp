#include "control/status/clients.hpp"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/socket.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxClients = 64;  // at a time; more are turned away
constexpr double kPaused = 0.1;     // seconds without accepting, where no descriptor is left

}  // namespace

void Clients::listen(Fd listener) {
  listener_ = std::move(listener);
  watch_listener();
}

void Clients::watch_listener() {
  watch_ = loop_.watch(listener_.get(), EPOLLIN, [this](uint32_t) { accept_some(); });
}

void Clients::accept_some() {
  constexpr int kAtOnce = 16;  // other work of this thread is not to wait for a flood
  for (int i = 0; i < kAtOnce; ++i) {
    Fd fd = accept_now(listener_.get());
    if (!fd && errno != EAGAIN && errno != ECONNABORTED) {  // no descriptor is left: the listener would stay readable
      loop_.unwatch(watch_);
      loop_.at(Deadline::in(kPaused), [this] { watch_listener(); });
      return;
    }
    if (!fd) return;
    if (all_.size() >= kMaxClients || (service_.admits && !service_.admits(fd.get()))) continue;
    const auto client = all_.emplace(all_.end());
    try {
      client->fd_ = std::move(fd);
      client->timer_ = loop_.at(Deadline::in(service_.time_limit), [this, client] {
        client->timer_ = 0;
        drop(client);
      });
      client->watch_ =
          loop_.watch(client->fd_.get(), EPOLLIN, [this, client](uint32_t events) { on_ready(client, events); });
    } catch (...) {
      drop(client);
      throw;
    }
  }
}

void Clients::drop(Id client) {
  loop_.unwatch(client->watch_);
  loop_.cancel(client->timer_);
  if (service_.dropped) service_.dropped(client);
  if (client->fd_) shutdown(client->fd_.get(), SHUT_RDWR);  // a forked child may hold it too
  all_.erase(client);
}

void Clients::on_ready(Id client, uint32_t events) {
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return drop(client);
  client->reply_.empty() ? read(client) : write(client);
}

void Clients::read(Id client) {
  char bytes[4096];
  const ptrdiff_t got = recv_now(client->fd_.get(), bytes, sizeof bytes);
  if (got == 0) return;
  if (got < 0) return drop(client);
  client->request.append(bytes, static_cast<size_t>(got));
  service_.received(client);
}

void Clients::hold(Id client) {
  client->waits_ = true;
  loop_.change(client->watch_, 0);
}

void Clients::answer(Id client, const std::string& reply) {
  client->reply_ += reply;
  client->waits_ = false;
  client->ends_ = true;
  write(client);
}

void Clients::say(Id client, const std::string& reply) {
  client->reply_ += reply;
  write(client);
}

void Clients::write(Id client) {
  const ptrdiff_t put = send_now(client->fd_.get(), std::string_view(client->reply_).substr(client->sent_));
  if (put < 0) return drop(client);
  client->sent_ += static_cast<size_t>(put);
  if (client->sent_ < client->reply_.size()) return loop_.change(client->watch_, EPOLLOUT);
  if (client->ends_) return drop(client);
  client->reply_.clear();
  client->sent_ = 0;
  loop_.change(client->watch_, client->waits_ ? 0U : static_cast<uint32_t>(EPOLLIN));
}

}  // namespace tutti::control
