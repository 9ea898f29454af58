// The user threads' side of a client: calls that wait for the control thread or post work to it.
#include <algorithm>

#include "control/control_client.hpp"
#include "control/describe.hpp"
#include "control/endpoint.hpp"
#include "control/wait_table.hpp"

namespace tutti::control {
namespace {

/// The rendezvous server ends a wait at its deadline and names the missing ranks. A waiter times out by itself, this
/// much later, only if the server's message does not arrive.
constexpr double kForTheReasonSeconds = 2;
constexpr double kLookEvery = 0.02;  // seconds between checks of the stop flag

/// A rank of the program has ended the communicator.
bool is_deliberate(Code code) { return code == Code::Aborted || code == Code::Revoked; }

Deadline later(Deadline deadline) { return Deadline::in(deadline.left() + kForTheReasonSeconds); }

}  // namespace

ControlClient::ControlClient(ControlThread& control, const Key& key, Rank ranks, Rank rank,
                             std::shared_ptr<Trunks> trunks, std::string holder)
    : control_(control),
      key_(key),
      name_(public_name(key)),
      ranks_(ranks),
      rank_(rank),
      holder_(std::move(holder)),
      membership_(static_cast<size_t>(ranks), Membership::Present),
      dead_(static_cast<size_t>(ranks), false),
      departed_(static_cast<size_t>(ranks)),
      trunks_(trunks != nullptr ? std::move(trunks) : control.trunks(key)),
      counted_(trunks_->add_client()) {}

size_t ControlClient::index(Rank rank) const {
  if (rank < 0 || rank >= ranks_)
    throw_error(Code::InvalidArgument, "there is no rank {} among {} ranks", rank, ranks_);
  return static_cast<size_t>(rank);
}

void ControlClient::adopt(Fd fd) {
  control_.loop().post([self = shared_from_this(), shared = std::make_shared<Fd>(std::move(fd))] {
    self->open(std::make_shared<SocketChannel>(self->control_.loop(), std::move(*shared), kMaxFromServer));
  });
}

void ControlClient::adopt(std::shared_ptr<Trunk> trunk, const Register& first) {
  control_.loop().post([self = shared_from_this(), trunk = std::move(trunk), first = pack_body(first)] {
    self->open(trunk->open_channel(self->name_, first));
  });
}

void ControlClient::wait_joined(WaitLimit limit) {
  std::unique_lock lock(mutex_);
  const Deadline end = later(limit.deadline);
  while (!changed_.wait_until(lock, std::min(end.at(), Deadline::in(kLookEvery).at()),
                              [this] { return joined_ || refusal_; })) {
    if (limit.stop != nullptr && limit.stop->load(std::memory_order_relaxed) != 0)
      throw_error(Code::Aborted, "stopped");
    if (end.passed()) break;
  }
  if (joined_) return;
  if (refusal_) throw Error(refusal_->first, refusal_->second);
  throw_error(Code::Timeout, "the rendezvous server accepted this rank's registration and did not answer it");
}

std::vector<std::string> ControlClient::exchange(std::string mine, Deadline deadline, const ExchangePurpose& purpose) {
  const std::lock_guard one_at_a_time(exchange_mutex_);
  Exchange message;
  message.number = exchanges_++;
  message.wait_ms = static_cast<uint32_t>(std::min(deadline.left() * 1e3, 4e9));
  message.call = purpose.call;
  message.what = purpose.what;
  message.bytes = std::move(mine);
  auto frame = std::make_shared<const std::string>(pack(message));
  control_.loop().post([self = shared_from_this(), frame] {
    if (self->channel_) self->channel_->send(frame);
  });
  return wait_gathered(message.number, deadline, purpose);
}

std::vector<std::string> ControlClient::wait_gathered(uint32_t number, Deadline deadline,
                                                      const ExchangePurpose& purpose) {
  std::unique_lock lock(mutex_);
  const auto complete = [&] { return gathered_ && gathered_->number == number; };
  bool over = false;
  while (!complete() && !failure_ && !over) {
    if (missing_ && missing_->number == number && purpose.on_missing) {
      const Missing missing = std::move(*missing_);
      missing_.reset();
      lock.unlock();
      purpose.on_missing(missing.ranks, missing.compare != 0);
      lock.lock();
      continue;
    }
    missing_.reset();
    over = !changed_.wait_until(lock, later(deadline).at(), [&] { return failure_ || complete() || missing_; });
  }
  if (complete()) {
    auto bytes = std::move(gathered_->bytes);
    gathered_.reset();
    return bytes;
  }
  if (!failure_) {
    lock.unlock();
    fail(Code::Timeout,
         fmt::format("rank {} timed out in {}: the rendezvous server does not answer", rank_, purpose.what));
    lock.lock();
  }
  throw Error(failure_->first, failure_->second);
}

std::optional<ControlClient::Failure> ControlClient::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool ControlClient::failure_is_known() const {
  const std::lock_guard lock(mutex_);
  return failure_is_known_;
}

bool ControlClient::set_failure(Code code, const std::string& text) {
  bool mismatch_is_late = false;
  {
    const std::lock_guard lock(mutex_);
    const bool revokes = code == Code::Revoked && failure_ && !is_deliberate(failure_->first);
    if (failure_ && !revokes) return false;
    failure_ = Failure(code, revokes ? fmt::format("{}; before that: {}", text, failure_->second) : text);
    if (code == Code::Revoked) failure_is_known_ = false;
    failed_.store(static_cast<uint32_t>(code), std::memory_order_release);
    mismatch_is_late = leave_returned_ && code == Code::Mismatch;
  }
  if (mismatch_is_late) control_.add_late_mismatch({rank_, ranks_, text});
  changed_.notify_all();
  control_.notify();
  return true;
}

void ControlClient::fail(Code code, const std::string& text, const std::vector<uint64_t>& tickets) {
  if (code == Code::Aborted) end_loss_watches(Endpoint::kAborted);  // also if it has failed before
  if (!set_failure(code, text)) return;
  // Others of this process know it before this returns: what their threads do afterwards must not succeed.
  for (const auto& client : control_.clients(name_)) client->set_failure(code, text);
  control_.loop().post([self = shared_from_this(), fail = Fail{code, text.substr(0, kMaxSmall), tickets}] {
    if (self->channel_) self->channel_->send(pack(fail));
    if (fail.code == Code::Revoked && !self->closed_) return self->begin_revocation(fail.text);
    if (!self->channel_) self->note_known_failure();  // as far as it can be
  });
  if (!tickets.empty()) WaitTable::of_this_process().fail(code, text, tickets);
}

bool ControlClient::is_lost(Rank rank) const {
  return membership_[index(rank)] == Membership::Lost || dead_[index(rank)];
}

bool ControlClient::lost(Rank rank) const {
  const std::lock_guard lock(mutex_);
  return is_lost(rank);
}

/// A rank that died after it had left is not lost.
std::vector<Rank> ControlClient::lost_ranks() const {
  const std::lock_guard lock(mutex_);
  std::vector<Rank> lost;
  for (Rank r = 0; r < ranks_; ++r) {
    if (is_lost(r) && membership_[index(r)] != Membership::Left) lost.push_back(r);
  }
  return lost;
}

void ControlClient::note_losses() {
  std::erase_if(loss_watches_, [this](const LossWatch& watch) {
    const auto first = watch.first.lock();
    const auto lost = std::find_if(watch.ranks.begin(), watch.ranks.end(), [this](Rank r) { return is_lost(r); });
    if (first == nullptr || lost == watch.ranks.end()) return first == nullptr;
    first->store(static_cast<uint32_t>(*lost) + 1, std::memory_order_release);
    return true;
  });
}

void ControlClient::end_loss_watches(uint32_t why) {
  const std::lock_guard lock(mutex_);
  for (const LossWatch& watch : loss_watches_) {
    if (const auto first = watch.first.lock()) first->store(why, std::memory_order_release);
  }
  loss_watches_.clear();
}

std::shared_ptr<const std::atomic<uint32_t>> ControlClient::watch_losses(std::vector<Rank> ranks) {
  auto first = std::make_shared<std::atomic<uint32_t>>(0);
  const std::lock_guard lock(mutex_);
  loss_watches_.push_back({std::move(ranks), first});
  note_losses();
  return first;
}

std::optional<Left> ControlClient::left(Rank rank) const {
  const std::lock_guard lock(mutex_);
  const size_t r = index(rank);
  return membership_[r] == Membership::Left ? std::optional(departed_[r]) : std::nullopt;
}

std::future<ControlClient::Answer> ControlClient::ask_board(Rank peer, uint64_t call, Deadline deadline) {
  auto promise = std::make_shared<std::promise<Answer>>();
  auto future = promise->get_future();
  control_.loop().post([self = shared_from_this(), promise, peer, call, deadline] {
    self->ask(peer, call, deadline, [promise](Answer answer) { promise->set_value(std::move(answer)); });
  });
  return future;
}

void ControlClient::ask(Rank peer, uint64_t call, Deadline deadline, std::function<void(Answer)> then) {
  if (!channel_) return then(std::nullopt);
  const uint64_t ticket = ++tickets_;
  Question& question = questions_[ticket];
  question.answer = std::move(then);
  question.peer = peer;
  question.timer = control_.loop().at(deadline, [weak = weak_from_this(), ticket] {
    if (const auto client = weak.lock()) client->resolve(ticket, std::nullopt);
  });
  BoardAsk message;
  message.peer = peer;
  message.ticket = ticket;
  message.call = call;
  channel_->send(pack(message));
}

void ControlClient::retry_services() {
  control_.loop().post([self = shared_from_this()] { self->services_.retry(); });
}

std::shared_ptr<Trunks> ControlClient::trunks() const {
  const std::lock_guard lock(mutex_);
  return trunks_;
}

bool ControlClient::all_have_left() const {
  return done_ && std::all_of(membership_.begin(), membership_.end(),
                              [](Membership membership) { return membership == Membership::Left; });
}

void ControlClient::when_all_have_left(const std::string& what, std::function<void()> then) {
  {
    const std::lock_guard lock(mutex_);
    if (!all_have_left()) return after_all_[what].swap(then);  // what it replaces ends after the lock is released
  }
  if (then) then();
}

void ControlClient::send_leave_notice(const LeaveNotice& leave_notice) {
  {
    const std::lock_guard lock(mutex_);
    leave_sent_ = true;
  }
  control_.loop().post([self = shared_from_this(), leave_notice] {
    if (self->channel_) return self->channel_->send(pack(leave_notice));
    self->server_lost();  // not later: this rank would wait for nobody, and not know why
    self->finish();
  });
}

bool ControlClient::wait_for_comparison(Deadline deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline.at(), [this] {
    const bool answered = membership_[static_cast<size_t>(rank_)] != Membership::Present;
    return answered || failure_ || done_ || !server_loss_.empty();
  });
}

void ControlClient::give_up() {
  control_.remove_client(*this);  // at once: the rank may join again
  control_.loop().post([self = shared_from_this()] { self->close(); });
}

std::vector<Rank> ControlClient::remaining_ranks() const {
  std::vector<Rank> ranks;
  const std::lock_guard lock(mutex_);
  for (Rank r = 0; r < ranks_; ++r) {
    if (r != rank_ && membership_[static_cast<size_t>(r)] == Membership::Present) ranks.push_back(r);
  }
  return ranks;
}

bool ControlClient::done(std::string* mismatch) {
  const std::lock_guard lock(mutex_);
  leave_returned_ = true;
  *mismatch = mismatch_;
  return done_;
}

std::string ControlClient::server_loss() const {
  const std::lock_guard lock(mutex_);
  return server_loss_;
}

}  // namespace tutti::control
