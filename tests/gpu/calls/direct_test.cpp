// Messages between GPUs of two hosts that lie in the GPUs' memory (GPUDirect RDMA): relays over the engine of verbs and
// the tests' network device, which reaches the stand-in's memory by its dmabuf alone. The test plays the kernels.
#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "calls/gpu_program.hpp"
#include "exec/cuda/cuda_gpu.hpp"
#include "exec/gpu/relay.hpp"
#include "transports/ends.hpp"
#include "transports/verbs/engine.hpp"
#include "verbs/fake_nic.hpp"

namespace tutti::exec::gpu {
namespace {

using test::HostWire;
using test::Payload;
using transports::MemoryUse;

uint64_t flushes() {
  const auto calls_of = reinterpret_cast<uint64_t (*)(const char*)>(::dlsym(RTLD_DEFAULT, "fake_cuda_calls"));
  return calls_of("cuFlushGPUDirectRDMAWrites");
}

const tutti::cuda::Device& device() { return tutti::cuda::Device::get(0); }

class Direct : public testing::TestWithParam<uint64_t> {
 protected:
  Direct() {
    use_gpu(0);
    test::fake_nic_rules() = {.dmabuf = device().rdma() != tutti::cuda::Rdma::None};
    const auto make = [](const transports::Context& context) {
      return std::make_unique<transports::verbs::Engine>(context, test::make_fake_nic(), 2, "verbs");
    };
    writing_ = std::make_unique<test::TestRank>(group_, 0, make);
    reading_ = std::make_unique<test::TestRank>(group_, 1, make);
    auto from = memory(*writing_, MemoryUse::Read), to = memory(*reading_, MemoryUse::ReadWrite);
    arrive_in_ = to->slot(0);
    const Deadline soon = Deadline::in(test::kWaitLimit);
    out_ = std::make_unique<OutRelay>(std::move(from), writing_->transport->connect_out(1, 0, soon));
    const link::InLink network = reading_->transport->connect_in(0, 0, soon);
    in_ = std::make_unique<InRelay>(std::move(to), network,
                                    network.keeps_posted ? std::make_unique<RelayMemory>(gpu(), slot()) : nullptr);
    sender_ = out_->device_end();
    receiver_ = in_->device_end();
  }
  ~Direct() override { test::fake_nic_rules() = {}; }

  static uint64_t slot() { return GetParam(); }
  static const cuda::CudaGpu& gpu() {
    static const cuda::CudaGpu kGpu(device());
    return kGpu;
  }
  static std::unique_ptr<RelayMemory> memory(const test::TestRank& rank, MemoryUse use) {
    const bool direct = rank.transport->direct_above().has_value();
    auto made = std::make_unique<RelayMemory>(gpu(), slot(),
                                              direct ? RelayMemory::Slots::OnDevice : RelayMemory::Slots::OnHost);
    made->register_with(*rank.transport, use);
    return made;
  }

  /// As a kernel would, if there is room.
  bool send(uint64_t tag, const Payload& bytes) {
    if (!HostWire::can_publish(sender_)) return false;
    if (bytes.size() <= link::kInlineBytes) {
      HostWire::publish_inline(sender_, tag, bytes.data(), bytes.size());
      return true;
    }
    if (!HostWire::can_push(sender_)) return false;
    device().stream().upload(reinterpret_cast<CUdeviceptr>(link::push_slot(sender_)), bytes.data(), bytes.size());
    HostWire::publish_pushed(sender_, tag, bytes.size());
    return true;
  }
  /// Takes the next message, which must be this one; false: it has not come.
  bool receive(uint64_t tag, const Payload& expected) {
    link::Header header{};
    link::Arrival arrival;
    if (HostWire::poll(receiver_, header, arrival) != link::Poll::Ready) return false;
    EXPECT_EQ(header.tag, tag);
    EXPECT_EQ(header.length, expected.size());
    Payload got(header.length);
    if (arrival.where == link::Where::Inline) {
      std::copy_n(arrival.data, got.size(), got.begin());
    } else {
      device().stream().download(got.data(), reinterpret_cast<CUdeviceptr>(arrival.data), got.size());
    }
    EXPECT_EQ(got, expected) << "message " << tag;
    const bool in_slot = arrival.data >= arrive_in_ && arrival.data < arrive_in_ + link::kPushSlots * slot();
    if (header.length > transports::verbs::kEager) ++(in_slot ? direct_ : copied_);
    HostWire::consume(receiver_, arrival);
    return true;
  }
  void turn() {
    out_->progress();
    writing_->turn();
    reading_->turn();
    in_->progress();
  }

  test::RankGroup group_{2, false};
  std::unique_ptr<test::TestRank> writing_, reading_;
  std::unique_ptr<OutRelay> out_;
  std::unique_ptr<InRelay> in_;
  link::OutLink sender_;
  link::InLink receiver_;
  unsigned char* arrive_in_ = nullptr;
  uint64_t direct_ = 0, copied_ = 0;
};

TEST_P(Direct, MessagesOfEverySizeArriveInOrderAndLongOnesWithoutACopy) {
  using tutti::cuda::Rdma;
  const char* const injected = std::getenv("FAKE_CUDA_INJECT");
  const std::string machine = injected != nullptr ? injected : "";
  const Rdma expected = machine == "no_dmabuf" ? Rdma::None : machine.empty() ? Rdma::Ordered : Rdma::Flushed;
  ASSERT_EQ(device().rdma(), expected);
  unsigned type = 0;
  ASSERT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(arrive_in_)),
            CUDA_SUCCESS);
  EXPECT_EQ(type, expected == Rdma::None ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
  constexpr uint64_t kMessages = 400;
  const auto payload = [](uint64_t m) {
    const uint64_t lengths[] = {0, link::kInlineBytes, 100, 250, 8192, 8193, slot() - 4000, slot() - m, slot()};
    return test::payload_of(m, lengths[m * 7 % std::size(lengths)]);
  };
  uint64_t sent = 0, received = 0;
  const uint64_t before = flushes();
  const Deadline deadline = Deadline::in(test::kWaitLimit);
  while (received < kMessages && !deadline.passed() && !HasFailure()) {
    while (sent < kMessages && send(sent, payload(sent))) ++sent;
    turn();
    // The reader is late at times, and takes several at others.
    for (uint64_t some = received % 5; some > 0 && received < sent && receive(received, payload(received)); --some) {
      ++received;
    }
    if (received % 5 == 0 && received < sent && receive(received, payload(received))) ++received;
  }
  ASSERT_EQ(received, kMessages);
  EXPECT_GT(direct_, 9 * copied_) << copied_ << " long messages were copied";
  if (expected == Rdma::Flushed) {
    EXPECT_GE(flushes() - before, direct_);
  } else {
    EXPECT_EQ(flushes(), before);
  }
}

INSTANTIATE_TEST_SUITE_P(Slots, Direct, testing::Values(16 << 10, 32 << 10, 64 << 10, 128 << 10));

}  // namespace
}  // namespace tutti::exec::gpu
