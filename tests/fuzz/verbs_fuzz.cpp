// What a hostile peer of a verbs link may send: greetings on the stream, and headers, notices, adverts and counts that
// its device writes. The first byte of an input selects the end that is attacked, and whether the greeting is valid.
#include <sys/socket.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "base/socket.hpp"
#include "transports/verbs/receiver.hpp"
#include "transports/verbs/sender.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti {
namespace {

using namespace transports::verbs;  // NOLINT(google-build-using-namespace): the protocol that is attacked

[[noreturn]] void defect(const char* what) {
  std::fprintf(stderr, "defect: %s\n", what);
  std::abort();
}

/// The input, as values; zeros after its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  template <class T>
  T take() {
    T value{};
    const size_t bytes = std::min(size_, sizeof value);
    std::memcpy(static_cast<void*>(&value), data_, bytes);
    data_ += bytes;
    size_ -= bytes;
    return value;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

/// Only these errors may come of a peer's bytes.
bool ended(const Status& status) {
  if (status.ok()) return false;
  if (status.code != Code::ProtocolError && status.code != Code::PeerFailed) defect(status.text.c_str());
  if (status.text.find("rank 5") == std::string::npos) defect("the error does not name the peer");
  return true;
}

/// The attacker's device, with memory that the victim's may write to.
struct Attacker {
  Attacker() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
    mine = Fd(ends[0]);
    theirs = Fd(ends[1]);
  }
  /// Sends a greeting: a valid one, or bytes of the input in it.
  void greet(Input& input, bool valid, const Region& area) {
    Hello hello{.area = area.address, .area_bytes = area.bytes, .area_key = area.remote_key, .queues = 1};
    hello.nic.mtu = 1024;
    hello.queue[0] = queue->address();
    if (!valid) {
      const auto at = input.take<uint8_t>() % (sizeof hello - 8);
      const auto bytes = input.take<uint64_t>();
      std::memcpy(reinterpret_cast<char*>(&hello) + at, &bytes, sizeof bytes);
    }
    (void)send_now(mine.get(), {reinterpret_cast<const char*>(&hello), sizeof hello});
  }
  bool hear() {
    Hello hello;
    if (recv_now(mine.get(), &hello, sizeof hello) != static_cast<ptrdiff_t>(sizeof hello)) return false;
    victim = hello;
    queue->connect(hello.nic, hello.queue[0]);
    return true;
  }
  /// Writes to the victim's area, and notifies.
  void write(uint64_t offset, const void* data, uint32_t bytes, uint32_t notice,
             Work::Kind kind = Work::Kind::WriteNotice) {
    Work work{.kind = kind,
              .inlined = true,
              .count = 1,
              .notice = notice,
              .remote = victim.area + offset,
              .remote_key = victim.area_key};
    work.pieces[0] = {data, bytes, 0};
    (void)queue->post(work);
  }
  void receive_notices() {
    Completion got[16];
    int count = 16;
    while (count == 16) {
      count = nic->poll(got, 16);
      for (int i = 0; i < count; ++i) {
        if (got[i].received) (void)queue->post_receives(1);
      }
    }
  }

  std::unique_ptr<Nic> nic = test::make_fake_nic();
  Buffer landing{*nic, kEagerRingBytes, RegionUse::Data}, feedback{*nic, sizeof(Feedback), RegionUse::Words};
  std::unique_ptr<Queue> queue = nic->make_queue({.receive_id = 1, .works = 1000, .receives = 100});
  Fd mine, theirs;
  Hello victim{};
};

/// Gives the victim its completions; then it works.
template <class End>
Status turn(Nic& nic, End& end) {
  Completion got[16];
  for (int turns = 0; turns < 4; ++turns) {
    const int count = nic.poll(got, 16);
    for (int i = 0; i < count; ++i) {
      bool has_notice = false;
      if (Status status = end.stream().complete(got[i], has_notice); !status.ok()) return status;
      if (!has_notice) continue;
      if (Status status = end.notice(got[i].notice); !status.ok()) return status;
    }
    bool moved = false;
    if (Status status = end.stream().read_stream(moved); !status.ok()) return status;
    if (Status status = end.progress(moved); !status.ok()) return status;
  }
  return {};
}

void attack_reader(Input& input, bool valid_greeting) {
  Attacker attacker;
  const std::unique_ptr<Nic> nic = test::make_fake_nic();
  Memory memory(*nic, nullptr, 0);
  Receiver victim(*nic, memory, {5, 0, 0, false});
  link::InLink in = victim.link();
  std::vector<unsigned char> wanted(2 * kMaxPreposted);
  victim.attach(std::move(attacker.theirs));
  attacker.greet(input, valid_greeting, *attacker.feedback.region);
  if (ended(turn(*nic, victim)) || !attacker.hear()) return;
  (void)attacker.queue->post_receives(50);
  for (uint64_t message = 0; !input.empty() && message < 200; ++message) {
    const auto how = input.take<uint8_t>();
    auto header = input.take<Header>();
    if ((how & 1) != 0) header.number = message + 1;
    if ((how & 2) != 0) header.length %= 2 * kEager;
    const uint32_t notice = (how & 4) != 0 ? static_cast<uint32_t>(message) & kNumberMask : input.take<uint32_t>();
    if ((how & 16) != 0) link::HostWire::post(in, header.tag >> 16, header.length % wanted.size(), wanted.data());
    attacker.write(message % kSlots * kSlotBytes, &header, sizeof header, notice);
    if (ended(turn(*nic, victim))) return;
    attacker.receive_notices();
    link::Header got{};
    link::Arrival arrival;
    while ((how & 8) != 0 && link::HostWire::poll(in, got, arrival) == link::Poll::Ready) {
      if (std::accumulate(arrival.data, arrival.data + got.length, 0u) == 1) std::fputs("", stderr);  // reads all of it
      link::HostWire::consume(in, arrival);
    }
  }
}

void attack_writer(Input& input, bool valid_greeting) {
  Attacker attacker;
  const std::unique_ptr<Nic> nic = test::make_fake_nic();
  Memory memory(*nic, nullptr, 0);
  Sender victim(*nic, memory, {5, 0, 0, true});
  victim.open(std::move(attacker.theirs), 1, Deadline::in(1));
  link::OutLink out = victim.link();
  if (!attacker.hear()) defect("no greeting");
  (void)attacker.queue->post_receives(90);
  attacker.greet(input, valid_greeting, *attacker.landing.region);
  if (ended(turn(*nic, victim))) return;
  const std::vector<unsigned char> payload(2 * kMaxPreposted);
  for (uint32_t adverts = 0; !input.empty() && adverts < 200; ++adverts) {
    const auto how = input.take<uint8_t>();
    auto advert = input.take<Advert>();
    if ((how & 1) != 0) {
      advert.number = 1 + adverts;
      advert.address = attacker.landing.region->address;
      advert.key = attacker.landing.region->remote_key;
    }
    const auto consumed = input.take<uint64_t>();
    std::memcpy(attacker.feedback.data.get(), &consumed, sizeof consumed);
    attacker.write(offsetof(Feedback, consumed), &consumed, sizeof consumed, 0, Work::Kind::Write);
    attacker.write(offsetof(Feedback, adverts) + adverts % kAdverts * sizeof advert, &advert, sizeof advert,
                   (how & 2) != 0 ? input.take<uint32_t>() : adverts);
    if (link::HostWire::can_publish(out) && (how & 4) != 0) {
      const uint64_t length = input.take<uint32_t>() % payload.size();
      if (length <= link::kInlineBytes) {
        link::HostWire::publish_inline(out, 1, payload.data(), length);
      } else {
        link::HostWire::publish_staged(out, 1, payload.data(), length);
      }
    }
    if (ended(turn(*nic, victim))) return;
    attacker.receive_notices();
  }
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::test::fake_nic_rules() = {.lazy = 1, .not_ready = 0, .drop = 0};
  tutti::Input input(data, size);
  const auto how = input.take<uint8_t>();
  const bool valid_greeting = (how & 2) != 0;
  (how & 1) != 0 ? tutti::attack_writer(input, valid_greeting) : tutti::attack_reader(input, valid_greeting);
  return 0;
}
