// What travels how: the delivery of every collective, size, memory and reader, as the page docs/delivery.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "exec/compile/delivery.hpp"
#include "plan/plan.hpp"
#include "select/deliveries.hpp"

namespace tutti::select {
namespace {

namespace fs = std::filesystem;
using exec::Delivery;

constexpr uint64_t kMax = 64 << 20;  // bytes

struct Reader {
  const char* name;
  link::Access access;
};
const std::vector<Reader> kReaders = {{"a thread of the process", {.address = true, .cooperative = true}},
                                      {"a process", {.mapped = true, .cma = true, .cooperative = true}},
                                      {"a process, CMA refused", {.mapped = true, .cooperative = true}},
                                      {"another host, by tcp", {.address = true}},
                                      {"a reader with slots", {.push_bytes = kMax}}};

exec::DeliveryRules rules_for(Collective collective, Rank ranks, uint64_t block) {
  if (collective == Collective::SendRecv) return deliveries_of_transfers({});
  return deliveries_of(collective, block, ranks, {});
}

Delivery delivery(Collective collective, Rank ranks, uint64_t block, bool shared, const Reader& reader) {
  const exec::OutMessage message{.bytes = block, .stays = true, .shared = shared && collective != Collective::SendRecv};
  return delivery_of(message, reader.access, rules_for(collective, ranks, block));
}

std::string size_text(uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} B", bytes);
}

/// "staged, zcopy from 8 KiB": of messages that are longer than inline ones.
std::string deliveries(Collective collective, Rank ranks, bool shared, const Reader& reader) {
  const auto at = [&](uint64_t bytes) { return delivery(collective, ranks, bytes, shared, reader); };
  Delivery last = at(64);
  std::string text = exec::name_of(last);
  for (uint64_t low = 64, high = 128; high <= kMax; low = high, high *= 2) {
    if (at(high) == last) continue;
    uint64_t same = low, first = high;  // the first size with another delivery, by bisection
    while (first - same > 1) {
      const uint64_t middle = same + (first - same) / 2;
      (at(middle) == last ? same : first) = middle;
    }
    last = at(high);
    const bool above = size_text(first - 1).ends_with("iB");
    text +=
        fmt::format(", {} {} {}", exec::name_of(last), above ? "above" : "from", size_text(above ? first - 1 : first));
  }
  return text;
}

std::string table(Rank ranks, bool shared) {
  std::string text = "| collective |";
  for (const Reader& reader : kReaders) text += fmt::format(" {} |", reader.name);
  text += "\n|---|";
  for (size_t i = 0; i < kReaders.size(); ++i) text += "---|";
  for (size_t c = 0; c < kCollectives; ++c) {
    const auto collective = static_cast<Collective>(c);
    if (collective == Collective::Barrier) continue;
    text += fmt::format("\n| {} |", name_of(collective));
    for (const Reader& reader : kReaders) text += fmt::format(" {} |", deliveries(collective, ranks, shared, reader));
  }
  return text + "\n";
}

std::string page() {
  return R"(# What travels how

Each table says how a message reaches one reader: by the collective, by the kind of reader, and by its length. A message
is one whole block here. "staged, cma from 256 KiB, staged above 6 MiB" means: by CMA from 256 KiB to 6 MiB, and
staged below and above. Messages of up to 40 bytes are inline. [glossary.md](glossary.md) has the words.

The tables hold where each rank has a core of its own and `TUTTI_CMA` is `auto`, for messages that lie in one piece of
memory and stay unchanged until their readers are done. Other messages are staged, or pushed. Where ranks share cores,
blocks of an all-to-all are read by CMA from 64 KiB on, and those of a reduce-scatter or broadcast never. *A reader with slots* has the link's payload slots in its own memory, as a GPU has; the
writer pushes messages there. Short messages between GPUs travel as LL or LL128 instead ([gpu.md](gpu.md)).

The lengths are those that are compiled in (`src/topo/constants.def`). The quick calibration
([selection.md](selection.md)) multiplies those of CMA, those of zcopy and those of cache sizes ("above") by a power of
two each, from 1/4 to 4, or turns CMA off, wholly or where blocks are folded (reduce-scatter). `tutti info` prints the
factors. `src/exec/compile/delivery.hpp` decides each delivery, by rules of `src/select/deliveries.hpp`. A test prints
this page and compares it.

)"
         "## 2 ranks, any memory\n\n" +
         table(2, false) + "\n## 2 ranks, memory of tuttiMemAlloc\n\n" + table(2, true) +
         "\n## 8 ranks, any memory\n\n" + table(8, false) + "\n## 8 ranks, memory of tuttiMemAlloc\n\n" +
         table(8, true);
}

TEST(DeliveryRules, HaveTheirTableInTheDocumentation) {
  const fs::path path = fs::path(TUTTI_SOURCE_DIR) / "docs/delivery.md";
  std::ifstream file(path);
  const std::string there{std::istreambuf_iterator<char>(file), {}};
  if (there == page()) return;
  const fs::path right = fs::absolute("delivery.md");
  std::ofstream(right) << page();
  FAIL() << "docs/delivery.md does not say what the rules do. Copy " << right;
}

TEST(DeliveryRules, StageWhatDoesNotStay) {
  for (const Reader& reader : kReaders) {
    const Delivery copied = reader.access.push_bytes > 0 ? Delivery::Pushed : Delivery::Staged;
    EXPECT_EQ(
        delivery_of({.bytes = 1 << 20, .shared = true}, reader.access, rules_for(Collective::AllToAll, 2, 1 << 20)),
        copied);
  }
}

/// A reader must expect every zero-copy message that the writer may send, whatever the writer's memory.
TEST(DeliveryRules, ReadersExpectWhateverWritersDecide) {
  for (size_t c = 0; c < kCollectives; ++c) {
    for (const Reader& reader : kReaders) {
      for (uint64_t bytes = 1; bytes <= kMax; bytes *= 2) {
        const auto rules = rules_for(static_cast<Collective>(c), 2, bytes);
        for (const bool shared : {false, true}) {
          if (!is_zero_copy(delivery_of({.bytes = bytes, .stays = true, .shared = shared}, reader.access, rules)))
            continue;
          EXPECT_TRUE(may_arrive_zero_copy(bytes, reader.access, rules)) << bytes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tutti::select
