// Tests on the fake driver. Each runs in a process of its own: what the machine is like is read once, and faults are
// for ever.
//
//   ON_FAKE(FakeMemory, isClosedForTheHost, "FAKE_CUDA_DEVICES=2") { Gpu gpu; ... }
#pragma once

#include <cuda.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sample_kernels.hpp"

namespace tutti::test {

/// How a process ended, and what it printed.
struct Ended {
  int status = 0;  ///< of waitpid
  std::string output;
};

/// Starts this program again to run this one test, with "NAME=value ..." in its environment, and waits.
Ended run_again(const std::string& environment);
/// Whether this process is the one that run_again() started.
bool inside();

/// A second process in a test: this program, started again in a role, with a socket to the first.
class Other {
 public:
  explicit Other(const std::string& role);
  ~Other();  ///< waits for its end, which must be a success
  Other(const Other&) = delete;
  Other& operator=(const Other&) = delete;
  int socket() const { return socket_; }

 private:
  int socket_;
  pid_t process_;
};
struct Role {
  Role(const char* name, std::function<void(int socket)> body);
};

// Over such a socket.
void send_bytes(int socket, const void* data, size_t bytes, int fd = -1);
/// Returns the descriptor that came along; -1: none.
int receive_bytes(int socket, void* data, size_t bytes);

#define EXPECT_CUDA(result, call) EXPECT_EQ(static_cast<int>(result), static_cast<int>(call))
#define CHECK_CUDA(call) ::tutti::test::check(call, #call)
/// Ends the process with an error if the call failed.
void check(CUresult result, const char* call);

/// A context of a device, current, with the sample kernels.
class Gpu {
 public:
  explicit Gpu(int device = 0);
  void use() const { CHECK_CUDA(cuCtxSetCurrent(context)); }
  CUfunction kernel(const char* name) const;
  template <class Arguments>
  CUresult launch(const char* name, Arguments arguments, unsigned blocks, unsigned threads, CUstream stream) const {
    void* parameters[] = {&arguments};
    return cuLaunchKernel(kernel(name), blocks, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
  }
  CUcontext context = nullptr;
  CUlibrary library = nullptr;
};

template <class T = uint32_t>
T* device_memory(size_t count) {
  CUdeviceptr pointer = 0;
  check(cuMemAlloc(&pointer, count * sizeof(T)), "cuMemAlloc");
  check(cuMemsetD8(pointer, 0, count * sizeof(T)), "cuMemsetD8");
  return reinterpret_cast<T*>(pointer);
}
template <class T = uint64_t>
T* host_memory(size_t count) {
  void* pointer = nullptr;
  check(cuMemHostAlloc(&pointer, count * sizeof(T), 0), "cuMemHostAlloc");
  return static_cast<T*>(pointer);
}
template <class T>
CUdeviceptr address(T* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
template <class T>
T read_back(const T* at) {
  T value{};
  check(cuMemcpyDtoH(&value, address(at), sizeof value), "cuMemcpyDtoH");
  return value;
}
CUstream new_stream(unsigned flags = CU_STREAM_NON_BLOCKING);

/// The loader's magic word and nothing behind it: the fake takes the kernels from FAKE_CUDA_TWINS.
extern const char kImage[8];

#define ON_FAKE(Suite, name, environment)                                     \
  static void Suite##_##name();                                               \
  TEST(Suite, name) {                                                         \
    if (::tutti::test::inside()) return Suite##_##name();                     \
    const ::tutti::test::Ended ended = ::tutti::test::run_again(environment); \
    EXPECT_EQ(ended.status, 0) << ended.output;                               \
  }                                                                           \
  static void Suite##_##name()

/// The same for a process that must fail and say `text`.
#define ON_FAKE_FAILS(Suite, name, environment, text)                         \
  static void Suite##_##name();                                               \
  TEST(Suite, name) {                                                         \
    if (::tutti::test::inside()) return Suite##_##name();                     \
    const ::tutti::test::Ended ended = ::tutti::test::run_again(environment); \
    EXPECT_NE(ended.status, 0);                                               \
    EXPECT_NE(ended.output.find(text), std::string::npos) << ended.output;    \
  }                                                                           \
  static void Suite##_##name()

}  // namespace tutti::test
