// Diagnosis of a stall: a message may still arrive, or never will.
#include "comm/call_diagnostics.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

namespace tutti::comm {
namespace {

Deadline soon() { return Deadline::in(30); }

/// Rank 1 of two has left after sending rank 0 two messages and receiving one. Rank 0 is stalled in transfer number
/// `number`, a send or a receive.
Status stalled_in(bool sends, uint64_t number) {
  const control::UniqueId id = control::create_unique_id();
  std::unique_ptr<control::Endpoint> peer;
  std::thread joining([&] { peer = control::Endpoint::join(id, 2, 1, "", soon()); });
  const auto endpoint = control::Endpoint::join(id, 2, 0, "", soon());
  joining.join();
  peer->leave(4, soon(), 0, "", {{0, 2, 1}});
  const Deadline deadline = soon();
  while (!endpoint->left(1) && !deadline.passed()) std::this_thread::yield();

  const CallBoard board;
  CallDiagnostics diagnostics(*endpoint, board);
  Call call;
  call.spec = {.collective = Collective::SendRecv, .type = DType::F32, .sends = sends, .root = 1, .count = 8};
  const std::vector<NumberedCall> group{{call, number}};
  diagnostics.begin(group);
  exec::Stall stall;
  stall.await = sends ? exec::Await::Credit : exec::Await::Message;
  stall.peer = 1;
  Status status = diagnostics.stalled(stall);
  endpoint->leave(4, soon());
  return status;
}

TEST(CallDiagnostics, APeerThatLeftMayHaveMessagesInFlight) {
  for (uint64_t number : {1, 2}) EXPECT_TRUE(stalled_in(false, number).ok()) << number;
  EXPECT_TRUE(stalled_in(true, 1).ok());
}

TEST(CallDiagnostics, AReceiveWithoutASendOfAPeerThatLeftIsAMismatch) {
  const Status status = stalled_in(false, 3);
  EXPECT_EQ(status.code, Code::Mismatch);
  EXPECT_NE(status.text.find("rank 1 left after sending rank 0 2 messages and receiving 1 from it where rank 0 called "
                             "recv(count=8, f32, from rank 1)"),
            std::string::npos)
      << status.text;
}

TEST(CallDiagnostics, ASendWithoutAReceiveOfAPeerThatLeftIsAMismatch) {
  const Status status = stalled_in(true, 2);
  EXPECT_EQ(status.code, Code::Mismatch);
  EXPECT_NE(status.text.find("where rank 0 called send(count=8, f32, to rank 1)"), std::string::npos) << status.text;
}

/// Rank 1 does `elsewhere` while rank 0, in call 3, finds the link to it broken. Returns the error that rank 0 reports.
Status broken_while(const std::function<void(control::Endpoint&)>& elsewhere) {
  const control::UniqueId id = control::create_unique_id();
  std::unique_ptr<control::Endpoint> peer;
  std::thread joining([&] { peer = control::Endpoint::join(id, 2, 1, "", soon()); });
  const auto endpoint = control::Endpoint::join(id, 2, 0, "", soon());
  joining.join();
  const CallSpec spec{.collective = Collective::AllReduce, .type = DType::F32, .count = 8};
  CallBoard board;
  for (uint64_t call : {1, 2, 3}) board.enter(call, spec);
  CallDiagnostics diagnostics(*endpoint, board);
  diagnostics.begin(3, spec);
  std::thread other([&] { elsewhere(*peer); });
  Status status = diagnostics.link_failed(Code::PeerFailed, "rank 1 made no link");
  other.join();
  peer->leave(2, soon());
  endpoint->leave(3, soon());
  return status;
}

TEST(CallDiagnostics, ADeathExplainsARefusedLink) {
  const Status status = broken_while([](control::Endpoint& peer) { peer.fail(Code::PeerFailed, "rank 2 is gone"); });
  EXPECT_EQ(status.code, Code::PeerFailed);
  EXPECT_NE(status.text.find("rank 2 is gone"), std::string::npos) << status.text;
  EXPECT_EQ(status.text.find("made no link"), std::string::npos) << status.text;
}

TEST(CallDiagnostics, ALinkRefusedByARankThatLeftEarlyIsAMismatch) {
  const Status status = broken_while([](control::Endpoint& peer) { peer.leave(2, soon()); });
  EXPECT_EQ(status.code, Code::Mismatch);
  EXPECT_NE(status.text.find("rank 1 called destroy() as call 3 where rank 0 called all_reduce(count=8, f32, sum)"),
            std::string::npos)
      << status.text;
}

TEST(CallDiagnostics, ALinkRefusedByARankThatLeftAfterAnotherCallIsAMismatch) {
  const Status status =
      broken_while([](control::Endpoint& peer) { peer.leave(3, soon(), 7, "all_reduce(count=9, f32, sum)", {}); });
  EXPECT_EQ(status.code, Code::Mismatch);
  EXPECT_NE(status.text.find("rank 1 called all_reduce(count=9, f32, sum) as call 3 where rank 0 called "
                             "all_reduce(count=8, f32, sum)"),
            std::string::npos)
      << status.text;
}

TEST(CallDiagnostics, ARefusedLinkWithoutAnotherReasonIsReported) {
  const Status status = broken_while([](control::Endpoint&) {});
  EXPECT_EQ(status.code, Code::PeerFailed);
  EXPECT_NE(status.text.find("rank 1 made no link"), std::string::npos) << status.text;
}

/// The error of a call that has waited for too long, in a program of `replicas` replicas.
std::string timed_out_in(uint32_t replica, uint32_t replicas) {
  const control::UniqueId id = control::create_unique_id();
  std::unique_ptr<control::Endpoint> peer;
  std::thread joining([&] { peer = control::Endpoint::join(id, 2, 1, "", soon()); });
  const auto endpoint = control::Endpoint::join(id, 2, 0, "", soon());
  joining.join();
  const CallBoard board;
  CallDiagnostics diagnostics(*endpoint, board);
  diagnostics.begin(1, {.collective = Collective::Barrier});
  exec::Stall stall{.await = exec::Await::Message, .peer = 1, .replica = replica, .replicas = replicas, .lane = 3};
  stall.seconds = 1e9;
  const Status status = diagnostics.stalled(stall);
  EXPECT_EQ(status.code, Code::Timeout);
  peer->leave(0, soon());
  endpoint->leave(1, soon());
  return status.text;
}

TEST(CallDiagnostics, ATimeOutOfAWideCallNamesTheReplica) {
  EXPECT_NE(timed_out_in(2, 4).find("at replica 2 of 4, lane 3, step"), std::string::npos);
  EXPECT_NE(timed_out_in(0, 1).find("at lane 3, step"), std::string::npos);
}

}  // namespace
}  // namespace tutti::comm
