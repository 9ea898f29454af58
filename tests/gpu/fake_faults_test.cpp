// Failures on the fake driver: faults of kernels and injected errors.
#include <dlfcn.h>

#include <cstdlib>
#include <thread>

#include "on_fake.hpp"
#include "tutti/types.hpp"

extern "C" uint64_t fake_cuda_calls(const char* name);
extern "C" void fake_cuda_refuse(const char* name, int result);

namespace tutti::test {
namespace {

ON_FAKE(FakeFaults, areForEverInTheirContextAlone, "FAKE_CUDA_DEVICES=2") {
  Gpu other(1), gpu(0);
  const CUstream stream = new_stream();
  uint64_t* const words = host_memory(2);
  CHECK_CUDA(gpu.launch("sample_wait", SampleWait{words, 1, words + 1}, 1, 1, new_stream()));  // it will never end
  auto* const nowhere = reinterpret_cast<uint32_t*>(uintptr_t{64});
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{nowhere, 1, 1}, 1, 1, stream));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stream));
  CUdeviceptr memory = 0;
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&memory, 4));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, gpu.launch("sample_fill", SampleFill{}, 1, 1, stream));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  other.use();
  EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&memory, 4));
  CHECK_CUDA(cuDevicePrimaryCtxReset(0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent(gpu.context));
  Gpu again(0);
  EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&memory, 4));
}

ON_FAKE(FakeFaults, areThreadsThatWaitForEachOtherInDifferentPlaces, "") {
  Gpu gpu;
  uint32_t* const memory = device_memory(1);
  CHECK_CUDA(gpu.launch("sample_stuck", SampleStuck{memory}, 1, 64, nullptr));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
}

ON_FAKE(FakeFaults, areKernelsThatNeverBegin, "FAKE_CUDA_INJECT=stuck:2") {
  Gpu gpu;
  uint32_t* const memory = device_memory(1);
  const CUstream stream = new_stream(), other = new_stream();
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 1, 1}, 1, 1, stream));
  CHECK_CUDA(cuStreamSynchronize(stream));
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 1, 2}, 1, 1, stream));
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 1, 3}, 1, 1, other));
  CHECK_CUDA(cuStreamSynchronize(other));
  EXPECT_CUDA(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
}

CUresult fold(const Gpu& gpu, uint32_t* memory, uint32_t op, bool floats) {
  const SampleFold sample{{memory, memory}, memory + 8, 8, op, floats ? 1U : 0U};
  const CUresult launched = gpu.launch("sample_fold", sample, 1, 32, nullptr);
  return launched != CUDA_SUCCESS ? launched : cuCtxSynchronize();
}

ON_FAKE(FakeFaults, areOperatorsThatDoNotExist, "") {
  const Gpu gpu;
  uint32_t* const memory = device_memory(16);
  for (uint32_t op = 0; op < kOps; ++op) EXPECT_CUDA(CUDA_SUCCESS, fold(gpu, memory, op, false));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_FAILED, fold(gpu, memory, kOps, false));
}

ON_FAKE(FakeFaults, areOperatorsOnBitsInAKernelOfFloats, "") {
  const Gpu gpu;
  uint32_t* const memory = device_memory(16);
  EXPECT_CUDA(CUDA_SUCCESS, fold(gpu, memory, static_cast<uint32_t>(Op::Max), true));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_FAILED, fold(gpu, memory, static_cast<uint32_t>(Op::BitOr), true));
}

ON_FAKE(FakeFaults, needAContextThatIsInitialised, "") {
  int count = 0;
  CUdeviceptr memory = 0;
  EXPECT_CUDA(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
  CHECK_CUDA(cuInit(0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&memory, 4));
}

// ---- injections --------------------------------------------------------------------------

CUresult run_once(const Gpu& gpu) {
  uint64_t* const words = host_memory(2);
  const CUresult launched = gpu.launch("sample_wait", SampleWait{words, 0, words + 1}, 2, 32, nullptr);
  return launched != CUDA_SUCCESS ? launched : cuCtxSynchronize();
}

ON_FAKE(FakeInjections, failTheLaunchThatTheyName, "FAKE_CUDA_INJECT=launch:2") {
  Gpu gpu;
  EXPECT_CUDA(CUDA_SUCCESS, run_once(gpu));
  EXPECT_CUDA(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, run_once(gpu));
  EXPECT_CUDA(CUDA_SUCCESS, run_once(gpu));  // it is not sticky
}

ON_FAKE(FakeInjections, areEccErrorsInARunningKernel, "FAKE_CUDA_DEVICES=2 FAKE_CUDA_INJECT=ecc@1:2") {
  Gpu gpu(0), other(1);
  EXPECT_CUDA(CUDA_SUCCESS, run_once(other));
  EXPECT_CUDA(CUDA_ERROR_ECC_UNCORRECTABLE, run_once(other));
  EXPECT_CUDA(CUDA_ERROR_ECC_UNCORRECTABLE, cuCtxSynchronize());
  gpu.use();
  EXPECT_CUDA(CUDA_SUCCESS, run_once(gpu));
}

ON_FAKE(FakeInjections, areFaultsInARunningKernel, "FAKE_CUDA_INJECT=fault:1") {
  Gpu gpu;
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, run_once(gpu));
}

ON_FAKE(FakeInjections, takeMemory, "FAKE_CUDA_INJECT=no_memory:2") {
  Gpu gpu;
  CUdeviceptr memory = 0;
  EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&memory, 4));
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&memory, 4));
  EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&memory, 4));
}

ON_FAKE(FakeInjections, takePeersAndHandles, "FAKE_CUDA_DEVICES=2 FAKE_CUDA_INJECT=no_peer,no_export,no_ipc") {
  Gpu other(1), gpu(0);
  int value = 1;
  CHECK_CUDA(cuDeviceCanAccessPeer(&value, 0, 1));
  EXPECT_EQ(value, 0);
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(other.context, 0));
  CHECK_CUDA(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
  EXPECT_EQ(value, 0);
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, 2 << 20, &properties, 0));
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED,
              cuMemExportToShareableHandle(&value, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUipcMemHandle ipc{};
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED, cuIpcGetMemHandle(&ipc, address(device_memory(1))));
}

ON_FAKE(FakeInjections, refuseAnEntryPointFromNowOn, "") {
  Gpu gpu;
  int count = 0;
  fake_cuda_refuse("cuDeviceGetCount", CUDA_ERROR_UNKNOWN);
  EXPECT_CUDA(CUDA_ERROR_UNKNOWN, cuDeviceGetCount(&count));
  EXPECT_CUDA(CUDA_ERROR_UNKNOWN, cuDeviceGetCount(&count));
  EXPECT_CUDA(CUDA_SUCCESS, cuCtxSynchronize());
  fake_cuda_refuse("cuDeviceGetCount", 0);
  EXPECT_CUDA(CUDA_SUCCESS, cuDeviceGetCount(&count));
}

// ---- entry points ------------------------------------------------------------------------

ON_FAKE(FakeSymbols, areFoundByNameAndCounted, "") {
  void* found = nullptr;
  CUdriverProcAddressQueryResult status{};
  CHECK_CUDA(cuGetProcAddress("cuMemAlloc", &found, CUDA_VERSION, 0, &status));
  EXPECT_EQ(found, reinterpret_cast<void*>(&cuMemAlloc));
  CHECK_CUDA(cuGetProcAddress("cuGraphInstantiate", &found, CUDA_VERSION, 0, &status));
  EXPECT_EQ(found, reinterpret_cast<void*>(&cuGraphInstantiate));
  CHECK_CUDA(cuGetProcAddress("cuMulticastBindAddr", &found, CUDA_VERSION, 0, &status));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  void *form = nullptr, *later = nullptr;
  CHECK_CUDA(cuGetProcAddress("cuStreamGetCaptureInfo", &form, 12020, 0, &status));
  CHECK_CUDA(cuGetProcAddress("cuStreamGetCaptureInfo", &later, 12030, 0, &status));
  EXPECT_TRUE(form != nullptr && later != nullptr && form != later);
  CHECK_CUDA(cuGetProcAddress("cuStreamGetCaptureInfo", &found, 11020, 0, &status));
  EXPECT_EQ(status, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  Gpu gpu;
  device_memory(1);
  EXPECT_EQ(fake_cuda_calls("cuMemAlloc"), 1U);
  int multicast = 1;
  CHECK_CUDA(cuDeviceGetAttribute(&multicast, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
  EXPECT_EQ(multicast, 0);
  const char* name = nullptr;
  CHECK_CUDA(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_ILLEGAL_ADDRESS");
}

ON_FAKE(FakeNvml, showsTheLinks, "FAKE_CUDA_DEVICES=3 FAKE_CUDA_LINKS=0-1,1~2") {
  void* const library = dlopen(TUTTI_FAKE_NVML, RTLD_NOW);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto count = reinterpret_cast<int (*)(unsigned*)>(dlsym(library, "nvmlDeviceGetCount_v2"));
  const auto by_index = reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto link = reinterpret_cast<int (*)(void*, unsigned, int*)>(dlsym(library, "nvmlDeviceGetNvLinkState"));
  unsigned devices = 0;
  EXPECT_EQ(count(&devices), 0);
  EXPECT_EQ(devices, 3U);
  void* device = nullptr;
  int active = 0;
  ASSERT_EQ(by_index(1, &device), 0);
  EXPECT_EQ(link(device, 2, &active), 0);
  EXPECT_NE(link(device, 3, &active), 0);  // to the third there is PCIe alone
  ASSERT_EQ(by_index(2, &device), 0);
  EXPECT_NE(link(device, 0, &active), 0);
}

// ---- blocks ------------------------------------------------------------------------------

void sum(uint32_t without_barrier) {
  Gpu gpu;
  constexpr uint32_t kCount = 1000;
  uint32_t* const in = device_memory(kCount);
  uint64_t* const sums = device_memory<uint64_t>(4);
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{in, kCount, 0}, 2, 64, nullptr));
  CHECK_CUDA(gpu.launch("sample_sum", SampleSum{in, kCount, sums, without_barrier}, 4, 128, nullptr));
  for (int block = 0; block < 4; ++block) EXPECT_EQ(read_back(sums + block), kCount * (kCount - 1) / 2);
}

ON_FAKE(FakeBlocks, shuffleAndSynchronize, "FAKE_CUDA_SEED=7") { sum(0); }

ON_FAKE(FakeBlocks, voteAndShareMemory, "FAKE_CUDA_SEED=5") {
  Gpu gpu;
  constexpr uint32_t kPacks = 128;
  uint32_t* const out = device_memory(64);
  ptx::Pack* const packs = device_memory<ptx::Pack>(2 * kPacks);
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{reinterpret_cast<uint32_t*>(packs), kPacks * 4, 0}, 1, 64, nullptr));
  for (const uint64_t bits : {uint64_t{0}, uint64_t{0x1234567800000000}}) {
    SampleVotes arguments{bits, out, packs, packs + kPacks, kPacks};
    void* parameters[] = {&arguments};
    CHECK_CUDA(cuLaunchKernel(gpu.kernel("sample_votes"), 1, 1, 1, 64, 1, 1, kPacks * sizeof(ptx::Pack), nullptr,
                              parameters, nullptr));
    EXPECT_EQ(read_back(out + 3), 0U);
    EXPECT_EQ(read_back(out + 40), static_cast<uint32_t>(bits >> 32));
  }
  EXPECT_EQ(read_back(packs + kPacks + 77).words[3], 77 * 4 + 3U);
}

#if defined(__SANITIZE_THREAD__)
ON_FAKE_FAILS(FakeBlocks, haveRacesThatThreadSanitizerSees, "", "data race") { sum(1); }
#else
ON_FAKE_FAILS(FakeBlocks, areWrongWithoutABarrier, "FAKE_CUDA_SEED=3", "FAILED") { sum(1); }
#endif

}  // namespace
}  // namespace tutti::test
