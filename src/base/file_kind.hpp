// Which of Tutti's own files a text is, so that an error about the wrong one can say so.
#pragma once

#include <string>
#include <string_view>

namespace tutti {

/// "a plan (`tutti plan export`)", "a topology …", by the text's "format", or by the keys that a command's table has;
/// "": none that is known. Reads no further than it must: the text may be anything.
std::string kind_of_file(std::string_view text);

/// Throws Error(InvalidArgument), "PATH is a plan …, where WANTED is wanted", if the text is known to be another file
/// than one of this "format".
void check_kind_of_file(std::string_view text, const std::string& path, std::string_view format,
                        std::string_view wanted);

}  // namespace tutti
