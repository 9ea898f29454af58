// After a failed call, no other rank touches the caller's buffers, whatever it was doing.
#include "exec/host/release_buffers.hpp"
#include "support/link_ends.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/deadline.hpp"
#include "exec/host/host_policies.hpp"
#include "exec/wait.hpp"
#include "link/cma.hpp"
#include "link/mapped_memory.hpp"

namespace tutti::exec {
namespace {

using link::HostCooperativeWire;
using link::HostRevokeWire;
using link::HostWire;
using link::SharedMemory;
using link::SharedRegion;

constexpr uint64_t kPage = 4096, kArea = 64 * kPage;
constexpr unsigned char kPattern = 0x5a, kStored = 7;

bool nobody(Rank) { return false; }

/// Memory shared with a forked child.
struct Common {
  link::LinkMemory link;
  std::atomic<int> result;
};

/// The writer of a link: another process, which is stopped after it has claimed an offer, and writes when resumed.
class Writer {
 public:
  explicit Writer(const std::function<int()>& claim_stop_and_write) {
    process_ = fork();
    if (process_ == 0) {
      common().result = claim_stop_and_write();
      _exit(0);
    }
    int status = 0;
    waitpid(process_, &status, WUNTRACED);
    EXPECT_TRUE(WIFSTOPPED(status));
  }
  ~Writer() {
    ::kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  /// Resumes the process and waits for its end. Returns the result of its write.
  int resume() {
    ::kill(process_, SIGCONT);
    siginfo_t end{};
    waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT);
    return common().result;
  }
  void kill() {
    ::kill(process_, SIGKILL);
    siginfo_t end{};
    waitid(P_PID, static_cast<id_t>(process_), &end, WEXITED | WNOWAIT);
  }
  int process() const { return process_; }

  static Common& common() {
    static auto* const kCommon =
        static_cast<Common*>(mmap(nullptr, sizeof(Common), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
    return *kCommon;
  }
  static void renew() { new (&Writer::common()) Common{}; }

 private:
  pid_t process_ = -1;
};

/// Makes an early offer for the next message, as a rank does when it enters a round.
void offer(link::InLink& in, const SharedRegion& region, unsigned char* to, uint64_t bytes) {
  HostRemoteAccess::offer_direct_store(in, region, {.bytes = bytes, .remote = kOffersDestination}, to, 0);
}

bool claim_all(link::LinkMemory* link, uint64_t bytes) {
  link::HostWriter state;
  link::OutLink out = link::writing_end(*link, &state);
  return HostCooperativeWire::claim_all(out, bytes);
}

struct ReleaseBuffers : testing::Test {
  SharedMemory& memory = SharedMemory::of_this_process();
  ReleaseBuffers() { Writer::renew(); }
};

TEST_F(ReleaseBuffers, ReplacesPagesThatAStoppedWriterMayStoreTo) {
  auto* const data = static_cast<unsigned char*>(memory.allocate(3 * kArea));
  unsigned char* const to = data + kArea + 100;  // the first page reading something else too
  std::memset(data, 1, 3 * kArea);
  link::HostReader host;
  link::InLink in = link::reading_end(Writer::common().link, &host);
  in.peer = 1;
  const SharedRegion region = memory.find(to, kArea);
  const link::SharedMemory::Exported exported = memory.export_region(region.id);
  offer(in, region, to, kArea);
  ASSERT_EQ(in.host->cooperative.phase, link::CooperativeReader::Phase::Open);
  const auto [front, back] = in.host->cooperative.edges;
  ASSERT_GT(front, 0u);
  ASSERT_GT(back, 0u);
  Writer writer([&, &front = front, &back = back] {
    void* const base = mmap(nullptr, exported.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, exported.fd.get(), 0);
    if (base == MAP_FAILED || !claim_all(&Writer::common().link, kArea)) return 1;
    raise(SIGSTOP);
    auto* const target = static_cast<unsigned char*>(base) + (to - region.base);
    std::memset(target + front, kStored, kArea - front - back);
    return 0;
  });
  host.process = writer.process();
  int waits = 0;  // while it waits for the writer, it asks again and again whether that is lost
  const Lost counted = [&](Rank) { return ++waits < 0; };
  release_buffers({}, {&in, 1}, counted);
  EXPECT_GT(waits, 0);
  EXPECT_TRUE(std::all_of(data, to, [](unsigned char byte) { return byte == 1; }))
      << "bytes outside the buffer are unchanged";
  EXPECT_TRUE(std::all_of(to + kArea, data + 3 * kArea, [](unsigned char byte) { return byte == 1; }));
  std::memset(data, kPattern, 3 * kArea);
  waits = 0;
  // As by a later call on the failed communicator: the memory is the caller's now.
  release_buffers({}, {&in, 1}, counted);
  EXPECT_EQ(waits, 0) << "it waits for nobody again";
  ASSERT_EQ(writer.resume(), 0);
  EXPECT_EQ(std::count(data, data + 3 * kArea, kPattern), static_cast<ptrdiff_t>(3 * kArea));
  EXPECT_EQ(memory.find(to, kArea).id, 0u) << "peers cannot map the new pages";
  EXPECT_EQ(memory.find(data, kArea).id, region.id);
  memory.release(data);
}

TEST_F(ReleaseBuffers, KeepsMemoryThatOnlyDeadProcessesHaveMapped) {
  auto* const data = static_cast<unsigned char*>(memory.allocate(kArea));
  link::HostReader host;
  link::InLink in = link::reading_end(Writer::common().link, &host);
  in.peer = 1;
  const SharedRegion region = memory.find(data, kArea);
  offer(in, region, data, kArea);
  Writer writer([&] {
    if (!claim_all(&Writer::common().link, kArea)) return 1;
    raise(SIGSTOP);
    return 0;
  });
  host.process = writer.process();
  writer.kill();
  release_buffers({}, {&in, 1}, [](Rank) { return true; });
  EXPECT_EQ(memory.find(data, kArea).id, region.id);
  memory.release(data);
}

TEST_F(ReleaseBuffers, ShutsTheGateBeforeAStoppedWriterPassesIt) {
  std::vector<unsigned char> from(kArea, kStored), to(kArea);
  link::CmaGate gate;
  prctl(PR_SET_PTRACER, getpid(), 0, 0, 0);  // Yama: this process's children may attach to it
  link::HostReader host{.process = getpid(), .gate = &gate};
  link::InLink in = link::reading_end(Writer::common().link, &host);
  in.peer = 1;
  in.cma = static_cast<uint64_t>(getpid());
  const Instruction op{.bytes = kArea, .sources = 1, .remote = kCooperativeCopy};
  link::Arrival arrival{.data = from.data()};
  const unsigned char* pointer = from.data();
  LaneState lane;
  lane.arrivals = &arrival;
  lane.operands = &pointer;
  ASSERT_EQ(HostRemoteAccess::copy_next_tile(in, {}, op, to.data(), lane), 0);
  const pid_t owner = getpid();
  Writer writer([&] {
    const link::Offer& offer = Writer::common().link.offer;
    link::HostWriter state;
    state.messages[0] = {1, from.data(), kArea};
    link::OutLink out = link::writing_end(Writer::common().link, &state);
    out.next = 1;
    link::OfferCopy offered;
    link::Tiles tiles;
    if (!HostCooperativeWire::find_offer(out, offered) || !HostCooperativeWire::claim_back(out, offered, tiles))
      return -1;
    if (link::cma_write(owner, from.data(), reinterpret_cast<unsigned char*>(offer.target), 1, offer.region) != 0)
      return -2;
    raise(SIGSTOP);
    return link::cma_write(owner, from.data(), reinterpret_cast<unsigned char*>(offer.target), kArea, offer.region);
  });
  host.process = writer.process();
  EXPECT_FALSE(writer_done(in));
  release_buffers({}, {&in, 1}, nobody);
  std::fill(to.begin(), to.end(), kPattern);
  const int result = writer.resume();
  if (result == -2) GTEST_SKIP() << "the kernel does not permit it here";
  EXPECT_EQ(result, EFAULT);
  EXPECT_EQ(std::count(to.begin(), to.end(), kPattern), static_cast<ptrdiff_t>(kArea));
}

/// Links between threads: the reader of the first never comes; that of the second is in the middle of a read.
TEST_F(ReleaseBuffers, WaitsForAThreadThatReadsAZeroCopyMessage) {
  std::vector<std::unique_ptr<link::LinkMemory>> links;
  std::vector<link::OutLink> outs;
  std::deque<link::HostWriter> hosts;
  for (int i = 0; i < 3; ++i) {
    links.push_back(std::make_unique<link::LinkMemory>());
    outs.push_back(link::writing_end(*links.back(), &hosts.emplace_back()));
  }
  auto message = std::make_unique<std::vector<int>>(1000, 1);
  for (auto& out : outs) HostWire::publish_zcopy(out, 7, reinterpret_cast<unsigned char*>(message->data()), 4000);
  std::atomic<bool> reading = false, returned = false, over = false;
  int sum = 0;
  std::thread reader([&] {
    link::HostReader host;
    link::InLink in = link::reading_end(*links[1], &host);
    in.addresses = true;
    EXPECT_TRUE(HostRevokeWire::begin_read(in));
    const int* const words = message->data();
    reading = true;
    nap(1.5);  // longer than the wait for another process
    EXPECT_FALSE(returned) << "its memory is being read";
    for (int i = 0; i < 1000; ++i) sum += words[i];
    over = true;
    HostRevokeWire::end_read(in);
  });
  while (!reading) nap(1e-4);
  release_buffers(outs, {}, nobody);
  returned = true;
  message.reset();
  reader.join();
  EXPECT_TRUE(over);
  EXPECT_EQ(sum, 1000);
  link::HostReader host;
  link::InLink late = link::reading_end(*links[0], &host);
  late.addresses = true;
  EXPECT_FALSE(HostRevokeWire::begin_read(late));
}

TEST_F(ReleaseBuffers, WaitsForAThreadThatStoresWhatItHasClaimed) {
  auto link = std::make_unique<link::LinkMemory>();
  std::vector<unsigned char> to(kArea);
  link::HostReader host;
  link::InLink in = link::reading_end(*link, &host);
  in.addresses = true;
  offer(in, {}, to.data(), kArea);
  std::atomic<bool> claimed = false, returned = false;
  std::thread writer([&] {
    link::HostWriter state;
    link::OutLink out = link::writing_end(*link, &state);
    EXPECT_TRUE(HostCooperativeWire::claim_all(out, kArea));
    claimed = true;
    nap(1.5);
    EXPECT_FALSE(returned);
    std::memset(to.data(), kStored, kArea);
    HostCooperativeWire::finish(out);
  });
  while (!claimed) nap(1e-4);
  release_buffers({}, {&in, 1}, nobody);
  returned = true;
  std::vector<unsigned char>().swap(to);
  writer.join();
}

TEST_F(ReleaseBuffers, RevokesMessagesOfAReaderInAnotherProcess) {
  unsigned char arena = 0;
  link::HostWriter writer;
  link::OutLink out = link::writing_end(Writer::common().link, &writer);
  out.arena = &arena;
  out.peer = 1;
  std::vector<unsigned char> data(100000);
  HostWire::publish_zcopy(out, 7, data.data(), data.size());
  link::HostReader host{.process = getpid()};
  link::InLink in = link::reading_end(Writer::common().link, &host);
  in.cma = static_cast<uint64_t>(getpid());
  EXPECT_TRUE(HostRevokeWire::still_valid(in));
  release_buffers({&out, 1}, {}, nobody);
  EXPECT_FALSE(HostRevokeWire::still_valid(in));
}

}  // namespace
}  // namespace tutti::exec
