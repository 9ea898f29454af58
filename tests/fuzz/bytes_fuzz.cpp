// Bytes of peers, each parsed by its reader alone: control messages, call boards, waits, decision tables and lists,
// streams of tcp links, and the shared memory of a link at both ends. The first byte of an input selects the reader.
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/http.hpp"
#include "base/secret.hpp"
#include "base/shallow_json.hpp"
#include "comm/call.hpp"
#include "comm/call_board.hpp"
#include "control/bootstrap/unique_id.hpp"
#include "control/elastic/messages.hpp"
#include "control/messages.hpp"
#include "control/status/job_status.hpp"
#include "control/status/metrics.hpp"
#include "control/status/ras/report.hpp"
#include "control/status/ras/session.hpp"
#include "control/status/slow_links.hpp"
#include "control/status/slow_ranks.hpp"
#include "control/wait_table.hpp"
#include "link/cooperative_copy.hpp"
#include "link/host_memory.hpp"
#include "select/decision_table.hpp"
#include "select/synthesised.hpp"
#include "topo/cores.hpp"
#include "transports/tcp/receiver.hpp"

namespace tutti {
namespace {

[[noreturn]] void defect(const char* what) {
  std::fprintf(stderr, "defect: %s\n", what);
  std::abort();
}

/// Runs `read`; an Error is an accepted result.
template <class Read>
void attempt(const Read& read) {
  try {
    read();
  } catch (const Error&) {
  }
}

/// The same for JSON, whose values may have unexpected types.
template <class Read>
void attempt_json(const Read& read) {
  attempt([&] {
    try {
      read();
    } catch (const nlohmann::json::exception&) {
    }
  });
}

/// True if `written` is `read`, but for the characters of words that printable() replaces: one of several bytes becomes
/// one byte.
bool same_but_for_words(const std::string& written, const std::string& read) {
  const bool ascii =
      std::all_of(read.begin(), read.end(), [](char byte) { return static_cast<signed char>(byte) >= 0; });
  if (!ascii) return written.size() <= read.size();
  const auto same = [](char now, char before) { return now == before || now == '?' || now == ' '; };
  return std::equal(written.begin(), written.end(), read.begin(), read.end(), same);
}

/// A message that can be read is written as the same bytes, but for words that a terminal would not take.
template <class M>
void read_message(std::string body) {
  if (body.empty()) body.resize(1);
  body[0] = static_cast<char>(M::kKind);
  attempt([&] {
    const std::string written = control::pack(control::unpack<M>(body)).substr(4);
    if (!same_but_for_words(written, body)) defect("a message is not what it was read from");
    if (control::pack(control::unpack<M>(written)).substr(4) != written) defect("a message does not stay what it is");
  });
}
template <class... Messages>
void read_messages(const std::string& body) {
  (read_message<Messages>(body), ...);
}

/// A unique id of these bytes with a valid checksum.
void read_id(const std::string& text) {
  control::UniqueId::Bytes bytes{};
  std::copy_n(text.begin(), std::min(text.size(), bytes.size() - 4), bytes.begin());
  const uint64_t sum = hash64({reinterpret_cast<const char*>(bytes.data()), bytes.size() - 4});
  for (size_t i = 0; i < 4; ++i) bytes[bytes.size() - 4 + i] = static_cast<uint8_t>(sum >> (8 * i));
  attempt([&] {
    if (control::UniqueId::from_bytes(bytes).to_bytes().size() != bytes.size())
      defect("a unique id has another length");
  });
}

void read_table(const std::string& text) {
  static constexpr Rank kHosts[] = {0, 0, 1, 1};
  const select::CostInputs inputs{.ranks = 4, .groups = std::make_shared<const plan::Grouping>(kHosts)};
  attempt([&] {
    const auto table = select::DecisionTable::parse(text, inputs);
    if (select::DecisionTable::parse(table.text(), inputs).text() != table.text()) {
      defect("a table is not what it was written from");
    }
    for (int i = 0; i < kCollectives; ++i) {
      attempt([&] { table.row(static_cast<Collective>(i), 1 << 20, {DType::F32, Op::PreMulSum}); });
    }
  });
}

/// What clients of a process's pages send, in two parts: it makes no difference where they part.
void read_requests(const std::string& text) {
  attempt([&] { parse_http(text); });
  const size_t part = text.empty() ? 0 : static_cast<unsigned char>(text[0]) % text.size();
  std::string whole_replies, replies;
  control::ras::Session whole, parted;
  const auto end = whole.take(text, whole_replies);
  auto now = parted.take(text.substr(0, part), replies);
  if (now == control::ras::Session::Then::Listen) now = parted.take(text.substr(part), replies);
  if (now != end || replies != whole_replies) defect("a session depends on how its bytes come");
}

void read_texts(const std::string& text) {
  attempt([&] { parse_cores(text); });
  attempt_json([&] { whole_number(parse_shallow_json(text)); });
  read_id(text);
  read_table(text);
  attempt([&] { select::read_synthesised(text, {}, 4); });
  read_requests(text);
}

/// What ranks say of their calls, compared with each other, again and again as if time went on.
void judge_timings(const std::string& bytes) {
  attempt([&] {
    auto timing = unpack_fields<control::ProcessTiming>(bytes);
    std::vector<const control::RankTiming*> ranks;
    std::vector<std::string> hosts;
    for (const control::RankTiming& rank : timing.ranks) {
      ranks.push_back(&rank);
      hosts.push_back(rank.rank % 2 == 0 ? "a" : "b");
    }
    control::SlowRanks slow_ranks(0.03);
    control::SlowLinks slow_links(hosts);
    for (uint64_t i = 1; i <= 5 * control::SlowRanks::kSlices; ++i) {
      slow_ranks.take(ranks);
      slow_links.take(ranks);
      for (control::RankTiming& rank : timing.ranks) {
        rank.now += 1'000'000'000;
        for (uint64_t& number : rank.numbers) number += 10;
        for (uint64_t& left : rank.left) left += 1'000'000'000;
        for (uint64_t& in_calls : rank.in_calls) in_calls += rank.thread % 1'000'000'000;
        for (control::LinkTiming& link : rank.links) link.sent += uint64_t{link.lane} << 20, link.busy += 900'000'000;
      }
    }
    slow_ranks.found();
    slow_links.found();
  });
}

/// Replies of call boards.
void read_answers(const std::string& bytes) {
  if (const auto board = comm::CallBoard::parse(bytes)) {
    if (board->spec) comm::describe(*board->spec);
    if (board->last) comm::describe(*board->last);
  }
  comm::CallBoard::parse_blocks(bytes);
  attempt([&] {
    control::JobProcess process{.host = "b", .state = control::JobProcess::State::Answers};
    process.status = unpack_fields<control::ProcessStatus>(bytes);
    const control::JobStatus job{.host = "a", .processes = {process, process}};
    control::to_json(job);
    control::ras::to_json(control::ras::job_of(job), "");
    control::ras::to_text(control::ras::job_of(job), true);
  });
  attempt([&] { control::open_metrics({unpack_fields<control::ProcessMetrics>(bytes)}); });
  judge_timings(bytes);
  constexpr uint64_t kThisProcess = 1;
  control::WaitTable waits;
  attempt([&] {
    waits.learn(kThisProcess, bytes, 1);
    const control::WaitsReply reply = waits.learn(kThisProcess, bytes, 2);
    const control::WaitGraph graph = waits.graph(kThisProcess);
    graph.stuck(reply.ticket);
    graph.follow(reply.ticket);
  });
}

/// Receives `bytes` in pieces of `piece`; reads and consumes each message. With two streams the first byte of a piece
/// says to which of them the rest of it goes.
void receive(std::string_view bytes, size_t piece, size_t streams) {
  using namespace link;
  transports::tcp::Receiver receiver(1, 0);
  std::vector<Fd> ours;
  for (size_t i = 0; i < streams; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) return;
    ours.emplace_back(ends[0]);
    receiver.attach(Fd(ends[1]));
  }
  InLink in = receiver.link();
  uint64_t sum = 0;
  for (bool ok = true; ok && !bytes.empty();) {
    uint32_t stream = 0;
    if (streams > 1) {
      stream = static_cast<uint32_t>(static_cast<unsigned char>(bytes.front()) % streams);
      bytes.remove_prefix(1);
    }
    const ssize_t sent = send(ours[stream].get(), bytes.data(), std::min(piece, bytes.size()), MSG_NOSIGNAL);
    if (sent > 0) bytes.remove_prefix(static_cast<size_t>(sent));
    receiver.wake(stream, false);
    bool moved = false;
    ok = receiver.progress(moved).ok();
    Header header;
    Arrival arrival;
    while (HostWire::poll(in, header, arrival) == Poll::Ready) {
      if (header.length > transports::tcp::kMaxMessage) defect("a message longer than any");
      for (uint64_t i = 0; i < header.length; ++i) sum += arrival.data[i];
      HostWire::consume(in, arrival);
    }
  }
  if (sum == UINT64_MAX) defect("this cannot be");
}

/// The writer is hostile: the reader follows bytes of the arena.
void read_link(std::string_view bytes) {
  using namespace link;
  LinkMemory memory{};
  std::memcpy(static_cast<void*>(&memory), bytes.data(), std::min(bytes.size(), sizeof memory));
  std::vector<unsigned char> arena(1000);
  HostReader host{.memory = &memory};
  InLink in{.ring = memory.ring,
            .consumed = &memory.consumed,
            .arena = arena.data(),
            .arena_bytes = arena.size(),
            .peer = 1,
            .host = &host};
  for (int turn = 0; turn < 64; ++turn) {
    Header header;
    Arrival arrival;
    if (HostWire::poll(in, header, arrival) != Poll::Ready) break;
    if (arrival.where == Where::Inline || arrival.where == Where::Offset) {
      const unsigned char* begin = arrival.where == Where::Inline ? memory.ring : arena.data();
      const size_t size = arrival.where == Where::Inline ? sizeof memory.ring : arena.size();
      if (arrival.data < begin || header.length > size ||
          static_cast<size_t>(arrival.data - begin) > size - header.length)
        defect("a message outside of its arena");
    }
    HostWire::consume(in, arrival);
  }
  constexpr uint64_t kTiles = 7;
  HostCooperativeWire::offer(in, kTiles, {});
  uint64_t next = 0;
  for (int turn = 0; turn < 100; ++turn) {
    Tiles tiles{};
    if (HostCooperativeWire::claim_front(in, tiles) != TileStatus::Claimed) break;
    if (tiles.first != next || tiles.first + tiles.count > kTiles) defect("tiles that the message does not have");
    next += tiles.count;
  }
}

/// The reader is hostile: a writer copies only tiles that lie within the message.
void write_link(std::string_view bytes) {
  using namespace link;
  LinkMemory memory{};
  HostWriter writer{.memory = &memory};
  OutLink out{.ring = memory.ring, .consumed = &memory.consumed, .peer = 1, .host = &writer};
  std::vector<unsigned char> payload(1 << 20);
  for (int turn = 0; turn < 16; ++turn) {
    if (HostWire::can_publish(out)) HostWire::publish_zcopy(out, 1, payload.data(), payload.size() - 17 * turn);
    std::memcpy(static_cast<void*>(&memory.consumed), bytes.data(),
                std::min(bytes.size(), sizeof memory.consumed + sizeof memory.offer));
    bytes.remove_prefix(std::min<size_t>(bytes.size(), 16));
    HostWire::refresh(out);
    if (out.acked > out.next) defect("more was read than written");
    OfferCopy offered;
    Tiles tiles{};
    if (HostCooperativeWire::find_offer(out, offered) && HostCooperativeWire::claim_back(out, offered, tiles)) {
      const uint64_t all = tiles_of(offered.message.bytes);
      if (tiles.first > all || tiles.count > all - tiles.first) defect("a claim beyond the message");
      HostCooperativeWire::finish(out);
    }
    if (HostCooperativeWire::find_early_offer(out, 1, 65536, 0, offered) &&
        HostCooperativeWire::claim_all(out, 65536)) {
      HostCooperativeWire::withdraw(out);
    }
  }
}

}  // namespace
}  // namespace tutti

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tutti;
  if (size == 0) return 0;
  const std::string rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
    case 0: {
      using namespace control;
      read_messages<Register, OpenStream, Ask, Fetch, Withdraw, Accepted, Refused, Reply, IdReply, Table, Exchange,
                    Gathered, Missing, TransferCounts, MembershipUpdate, Done, Report, LeaveNotice, Fail, BoardAsk,
                    BoardReply, Ping, OpenTrunk, OpenChannel, Carried, CloseChannel, JoinJob, MemberReady, NotAdmitted,
                    JobWelcome, MakeId, MadeId, Generation, JobNotice>(rest);
      break;
    }
    case 1:
      read_texts(rest);
      break;
    case 2:
      receive(rest, 1 + data[0] / 6U % 21U * 40U, data[0] < 126 ? 1 : 2);
      break;
    case 3:
      read_link(rest);
      break;
    case 4:
      write_link(rest);
      break;
    default:
      read_answers(rest);
  }
  return 0;
}
