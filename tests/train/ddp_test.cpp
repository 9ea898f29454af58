// The data-parallel strategies alone, without a model: flat parameters and gradients that the test fills.
#include <gtest/gtest.h>

#include "train/world.hpp"
#include "tutti/train/data_parallel.hpp"
#include "tutti/train/mesh.hpp"

namespace tutti::train {
namespace {

/// One rank with `units` units of 1000 parameters each.
struct Replica {
  Replica(Communicator& world, DataParallelOptions options, size_t units = 4)
      : mesh(world, {.dp = world.size()}, counters), layouts(units), states(units) {
    for (size_t i = 0; i < units; ++i) {
      const std::string name = "unit." + std::to_string(i);
      layouts[i].add(name + ".weight", {30, 30}, Initial::normal(1));
      layouts[i].add(name + ".bias", {100}, Initial::zero());
      states[i].layout = &layouts[i];
    }
    data = make_data_parallel(options, ledger, {mesh.replicas(), mesh.expert_replicas()});
    data->attach(states);
  }
  /// Each element of the unit's gradient is `value`.
  void fill(size_t unit, float value) {
    const std::vector<float> values(states[unit].gradients.count, value);
    device->convert(states[unit].gradients, {const_cast<float*>(values.data()), values.size(), DType::F32});
  }
  std::vector<float> gradient(size_t unit) {
    std::vector<float> values(states[unit].gradients.count);
    device->convert({values.data(), values.size(), DType::F32}, states[unit].gradients);
    return values;
  }
  size_t parameters() const { return 1000 * states.size(); }

  Counters counters;
  std::unique_ptr<Device> device = make_host_device();
  Ledger ledger{*device};
  Mesh mesh;
  std::vector<Layout> layouts;
  std::vector<UnitState> states;
  std::unique_ptr<DataParallel> data;
};

/// Buckets of one parameter each, so that several are under way.
DataParallelOptions small_buckets() { return {.first_bucket = 400, .bucket = 4000}; }

std::vector<float> filled(float value) { return std::vector<float>(1000, value); }

TEST(Ddp, AveragesGradients) {
  for (const DType type : {DType::F32, DType::BF16}) {
    for (const DType wire : {DType::F32, DType::BF16}) {
      run_world(4, [&](Communicator& world) {
        DataParallelOptions options = small_buckets();
        options.weights = type;
        options.communication = wire;
        Replica replica(world, options);
        replica.data->start_step();
        for (size_t unit = 4; unit-- > 0;) {
          replica.fill(unit, static_cast<float>(world.rank()));
          replica.data->gradients_ready(unit, true);
        }
        replica.data->finish_backward();
        for (size_t unit = 0; unit < 4; ++unit) EXPECT_EQ(replica.gradient(unit), filled(1.5f));
        EXPECT_DOUBLE_EQ(replica.data->square_sum(), 4000 * 1.5 * 1.5);
      });
    }
  }
}

TEST(Ddp, SendsWhatAnAllReduceSends) {
  for (const DType wire : {DType::F32, DType::BF16}) {
    run_world(4, [&](Communicator& world) {
      DataParallelOptions options = small_buckets();
      options.communication = wire;
      Replica replica(world, options);
      replica.data->start_step();
      for (const bool last : {false, false, true}) {  // two micro-batches without communication
        EXPECT_EQ(replica.counters[Purpose::Gradients].calls, 0u);
        for (size_t unit = 4; unit-- > 0;) replica.data->gradients_ready(unit, last);
      }
      replica.data->finish_backward();
      const Count& count = replica.counters[Purpose::Gradients];
      EXPECT_EQ(count.elements, replica.parameters());
      EXPECT_DOUBLE_EQ(count.sent, 2.0 * 3 / 4 * 4000 * static_cast<double>(size_of(wire)));
      EXPECT_EQ(count.calls,
                5u);  // the last bias alone; each weight with the bias of the unit before; the first weight
    });
  }
}

// Experts lie between dense parameters, but do not end their buckets.
TEST(Ddp, ExpertsHaveBucketsOfTheirOwn) {
  run_world(4, [](Communicator& world) {
    Counters counters;
    const auto device = make_host_device();
    Ledger ledger(*device);
    Mesh mesh(world, {.dp = 2, .ep = 2}, counters);
    std::vector<Layout> layouts(4);
    std::vector<UnitState> states;
    for (size_t i = 0; i < 4; ++i) {
      layouts[i].add("a" + std::to_string(i), {100}, Initial::zero());
      layouts[i].add_piece({.name = "e" + std::to_string(i),
                            .shape = {1, 50},
                            .full = {2, 50},
                            .start = {0, 0},
                            .initial = Initial::zero(),
                            .expert = true});
      layouts[i].add("z" + std::to_string(i), {10}, Initial::zero());
      states.push_back({.layout = &layouts[i]});
    }
    const auto ddp = make_data_parallel({}, ledger, {mesh.replicas(), mesh.expert_replicas(), 0, mesh.at().ep});
    ddp->attach(states);
    counters.reset();
    ddp->start_step();
    for (size_t unit = 4; unit-- > 0;) {
      for (size_t i = 0; i < 160; ++i) {
        states[unit].gradients.f32()[i] = static_cast<float>(world.rank() * 1000 + static_cast<int>(unit * 160 + i));
      }
      ddp->gradients_ready(unit, true);
    }
    ddp->finish_backward();
    EXPECT_EQ(counters[Purpose::Gradients].calls, 2u);
    for (size_t unit = 0; unit < 4; ++unit) {
      for (size_t i = 0; i < 160; ++i) {
        const bool expert = i >= 100 && i < 150;  // ranks 0 and 2 hold the same, and 1 and 3
        const int mean = expert ? 1000 + world.rank() % 2 * 1000 : 1500;
        EXPECT_EQ(states[unit].gradients.f32()[i], static_cast<float>(mean + static_cast<int>(unit * 160 + i)));
      }
    }
  });
}

TEST(Ddp, RanksMayUseDifferentUnits) {
  run_world(3, [](Communicator& world) {
    Replica replica(world, small_buckets());
    replica.data->start_step();
    for (size_t unit = 4; unit-- > 0;) {
      if (static_cast<int>(unit) == world.rank()) continue;  // each rank leaves out another one
      replica.fill(unit, 3);
      replica.data->gradients_ready(unit, true);
    }
    replica.data->finish_backward();
    for (size_t unit = 0; unit < 4; ++unit) EXPECT_EQ(replica.gradient(unit), filled(unit < 3 ? 2 : 3)) << unit;
  });
}

TEST(Ddp, BeginsWithRankZerosParameters) {
  for (const auto mode : {DataParallelMode::Ddp, DataParallelMode::ParameterServer}) {
    for (const DType type : {DType::F32, DType::BF16}) {
      run_world(3, [&](Communicator& world) {
        Replica replica(world, {.mode = mode, .weights = type});
        for (size_t unit = 0; unit < 4; ++unit) {
          replica.data->load(unit, filled(static_cast<float>(world.rank() + 5)));
        }
        replica.data->broadcast_parameters();
        std::vector<float> values(1000);
        replica.data->read(3, values);
        EXPECT_EQ(values, filled(5));
      });
    }
  }
}

// 4 + 4 + 8 bytes a parameter in f32, 2 + 2 + 12 in bf16; on the wire in bf16, 2 more.
TEST(Ddp, HoldsSixteenBytesAParameter) {
  run_world(2, [](Communicator& world) {
    for (const DType type : {DType::F32, DType::BF16}) {
      Replica replica(world, {.weights = type});
      EXPECT_EQ(replica.ledger.held(), 16 * replica.parameters());
      EXPECT_EQ(replica.ledger.held(Kind::Optimizer), (type == DType::F32 ? 8 : 12) * replica.parameters());
    }
    Replica narrow(world, {.communication = DType::BF16});
    EXPECT_EQ(narrow.ledger.held(Kind::Buffers), 2 * narrow.parameters());
  });
}

// The server's traffic grows with the number of ranks; that of DDP's ranks stays below 2Ψ.
TEST(ParameterServer, ItsRootsTrafficIsProportionalToTheRanks) {
  for (const int ranks : {2, 4, 8}) {
    run_world(ranks, [&](Communicator& world) {
      Replica server(world, {.mode = DataParallelMode::ParameterServer}), ddp(world, {});
      for (Replica* replica : {&server, &ddp}) {
        replica->data->start_step();
        for (size_t unit = 4; unit-- > 0;) replica->data->gradients_ready(unit, true);
        replica->data->finish_backward();
        replica->data->step({.step = 1});
      }
      const double bytes = 4 * 4000, others = ranks - 1;
      const double root = server.counters[Purpose::Gradients].received + server.counters[Purpose::Parameters].sent;
      const double worker = server.counters[Purpose::Gradients].sent + server.counters[Purpose::Parameters].received;
      EXPECT_DOUBLE_EQ(root, world.rank() == 0 ? 2 * others * bytes : 0);
      EXPECT_DOUBLE_EQ(worker, world.rank() == 0 ? 0 : 2 * bytes);
      EXPECT_DOUBLE_EQ(ddp.counters[Purpose::Gradients].sent, 2 * others / ranks * bytes);
    });
  }
}

/// What check_same says on each rank.
std::vector<std::string> complaints(const std::function<std::string(int rank)>& facts) {
  std::vector<std::string> texts(3);
  run_world(3, [&](Communicator& world) {
    try {
      check_same(world, "models", facts(world.rank()));
    } catch (const Error& error) {
      texts[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  return texts;
}

TEST(SameModel, NamesTheRankAndTheFirstDifference) {
  EXPECT_EQ(complaints([](int) { return "text\nfirst [8]\n"; }), std::vector<std::string>(3));
  const std::string end = "; start all ranks with the same options and text";
  EXPECT_EQ(
      complaints([](int rank) { return rank == 2 ? "first [8]\nw [4, 5]\n" : "first [8]\nw [4, 6]\n"; }),
      std::vector<std::string>(3, "the ranks' models differ: rank 2 has w [4, 5] where rank 0 has w [4, 6]" + end));
  EXPECT_EQ(complaints([](int rank) { return rank == 0 ? "first [8]\nlast [4]\n" : "first [8]\n"; })[0],
            "the ranks' models differ: rank 1 has nothing more where rank 0 has last [4]" + end);
  EXPECT_EQ(complaints([](int rank) { return rank == 1 ? "book\nfirst [8]\n" : "text\nfirst [8]\n"; })[2],
            "the ranks' models differ: rank 1 has book where rank 0 has text" + end);
}

}  // namespace
}  // namespace tutti::train
