// Chrome traces (Trace Event Format), as `tutti train --trace`, `tutti sim --trace` and `tutti trace` write them, read
// for a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tools/timeline.hpp"

namespace tutti::tools {

/// Is this text one? Only looks for the word that each has.
bool is_chrome_trace(const std::string& text);

/// A group for each process, a row for each name of its threads. Title and notes are those of `otherData`, a bar's kind
/// is its event's category, and its label the event's argument of that name. Throws Error(InvalidArgument) if `page` is
/// no Chrome trace, or nothing lasted.
TimelinePicture picture_of(const nlohmann::json& page);

/// How long each row was busy, for people.
std::string text_of(const TimelinePicture& picture);

}  // namespace tutti::tools
