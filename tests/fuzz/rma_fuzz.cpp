// The streams of windows, spoken by a hostile rank: requests to a rank's agent, or an agent's answers to a rank. The
// first byte of an input selects which. No input may change a byte outside of what the rank exposes, nor end the agent
// for others; and all that a caller may see is an error that names the rank.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "base/socket.hpp"
#include "fuzz/member/words.hpp"
#include "rma/agent.hpp"
#include "rma/channel.hpp"
#include "tutti/error.hpp"

namespace tutti::fuzz {
namespace {

using namespace rma;  // NOLINT(google-build-using-namespace): the protocol that is attacked

constexpr Rank kRanks = 3, kHostile = 1, kHonest = 2;
constexpr double kLimit = 20;  // seconds until an input hangs

[[noreturn]] void defect(const char* what) {
  std::fprintf(stderr, "defect: %s\n", what);
  std::abort();
}

struct Ends {
  Fd near, far;
};

Ends stream() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Of this process alone: a stream that is opened is `to_open`.
class OneProcess final : public transports::Wireup {
 public:
  Fd to_open;

  Rank rank() const override { return 0; }
  Rank ranks() const override { return kRanks; }
  const transports::ProcessId& process_id(Rank) const override { return id_; }
  void confirm_process(Rank, Deadline) override {}
  const std::string& name() const override { return id_.host; }
  Fd open_stream(Rank, const std::string&, Deadline) override { return std::move(to_open); }
  std::optional<Fd> take_stream(Rank, const std::string&) override { return std::nullopt; }
  void receive_streams(const std::string&, std::function<void(Rank, Fd)>) override {}
  void serve(const std::string&, Service) override {}
  Reply ask(Rank, const std::string&, const std::string&, Deadline) override { return {}; }

 private:
  const transports::ProcessId id_{"one process"};
};

/// Two parts among bytes that no request may change, the second at an odd address; and a third that is withdrawn.
class Victim {
 public:
  static constexpr std::array<uint64_t, 3> kWindows{7, 9, 11};
  static constexpr uint64_t kBytes = 4096, kFirst = 512, kSecond = kFirst + kBytes + 513;

  Victim() {
    target->expose(kWindows[0], {.memory = memory.data() + kFirst, .bytes = kBytes, .signals = lines.get()});
    target->expose(kWindows[1], {.memory = memory.data() + kSecond, .bytes = kBytes, .signals = lines.get()});
    target->expose(kWindows[2], {.memory = memory.data(), .bytes = memory.size(), .signals = lines.get()});
    target->withdraw(kWindows[2]);
  }
  ~Victim() { target->close(); }

  void check() const {
    target->synchronize();
    for (size_t i = 0; i < memory.size(); ++i) {
      const bool is_exposed = (i >= kFirst && i < kFirst + kBytes) || (i >= kSecond && i < kSecond + kBytes);
      if (!is_exposed && memory[i] != kGuard) defect("a byte outside of the parts was written");
    }
    for (const Rank other : {0, kHonest}) {
      for (const auto& count : lines[static_cast<size_t>(other)].arrived) {
        if (count != 0) defect("a signal was counted for another rank");
      }
    }
  }

  static constexpr std::byte kGuard{0xa5};
  std::vector<std::byte> memory = std::vector<std::byte>(kSecond + kBytes + 512, kGuard);
  std::unique_ptr<SignalLine[]> lines{new SignalLine[kRanks]()};
  OneProcess wireup;
  const std::shared_ptr<Target> target = Target::open(wireup);
};

std::string bytes_of(const auto& plain) { return {reinterpret_cast<const char*>(&plain), sizeof plain}; }

/// A request with the bytes that are to follow it; mostly nearly right ones, which get far.
std::string request(Words& words) {
  const uint8_t how = words.byte();
  Request request{.what = static_cast<Request::What>(how % 8),  // one more than there are
                  .window = Victim::kWindows[(how >> 3U) % Victim::kWindows.size()]};
  request.offset = words.number();
  request.bytes = words.number();
  request.operand = words.number();
  if ((how & 32) != 0) request.offset = Victim::kBytes - request.offset;
  if ((how & 64) != 0) request.window = words.number();
  const uint8_t more = words.byte();
  if (more == 1) request.magic = static_cast<uint32_t>(words.number());
  if (more == 2) request.what = static_cast<Request::What>(words.number());
  std::string all = bytes_of(request);
  const bool has_bytes = request.what == Request::What::Put || request.what == Request::What::Connect;
  if ((how & 128) != 0) return all + words.text();
  return has_bytes ? all.append(std::min<uint64_t>(request.bytes, 3 * Victim::kBytes), 'x') : all;
}

/// Sends all that is to be said, takes in what comes, and returns when the other end has closed the stream.
void speak(const Fd& fd, std::string_view bytes) {
  const Deadline limit = Deadline::in(kLimit);
  for (bool is_open = true; is_open;) {
    if (limit.passed()) defect("the stream is not closed");
    if (!bytes.empty()) {
      const ptrdiff_t sent = send_now(fd.get(), bytes);
      bytes.remove_prefix(sent < 0 ? bytes.size() : static_cast<size_t>(sent));
      if (bytes.empty()) ::shutdown(fd.get(), SHUT_WR);
    }
    char taken[4096];
    const ptrdiff_t got = recv_now(fd.get(), taken, sizeof taken);
    is_open = got >= 0;
    if (got != 0) continue;
    pollfd entry{fd.get(), static_cast<short>(bytes.empty() ? POLLIN : POLLIN | POLLOUT), 0};
    ::poll(&entry, 1, 100);
  }
}

void attack_agent(Words& words) {
  Victim victim;
  Ends hostile = stream(), honest = stream();
  Agent::of_this_process().serve(std::move(hostile.far), kHostile, victim.target);
  Agent::of_this_process().serve(std::move(honest.far), kHonest, victim.target);
  std::string bytes;
  while (words.more()) bytes += request(words);
  if (bytes.empty()) ::shutdown(hostile.near.get(), SHUT_WR);
  speak(hostile.near, bytes);
  victim.check();
  const WaitLimit limit{Deadline::in(kLimit), nullptr};
  send_all(honest.near.get(), bytes_of(Request{.what = Request::What::Flush}), limit);
  Reply reply;
  recv_all(honest.near.get(), &reply, sizeof reply, limit);
  if (reply.outcome != Reply::Outcome::Done) defect("another rank's stream does not go on");
}

void attack_caller(Words& words) {
  OneProcess wireup;
  Ends ends = stream();
  wireup.to_open = std::move(ends.far);
  const std::atomic<uint32_t> stop{0};
  const rma::Ends waits{stop, [](Rank) { return true; }};  // so that nobody waits for more
  Channel channel(wireup, kHostile, waits, Deadline::in(kLimit));
  std::vector<std::byte> memory(3 * 64, Victim::kGuard);
  const auto into = std::span(memory).subspan(64, 64);
  const uint8_t how = words.byte();
  std::string answers;
  while (words.more()) {
    const uint8_t kind = words.byte();
    const Reply reply{.magic = kind % 8 == 0 ? static_cast<uint32_t>(words.number()) : Request::kMagic,
                      .outcome = static_cast<Reply::Outcome>((kind >> 3U) % 7),
                      .value = words.number()};
    answers += bytes_of(reply) + words.text();
  }
  (void)send_now(ends.near.get(), answers);
  ::shutdown(ends.near.get(), SHUT_WR);
  const Request request{.what = static_cast<Request::What>(1 + 2 * (how % 2)), .window = 7, .bytes = into.size()};
  try {
    for (int call = 0; call < 4; ++call) {
      how % 3 == 0 ? static_cast<void>(channel.connect("an offer", kLimit))
                   : static_cast<void>(channel.ask(request, how % 2 == 0 ? into : std::span<std::byte>(), kLimit));
      channel.flush(kLimit);
    }
  } catch (const Error& error) {
    if (std::string(error.what()).find("rank 1") == std::string::npos) defect("the error does not name the rank");
  }
  if (!std::all_of(memory.begin(), memory.begin() + 64, [](std::byte b) { return b == Victim::kGuard; }) ||
      !std::all_of(memory.end() - 64, memory.end(), [](std::byte b) { return b == Victim::kGuard; }))
    defect("bytes beside those that were asked for were written");
}

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const bool kIsQuiet = setenv("TUTTI_LOG", "off", 0) == 0;
  (void)kIsQuiet;
  tutti::fuzz::Words words(data, size);
  (words.byte() & 1) != 0 ? tutti::fuzz::attack_caller(words) : tutti::fuzz::attack_agent(words);
  return 0;
}
