// A hostile member that knows the key. It sends to the rendezvous server (or runs it), to the rank's client, to the
// services of every transport, on streams, in shared memory, and as replies. Its peer is a complete rank. No input may
// do more than make that rank's calls fail.
#include <poll.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/format.hpp"
#include "base/version.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_thread.hpp"
#include "control/endpoint.hpp"
#include "control/exchange_purpose.hpp"
#include "fuzz/member/answers.hpp"
#include "fuzz/member/reports.hpp"
#include "fuzz/member/requests.hpp"
#include "fuzz/member/victim.hpp"
#include "fuzz/member/words.hpp"
#include "link/cooperative_copy.hpp"

namespace tutti::fuzz {
namespace {

using namespace control;
using link::LinkMemory;

/// Time for the victim to progress.
void wait_a_moment(int milliseconds = 1) { poll(nullptr, 0, milliseconds); }

/// Flags in the first byte of an input.
enum How : uint8_t {
  kVictimIsRankOne = 1,
  kHoldsServer = 2,  ///< the member runs the rendezvous server
  kElsewhere = 4,    ///< it claims to run on another host
  kOtherInfo = 8,
  kFastHeartbeat = 16,
  kVictimShares = 32,  ///< the victim's buffers can be mapped
};

/// State of the fuzzer's process that is kept for all inputs.
struct Member {
  Accomplice accomplice;  // first: it forks
  Answers answers{accomplice};
};

class Hostile {
 public:
  Hostile(Words& words, fuzz::Member& member)
      : words_(words),
        accomplice_(member.accomplice),
        answers_(member.answers),
        how_(words.byte()),
        victim_(has(kVictimIsRankOne) ? 1 : 0),
        me_(1 - victim_) {}

  void run() {
    has(kHoldsServer) ? listen() : static_cast<void>(id_ = create_unique_id());
    answers_.restart(id_.key);
    std::thread rank([this] { live(id_, victim_, has(kVictimShares)); });
    try {
      has(kHoldsServer) ? take_in_rank() : take_part();
      while (words_.more()) act();
      wait_a_moment();
    } catch (const Error&) {
    }
    streams_.clear();
    trunk_.reset();
    hub_.reset();
    listener_.reset();
    if (!has(kHoldsServer)) release_unique_id(id_);
    rank.join();
  }

 private:
  bool has(How bit) const { return (how_ & bit) != 0; }

  void listen() {
    listener_ = listen_tcp(0);
    id_.key = random_key();
    id_.host = hash64(ControlThread::get().local_member().host);
    id_.port = port_of(listener_.get());
    id_.addresses = {Address::loopback()};
  }

  control::Member myself() {
    control::Member me = ControlThread::get().local_member();
    me.process = accomplice_.process();
    me.started = accomplice_.started();
    me.nonce = 1;
    me.unix_name = accomplice_.name();
    me.addresses = {Address::loopback()};  // only one: connections are accepted one after the other
    me.port = answers_.port();
    me.info = info_;
    if (has(kElsewhere)) me.host = "elsewhere";
    if (has(kOtherInfo)) me.info = words_.text();
    return me;
  }

  void take_in_rank() {
    await_ready(listener_.get(), POLLIN, brief());
    hub_ = accept_now(listener_.get());
    auto request = unpack<Register>(take_in(hub_, id_.key));
    info_ = request.me.info;
    say(pack(Welcome{has(kFastHeartbeat) ? 1U : 10000U, myself()}));
    Table everyone;
    everyone.members.resize(kRanks);
    everyone.members[static_cast<size_t>(victim_)] = request.me;
    everyone.members[static_cast<size_t>(me_)] = myself();
    say(pack(everyone));
  }

  void take_part() {
    static const std::string kOurs = info_of_ours();
    info_ = kOurs;
    hub_ = dial({Address::loopback()}, id_.port, id_.key, brief());
    Register request;
    request.version = version();
    request.ranks = kRanks;
    request.rank = me_;
    request.wait_ms = 1000;
    request.me = myself();
    say(pack(request));
    unpack<Welcome>(receive_frame(hub_.get(), kMaxFromServer, brief()));
    unpack<Table>(receive_frame(hub_.get(), kMaxFromServer, brief()));
  }

  /// A correct rank's configuration, passed to join.
  std::string info_of_ours() {
    Words none(nullptr, 0);
    fuzz::Hostile other(none, accomplice_, answers_);
    other.listen();
    std::thread rank([&] { live(other.id_, 0, false); });
    await_ready(other.listener_.get(), POLLIN, {Deadline::in(5), nullptr});
    other.hub_ = accept_now(other.listener_.get());
    std::string info = unpack<Register>(take_in(other.hub_, other.id_.key)).me.info;
    other.hub_.reset();
    rank.join();
    return info;
  }
  Hostile(Words& words, const Accomplice& accomplice, Answers& answers)
      : words_(words), accomplice_(accomplice), answers_(answers), how_(0), victim_(0), me_(1) {}

  void say(const std::string& bytes) { send_all(hub_.get(), bytes, brief()); }

  void act() {
    const uint8_t what = words_.byte();
    if (what >= 240) return use_trunk();
    switch (what % 12) {
      case 0:
        return exchange(exchanges_ == 0 ? honest_report(word()) : honest_verdict());
      case 1:
        return exchange(hostile_report(words_, word()));
      case 2:
        return say_frame();
      case 3:
        return ask();
      case 4:
        return open_stream();
      case 5:
        return prepare_answer();
      case 6:
        return say(words_.text());
      case 7:
        return take_arena();
      case 8:
        return has(kElsewhere) ? echo() : mirror();
      case 9:
        return scribble();
      case 10:
        return offer();
      default:
        return wait_a_moment(words_.byte() % 64);
    }
  }

  /// A process that exists under the identity claimed.
  transports::Word word() const {
    static const uint64_t kWord = 42;
    return {reinterpret_cast<uint64_t>(&kWord), kWord};
  }

  void exchange(const std::string& given) {
    if (has(kHoldsServer)) return gather(given);
    Exchange exchange{exchanges_++, 1000, 0, ExchangePurpose{}.what, given};
    if (exchanges_ > 2) {
      exchange.call = words_.number();
      exchange.what = "split()";
    }
    say(pack(exchange));
    if ((words_.byte() & 1) == 0) next(Kind::Gathered);  // waits until all have contributed
  }

  /// The next frame of this kind.
  std::string next(Kind kind) {
    const WaitLimit limit = brief();
    for (;;) {
      std::string body = receive_frame(hub_.get(), kMaxFromServer, limit);
      if (kind_of(body) == kind) return body;
    }
  }

  /// The rendezvous server's answer to the rank's contribution.
  void gather(const std::string& given) {
    auto theirs = unpack<Exchange>(next(Kind::Exchange));
    ++exchanges_;
    Gathered all;
    all.number = theirs.number;
    all.bytes.resize(kRanks);
    all.bytes[static_cast<size_t>(victim_)] = std::move(theirs.bytes);
    all.bytes[static_cast<size_t>(me_)] = given;
    say(pack(all));
  }

  /// Any frame except another table, which would name processes: here, or as the first of a connection.
  void say_frame() {
    const uint8_t kind = words_.byte();
    const std::string frame = framed(static_cast<char>(kind % 30) + words_.text());
    if (kind >= 128) {
      const Fd fd = dial({Address::loopback()}, ControlThread::get().local_member().port, id_.key, brief());
      send_all(fd.get(), frame, brief());
      receive_frame(fd.get(), kMaxFirstFrame, brief());
    } else if (static_cast<Kind>(kind % 30) != Kind::Table) {
      say(frame);
    }
  }

  /// A reply with its descriptor, from its own process or, as `foreign`, from the victim's.
  Reply ask(const Ask& question, bool foreign, Fd* passed) {
    const control::Member& local_member = ControlThread::get().local_member();
    const Fd fd = foreign ? dial({Address::loopback()}, local_member.port, id_.key, brief())
                          : accomplice_.connect(local_member.unix_name);
    if (!foreign) prove(fd, id_.key);
    return call<Reply>(fd.get(), question, brief(), passed);
  }

  void ask() {
    Ask question;
    question.from = (words_.byte() & 1) != 0 ? me_ : static_cast<Rank>(words_.byte()) - 100;
    question.to = (words_.byte() & 7) != 0 ? victim_ : me_;
    question.service = words_.one_of({"shm", "readable", "shm-map"}, kMaxName);
    switch (words_.byte() % 4) {
      case 0:
        question.request = words_.text(kMaxSmall);
        break;
      case 1:
        question.request = bytes_of(LinkRequest{static_cast<uint32_t>(words_.number()), 1});
        break;
      default:
        question.request = bytes_of(words_.number()) + bytes_of(words_.number());
        question.request.resize(words_.byte() % 2 == 0 ? 16 : 8);
    }
    Fd passed;
    ask(question, (words_.byte() & 7) == 0, &passed);
  }

  void open_stream() {
    const std::string label = words_.one_of({"tcp:0", "tcp:1", fmt::format("tcp:{}", Answers::kTransfers)}, kMaxLabel);
    Fd fd = dial({Address::loopback()}, ControlThread::get().local_member().port, id_.key, brief());
    call<Accepted>(fd.get(), OpenStream{(words_.byte() & 7) != 0 ? me_ : victim_, victim_, label}, brief());
    std::string bytes;
    for (uint64_t number = 0; (words_.byte() & 3) != 0; ++number) {  // well-formed messages first
      const std::string payload = words_.text();
      bytes += bytes_of(uint64_t{0x7475} << 48U | number) + bytes_of(words_.number()) + bytes_of(payload.size());
      bytes += payload;
    }
    send_all(fd.get(), bytes + words_.text(), brief());
    streams_.push_back(std::move(fd));
  }

  /// Opens, uses and closes channels to rendezvous servers of splits that only this member makes.
  void use_trunk() {
    if (!trunk_) {
      channels_opened_ = 0;
      trunk_ = dial({Address::loopback()}, ControlThread::get().local_member().port, id_.key, brief());
      call<Accepted>(trunk_.get(), OpenTrunk{}, brief());
    }
    std::string bytes;
    for (uint8_t what = words_.byte(); (what & 3) != 3 && words_.more(); what = words_.byte()) {
      const uint64_t channel = (what & 64) != 0 ? words_.number() : 1 + words_.byte() % 4;
      if ((what & 3) == 0) {
        Register request;
        request.version = version();
        request.ranks = 1 + words_.byte() % 3;
        request.rank = words_.byte() % 4;
        request.wait_ms = 100;
        request.me = myself();
        const std::string name = (what & 8) != 0 ? id_.name() : fmt::format("split {}", words_.byte() % 4);
        const std::string first = (what & 4) != 0 ? words_.text() : pack_body(request);
        bytes += pack(OpenChannel{(what & 64) != 0 ? channel : ++channels_opened_, name, first});
      } else if ((what & 3) == 1) {
        bytes += framed(pack_body(Carried{channel}) + ((what & 4) != 0 ? words_.text() : pack_body(LeaveNotice{})));
      } else {
        bytes += (what & 4) != 0 ? framed(words_.text()) : pack(CloseChannel{channel});
      }
    }
    try {
      send_all(trunk_.get(), bytes, brief());
      char answer[4096];
      if (recv_now(trunk_.get(), answer, sizeof answer) < 0) trunk_.reset();
    } catch (const Error&) {
      trunk_.reset();
    }
  }

  void prepare_answer() {
    const uint8_t what = words_.byte();
    Fd fd = (what & 4) != 0 ? some_memory(words_) : Fd();
    std::string bytes = "yes";
    if ((what & 3) == 0) bytes = words_.text(kMaxSmall);
    if ((what & 3) == 1)
      bytes = bytes_of(LinkAnswer{kMagic, words_.number() * 64, words_.number() * 64, words_.number() * 64});
    if ((what & 3) == 2) bytes = bytes_of(RegionAnswer{kMagic, words_.number() * 64});
    answers_.prepare((what & 16) != 0 ? framed(words_.text()) : pack(Reply{bytes}), std::move(fd));
  }

  /// Sends the victim's bytes back on the stream that was opened last.
  void echo() {
    for (int turn = words_.byte() % 64; turn >= 0 && !streams_.empty(); --turn) {
      const std::string bytes = answers_.receive();
      if (!bytes.empty()) send_all(streams_.back().get(), bytes, brief());
      wait_a_moment();
    }
  }

  /// Maps the victim's arena, as a reader does.
  void take_arena() {
    Fd passed;
    channel_ = words_.byte() % 2 == 0 ? 0 : Answers::kTransfers;
    const LinkRequest request{channel_, 1};
    const Reply reply = ask({me_, victim_, "shm", bytes_of(request)}, false, &passed);
    LinkAnswer answer{};
    if (reply.bytes.size() != sizeof answer) return;
    std::memcpy(&answer, reply.bytes.data(), sizeof answer);
    arena_ = link::Segment::map(std::move(passed), {answer.arena_offset, answer.arena_bytes}, "the victim");
    theirs_ = reinterpret_cast<LinkMemory*>(arena_.base() + answer.link);
  }

  /// Both links between the two, once the victim has asked for its own; none if that takes too long.
  bool has_links() {
    for (int turn = 0; turn < 20 && answers_.link(channel_) == nullptr; ++turn) wait_a_moment();
    return theirs_ != nullptr && answers_.link(channel_) != nullptr;
  }

  /// Sends the victim's own messages back: two ranks often exchange messages of the same call and length.
  void mirror() {
    const uint64_t turns = words_.byte() % 64, from = words_.number(), consumed = words_.number();
    std::array<std::array<uint64_t, 4>, 2> changes{};  // of two messages; 0: none
    for (auto& change : changes) {
      const uint8_t which = words_.byte();
      for (size_t i = 0; i < change.size(); ++i) change[i] = (which >> i & 1) != 0 ? words_.number() : 0;
    }
    if (!has_links()) return;
    for (uint64_t turn = 0; turn <= turns; ++turn) {
      LinkMemory* const mine = answers_.link(channel_);
      std::memcpy(mine->ring, theirs_->ring, sizeof mine->ring);
      for (size_t i = 0; i < changes.size(); ++i) change(*link::slot(mine->ring, from + i), changes[i]);
      theirs_->consumed = consumed == 0 ? last_of(*theirs_) : consumed;
      wait_a_moment();
    }
  }

  static void change(link::Descriptor& slot, const std::array<uint64_t, 4>& to) {
    const auto& [where, length, offset, region] = to;
    if (where != 0) slot.tag = (slot.tag & ~uint64_t{0xffff}) | where;
    if (length != 0) slot.length = length;
    if (offset != 0) slot.mapped[0] = offset;
    if (region != 0) slot.mapped[1] = region;
  }

  static uint64_t last_of(const LinkMemory& link) {
    uint64_t last = 0;
    for (uint64_t i = 0; i < link::kCapacity; ++i) last = std::max(last, link::slot(link.ring, i)->sequence);
    return last;
  }

  /// Random bytes at random places of a link's memory.
  void scribble() {
    const bool into_theirs = (words_.byte() & 1) != 0;
    const size_t at = words_.byte() * 16U % sizeof(LinkMemory);
    const std::string bytes = words_.text(sizeof(LinkMemory) - at);
    if (!has_links()) return;
    LinkMemory* const link = into_theirs ? theirs_ : answers_.link(channel_);
    std::memcpy(reinterpret_cast<unsigned char*>(link) + at, bytes.data(), bytes.size());
  }

  /// A descriptor for the victim's last message, or its next.
  void offer() {
    const uint8_t how = words_.byte();
    link::Offer offer{};
    offer.route = (how >> 1 & 3) | ((how & 8) != 0 ? link::kNontemporal : 0);
    if ((how & 1) != 0) offer.route |= link::kEarly;
    offer.target = (how & 16) != 0 ? words_.number() : reinterpret_cast<uint64_t>(Accomplice::memory()) + 4096;
    offer.region = (how & 32) != 0 ? words_.number() : reinterpret_cast<uint64_t>(Accomplice::memory());
    offer.after = words_.number();
    const uint64_t front = words_.number(), back = words_.number(), tiles = words_.number();
    offer.edges = front << 32U | back;
    if (!has_links()) return;
    const uint64_t last = last_of(*theirs_);
    offer.tag = last == 0 ? 0 : link::slot(theirs_->ring, last - 1)->tag >> 16;
    offer.front = (last + (how & 1)) << link::kCountBits | tiles;
    theirs_->offer = offer;
    wait_a_moment();
  }

  Words& words_;
  const Accomplice& accomplice_;
  Answers& answers_;
  const uint8_t how_;
  const Rank victim_, me_;
  UniqueId id_;
  uint64_t channels_opened_ = 0;  // on trunk_
  Fd trunk_, listener_, hub_;
  std::string info_;
  std::vector<Fd> streams_;
  link::Segment arena_;
  LinkMemory* theirs_ = nullptr;  // the victim's link to this member
  uint32_t channel_ = 0;
  uint32_t exchanges_ = 0;
};

}  // namespace
}  // namespace tutti::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static auto* const kMember = [] {  // its thread runs until the process ends
    setenv("TUTTI_LOG", "off", 0);
    setenv("TUTTI_TIMEOUT", "0.2", 1);
    setenv("TUTTI_INIT_TIMEOUT", "0.5", 1);
    setenv("TUTTI_ARENA", "512K", 1);
    return new tutti::fuzz::Member;
  }();
  tutti::fuzz::Words words(data, size);
  tutti::fuzz::Hostile(words, *kMember).run();
  return 0;
}
