// Checkpoints: saved on N ranks and loaded on M, under every strategy; a damaged one is refused, and the old one kept.
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "train/checkpoint/files.hpp"
#include "train/world.hpp"
#include "tutti/train/trainer.hpp"

namespace tutti::train {
namespace {

namespace fs = std::filesystem;

class Checkpoint : public testing::Test {
 protected:
  Checkpoint() {
    std::string name = (fs::temp_directory_path() / "tutti_checkpoint_XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~Checkpoint() override { fs::remove_all(folder_); }

  static TrainOptions options_for(int ranks, DataParallelMode mode) {
    TrainOptions options;
    options.model = {.layers = 2, .width = 21, .heads = 3, .length = 23};
    options.batch = 8;
    options.mesh.dp = ranks;
    options.data_parallel.mode = mode;
    return options;
  }

  /// Resumes if asked to, makes `steps` steps and saves, on all ranks. The losses.
  std::vector<double> run(const TrainOptions& options, bool resume, int steps, bool save) const {
    std::vector<double> losses;
    run_world(options.mesh.ranks(), [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      if (resume) trainer.resume(folder_);
      for (int i = 0; i < steps; ++i) {
        const double loss = trainer.step().loss;
        if (comm.rank() == 0) losses.push_back(loss);
      }
      if (save) trainer.save(folder_);
    });
    return losses;
  }

  /// What resuming says, on every rank.
  std::string complaint(const TrainOptions& options) const {
    std::vector<std::string> said(static_cast<size_t>(options.mesh.ranks()));
    run_world(options.mesh.ranks(), [&](Communicator& comm) {
      Trainer trainer(comm, options, sample_text());
      try {
        trainer.resume(folder_);
      } catch (const Error& error) {
        said[static_cast<size_t>(comm.rank())] = error.what();
      }
    });
    for (const std::string& text : said) EXPECT_EQ(text, said[0]);
    return said[0];
  }

  void damage(const std::string& file, const std::function<void(std::string&)>& how) const {
    std::string bytes;
    {
      const std::ifstream in(fs::path(folder_) / file, std::ios::binary);
      std::ostringstream text;
      text << in.rdbuf();
      bytes = text.str();
    }
    how(bytes);
    std::ofstream(fs::path(folder_) / file, std::ios::binary) << bytes;
  }

  std::string folder_;
};

constexpr auto kDdp = DataParallelMode::Ddp, kServer = DataParallelMode::ParameterServer,
               kZero1 = DataParallelMode::Zero1, kZero2 = DataParallelMode::Zero2, kZero3 = DataParallelMode::Zero3;

TEST_F(Checkpoint, GoesOnOnOtherRanksWithOtherStrategies) {
  const std::vector<double> whole = run(options_for(1, kDdp), false, 10, false);
  struct Where {
    int ranks;
    DataParallelMode mode;
  };
  const std::pair<Where, Where> moves[] = {
      {{4, kZero3}, {2, kZero3}}, {{2, kZero1}, {4, kZero1}},  {{4, kZero2}, {1, kZero2}},  {{1, kDdp}, {4, kZero3}},
      {{4, kZero3}, {4, kDdp}},   {{2, kServer}, {4, kZero1}}, {{2, kZero2}, {2, kServer}}, {{4, kDdp}, {2, kDdp}}};
  for (const auto& [from, to] : moves) {
    SCOPED_TRACE(testing::Message() << from.ranks << " ranks, mode " << static_cast<int>(from.mode) << " to "
                                    << to.ranks << ", " << static_cast<int>(to.mode));
    run(options_for(from.ranks, from.mode), false, 5, true);
    const std::vector<double> rest = run(options_for(to.ranks, to.mode), true, 5, false);
    for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i] / whole[5 + i], 1, 1e-4) << "step " << 6 + i;
    fs::remove_all(fs::path(folder_) / "step-00000005");
  }
}

/// Rank 0 waits for the files of all: not for those of a rank that is lost.
TEST_F(Checkpoint, SaveEndsWhenARankIsLost) {
  const auto start = std::chrono::steady_clock::now();
  try {
    run_world(2, [&](Communicator& comm) {
      Trainer trainer(comm, options_for(2, kZero1), sample_text());
      trainer.step();
      if (comm.rank() == 1) {
        all_or_none(trainer.mesh().world(), [] {});  // as begin_save() does, and then nothing is written
        throw Error(Code::PeerFailed, "lost");
      }
      const auto save = trainer.begin_save(folder_);
      trainer.end_save(*save);
    });
    ADD_FAILURE() << "saved";
  } catch (const Error&) {
  }
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  EXPECT_FALSE(newest_checkpoint(folder_).has_value());
}

TEST_F(Checkpoint, GoesOnWithOtherTensorParallelism) {
  const auto four_heads = [](int ranks, DataParallelMode mode) {
    TrainOptions options = options_for(ranks, mode);
    options.model.width = 20;
    options.model.heads = 4;
    return options;
  };
  const std::vector<double> whole = run(four_heads(1, kDdp), false, 10, false);
  TrainOptions split = four_heads(2, kZero3);
  split.mesh.tp = 2;
  run(split, false, 5, true);
  std::vector<double> rest = run(four_heads(2, kZero1), true, 1, true);
  split.mesh = {.dp = 1, .tp = 4};
  split.data_parallel.mode = kDdp;
  for (const double loss : run(split, true, 4, false)) rest.push_back(loss);
  for (size_t i = 0; i < rest.size(); ++i) EXPECT_NEAR(rest[i] / whole[5 + i], 1, 1e-4) << "step " << 6 + i;
}

TEST_F(Checkpoint, GoesOnOnOtherMeshes) {
  const auto on = [](const MeshShape& mesh, DataParallelMode mode) {
    TrainOptions options = options_for(1, mode);
    options.model.width = 20;
    options.model.heads = 4;
    options.model.length = 24;
    options.moe = {.experts = 4, .top_k = 2, .balance = 0.1};
    options.micro_batches = 2;
    options.mesh = mesh;
    return options;
  };
  const std::vector<double> whole = run(on({}, kDdp), false, 6, false);
  // Two steps on each mesh; each goes on from the one before.
  std::vector<double> parts = run(on({.pp = 2, .ep = 2, .tp = 2}, kDdp), false, 2, true);
  for (const auto& [mesh, mode] : {std::pair(MeshShape{.dp = 2, .cp = 2}, kZero3), {{.pp = 4}, kZero1}}) {
    const std::vector<double> more = run(on(mesh, mode), true, 2, true);
    parts.insert(parts.end(), more.begin(), more.end());
  }
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_NEAR(parts[i] / whole[i], 1, 1e-4) << "step " << 1 + i;
  for (const MeshShape& mesh : {MeshShape{.ep = 4}, {.dp = 2, .ep = 2}, {.pp = 2, .ep = 2}}) {
    const std::vector<double> same = run(on(mesh, kZero2), true, 1, false);
    const std::vector<double> one = run(on({}, kDdp), true, 1, false);
    EXPECT_NEAR(same[0] / one[0], 1, 1e-4);
  }
}

TEST_F(Checkpoint, RefusesAnotherNumberOfExperts) {
  TrainOptions options = options_for(2, kZero1);
  options.moe = {.experts = 4, .top_k = 2};
  run(options, false, 1, true);
  options.moe.experts = 2;
  EXPECT_NE(complaint(options).find("is of another model: its experts is 4, and here it is 2: restore --experts 4"),
            std::string::npos)
      << complaint(options);
  options.moe.experts = 0;
  EXPECT_NE(complaint(options).find("its experts is 4, and here it is 0: restore --experts 4"), std::string::npos)
      << complaint(options);
}

TEST_F(Checkpoint, GoesOnBitForBit) {
  for (const DType type : {DType::F32, DType::BF16}) {
    TrainOptions options = options_for(2, kZero3);
    options.data_parallel.weights = type;
    const std::vector<double> whole = run(options, false, 8, false);
    run(options, false, 4, true);
    EXPECT_EQ(run(options, true, 4, false), std::vector<double>(whole.begin() + 4, whole.end()));
    fs::remove_all(fs::path(folder_) / "step-00000004");
  }
}

TEST_F(Checkpoint, KeepsTheNewestTwo) {
  for (int i = 0; i < 3; ++i) run(options_for(2, kZero2), i > 0, 1, true);
  EXPECT_FALSE(fs::exists(fs::path(folder_) / "step-00000001"));
  EXPECT_TRUE(fs::exists(fs::path(folder_) / "step-00000002"));
  EXPECT_EQ(newest_checkpoint(folder_), 3);
}

TEST_F(Checkpoint, RefusesATornOneAndSaysTheWayBack) {
  run(options_for(2, kZero3), false, 2, true);
  run(options_for(2, kZero3), true, 2, true);
  const TrainOptions options = options_for(2, kZero1);
  const auto is_refused = [&](const std::string& why) {
    const std::string text = complaint(options);
    EXPECT_NE(text.find(why), std::string::npos) << text;
    EXPECT_NE(text.find("remove " + folder_ + "/step-00000004 to go on from step 2"), std::string::npos) << text;
  };
  const auto flip = [](std::string& bytes) { bytes[bytes.size() / 2] ^= 4; };
  damage("step-00000004/rank-00001.bin", flip);
  is_refused("rank-00001.bin is torn");
  damage("step-00000004/rank-00001.bin", flip);
  damage("step-00000004/rank-00000.json", [](std::string& bytes) { bytes.resize(bytes.size() / 2); });
  is_refused("rank-00000.json is torn");
  damage("step-00000004/manifest.json", [](std::string& bytes) { bytes.clear(); });
  is_refused("manifest.json is torn");
  fs::remove_all(fs::path(folder_) / "step-00000004");
  EXPECT_EQ(complaint(options), "");
}

TEST_F(Checkpoint, RefusesAShortFile) {
  run(options_for(2, kZero3), false, 2, true);
  damage("step-00000002/rank-00001.bin", [](std::string& bytes) { bytes.resize(bytes.size() - 1); });
  EXPECT_NE(complaint(options_for(1, kDdp)).find("rank-00001.bin is torn: it ends before byte"), std::string::npos);
  fs::remove(fs::path(folder_) / "step-00000002/rank-00001.bin");
  EXPECT_NE(complaint(options_for(1, kDdp)).find("is torn: there is no such file"), std::string::npos);
}

TEST_F(Checkpoint, RefusesAnotherModel) {
  run(options_for(2, kZero3), false, 2, true);
  TrainOptions options = options_for(2, kZero3);
  options.model.width = 24;
  const std::string text = complaint(options);
  EXPECT_NE(text.find("is of another model: its width is 21, and here it is 24: restore --width 21"), std::string::npos)
      << text;
  EXPECT_EQ(text.find("remove"), std::string::npos) << "it is whole";
}

TEST_F(Checkpoint, RefusesToResumeFromNothing) {
  EXPECT_NE(complaint(options_for(2, kDdp)).find("there is none in " + folder_), std::string::npos);
}

// A run that dies while it saves leaves a folder that nobody takes for a checkpoint.
TEST_F(Checkpoint, IgnoresWhatIsNotComplete) {
  run(options_for(2, kZero3), false, 2, true);
  fs::copy(fs::path(folder_) / "step-00000002", fs::path(folder_) / "step-00000004.partial");
  EXPECT_EQ(newest_checkpoint(folder_), 2);
}

/// While it lives, files of this process cannot grow beyond `bytes`.
class FileLimit {
 public:
  explicit FileLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FileLimit(const FileLimit&) = delete;
  FileLimit& operator=(const FileLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST_F(Checkpoint, KeepsTheOldOneWhereANewOneCannotBeWritten) {
  run(options_for(2, kZero3), false, 2, true);
  run_world(2, [&](Communicator& comm) {
    Trainer trainer(comm, options_for(2, kZero3), sample_text());
    trainer.resume(folder_);
    trainer.step();
    comm.barrier();
    std::optional<FileLimit> limit;
    if (comm.rank() == 0) limit.emplace(1000);
    comm.barrier();
    try {
      trainer.save(folder_);
      ADD_FAILURE() << "saved";
    } catch (const NotSaved& error) {
      EXPECT_NE(std::string(error.what()).find("rank-00000.bin cannot be written: File too large"), std::string::npos)
          << error.what();
    }
    comm.barrier();
    EXPECT_FALSE(fs::exists(fs::path(folder_) / "step-00000003.partial")) << "it takes room";
    comm.barrier();
    limit.reset();
    comm.barrier();
    EXPECT_EQ(newest_checkpoint(folder_), 2);
    trainer.save(folder_);
    EXPECT_EQ(newest_checkpoint(folder_), 3);
  });
}

TEST_F(Checkpoint, RefusesAnotherVersion) {
  run(options_for(1, kDdp), false, 2, true);
  const Path manifest = fs::path(folder_) / "step-00000002/manifest.json";
  nlohmann::json content = read_json(manifest);
  content["version"] = 2;
  write_json(manifest, content);
  const std::string text = complaint(options_for(2, kZero3));
  EXPECT_NE(text.find("is tutti checkpoint version 2; this library reads tutti checkpoint version 1"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace tutti::train
