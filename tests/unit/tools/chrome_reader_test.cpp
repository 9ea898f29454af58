// Chrome traces, read for a picture and a table.
#include <gtest/gtest.h>

#include "tools/trace/chrome_reader.hpp"
#include "tutti/error.hpp"

namespace tutti::tools {
namespace {

nlohmann::json event_of(int process, int thread, const char* name, const char* kind, double at, double lasts) {
  return {{"ph", "X"}, {"pid", process}, {"tid", thread}, {"name", name}, {"cat", kind}, {"ts", at}, {"dur", lasts}};
}
nlohmann::json name_event(const char* what, int process, int thread, const char* name) {
  return {{"ph", "M"}, {"pid", process}, {"tid", thread}, {"name", what}, {"args", {{"name", name}}}};
}

nlohmann::json step() {
  nlohmann::json labelled = event_of(3, 1, "all_reduce bucket 0, 1 MiB", "all_reduce", 1000, 2000);
  labelled["args"] = {{"label", "bucket 0"}, {"bytes", 1048576}, {"algorithm", "ring"}};
  return {
      {"otherData", {{"title", "a step"}, {"notes", {"one", "two"}}}},
      {"traceEvents",
       {name_event("process_name", 3, 0, "rank 3: stage 1, dp 0"), name_event("thread_name", 3, 0, "computes"),
        name_event("thread_name", 3, 1, "replicas: gradients"), name_event("thread_name", 3, 2, "replicas: gradients"),
        event_of(3, 0, "forward 0", "forward", 0, 4000), event_of(3, 0, "waits: tensor", "wait", 1000, 500), labelled,
        event_of(3, 2, "all_reduce bucket 1, 1 MiB", "all_reduce", 2000, 2000)}}};
}

TEST(ChromeReader, ReadsProcessesThreadsAndLabels) {
  const TimelinePicture picture = picture_of(step());
  EXPECT_EQ(picture.title, "a step");
  EXPECT_EQ(picture.notes, (std::vector<std::string>{"one", "two"}));
  ASSERT_EQ(picture.groups.size(), 1u);
  EXPECT_EQ(picture.groups[0].name, "rank 3");
  EXPECT_EQ(picture.groups[0].note, "stage 1, dp 0");
  ASSERT_EQ(picture.groups[0].rows.size(), 2u);
  EXPECT_FALSE(picture.groups[0].rows[0].side_by_side);
  EXPECT_TRUE(picture.groups[0].rows[1].side_by_side);  // two threads of one name
  const Bar& call = picture.groups[0].rows[1].bars[0];
  EXPECT_EQ(call.label, "bucket 0");
  EXPECT_EQ(call.kind, "all_reduce");
  EXPECT_NEAR(call.start, 1e-3, 1e-12);
  EXPECT_NEAR(call.end, 3e-3, 1e-12);
  EXPECT_EQ(call.text, "all_reduce bucket 0, 1 MiB: 2 ms at 1 ms, algorithm ring, bytes 1048576");
}

TEST(ChromeReader, TimesHaveNoExponent) {
  EXPECT_EQ(time_digits(0.012344), "0.01234");
  EXPECT_EQ(time_digits(9999.4), "9999");
  EXPECT_EQ(time_digits(9999.6), "10000");
  EXPECT_EQ(time_digits(123456.7), "123457");
}

TEST(ChromeReader, SumsUpWithoutCountingTwice) {
  const std::string text = text_of(picture_of(step()));
  EXPECT_NE(text.find("a step: 4 ms\n"), std::string::npos) << text;
  EXPECT_NE(text.find("rank 3  computes                   2        3.5    88 %        0.5\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("rank 3  replicas: gradients        2          3    75 %          0\n"), std::string::npos)
      << text;
}

TEST(ChromeReader, ColoursAJobsCallsByTheirCollective) {
  nlohmann::json page{{"traceEvents", {event_of(0, 0, "all_gather(count=4, f32)", "call", 0, 1)}}};
  EXPECT_EQ(picture_of(page).groups.at(0).rows.at(0).bars.at(0).kind, "all_gather");
}

TEST(ChromeReader, ShowsLaterChunksLighter) {
  nlohmann::json first = event_of(0, 0, "forward 0", "forward", 0, 1),
                 second = event_of(0, 0, "forward 0", "forward", 1, 1);
  first["args"] = {{"chunk", 0}};
  second["args"] = {{"chunk", 1}};
  const TimelinePicture picture = picture_of({{"traceEvents", {first, second}}});
  EXPECT_EQ(picture.groups.at(0).rows.at(0).bars.at(0).shade, 0);
  EXPECT_EQ(picture.groups.at(0).rows.at(0).bars.at(1).shade, 1);
  EXPECT_EQ(picture.notes, std::vector<std::string>{"Lighter: a rank's later chunks of layers."});
  const std::string svg = to_svg(picture);
  const size_t at = svg.find("opacity='0.28'");
  EXPECT_NE(at, std::string::npos);
  EXPECT_EQ(svg.find("opacity='0.28'", at + 1), std::string::npos);
}

TEST(ChromeReader, RefusesWhatItCannotDraw) {
  const auto said = [](const nlohmann::json& page) -> std::string {
    try {
      picture_of(page);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(said({{"traceEvents", 1}}).find("not a Chrome trace"), std::string::npos);
  EXPECT_NE(said({{"traceEvents", {{{"ph", "X"}, {"pid", "no number"}}}}}).find("not a Chrome trace"),
            std::string::npos);
  EXPECT_NE(said({{"traceEvents", {event_of(0, 0, "a", "b", 0, 1), 7}}}).find("not a Chrome trace"), std::string::npos);
  EXPECT_NE(said({{"traceEvents", nlohmann::json::array()}}).find("nothing that lasted"), std::string::npos);
  EXPECT_NE(said({{"otherData", 5}, {"traceEvents", {event_of(0, 0, "a", "b", 0, 1)}}}).find("not a Chrome trace"),
            std::string::npos);
}

}  // namespace
}  // namespace tutti::tools
