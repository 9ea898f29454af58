#include "exec/compile/copy_items.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "link/link.hpp"

namespace tutti::exec {
namespace {

/// Why the copy engines cannot run this program; "" if they can.
std::string why_not(const Program& program, Rank ranks) {
  const auto others = static_cast<uint32_t>(ranks - 1);
  const WindowProgram& round = program.last;
  if (round.lanes.size() != 1) return "it has several lanes";
  if (program.scratch_bytes > 0) return "it uses scratch memory";
  if (program.out_links.size() != others || program.in_links.size() != others) {
    return "not every rank sends to every other";
  }
  if (round.outs.size() != others || round.arrivals.size() != others) return "a round has several messages to a rank";
  bool received = false;
  for (const Instruction& op : round.ops) {
    const uint32_t readers = op.outs.end - op.outs.begin;
    received = received || op.arrivals.begin != op.arrivals.end;
    if (op.sources != 1) return "it folds";
    if (readers > 0 && received) return "it sends after it has received";
    if (readers > 1 && readers != others) return "a message goes to some of the ranks";
  }
  return "";
}

/// The number of `rank` among the others of `among`.
uint64_t place(Rank rank, Rank among) { return static_cast<uint64_t>(rank < among ? rank : rank - 1); }

class Items {
 public:
  Items(const Program& program, const CopyLayout& layout, uint64_t round)
      : program_(program),
        layout_(layout),
        window_(round + 1 < program.rounds ? program.full : program.last),
        begin_(program.window_bytes * round),
        slot_(round % link::kCopySlots) {}

  std::vector<CopyItem> make() {
    for (const Instruction& op : window_.ops) {
      for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) add(CopyItem::Kind::AwaitFree, reader(i), op);
    }
    for (const Instruction& op : window_.ops) add(op);
    return std::move(items_);
  }

 private:
  void add(const Instruction& op) {
    using Kind = CopyItem::Kind;
    const bool sends = op.outs.begin != op.outs.end, receives = op.arrivals.begin != op.arrivals.end;
    const Rank writer = receives ? program_.in_links[window_.arrivals[op.arrivals.begin]].peer : kNoRank;
    if (receives) add(Kind::AwaitMessage, writer, op);
    for (uint32_t s = op.segments.begin; s < op.segments.end; ++s) {
      const Segment& segment = window_.segments[s];
      const Ref from = in_round(window_.sources[segment.sources]);
      if (sends) {
        CopyItem& item = add(Kind::Stage, reader(op.outs.begin), op);
        item.from = from, item.bytes = segment.bytes;
        item.staged = staged(layout_.rank, item.peer) + segment.at;
      }
      if (segment.to.base == Base::None) continue;
      CopyItem& item = add(Kind::Store, writer, op);
      item.from = from, item.to = in_round(segment.to), item.bytes = segment.bytes;
      if (from.base == Base::Message) item.staged = staged(writer, layout_.rank) + from.offset;
    }
    if (receives) add(Kind::TellFree, writer, op);
    for (uint32_t i = op.outs.begin; i < op.outs.end; ++i) add(Kind::TellMessage, reader(i), op);
  }

  CopyItem& add(CopyItem::Kind kind, Rank peer, const Instruction& op) {
    return items_.emplace_back(CopyItem{.kind = kind, .peer = peer, .slot = slot_, .step = op.step});
  }
  Rank reader(uint32_t out) const { return program_.out_links[window_.outs[out].link].peer; }
  Ref in_round(Ref ref) const {
    if (ref.base != Base::Message) ref.offset += begin_;
    return ref;
  }
  /// Where, in the staging memory of `writer`, its message to `reader` lies.
  uint64_t staged(Rank writer, Rank reader) const {
    return slot_ * layout_.slot_bytes + (layout_.shared ? 0 : place(reader, writer) * layout_.region);
  }

  const Program& program_;
  const CopyLayout& layout_;
  const WindowProgram& window_;
  const uint64_t begin_, slot_;
  std::vector<CopyItem> items_;
};

}  // namespace

CopyLayout copy_layout(const Program& program, Rank rank, Rank ranks, uint64_t slot_bytes) {
  if (const std::string why = why_not(program, ranks); !why.empty()) {
    throw_error(Code::Unsupported, "the copy engines cannot run a plan of this form: {}", why);
  }
  const auto others = static_cast<uint64_t>(ranks - 1);
  const auto& ops = program.last.ops;
  CopyLayout layout{.rank = rank, .ranks = ranks, .slot_bytes = slot_bytes};
  layout.shared =
      std::any_of(ops.begin(), ops.end(), [&](const Instruction& op) { return op.outs.end - op.outs.begin == others; });
  constexpr uint64_t kAlignment = 512;
  layout.region = layout.shared ? slot_bytes : slot_bytes / others / kAlignment * kAlignment;
  for (const WindowProgram* round : {&program.full, &program.last}) {
    for (const Instruction& op : round->ops) {
      if (op.outs.begin == op.outs.end || op.bytes <= layout.region) continue;
      throw_error(Code::Unsupported, "a message of {} bytes for the copy engines, which have room for {}", op.bytes,
                  layout.region);
    }
  }
  return layout;
}

std::vector<CopyItem> copy_items(const Program& program, const CopyLayout& layout, uint64_t round) {
  return Items(program, layout, round).make();
}

}  // namespace tutti::exec
