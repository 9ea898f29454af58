#include "control/messages.hpp"

#include <gtest/gtest.h>

#include <random>

#include "control/elastic/messages.hpp"

namespace tutti::control {
namespace {

std::string body_of(const std::string& frame) { return frame.substr(4); }

Member make_member(int number) {
  Member member;
  member.host = "host identity";
  member.process = 4711;
  member.started = 123456789012345;
  member.nonce = 0xfedcba9876543210;
  member.host_name = "node" + std::to_string(number);
  member.addresses = {Address::loopback(), {6, {0xfd, 1, 2, 3}}};
  member.port = 65535;
  member.unix_name = "tutti-0123";
  member.info = std::string("any\0bytes", 9);
  return member;
}

Table make_table() {
  Table table;
  for (int i = 0; i < 3; ++i) table.members.push_back(make_member(i));
  table.title = "trainers";
  return table;
}

/// Reads `body` as every kind of message: the result is a message or an Error(ProtocolError).
template <class... Messages>
void read_as_all(const std::string& body) {
  const auto read = [&](auto message) {
    using M = decltype(message);
    std::string copy = body;
    if (!copy.empty()) copy[0] = static_cast<char>(M::kKind);
    try {
      unpack<M>(copy);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::ProtocolError) << error.what();
    }
  };
  (read(Messages{}), ...);
}
void read_as_everything(const std::string& body) {
  read_as_all<Register, OpenStream, Ask, Fetch, Accepted, Refused, Reply, IdReply, Welcome, Table, Exchange, Gathered,
              TransferCounts, MembershipUpdate, Done, Report, LeaveNotice, Fail, BoardAsk, BoardReply, Ping, OpenTrunk,
              OpenChannel, Carried, CloseChannel, JoinJob, MemberReady, NotAdmitted, JobWelcome, MakeId, MadeId,
              Generation, JobNotice>(body);
}

TEST(Messages, ATableIsReadAsWritten) {
  const Table sent = make_table();
  const auto got = unpack<Table>(body_of(pack(sent)));
  ASSERT_EQ(got.members.size(), 3u);
  EXPECT_EQ(got.title, "trainers");
  EXPECT_EQ(got.members[2].host_name, "node2");
  EXPECT_EQ(got.members[2].started, sent.members[2].started);
  EXPECT_EQ(got.members[2].nonce, sent.members[2].nonce);
  EXPECT_EQ(got.members[2].addresses, sent.members[2].addresses);
  EXPECT_EQ(got.members[2].info, sent.members[2].info);
  EXPECT_EQ(got.members[2].unix_name, sent.members[2].unix_name);
  EXPECT_EQ(pack(got), pack(sent));
}

TEST(Messages, AWelcomeIsReadAsWritten) {
  const auto got = unpack<Welcome>(body_of(pack(Welcome{10000, make_member(2)})));
  EXPECT_EQ(got.heartbeat_ms, 10000u);
  EXPECT_EQ(got.server.host_name, "node2");
}

TEST(Messages, NumbersKeepTheirSign) {
  const auto got = unpack<OpenStream>(body_of(pack(OpenStream{-1, 70000, "label"})));
  EXPECT_EQ(got.from, -1);
  EXPECT_EQ(got.to, 70000);
  EXPECT_EQ(got.label, "label");
}

TEST(Messages, AFrameBeginsWithItsLength) {
  const std::string frame = pack(LeaveNotice{17, 3, "barrier()", {{5, 2, 1}}});
  const size_t body = 1 + 8 + 8 + 4 + 9 + 4 + 4 + 8 + 8;
  EXPECT_EQ(frame.size(), 4 + body);
  EXPECT_EQ(static_cast<size_t>(frame[0]), body);
  EXPECT_EQ(unpack<LeaveNotice>(body_of(frame)).calls, 17u);
  EXPECT_EQ(unpack<LeaveNotice>(body_of(frame)).last, "barrier()");
  EXPECT_EQ(unpack<LeaveNotice>(body_of(frame)).traffic.at(0).sent, 2u);
}

TEST(Messages, TruncatedAndLongerBodiesAreRejected) {
  const std::string body = body_of(pack(make_table()));
  for (size_t size = 0; size < body.size(); ++size) EXPECT_THROW(unpack<Table>(body.substr(0, size)), Error) << size;
  EXPECT_THROW(unpack<Table>(body + '\0'), Error);
}

TEST(Messages, AWrongKindIsRejected) {
  EXPECT_THROW(unpack<LeaveNotice>(body_of(pack(Ping{}))), Error);
  EXPECT_THROW(unpack<Ping>(std::string()), Error);
}

TEST(Messages, ALengthOverItsLimitIsRejectedBeforeAllocating) {
  std::string body = body_of(pack(Gathered{}));
  for (size_t i = 5; i < 9; ++i) body[i] = static_cast<char>(0xff);
  EXPECT_THROW(unpack<Gathered>(body), Error);
  body[7] = body[8] = 0;  // 65535 texts announced, none sent
  EXPECT_THROW(unpack<Gathered>(body), Error);
}

TEST(Messages, ACompleteTextOverItsLimitIsRejected) {
  std::string body = body_of(pack(OpenStream{0, 1, std::string(64, 'x')}));
  EXPECT_NO_THROW(unpack<OpenStream>(body));
  body[9] = 65;  // after the kind and the two ranks
  EXPECT_THROW(unpack<OpenStream>(body + 'x'), Error);
}

TEST(Messages, ATextOverItsLimitIsNotSent) {
  try {
    pack(OpenStream{0, 1, std::string(65, 'x')});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Code::InvalidArgument);
  }
}

TEST(Messages, RandomBytesAreAtMostAnError) {
  std::mt19937 random(7);
  const std::string good = body_of(pack(make_table()));
  for (int round = 0; round < 500; ++round) {
    std::string noise(random() % 200, '\0');
    for (char& c : noise) c = static_cast<char>(random() % (round % 2 ? 256 : 4));  // small numbers are parsed further
    read_as_everything(noise);
    std::string changed = good;
    for (int i = 0; i < 3; ++i) changed[random() % changed.size()] = static_cast<char>(random());
    read_as_everything(changed);
  }
}

}  // namespace
}  // namespace tutti::control
