// tutti status: a job's status as lines.
#include <gtest/gtest.h>

#include "tools/status/show.hpp"

namespace tutti::tools {
namespace {

nlohmann::json rank_in(const char* call, int rank) {
  return {{"communicator", "aaaa"},
          {"title", "world"},
          {"rank", rank},
          {"ranks", 4},
          {"entered", 5},
          {"left", 5},
          {"transfers", 1},
          {"call", call},
          {"call_is_transfer", false},
          {"still_seconds", 3.2}};
}

nlohmann::json page_of(const nlohmann::json& ranks) {
  return {{"tutti_status", 1},
          {"host", "b"},
          {"process", 47},
          {"processes", {{{"host", "b"}, {"process", 47}, {"state", "answers"}, {"ranks", ranks}}}},
          {"verdicts", nlohmann::json::array()}};
}

TEST(StatusText, PutsRanksThatDoTheSameInOneLineAndThoseBehindFirst) {
  nlohmann::json behind = rank_in("barrier()", 3);
  behind["entered"] = behind["left"] = 4;
  const std::string text =
      status_text(page_of({rank_in("barrier()", 0), rank_in("barrier()", 1), rank_in("barrier()", 2), behind}));
  EXPECT_EQ(text,
            "process 47 on b: one process of its job\n"
            "world (aaaa): 4 ranks\n"
            "  rank 3: after barrier(), call 4, in no call for 3 s (process 47 on b)\n"
            "  ranks 0-2: after barrier(), call 5, in no call for 3 s\n"
            "No rank is known to wait for another.\n");
}

TEST(StatusText, SaysForWhomARankWaits) {
  nlohmann::json rank = rank_in("barrier()", 0);
  rank["left"] = 4;
  rank["waits_seconds"] = 7.0;
  const auto line = [&](const nlohmann::json& awaited) {
    rank["waits_for"] = awaited;
    return status_text(page_of(nlohmann::json::array({rank})));
  };
  EXPECT_NE(line({2}).find("in barrier(), call 5, waiting for rank 2, for 7 s"), std::string::npos);
  EXPECT_NE(line({1, 2, 3}).find("waiting for one of ranks 1-3, for 7 s"), std::string::npos);
  EXPECT_NE(line(nlohmann::json::array()).find("waiting for others, for 7 s"), std::string::npos);
}

TEST(StatusText, ATransferHasNoNumberAndNoKnownEnd) {
  nlohmann::json rank = rank_in("recv(count=4, f32, from rank 1)", 0);
  rank["call_is_transfer"] = true;
  EXPECT_NE(status_text(page_of(nlohmann::json::array({rank})))
                .find("rank 0: in or after recv(count=4, f32, from rank 1), for 3 s"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::tools
