#include "topo/caches.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti {
namespace {

namespace fs = std::filesystem;

/// A folder with /sys of some processors.
class Sys {
 public:
  Sys() : root_(fs::path(testing::TempDir()) / ("caches-" + std::to_string(getpid()))) { fs::remove_all(root_); }
  ~Sys() { fs::remove_all(root_); }
  Sys(const Sys&) = delete;
  Sys& operator=(const Sys&) = delete;

  void cache(int processor, int index, const char* level, const char* type, const char* size, const char* shared) {
    const fs::path folder = root_ / "sys/devices/system/cpu" / ("cpu" + std::to_string(processor)) / "cache" /
                            ("index" + std::to_string(index));
    fs::create_directories(folder);
    std::ofstream(folder / "level") << level << "\n";
    std::ofstream(folder / "type") << type << "\n";
    std::ofstream(folder / "size") << size << "\n";
    std::ofstream(folder / "coherency_line_size") << "64\n";
    std::ofstream(folder / "shared_cpu_list") << shared << "\n";
  }
  /// Four cores of two threads each, two core complexes.
  void four_cores() {
    for (int cpu = 0; cpu < 8; ++cpu) {
      const int core = cpu % 4, first = core / 2 * 2;
      const std::string threads = std::to_string(core) + "," + std::to_string(core + 4);
      const std::string complex = std::to_string(first) + "-" + std::to_string(first + 1) + "," +
                                  std::to_string(first + 4) + "-" + std::to_string(first + 5);
      cache(cpu, 0, "1", "Data", "48K", threads.c_str());
      cache(cpu, 1, "1", "Instruction", "32K", threads.c_str());
      cache(cpu, 2, "3", "Unified", "32768K", complex.c_str());
      cache(cpu, 3, "2", "Unified", "1024K", threads.c_str());
    }
  }
  std::string root() const { return root_; }

 private:
  fs::path root_;
};

TEST(Caches, OfAProcessorComeBySizeWithoutThoseOfInstructions) {
  Sys sys;
  sys.four_cores();
  const auto caches = caches_of(1, sys.root());
  ASSERT_EQ(caches.size(), 3u);
  EXPECT_EQ(caches[0].bytes, 48u << 10);
  EXPECT_EQ(caches[1].bytes, 1u << 20);
  EXPECT_EQ(caches[2].bytes, 32u << 20);
  EXPECT_EQ(caches[2].processors, (Cores{0, 1, 4, 5}));
  EXPECT_EQ(caches[2].line, 64u);
}

TEST(Caches, SizesCountEachLastCacheOnce) {
  Sys sys;
  sys.four_cores();
  const CacheSizes all = cache_sizes({0, 1, 2, 3, 4, 5, 6, 7}, sys.root());
  EXPECT_EQ(all.own, 1u << 20) << "two threads of a core are one core";
  EXPECT_EQ(all.last, 32u << 20);
  EXPECT_EQ(all.lasts, 2u);
  EXPECT_EQ(cache_sizes({2, 3}, sys.root()).lasts, 1u);
}

TEST(Caches, ThatTheKernelDoesNotListAreUnknown) {
  Sys sys;
  const CacheSizes none = cache_sizes({0, 1}, sys.root());
  EXPECT_EQ(none.own, 0u);
  EXPECT_EQ(none.last, 0u);
  sys.cache(0, 0, "many", "Unified", "large", "all of them");
  EXPECT_EQ(cache_sizes({0, 1}, sys.root()).last, 0u);
}

}  // namespace
}  // namespace tutti
