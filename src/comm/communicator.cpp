#include "comm/communicator.hpp"

#include <algorithm>
#include <cstring>
#include <map>

#include "base/counted.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "comm/vector_calls.hpp"
#include "control/describe.hpp"
#include "control/host.hpp"

namespace tutti::comm {
namespace {

constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // a multiplicative hash constant: mixes into the high bits

}  // namespace

std::shared_ptr<Communicator> Communicator::join(const control::UniqueId& id, Rank ranks, Rank rank,
                                                 JoinOptions options) {
  const double seconds = options.timeouts.of_init();
  std::string mine;
  try {
    mine = configuration();
  } catch (const Error& error) {  // before any other rank knows of this one
    control::withdraw(id, {ranks, rank, error.code(), control::describe_withdrawal(rank, error)});
    throw;
  }
  auto endpoint = control::Endpoint::join(id, ranks, rank, std::move(mine), Deadline::in(seconds), options.stop);
  if (options.title.empty()) options.title = fmt::format("communicator {} of {} ranks", id.name().substr(0, 4), ranks);
  std::shared_ptr<Communicator> made(new Communicator(std::move(endpoint), std::move(options.title), options.timeouts));
  try {
    const bool groups_given = options.groups != nullptr || !env().groups.empty();
    made->wire_up(std::move(options.groups));
    made->agree(groups_given);
  } catch (const Error& error) {
    const bool of_the_system = control::is_of_the_system(error.code());
    const std::string text =
        of_the_system ? fmt::format("{}: {}", made->endpoint_->describe(rank), error.what()) : error.what();
    made->endpoint_->fail(error.code(), text);
    made->endpoint_->leave(0, Deadline::in(seconds));  // the others are to hear of it before this process ends
    throw Error(error.code(), text);
  }
  return made;
}

Communicator::Communicator(std::unique_ptr<control::Endpoint> endpoint, std::string title, const Timeouts& timeouts)
    : endpoint_(std::move(endpoint)),
      timeouts_(timeouts),
      diagnostics_(*endpoint_, *board_, std::move(title), timeouts_) {}

void Communicator::wire_up(Groups groups) {
  compare_configurations(*endpoint_);
  std::vector<std::string> hosts;
  for (Rank peer = 0; peer < ranks(); ++peer) hosts.push_back(endpoint_->process_id(peer).host);
  groups_ = groups != nullptr ? std::move(groups) : groups_of(hosts, env().groups);
  endpoint_->serve_board(board_service(board_, *endpoint_));
  fabric_ = std::make_unique<Fabric>(*endpoint_, *groups_, timeouts_.of_init());
  links_ = std::make_unique<exec::Links>(*fabric_);
  staging_ = std::make_unique<exec::Staging>(fabric_->arena());
  execution_.links = links_.get();
  diagnostics_.use_links(*links_);
  execution_.engines = fabric_->engines();
  execution_.failed = &failed_;
  execution_.observer = &diagnostics_;
  planner_ = std::make_unique<Planner>(rank(), ranks(), *links_, *staging_, execution_, backoff_);
}

Communicator::~Communicator() { Fabric::retire(std::move(fabric_), endpoint_); }

void Communicator::retire() {
  current_ = nullptr;
  planner_.reset();
  links_.reset();
  staging_.reset();
  Fabric::retire(std::move(fabric_), endpoint_);
}

void Communicator::agree(bool groups_given) {
  Agreement agreed = comm::agree(*endpoint_, *fabric_, groups_, groups_given, Deadline::in(timeouts_.of_init()));
  backoff_ = agreed.backoff;
  if (agreed.capabilities.reading != transports::ReadAccess::None) fabric_->all_read();
  planner_->agree(agreed.table, agreed.capabilities, groups_);
  log_decisions(std::move(agreed));
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

exec::Execution* Communicator::begin(Work work, Status& status) {
  current_ = nullptr;
  if (has_failed() || left_) {
    status = unusable_status();
    if (!left_) exec::abandon(execution_);  // others may wait for it to read what came before it heard of that
    return nullptr;
  }
  try {
    if (work.front().spec.collective != Collective::SendRecv) {
      begin_collective(work.front());
      return &execution_;
    }
    status = copy_to_self(work);  // a mistake of this rank alone: the communicator remains usable
    return status.ok() && begin_transfers(work) ? &execution_ : nullptr;
  } catch (const Error& error) {
    status = diagnostics_.link_failed(error.code(), error.what());
  } catch (const std::exception& error) {
    status = diagnostics_.fail(Code::OutOfMemory, error.what());
  }
  exec::abandon(execution_);
  return nullptr;
}

void Communicator::begin_collective(const Call& call) {
  board_->enter(++calls_, call.spec);
  diagnostics_.begin(calls_, call.spec);
  const bool is_vector = call.spec.is_vector;
  if (is_vector) board_->enter_blocks(calls_, call.blocks);
  Prepared& prepared = is_vector ? planner_->vector(call) : planner_->collective(call);
  diagnostics_.set_algorithm(prepared.algorithm);
  digest_ = (digest_ ^ prepared.salt) * kOdd;
  load(prepared);
  exec::RankState& state = prepared.program.state;
  if (!is_vector) {
    state.bases[0] = static_cast<unsigned char*>(const_cast<void*>(call.in));
    state.bases[1] = static_cast<unsigned char*>(call.out);
    state.shared[0] = &planner_->input();
    state.shared[1] = &planner_->output();
  } else {
    copy_own_block(call, rank());
  }
  state.tag = (prepared.salt + calls_) & link::kTagMask;  // salts are hashes, so no other salt is close
  if (call.spec.op == Op::PreMulSum) state.arithmetic.scale = call.scale;
}

void Communicator::load(Prepared& prepared) {
  current_ = &prepared;
  prepared.program.restart(*links_);
  execution_.begin(prepared.program);
  exec::RankState& state = prepared.program.state;
  const uint64_t scratch = state.scratch_bytes * state.versions;
  if (scratch_bytes_ < scratch) {
    constexpr uint64_t kAlignment = 128;
    scratch_.reset(new unsigned char[scratch + kAlignment]);  // uninitialised: only what was written is read
    scratch_begin_ = scratch_.get() + (0 - reinterpret_cast<uintptr_t>(scratch_.get())) % kAlignment;
    scratch_bytes_ = scratch;
  }
  state.bases[2] = scratch_begin_;
}

/// Transfers between this rank and itself need no link: the k-th send is copied to the k-th receive.
Status Communicator::copy_to_self(Work work) const {
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
    if (bytes > 0) std::memmove(receives[i]->out, sends[i]->in, bytes);
  }
  return {};
}

/// False if every transfer is with this rank itself.
bool Communicator::begin_transfers(Work work) {
  group_.clear();
  for (const Call& call : work) {
    if (call.spec.root == rank()) continue;
    const uint64_t number = ++transfer_counts_[{call.spec.root, call.spec.sends}];
    board_->enter_transfer(transfer_key(call.spec.sends, call.spec.root, number), call.spec);
    group_.push_back({call, number});
  }
  diagnostics_.begin(group_);
  if (group_.empty()) return false;
  load(planner_->transfers(group_));
  return true;
}

Status Communicator::failure_status() {
  if (has_failed()) return std::move(execution_.status);
  return diagnostics_.link_failed(execution_.status.code, execution_.status.text);  // an engine detected it first
}

Status Communicator::failure() const {
  if (!has_failed()) return {};
  const auto first = endpoint_->failure();
  return first ? Status{first->first, control::said_by(rank(), first->second)} : Status{};
}

Status Communicator::fail_internally(const std::string& what) { return diagnostics_.fail(Code::InternalError, what); }

}  // namespace tutti::comm
