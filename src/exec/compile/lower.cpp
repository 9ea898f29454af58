#include "exec/compile/lower.hpp"

#include <algorithm>
#include <set>

#include "base/format.hpp"
#include "exec/compile/direct_store.hpp"
#include "exec/compile/fuse.hpp"
#include "exec/compile/layout.hpp"
#include "exec/compile/link_table.hpp"
#include "exec/method.hpp"
#include "plan/scratch.hpp"
#include "plan/verify.hpp"

namespace tutti::exec {
namespace {

using plan::RankPlan;
using plan::Step;
using plan::StepKind;

static_assert(plan::VerifyOptions{}.capacity < link::kCredits, "plans are verified for links with less room");
static_assert(plan::VerifyOptions{}.capacity <= link::kFewestSlots, "plans are verified for as few staging slots");

/// Scales drafts to one window size.
class Scaling {
 public:
  Scaling(const RankPlan& plan, const Geometry& geometry, uint64_t window, LinkTable& links, Program& whole)
      : plan_(plan), geometry_(geometry), layout_(plan, geometry, window), links_(links), whole_(whole) {
    if (geometry.nontemporal) output_read_ = output_read(plan);
  }

  WindowProgram scale() {
    const auto lanes = fuse(plan_, [&](const Step& send) { return reads_once(send); });
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      Range ops{static_cast<uint32_t>(program_.ops.size()), 0};
      for (const Draft& draft : lanes[lane]) add(draft, static_cast<uint32_t>(lane), lanes);
      ops.end = static_cast<uint32_t>(program_.ops.size());
      program_.lanes.push_back(ops);
    }
    mark_landing(program_);
    mark_cooperative(program_, links_, geometry_.rules);
    mark_direct_stores(program_, geometry_, links_);
    mark_zero_copy_arrivals(program_, links_, geometry_.rules);
    return std::move(program_);
  }

 private:
  /// What is sent and copied is read once by one instruction, or twice by two, so that the message's readers need not
  /// wait for the copy. In a call of several rounds they do not wait, as they are busy with the round before; and an
  /// instruction costs more than it saves if the message is inline, or on a GPU.
  bool reads_once(const Step& send) const {
    const bool waited_for = geometry_.method->is_on_host() && geometry_.window >= geometry_.count;
    return !waited_for || total(layout_.runs_of(send.pieces)) <= link::kInlineBytes;
  }

  void add(const Draft& draft, uint32_t lane, const std::vector<std::vector<Draft>>& lanes) {
    Instruction op{.shape = draft.step->shape, .completes = draft.step->completes, .step = draft.index};
    op.has_pieces = draft.step->pieces.size() != 0;
    const Runs to = draft.store ? layout_.runs_of(draft.step->pieces) : Runs{};
    op.bytes = total(layout_.runs_of(draft.step->pieces));
    const std::vector<Runs> operands = operands_of(draft, lane, op);
    if (draft.send != nullptr) add_sends(*draft.send, lane, draft.store ? to : operands[0], operands[0], draft, op);
    op.nontemporal = geometry_.nontemporal && draft.store && (!is_zero_copy(op) || op.publishes_first) &&
                     never_read_again(draft.step->pieces);
    add_segments(operands, to, draft.store, op);
    if (draft.step->after != plan::kNone) find_after(draft.step->after, lanes, op);
    whole_.max_sources = std::max(whole_.max_sources, op.sources);
    whole_.max_arrivals = std::max(whole_.max_arrivals, op.arrivals.end - op.arrivals.begin);
    program_.ops.push_back(op);
  }

  bool never_read_again(plan::Range pieces) const {
    return std::all_of(
        plan_.pieces.begin() + pieces.begin, plan_.pieces.begin() + pieces.end,
        [&](const plan::Piece& p) { return p.buffer == plan::Buffer::Output && !output_read_[p.block]; });
  }

  bool is_zero_copy(const Instruction& op) const {
    return std::any_of(program_.outs.begin() + op.outs.begin, program_.outs.begin() + op.outs.end,
                       [](const Out& out) { return exec::is_zero_copy(out.delivery); });
  }

  /// The operands' runs.
  std::vector<Runs> operands_of(const Draft& draft, uint32_t lane, Instruction& op) {
    const Step& step = *draft.step;
    std::vector<Runs> operands;
    op.arrivals.begin = static_cast<uint32_t>(program_.arrivals.size());
    const auto message = [&](Rank peer) {
      const uint32_t link = links_.in(layout_.actual(peer), lane, op.bytes);
      const auto begin = program_.arrivals.begin() + op.arrivals.begin;
      if (std::find(begin, program_.arrivals.end(), link) != program_.arrivals.end()) {
        throw_error(Code::Unsupported, "rank {}, lane {}, step {}: the plan folds two messages of rank {} in one step",
                    plan_.rank, lane, draft.index, peer);
      }
      program_.arrivals.push_back(link);
      op.lines = op.lines || links_.is_flagged(link);
      operands.push_back({{Base::Message, 0, op.bytes}});
    };
    if (step.kind == StepKind::Send) operands.push_back(layout_.runs_of(step.pieces));
    if (step.kind == StepKind::Recv) message(plan_.peers[step.peers.begin]);
    for (uint32_t o = step.operands.begin; o < step.operands.end; ++o) {
      const plan::Operand& operand = plan_.operands[o];
      if (operand.peer == kNoRank) {
        operands.push_back(layout_.runs_of(operand.pieces));
      } else {
        message(operand.peer);
      }
    }
    op.arrivals.end = static_cast<uint32_t>(program_.arrivals.size());
    op.sources = static_cast<uint32_t>(operands.size());
    return operands;
  }

  /// Can the message of `result` be read in its memory until all its readers are done?
  OutMessage message_of(const Instruction& op, const Runs& result, bool lent) const {
    const bool in_memory = result.size() == 1 && result[0].base != Base::Message && result[0].base != Base::None;
    if (!in_memory) return {.bytes = op.bytes};
    const Base base = result[0].base;
    const bool as_it_is = !(geometry_.scaled && base == Base::Input);
    return {.bytes = op.bytes,
            .stays = lent && as_it_is,
            .shared = geometry_.shared[static_cast<uint32_t>(base)],
            .in_memory = as_it_is};
  }

  bool all_zero_copy(const std::vector<uint32_t>& links, const OutMessage& message) const {
    return std::all_of(links.begin(), links.end(), [&](uint32_t link) {
      return exec::is_zero_copy(delivery_of(message, links_.out_traits(link), geometry_.rules));
    });
  }

  /// Decides the delivery of the result to each reader. `first`: the first operand.
  void add_sends(const Step& send, uint32_t lane, const Runs& result, const Runs& first, const Draft& draft,
                 Instruction& op) {
    std::vector<uint32_t> links;
    for (uint32_t p = send.peers.begin; p < send.peers.end; ++p) {
      links.push_back(links_.out(layout_.actual(plan_.peers[p]), lane, op.bytes));
    }
    const bool lent = send.lend == plan::Lend::Always || (send.lend == plan::Lend::OutOfPlace && !geometry_.in_place);
    const bool stored = draft.store || draft.step == draft.send;
    OutMessage message = message_of(op, stored ? result : Runs{}, lent);
    const Runs* at = &result;
    // A copy of the input is sent from the input itself, before the copy is made.
    const bool copies_input = op.sources == 1 && first.size() == 1 && first[0].base == Base::Input && !geometry_.scaled;
    if (message.stays && copies_input) {
      const OutMessage original = message_of(op, first, lent);
      op.publishes_first = all_zero_copy(links, original);
      if (op.publishes_first) message = original, at = &first;
    }
    if (message.in_memory) op.message = {(*at)[0].base, (*at)[0].offset};
    add_outs(whole_, program_, links_, links, message, geometry_.rules, op);
    op.only_sends = !draft.store && op.slot == Slot::None;
  }

  /// Cuts operands and destination into segments that are contiguous in all of them.
  void add_segments(const std::vector<Runs>& operands, const Runs& to, bool store, Instruction& op) {
    for (const Runs& runs : operands) check(total(runs) == op.bytes, op);
    op.segments.begin = static_cast<uint32_t>(program_.segments.size());
    std::vector<RunCursor> cursors;
    for (const Runs& runs : operands) cursors.emplace_back(runs);
    RunCursor destination(to);
    for (uint64_t at = 0; at < op.bytes;) {
      uint64_t bytes = store ? destination.left() : op.bytes - at;
      for (RunCursor& cursor : cursors) bytes = std::min(bytes, cursor.left());
      Segment segment{.bytes = bytes, .at = at, .sources = static_cast<uint32_t>(program_.sources.size())};
      if (store) segment.to = destination.take(bytes);
      uint32_t messages = 0;
      for (size_t k = 0; k < cursors.size(); ++k) {
        program_.sources.push_back(cursors[k].take(bytes));
        if (program_.sources.back().base == Base::Message) program_.sources.back().message = messages++;
        if (!geometry_.scaled || program_.sources.back().base != Base::Input) continue;
        if (segment.raw >= 0)
          throw_error(Code::Unsupported,
                      "step {} of the plan folds two pieces of the input, which a pre-multiplied sum cannot do",
                      op.step);
        segment.raw = static_cast<int32_t>(k);
      }
      program_.segments.push_back(segment);
      at += bytes;
    }
    op.segments.end = static_cast<uint32_t>(program_.segments.size());
  }

  void find_after(uint32_t step, const std::vector<std::vector<Draft>>& lanes, Instruction& op) {
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
      const plan::Range steps = plan_.lanes[lane].steps;
      if (step < steps.begin || step >= steps.end) continue;
      op.after_lane = lane;
      // The instruction that holds the step: the last one that begins at or before it.
      uint32_t found = 0;
      while (found + 1 < lanes[lane].size() && lanes[lane][found + 1].index <= step - steps.begin) ++found;
      op.after_op = found;
    }
  }

  static void check(bool fits, const Instruction& op) {
    if (!fits)
      throw_error(Code::InternalError, "step {}: operands of different lengths; the plan was not verified", op.step);
  }

 private:
  const RankPlan& plan_;
  const Geometry& geometry_;
  const Layout layout_;
  LinkTable& links_;
  Program& whole_;
  std::vector<bool> output_read_;  // by block
  WindowProgram program_;
};

/// How its messages travel, on links that can do it and if they are short enough. Replicas have no links in lines.
link::Form form_of(const Method& method, uint32_t width) {
  if (width > 1) return link::Form::Ring;
  return method == methods::ll ? link::Form::Ll : method == methods::ll128 ? link::Form::Ll128 : link::Form::Ring;
}

/// Does the program touch scratch? Fusing may have removed all uses.
bool uses_scratch(const WindowProgram& program) {
  const auto is_scratch = [](const Ref& ref) { return ref.base == Base::Scratch; };
  return std::any_of(program.sources.begin(), program.sources.end(), is_scratch) ||
         std::any_of(program.segments.begin(), program.segments.end(),
                     [&](const Segment& s) { return is_scratch(s.to); });
}

}  // namespace

std::vector<Rank> peers_of(const RankPlan& plan, const Geometry& geometry) {
  std::set<Rank> peers;
  const auto add = [&](Rank planned) {
    if (planned != kNoRank) peers.insert(geometry.order.actual(planned, geometry.root, plan.shape.ranks));
  };
  for (const Rank peer : plan.peers) add(peer);
  for (const plan::Operand& operand : plan.operands) add(operand.peer);
  return {peers.begin(), peers.end()};
}

Program lower(const RankPlan& plan, const Geometry& wanted, const PeerTraits& traits) {
  Geometry geometry = wanted;
  geometry.window = std::max<uint64_t>(1, std::min(wanted.window, wanted.count));  // scratch has the size of a window
  Program program;
  program.method = geometry.method;
  program.rounds = std::max<uint64_t>(1, (geometry.count + geometry.window - 1) / geometry.window);
  program.width = static_cast<uint32_t>(std::clamp<uint64_t>(wanted.width, 1, program.rounds));
  program.window_bytes = geometry.window * geometry.element_bytes;
  program.scratch_bytes = plan.scratch_blocks * Layout::scratch_window(geometry);
  LinkTable links(program, traits, form_of(*program.method, program.width));
  const uint64_t rest = geometry.count - (program.rounds - 1) * geometry.window;
  program.last = Scaling(plan, geometry, rest, links, program).scale();
  if (program.rounds > 1) program.full = Scaling(plan, geometry, geometry.window, links, program).scale();
  program.fenced = plan::shares_scratch(plan);
  const auto offers = [](const WindowProgram& window) {
    return std::any_of(window.ops.begin(), window.ops.end(),
                       [](const Instruction& op) { return (op.remote & kOffersDestination) != 0; });
  };
  program.offers = offers(program.full) || offers(program.last);
  if (!uses_scratch(program.last) && !uses_scratch(program.full)) program.scratch_bytes = 0;
  return program;
}

}  // namespace tutti::exec
