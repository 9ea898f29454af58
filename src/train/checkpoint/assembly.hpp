// Puts a rank's part of the optimizer's state together from pieces that other ranks, of another number and with another
// sharding, have saved.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "train/checkpoint/files.hpp"
#include "tutti/train/checkpoint.hpp"

namespace tutti::train {

class Assembly {
 public:
  /// `origin` names what was saved, in errors.
  Assembly(const CheckpointPart& part, std::string origin);

  /// True if this rank's part may have elements of the piece. Throws Error(Mismatch) if the piece is of another model,
  /// Torn if it makes no sense.
  bool wants(const Saved& saved) const;
  /// Takes over what this rank has of a piece that it wants: `values` are kArrays arrays of saved.count elements.
  void add(const Saved& saved, const std::vector<float>& values);
  /// Uploads the state. Throws Error(Mismatch) if elements are missing.
  void finish();

 private:
  /// What this rank holds of a parameter: arrays of box.count elements, one after another.
  struct Wanted {
    Box box;
    StatePiece piece;
    size_t at = 0;  ///< where its elements lie in the piece
    std::vector<float> arrays;
    std::vector<bool> known;
  };
  static void copy_common(const Saved& from, const std::vector<float>& values, Wanted& into);

  const CheckpointPart& part_;
  const std::string origin_;
  std::map<std::string, std::vector<Wanted>> wanted_;  // by the parameter's name
};

/// Checks what was saved against this model: facts, one a line. Throws Error(Mismatch) that names the first difference.
void check_model(const std::string& origin, const std::string& saved, const std::string& model);

}  // namespace tutti::train
