#include <fmt/format.h>

#include <utility>

#include "train/checkpoint/assembly.hpp"
#include "train/checkpoint/files.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::train {
namespace {

class Loader {
 public:
  Loader(Path folder, const CheckpointPart& part) : folder_(std::move(folder)), part_(part) {}

  /// The manifest, if it is one of this version and model.
  void check(const std::string& model) {
    manifest_ = read_json(folder_ / "manifest.json");
    if (manifest_.value("format", "") != kFormat || manifest_.value("version", 0) != kVersion) {
      throw Error(Code::InvalidArgument,
                  fmt::format("checkpoint: {} is {} version {}; this library reads {} version {}: go on with the Tutti "
                              "that saved it, or begin in another folder",
                              folder_.string(), manifest_.value("format", "?"), manifest_.value("version", 0), kFormat,
                              kVersion));
    }
    check_model(folder_.string(), manifest_.at("model").get<std::string>(), model);
  }
  CheckpointOf of() const {
    return {manifest_.at("step").get<int64_t>(), manifest_.at("model").get<std::string>(), manifest_.value("run", ""),
            manifest_.value("job", "")};
  }

  void load() {
    Assembly assembly(part_, folder_.string());
    const int ranks = manifest_.at("ranks").get<int>();
    for (int rank = 0; rank < ranks; ++rank) {
      const Path file = rank_file(folder_, rank, "bin");
      for (const nlohmann::json& entry : read_json(rank_file(folder_, rank, "json"))) {
        const auto saved = entry.get<Saved>();
        if (assembly.wants(saved)) assembly.add(saved, read(file, saved));
      }
    }
    assembly.finish();
  }

 private:
  static std::vector<float> read(const Path& file, const Saved& saved) {
    std::vector<float> values(kArrays * saved.count);
    const auto bytes = std::as_writable_bytes(std::span(values));
    read_bytes(file, saved.offset, bytes);
    if (checksum(bytes) == saved.checksum) return values;
    throw Torn(file, saved.name + " has another checksum");
  }

  Path folder_;
  const CheckpointPart& part_;
  nlohmann::json manifest_;
};

/// What to do about a checkpoint that is torn.
std::string way_back(const Path& folder) {
  const std::vector<int64_t> steps = steps_in(folder);
  if (steps.size() < 2) return "";
  return fmt::format("; remove {} to go on from step {}", step_folder(folder, steps[0]).string(), steps[1]);
}

}  // namespace

CheckpointOf load_checkpoint(const std::string& folder, const std::string& model, const CheckpointPart& part) {
  int64_t step = 0;
  all_or_none(part.world, [&] {
    if (part.world.rank() != 0) return;
    const std::optional<int64_t> newest = newest_checkpoint(folder);
    if (!newest)
      throw Error(Code::InvalidArgument, fmt::format("checkpoint: there is none in {}: begin without one", folder));
    step = *newest;
  });
  if (!part.world.absent()) part.world.communicator().broadcast(step, 0);
  Loader loader(step_folder(folder, step), part);
  all_or_none(part.world, [&] {
    try {
      loader.check(model);
      loader.load();
    } catch (const Torn& error) {
      throw Error(error.code(), error.what() + way_back(folder));
    }
  });
  part.data_parallel.state_replaced();
  CheckpointOf of = loader.of();
  of.step = step;
  return of;
}

}  // namespace tutti::train
