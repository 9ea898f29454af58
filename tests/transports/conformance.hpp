// The conformance suite of all transports.
#pragma once

#include <dirent.h>
#include <gtest/gtest.h>

#include <csignal>
#include <deque>

#include "transports/ends.hpp"
#include "transports/rank_group.hpp"

namespace tutti::test {

template <class Fixture>
struct Conformance : testing::Test {
  /// Runs body(self) on every rank.
  template <class Body>
  static void on(Rank ranks, const Body& body, Rank victim = kNoRank) {
    RankGroup group(ranks, Fixture::kProcesses);
    group.run(
        [&](Rank rank) {
          TestRank self(group, rank, Fixture::make);
          group.barrier();
          body(self);
          group.barrier();
        },
        victim);
  }

  /// One link, from rank 0 to rank 1.
  template <class Write, class Read>
  static void one_link(const Write& write, const Read& read) {
    on(2, [&](TestRank& self) {
      if (self.rank == 0) {
        write(self);
      } else {
        read(self);
      }
    });
  }

  static size_t open_descriptors() {
    size_t count = 0;
    DIR* const all = ::opendir("/proc/self/fd");
    while (::readdir(all) != nullptr) ++count;
    ::closedir(all);
    return count;
  }
};

TYPED_TEST_SUITE_P(Conformance);

TYPED_TEST_P(Conformance, CarriesMessagesOfEverySizeInOrder) {
  constexpr uint64_t kLargest = 5 << 19;  // more than half the arena, so it holds one at a time
  std::vector<uint64_t> sizes;
  for (uint64_t size = 0; size <= kInlineBytes + 1; ++size) sizes.push_back(size);
  for (const uint64_t size : {4096UL, 65536UL, 65537UL, 1UL << 20, kLargest, 0UL, kLargest - 1, 3UL}) {
    sizes.push_back(size);
  }
  this->one_link(
      [&](TestRank& self) {
        Writer writer(self, 1, 0, kLargest);
        const uint64_t most = self.transport->longest_message();
        for (uint64_t m = 0; m < sizes.size(); ++m)
          writer.write(link::kTagMask - m, payload_of(m, std::min(sizes[m], most)));
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [&](TestRank& self) {
        Reader reader(self, 0, 0);
        const uint64_t most = self.transport->longest_message();
        for (uint64_t m = 0; m < sizes.size(); ++m)
          reader.read(link::kTagMask - m, payload_of(m, std::min(sizes[m], most)));
      });
}

TYPED_TEST_P(Conformance, CarriesManyMessages) {
  const uint64_t messages = TypeParam::kMessages;
  const auto length = [](uint64_t m) { return m % 5 != 0 ? m % (kInlineBytes + 1) : m % 1000; };
  this->one_link(
      [&](TestRank& self) {
        Writer writer(self, 1, 0, 1000);
        for (uint64_t m = 0; m < messages; ++m) writer.write(m, payload_of(m, length(m)));
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [&](TestRank& self) {
        Reader reader(self, 0, 0);
        for (uint64_t m = 0; m < messages && !testing::Test::HasFatalFailure(); ++m) {
          reader.read(m, payload_of(m, length(m)));
        }
      });
}

TYPED_TEST_P(Conformance, StopsAWriterWhoseReaderLagsAndLosesNothing) {
  for (const uint64_t length : {8UL, 65536UL}) {
    uint64_t written = 0;
    this->on(2, [&](TestRank& self) {
      const auto lead = [&](Writer& writer) {  // as far ahead as the link allows
        const uint64_t bound = (uint64_t{64} << 20) / (length + 64);
        for (int idle = 0; idle < 100 && written < bound; ++idle) {
          while (written < bound && writer.try_write(written, payload_of(written, length))) ++written, idle = 0;
          self.turn();
        }
        EXPECT_LT(written, bound) << "nothing stopped the writer";
      };
      if (self.rank == 0) {
        Writer writer(self, 1, 0, length);
        lead(writer);
        EXPECT_GE(written, length <= kInlineBytes ? kCapacity : writer.room());
        self.group.barrier();
        writer.write(written, payload_of(written, 1));
        ++written;
        writer.write(written, {});  // an empty message ends the test
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      } else {
        self.group.barrier();
        Reader reader(self, 0, 0);
        bool last = false;
        for (uint64_t m = 0; !last; ++m) {
          self.until([&] { return reader.ready(); }, "a message");
          last = reader.length() == 0;
          reader.take(m, last ? Payload{} : payload_of(m, reader.length()));
          ASSERT_FALSE(testing::Test::HasFatalFailure());
        }
      }
    });
  }
}

TYPED_TEST_P(Conformance, LetsEitherEndComeFirst) {
  for (const Rank first : {0, 1}) {
    this->on(2, [&](TestRank& self) {
      if (self.rank != first) self.group.barrier();
      if (self.rank == 0) {
        Writer writer(self, 1, 5, 300);
        if (first == 0) {
          for (uint64_t m = 0; m < writer.room(); ++m) writer.write(m, payload_of(m, m % 7 * 40));
          self.group.barrier();
        }
        for (uint64_t m = first == 0 ? writer.room() : 0; m < 50; ++m) writer.write(m, payload_of(m, m % 7 * 40));
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      } else {
        Reader reader(self, 0, 5);
        if (first == 1) {
          EXPECT_FALSE(reader.ready());
          self.group.barrier();
        }
        for (uint64_t m = 0; m < 50; ++m) {
          reader.read(m, payload_of(m, m % 7 * 40));
        }
      }
    });
  }
}

TYPED_TEST_P(Conformance, KeepsPeersAndLinkLanesApart) {
  constexpr uint32_t kChannels = 3;
  constexpr uint64_t kMessages = 300;
  const auto number = [](Rank from, Rank to, uint32_t link_lane, uint64_t m) {
    return ((static_cast<uint64_t>(from) * 16 + static_cast<uint64_t>(to)) * 16 + link_lane) * kMessages + m;
  };
  const auto length = [](uint64_t m) { return m % 3 * 100; };
  this->on(4, [&](TestRank& self) {
    struct Link {
      Rank from, to;
      uint32_t link_lane;
      uint64_t at = 0;
    };
    std::deque<std::pair<Writer, Link>> writers;
    std::deque<std::pair<Reader, Link>> readers;
    for (Rank peer = 0; peer < self.group.ranks(); ++peer) {
      for (uint32_t link_lane = 0; link_lane < kChannels && peer != self.rank; ++link_lane) {
        writers.emplace_back(Writer(self, peer, link_lane, 200), Link{self.rank, peer, link_lane});
        readers.emplace_back(Reader(self, peer, link_lane), Link{peer, self.rank, link_lane});
      }
    }
    self.until(
        [&] {
          bool done = true;
          for (auto& [writer, link] : writers) {
            const uint64_t id = number(link.from, link.to, link.link_lane, link.at);
            if (link.at < kMessages && writer.try_write(id, payload_of(id, length(link.at)))) ++link.at;
            done &= link.at == kMessages;
          }
          for (auto& [reader, link] : readers) {
            const uint64_t id = number(link.from, link.to, link.link_lane, link.at);
            if (link.at < kMessages && reader.ready()) reader.take(id, payload_of(id, length(link.at++)));
            done &= link.at == kMessages;
          }
          return (done && self.transport->flushed()) || testing::Test::HasFatalFailure();
        },
        "all messages of all links");
  });
}

TYPED_TEST_P(Conformance, ReadsZeroCopyMessagesInPlaceAndConsumesThem) {
  this->one_link(
      [&](TestRank& self) {
        const volatile uint64_t word = 0x1122334455667788;
        std::atomic<int> readable{-1};
        self.wireup.serve("word", [&](Rank, const std::string&) {
          const uint64_t both[2] = {reinterpret_cast<uint64_t>(&word), word};
          return transports::Wireup::Reply{{reinterpret_cast<const char*>(both), sizeof both}, Fd()};
        });
        self.wireup.serve("readable", [&](Rank, const std::string& said) {
          readable = said == "yes" ? 1 : 0;
          return transports::Wireup::Reply{"thanks", Fd()};
        });
        Writer writer(self, 1, 0, 0);
        self.until([&] { return readable >= 0; }, "the reader's try");
        const link::Access out = self.transport->capabilities(1, {}).out;
        if (!out.address && !(out.cma && readable == 1)) {
          writer.write(0, {});
          return self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
        }
        for (uint64_t m = 0; m < 20; ++m) {
          Payload mine = payload_of(m, 300000 + m);
          writer.write_zcopy(m, mine);
          self.until([&] { return writer.returned(); }, "zero-copy memory to be read");
          std::fill(mine.begin(), mine.end(), 0);
        }
        self.until([&] { return self.transport->flushed(); }, "the last bytes to leave");
      },
      [&](TestRank& self) {
        Reader reader(self, 0, 0);
        transports::Word word;
        const std::string said = self.wireup.ask(0, "word", "", Deadline::in(kWaitLimit)).bytes;
        std::memcpy(&word, said.data(), std::min(sizeof word, said.size()));
        const bool reads = self.transport->capabilities(0, word).reads != transports::ReadAccess::None;
        self.wireup.ask(0, "readable", reads ? "yes" : "no", Deadline::in(kWaitLimit));
        self.until([&] { return reader.ready(); }, "the first message");
        if (reader.length() == 0) return;
        for (uint64_t m = 0; m < 20; ++m) reader.read(m, payload_of(m, 300000 + m));
      });
}

TYPED_TEST_P(Conformance, CanBeDestroyedWithMessagesInFlightAndLeavesNothingOpen) {
  const size_t before = this->open_descriptors();
  constexpr bool kMayGiveUp = requires { TypeParam::kGivesUp; };  // what it then logs
  if constexpr (kMayGiveUp) testing::internal::CaptureStderr();
  this->on(3, [&](TestRank& self) {
    const Rank next = (self.rank + 1) % 3, previous = (self.rank + 2) % 3;
    Writer writer(self, next, 0, 100000);
    Reader reader(self, previous, 0);
    for (uint64_t m = 0; writer.try_write(m, payload_of(m, m % 2 * 100000)); ++m) self.turn();
    self.until([&] { return reader.ready(); }, "a message");
    self.group.barrier([&] { self.turn(); });  // another rank may still wait for this one's first message
    if (self.rank != 0) self.transport.reset();
    self.group.barrier();
    if (self.rank == 0) {  // its peers have gone: only errors are allowed
      bool moved = false;
      for (int turn = 0; turn < 10; ++turn) {
        const Status status = self.transport->progress(moved);
        EXPECT_TRUE(status.ok() || status.code == Code::PeerFailed) << status.text;
      }
      self.transport.reset();
    }
  });
  if constexpr (kMayGiveUp) {
    const std::string said = testing::internal::GetCapturedStderr();
    std::fputs(said.c_str(), stderr);
    if (said.find(TypeParam::kGivesUp) != std::string::npos)
      GTEST_SKIP() << "the library below gave up: nothing of it can be closed";
  }
  EXPECT_EQ(this->open_descriptors(), before);
}

REGISTER_TYPED_TEST_SUITE_P(Conformance, CarriesMessagesOfEverySizeInOrder, CarriesManyMessages,
                            StopsAWriterWhoseReaderLagsAndLosesNothing, LetsEitherEndComeFirst,
                            KeepsPeersAndLinkLanesApart, ReadsZeroCopyMessagesInPlaceAndConsumesThem,
                            CanBeDestroyedWithMessagesInFlightAndLeavesNothingOpen);

}  // namespace tutti::test
