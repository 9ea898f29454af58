// Ends of tcp links, each with a stream whose other end is the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "transports/tcp/receiver.hpp"

namespace tutti::transports::tcp {

struct Stream {
  Stream() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours = Fd(ends[0]);
    theirs = Fd(ends[1]);
  }
  Fd ours, theirs;
};

inline std::vector<Fd> list_of(Fd fd) {
  std::vector<Fd> list;
  list.push_back(std::move(fd));
  return list;
}

inline std::string header(uint64_t number, uint64_t tag, uint64_t length) {
  unsigned char bytes[kHeaderBytes];
  write_header(bytes, {number, tag, length});
  return {reinterpret_cast<const char*>(bytes), sizeof bytes};
}

/// A receiver whose stream the test writes.
struct TcpReceiver : testing::Test {
  TcpReceiver() { receiver.attach(std::move(stream.theirs)); }

  void feed(const std::string& bytes) {
    ASSERT_EQ(::send(stream.ours.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    receiver.wake(0, false);
  }
  void hang_up() {
    stream.ours.reset();
    receiver.wake(0, true);
  }
  Status progress() {
    bool moved = false;
    return receiver.progress(moved);
  }
  /// The next message, or "(none)".
  std::string take() {
    link::Header got{};
    link::Arrival arrival;
    if (link::HostWire::poll(in, got, arrival) != link::Poll::Ready) return "(none)";
    const std::string bytes(reinterpret_cast<const char*>(arrival.data), got.length);
    last = arrival.data;
    link::HostWire::consume(in, arrival);
    return bytes;
  }

  Stream stream;
  Receiver receiver{3, 9};
  link::InLink in = receiver.link();
  const unsigned char* last = nullptr;
};

}  // namespace tutti::transports::tcp
