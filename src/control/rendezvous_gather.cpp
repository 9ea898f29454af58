// The rendezvous server while ranks register.
#include <algorithm>

#include "base/env.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "control/control_thread.hpp"
#include "control/describe.hpp"
#include "control/rendezvous_server.hpp"

namespace tutti::control {
namespace {

constexpr double kUnusedSeconds = 3600;  // until an unused id expires
constexpr double kRefusingSeconds = 60;  // during which late ranks still receive the reason
constexpr size_t kMaxDeparted = 1024;    // more can only be a hostile peer

}  // namespace

void RendezvousServer::open() {
  timer_ = control_.loop().at(Deadline::in(kUnusedSeconds), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close_if_unused();
  });
}

void RendezvousServer::close_if_unused() {
  if (state_ == State::Gathering && applicants_.empty()) close();
}

std::string RendezvousServer::called(const Register& request) const {
  return describe_rank(name_of(request.rank, names_), request.me);
}

/// In a communicator that grows, the ranks that stay have the places that they had.
void RendezvousServer::check_place(const Register& r) const {
  const auto kept = kept_places_.find(r.rank);
  if (kept == kept_places_.end() || same_process(kept->second, r.me)) return;
  std::vector<Rank> open;
  for (Rank rank = 0; rank < size_; ++rank) {
    if (kept_places_.count(rank) == 0) open.push_back(rank);
  }
  throw_error(Code::InvalidArgument,
              "rank {} of the communicator that grows stays {}; {} is new and takes another place: {}", r.rank,
              describe_process(kept->second), describe_process(r.me), list_ranks(open));
}

void RendezvousServer::check_request(const Register& r) const {
  const std::string who = called(r);
  if (r.version != version()) {
    throw_error(Code::InvalidArgument, "{} runs Tutti {}, the process that made the unique id runs {}: use one version",
                who, r.version, version());
  }
  if (r.ranks < 1 || r.ranks > kMaxRanks || r.rank < 0 || r.rank >= r.ranks) {
    throw_error(Code::InvalidArgument, "rank {} of {}: there can be 1 to {} ranks, numbered from 0", r.rank, r.ranks,
                kMaxRanks);
  }
  if (refusal_) throw Error(refusal_->code, refusal_->text);
  if (size_ != 0 && r.ranks != size_) {
    throw_error(Code::InvalidArgument, "{} was told that there are {} ranks, the others that there are {}", who,
                r.ranks, size_);
  }
  check_place(r);
  const auto taken = [&](const Member& member) {
    throw_error(Code::InvalidArgument, "rank {} is taken by {}; {} claims it too: give every process a rank of its own",
                name_of(r.rank, names_), describe_process(member), describe_process(r.me));
  };
  if (!joined_.empty()) taken(joined_[static_cast<size_t>(r.rank)].member);
  for (const auto& other : applicants_) {
    if (other->request.ranks == r.ranks && other->request.rank == r.rank) taken(other->request.me);
  }
}

void RendezvousServer::admit(Register request, const std::function<std::shared_ptr<Channel>()>& take) {
  ++received_;
  if (refusal_) count_informed(request.rank);
  if (names_.empty()) names_ = request.names;
  try {
    check_request(request);
  } catch (...) {
    const bool is_claim = !kept_places_.empty() && request.rank >= 0 && request.rank < size_;
    if (is_claim && refused_claims_.size() < kMaxDeparted) refused_claims_.emplace(request.rank, request.me.nonce);
    throw;
  }
  busy_ = true;
  const auto applicant = std::make_shared<Applicant>();
  applicant->request = std::move(request);
  applicant->channel = take();
  applicants_.push_back(applicant);
  // Until the table is sent, a rank sends nothing but that it is alive.
  applicant->channel->open(
      [](std::string_view body) {
        if (kind_of(body) != Kind::Ping) throw_error(Code::ProtocolError, "a message before all ranks had joined");
      },
      [weak = weak_from_this(), wa = std::weak_ptr(applicant)](const std::string& why) {
        const auto self = weak.lock();
        const auto a = wa.lock();
        if (self && a) self->applicant_ended(a, why);
      });
  send(*applicant->channel, pack(Welcome{static_cast<uint32_t>(env().heartbeat * 1e3), control_.local_member()}));
  if (applicants_.size() == 1) {
    control_.loop().cancel(timer_);
    last_beat_ = Deadline::Clock::now();
    schedule_heartbeat();
  }
  applicant->timer = control_.loop().at(Deadline::in(applicant->request.wait_ms / 1e3),
                                        [weak = weak_from_this(), wa = std::weak_ptr(applicant)] {
                                          const auto self = weak.lock();
                                          const auto a = wa.lock();
                                          if (self && a) self->registration_timed_out(*a);
                                        });

  // Ranks may disagree on the number of ranks. Rank 0 in the process that made the id decides; without it, the first
  // number whose ranks are complete.
  const Rank ranks = applicant->request.ranks;
  const bool ours = applicant->request.rank == 0 && same_process(applicant->request.me, control_.local_member());
  if (size_ == 0 && ours) fix_size(ranks);
  const auto registered =
      std::count_if(applicants_.begin(), applicants_.end(), [&](const auto& a) { return a->request.ranks == ranks; });
  if (registered != ranks) return;
  fix_size(ranks);
  begin();
}

void RendezvousServer::fix_size(Rank ranks) {
  size_ = ranks;
  // Ranks that disconnected and have not registered again are missing for good.
  const auto missed = std::find_if(early_departures_.begin(), early_departures_.end(), [&](const Register& r) {
    return r.ranks == ranks && std::none_of(applicants_.begin(), applicants_.end(), [&](const auto& a) {
             return a->request.ranks == ranks && a->request.rank == r.rank;
           });
  });
  if (missed != early_departures_.end()) return stop_for_departed(*missed, "it ended, or gave up");
  early_departures_.clear();
  for (const auto& a : std::vector(applicants_)) {
    if (a->request.ranks == ranks) continue;
    refuse(*a, Code::InvalidArgument,
           fmt::format("{} was told that there are {} ranks, the others that there are {}", called(a->request),
                       a->request.ranks, ranks));
    drop(a);
  }
}

void RendezvousServer::refuse(const Applicant& applicant, Code code, const std::string& text) {
  send(*applicant.channel, pack(Refused{code, text.substr(0, kMaxSmall)}));
}

void RendezvousServer::drop(const std::shared_ptr<Applicant>& applicant) {
  control_.loop().cancel(applicant->timer);
  applicant->channel->close();
  applicants_.erase(std::remove(applicants_.begin(), applicants_.end(), applicant), applicants_.end());
}

void RendezvousServer::applicant_ended(const std::shared_ptr<Applicant>& applicant, const std::string& why) {
  const Register& r = applicant->request;
  drop(applicant);
  if (state_ != State::Gathering) return;
  const bool others_wait = std::any_of(applicants_.begin(), applicants_.end(),
                                       [&](const auto& other) { return other->request.ranks == r.ranks; });
  if (r.ranks == size_ || (size_ == 0 && others_wait)) return stop_for_departed(r, why);
  // A split's ranks hear of deaths from the parent, too, and the next one to register opens a server again.
  if (trunks_ != nullptr && applicants_.empty()) return close();
  if (size_ == 0 && early_departures_.size() < kMaxDeparted) {
    early_departures_.push_back(r);
    early_departures_.back().me.info.clear();
  }
}

void RendezvousServer::stop_for_departed(const Register& applicant, const std::string& why) {
  count_informed(applicant.rank);  // it does not register again
  stop_gathering(Code::PeerFailed,
                 fmt::format("{} is gone before all {} ranks were there: {}", called(applicant), applicant.ranks, why));
}

/// Ranks that wait, and are silent.
void RendezvousServer::check_applicants(double limit, bool stalled) {
  for (const auto& applicant : std::vector(applicants_)) {
    if (stalled) applicant->channel->reset_silence();
    const double silent = std::chrono::duration<double>(Deadline::Clock::now() - applicant->channel->heard()).count();
    if (silent > limit && state_ == State::Gathering) applicant_ended(applicant, describe_silence(silent));
  }
  for (const auto& applicant : applicants_) ping(*applicant->channel);
}

void RendezvousServer::withdraw(const Withdraw& withdrawal) {
  count_informed(withdrawal.rank);
  if (size_ != 0 && withdrawal.rank >= size_) return;  // it was refused, and no rank waits for it
  const auto refused = refused_claims_.find({withdrawal.rank, withdrawal.process});
  if (refused != refused_claims_.end()) {
    refused_claims_.erase(refused);
    return;  // likewise
  }
  if (state_ == State::Gathering) stop_gathering(withdrawal.code, withdrawal.text);
}

/// Counts the rank once the answer of this loop iteration is on its way.
void RendezvousServer::count_informed(Rank rank) {
  if (rank < 0 || rank >= kMaxRanks) return;
  control_.loop().post([weak = weak_from_this(), rank] {
    const auto self = weak.lock();
    if (!self) return;
    self->informed_.insert(rank);
    self->informed_count_ = self->informed_.size();
    self->control_.notify();
  });
}

/// The first rank that times out ends the wait of all: the communicator needs every rank.
void RendezvousServer::registration_timed_out(const Applicant& applicant) {
  const Rank ranks = applicant.request.ranks;
  std::vector<bool> here(static_cast<size_t>(ranks), false);
  std::string others;
  for (const auto& a : applicants_) {
    if (a->request.ranks == ranks) {
      here[static_cast<size_t>(a->request.rank)] = true;
    } else {
      others = fmt::format("; {} was told that there are {} ranks", called(a->request), a->request.ranks);
    }
  }
  std::vector<Rank> missing;
  for (Rank r = 0; r < ranks; ++r) {
    if (!here[static_cast<size_t>(r)]) missing.push_back(name_of(r, names_));
  }
  const std::string accept_error_text = control_.acceptor().accept_error_text();
  const std::string text = fmt::format(
      "{} of {} ranks registered with the rendezvous server within the {:.1f} s that rank {} waits; missing: {}{}. Are "
      "all processes started, with the same unique id, and can they reach {}?{}",
      static_cast<size_t>(ranks) - missing.size(), ranks, applicant.request.wait_ms / 1e3,
      name_of(applicant.request.rank, names_), list_ranks(missing), others,
      to_string(control_.local_member().addresses.front(), control_.local_member().port), accept_error_text);
  stop_gathering(accept_error_text.empty() ? Code::Timeout : Code::SystemError, text);
}

void RendezvousServer::stop_gathering(Code code, const std::string& text) {
  control_.loop().cancel(timer_);
  log_info("rendezvous server of {}: {}", name_, text);
  refusal_ = Refused{code, text.substr(0, kMaxSmall)};
  state_ = State::Refusing;
  for (const auto& a : std::vector(applicants_)) {
    refuse(*a, code, text);
    count_informed(a->request.rank);
    drop(a);
  }
  busy_ = false;
  control_.notify();
  timer_ = control_.loop().at(Deadline::in(kRefusingSeconds), [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->close();
  });
}

void RendezvousServer::begin() {
  state_ = State::Running;
  incomplete_.reset();
  joined_.resize(static_cast<size_t>(size_));
  Table table;
  table.title = title_;
  table.members.resize(joined_.size());
  for (const auto& a : std::vector(applicants_)) {
    control_.loop().cancel(a->timer);
    RankState& client = joined_[static_cast<size_t>(a->request.rank)];
    client.channel = a->channel;
    client.channel->reset_silence();
    client.member = std::move(a->request.me);
    table.members[static_cast<size_t>(a->request.rank)] = client.member;
    client.channel->set_callbacks(
        [weak = weak_from_this(), rank = a->request.rank](std::string_view body) {
          if (const auto self = weak.lock()) self->on_frame(rank, body);
        },
        [weak = weak_from_this(), rank = a->request.rank](const std::string& why) {
          if (const auto self = weak.lock()) self->on_end(rank, why);
        });
  }
  applicants_.clear();
  send_all(pack(table));
  for (RankState& client : joined_) client.member.info.clear();  // it has been sent; the other fields are for messages
}

}  // namespace tutti::control
