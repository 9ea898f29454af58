// The media that the conformance suite runs over. A transport in a folder of its own needs none of these:
// tutti_transport_suite() (CMakeLists.txt).
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string_view>

#include "base/format.hpp"
#include "topo/constants.hpp"
#include "transports/fault/fault.hpp"
#include "transports/rank_group.hpp"

namespace tutti::test {

inline std::unique_ptr<transports::Transport> make_by_name(std::string_view name, const transports::Context& context) {
  for (const transports::TransportEntry& entry : transports::transports()) {
    if (entry.name == name) return entry.make(context);
  }
  throw_error(Code::InvalidArgument, "there is no transport {}", name);
}

struct LocalThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 100000;
  static auto make(const transports::Context& context) { return make_by_name("local", context); }
};
struct ShmThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 100000;
  static constexpr bool kWire = false;
  static constexpr bool kNamesTheDead = false;
  static auto make(const transports::Context& context) { return make_by_name("shm", context); }
};
struct ShmProcesses : ShmThreads {
  static constexpr bool kProcesses = true;
};
struct TcpThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 100000;
  static constexpr bool kWire = true;           // a broken connection is detected
  static constexpr bool kNamesTheDead = false;  // the transport itself reports a writer that died between messages
  static auto make(const transports::Context& context) { return make_by_name("tcp", context); }
};
/// Two streams for each of two ways, and stripes of short messages.
struct StripedTcp : TcpThreads {
  static auto make(const transports::Context& context) {
    static const uint64_t kFrom = internal::constants_in_use.tcp_striped_from = 4096;
    constexpr double kFast = 25e3;
    static_cast<FakeWireup&>(*context.wireup).ways = {{"eth0", {}, {}, kFast}, {"eth1", {}, {}, kFast}};
    EXPECT_EQ(kFrom, machine_constants().tcp_striped_from);
    return make_by_name("tcp", context);
  }
};
struct TcpProcesses : TcpThreads {
  static constexpr bool kProcesses = true;
};

/// Delays that a correct program does not notice.
template <class Inner>
struct Faulty : Inner {
  static constexpr uint64_t kMessages = 5000;
  static auto make(const transports::Context& context) {
    return transports::make_fault(Inner::make(context), context,
                                  transports::parse_fault_plan("delay=1us,latency=5us,jitter=20us"));
  }
};

using OverThreads =
    testing::Types<LocalThreads, ShmThreads, TcpThreads, StripedTcp, Faulty<LocalThreads>, Faulty<TcpThreads>>;
using OverProcesses = testing::Types<ShmProcesses, TcpProcesses, Faulty<ShmProcesses>>;
using Media = testing::Types<ShmProcesses, TcpProcesses>;

}  // namespace tutti::test
