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
#include "exec/host/host_executor.hpp"

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
  if (options.title.empty()) options.title = fmt::format("communicator {} of {} ranks", id.name().substr(0, 4), ranks);
  std::shared_ptr<Communicator> made(new Communicator(std::move(endpoint), std::move(options.title), options.timeouts));
  try {
    const bool groups_given = options.groups != nullptr || !env().groups.empty();
    made->wire_up(options);
    made->agree(groups_given);
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
      diagnostics_(*endpoint_, *board_, std::move(title), timeouts_) {}

void Communicator::wire_up(JoinOptions options) {
  compare_configurations(*endpoint_);
  std::vector<std::string> hosts;
  for (Rank peer = 0; peer < ranks(); ++peer) hosts.push_back(endpoint_->process_id(peer).host);
  groups_ = options.groups != nullptr ? std::move(options.groups) : groups_of(hosts, env().groups);
  endpoint_->serve_board(board_service(board_, *endpoint_));
  fabric_ = std::make_unique<Fabric>(*endpoint_, timeouts_.of_init(), std::move(options.arenas));
  links_ = std::make_unique<exec::Links>(*fabric_);
  diagnostics_.use_links(*links_);
  executor_ = std::make_unique<exec::HostExecutor>(
      exec::HostExecutor::Context{.rank = rank(),
                                  .ranks = ranks(),
                                  .links = links_.get(),
                                  .arena = &fabric_->arena(),
                                  .engines = fabric_->engines(),
                                  .failed = &failed_,
                                  .observer = &diagnostics_,
                                  .backoff = &backoff_,
                                  .threads = static_cast<uint32_t>(env().threads)});
  planner_ = std::make_unique<Planner>(rank(), ranks(), *executor_);
  wire_up_device(options.device);
}

Communicator::~Communicator() {
  device_calls_.reset();
  executor_.reset();
  Fabric::retire(std::move(fabric_), endpoint_);
}

void Communicator::retire() {
  current_ = nullptr;
  host_ranks_.reset();
  device_calls_.reset();
  planner_.reset();
  executor_.reset();
  links_.reset();
  Fabric::retire(std::move(fabric_), endpoint_);
}

void Communicator::agree(bool groups_given) {
  Agreement agreed =
      comm::agree(*endpoint_, *fabric_, groups_, groups_given, device_report(), Deadline::in(timeouts_.of_init()));
  backoff_ = agreed.backoff;
  if (agreed.inputs.hand_over.reading != transports::ReadAccess::None) fabric_->all_read();
  planner_->agree(agreed.table, groups_);
  agree_on_device(agreed);
  inputs_ = agreed.inputs;
  host_ranks_ = note_host_ranks(std::move(agreed.host_ranks));
  log_decisions(std::move(agreed));
}

double Communicator::estimate(Work work) const {
  const auto bytes = [](const CallSpec& spec) { return spec.count * size_of(spec.type); };
  const CallSpec& first = work.front().spec;
  if (first.collective != Collective::SendRecv) {
    const auto all = select::candidates(first.collective, bytes(first), inputs_);
    return all.empty() || !all.front().rejected.empty() ? 0 : all.front().seconds;
  }
  uint64_t sent = 0, received = 0;
  for (const Call& call : work) (call.spec.sends ? sent : received) += bytes(call.spec);
  const auto& link = inputs_.groups != nullptr && inputs_.groups->has_two_levels() ? inputs_.between : inputs_.inside;
  return link.alpha + static_cast<double>(std::max(sent, received)) * link.beta;
}

void Communicator::await_others(uint64_t ticket) const {
  exec::Waiter waiter(backoff_);
  while (serving_.load(std::memory_order_acquire) != ticket) {
    const double rest = waiter.turn();
    if (rest > 0) exec::nap(rest);
  }
}

/// Why no call can be made any more; Ok if calls can be made.
Status Communicator::unusable_status() const {
  if (has_failed()) return failure();
  if (!left_) return {};
  return {Code::InvalidUsage,
          fmt::format("rank {}: the communicator was destroyed before this call could run", rank())};
}

exec::Executor* Communicator::begin(Work work, Status& status) {
  current_ = nullptr;
  if (has_failed() || left_) {
    status = unusable_status();
    if (!left_) executor_->abort();  // others may wait for it to read what came before it heard of that
    return nullptr;
  }
  if (work.front().memory == exec::MemoryKind::Device) {
    status = enqueue_on_device(work);
    return nullptr;
  }
  try {
    if (work.front().spec.collective != Collective::SendRecv) {
      begin_collective(work.front());
      return executor_.get();
    }
    status = copy_to_self(work, std::memmove);  // a mistake of this rank alone: the communicator remains usable
    return status.ok() && begin_transfers(work) ? executor_.get() : nullptr;
  } catch (const Error& error) {
    status = diagnostics_.link_failed(error.code(), error.what());
  } catch (const std::exception& error) {
    status = diagnostics_.fail(Code::OutOfMemory, error.what());
  }
  diagnostics_.end();  // it may have waited for staging memory
  executor_->abort();
  return nullptr;
}

void Communicator::begin_collective(const Call& call) {
  board_->enter(++calls_, call.spec);
  diagnostics_.begin(calls_, call.spec);
  if (call.spec.is_vector) {
    board_->enter_blocks(calls_, call.blocks);
    Prepared& prepared = planner_->vector(call);
    copy_own_block(call, rank());
    return launch(prepared, {.tag = next_tag(prepared), .scale = scale_of(call)});
  }
  const KnownCall& known = planner_->collective(call);
  launch(*known.program, {.in = call.in,
                          .out = call.out,
                          .in_region = &known.in_region,
                          .out_region = &known.out_region,
                          .tag = next_tag(*known.program),
                          .scale = scale_of(call)});
}

/// The tag of the current call, which is equal on all ranks.
uint64_t Communicator::next_tag(const Prepared& prepared) {
  digest_ = (digest_ ^ prepared.salt) * kGoldenRatio;
  return (prepared.salt + calls_) & link::kTagMask;  // salts are hashes, so no other salt is close
}

void Communicator::launch(const Prepared& prepared, const exec::Binding& binding) {
  current_ = &prepared;
  current_on_device_ = false;
  diagnostics_.set_algorithm(prepared.algorithm);
  fabric_->begin_call();
  executor_->launch(*prepared.execution, binding);
}

/// Transfers between this rank and itself need no link: the k-th send is copied to the k-th receive.
Status Communicator::copy_to_self(Work work, const Copy& copy) const {
  std::vector<const Call*> sends, receives;
  for (const Call& call : work) {
    if (call.spec.root == rank()) (call.spec.sends ? sends : receives).push_back(&call);
  }
  if (sends.size() != receives.size()) {
    return {Code::InvalidUsage, fmt::format("rank {} sends itself {} and receives {} in one group", rank(),
                                            counted(sends.size(), "message"), receives.size())};
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    const CallSpec &sent = sends[i]->spec, &received = receives[i]->spec;
    if (sent.count == received.count && sent.type == received.type) continue;
    return {Code::InvalidUsage, fmt::format("rank {} called {} and {}", rank(), describe(sent), describe(received))};
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    const size_t bytes = sends[i]->spec.count * size_of(sends[i]->spec.type);
    if (bytes > 0) copy(receives[i]->out, sends[i]->in, bytes);
  }
  return {};
}

/// Numbers the transfers with other ranks: group_.
void Communicator::enter_transfers(Work work) {
  group_.clear();
  for (const Call& call : work) {
    if (call.spec.root == rank()) continue;
    const uint64_t number = ++transfer_counts_[{call.spec.root, call.spec.sends}];
    board_->enter_transfer(transfer_key(call.spec.sends, call.spec.root, number), call.spec);
    group_.push_back({call, number});
  }
}

/// False if every transfer is with this rank itself.
bool Communicator::begin_transfers(Work work) {
  enter_transfers(work);
  diagnostics_.begin(group_);
  if (group_.empty()) return false;
  launch(planner_->transfers(group_), {});
  return true;
}

Status Communicator::failure_status() {
  Status& status = executor_->status();
  const bool is_told = control::said_by(rank(), status.text) == status.text;
  if (has_failed() && is_told) return std::move(status);
  return diagnostics_.link_failed(status.code, status.text);  // an engine detected it: a consequence, if it has failed
}

Status Communicator::failure() const {
  if (!has_failed()) return {};
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
