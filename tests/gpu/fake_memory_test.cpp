// The fake driver's rules of memory.
#include <unistd.h>

#include <atomic>
#include <vector>

#include "on_fake.hpp"

namespace tutti::test {
namespace {

ON_FAKE_FAILS(FakeMemory, isClosedForTheHostWhileNothingRuns, "", "the host touched device memory") {
  Gpu gpu;
  volatile uint32_t* const memory = device_memory(16);
  *memory = 1;
}

ON_FAKE(FakeMemory, isReachedByCopiesFillsAndKernels, "") {
  Gpu gpu;
  constexpr uint32_t kCount = 100000;
  uint32_t* const memory = device_memory(kCount);
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, kCount, 5}, 4, 128, nullptr));
  std::vector<uint32_t> got(kCount);
  CHECK_CUDA(cuMemcpyDtoH(got.data(), address(memory), kCount * 4));
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(got[i], i + 5);
  CHECK_CUDA(cuMemsetD32(address(memory), 77, kCount));
  EXPECT_EQ(read_back(memory + kCount - 1), 77U);
}

ON_FAKE(FakeMemory, ofAnotherDeviceIsAFaultUnlessPeerAccessIsEnabled, "FAKE_CUDA_DEVICES=2") {
  Gpu other(1);
  uint32_t* const memory = device_memory(64);
  Gpu gpu(0);
  CHECK_CUDA(cuCtxEnablePeerAccess(other.context, 0));
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(other.context, 0));
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 64, 1}, 1, 64, nullptr));
  CHECK_CUDA(cuCtxSynchronize());
  CHECK_CUDA(cuCtxDisablePeerAccess(other.context));
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 64, 1}, 1, 64, nullptr));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

ON_FAKE(FakeMemory, ofAnotherDeviceIsClosedWhileThatDeviceRunsToo, "FAKE_CUDA_DEVICES=2") {
  Gpu other(1);
  uint32_t* const memory = device_memory(64);
  uint64_t* const flag = host_memory(2);
  CHECK_CUDA(other.launch("sample_wait", SampleWait{flag, 1, flag + 1}, 1, 1, new_stream()));
  Gpu gpu(0);
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 64, 1}, 1, 64, nullptr));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  std::atomic_ref(*flag).store(1);
  other.use();
  EXPECT_CUDA(CUDA_SUCCESS, cuCtxSynchronize());  // one device's fault is not another's
}

ON_FAKE(FakeMemory, pastItsEndFreedOrNullIsAFault, "FAKE_CUDA_DEVICES=3") {
  for (int device = 0; device < 3; ++device) {
    Gpu gpu(device);
    uint32_t* memory = device_memory(1024);
    if (device == 0) memory += 1024;
    if (device == 1) CHECK_CUDA(cuMemFree(address(memory)));
    if (device == 2) memory = nullptr;
    CHECK_CUDA(gpu.launch("sample_fill", SampleFill{memory, 8, 1}, 1, 8, nullptr));
    EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  }
}

CUdeviceptr map(CUmemGenericAllocationHandle handle, size_t bytes) {
  CUdeviceptr pointer = 0;
  CHECK_CUDA(cuMemAddressReserve(&pointer, bytes, 0, 0, 0));
  CHECK_CUDA(cuMemMap(pointer, bytes, 0, handle, 0));
  return pointer;
}

CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

CUmemAccessDesc grant_to(int device, CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
}

constexpr size_t kBytes = 2 << 20;

ON_FAKE(FakeMemory, ofAHandleIsReachedOnlyAsGranted, "FAKE_CUDA_DEVICES=3") {
  const CUmemAllocationProp properties = on_device(0);
  for (const CUmemAccess_flags granted :
       {CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READ, CU_MEM_ACCESS_FLAGS_PROT_NONE}) {
    const int device = granted == CU_MEM_ACCESS_FLAGS_PROT_NONE ? 0 : granted == CU_MEM_ACCESS_FLAGS_PROT_READ ? 1 : 2;
    Gpu gpu(device);
    CUmemGenericAllocationHandle handle = 0;
    CHECK_CUDA(cuMemCreate(&handle, kBytes, &properties, 0));
    const CUdeviceptr memory = map(handle, kBytes);
    const CUmemAccessDesc grant = grant_to(device, granted);
    CHECK_CUDA(cuMemSetAccess(memory, kBytes, &grant, 1));
    uint64_t* const sum = device_memory<uint64_t>(1);
    auto* const words = reinterpret_cast<uint32_t*>(memory);
    CHECK_CUDA(gpu.launch("sample_sum", SampleSum{words, 64, sum, 0}, 1, 32, nullptr));
    const bool may_read = granted != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    EXPECT_CUDA(may_read ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
    if (!may_read) continue;
    CHECK_CUDA(gpu.launch("sample_fill", SampleFill{words, 64, 1}, 1, 32, nullptr));
    const bool may_write = granted == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_CUDA(may_write ? CUDA_SUCCESS : CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
  }
}

ON_FAKE(FakeMemory, withoutALinkIsNotGranted, "FAKE_CUDA_DEVICES=3 FAKE_CUDA_LINKS=0-1,1~2") {
  Gpu gpu(0);
  int can = 0, native = 0;
  CHECK_CUDA(cuDeviceCanAccessPeer(&can, 0, 1));
  EXPECT_EQ(can, 1);
  CHECK_CUDA(cuDeviceCanAccessPeer(&can, 0, 2));
  EXPECT_EQ(can, 0);
  CHECK_CUDA(cuDeviceGetP2PAttribute(&native, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 1, 2));
  EXPECT_EQ(native, 0);
  const CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, kBytes, &properties, 0));
  const CUdeviceptr memory = map(handle, kBytes);
  const CUmemAccessDesc near = grant_to(1), far = grant_to(2);
  EXPECT_CUDA(CUDA_SUCCESS, cuMemSetAccess(memory, kBytes, &near, 1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, cuMemSetAccess(memory, kBytes, &far, 1));
  Gpu other(2);
  EXPECT_CUDA(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(gpu.context, 0));
}

// ---- other processes ---------------------------------------------------------------------

const Role importer("importer", [](int socket) {
  Gpu gpu(1);
  char byte = 0;
  const int fd = receive_bytes(socket, &byte, 1);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(fd);
  const CUdeviceptr memory = map(handle, kBytes);
  const CUmemAccessDesc grant = grant_to(1);
  CHECK_CUDA(cuMemSetAccess(memory, kBytes, &grant, 1));
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{reinterpret_cast<uint32_t*>(memory), 1000, 3}, 2, 64, nullptr));
  CHECK_CUDA(cuCtxSynchronize());
  int ordinal = -1;
  CHECK_CUDA(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
  EXPECT_EQ(ordinal, 0);  // where it lies
  send_bytes(socket, &byte, 1);
});

ON_FAKE(FakeMemory, isSharedWithAProcessByADescriptor, "FAKE_CUDA_DEVICES=2") {
  Other other("importer");
  Gpu gpu(0);
  const CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, kBytes, &properties, 0));
  int fd = -1;
  CHECK_CUDA(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  char byte = 0;
  send_bytes(other.socket(), &byte, 1, fd);
  close(fd);
  receive_bytes(other.socket(), &byte, 1);
  EXPECT_EQ(read_back(reinterpret_cast<uint32_t*>(map(handle, kBytes)) + 999), 1002U);
}

// The first half of the memory is this process's, the second the other's: each stores into the other's lines.
void exchange_lines(const Gpu& gpu, CUdeviceptr memory, bool first) {
  auto* const here = reinterpret_cast<ptx::Words*>(memory);
  ptx::Words* const there = here + 32;
  uint64_t* const received = device_memory<uint64_t>(1);
  const SampleLines arguments{first ? here : there, first ? there : here, 100, received};
  CHECK_CUDA(gpu.launch("sample_lines", arguments, 1, 32, nullptr));
  EXPECT_EQ(read_back(received), 3200U);
}

CUdeviceptr map_for(int device, CUmemGenericAllocationHandle handle) {
  const CUdeviceptr memory = map(handle, kBytes);
  const CUmemAccessDesc grant = grant_to(device);
  CHECK_CUDA(cuMemSetAccess(memory, kBytes, &grant, 1));
  return memory;
}

const Role partner("partner", [](int socket) {
  Gpu gpu(1);
  char byte = 0;
  const int fd = receive_bytes(socket, &byte, 1);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                            CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  exchange_lines(gpu, map_for(1, handle), false);
});

ON_FAKE(FakeMemory, isPolledByKernelsOfTwoProcesses, "FAKE_CUDA_DEVICES=2") {
  Other other("partner");
  Gpu gpu(0);
  const CUmemAllocationProp properties = on_device(0);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, kBytes, &properties, 0));
  int fd = -1;
  CHECK_CUDA(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  send_bytes(other.socket(), "", 1, fd);
  exchange_lines(gpu, map_for(0, handle), true);
}

const Role opener("opener", [](int socket) {
  Gpu gpu(1);
  CUipcMemHandle handle{};
  receive_bytes(socket, &handle, sizeof handle);
  CUdeviceptr memory = 0;
  CHECK_CUDA(cuIpcOpenMemHandle(&memory, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  // The whole allocation; the pointer that the handle was made from was 100 words into it.
  EXPECT_EQ(read_back(reinterpret_cast<uint32_t*>(memory)), 8U);
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{reinterpret_cast<uint32_t*>(memory) + 100, 1, 9}, 1, 1, nullptr));
  CHECK_CUDA(cuCtxSynchronize());
  CHECK_CUDA(cuIpcCloseMemHandle(memory));
  send_bytes(socket, "", 1);
});

ON_FAKE(FakeMemory, isSharedWithAProcessByAnIpcHandle, "FAKE_CUDA_DEVICES=2") {
  Other other("opener");
  Gpu gpu(0);
  uint32_t* const memory = device_memory(1000);
  CHECK_CUDA(cuMemsetD32(address(memory), 8, 1000));
  CUipcMemHandle handle{};
  CHECK_CUDA(cuIpcGetMemHandle(&handle, address(memory + 100)));
  CUdeviceptr mine = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle(&mine, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  send_bytes(other.socket(), &handle, sizeof handle);
  char byte = 0;
  receive_bytes(other.socket(), &byte, 1);
  EXPECT_EQ(read_back(memory + 100), 9U);
}

// ---- what is known of it -----------------------------------------------------------------

uint64_t buffer_id(CUdeviceptr pointer) {
  uint64_t id = 0;
  CHECK_CUDA(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, pointer));
  return id;
}

ON_FAKE(FakeMemory, hasANewIdAtAnOldAddress, "") {
  Gpu gpu;
  CUdeviceptr first = 0, second = 0;
  CHECK_CUDA(cuMemAlloc(&first, 1000));
  const uint64_t id = buffer_id(first);
  EXPECT_EQ(buffer_id(first + 999), id);
  CHECK_CUDA(cuMemFree(first));
  CHECK_CUDA(cuMemAlloc(&second, 1000));
  EXPECT_EQ(first, second);
  EXPECT_NE(buffer_id(second), id);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemFree(second + 4));
  CUdeviceptr base = 0;
  size_t bytes = 0;
  CHECK_CUDA(cuMemGetAddressRange(&base, &bytes, second + 500));
  EXPECT_EQ(base, second);
  EXPECT_EQ(bytes, 1000U);
}

ON_FAKE(FakeMemory, ofTheHostIsKnownAsSuch, "") {
  Gpu gpu;
  int ordinal = 0;
  unsigned type = 9;
  void* data[] = {&ordinal, &type};
  CUpointer_attribute what[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE};
  CHECK_CUDA(cuPointerGetAttributes(2, what, data, address(&ordinal)));
  EXPECT_EQ(ordinal, -2);
  EXPECT_EQ(type, 0U);
  CHECK_CUDA(cuPointerGetAttributes(2, what, data, address(host_memory(1))));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_HOST));
  CHECK_CUDA(cuPointerGetAttributes(2, what, data, address(device_memory(1))));
  EXPECT_EQ(type, static_cast<unsigned>(CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(ordinal, 0);
}

ON_FAKE(FakeMemory, ofTheHostIsReachedByKernelsOnceItIsRegistered, "") {
  Gpu gpu;
  std::vector<uint32_t> words(10000);
  CUdeviceptr device = 0;
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMemHostGetDevicePointer(&device, words.data(), 0));
  CHECK_CUDA(cuMemHostRegister(words.data(), words.size() * 4, 0));
  CHECK_CUDA(cuMemHostGetDevicePointer(&device, words.data(), 0));
  CHECK_CUDA(gpu.launch("sample_fill", SampleFill{reinterpret_cast<uint32_t*>(device), 10000, 1}, 2, 64, nullptr));
  CHECK_CUDA(cuCtxSynchronize());
  EXPECT_EQ(words[9999], 10000U);
  CHECK_CUDA(cuMemHostUnregister(words.data()));
  EXPECT_CUDA(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cuMemHostUnregister(words.data()));
}

ON_FAKE(FakeMemory, endsWhereTheGpuEnds, "FAKE_CUDA_MEMORY=1048576") {
  Gpu gpu;
  CUdeviceptr pointer = 0, more = 0;
  CHECK_CUDA(cuMemAlloc(&pointer, 1000000));
  size_t left = 0, total = 0;
  CHECK_CUDA(cuMemGetInfo(&left, &total));
  EXPECT_LT(left, 100000U);
  EXPECT_CUDA(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&more, 100000));
  CHECK_CUDA(cuMemFree(pointer));
  EXPECT_CUDA(CUDA_SUCCESS, cuMemAlloc(&more, 100000));
}

}  // namespace
}  // namespace tutti::test
