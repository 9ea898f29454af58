// What a hostile peer of a ucx link may send: greetings and goodbyes on the stream, and headers of active messages. The
// first byte of an input selects the end that is attacked.
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/socket.hpp"
#include "transports/ucx/receiver.hpp"
#include "transports/ucx/sender.hpp"

namespace tutti {
namespace {

using namespace transports::ucx;  // NOLINT(google-build-using-namespace): the protocol that is attacked

[[noreturn]] void defect(const char* what) {
  std::fprintf(stderr, "defect: %s\n", what);
  std::abort();
}

/// The input, as values; zeros after its end.
struct Input {
  const uint8_t* data;
  size_t size;
  template <class T>
  T take() {
    T value{};
    const size_t bytes = std::min(size, sizeof value);
    std::memcpy(static_cast<void*>(&value), data, bytes);
    data += bytes;
    size -= bytes;
    return value;
  }
};

/// No network: all that is sent arrives nowhere, and what is fetched is zero.
struct Nowhere final : Fabric {
  void send(Rank, unsigned, Piece, Piece, bool, Operation& operation) override {
    operation.state = Operation::State::Done;
  }
  void fetch(void*, void* into, uint64_t bytes, Operation& operation) override {
    std::memset(into, 0, bytes);
    --announced;
    operation.state = Operation::State::Done;
  }
  void drop(void*) override { --announced; }
  int announced = 0;  // payloads that are kept
};

/// Only these errors may come of a peer's bytes.
bool ended(const Status& status) {
  if (status.ok()) return false;
  if (status.code != Code::ProtocolError && status.code != Code::PeerFailed) defect(status.text.c_str());
  if (status.text.find("rank 5") == std::string::npos) defect("the error does not name the peer");
  return true;
}

void attack_stream(Input& input) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const Fd mine(ends[0]);
  Stream victim({5, 0, 0, false});
  victim.attach(Fd(ends[1]));
  (void)send_now(mine.get(), {reinterpret_cast<const char*>(input.data), input.size});
  for (int turn = 0; turn < 8; ++turn) {
    bool moved = false;
    std::string address;
    if (ended(victim.read(moved, address))) return;
    if (address.size() > kMaxAddress) defect("an address of an impossible length");
    if (!address.empty()) victim.set_ready();
  }
}

void attack_reader(Input& input) {
  Nowhere fabric;
  {
    Receiver victim(fabric, {5, 0, 0, false});
    victim.stream().set_ready();
    link::InLink in = victim.link();
    std::vector<unsigned char> payload(kEager);
    for (uint64_t number = 0; input.size > 0; ++number) {
      const auto how = input.take<uint8_t>();
      auto message = input.take<Message>();
      if ((how & 1) != 0) message.number = number;
      if ((how & 2) != 0) message.tag &= link::kTagMask;
      if ((how & 4) != 0) message.length %= 2 * kEager;
      const bool announced = (how & 8) != 0 ? message.length > kEager : (how & 16) != 0;
      const uint64_t bytes = announced ? message.length : std::min<uint64_t>(message.length, kEager);
      if (victim.take(message, payload.data(), bytes, announced)) ++fabric.announced;
      bool moved = false;
      if (ended(victim.progress(moved))) break;
      link::Header got{};
      link::Arrival arrival;
      while ((how & 32) != 0 && link::HostWire::poll(in, got, arrival) == link::Poll::Ready) {
        if (std::accumulate(arrival.data, arrival.data + got.length, 0u) == 1) std::fputs("", stderr);  // reads all
        link::HostWire::consume(in, arrival);
      }
    }
  }
  if (fabric.announced != 0) defect("an announced payload is neither fetched nor dropped, or both");
}

void attack_writer(Input& input) {
  Nowhere fabric;
  Sender victim(fabric, {5, 0, 0, true});
  victim.stream().set_ready();
  link::OutLink out = victim.link();
  uint64_t written = 0;
  uint64_t allowed = kSlots;
  while (input.size > 0) {
    const auto credit = input.take<Credit>();
    if (credit.consumed <= written) allowed = std::max(allowed, credit.consumed + kSlots);
    victim.take(credit);
    bool moved = false;
    if (ended(victim.progress(moved))) return;
    link::HostWire::refresh(out);
    if (out.acked > allowed) defect("more was sent than the reader has room for");
    for (; link::HostWire::can_publish(out) && written < allowed; ++written)
      link::HostWire::publish_inline(out, 1, nullptr, 0);
  }
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tutti::Input input{data, size};
  switch (input.take<uint8_t>() % 3) {
    case 0:
      tutti::attack_stream(input);
      break;
    case 1:
      tutti::attack_reader(input);
      break;
    default:
      tutti::attack_writer(input);
  }
  return 0;
}
