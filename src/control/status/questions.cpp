#include "control/status/questions.hpp"

#include <sys/epoll.h>
#include <unistd.h>

#include <exception>
#include <utility>

#include "base/format.hpp"
#include "base/socket.hpp"

namespace tutti::control {
namespace {

constexpr size_t kMaxQuestions = 64;  // at a time

}  // namespace

std::string status_socket(uint32_t process, uint64_t started) {
  return fmt::format("tutti-status-{}-{}", process, started);
}

bool may_ask(int fd) {
  const int64_t user = peer_user(fd);
  return user == 0 || user == static_cast<int64_t>(geteuid());
}

void Questions::ask(Question question) {
  later_.push_back(std::move(question));
  ask_next();
}

void Questions::ask_next() {
  while (!later_.empty() && open_.size() < kMaxQuestions) {
    Question next = std::move(later_.front());
    later_.pop_front();
    if (!begin(next)) next.unreachable();
  }
}

/// False if the process cannot be asked so; then `question` is as it was.
bool Questions::begin(Question& question) {
  const Member& member = question.member;
  Fd fd;
  try {
    fd = connect_unix(status_socket(member.process, member.started), {.deadline = Deadline::in(0)});
  } catch (const Error&) {
    return false;
  }
  // Anybody may have taken the name.
  if (peer_process(fd.get()) != static_cast<int64_t>(member.process) || !may_ask(fd.get())) return false;
  const std::string line = question.request + "\n";
  if (send_now(fd.get(), line) != static_cast<ptrdiff_t>(line.size())) return false;
  const auto open = open_.emplace(open_.end());
  open->fd = std::move(fd);
  try {
    open->timer = loop_.at(Deadline::in(kSilent), [this, open] {
      open->timer = 0;
      resolve(open, false);
    });
    open->watch = loop_.watch(open->fd.get(), EPOLLIN, [this, open](uint32_t) { read(open); });
  } catch (const std::exception&) {
    loop_.cancel(open->timer);
    open_.erase(open);
    return false;
  }
  open->question = std::move(question);
  return true;
}

void Questions::read(All::iterator open) {
  char bytes[16384];
  const ptrdiff_t got = recv_now(open->fd.get(), bytes, sizeof bytes);
  if (got < 0) return resolve(open, !open->answer.empty());
  open->answer.append(bytes, static_cast<size_t>(got));
  if (open->answer.size() > open->question.most) resolve(open, false);
}

void Questions::resolve(All::iterator open, bool answered) {
  loop_.unwatch(open->watch);
  loop_.cancel(open->timer);
  const Open done = std::move(*open);
  open_.erase(open);
  ask_next();
  done.question.answer(answered ? std::optional(done.answer) : std::nullopt);
}

}  // namespace tutti::control
