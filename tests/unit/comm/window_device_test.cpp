// Which transport's device windows of other hosts use, by the transport of the messages.
#include "comm/window_device.hpp"

#include <gtest/gtest.h>

namespace tutti::comm {
namespace {

using transports::TransportEntry;
using transports::UnusableModule;

const TransportEntry kVerbs{
    .name = "verbs", .remote_memory = [](transports::Wireup&) { return std::unique_ptr<transports::RemoteMemory>(); }};
const TransportEntry kUcx{.name = "ucx", .why_no_rdma = [] { return std::string(); }};
const TransportEntry kUcxOverTcp{.name = "ucx", .why_no_rdma = [] { return std::string("UCX_TLS is tcp"); }};
const TransportEntry kTcp{.name = "tcp"};
const std::vector<UnusableModule> kUnusable = {{"cuda", "no driver"}, {"verbs", "no device"}};

TEST(WindowDevice, IsThatOfTheTransportOfTheMessages) {
  const WindowRdma rdma = window_rdma(kVerbs, "", {kVerbs, kTcp}, {});
  EXPECT_EQ(rdma.transport, &kVerbs);
  EXPECT_EQ(rdma.why_not, "");
}

TEST(WindowDevice, IsThatOfVerbsWhereUcxCarriesTheMessages) {
  const std::vector<TransportEntry> usable = {kVerbs, kUcx, kTcp};
  const WindowRdma rdma = window_rdma(kUcx, "ucx", usable, {});
  EXPECT_EQ(rdma.transport, &usable[0]);
  EXPECT_EQ(rdma.why_not, "");
}

TEST(WindowDevice, IsNoneForWhoForcesTcp) {
  const WindowRdma rdma = window_rdma(kTcp, "tcp", {kVerbs, kTcp}, {});
  EXPECT_EQ(rdma.transport, nullptr);
  EXPECT_EQ(rdma.why_not, "TUTTI_TRANSPORT is tcp: windows use no RDMA either");
}

TEST(WindowDevice, IsNoneWhereUcxIsToDoWithout) {
  const WindowRdma rdma = window_rdma(kUcxOverTcp, "ucx", {kVerbs, kUcxOverTcp}, {});
  EXPECT_EQ(rdma.transport, nullptr);
  EXPECT_EQ(rdma.why_not, "UCX_TLS is tcp");
}

TEST(WindowDevice, IsNoneWhereVerbsCannotBeUsedAndTheReasonIsItsOwn) {
  for (const TransportEntry& messages : {kUcx, kTcp}) {
    const WindowRdma rdma = window_rdma(messages, messages.name == kUcx.name ? "ucx" : "", {kUcx, kTcp}, kUnusable);
    EXPECT_EQ(rdma.transport, nullptr);
    EXPECT_EQ(rdma.why_not, "no transport here has RDMA whose bounds a device checks; verbs cannot be used: no device");
  }
}

}  // namespace
}  // namespace tutti::comm
