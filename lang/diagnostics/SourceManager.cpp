#include "lang/diagnostics/Diagnostics.h"

#include <algorithm>

namespace cleave {

FileId SourceManager::add(std::string name, std::string text) {
  SourceFile file{std::move(name), std::move(text), {0}};
  for (size_t i = 0; i < file.text.size(); ++i) {
    if (file.text[i] == '\n') {
      file.lineStarts.push_back(static_cast<uint32_t>(i + 1));
    }
  }
  files.push_back(std::move(file));
  return static_cast<FileId>(files.size() - 1);
}

LineColumn SourceManager::lineColumn(FileId id, uint32_t offset) const {
  const SourceFile &source = files[id];
  offset = std::min<uint32_t>(offset, source.text.size());
  auto after = std::upper_bound(source.lineStarts.begin(),
                                source.lineStarts.end(), offset);
  uint32_t line = static_cast<uint32_t>(after - source.lineStarts.begin());
  LineColumn result{line, 1};
  uint32_t start = source.lineStarts[line - 1];
  if (start == 0 && source.text.starts_with("\xEF\xBB\xBF")) {
    start = 3;
  }
  for (uint32_t i = start; i < offset; ++i) {
    // Continuation bytes of UTF-8 add no column.
    result.column += (source.text[i] & 0xC0) != 0x80;
  }
  return result;
}

std::string_view SourceManager::line(FileId id, uint32_t line) const {
  const SourceFile &source = files[id];
  if (line == 0 || line > source.lineStarts.size()) {
    return {};
  }
  size_t begin = source.lineStarts[line - 1];
  size_t end = source.text.find('\n', begin);
  if (end == std::string::npos) {
    end = source.text.size();
  }
  if (end > begin && source.text[end - 1] == '\r') {
    --end;
  }
  return std::string_view(source.text).substr(begin, end - begin);
}

std::string_view SourceManager::text(const SourceRange &range) const {
  if (!range.isValid()) {
    return {};
  }
  return std::string_view(files[range.file].text)
      .substr(range.begin, range.end - range.begin);
}

std::string SourceManager::describe(const SourceRange &range) const {
  if (!range.isValid()) {
    return {};
  }
  LineColumn at = lineColumn(range.file, range.begin);
  return files[range.file].name + ":" + std::to_string(at.line) + ":" +
         std::to_string(at.column);
}

} // namespace cleave
