// What interpreters make of programs (exec/interpreter.hpp, on links as in link/wire.hpp and link/ll.hpp): a thread
// for each lane of each replica of each rank; one for each rank's user, for whom the call ends; and where peers help,
// one for each link whose writer copies a part of its messages.
#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "plan/verify/reject.hpp"
#include "proof/lane_numbers.hpp"

namespace tutti::proof {
namespace {

using exec::Base;
using exec::Delivery;
using exec::Instruction;
using exec::Program;
using exec::Slot;

class LanesJob : LaneNumbers {
 public:
  LanesJob(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<Program> programs)
      : LaneNumbers(plans, how, std::move(programs)) {}

  Job make() {
    if (how_.help != Help::None) each_turn([this](const Turn& turn) { note_offers(turn); });
    for (auto& [id, channel] : channels_) channel.next = channel.received = 0;
    each_turn([this](const Turn& turn) { note_messages(turn); });
    for (auto& [id, channel] : channels_) reset(channel);
    for (Stage& stage : stages_) reset(stage);
    each_turn([this](const Turn& turn) { write(turn); });
    for (uint32_t rank = 0; rank < programs_.size(); ++rank) add_user(rank);
    add_helpers();
    return std::move(job_);
  }

 private:
  // ---- what goes over links, before threads are written

  void note_offers(const Turn& turn) {
    std::vector<std::pair<Channel*, uint64_t>> entered;  // what came before this round
    each_op(turn, [&](const Instruction& op) {
      for (uint32_t a = op.arrivals.begin; a < op.arrivals.end; ++a) {
        Channel& channel = in(turn, a);
        const auto known =
            std::find_if(entered.begin(), entered.end(), [&](auto& one) { return one.first == &channel; });
        const uint64_t first = known == entered.end() ? channel.received : known->second;
        if (known == entered.end()) entered.emplace_back(&channel, first);
        ++channel.received;
        if ((op.remote & exec::kOffersDestination) == 0) continue;
        const Place to = place(turn, turn.window->segments[op.segments.begin].to);
        const uint64_t message = first + op.direct.ahead;
        if (helps(turn.rank, message)) channel.offers[message] = {to, op.bytes, op.direct.after};
      }
      for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
        Channel& channel = out(turn, o);
        if ((op.remote & exec::kStoresDirect) != 0) channel.storers[channel.next] = op.direct.received;
        ++channel.next;
      }
    });
  }

  /// May the writer of this message to the rank help?
  bool helps(uint32_t reader, uint64_t message) const {
    return how_.help == Help::All || (how_.help == Help::Some && (reader + message) % 2 == 0);
  }

  void note_messages(const Turn& turn) {
    each_op(turn, [&](const Instruction& op) {
      const std::optional<Place> slot = slot_of(turn, op);
      for (uint32_t o = op.outs.begin; o < op.outs.end; ++o)
        out(turn, o).messages.push_back(message(turn, op, o, slot));
      sent(turn, op);
    });
  }

  Message message(const Turn& turn, const Instruction& op, uint32_t o, const std::optional<Place>& slot) {
    Channel& channel = out(turn, o);
    Message made{.bytes = op.bytes};
    switch (turn.window->outs[o].delivery) {
      case Delivery::Inline:
        made.place = channels_.next_inline(channel), made.is_inline = true;
        break;
      case Delivery::Staged:
        made.place = *slot;
        break;
      case Delivery::Pushed:
      case Delivery::Ll:
      case Delivery::Ll128:
        made.place = channels_.next_slot(channel);
        break;
      default:
        made.place = place(turn, op.message), made.zero_copy = true;
        made.stored = channel.taken(channel.next) != nullptr;
    }
    return made;
  }

  /// Counts what an instruction has sent.
  void sent(const Turn& turn, const Instruction& op) {
    for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
      Channel& channel = out(turn, o);
      if (turn.window->outs[o].delivery == Delivery::Pushed) channel.pushed.push_back(channel.next);
      ++channel.next;
      if (channel.messages[channel.next - 1].zero_copy) channel.zero_copies = channel.next;
      if (op.slot == Slot::Stage && turn.window->outs[o].delivery == Delivery::Staged) {
        Stage& stage = stage_of(turn, op.stage);
        stage.held[stage.next % link::kFewestSlots][o - op.outs.begin] = channel.next;
      }
    }
    if (op.slot == Slot::Stage) ++stage_of(turn, op.stage).next;
  }

  static void reset(Channel& channel) {
    channel.next = channel.received = channel.published = channel.zero_copies = 0;
    channel.pushed.clear();
  }

  static void reset(Stage& stage) {
    stage.next = 0;
    for (auto& readers : stage.held) readers.assign(readers.size(), 0);
  }

  // ---- threads

  void write(const Turn& turn) {
    const uint32_t thread = thread_of(turn);
    std::vector<Action>& actions = job_.threads[thread].actions;
    const exec::Range ops = turn.window->lanes[turn.lane];
    Action enter{.what = "enter"};
    if (turn.is_first()) enter.waits.push_back({ended_[turn.rank], turn.call});
    if (programs_[turn.rank].fenced && turn.round >= how_.versions) add_fence(turn, enter);
    if (how_.help != Help::None) add_offers(turn, enter);
    actions.push_back(std::move(enter));
    for (uint32_t i = ops.begin; i < ops.end; ++i) {
      const Instruction& op = turn.window->ops[i];
      Action done{.what = "advance", .step = op.step};
      if (op.has_pieces || turn.is_first()) {
        write(turn, op, actions);
      } else {
        await_lane(turn, op, done);
      }
      done.sets.push_back({progress_[thread], progress(turn, turn.round, i - ops.begin + 1)});
      actions.push_back(std::move(done));
    }
    const bool is_whole = turn.round + 1 == turn.rounds || ops.begin == ops.end;
    const uint64_t next = is_whole ? turn.rounds : turn.round + 1;
    actions.push_back({.what = "leave", .sets = {{progress_[thread], progress(turn, next)}}});
  }

  /// Round k + versions reuses the scratch of round k.
  void add_fence(const Turn& turn, Action& enter) const {
    for (uint32_t lane = 0; lane < turn.window->lanes.size(); ++lane) {
      enter.waits.push_back(
          {progress_[thread_of(turn.rank, turn.replica, lane)], progress(turn, turn.round - how_.versions + 1)});
    }
  }

  void add_offers(const Turn& turn, Action& enter) {
    each_op(turn, [&](const Instruction& op) {
      if ((op.remote & exec::kOffersDestination) == 0) return;
      Channel& channel = in(turn, op.arrivals.begin);
      enter.sets.push_back({channel.offered, channel.received + op.direct.ahead + 1});
    });
  }

  void write(const Turn& turn, const Instruction& op, std::vector<Action>& actions) {
    const auto add = [&](const char* what) -> Action& {
      actions.push_back({.what = what, .step = op.step});
      return actions.back();
    };
    await(turn, op, add("await"));
    const std::optional<Place> slot = slot_of(turn, op);
    if (op.publishes_first) publish(turn, op, add("publish"));
    move(turn, op, slot, add("move"));
    if (help(turn, op, actions)) actions.back().step = op.step;
    if (op.push_copies) copy_to_readers(turn, op, slot, add("push"));
    if (in_ring(turn, op)) copy_inline(turn, op, *slot, add("inline"));
    Action& last = add("publish, consume");
    if (!op.publishes_first) publish(turn, op, last);
    sent(turn, op);
    consume(turn, op, last);
  }

  void await_lane(const Turn& turn, const Instruction& op, Action& action) const {
    if (op.after_lane == exec::kNone) return;
    const uint32_t other = thread_of(turn.rank, turn.replica, op.after_lane);
    action.waits.push_back({progress_[other], progress(turn, turn.round, op.after_op + 1)});
  }

  /// Waits for the instruction that must be done, the messages, and room for what is published.
  void await(const Turn& turn, const Instruction& op, Action& action) {
    await_lane(turn, op, action);
    for (uint32_t a = op.arrivals.begin; a < op.arrivals.end; ++a) {
      const Channel& channel = in(turn, a);
      action.waits.push_back({channel.sent, channel.received + 1});
      if (channel.received >= channel.messages.size()) {
        plan::verifier::reject("rank {}, lane {}, step {}: receives a message that nobody sends", turn.rank, turn.lane,
                               op.step);
      }
      const uint64_t bytes = channel.messages[channel.received].bytes;
      if (bytes != op.bytes) {
        plan::verifier::reject("rank {}, lane {}, step {}: receives {} bytes where {} are sent", turn.rank, turn.lane,
                               op.step, op.bytes, bytes);
      }
    }
    for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
      const Channel& channel = out(turn, o);
      if (channel.next >= channel.capacity)
        action.waits.push_back({channel.consumed, channel.next + 1 - channel.capacity});
      const size_t pushed = channel.pushed.size();
      if (turn.window->outs[o].delivery == Delivery::Pushed && pushed >= link::kPushSlots) {
        action.waits.push_back({channel.consumed, channel.pushed[pushed - link::kPushSlots] + 1});
      }
      if (op.slot == Slot::Stage) {
        const Stage& stage = stage_of(turn, op.stage);
        action.waits.push_back({channel.consumed, stage.held[stage.next % link::kFewestSlots][o - op.outs.begin]});
      }
      if ((op.remote & exec::kStoresDirect) != 0 && channel.taken(channel.next) != nullptr) {
        action.waits.push_back({channel.offered, channel.next + 1});
      }
    }
  }

  void move(const Turn& turn, const Instruction& op, const std::optional<Place>& slot, Action& action) {
    const bool stored = op.arrivals.begin != op.arrivals.end && op.sources == 1 && arrival(turn, op, 0).stored;
    if (stored) return;  // its writer has stored it
    for (uint32_t s = op.segments.begin; s < op.segments.end; ++s) {
      const exec::Segment& segment = turn.window->segments[s];
      Move made{.elements = elements(segment.bytes), .shape = op.shape, .completes = op.completes};
      uint32_t message = 0;
      for (uint32_t k = 0; k < op.sources; ++k) {
        const exec::Ref& ref = turn.window->sources[segment.sources + k];
        const bool comes = ref.base == Base::Message;
        made.from.push_back(comes ? moved(arrival(turn, op, message++).place, elements(ref.offset)) : place(turn, ref));
      }
      if (segment.to.base != Base::None) made.to.push_back(place(turn, segment.to));
      if (slot) made.to.push_back(moved(*slot, elements(segment.at)));
      if ((op.remote & exec::kStoresDirect) != 0) add_direct(turn, op, elements(segment.at), made);
      if (made.from.size() == 1) drop_same(made);
      if (!made.to.empty()) action.moves.push_back(std::move(made));
    }
  }

  const Message& arrival(const Turn& turn, const Instruction& op, uint32_t message) {
    const Channel& channel = in(turn, op.arrivals.begin + message);
    return channel.messages[channel.received];
  }

  void add_direct(const Turn& turn, const Instruction& op, uint64_t at, Move& made) {
    for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
      const Channel& channel = out(turn, o);
      if (const DestinationOffer* offer = channel.taken(channel.next)) made.to.push_back(moved(offer->to, at));
    }
  }

  /// A copy to where it already is, which in place occurs, writes nothing.
  static void drop_same(Move& made) {
    std::erase_if(made.to,
                  [&](const Place& to) { return to.memory == made.from[0].memory && to.at == made.from[0].at; });
  }

  /// To readers in whose memory a copy belongs: of the slot, or of the message in this rank's memory.
  void copy_to_readers(const Turn& turn, const Instruction& op, const std::optional<Place>& slot, Action& action) {
    if (op.bytes == 0) return;
    Move made{.elements = elements(op.bytes), .from = {slot ? *slot : place(turn, op.message)}};
    for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
      const Delivery delivery = turn.window->outs[o].delivery;
      if (delivery == Delivery::Pushed || exec::is_flagged(delivery))
        made.to.push_back(channels_.next_slot(out(turn, o)));
    }
    action.moves.push_back(std::move(made));
  }

  bool in_ring(const Turn& turn, const Instruction& op) const {
    return std::any_of(turn.window->outs.begin() + op.outs.begin, turn.window->outs.begin() + op.outs.end,
                       [](const exec::Out& out) { return out.delivery == Delivery::Inline; });
  }
  void copy_inline(const Turn& turn, const Instruction& op, const Place& small, Action& action) {
    Move made{.elements = elements(op.bytes), .from = {small}};
    for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
      if (turn.window->outs[o].delivery == Delivery::Inline) made.to.push_back(channels_.next_inline(out(turn, o)));
    }
    action.moves.push_back(std::move(made));
  }

  void publish(const Turn& turn, const Instruction& op, Action& action) {
    for (uint32_t o = op.outs.begin; o < op.outs.end; ++o) {
      const Channel& channel = out(turn, o);
      action.sets.push_back({channel.sent, channel.next + 1});
    }
  }

  /// As SlotWire and LlWire do: short messages are not acknowledged one by one.
  void consume(const Turn& turn, const Instruction& op, Action& action) {
    for (uint32_t a = op.arrivals.begin; a < op.arrivals.end; ++a) {
      Channel& channel = in(turn, a);
      const bool gathers = channel.lines || channel.messages[channel.received].is_inline;
      ++channel.received;
      if (gathers && channel.received - channel.published < channel.capacity / 2) continue;
      channel.published = channel.received;
      action.sets.push_back({channel.consumed, channel.received});
    }
  }

  // ---- users and helpers

  void add_user(uint32_t rank) {
    const Program& program = programs_[rank];
    Thread user{.rank = static_cast<Rank>(rank), .name = fmt::format("rank {}'s user", rank)};
    for (uint64_t call = 0; call < how_.calls; ++call) {
      Action end{.what = "return", .sets = {{ended_[rank], call + 1}}, .ends = true};
      for (uint32_t replica = 0; replica < program.width; ++replica) {
        const uint64_t rounds = program.rounds_of(replica);
        for (uint32_t lane = 0; lane < program.last.lanes.size(); ++lane) {
          const Turn turn{.rank = rank, .call = call, .rounds = rounds};
          end.waits.push_back({progress_[thread_of(rank, replica, lane)], progress(turn, rounds)});
        }
      }
      for (const auto& [id, channel] : channels_) {
        if (id.from != static_cast<Rank>(rank) || channel.zero_copies == 0) continue;
        end.waits.push_back({channel.consumed, zero_copies_until(channel, call)});
      }
      user.actions.push_back(std::move(end));
    }
    job_.threads.push_back(std::move(user));
  }

  /// The last zero-copy message, from 1, of this call and those before; all calls send the same.
  uint64_t zero_copies_until(const Channel& channel, uint64_t call) const {
    uint64_t last = channel.messages.size() / how_.calls * (call + 1);
    while (last > 0 && !channel.messages[last - 1].zero_copy) --last;
    return last;
  }

  /// Cooperative copies: the writer's thread copies the second half. True if it did.
  bool help(const Turn& turn, const Instruction& op, std::vector<Action>& actions) {
    if (how_.help == Help::None || (op.remote & exec::kCooperativeCopy) == 0) return false;
    Channel& channel = in(turn, op.arrivals.begin);
    if (!channel.messages[channel.received].zero_copy || actions.back().moves.size() != 1) return false;
    if (!helps(turn.rank, channel.received)) return false;
    Move& whole = actions.back().moves.front();
    const uint64_t half = whole.elements / 2, number = channel.received + 1;
    Move rest{
        .elements = whole.elements - half, .from = {moved(whole.from[0], half)}, .to = {moved(whole.to[0], half)}};
    whole.elements = half;
    helpers_[&channel].push_back({.what = "help",
                                  .step = op.step,
                                  .waits = {{channel.offered, number}},
                                  .moves = {rest},
                                  .sets = {{channel.copied, number}}});
    actions[actions.size() - 2].sets.push_back({channel.offered, number});
    actions.push_back({.what = "await help", .waits = {{channel.copied, number}}});
    return true;
  }

  void add_helpers() {
    for (auto& [id, channel] : channels_) {
      const auto found = helpers_.find(&channel);
      if (found == helpers_.end()) continue;
      job_.threads.push_back({.rank = id.from,
                              .name = fmt::format("rank {} as a helper of rank {}", id.from, id.to),
                              .actions = std::move(found->second)});
    }
  }

  std::map<const Channel*, std::vector<Action>> helpers_;
};

}  // namespace

Job lanes_job(std::span<const plan::RankPlan> plans, const CallCase& how, std::vector<Program> programs) {
  return LanesJob(plans, how, std::move(programs)).make();
}

}  // namespace tutti::proof
