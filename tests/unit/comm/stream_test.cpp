// Streams: their order, their errors, events between them, and host functions on them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <future>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tutti/tutti.hpp"

namespace tutti {
namespace {

/// A task on a stream that runs until it is released.
class Hold {
 public:
  explicit Hold(Stream& stream) {
    stream.launch([this] { free_.wait(); });
  }
  ~Hold() { release(); }
  void release() {
    if (!free_.try_wait()) free_.count_down();
  }

 private:
  std::latch free_{1};
};

tuttiResult_t all_reduce(int& data, tuttiComm_t comm, tuttiStream_t stream) {
  return tuttiAllReduce(&data, &data, 1, tuttiInt32, tuttiSum, comm, stream);
}

/// A call that fails on the stream, not before: its communicator was aborted.
void fail_on(Stream& stream) {
  auto comm = std::move(Communicator::all_local(1).front());
  comm.abort();
  int data = 1;
  EXPECT_EQ(all_reduce(data, comm.handle(), stream), tuttiSuccess);
}

std::string error_of(const std::function<void()>& call, Code code) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

TEST(Stream, QueryDoesNotWait) {
  Stream stream;
  EXPECT_TRUE(stream.done());
  Hold hold(stream);
  EXPECT_FALSE(stream.done());
  EXPECT_EQ(tuttiStreamQuery(stream), tuttiInProgress);
  hold.release();
  stream.synchronize();
  EXPECT_TRUE(stream.done());
  fail_on(stream);
  while (tuttiStreamQuery(stream) == tuttiInProgress) std::this_thread::yield();
  EXPECT_EQ(tuttiStreamQuery(stream), tuttiAborted);
  EXPECT_EQ(tuttiStreamQuery(stream), tuttiAborted) << "to ask takes nothing away";
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiAborted);
  EXPECT_EQ(tuttiStreamQuery(stream), tuttiSuccess);
}

TEST(Stream, RunsFunctionsInOrderWithItsCalls) {
  auto comm = std::move(Communicator::all_local(1).front());
  Stream stream;
  int data = 1;
  std::vector<int> seen;
  for (int i = 0; i < 100; ++i) {
    stream.launch([&seen, &data] { seen.push_back(data++); });
    ASSERT_EQ(all_reduce(data, comm.handle(), stream), tuttiSuccess);
  }
  stream.synchronize();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(seen.at(static_cast<size_t>(i)), i + 1);
}

TEST(Stream, RunsFunctionsAlsoAfterAFailure) {
  Stream stream;
  fail_on(stream);
  bool ran = false;
  stream.launch([&] { ran = true; });
  EXPECT_EQ(tuttiStreamSynchronize(stream), tuttiAborted);
  EXPECT_TRUE(ran);
}

TEST(Stream, ReportsAFunctionsException) {
  Stream stream;
  stream.launch([] { throw std::runtime_error("no bread"); });
  EXPECT_NE(error_of([&] { stream.synchronize(); }, Code::InvalidUsage).find("no bread"), std::string::npos);
  stream.launch([] { throw 7; });  // NOLINT: programs do
  error_of([&] { stream.synchronize(); }, Code::InvalidUsage);
  stream.launch([] { throw Error(Code::Unsupported, "not here"); });
  EXPECT_EQ(error_of([&] { stream.synchronize(); }, Code::Unsupported), "not here");
  stream.synchronize();
}

TEST(Stream, RefusesAWaitForItself) {
  Stream stream;
  tuttiResult_t waited = tuttiSuccess, destroyed = tuttiSuccess;
  stream.launch([&] {
    waited = tuttiStreamSynchronize(stream);
    destroyed = tuttiStreamDestroy(stream);
  });
  stream.synchronize();
  EXPECT_EQ(waited, tuttiInvalidUsage);
  EXPECT_EQ(destroyed, tuttiInvalidUsage);
}

/// The stream's last owner may be its own thread: a host function that uses it while it is destroyed.
TEST(Stream, MayBeDestroyedByItsOwnThread) {
  for (int i = 0; i < 20; ++i) {
    tuttiStream_t stream = nullptr;
    ASSERT_EQ(tuttiStreamCreate(&stream), tuttiSuccess);
    struct Asker {
      tuttiStream_t stream;
      std::atomic<bool> began{false};
      std::promise<void> over;
    } asker{stream, {}, {}};
    ASSERT_EQ(tuttiStreamLaunchHostFunc(
                  stream,
                  [](void* argument) {
                    auto& self = *static_cast<Asker*>(argument);
                    self.began = true;
                    self.began.notify_one();
                    while (tuttiStreamQuery(self.stream) != tuttiInvalidUsage) {
                    }
                    self.over.set_value();
                  },
                  &asker),
              tuttiSuccess);
    asker.began.wait(false);
    EXPECT_EQ(tuttiStreamDestroy(stream), tuttiSuccess);
    asker.over.get_future().wait();
  }
}

TEST(Event, MakesOneStreamWaitForAnother) {
  Stream first, second;
  Event event;
  Hold hold(first);
  std::atomic<bool> ran{false};
  event.record(first);
  second.wait(event);
  second.launch([&] { ran = true; });
  EXPECT_FALSE(event.done());
  EXPECT_EQ(tuttiStreamQuery(second), tuttiInProgress);
  EXPECT_FALSE(ran);
  hold.release();
  second.synchronize();
  EXPECT_TRUE(ran);
  EXPECT_TRUE(event.done());
}

TEST(Event, WithoutARecordDoesNotBlock) {
  Stream stream;
  const Event event;
  EXPECT_TRUE(event.done());
  event.synchronize();
  stream.wait(event);
  stream.synchronize();
}

TEST(Event, RecordsEarlierCallsOnly) {
  Stream stream;
  Event event;
  event.record(stream);
  Hold hold(stream);
  event.synchronize();
  EXPECT_FALSE(stream.done());
  event.record(stream);
  EXPECT_FALSE(event.done()) << "the later record takes the place of the earlier one";
  hold.release();
  event.synchronize();
}

TEST(Event, MayBeDestroyedWhileAStreamWaits) {
  Stream first, second;
  Hold hold(first);
  {
    Event event;
    event.record(first);
    second.wait(event);
  }
  EXPECT_EQ(tuttiStreamQuery(second), tuttiInProgress);
  hold.release();
  second.synchronize();
}

TEST(Event, OutlivesItsStream) {
  Event event;
  {
    Stream stream;
    event.record(stream);
  }
  event.synchronize();
}

TEST(Event, ReportsEarlierErrorsAndPassesThemOn) {
  Stream first, second;
  Event event;
  fail_on(first);
  event.record(first);
  second.wait(event);
  EXPECT_EQ(tuttiEventSynchronize(event), tuttiAborted);
  EXPECT_EQ(tuttiEventQuery(event), tuttiAborted);
  EXPECT_EQ(tuttiStreamSynchronize(second), tuttiAborted) << "what follows there builds on what failed";
  EXPECT_EQ(tuttiStreamSynchronize(first), tuttiAborted) << "and its own stream still tells it";
}

TEST(Event, IsRefusedInAGroup) {
  Stream stream;
  Event event;
  const Group group;
  EXPECT_EQ(tuttiEventRecord(event, stream), tuttiInvalidUsage);
  EXPECT_EQ(tuttiStreamWaitEvent(stream, event), tuttiInvalidUsage);
  EXPECT_EQ(tuttiStreamLaunchHostFunc(
                stream, [](void*) {}, nullptr),
            tuttiInvalidUsage);
}

TEST(Event, HandlesAreChecked) {
  Stream stream;
  tuttiEvent_t event = nullptr;
  EXPECT_EQ(tuttiEventCreate(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiEventRecord(nullptr, stream), tuttiInvalidArgument);
  EXPECT_EQ(tuttiEventQuery(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiStreamQuery(nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiStreamLaunchHostFunc(stream, nullptr, nullptr), tuttiInvalidArgument);
  ASSERT_EQ(tuttiEventCreate(&event), tuttiSuccess);
  EXPECT_EQ(tuttiEventRecord(event, nullptr), tuttiInvalidArgument);
  EXPECT_EQ(tuttiStreamSynchronize(reinterpret_cast<tuttiStream_t>(event)), tuttiInvalidArgument);
  EXPECT_EQ(tuttiEventDestroy(event), tuttiSuccess);
  EXPECT_EQ(tuttiEventDestroy(event), tuttiInvalidUsage);
  EXPECT_EQ(tuttiEventQuery(event), tuttiInvalidUsage);
  std::array<unsigned char, 256> garbage{};
  EXPECT_EQ(tuttiEventQuery(reinterpret_cast<tuttiEvent_t>(garbage.data())), tuttiInvalidArgument);
}

TEST(Event, ShellsOfOldDestroyedEventsAreReused) {
  std::vector<tuttiEvent_t> all;
  for (int i = 0; i < 5000; ++i) {
    all.push_back(nullptr);
    ASSERT_EQ(tuttiEventCreate(&all.back()), tuttiSuccess);
    ASSERT_EQ(tuttiEventDestroy(all.back()), tuttiSuccess);
  }
  std::sort(all.begin(), all.end());
  EXPECT_LT(std::unique(all.begin(), all.end()) - all.begin(), 2500);
}

/// Ranks that compute on one stream and communicate on another, as training programs do.
TEST(Event, OrdersCallsOfSeveralRanks) {
  auto comms = Communicator::all_local(3);
  std::vector<std::jthread> threads;
  for (Communicator& comm : comms) {
    threads.emplace_back([&comm] {
      Stream compute, talk;
      Event computed, talked;
      int data = 1;
      for (int i = 0; i < 50; ++i) {
        compute.launch([&data] { data = 1 + data % 5; });
        computed.record(compute);
        talk.wait(computed);
        comm.all_reduce(data, Op::Max, talk);
        talked.record(talk);
        compute.wait(talked);
      }
      compute.synchronize();
      talk.synchronize();
      EXPECT_EQ(data, 1);
    });
  }
}

}  // namespace
}  // namespace tutti
