#include "fuzz/member/accomplice.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include "base/secret.hpp"
#include "base/socket.hpp"
#include "control/host.hpp"
#include "tutti/error.hpp"

namespace tutti::fuzz {
namespace {

constexpr char kMade = 'y', kRefused = 'n';

WaitLimit brief() { return {Deadline::in(1), nullptr}; }

alignas(4096) unsigned char room[Accomplice::kMemory];

}  // namespace

unsigned char* Accomplice::memory() { return room; }

Accomplice::Accomplice() : name_("tutti-fuzz-" + random_hex(8)) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) throw Error(Code::SystemError, "socketpair");
  end_ = Fd(ends[0]);
  const Fd theirs(ends[1]);
  const pid_t child = fork();
  if (child < 0) throw Error(Code::SystemError, "fork");
  if (child == 0) {
    end_.reset();
    serve(theirs, name_);
  }
  process_ = static_cast<uint32_t>(child);
  started_ = control::process_start(process_);
  char answer = 0;
  listener_ = recv_with_fd(end_.get(), &answer, 1, brief());
}

Fd Accomplice::connect(const std::string& name) const {
  char answer = 0;
  send_all(end_.get(), name, brief());
  Fd made = recv_with_fd(end_.get(), &answer, 1, brief());
  if (answer != kMade) throw Error(Code::PeerFailed, "nobody listens there");
  return made;
}

void Accomplice::serve(const Fd& end, const std::string& name) {
  try {
    const Fd listener = listen_unix(name);
    send_with_fd(end.get(), {&kMade, 1}, listener.get(), brief());
    for (;;) {
      char wanted[128];
      const ssize_t size = recv(end.get(), wanted, sizeof wanted, 0);
      if (size <= 0) _exit(0);
      Fd made;
      try {
        made = connect_unix({wanted, static_cast<size_t>(size)}, brief());
      } catch (const Error&) {
      }
      send_with_fd(end.get(), {made ? &kMade : &kRefused, 1}, made.get(), brief());
    }
  } catch (const Error&) {
    _exit(1);
  }
}

}  // namespace tutti::fuzz
