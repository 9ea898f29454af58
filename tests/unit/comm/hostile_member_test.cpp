// A member that knows the key and sends what no rank of this library sends: the others get an error, and nothing worse.
#include <gtest/gtest.h>
#include <poll.h>

#include <future>
#include <limits>

#include "base/version.hpp"
#include "comm/communicator.hpp"
#include "comm/rank_report.hpp"
#include "control/bootstrap/dial.hpp"
#include "control/control_thread.hpp"
#include "control/exchange_purpose.hpp"

namespace tutti::comm {
namespace {

WaitLimit patient() { return {Deadline::in(30), nullptr}; }

/// Acts as rank `rank` of two; the other rank is a communicator that joins.
class HostileMember {
 public:
  /// Joins with `info`; empty: a correct one.
  explicit HostileMember(Rank rank, std::string info = "") {
    control::Register request;
    request.version = version();
    request.ranks = 2;
    request.rank = rank;
    request.wait_ms = 30000;
    request.me = control::ControlThread::get().local_member();
    request.me.host = "elsewhere";
    request.me.info = info.empty() ? info_of_ours() : std::move(info);
    joining_ = std::async(std::launch::async, [this, rank] { return join(id_, 1 - rank); });
    fd_ = control::dial({Address::loopback()}, id_.port, id_.key, patient());
    send_all(fd_.get(), control::pack(request), patient());
  }
  /// Contributes `text` to the next exchange.
  void give(const std::string& text) {
    const control::Kind before = exchanges_ == 0 ? control::Kind::Table : control::Kind::Gathered;
    while (control::kind_of(control::receive_frame(fd_.get(), control::kMaxFromServer, patient())) != before) {
    }
    control::Exchange exchange;
    exchange.number = exchanges_++;
    exchange.wait_ms = 30000;
    exchange.what = control::ExchangePurpose{}.what;
    exchange.bytes = text;
    send_all(fd_.get(), control::pack(exchange), patient());
  }
  /// The error of the other rank, or "joined".
  std::string outcome() {
    try {
      while (control::kind_of(control::receive_frame(fd_.get(), control::kMaxFromServer, patient())) !=
             control::Kind::Fail) {
      }
    } catch (const Error&) {  // it has closed already
    }
    fd_.reset();  // else it would wait for this member to leave
    return joining_.get();
  }

 private:
  static std::string join(const control::UniqueId& id, Rank rank) {
    try {
      Communicator::join(id, 2, rank)->leave().throw_if_bad();
    } catch (const Error& error) {
      return error.what();
    }
    return "joined";
  }
  /// Listens like a rendezvous server, to receive a rank's registration.
  static std::string info_of_ours() {
    const Fd listener = listen_tcp(0);
    control::UniqueId id = control::create_unique_id();
    control::release_unique_id(id);
    id.port = port_of(listener.get());
    auto joining = std::async(std::launch::async, [&] { return join(id, 0); });
    await_ready(listener.get(), POLLIN, patient());
    const Fd fd = accept_now(listener.get());
    const auto hello = challenge::make_hello();
    send_all(fd.get(), {reinterpret_cast<const char*>(&hello), sizeof hello}, patient());
    challenge::Claim claim;
    recv_all(fd.get(), &claim, sizeof claim, patient());
    const auto proof = challenge::make_proof(id.key, hello, claim);
    send_all(fd.get(), {reinterpret_cast<const char*>(&proof), sizeof proof}, patient());
    auto request =
        control::unpack<control::Register>(control::receive_frame(fd.get(), control::kMaxFirstFrame, patient()));
    send_all(fd.get(), control::pack(control::Refused{Code::PeerFailed, "that is all"}), patient());
    joining.get();
    return request.me.info;
  }

  const control::UniqueId id_ = control::create_unique_id();
  std::future<std::string> joining_;
  Fd fd_;
  uint32_t exchanges_ = 0;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

RankReport report() {
  RankReport report;
  report.fabric.staging = report.fabric.longest = 1 << 20;
  report.fabric.cores = "0";
  report.host = "elsewhere";
  return report;
}
ConclusionsPage conclusion(std::string table = "") {
  const link::LinkCost link{1e-6, 1e-10, 1e-7, true};
  return {
      .conclusions = {transports::ReadAccess::None, false}, .table = std::move(table), .inside = link, .between = link};
}
std::string nested(size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

/// What our rank says of a table that rank 0 sends.
std::string answer_to(const std::string& table) {
  HostileMember member(0);
  member.give(pack_fields(report()));
  member.give("");  // our rank describes its host
  member.give(pack_fields(conclusion(table)));
  return member.outcome();
}

TEST(HostileMember, DeeplyNestedTextsAreRejected) {
  constexpr size_t kDeep = 400000;
  HostileMember in_its_info(1, R"({"version":)" + nested(kDeep) + "}");
  EXPECT_TRUE(contains(in_its_info.outcome(), "nested deeper than 16"));
  const std::string said = answer_to(R"({"rows":)" + nested(kDeep) + "}");
  EXPECT_TRUE(contains(said, "decision table cannot be read") && contains(said, "nested deeper than 16")) << said;
}

TEST(HostileMember, SynthesisedPlansThatAreWrongAreRejected) {
  for (const std::string& text : {std::string("{"), nested(400000), std::string(R"({"format":"tutti-synthesised"})")}) {
    HostileMember member(0);
    member.give(pack_fields(report()));
    member.give("");  // our rank describes its host
    ConclusionsPage page = conclusion("{}");
    page.synthesised = text;
    member.give(pack_fields(page));
    const std::string said = member.outcome();
    EXPECT_TRUE(contains(said, "rank 0's synthesised plans cannot be used: ")) << said;
  }
}

TEST(HostileMember, AChoiceThatDoesNotExistIsRejected) {
  HostileMember member(0);
  member.give(pack_fields(report()));
  member.give("");  // our rank describes its host
  ConclusionsPage page = conclusion();
  page.conclusions.reading = static_cast<transports::ReadAccess>(3);
  member.give(pack_fields(page));
  const std::string said = member.outcome();
  EXPECT_TRUE(contains(said, "one of a few choices")) << said;
}

TEST(HostileMember, InvalidReportsAreRejected) {
  RankReport odd = report(), fast = report();
  odd.crowding = 1e300;
  fast.fabric.most = std::numeric_limits<double>::infinity();
  const std::string right = pack_fields(report());
  for (const std::string& bytes :
       {std::string(), right.substr(1), right + "x", std::string(1000, '\xff'), pack_fields(odd), pack_fields(fast)}) {
    HostileMember member(1);
    member.give(bytes);
    EXPECT_TRUE(contains(member.outcome(), "the report of rank 1 is invalid"));
  }
  HostileMember member(1);
  member.give(right);
  member.give(pack_fields(conclusion()) + "x");
  EXPECT_TRUE(contains(member.outcome(), "the report of rank 1 is invalid"));
}

constexpr const char* kRow = R"(["all_reduce",0,1000,["ring","lanes",1024,1,0]])";

/// A decision table with this row, this order, and orders of collectives' own, else a right one.
std::string table(const std::string& row, const std::string& order = "[]", const std::string& own_orders = "{}") {
  return R"({"rows":[)" + row + R"(],"direct":["direct","lanes",1024,1,0],"rules":[[1,2,3,4,5]],"order":)" + order +
         R"(,"own_orders":)" + own_orders + R"(,"groups":[],"partial":"","round_each":false})";
}

TEST(HostileMember, ARightTableIsRead) {  // else the others would be refused for what they have in common
  const select::CostInputs inputs{.ranks = 2,
                                  .groups = std::make_shared<const plan::Grouping>(std::vector<Rank>{0, 0})};
  const auto read = select::DecisionTable::parse(table(kRow, "[1,0]", R"({"all_reduce":[0,1]})"), inputs);
  EXPECT_EQ(read.own_orders().size(), 1u);
}

/// Rank 0 provides the decision table. A rank has no plan if the algorithm does not support the number of ranks.
TEST(HostileMember, AnUnusableRowIsRejected) {
  for (const char* row :
       {R"(["all_reduce",0,1000,["ring","lanes",18446744073709551615,1,0]])",
        R"(["all_reduce",0,1000,["ring","lanes",0,1,0]])", R"(["all_reduce",0,1e300,["ring","lanes",1024,1,0]])",
        R"(["nothing",0,1000,["ring","lanes",1024,1,0]])", R"(["all_reduce",0,1000,["no","lanes",1024,1,0]])",
        R"(["all_reduce",0,1000,["ring","no",1024,1,0]])", R"(["all_reduce",0,1000,["ring","nvls",1024,1,0]])",
        R"(["all_reduce",0,1000,["ring","lanes",1024,0,0]])", R"(["all_reduce",0,1000,["ring","lanes",1024,5000,0]])",
        R"(["all_reduce",0,1000,["ring","lanes",1024,1,1]])", R"(["all_reduce",9,1000,["ring","lanes",1024,1,0]])",
        R"(["all_reduce",0,1000,["direct","lanes",1024,1,0]])",
        R"(["all_reduce",0,9,["ring","lanes",1024,1,0]],["all_reduce",0,8,["ring","lanes",1024,1,0]])"}) {
    const std::string said = answer_to(table(row));
    EXPECT_TRUE(contains(said, "decision table cannot be read")) << row << ": " << said;
  }
}

TEST(HostileMember, AnOrderThatIsNoneIsRejected) {
  for (const char* order : {"[0,0]", "[0,1,2]", "[1]", "[0,-1]", "[0,1e300]", "[0,4000000000]", "7"}) {
    const std::string said = answer_to(table(kRow, order));
    EXPECT_TRUE(contains(said, "decision table cannot be read")) << order << ": " << said;
  }
  for (const char* own : {R"({"all_reduce":[0,0]})", R"({"nothing":[0,1]})", R"({"all_reduce":7})", "[[0,1]]", "7"}) {
    const std::string said = answer_to(table(kRow, "[]", own));
    EXPECT_TRUE(contains(said, "decision table cannot be read")) << own << ": " << said;
  }
}

}  // namespace
}  // namespace tutti::comm
