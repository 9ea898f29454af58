// What the fake machine is like: read once from the environment.
//
//   FAKE_CUDA_DEVICES=k        GPUs (1)
//   FAKE_CUDA_LINKS=...        which GPUs reach each other: "all" (the default), "none", or pairs: "0-1,2-3" by NVLink,
//                              "0~2" by PCIe
//   FAKE_CUDA_MULTIPROCESSORS  of each GPU (8)
//   FAKE_CUDA_MEMORY=n         bytes of each GPU (1 GiB)
//   FAKE_CUDA_CAPABILITY=90    compute capability: of all GPUs, or "90,120", one for each
//   FAKE_CUDA_VERSION=12040    the CUDA that the driver is for (that of its cuda.h)
//   FAKE_CUDA_SEED=n           of the order of threads (1)
//   FAKE_CUDA_COUNT=1          counts the bytes that kernels move (fake_cuda_bytes, in grid.cpp)
//   FAKE_CUDA_TWINS=path       the shared object with the kernels' twins
//   FAKE_CUDA_INJECT=...       what fails: name[@device][:n], comma-separated. With n, the n-th time only; without,
//                              always. launch, ecc, fault, stuck (a kernel does not begin, nor end), no_memory,
//                              no_peer, no_export, no_ipc, no_vmm, no_multicast, no_multicast_api, no_bind, no_dmabuf,
//                              no_64_bit (words that streams wait for), no_flush (of such waits), rdma_unordered,
//                              deaf_switch and wrong_switch (of multicast accesses, of all or of data
//                              alone, the switch leaves the device out)
//   FAKE_CUDA_RULES=...        what real drivers may do, and not all do; comma-separated:
//                              drain  a call that allocates, registers, maps, loads or instantiates returns when the
//                                     process has no work left
//                              ranges  no extent is known of memory that was mapped (CUDA_ERROR_NOT_FOUND)
//                              queue  a hardware queue takes kQueueLength items; a call that adds one more waits
//   CUDA_DEVICE_MAX_CONNECTIONS  hardware queues (8), as the real driver's variable: 1 to 32
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fake {

struct Injection {
  std::string what;
  int device = -1;   ///< -1: any
  uint64_t nth = 0;  ///< 0: always
  uint64_t times = 0;
};

enum class Path { None, Pcie, NvLink };

struct Config {
  Config();
  Path path(int from, int to) const;
  /// Whether a switch joins the GPU to others: NVLink joins it to all.
  bool has_multicast(int device);
  /// Whether `what` fails now, on this device. Each call counts.
  bool fails(const char* what, int device);

  /// 90 for 9.0.
  int capability(int device) const;

  int devices = 1;
  int version = 0;
  uint32_t multiprocessors = 8;
  int queues = 8;  ///< in hardware, but for streams of the greatest priority
  uint64_t memory = 1ULL << 30, seed = 1;
  bool drains = false;         ///< the rule "drain"
  bool bounds_queues = false;  ///< the rule "queue"
  bool hides_ranges = false;   ///< the rule "ranges"
  bool counts = false;         ///< FAKE_CUDA_COUNT
  bool open_to_host = false;   ///< the host may load and store memory of devices: for tests of links without kernels
  std::string twins;

 private:
  void read_capabilities(const std::string& text);
  void read_links(const std::string& text);
  void read_injections(const std::string& text);
  void read_rules(const std::string& text);
  std::vector<Path> paths_;
  std::vector<int> capabilities_;
  std::vector<Injection> injections_;
};

Config& config();

}  // namespace fake
