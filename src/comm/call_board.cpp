#include "comm/call_board.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "comm/vector_calls.hpp"
#include "control/messages.hpp"

namespace tutti::comm {
namespace {

// The highest bits of a key say what it names; a collective's number has neither bit.
constexpr uint64_t kTransfer = uint64_t{1} << 63;
constexpr uint64_t kBlocks = uint64_t{1} << 62;  // without kTransfer; waits_key() also has the next lower bit
constexpr int kFirstAt = 40;                     // of a blocks_key: the first rank; the call is below it
constexpr uint64_t kCallMask = (uint64_t{1} << kFirstAt) - 1;
static_assert(control::kMaxRanks < 1 << 20 &&
              CallBoard::kBlocksInAnAnswer * 2 * sizeof(uint64_t) <= control::kMaxSmall);

static_assert(std::endian::native == std::endian::little, "a spec's words are sent as they are");

/// The reply to a question. A missing spec has kinds = ~0.
struct BoardBytes {
  uint64_t begun, finished, kinds, count, last_kinds, last_count, repeats;
};
constexpr uint64_t kAbsent = ~uint64_t{0};

}  // namespace

std::optional<CallSpec> unpack_spec(uint64_t kinds, uint64_t count) {
  const auto collective = kinds & 0xff, type = kinds >> 8 & 0xff, op = kinds >> 16 & 0xff;
  if (collective >= kCollectives || type >= kDTypes || op >= kOps) return std::nullopt;
  const auto spec = std::bit_cast<CallSpec>(std::array{kinds, count});
  if (spec.one_sided && spec.collective != Collective::SendRecv) return std::nullopt;
  return spec;
}

uint64_t number_of_transfer(uint64_t key) { return key & 0xffffffff; }

uint64_t transfer_key(bool sends, Rank peer, uint64_t number) {
  return kTransfer | static_cast<uint64_t>(sends) << 62 | static_cast<uint64_t>(peer & 0x3fffffff) << 32 |
         (number & 0xffffffff);
}

uint64_t one_sided_key(uint64_t number) {
  constexpr Rank kNobody = 0x3fffffff;
  static_assert(kNobody > control::kMaxRanks);
  return transfer_key(false, kNobody, number);
}

uint64_t blocks_key(uint64_t call, Rank first) {
  return kBlocks | static_cast<uint64_t>(first) << kFirstAt | (call & kCallMask);
}

void CallBoard::Entry::write(uint64_t new_key, const CallSpec& spec) {
  key.store(0, std::memory_order_relaxed);
  kinds.store(spec.kinds(), std::memory_order_release);
  count.store(spec.count, std::memory_order_release);
  key.store(new_key, std::memory_order_release);
}

std::optional<CallSpec> CallBoard::Entry::read(uint64_t wanted) const {
  if (wanted == 0 || key.load(std::memory_order_acquire) != wanted) return std::nullopt;
  const uint64_t k = kinds.load(std::memory_order_acquire);
  const uint64_t c = count.load(std::memory_order_acquire);
  if (key.load(std::memory_order_relaxed) != wanted) return std::nullopt;
  return unpack_spec(k, c);
}

void CallBoard::enter(uint64_t call, const CallSpec& spec) {
  collectives_[call % kEntries].write(call, spec);
  begun_.store(call, std::memory_order_release);
  last_.store(call, std::memory_order_release);
}

uint64_t CallBoard::enter_transfer(uint64_t number, const CallSpec& spec) {
  const uint64_t key = transfer_key(spec.sends, spec.root, number);
  const uint64_t begun = transfers_begun_.load(std::memory_order_relaxed);
  transfers_[begun % kEntries].write(key, spec);
  transfers_begun_.store(begun + 1, std::memory_order_release);
  last_.store(key, std::memory_order_release);
  const auto peer = static_cast<size_t>(spec.root);
  if (spec.sends && peer < sends_.size()) sends_[peer].store(number, std::memory_order_release);
  return key;
}

void CallBoard::enter_one_sided(uint64_t key, const CallSpec& spec) {
  one_sided_.write(key, spec);
  last_.store(key, std::memory_order_release);
}

void CallBoard::enter_blocks(uint64_t call, std::shared_ptr<const VectorBlocks> blocks) {
  const std::lock_guard lock(blocks_mutex_);
  blocks_[call % blocks_.size()] = {call, std::move(blocks)};
}

std::shared_ptr<const VectorBlocks> CallBoard::blocks(uint64_t call) const {
  const std::lock_guard lock(blocks_mutex_);
  const Blocks& entry = blocks_[call % blocks_.size()];
  return entry.call == call ? entry.of : nullptr;
}

std::string CallBoard::answer_blocks(uint64_t call, Rank first) const {
  const auto known = blocks(call);
  std::string bytes;
  if (known == nullptr) return bytes;
  for (const auto* counts : {&known->in.counts, &known->out.counts}) {
    const size_t begin = std::min(static_cast<size_t>(first), counts->size());
    const size_t end = std::min(begin + kBlocksInAnAnswer, counts->size());
    bytes.append(reinterpret_cast<const char*>(counts->data() + begin), (end - begin) * sizeof(uint64_t));
  }
  return bytes;
}

std::optional<BlockLengths> CallBoard::parse_blocks(const std::string& bytes) {
  const size_t each = bytes.size() / 2;
  if (bytes.empty() || bytes.size() % (2 * sizeof(uint64_t)) != 0) return std::nullopt;
  BlockLengths lengths;
  for (auto* counts : {&lengths.sent, &lengths.expected}) {
    counts->resize(each / sizeof(uint64_t));
    std::memcpy(counts->data(), bytes.data() + (counts == &lengths.sent ? 0 : each), each);
  }
  return lengths;
}

std::optional<CallSpec> CallBoard::find(uint64_t key) const {
  if ((key & kTransfer) == 0) return collectives_[key % kEntries].read(key);
  for (const Entry& entry : transfers_) {
    if (auto spec = entry.read(key)) return spec;
  }
  return one_sided_.read(key);
}

std::optional<uint64_t> CallBoard::sends_to(Rank peer) const {
  const auto at = static_cast<size_t>(peer);
  if (!counts_sends() || at >= sends_.size()) return std::nullopt;
  return sends_[at].load(std::memory_order_acquire);
}

std::string CallBoard::answer(uint64_t key) const {
  if ((key & kTransfer) == 0 && (key & kBlocks) != 0) {
    return answer_blocks(key & kCallMask, static_cast<Rank>((key & ~kBlocks) >> kFirstAt));
  }
  BoardBytes bytes{begun_.load(std::memory_order_acquire),
                   finished_.load(std::memory_order_acquire),
                   kAbsent,
                   0,
                   kAbsent,
                   0,
                   repeats() ? 1U : 0U};
  if (const auto spec = find(key)) bytes.kinds = spec->kinds(), bytes.count = spec->count;
  if (const auto entered = last()) bytes.last_kinds = entered->kinds(), bytes.last_count = entered->count;
  return {reinterpret_cast<const char*>(&bytes), sizeof bytes};
}

std::optional<BoardAnswer> CallBoard::parse(const std::string& text) {
  BoardBytes bytes;
  if (text.size() != sizeof bytes) return std::nullopt;
  std::memcpy(&bytes, text.data(), sizeof bytes);
  return BoardAnswer{bytes.begun, bytes.finished, unpack_spec(bytes.kinds, bytes.count),
                     unpack_spec(bytes.last_kinds, bytes.last_count), bytes.repeats != 0};
}

}  // namespace tutti::comm
