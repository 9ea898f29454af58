// The layout of a fatbin is not documented: this is what nvcc 12.4 and 13.0 write, compared with what cuobjdump lists.
#include "fatbin.hpp"

#include <cstdint>
#include <cstring>

namespace fake {
namespace {

constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint16_t kPtx = 1, kElf = 2;

struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of all entries
};
struct Entry {
  uint16_t kind, attributes;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t compressed_bytes, options;
  uint16_t minor, major;  // of PTX: its version
  uint32_t capability;
};

// PTX ISA, "Release Notes": 8.0 to 8.5 came with CUDA 12.0 to 12.5, 8.6 to 8.8 with 12.7 to 12.9, 9.0 with 13.0.
int cuda_of_ptx(int major, int minor) {
  const int skipped = major == 8 && minor >= 6 ? 1 : 0;
  return (major + 4) * 1000 + (minor + skipped) * 10;
}

bool runs(int code, int capability) { return code / 10 == capability / 10 && code <= capability; }

}  // namespace

std::vector<Code> codes_of(const void* image) {
  Header header{};
  std::memcpy(&header, image, sizeof header);
  if (header.magic != kMagic) return {};
  std::vector<Code> codes;
  const auto* at = static_cast<const unsigned char*>(image) + header.header_bytes;
  const unsigned char* const end = at + header.bytes;
  while (at + sizeof(Entry) <= end) {
    Entry entry{};
    std::memcpy(&entry, at, sizeof entry);
    const auto capability = static_cast<int>(entry.capability);
    if (entry.kind == kPtx) codes.push_back({true, capability, cuda_of_ptx(entry.major, entry.minor)});
    if (entry.kind == kElf) codes.push_back({false, capability, 0});
    at += entry.header_bytes + entry.bytes;
  }
  return codes;
}

// Machine code of a CUDA with a greater major version is refused: that the error is INVALID_IMAGE is a guess.
Taken take(const std::vector<Code>& codes, int capability, int cuda) {
  if (codes.empty()) return {CUDA_SUCCESS, capability, capability};
  const Code *native = nullptr, *ptx = nullptr;
  int made_with = 0;
  for (const Code& code : codes) {
    const Code*& best = code.ptx ? ptx : native;
    const bool fits = code.ptx ? code.capability <= capability : runs(code.capability, capability);
    if (fits && (best == nullptr || code.capability > best->capability)) best = &code;
    if (code.ptx) made_with = code.cuda;
  }
  if (native != nullptr) {
    if (made_with / 1000 > cuda / 1000) return {CUDA_ERROR_INVALID_IMAGE};
    return {CUDA_SUCCESS, native->capability, native->capability};
  }
  if (ptx == nullptr) return {CUDA_ERROR_NO_BINARY_FOR_GPU};
  if (ptx->cuda > cuda) return {CUDA_ERROR_UNSUPPORTED_PTX_VERSION};
  return {CUDA_SUCCESS, capability, ptx->capability};
}

}  // namespace fake
