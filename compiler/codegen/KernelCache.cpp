//===- KernelCache.cpp - Compiled kernels kept across builds --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/KernelCache.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <cstdlib>
#include <elf.h>
#include <link.h>

using namespace cleave;
using namespace cleave::codegen;
namespace fs = llvm::sys::fs;

/// As llvm::pruneCache knows its files: it leaves others alone.
static constexpr llvm::StringLiteral prefix = "llvmcache-";
/// Of digest(), in characters.
static constexpr size_t digits = 2 * LLVM_BLAKE3_OUT_LEN;

//===----------------------------------------------------------------------===//
// Keys
//===----------------------------------------------------------------------===//

std::string codegen::digest(llvm::StringRef text) {
  return llvm::toHex(llvm::BLAKE3::hash(llvm::arrayRefFromStringRef(text)),
                     /*LowerCase=*/true);
}

/// The build id in a segment of notes; empty where there is none.
static llvm::StringRef buildIdIn(llvm::StringRef notes) {
  const llvm::StringRef owner("GNU", sizeof("GNU")); // with its zero
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof(note));
    llvm::StringRef rest = notes.drop_front(sizeof(note));
    size_t name = llvm::alignTo<4>(note.n_namesz);
    size_t text = llvm::alignTo<4>(note.n_descsz);
    if (rest.size() < name + text) {
      break;
    }
    if (note.n_type == NT_GNU_BUILD_ID &&
        rest.take_front(note.n_namesz) == owner) {
      return rest.substr(name, note.n_descsz);
    }
    notes = rest.drop_front(name + text);
  }
  return "";
}

/// The build id of a loaded object.
static llvm::StringRef buildIdOf(const dl_phdr_info &object) {
  for (unsigned i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = object.dlpi_phdr[i];
    if (segment.p_type == PT_NOTE) {
      llvm::StringRef notes(
          reinterpret_cast<const char *>(object.dlpi_addr + segment.p_vaddr),
          segment.p_memsz);
      if (llvm::StringRef id = buildIdIn(notes); !id.empty()) {
        return id;
      }
    }
  }
  return "";
}

/// Adds an object's id to the text; stops where the program, which is the
/// first, has none.
static int addIdentity(dl_phdr_info *object, size_t, void *data) {
  std::string &text = *static_cast<std::string *>(data);
  llvm::StringRef name = llvm::sys::path::filename(object->dlpi_name);
  bool program = text.empty();
  if (!program && !name.starts_with("libLLVM") &&
      !name.starts_with("libMLIR")) {
    return 0;
  }
  llvm::StringRef id = buildIdOf(*object);
  if (program && id.empty()) {
    return 1;
  }
  text += llvm::toHex(id, /*LowerCase=*/true) + " ";
  return 0;
}

std::string codegen::compilerIdentity() {
  std::string ids;
  dl_iterate_phdr(addIdentity, &ids);
  return ids.empty() ? "" : ids + LLVM_VERSION_STRING;
}

std::string codegen::defaultCacheFolder() {
  if (const char *named = std::getenv("CLEAVE_KERNEL_CACHE"); named && *named) {
    return llvm::StringRef(named) == "off" ? "" : named;
  }
  for (auto [variable, below] :
       {std::pair{"XDG_CACHE_HOME", "cleave"}, {"HOME", ".cache/cleave"}}) {
    if (const char *value = std::getenv(variable); value && *value) {
      llvm::SmallString<128> path(value);
      llvm::sys::path::append(path, below, "kernels");
      return path.str().str();
    }
  }
  return "";
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

KernelCache::KernelCache(std::string folder, uint64_t mostBytes)
    : folder(std::move(folder)), mostBytes(mostBytes) {}

std::string KernelCache::pathOf(const std::string &key) const {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, prefix + key);
  return path.str().str();
}

std::optional<std::vector<char>>
KernelCache::find(const std::string &key) const {
  if (folder.empty()) {
    return std::nullopt;
  }
  std::string path = pathOf(key);
  llvm::Expected<fs::file_t> file = fs::openNativeFileForRead(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return std::nullopt;
  }
  auto close = llvm::make_scope_exit([&] { (void)fs::closeFile(*file); });
  // A copy, not a map: another build may cut the file meanwhile.
  auto buffer = llvm::MemoryBuffer::getOpenFile(
      *file, path, /*FileSize=*/-1, /*RequiresNullTerminator=*/false,
      /*IsVolatile=*/true);
  if (!buffer) {
    return std::nullopt;
  }
  llvm::StringRef bytes = (*buffer)->getBuffer();
  llvm::StringRef object = bytes.drop_front(std::min(digits, bytes.size()));
  if (digest(key + object.str()) != bytes.take_front(digits)) {
    return std::nullopt;
  }
  // What is used stays: trim goes by this time.
  (void)fs::setLastAccessAndModificationTime(*file,
                                             std::chrono::system_clock::now());
  return std::vector<char>(object.begin(), object.end());
}

bool KernelCache::store(const std::string &key,
                        const std::vector<char> &object) const {
  if (folder.empty() || fs::create_directories(folder)) {
    return false;
  }
  llvm::SmallString<128> beside;
  int descriptor = -1;
  if (fs::createUniqueFile(pathOf(key) + ".%%%%%%%%", descriptor, beside)) {
    return false;
  }
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream << digest(key + std::string(object.begin(), object.end()));
  stream.write(object.data(), object.size());
  stream.close();
  bool failed = stream.has_error();
  stream.clear_error();
  if (failed || fs::rename(beside, pathOf(key))) {
    (void)fs::remove(beside);
    return false;
  }
  return true;
}

void KernelCache::trim() const {
  llvm::CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(0); // now
  policy.Expiration = std::chrono::hours(30 * 24);
  policy.MaxSizeBytes = mostBytes;
  llvm::pruneCache(folder, policy);
}
