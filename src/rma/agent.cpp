#include "rma/agent.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.hpp"
#include "base/limits.hpp"
#include "base/log.hpp"
#include "base/per_process.hpp"
#include "base/socket.hpp"
#include "link/mapped_memory.hpp"
#include "link/writable_memory.hpp"

#ifdef __SANITIZE_THREAD__
extern "C" void AnnotateIgnoreReadsBegin(const char* file, int line);
extern "C" void AnnotateIgnoreReadsEnd(const char* file, int line);
#endif

namespace tutti::rma {
namespace {

constexpr uint64_t kChunk = 256 << 10;  // bytes that are moved without a look at other clients, …
constexpr int kTurns = 16;              // … so many times
constexpr uint64_t kWord = sizeof(uint64_t);

/// While it lives, ThreadSanitizer takes no note of what system calls read. It takes their reads for done when they
/// return. But a peer may have what was sent before that, and tell this rank to go on, which then stores there: after
/// the read.
class ReadBySystem {
 public:
#ifdef __SANITIZE_THREAD__
  ReadBySystem() { AnnotateIgnoreReadsBegin(__FILE__, __LINE__); }
  ~ReadBySystem() { AnnotateIgnoreReadsEnd(__FILE__, __LINE__); }
#else
  ReadBySystem() {}
#endif
  ReadBySystem(const ReadBySystem&) = delete;
  ReadBySystem& operator=(const ReadBySystem&) = delete;
};

bool is_within(uint64_t offset, uint64_t bytes, uint64_t all) { return offset <= all && bytes <= all - offset; }

}  // namespace

/// One rank's stream. Requests are carried out in order.
class Agent::Client {
 public:
  Client(Fd stream, Rank from, std::shared_ptr<Target> target)
      : stream_(std::move(stream)), from_(from), target_(std::move(target)) {}
  ~Client() { target_->end(from_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  int fd() const { return stream_.get(); }
  short events() const { return is_sending() ? POLLOUT : POLLIN; }

  /// Does what can be done now. False: the stream has ended.
  bool step() {
    for (int turn = 0; turn < kTurns; ++turn) {
      const Progress progress = is_sending() ? send() : left_ > 0 ? receive() : read_request();
      if (progress == Progress::Ended) return false;
      if (progress == Progress::None) return true;
    }
    return true;
  }

 private:
  enum class Progress { None, Some, Ended };
  using Outcome = Reply::Outcome;

  bool is_sending() const { return reply_sent_ < sizeof reply_ || to_send_ > 0 || end_sent_ < sizeof end_; }

  static Progress of(ptrdiff_t moved) {
    return moved < 0 ? Progress::Ended : moved == 0 ? Progress::None : Progress::Some;
  }

  Progress read_request() {
    char* const bytes = reinterpret_cast<char*>(&request_);
    const ptrdiff_t got = recv_now(fd(), bytes + have_, sizeof request_ - have_);
    if (got <= 0) return of(got);
    have_ += static_cast<size_t>(got);
    if (have_ < sizeof request_) return Progress::Some;
    have_ = 0;
    const std::string wrong = request_.magic == Request::kMagic ? carry_out() : "it does not begin as one";
    if (wrong.empty()) return Progress::Some;
    const bool is_on_window = request_.magic == Request::kMagic && request_.what < Request::What::Flush;
    log_warn("rank {} sent an invalid request{}, so its stream is closed: {}", from_,
             is_on_window ? fmt::format(" on the window of call {}", request_.window) : "", wrong);
    return Progress::Ended;
  }

  /// What is wrong, if there is no such request; else "".
  std::string carry_out() {
    offset_ = request_.offset;
    switch (request_.what) {
      case Request::What::Put:
        left_ = request_.bytes;
        return "";
      case Request::What::Get:
        reply(look([](const Target::Exposed&) {}), 0);
        if (reply_.outcome == Outcome::Done && request_.bytes > 0) {
          to_send_ = request_.bytes;
          end_ = {};
          end_sent_ = 0;
        }
        return "";
      case Request::What::Signal:
        if (request_.operand >= kSignals) return fmt::format("there is no signal {}", request_.operand);
        request_.offset = request_.bytes = 0;
        note(look([&](const Target::Exposed& part) {
          std::atomic<uint64_t>& arrived = part.signals[from_].arrived[request_.operand];
          arrived.store(arrived.load(std::memory_order_relaxed) + 1, std::memory_order_release);
        }));
        return "";
      case Request::What::Add:
      case Request::What::CompareSwap:
        return change_word() ? "" : fmt::format("its word is at offset {}, and no multiple of 8", request_.offset);
      case Request::What::Flush:
        reply(std::exchange(failed_, Outcome::Done), failed_in_);
        return "";
      case Request::What::Connect:
        text_.clear();
        left_ = request_.bytes;
        if (left_ > 0 && left_ <= transports::RemoteQueue::kMaxGreeting) return "";
        return fmt::format("an offer of {} bytes", left_);
    }
    return fmt::format("it is of no known kind: {}", static_cast<uint32_t>(request_.what));
  }

  /// False if there is no word at that address.
  bool change_word() {
    request_.bytes = kWord;
    uint64_t before = request_.expected;
    bool aligned = true, writable = true;
    const Outcome outcome = look([&](const Target::Exposed& part) {
      std::byte* const at = part.memory + request_.offset;
      if (reinterpret_cast<uintptr_t>(at) % kWord != 0) return void(aligned = false);
      if (!link::is_writable(at, kWord)) return void(writable = false);  // a signal would end the process
      const std::atomic_ref word(*reinterpret_cast<uint64_t*>(at));
      if (request_.what == Request::What::Add) {
        before = word.fetch_add(request_.operand);
      } else {
        word.compare_exchange_strong(before, request_.operand);
      }
    });
    reply(writable ? outcome : Outcome::Unmapped, before);
    return aligned;
  }

  /// Calls use(part) if the part has the request's bytes, and they are there.
  template <class Use>
  Outcome look(Use&& use) {
    Outcome outcome = Outcome::NoWindow;
    target_->with(request_.window, [&](const Target::Exposed& part) {
      if (!is_within(request_.offset, request_.bytes, part.bytes)) {
        outcome = Outcome::OutOfRange;
      } else if (!link::is_mapped(part.memory + request_.offset, request_.bytes)) {
        outcome = Outcome::Unmapped;
      } else {
        outcome = Outcome::Done;
        use(part);
      }
    });
    return outcome;
  }

  void note(Outcome outcome) {
    if (failed_ != Outcome::Done) return;
    failed_ = outcome;
    failed_in_ = request_.window;
  }

  void reply(Outcome outcome, uint64_t value) {
    reply_ = {.outcome = outcome, .value = value};
    reply_sent_ = 0;
  }

  /// The offer of a queue pair, then the answer.
  Progress receive_offer() {
    char bytes[transports::RemoteQueue::kMaxGreeting];
    const ptrdiff_t got = recv_now(fd(), bytes, left_);
    if (got <= 0) return of(got);
    text_.append(bytes, static_cast<size_t>(got));
    left_ -= static_cast<uint64_t>(got);
    if (left_ > 0) return Progress::Some;
    Outcome outcome = Outcome::Done;
    try {
      text_ = target_->accept(from_, text_);
    } catch (const std::exception& error) {  // also no memory: it must not end this thread
      outcome = Outcome::Refused;
      text_ = error.what();
    }
    text_.resize(std::min<size_t>(text_.size(), Reply::kMaxText));
    reply(outcome, text_.size());
    offset_ = 0;
    to_send_ = text_.size();
    return Progress::Some;
  }

  /// Bytes of a put: into the window, or nowhere if they have no place there.
  Progress receive() {
    if (request_.what == Request::What::Connect) return receive_offer();
    const uint64_t chunk = std::min(left_, kChunk);
    ptrdiff_t got = 0;
    bool writable = true;
    Outcome outcome = look([&](const Target::Exposed& part) {
      errno = 0;
      got = recv_now(fd(), part.memory + offset_, chunk);
      writable = got >= 0 || errno != EFAULT;
    });
    if (!writable) outcome = Outcome::Unmapped;
    if (outcome != Outcome::Done) {
      note(outcome);
      char nowhere[4096];
      got = recv_now(fd(), nowhere, std::min<uint64_t>(chunk, sizeof nowhere));
    }
    if (got > 0) {
      offset_ += static_cast<uint64_t>(got);
      left_ -= static_cast<uint64_t>(got);
    }
    return of(got);
  }

  template <class Struct>
  static std::string_view rest_of(const Struct& all, size_t sent) {
    return {reinterpret_cast<const char*>(&all) + sent, sizeof all - sent};
  }

  /// The reply, then the bytes of a get and how it has ended, or the answer to an offer.
  Progress send() {
    const std::string_view head = rest_of(reply_, reply_sent_), end = rest_of(end_, end_sent_);
    const bool is_get = request_.what == Request::What::Get && to_send_ > 0;
    const ptrdiff_t sent = is_get         ? send_part(head, end)
                           : to_send_ > 0 ? send_now(fd(), head, std::string_view(text_).substr(offset_))
                                          : send_now(fd(), head, end);
    if (sent <= 0) return of(sent);
    const auto of_head = std::min<uint64_t>(sizeof reply_ - reply_sent_, static_cast<uint64_t>(sent));
    const auto of_bytes = std::min(to_send_, static_cast<uint64_t>(sent) - of_head);
    reply_sent_ += of_head;
    offset_ += of_bytes;
    to_send_ -= of_bytes;
    end_sent_ += static_cast<uint64_t>(sent) - of_head - of_bytes;
    return Progress::Some;
  }

  /// Some bytes of a get between `head` and `end`. Where they can be had no more, since the program has freed or
  /// protected them or deregistered the window, the reply says so, if it has not been sent; else they are zeros from
  /// there on, and the end says so.
  ptrdiff_t send_part(std::string_view head, std::string_view end) {
    static constexpr char kNothing[4096]{};
    const uint64_t chunk = std::min(to_send_, kChunk);
    if (end_.outcome == Outcome::Done) {
      ptrdiff_t sent = -1;
      bool readable = true;
      const Outcome outcome = look([&](const Target::Exposed& part) {
        const std::string_view bytes(reinterpret_cast<const char*>(part.memory) + offset_, chunk);
        const ReadBySystem unnoted;
        sent = send_now(fd(), head, bytes, chunk == to_send_ ? end : std::string_view());
        readable = sent >= 0 || errno != EFAULT;
      });
      if (outcome == Outcome::Done && readable) return sent;
      end_.outcome = readable ? outcome : Outcome::Unmapped;
      if (reply_sent_ == 0) {
        reply_.outcome = end_.outcome;
        to_send_ = 0;
        end_sent_ = sizeof end_;
        return send_now(fd(), head);
      }
    }
    const std::string_view zeros(kNothing, std::min<uint64_t>(chunk, sizeof kNothing));
    return send_now(fd(), head, zeros, zeros.size() == to_send_ ? end : std::string_view());
  }

  const Fd stream_;
  const Rank from_;
  const std::shared_ptr<Target> target_;
  Request request_;
  size_t have_ = 0;      // bytes of it
  uint64_t offset_ = 0;  // of the next byte of a put or get
  uint64_t left_ = 0;    // bytes of a put to come
  Reply reply_;
  size_t reply_sent_ = sizeof(Reply);  // bytes of it
  uint64_t to_send_ = 0;               // bytes of a get, or of text_, that follow it
  Reply end_;                          // how a get has ended, behind its bytes
  size_t end_sent_ = sizeof(Reply);    // bytes of it
  std::string text_;                   // the offer of a queue pair, then the answer
  Outcome failed_ = Outcome::Done;     // the first of the requests without an answer
  uint64_t failed_in_ = 0;             // its window
};

Agent& Agent::of_this_process() { return tutti::of_this_process<Agent>(); }

Agent::Agent() = default;

void Agent::when_started(std::function<void(pid_t thread)> tell) {
  const std::lock_guard lock(mutex_);
  if (!wake_) tell_ = std::move(tell);
}

void Agent::serve(Fd stream, Rank from, std::shared_ptr<Target> target) {
  if (!target->admit(from)) return;
  const std::lock_guard lock(mutex_);
  if (!wake_) {
    Fd wake(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    if (!wake) throw_system("open an eventfd", errno);
    auto thread = start_thread<std::thread>([this] { work(); });  // it waits for the lock
    wake_ = std::move(wake);
    thread.detach();  // it outlives main(), as the control thread does
  }
  new_.push_back(std::make_unique<Client>(std::move(stream), from, std::move(target)));
  const uint64_t one = 1;
  (void)!::write(wake_.get(), &one, sizeof one);
}

void Agent::take_new() {
  const std::lock_guard lock(mutex_);
  for (auto& client : new_) known_.push_back(std::move(client));
  new_.clear();
}

void Agent::work() {
  {
    const std::lock_guard lock(mutex_);
    if (tell_) tell_(::gettid());
  }
  std::vector<pollfd> ready;
  for (;;) {
    ready.assign(1, {.fd = wake_.get(), .events = POLLIN, .revents = 0});
    for (const auto& client : known_) ready.push_back({.fd = client->fd(), .events = client->events(), .revents = 0});
    if (::poll(ready.data(), ready.size(), -1) < 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));  // a signal, or no memory
      continue;
    }
    for (size_t i = ready.size() - 1; i > 0; --i) {
      if (ready[i].revents != 0 && !known_[i - 1]->step()) known_.erase(known_.begin() + static_cast<ptrdiff_t>(i - 1));
    }
    if (ready.front().revents == 0) continue;
    uint64_t count = 0;
    (void)!::read(wake_.get(), &count, sizeof count);
    take_new();
  }
}

}  // namespace tutti::rma
