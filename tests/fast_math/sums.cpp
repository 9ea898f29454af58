// Prints the bits of reproducible all-reduces over 2 to 8 thread ranks, and whether this process flushes subnormals.
#include <tutti/tutti.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <thread>
#include <vector>

namespace {

// Bits, so that no compiler rounds them: subnormals, ±1e30, 1, a third, the least normal, an infinity.
constexpr uint32_t kHard[] = {0x00000001, 0x7149f2ca, 0x3f800000, 0xf149f2ca, 0x3eaaaaab,
                              0x007fffff, 0x80000003, 0x00800000, 0x7f800000};
constexpr size_t kCount = 4099;  // elements

std::vector<uint32_t> input_of(int rank, bool infinite) {
  std::vector<uint32_t> bits(kCount);
  for (size_t i = 0; i < kCount; ++i) bits[i] = kHard[(i * 7 + static_cast<size_t>(rank) * 5) % (infinite ? 9 : 8)];
  return bits;
}

bool print_sums(int ranks, bool infinite) {
  std::vector<tuttiComm_t> comms(static_cast<size_t>(ranks));
  if (tuttiCommInitAll(comms.data(), ranks) != tuttiSuccess) return false;
  std::vector<std::vector<uint32_t>> out(comms.size(), std::vector<uint32_t>(kCount));
  std::vector<tuttiResult_t> results(comms.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < comms.size(); ++r) {
    threads.emplace_back([&, r] {
      const auto in = input_of(static_cast<int>(r), infinite);
      results[r] = tuttiAllReduce(in.data(), out[r].data(), kCount, tuttiFloat32, tuttiSum, comms[r], nullptr);
      tuttiCommDestroy(comms[r]);
    });
  }
  for (auto& thread : threads) thread.join();
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const uint32_t bits : out[0]) hash = (hash ^ bits) * 0x100000001b3;
  std::printf("%d ranks%s: %016llx, first %08x\n", ranks, infinite ? ", infinities" : "",
              static_cast<unsigned long long>(hash), out[0][0]);
  for (size_t r = 0; r < comms.size(); ++r) {
    if (results[r] != tuttiSuccess || out[r] != out[0]) return false;
  }
  return true;
}

}  // namespace

int main() {
  for (int ranks = 2; ranks <= 8; ++ranks) {
    if (!print_sums(ranks, false) || !print_sums(ranks, true)) {
      std::printf("failed: %s\n", tuttiGetLastError());
      return 1;
    }
  }
  const uint32_t least = kHard[0];
  volatile float subnormal = 0;
  std::memcpy(const_cast<float*>(&subnormal), &least, sizeof least);
  volatile float doubled = subnormal + subnormal;
  uint32_t bits = 0;
  std::memcpy(&bits, const_cast<const float*>(&doubled), sizeof bits);
  std::printf("flushes: %s\n", bits == 0 ? "yes" : "no");
  return 0;
}
