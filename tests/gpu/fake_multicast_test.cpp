// The fake driver's rules of multicast memory.
#include <unistd.h>

#include "on_fake.hpp"

namespace tutti::test {
namespace {

constexpr size_t kBytes = 2 << 20;
constexpr auto kFd = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmulticastObjectProp for_devices(unsigned count) {
  CUmulticastObjectProp properties{};
  properties.numDevices = count;
  properties.size = kBytes;
  properties.handleTypes = kFd;
  return properties;
}

CUmemGenericAllocationHandle object_of(unsigned devices) {
  const CUmulticastObjectProp properties = for_devices(devices);
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMulticastCreate(&handle, &properties));
  return handle;
}

CUmemGenericAllocationHandle memory_on(int device, unsigned handle_types = kFd) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = static_cast<CUmemAllocationHandleType>(handle_types);
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemGenericAllocationHandle handle = 0;
  CHECK_CUDA(cuMemCreate(&handle, kBytes, &properties, 0));
  return handle;
}

unsigned char* map_for(int device, CUmemGenericAllocationHandle handle) {
  CUdeviceptr pointer = 0;
  const CUmemAccessDesc grant{{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CHECK_CUDA(cuMemAddressReserve(&pointer, kBytes, 0, 0, 0));
  CHECK_CUDA(cuMemMap(pointer, kBytes, 0, handle, 0));
  CHECK_CUDA(cuMemSetAccess(pointer, kBytes, &grant, 1));
  return reinterpret_cast<unsigned char*>(pointer);
}

CUresult launch(const Gpu& gpu, unsigned char* all, uint32_t value, uint32_t* out, bool without_multimem = false) {
  const SampleMulticast arguments{all, value, out, without_multimem ? 1U : 0U};
  CHECK_CUDA(gpu.launch("sample_multicast", arguments, 1, 1, nullptr));
  return cuCtxSynchronize();
}

ON_FAKE(FakeMulticast, joinsGpusThatNVLinkJoinsToAll, "FAKE_CUDA_DEVICES=3 FAKE_CUDA_LINKS=0-1,0-2,1~2") {
  Gpu gpu(0);
  for (int device = 0; device < 3; ++device) {
    int has = -1;
    CHECK_CUDA(cuDeviceGetAttribute(&has, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, device));
    EXPECT_EQ(has, device == 0 ? 1 : 0);
  }
  const CUmemGenericAllocationHandle object = object_of(2);
  CHECK_CUDA(cuMulticastAddDevice(object, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_DEVICE, cuMulticastAddDevice(object, 1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(object, 0));  // a second time
}

ON_FAKE(FakeMulticast, isNoneOfASingleGpu, "") {
  Gpu gpu;
  const CUmulticastObjectProp properties = for_devices(1);
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_CUDA(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&handle, &properties));
}

ON_FAKE(FakeMulticast, isBoundAndMappedWhenAllDevicesHaveBeenAdded, "FAKE_CUDA_DEVICES=2") {
  Gpu gpu(0);
  const CUmemGenericAllocationHandle object = object_of(2), memory = memory_on(0), unshared = memory_on(0, 0);
  CHECK_CUDA(cuMulticastAddDevice(object, 0));
  CUdeviceptr pointer = 0;
  CHECK_CUDA(cuMemAddressReserve(&pointer, kBytes, 0, 0, 0));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_STATE, cuMulticastBindMem(object, 0, memory, 0, kBytes, 0));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_STATE, cuMemMap(pointer, kBytes, 0, object, 0));
  CHECK_CUDA(cuMulticastAddDevice(object, 1));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(object, 0, unshared, 0, kBytes, 0));
  EXPECT_CUDA(CUDA_SUCCESS, cuMulticastBindMem(object, 0, memory, 0, kBytes, 0));
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(object, 0, memory, 0, kBytes, 0));  // a second time
  EXPECT_CUDA(CUDA_SUCCESS, cuMemMap(pointer, kBytes, 0, object, 0));
}

ON_FAKE(FakeMulticast, storesToAllAndLoadsTheSum, "FAKE_CUDA_DEVICES=2") {
  Gpu other(1), gpu(0);
  const CUmemGenericAllocationHandle object = object_of(2), first = memory_on(0), second = memory_on(1);
  for (const int device : {0, 1}) CHECK_CUDA(cuMulticastAddDevice(object, device));
  CHECK_CUDA(cuMulticastBindMem(object, 0, first, 0, kBytes, 0));
  unsigned char* const all = map_for(0, object);
  uint32_t* const out = device_memory(4);
  CHECK_CUDA(cuMulticastBindMem(object, 0, second, 0, kBytes, 0));
  EXPECT_CUDA(CUDA_SUCCESS, launch(gpu, all + 64, 5, out));
  EXPECT_EQ(read_back(out + 3), 10U);
  EXPECT_CUDA(CUDA_ERROR_INVALID_VALUE, cuMulticastUnbind(object, 2, 0, kBytes));
  CHECK_CUDA(cuMulticastUnbind(object, 1, 0, kBytes));
  EXPECT_EQ(read_back(reinterpret_cast<uint32_t*>(map_for(0, first) + 64)), 5U);
  EXPECT_EQ(read_back(reinterpret_cast<uint32_t*>(map_for(1, second) + 64)), 5U);
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, launch(gpu, all + 64, 5, out));
}

ON_FAKE(FakeMulticast, isAFaultWhereADeviceHasBoundNothing, "FAKE_CUDA_DEVICES=2") {
  Gpu gpu(0);
  const CUmemGenericAllocationHandle object = object_of(2), memory = memory_on(0);
  for (const int device : {0, 1}) CHECK_CUDA(cuMulticastAddDevice(object, device));
  CHECK_CUDA(cuMulticastBindMem(object, 0, memory, 0, kBytes, 0));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, launch(gpu, map_for(0, object), 5, device_memory(4)));
}

ON_FAKE(FakeMulticast, isAFaultForOrdinaryAccesses, "FAKE_CUDA_DEVICES=2") {
  Gpu gpu(0);
  const CUmemGenericAllocationHandle object = object_of(2), first = memory_on(0), second = memory_on(1);
  for (const int device : {0, 1}) CHECK_CUDA(cuMulticastAddDevice(object, device));
  CHECK_CUDA(cuMulticastBindMem(object, 0, first, 0, kBytes, 0));
  CHECK_CUDA(cuMulticastBindMem(object, 0, second, 0, kBytes, 0));
  EXPECT_CUDA(CUDA_ERROR_ILLEGAL_ADDRESS, launch(gpu, map_for(0, object), 5, device_memory(4), true));
}

const Role member("member", [](int socket) {
  Gpu gpu(1);
  char byte = 0;
  const int fd = receive_bytes(socket, &byte, 1);
  CUmemGenericAllocationHandle object = 0;
  CHECK_CUDA(cuMemImportFromShareableHandle(&object, reinterpret_cast<void*>(static_cast<intptr_t>(fd)), kFd));
  close(fd);
  CHECK_CUDA(cuMulticastAddDevice(object, 1));
  const CUmemGenericAllocationHandle memory = memory_on(1);
  CHECK_CUDA(cuMulticastBindMem(object, 0, memory, 0, kBytes, 0));
  send_bytes(socket, &byte, 1);
  receive_bytes(socket, &byte, 1);  // the first has stored
  EXPECT_EQ(read_back(reinterpret_cast<uint32_t*>(map_for(1, memory))), 7U);
});

ON_FAKE(FakeMulticast, isSharedWithAProcessByADescriptor, "FAKE_CUDA_DEVICES=2") {
  Other other("member");
  Gpu gpu(0);
  const CUmemGenericAllocationHandle object = object_of(2), memory = memory_on(0);
  CHECK_CUDA(cuMulticastAddDevice(object, 0));
  int fd = -1;
  CHECK_CUDA(cuMemExportToShareableHandle(&fd, object, kFd, 0));
  char byte = 0;
  send_bytes(other.socket(), &byte, 1, fd);
  close(fd);
  receive_bytes(other.socket(), &byte, 1);
  CHECK_CUDA(cuMulticastBindMem(object, 0, memory, 0, kBytes, 0));
  uint32_t* const out = device_memory(4);
  EXPECT_CUDA(CUDA_SUCCESS, launch(gpu, map_for(0, object), 7, out));
  EXPECT_EQ(read_back(out), 14U);
  send_bytes(other.socket(), &byte, 1);
}

}  // namespace
}  // namespace tutti::test
