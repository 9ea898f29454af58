// The GPU of a rank of `tutti perf --device cuda`: memory, a stream, and graphs, by NVIDIA's driver library, which is
// loaded here as an application's CUDA would be.
#pragma once

#include <cstddef>
#include <functional>

namespace tutti::tools {

class Gpu {
 public:
  using Stream = void*;
  /// Makes GPU `number`, modulo their number, the calling thread's. Throws Error(Unsupported) where there is none.
  static void use(int number);

  Gpu();
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  /// These throw Error(SystemError | OutOfMemory).
  void* allocate(size_t bytes);
  void upload(void* to, const void* from, size_t bytes);
  void download(void* to, const void* from, size_t bytes);
  Stream stream() const { return stream_; }
  void synchronize();
  /// Captures what `calls` enqueues on the stream, and launches it `times` times.
  void capture(const std::function<void()>& calls);
  void replay(int times);

 private:
  Stream stream_ = nullptr;
  void *graph_ = nullptr, *runnable_ = nullptr;
  void drop_graph();
};

}  // namespace tutti::tools
