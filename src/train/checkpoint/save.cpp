#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "train/checkpoint/files.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::train {
namespace {

constexpr size_t kKept = 2;  // checkpoints of a folder

/// Appends `count` elements of each array, from `first` of the piece on.
std::string append(Writer& file, Device& device, const StatePiece& piece, size_t first, size_t count) {
  std::vector<float> values(kArrays * count);
  const Span arrays[kArrays] = {piece.master, piece.moment1, piece.moment2};
  for (size_t i = 0; i < kArrays; ++i) {
    const Span part = arrays[i].part(first, count);
    device.download(values.data() + i * count, part.data, part.bytes());
  }
  const Bytes bytes = std::as_bytes(std::span(values));
  file.append(bytes);
  return checksum(bytes);
}

/// This rank's two files.
void write_rank(const Path& folder, const CheckpointPart& part) {
  nlohmann::json pieces = nlohmann::json::array();
  Writer file(rank_file(folder, part.world.rank(), "bin"));
  for (const StatePiece& piece : part.data_parallel.state()) {
    const size_t first = piece.saved_first, last = first + piece.saved_count;
    for (const Parameter& p : part.units[piece.unit].layout->parameters()) {
      const size_t from = std::max(first, p.offset), to = std::min(last, p.offset + p.count);
      const bool others_too = !p.sharded() && !p.expert;  // all tensor-parallel ranks hold it
      if (from >= to || (others_too && part.tp_rank != 0)) continue;
      const size_t offset = file.size();
      std::string checksum = append(file, part.device, piece, from - piece.first, to - from);
      const Box box{p.full, p.start, p.shape, from - p.offset, to - from};
      pieces.push_back(Saved{box, p.name, std::move(checksum), offset});
    }
  }
  file.sync();
  write_json(rank_file(folder, part.world.rank(), "json"), pieces);
}

}  // namespace

std::optional<int64_t> newest_checkpoint(const std::string& folder) {
  const std::vector<int64_t> steps = steps_in(folder);
  return steps.empty() ? std::nullopt : std::optional(steps.front());
}

void save_checkpoint(const std::string& folder, const CheckpointOf& of, const CheckpointPart& part) {
  const Path complete = step_folder(folder, of.step);
  const Path partial = complete.string() + ".partial";
  const bool leads = part.world.rank() == 0;
  all_or_none(part.world, [&] {
    if (!leads) return;
    if (std::filesystem::exists(complete)) {
      throw Error(
          Code::InvalidArgument,
          fmt::format("checkpoint: {} is there already: remove it, or choose another folder", complete.string()));
    }
    remove_partial(folder);
    std::filesystem::create_directories(partial);
    sync_folder(std::filesystem::absolute(folder).parent_path());
  });
  all_or_none(part.world, [&] { write_rank(partial, part); });
  all_or_none(part.world, [&] {
    if (!leads) return;
    write_json(partial / "manifest.json", {{"format", kFormat},
                                           {"version", kVersion},
                                           {"step", of.step},
                                           {"model", of.model},
                                           {"run", of.run},
                                           {"ranks", part.world.size()}});
    sync_folder(partial);
    std::filesystem::rename(partial, complete);
    sync_folder(folder);
    const std::vector<int64_t> steps = steps_in(folder);
    for (size_t i = kKept; i < steps.size(); ++i) std::filesystem::remove_all(step_folder(folder, steps[i]));
  });
}

}  // namespace tutti::train
