// Small files of the user's own: caches and profiles.
#pragma once

#include <optional>
#include <string>

namespace tutti {

/// $XDG_CACHE_HOME/tutti, else $HOME/.cache/tutti; "" if neither is set to an absolute path.
std::string cache_folder();

/// A path in which %h stands for the host's name, and %p for this process's number.
std::string path_of_process(std::string path);

/// The text of a file; empty if there is none. Throws Error(SystemError) if it cannot be read, and
/// Error(InvalidArgument) if it is longer than `most` bytes or, with `only_ours`, if it belongs to another user or
/// others may write to it.
std::optional<std::string> read_file(const std::string& path, size_t most, bool only_ours);

/// Writes a file that only this user can read: readers find the old text or the new one, never a part. Makes the last
/// two folders of its path if they are missing. Throws Error(SystemError).
void write_private(const std::string& path, const std::string& text);

}  // namespace tutti
