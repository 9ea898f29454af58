// What one rank saves: the pieces of the optimizer's state that are its own to save, copied from the device.
#pragma once

#include <vector>

#include "train/checkpoint/files.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::train {

struct RankState {
  std::vector<Saved> pieces;  ///< without checksums; offsets are bytes into …
  std::vector<float> values;  ///< … these: of each piece kArrays arrays, one after another

  Bytes bytes_of(const Saved& piece) const {
    return std::as_bytes(std::span(values)).subspan(piece.offset, kArrays * piece.count * sizeof(float));
  }
};

RankState copy_state(const CheckpointPart& part);

}  // namespace tutti::train
