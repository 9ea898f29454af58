// shm against a hostile peer: forged answers, descriptors and requests.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/env.hpp"
#include "link/mapped_memory.hpp"
#include "transports/ends.hpp"
#include "transports/fixtures.hpp"

namespace tutti::test {
namespace {

using link::Descriptor;
using link::LinkMemory;
using link::Segment;
using transports::Wireup;

std::pair<Code, std::string> connecting_to(FakeWireup& liar, const Wireup::Service& service) {
  liar.serve("shm", service);
  FakeWireup wireup(liar.name(), 1, 2);
  const Segment memory = Segment::create(1 << 20);
  link::Arena arena(memory.base(), memory.bytes());
  const auto transport = make_by_name("shm", {.wireup = &wireup, .arena = &arena, .arena_file = memory.file()});
  try {
    transport->connect_in(0, 0, Deadline::in(5));
  } catch (const Error& error) {
    return {error.code(), error.what()};
  }
  return {Code::Ok, ""};
}

struct Answer {
  uint64_t magic = 0x326d6873'69747574, arena_offset = 0, arena_bytes, link;
  std::string bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};

TEST(Shm, RefusesInvalidAnswers) {
  RankGroup group(2, false);
  FakeWireup liar(group.job(), 0, 2);
  const Segment arena = Segment::create(1 << 20);
  const auto answer = [&](const std::string& bytes, bool with_fd) {
    return connecting_to(liar, [&, bytes, with_fd](Rank, const std::string&) {
      return Wireup::Reply{bytes, Fd(with_fd ? ::dup(arena.file()->get()) : -1)};
    });
  };
  EXPECT_EQ(answer(Answer{.arena_bytes = 1 << 20, .link = 1024}.bytes(), true).first, Code::Ok);
  const auto [code, text] = answer("no \x01 more\nroom", false);
  EXPECT_EQ(code, Code::PeerFailed);
  EXPECT_NE(text.find("rank 0 made no link: no ? more room"), std::string::npos) << text;
  EXPECT_EQ(answer(Answer{.magic = 1, .arena_bytes = 1 << 20, .link = 0}.bytes(), true).first, Code::PeerFailed);
  EXPECT_EQ(answer(Answer{.arena_bytes = 1 << 20, .link = 0}.bytes(), false).first, Code::ProtocolError);
  EXPECT_EQ(answer(Answer{.arena_bytes = 2 << 20, .link = 0}.bytes(), true).first, Code::ProtocolError);
  for (const uint64_t offset : {uint64_t{1}, uint64_t{4096}, uint64_t{1} << 20, ~uint64_t{4095}}) {
    const Answer there{.arena_offset = offset, .arena_bytes = 1 << 20, .link = 0};
    EXPECT_EQ(answer(there.bytes(), true).first, Code::ProtocolError) << offset;
  }
  const Answer second_half{.arena_offset = 1 << 19, .arena_bytes = 1 << 19, .link = 1024};
  EXPECT_EQ(answer(second_half.bytes(), true).first, Code::Ok);
  for (const uint64_t link : {uint64_t{1}, uint64_t{8}, uint64_t{(1 << 20) - 128}, uint64_t{1 << 20}, ~uint64_t{127}}) {
    EXPECT_EQ(answer(Answer{.arena_bytes = 1 << 20, .link = link}.bytes(), true).first, Code::ProtocolError) << link;
  }
}

TEST(Shm, AnswersAnInvalidRequest) {
  RankGroup group(2, false);
  TestRank self(group, 0, ShmThreads::make);
  FakeWireup liar(group.job(), 1, 2);
  for (const char* request : {"", "x", "a longer request than there is"}) {
    const Wireup::Reply reply = liar.ask(0, "shm", request, Deadline::in(5));
    EXPECT_EQ(reply.bytes, "the request is invalid");
    EXPECT_FALSE(reply.fd);
  }
}

TEST(Shm, ReadsByCmaOnlyWhereItHasReadTheRightWord) {
  RankGroup group(2, false);
  TestRank self(group, 0, ShmThreads::make);
  const volatile uint64_t word = 0x1122334455667788;
  const auto address = reinterpret_cast<uint64_t>(&word);
  const auto reads = [&](const transports::Word& peers) { return self.transport->capabilities(1, peers).reads; };
  EXPECT_EQ(reads({address, word}), transports::ReadAccess::Cma);
  EXPECT_EQ(reads({address, word + 1}), transports::ReadAccess::None) << "another process has its number";
  EXPECT_EQ(reads({8, word}), transports::ReadAccess::None);
  EXPECT_EQ(reads({0, 0}), transports::ReadAccess::None) << "the peer wants none";
}

TEST(Shm, UsesNeitherCmaNorMappingsWithoutDirectAccess) {
  RankGroup group(2, false);
  FakeWireup wireup(group.job(), 0, 2);
  const Segment memory = Segment::create(1 << 20);
  link::Arena arena(memory.base(), memory.bytes());
  const auto access = [&](bool direct) {
    const auto transport =
        make_by_name("shm", {.wireup = &wireup, .arena = &arena, .arena_file = memory.file(), .direct_access = direct});
    return transport->capabilities(1, {}).out;
  };
  EXPECT_TRUE(access(true).cma && access(true).mapped && access(true).cooperative);
  EXPECT_FALSE(access(false).cma || access(false).mapped || access(false).cooperative);
}

/// A link whose writer answers "shm-map" requests with the given reply.
struct MappedLink {
  explicit MappedLink(const Wireup::Service& service) : liar(group.job(), 0, 2), wireup(group.job(), 1, 2) {
    liar.serve("shm", [this](Rank, const std::string&) {
      return Wireup::Reply{Answer{.arena_bytes = 1 << 20, .link = 0}.bytes(), Fd(::dup(memory.file()->get()))};
    });
    liar.serve("shm-map", service);
    transport = make_by_name("shm", {.wireup = &wireup, .arena = &arena, .arena_file = memory.file(), .calls = &calls});
    in = transport->connect_in(0, 0, Deadline::in(5));
  }
  int error_at(uint64_t id, uint64_t offset, uint64_t bytes) const {
    int error = 0;
    const unsigned char* const found = in.host->mappings->find(id, offset, bytes, error);
    EXPECT_EQ(found == nullptr, error != 0);
    return error;
  }

  RankGroup group{2, false};
  FakeWireup liar, wireup;
  const Segment memory = Segment::create(1 << 20);
  link::Arena arena{memory.base(), memory.bytes()};
  uint64_t calls = 0;
  std::unique_ptr<transports::Transport> transport;
  link::InLink in;
};

std::string map_answer(uint64_t bytes, uint64_t magic = Answer{}.magic) {
  const uint64_t words[2] = {magic, bytes};
  return {reinterpret_cast<const char*>(words), sizeof words};
}

TEST(Shm, MapsARegionOnceAndReadsNothingOutsideIt) {
  const Segment theirs = Segment::create(8192);
  theirs.base()[100] = 42;
  int asked = 0;
  const MappedLink link([&](Rank, const std::string&) {
    ++asked;
    return Wireup::Reply{map_answer(8192), Fd(::dup(theirs.file()->get()))};
  });
  int error = 0;
  const unsigned char* const found = link.in.host->mappings->find(1, 100, 8092, error);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(*found, 42);
  EXPECT_EQ(link.error_at(1, 0, 8192), 0);
  EXPECT_EQ(link.error_at(1, 8192, 0), 0);
  EXPECT_EQ(asked, 1);
  for (const auto& [offset, bytes] :
       {std::pair<uint64_t, uint64_t>{0, 8193}, {8193, 0}, {1, 8192}, {~uint64_t{0}, 2}, {2, ~uint64_t{0}}}) {
    EXPECT_EQ(link.error_at(1, offset, bytes), EFAULT) << bytes << " bytes at " << offset;
  }
}

TEST(Shm, UnmapsNoRegionThatTheCallMayBeReading) {
  const Segment theirs = Segment::create(8192);
  int asked = 0;
  MappedLink link([&](Rank, const std::string&) {
    ++asked;
    return Wireup::Reply{map_answer(8192), Fd(::dup(theirs.file()->get()))};
  });
  int error = 0;
  const unsigned char* const first = link.in.host->mappings->find(1, 0, 8192, error);
  constexpr uint64_t kMany = 200;
  for (uint64_t id = 2; id <= kMany; ++id) EXPECT_EQ(link.error_at(id, 0, 1), 0);
  EXPECT_EQ(link.in.host->mappings->find(1, 0, 8192, error), first);
  EXPECT_EQ(asked, kMany) << "region 1 was unmapped";

  ++link.calls;  // nothing of the last call is read any more
  EXPECT_EQ(link.error_at(kMany + 1, 0, 1), 0);
  EXPECT_EQ(link.error_at(2, 0, 1), 0);
  EXPECT_EQ(asked, kMany + 2) << "region 2 is still mapped, and so are all that were ever seen";
}

TEST(Shm, MapsABoundedNumberOfRegionsInOneCall) {
  const Segment theirs = Segment::create(4096);
  MappedLink link([&](Rank, const std::string&) {
    return Wireup::Reply{map_answer(4096), Fd(::dup(theirs.file()->get()))};
  });
  uint64_t id = 1;
  while (id < 100000 && link.error_at(id, 0, 1) == 0) ++id;
  EXPECT_LT(id, 10000U);
  EXPECT_EQ(link.error_at(id, 0, 1), ENOBUFS);
  EXPECT_EQ(link.error_at(1, 0, 1), 0);
  ++link.calls;
  EXPECT_EQ(link.error_at(id, 0, 1), 0);
}

TEST(Shm, RefusesInvalidRegions) {
  const Segment theirs = Segment::create(8192);
  const auto error_of = [&](const std::string& bytes, bool with_fd) {
    const MappedLink link([&](Rank, const std::string&) {
      return Wireup::Reply{bytes, Fd(with_fd ? ::dup(theirs.file()->get()) : -1)};
    });
    return link.error_at(1, 0, 1);
  };
  EXPECT_EQ(error_of("there is no such region", false), ENOENT);
  EXPECT_EQ(error_of(map_answer(8192, 1), true), ENOENT);
  EXPECT_EQ(error_of(map_answer(8192), false), EPROTO);
  EXPECT_EQ(error_of(map_answer(1 << 20), true), EPROTO) << "the stated size is too large";
  EXPECT_EQ(error_of(map_answer(100), true), EPROTO);
  EXPECT_EQ(error_of(map_answer(~uint64_t{0}), true), EPROTO);
}

TEST(Shm, ExportsOnlyExistingRegions) {
  RankGroup group(2, false);
  TestRank self(group, 0, ShmThreads::make);
  FakeWireup asker(group.job(), 1, 2);
  auto& mine = link::SharedMemory::of_this_process();
  void* const data = mine.allocate(1 << 20);
  const uint64_t id = mine.find(data, 1).id;
  const auto ask = [&](uint64_t of) {
    return asker.ask(0, "shm-map", {reinterpret_cast<const char*>(&of), sizeof of}, Deadline::in(5));
  };
  EXPECT_TRUE(ask(id).fd);
  EXPECT_FALSE(ask(0).fd);
  EXPECT_FALSE(ask(id + 1).fd);
  EXPECT_EQ(asker.ask(0, "shm-map", "short", Deadline::in(5)).bytes, "the request is invalid");
  mine.release(data);
  EXPECT_FALSE(ask(id).fd);
}

TEST(Shm, NamesTheLinkThatHasNoRoomInTheArena) {
  RankGroup group(2, false);
  TestRank self(group, 0, ShmThreads::make);
  const auto fill = [&] {
    for (uint32_t link_lane = 0; link_lane < 10000; ++link_lane)
      self.transport->connect_out(1, link_lane, Deadline::in(5));
  };
  EXPECT_THROW(fill(), Error);
  TestRank other(group, 1, ShmThreads::make);
  try {
    other.transport->connect_in(0, 20000, Deadline::in(5));
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 0 made no link: no room"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("raise TUTTI_ARENA"), std::string::npos) << error.what();
  }
}

TEST(Shm, AnswersForItsLinksAfterTheWriterHasLeft) {
  RankGroup group(2, false);
  TestRank writing(group, 0, ShmThreads::make), reading(group, 1, ShmThreads::make);
  Writer writer(writing, 1, 0, 100);
  writer.write(7, payload_of(1, 100));
  writing.transport.reset();
  Reader reader(reading, 0, 0);
  reader.read(7, payload_of(1, 100));
  EXPECT_THROW(reading.transport->connect_in(0, 1, Deadline::in(5)), Error) << "a link that was never made";
}

TEST(Shm, SaysWhyItCannotReachARank) {
  RankGroup group(2, false);
  TestRank self(group, 0, ShmThreads::make);
  EXPECT_TRUE(self.transport->probe(1).ok);
  const auto without = make_by_name("shm", {.wireup = &self.wireup, .arena = &self.arena});
  EXPECT_FALSE(without->probe(1).ok);
  EXPECT_NE(without->probe(1).why_not.find("not shared memory"), std::string::npos);
  EXPECT_THROW(without->connect_out(1, 0, Deadline::in(1)), Error);
}

/// A reader rejects any forged content of the shared memory and reads nothing outside it.
TEST(Shm, RejectsForgedDescriptors) {
  RankGroup group(2, false);
  TestRank writing(group, 0, ShmThreads::make), reading(group, 1, ShmThreads::make);
  link::OutLink out = writing.transport->connect_out(1, 0, Deadline::in(5));
  const link::InLink in = reading.transport->connect_in(0, 0, Deadline::in(5));
  const uint64_t all = writing.memory.bytes();
  struct Forged {
    uint64_t sequence, tag, length, where;
    bool bad = true;
  };
  const Forged cases[] = {{1, 2, 8, all - 8, false},
                          {1, 2, 9, all - 8},
                          {1, 2, 0, all + 1},
                          {1, 2, ~uint64_t{0}, 8},
                          {1, 2, 8, ~uint64_t{0}},
                          {1, 1, 41, 0},
                          {1, 3, 8, 4096},
                          {1, 4, 8, 0, false},
                          {1, 5, 8, 0},
                          {1, 0, 8, 0},
                          {2, 1, 8, 0},
                          {9, 1, 8, 0}};
  uint64_t state = 1;
  std::vector<Forged> all_cases(std::begin(cases), std::end(cases));
  for (int i = 0; i < 20000; ++i) {  // random bytes: an accepted payload lies within bounds
    uint64_t word[4];
    for (uint64_t& w : word) {
      state = state * 6364136223846793005 + 1442695040888963407;
      w = state >> (state >> 58);
    }
    all_cases.push_back({1, word[0], word[1], word[2], false});
  }
  for (const Forged& forged : all_cases) {
    Descriptor* const to = link::slot(out.ring, 0);
    to->tag = forged.tag;
    to->length = forged.length;
    to->where = forged.where;
    link::HostMemory::store_release(&to->sequence, forged.sequence);
    link::Header header{};
    link::Arrival arrival;
    const link::Poll poll = HostWire::poll(in, header, arrival);
    if (forged.bad) {
      EXPECT_EQ(poll, link::Poll::Bad) << forged.tag << ' ' << forged.length << ' ' << forged.where;
    } else if (poll == link::Poll::Ready && arrival.where == link::Where::Offset) {
      ASSERT_GE(arrival.data, in.arena);
      ASSERT_LE(arrival.data + header.length, in.arena + in.arena_bytes);
    }
  }
}

}  // namespace
}  // namespace tutti::test
