// The conformance suite of transports over `cuda`, on the fake driver, in whichever form TUTTI_CUDA_MEMORY says. Hosts
// run both ends here: the fake lets them load and store the memory of GPUs (FAKE_CUDA_OPEN_TO_HOST).
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

#include "transports/conformance.hpp"
#include "transports/cuda/cuda.hpp"

namespace tutti::test {
namespace {

int devices() {
  int count = 0;
  cuda::check(cuda::driver().cuDeviceGetCount(&count), "GPUs cannot be counted");
  return count;
}

std::unique_ptr<transports::Transport> links(const transports::Context& context) {
  const cuda::Device& device = cuda::Device::get(context.wireup->rank() % devices());
  return std::make_unique<cuda::CudaLinks>(*context.wireup, device, cuda::link_sizes(context.wireup->ranks(), 1), 0);
}

struct CudaThreads {
  static constexpr bool kProcesses = false;
  static constexpr uint64_t kMessages = 20000;
  static auto make(const transports::Context& context) { return links(context); }
};
struct CudaProcesses {
  static constexpr bool kProcesses = true;
  static constexpr uint64_t kMessages = 20000;
  static auto make(const transports::Context& context) {
    static_cast<FakeWireup&>(*context.wireup).set_apart();
    return links(context);
  }
};

}  // namespace

/// Of this process, after the driver has opened its own.
template <>
size_t Conformance<CudaThreads>::open_descriptors() {
  for (int device = 0; device < devices(); ++device) cuda::Device::get(device);
  return Conformance<CudaProcesses>::open_descriptors();
}

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, Conformance, testing::Types<CudaProcesses>);
INSTANTIATE_TYPED_TEST_SUITE_P(CudaOfThreads, Conformance, testing::Types<CudaThreads>);

/// What `auto` chooses, on a machine as the environment says: TUTTI_TEST_FORM has the right answer.
TEST(Form, FollowsWhatTheDriverPermits) {
  const char* const expected = std::getenv("TUTTI_TEST_FORM");
  ASSERT_NE(expected, nullptr) << "TUTTI_TEST_FORM is not set";
  const auto memory = cuda::PeerMemory::create(cuda::Device::get(0), 1 << 20);
  const std::string names[] = {"auto", "fd", "ipc", "host"};
  EXPECT_EQ(names[static_cast<int>(memory->form())], expected);
}

/// A handle names an allocation; what it is to be used for may begin anywhere in it.
TEST(Form, AHostileExtentIsRefused) {
  const auto refused = [](const cuda::Share& share) {
    RankGroup group(2, true);
    group.run([&](Rank rank) {
      TestRank self(group, rank, CudaProcesses::make);
      self.wireup.serve("share", [&](Rank, const std::string&) {
        static const auto kMemory = cuda::PeerMemory::create(cuda::Device::get(0), 1 << 20);
        cuda::Share said = kMemory->share();
        said.bytes = share.bytes, said.offset = share.offset;
        return transports::Wireup::Reply{{reinterpret_cast<const char*>(&said), sizeof said}, Fd()};
      });
      group.barrier();
      if (rank == 1) {
        cuda::Share said;
        const std::string bytes = self.wireup.ask(0, "share", "", Deadline::in(kWaitLimit)).bytes;
        ASSERT_EQ(bytes.size(), sizeof said);
        std::memcpy(&said, bytes.data(), sizeof said);
        try {
          cuda::PeerMemory::import(cuda::Device::get(0), said, Fd(), "rank 0");
          ADD_FAILURE() << "it was accepted";
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), Code::ProtocolError) << error.what();
        }
      }
      group.barrier();
    });
  };
  ASSERT_EQ(env().cuda_memory, CudaMemory::Ipc) << "of handles only: run it with TUTTI_CUDA_MEMORY=ipc";
  refused({.bytes = 64 << 20, .offset = 0});
  refused({.bytes = 1 << 20, .offset = ~uint64_t{0}});
}

}  // namespace tutti::test
