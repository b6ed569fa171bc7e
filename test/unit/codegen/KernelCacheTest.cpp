//===- KernelCacheTest.cpp - Compiled kernels kept across builds ----------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/KernelCache.h"
#include "compiler/codegen/KernelLibrary.h"
#include "compiler/codegen/Native.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <thread>

using namespace cleave::codegen;
namespace files = std::filesystem;

namespace {

class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> path;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("cleave-cache", path));
    folder = path.str().str();
  }
  void TearDown() override { files::remove_all(folder); }

  /// Its entries, without what pruning keeps beside them.
  std::vector<files::path> entries() const {
    std::vector<files::path> paths;
    for (const auto &entry : files::directory_iterator(folder)) {
      if (entry.path().extension() != ".timestamp") {
        paths.push_back(entry.path());
      }
    }
    return paths;
  }

  std::string folder, key = digest("kernel");
  std::vector<char> object = {'o', '\0', 'b', 'j'};
};

TEST_F(KernelCacheTest, FindsWhatWasStored) {
  KernelCache cache(folder);
  EXPECT_FALSE(cache.find(key));
  ASSERT_TRUE(cache.store(key, object));
  EXPECT_EQ(cache.find(key), object);
  EXPECT_FALSE(cache.find(digest("another")));
  EXPECT_EQ(entries().size(), 1u);
}

TEST_F(KernelCacheTest, TakesDamagedEntriesAsAbsent) {
  KernelCache cache(folder);
  ASSERT_TRUE(cache.store(key, object));
  files::path entry = entries().front();
  auto size = files::file_size(entry);
  for (uintmax_t cut = 0; cut < size; ++cut) {
    files::resize_file(entry, cut);
    EXPECT_FALSE(cache.find(key)) << cut;
    ASSERT_TRUE(cache.store(key, object));
  }
  for (uintmax_t at = 0; at < size; ++at) {
    std::fstream file(entry, std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(at));
    file.put('!');
    file.close();
    EXPECT_FALSE(cache.find(key)) << at;
    ASSERT_TRUE(cache.store(key, object));
  }
  EXPECT_EQ(cache.find(key), object);
}

TEST_F(KernelCacheTest, RefusesTheEntryOfAnotherKey) {
  KernelCache cache(folder);
  ASSERT_TRUE(cache.store(key, object));
  std::string other = digest("another");
  files::copy(entries().front(), folder + "/llvmcache-" + other);
  EXPECT_FALSE(cache.find(other));
}

TEST_F(KernelCacheTest, RemovesWhatWasUsedLongestAgo) {
  std::vector<char> large(1000, 'x');
  KernelCache cache(folder, /*mostBytes=*/2500);
  std::vector<std::string> keys = {digest("a"), digest("b"), digest("c")};
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSERT_TRUE(cache.store(keys[i], large));
    auto old = std::chrono::system_clock::now() -
               std::chrono::hours(static_cast<int>(10 - i));
    int file = -1;
    ASSERT_FALSE(llvm::sys::fs::openFileForWrite(
        folder + "/llvmcache-" + keys[i], file, llvm::sys::fs::CD_OpenExisting,
        llvm::sys::fs::OF_Append));
    ASSERT_FALSE(llvm::sys::fs::setLastAccessAndModificationTime(file, old));
    ASSERT_FALSE(llvm::sys::fs::closeFile(file));
  }
  EXPECT_TRUE(cache.find(keys[0])); // and so it is the newest
  cache.trim();
  EXPECT_TRUE(cache.find(keys[0]));
  EXPECT_FALSE(cache.find(keys[1]));
  EXPECT_TRUE(cache.find(keys[2]));
}

TEST_F(KernelCacheTest, LeavesFilesOfOthersAlone) {
  std::ofstream(folder + "/mine") << std::string(5000, 'x');
  KernelCache cache(folder, /*mostBytes=*/1);
  ASSERT_TRUE(cache.store(key, object));
  cache.trim();
  EXPECT_FALSE(cache.find(key));
  EXPECT_TRUE(files::exists(folder + "/mine"));
}

TEST_F(KernelCacheTest, DoesWithoutAFolder) {
  EXPECT_FALSE(KernelCache("").store(key, object));
  EXPECT_FALSE(KernelCache("").find(key));
  std::ofstream(folder + "/file") << "not a folder";
  KernelCache cache(folder + "/file/below");
  EXPECT_FALSE(cache.store(key, object));
  EXPECT_FALSE(cache.find(key));
  cache.trim();
}

TEST_F(KernelCacheTest, ServesSeveralAtOnce) {
  auto work = [&](int which) {
    KernelCache cache(folder, /*mostBytes=*/3000);
    for (int i = 0; i < 200; ++i) {
      std::vector<char> mine(500, static_cast<char>('a' + i % 10));
      std::string name = digest("k" + std::to_string(i % 10));
      if (std::optional<std::vector<char>> found = cache.find(name)) {
        EXPECT_EQ(*found, mine) << which;
      } else {
        cache.store(name, mine);
      }
      if (i % 20 == which) {
        cache.trim();
      }
    }
  };
  std::thread one(work, 0), other(work, 1);
  one.join();
  other.join();
}

/// A library of two kernels: stores of a constant, and of another.
struct Built {
  std::vector<uint8_t> image;
  size_t found = 0;
  bool kept = true;
};
Built buildKernels(const std::string &folder, int first, int second,
                   bool native = true) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  KernelLibrary library(context, {native, folder});
  for (int value : {first, second}) {
    auto function = library.create();
    auto builder = mlir::OpBuilder::atBlockBegin(&function->getBody().front());
    auto location = function->getLoc();
    auto number = builder.create<mlir::arith::ConstantIntOp>(location, value,
                                                             /*width=*/32);
    builder.create<mlir::LLVM::StoreOp>(location, number,
                                        function->getArgument(0));
    builder.create<mlir::func::ReturnOp>(location);
    library.add(std::move(function), "store");
  }
  Built built;
  if (llvm::Expected<std::vector<uint8_t>> image = library.finish()) {
    built.image = std::move(*image);
  } else {
    ADD_FAILURE() << llvm::toString(image.takeError());
  }
  built.found = library.found();
  built.kept = library.keepsKernels();
  return built;
}

TEST_F(KernelCacheTest, CompilesOnlyWhatChanged) {
  ASSERT_FALSE(compilerIdentity().empty());
  Built none = buildKernels("", 1, 2);
  Built first = buildKernels(folder, 1, 2), second = buildKernels(folder, 1, 2);
  EXPECT_EQ(first.found, 0u);
  EXPECT_EQ(second.found, 2u);
  EXPECT_EQ(first.image, none.image);
  EXPECT_EQ(second.image, none.image);
  EXPECT_EQ(buildKernels(folder, 1, 3).found, 1u);
  EXPECT_EQ(buildKernels(folder, 1, 3).image, buildKernels("", 1, 3).image);
}

TEST_F(KernelCacheTest, TellsProcessorsApart) {
  buildKernels(folder, 1, 2, /*native=*/false);
  bool same = requiredFeatures({true}) == requiredFeatures({false});
  EXPECT_EQ(buildKernels(folder, 1, 2).found, same ? 2u : 0u);
}

TEST_F(KernelCacheTest, SaysThatNothingWasKept) {
  EXPECT_TRUE(buildKernels(folder, 1, 2).kept);
  std::ofstream(folder + "/file") << "not a folder";
  Built built = buildKernels(folder + "/file", 1, 2);
  EXPECT_FALSE(built.kept);
  EXPECT_EQ(built.image, buildKernels("", 1, 2).image);
}

} // namespace
