#include "comm/communicator.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "comm/configuration.hpp"
#include "comm/vector_calls.hpp"
#include "control/describe.hpp"
#include "control/host.hpp"
#include "exec/host/host_backend.hpp"

namespace tutti::comm {
namespace {

/// What has ended the making of a communicator. That a rank was lost may be known a moment later where it is watched:
/// as a rank of the communicator of which this one is made.
Error cause_of(const Error& error, const control::JoinTerms& terms) {
  constexpr double kKnownWithin = 0.1;  // seconds
  if (!terms.why) return error;
  const Deadline deadline = Deadline::in(error.code() == Code::PeerFailed ? kKnownWithin : 0);
  while (terms.stop->load(std::memory_order_acquire) == 0 && !deadline.passed()) exec::nap(1e-3);
  return terms.stop->load(std::memory_order_acquire) != 0 ? terms.why() : error;
}

const void* scale_of(const Call& call) { return call.spec.op == Op::PreMulSum ? call.scale : nullptr; }

/// What the call itself gives: buffers and scale. The caller adds the tag, or the stream.
exec::Binding binding_of(const Call& call, const KnownCall& known) {
  return {.in = call.in,
          .out = call.out,
          .in_region = &known.in_region,
          .out_region = &known.out_region,
          .scale = scale_of(call),
          .scale_by_address = call.scale_by_address};
}

}  // namespace

std::shared_ptr<Communicator> Communicator::join(const control::UniqueId& id, Rank ranks, Rank rank,
                                                 JoinOptions options) {
  const double seconds = options.timeouts.of_init();
  std::string mine;
  try {
    mine = configuration();
  } catch (const Error& error) {  // before any other rank knows of this one
    const Rank name = control::name_of(rank, options.terms.names);
    control::Endpoint::withdraw(id, options.terms,
                                {ranks, rank, error.code(), control::describe_withdrawal(name, error)});
    throw;
  }
  auto endpoint = [&] {
    try {
      return control::Endpoint::join(id, ranks, rank, std::move(mine), Deadline::in(seconds), options.terms);
    } catch (const Error& found) {
      throw cause_of(found, options.terms);
    }
  }();
  if (!endpoint->title().empty()) options.title = endpoint->title();
  if (options.title.empty()) options.title = control::title_of_unnamed(id.name(), ranks);
  std::shared_ptr<Communicator> made(new Communicator(std::move(endpoint), std::move(options.title), options.timeouts));
  try {
    made->wire_up(std::move(options));
  } catch (const Error& found) {
    const Error error = cause_of(found, options.terms);
    const bool of_the_system = control::is_of_the_system(error.code());
    const std::string text =
        of_the_system ? fmt::format("{}: {}", made->endpoint_->describe(rank), error.what()) : error.what();
    made->endpoint_->fail(error.code(), text);
    made->endpoint_->leave(0, Deadline::in(seconds));  // the others are to hear of it before this process ends
    const bool by_parent = options.terms.why && options.terms.stop->load(std::memory_order_acquire) != 0;
    if (options.terms.names.empty() || by_parent) throw Error(error.code(), text);
    throw_error(error.code(), "{} (its ranks are those of {})", text, made->title());
  }
  return made;
}

Communicator::Communicator(std::unique_ptr<control::Endpoint> endpoint, std::string title, const Timeouts& timeouts)
    : endpoint_(std::move(endpoint)),
      timeouts_(timeouts),
      diagnostics_(*endpoint_, *board_, std::move(title), timeouts_) {
  diagnostics_.use_trace(*trace_);
}

std::unique_ptr<exec::Backend> Communicator::make_host_backend() {
  return std::make_unique<exec::HostBackend>(
      exec::HostBackend::Context{.rank = rank(),
                                 .ranks = ranks(),
                                 .links = links_.get(),
                                 .arena = &fabric_->arena(),
                                 .engines = fabric_->engines(),
                                 .failed = &failed_,
                                 .observer = &diagnostics_,
                                 .backoff = &backoff_,
                                 .threads = static_cast<uint32_t>(env().threads)});
}

const BackendCalls* Communicator::on(std::string_view backend) const {
  for (const auto& on : on_) {
    if (backend == on->name()) return on.get();
  }
  return nullptr;
}

bool Communicator::uses_others() const {
  return std::any_of(on_.begin(), on_.end(), [](const auto& on) { return on->processor() != exec::kNoProcessor; });
}

double Communicator::estimate(Work work) const {
  if (!is_live()) return 0;
  const auto bytes = [](const CallSpec& spec) { return spec.count * size_of(spec.type); };
  const CallSpec& first = work.front().spec;
  const select::CostInputs& inputs = on_[work.front().backend]->inputs();
  if (first.collective != Collective::SendRecv) {
    const auto all = select::candidates(first.collective, bytes(first), inputs, {first.type, first.op});
    return all.empty() || !all.front().rejected.empty() ? 0 : all.front().seconds;
  }
  uint64_t sent = 0, received = 0;
  for (const Call& call : work) (call.spec.sends ? sent : received) += bytes(call.spec);
  const auto& link = inputs.groups != nullptr && inputs.groups->has_two_levels() ? inputs.between : inputs.inside;
  return link.alpha + static_cast<double>(std::max(sent, received)) * link.beta;
}

void Communicator::await_others(uint64_t ticket) const {
  exec::Waiter waiter(backoff_);
  while (serving_.load(std::memory_order_acquire) != ticket) {
    const double rest = waiter.turn();
    if (rest > 0) exec::nap(rest);
  }
}

/// Why this call cannot be made; Ok if calls can be made.
Status Communicator::unusable_status(const std::string& call) const {
  if (has_failed()) return failure();
  if (is_live()) return {};
  if (is_suspended()) {
    return {Code::InvalidUsage,
            fmt::format("rank {}: {}: the communicator is suspended; tuttiCommResume comes first", rank(), call)};
  }
  return {Code::InvalidUsage,
          fmt::format("rank {}: the communicator was destroyed before this call could run", rank())};
}

/// What calls have left on backends that the calling threads drive.
void Communicator::abort_driven() {
  for (const auto& on : on_) {
    if (on->refused().empty() && on->is_driven()) on->backend().abort();
  }
}

/// On the backends for which the calling threads do not run calls.
void Communicator::start_held() {
  for (const auto& on : on_) {
    if (on->refused().empty() && !on->is_driven()) on->backend().start_held();
  }
}

exec::Pending* Communicator::begin(Work work, Status& status, bool more_follow) {
  current_ = nullptr;
  if (has_failed() || !is_live()) [[unlikely]] {
    status = unusable_status(describe(work.front().spec));
    if (!has_left()) abort_driven();  // others may wait for it to read what came before it heard of that
    return nullptr;
  }
  const CallSpec& first = work.front().spec;
  const bool driven = on_[work.front().backend]->is_driven();
  try {
    if (first.collective != Collective::SendRecv) return begin_collective(work.front(), more_follow);
    return begin_transfers(work, status);
  } catch (const Error& error) {
    status =
        driven ? diagnostics_.link_failed(error.code(), error.what())
               : diagnostics_.fail(error.code(), fmt::format("rank {}: {}: {}", rank(), describe(first), error.what()));
  } catch (const std::exception& error) {
    status = diagnostics_.fail(Code::OutOfMemory, error.what());
  }
  if (!driven) return nullptr;
  diagnostics_.end();  // it may have waited for staging memory
  trace_->fail(*board_, status.code);
  abort_driven();
  return nullptr;
}

/// Inlined into begin(), which the small path takes.
[[gnu::always_inline]] inline exec::Pending* Communicator::begin_collective(const Call& call, bool more_follow) {
  BackendCalls& on = *on_[call.backend];
  board_->enter(++calls_, call.spec);
  if (!on.is_driven()) return enqueue_collective(on, call, more_follow);
  trace_->enter(calls_, call.spec);
  diagnostics_.begin(calls_, call.spec);
  if (call.spec.is_vector) return begin_vector(on, call);
  const KnownCall& known = on.planner().collective(call);
  exec::Binding binding = binding_of(call, known);
  binding.tag = next_tag(*known.program);
  return enqueue(on, *known.program, binding);
}

/// The rest of begin_collective() on an asynchronous backend.
exec::Pending* Communicator::enqueue_collective(BackendCalls& on, const Call& call, bool more_follow) {
  trace_->enqueue(calls_, call.spec);
  if (call.spec.is_vector) return begin_vector(on, call);
  const KnownCall& known = on.plan(call);
  exec::Binding binding = binding_of(call, known);
  binding.more_follow = more_follow;
  return enqueue_asynchronously(on, *known.program, binding, call);
}

exec::Pending* Communicator::begin_vector(BackendCalls& on, const Call& call) {
  board_->enter_blocks(calls_, call.blocks);
  const Prepared& prepared = on.planner().vector(call);
  const OwnBlock own = own_block(call, rank());
  if (own.bytes > 0) on.backend().copy(own.to, own.from, own.bytes, call.stream);
  exec::Binding binding{.scale = scale_of(call), .scale_by_address = call.scale_by_address};
  if (!on.is_driven()) return enqueue_asynchronously(on, prepared, binding, call);
  binding.tag = next_tag(prepared);
  return enqueue(on, prepared, binding);
}

/// Here the call has ended when it is enqueued. The backend numbers it, and compares tags.
exec::Pending* Communicator::enqueue_asynchronously(BackendCalls& on, const Prepared& prepared, exec::Binding& binding,
                                                    const Call& call) {
  ++enqueued_;
  binding.stream = call.stream;
  binding.tag = prepared.salt & link::kTagMask;
  if (prepared.row.method->counted_apart) board_->uncount();
  on.enqueued().add(calls_, prepared.key.spec, prepared);
  exec::Pending* const none = enqueue(on, prepared, binding);
  count(prepared);
  if (on.backend().repeats()) board_->repeat();
  board_->leave(calls_);
  return none;
}

/// The tag of the current call, which is equal on all ranks.
uint64_t Communicator::next_tag(const Prepared& prepared) {
  digest_ = (digest_ ^ prepared.salt) * kGoldenRatio;
  return (prepared.salt + calls_) & link::kTagMask;  // salts are hashes, so no other salt is close
}

exec::Pending* Communicator::enqueue(BackendCalls& on, const Prepared& prepared, const exec::Binding& binding) {
  current_ = &prepared;
  current_on_ = &on;
  diagnostics_.set_algorithm(prepared.algorithm);
  fabric_->begin_call();
  return on.backend().enqueue(*prepared.execution, binding);
}

/// Transfers between this rank and itself need no link: the k-th send is copied to the k-th receive.
Status Communicator::copy_to_self(Work work, exec::Backend& backend) const {
  std::vector<const Call*> sends, receives;
  for (const Call& call : work) {
    if (call.spec.root == rank()) (call.spec.sends ? sends : receives).push_back(&call);
  }
  if (sends.size() != receives.size()) {
    return {
        Code::InvalidUsage,
        fmt::format("rank {} sends itself {} and receives {}{}: put each send to itself and its recv into one group",
                    rank(), counted(sends.size(), "message"), receives.size(), work.size() > 1 ? " in one group" : "")};
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    const CallSpec &sent = sends[i]->spec, &received = receives[i]->spec;
    if (sent.count == received.count && sent.type == received.type) continue;
    return {Code::InvalidUsage, fmt::format("rank {} called {} and {}", rank(), describe(sent), describe(received))};
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    const size_t bytes = sends[i]->spec.count * size_of(sends[i]->spec.type);
    if (bytes > 0) backend.copy(receives[i]->out, sends[i]->in, bytes, work.front().stream);
  }
  return {};
}

/// Numbers the transfers with other ranks: group_.
void Communicator::enter_transfers(Work work) {
  group_.clear();
  for (const Call& call : work) {
    if (call.spec.root == rank()) continue;
    const uint64_t number = ++transfer_counts_[{call.spec.root, call.spec.sends}];
    const uint64_t key = board_->enter_transfer(number, call.spec);
    on_[call.backend]->is_driven() ? trace_->enter(key, call.spec) : trace_->enqueue(key, call.spec);
    group_.push_back({call, number});
  }
}

void Communicator::count_transfers() {
  for (const NumberedCall& transfer : group_) log_->totals.add_transfer(transfer.call.spec);
}

/// The transfers of a group run on the first one's stream; the others' streams wait for them. What `status` says is a
/// mistake of this rank alone: the communicator remains usable.
exec::Pending* Communicator::begin_transfers(Work work, Status& status) {
  BackendCalls& on = *on_[work.front().backend];
  exec::Backend& backend = on.backend();
  void* const stream = work.front().stream;
  for (const Call& call : work) {
    if (call.backend != work.front().backend) {
      status = {Code::InvalidUsage, fmt::format("rank {}: the transfers of one group lie in memory of {} and in memory "
                                                "of {}: make two groups of them",
                                                rank(), on.name(), on_[call.backend]->name())};
      return nullptr;
    }
    if (call.stream != stream) backend.order(call.stream, stream);
  }
  status = copy_to_self(work, backend);
  if (!status.ok()) return nullptr;
  if (transfers_on_ != nullptr && transfers_on_ != &on) board_->uncount_sends();
  transfers_on_ = &on;
  enter_transfers(work);
  exec::Pending* pending = nullptr;
  if (on.is_driven()) diagnostics_.begin(group_);
  if (!group_.empty()) {
    const Prepared& prepared = on.planner().transfers(group_);
    if (!on.is_driven()) on.enqueued().add(group_, prepared.algorithm);
    pending = enqueue(on, prepared, {.stream = stream, .numbered = false});
    if (!on.is_driven()) count(prepared);
    if (!on.is_driven() && backend.repeats()) board_->uncount_sends();
  }
  for (const Call& call : work) {
    if (call.stream != stream) backend.order(stream, call.stream);
  }
  return pending;
}

Status Communicator::failure_status(Status& found) {
  leave_trace();
  const bool is_told = control::said_by(rank(), found.text) == found.text;
  if (has_failed() && is_told) return std::move(found);
  return diagnostics_.link_failed(found.code, found.text);  // an engine detected it: a consequence, if it has failed
}

Status Communicator::failure() const {
  if (!has_failed()) return {};
  leave_trace();
  if (Status cut_off = cut_off_->status(); !cut_off.ok()) return cut_off;
  const auto first = endpoint_->failure();
  return first ? Status{first->first, control::said_by(rank(), first->second)} : Status{};
}

Error Communicator::failure_for_others() const {
  const auto first = endpoint_->failure();
  return first ? Error(first->first, first->second) : Error(Code::Aborted, "stopped");
}

Status Communicator::fail_internally(const std::string& what) { return diagnostics_.fail(Code::InternalError, what); }

}  // namespace tutti::comm
