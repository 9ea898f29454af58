// Diagnoses blocks on whose lengths two ranks disagree.
#include <algorithm>

#include "base/format.hpp"
#include "comm/call_diagnostics.hpp"
#include "comm/vector_calls.hpp"

namespace tutti::comm {
namespace {

/// "4 elements (16 bytes)"
std::string length(uint64_t count, DType type) {
  return fmt::format("{} element{} ({} bytes)", count, count == 1 ? "" : "s", count * size_of(type));
}

}  // namespace

/// The block that the peer sends this rank in the current call, if its length is not what this rank expects.
std::optional<std::string> CallDiagnostics::different_block(Rank peer) const {
  const auto ours = own_board_.blocks(call_);
  const Rank me = endpoint_.rank();
  const auto bytes = ask_now(peer, {blocks_key(call_, me)}).front();
  const auto theirs = bytes ? CallBoard::parse_blocks(*bytes) : std::nullopt;
  if (ours == nullptr || !theirs || theirs->sent.empty()) return std::nullopt;
  const uint64_t sent = theirs->sent.front(), expected = ours->out.counts[static_cast<size_t>(peer)];
  if (sent == expected) return std::nullopt;
  return fmt::format("rank {} sent rank {} a block of {} where rank {} expected {}, in {} as call {}", peer, me,
                     length(sent, spec_.type), me, length(expected, spec_.type), describe(spec_), call_);
}

/// The first difference between the peer's and this rank's counts of a reduction, `spec`.
std::optional<std::string> CallDiagnostics::different_counts(Rank peer, uint64_t call, const CallSpec& spec) const {
  const auto ours = own_board_.blocks(call);
  if (ours == nullptr) return std::nullopt;
  const std::vector<uint64_t>& counts = ours->in.counts;
  std::vector<uint64_t> keys;
  for (size_t first = 0; first < counts.size(); first += CallBoard::kBlocksInAnAnswer) {
    keys.push_back(blocks_key(call, static_cast<Rank>(first)));
  }
  size_t r = 0;
  for (const auto& bytes : ask_now(peer, keys)) {
    const auto theirs = bytes ? CallBoard::parse_blocks(*bytes) : std::nullopt;
    if (!theirs) return std::nullopt;
    for (const uint64_t count : theirs->sent) {
      if (r < counts.size() && count != counts[r]) {
        const std::string name = describe(spec);
        return fmt::format(
            "rank {} called {} with counts[{}] = {} as call {} where rank {} called {} with counts[{}] "
            "= {}",
            peer, name, r, count, call, endpoint_.rank(), name, r, counts[r]);
      }
      ++r;
    }
  }
  return std::nullopt;
}

}  // namespace tutti::comm
