// Start-up with many ranks over tcp, as threads of this process. CMakeLists.txt sets TUTTI_TRANSPORT=tcp.
#include <gtest/gtest.h>
#include <malloc.h>

#include <chrono>
#include <cstring>

#include "control/bootstrap/unique_id.hpp"
#include "control/control_thread.hpp"
#include "control/rendezvous_server.hpp"
#include "support/thread_ranks.hpp"
#include "tutti/tutti.h"

namespace tutti {
namespace {

struct StartUp {
  double seconds = 0;  // to create the communicator and run one all-reduce
  control::RendezvousServer::MessageCounts at_root;
  uint64_t state_bytes = 0;  // of a rank that has created its communicator and connected to nobody
};

uint64_t allocated() {
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

control::UniqueId content_of(const tuttiUniqueId& id) {
  control::UniqueId::Bytes bytes;
  static_assert(sizeof id == control::UniqueId::kBytes);
  std::memcpy(bytes.data(), &id, bytes.size());
  return control::UniqueId::from_bytes(bytes);
}

StartUp start(int ranks) {
  StartUp result;
  tuttiUniqueId id;
  EXPECT_EQ(tuttiGetUniqueId(&id), tuttiSuccess) << tuttiGetLastError();
  const auto server = control::ControlThread::get().server(content_of(id).name());
  if (server == nullptr) {
    ADD_FAILURE() << "the id's server is not in this process";
    return result;
  }
  std::vector<tuttiComm_t> comms(static_cast<size_t>(ranks));
  const uint64_t before = allocated();
  const auto begin = std::chrono::steady_clock::now();
  run_ranks(ranks, [&](int rank) {
    EXPECT_EQ(tuttiCommInitRank(&comms[static_cast<size_t>(rank)], ranks, id, rank), tuttiSuccess)
        << tuttiGetLastError();
  });
  const int expected = ranks * (ranks - 1) / 2;
  result.state_bytes = (allocated() - before) / static_cast<uint64_t>(ranks);
  run_ranks(ranks, [&](int rank) {
    float value = static_cast<float>(rank), sum = 0;
    EXPECT_EQ(tuttiAllReduce(&value, &sum, 1, tuttiFloat32, tuttiSum, comms[static_cast<size_t>(rank)], nullptr),
              tuttiSuccess)
        << tuttiGetLastError();
    EXPECT_EQ(sum, static_cast<float>(expected));
  });
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  result.at_root = server->messages();
  run_ranks(ranks, [&](int rank) {
    EXPECT_EQ(tuttiCommDestroy(comms[static_cast<size_t>(rank)]), tuttiSuccess) << tuttiGetLastError();
  });
  return result;
}

TEST(Scale, StartUpIsLinearAtTheRoot) {
  constexpr double kLimit = 20;                 // seconds
  constexpr uint64_t kReceived = 4, kSent = 4;  // messages for each rank: registration, and a few exchanges
  constexpr uint64_t kStateOfAPair = 2048;      // bytes: what a rank knows of another one, not a link
  start(2);                                     // what a process allocates once is not a rank's
  for (const int ranks : {16, 64, 256}) {
    const StartUp done = start(ranks);
    const auto n = static_cast<uint64_t>(ranks);
    const double beats = done.seconds / 2.5;  // the server's heartbeats, and the ranks' answers
    printf("%3d ranks: %.2f s, %llu messages to the root, %llu from it, %llu bytes of state a rank\n", ranks,
           done.seconds, static_cast<unsigned long long>(done.at_root.received),
           static_cast<unsigned long long>(done.at_root.sent), static_cast<unsigned long long>(done.state_bytes));
    EXPECT_LE(done.at_root.received, (kReceived + static_cast<uint64_t>(beats)) * n);
    EXPECT_LE(done.at_root.sent, (kSent + static_cast<uint64_t>(2 * beats)) * n);
    EXPECT_LE(done.state_bytes, (256 << 10) + kStateOfAPair * n);
    EXPECT_LT(done.seconds, kLimit);
  }
}

}  // namespace
}  // namespace tutti
