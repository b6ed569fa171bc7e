//===- Native.cpp - From the LLVM dialect to a shared object --------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "compiler/codegen/Native.h"

#include "lld/Common/Driver.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"
#include "llvm/TargetParser/Host.h"

LLD_HAS_DRIVER(elf)

using namespace mlir;
using namespace cleave;
using namespace cleave::codegen;

namespace {

/// What code may use, in LLVM's names, and what /proc/cpuinfo calls it.
struct Feature {
  llvm::StringLiteral llvm, cpuinfo;
};
constexpr Feature baseline[] = {
    {"avx2", "avx2"}, {"fma", "fma"},     {"f16c", "f16c"},
    {"bmi", "bmi1"},  {"bmi2", "bmi2"},   {"popcnt", "popcnt"},
    {"lzcnt", "abm"}, {"movbe", "movbe"}, {"sse4.2", "sse4_2"}};
constexpr Feature wide[] = {{"avx512f", "avx512f"},
                            {"avx512bw", "avx512bw"},
                            {"avx512dq", "avx512dq"},
                            {"avx512vl", "avx512vl"},
                            {"avx512cd", "avx512cd"}};

bool hasWideVectors() {
  // Asked for each kernel, and slow in virtual machines.
  static const bool has = [] {
    llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
    return llvm::all_of(wide, [&](const Feature &feature) {
      return host.lookup(feature.llvm);
    });
  }();
  return has;
}

SmallVector<Feature> featuresOf(const codegen::TargetOptions &options) {
  SmallVector<Feature> features(std::begin(baseline), std::end(baseline));
  if (options.native && hasWideVectors()) {
    features.append(std::begin(wide), std::end(wide));
  }
  return features;
}

std::unique_ptr<llvm::TargetMachine> createMachine(const std::string &features,
                                                   std::string &error) {
  std::string triple = llvm::sys::getDefaultTargetTriple();
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target) {
    return nullptr;
  }
  // Features only: names of processors are guesses, and would bring scheduling
  // for a machine that is not this one.
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, "x86-64", features, llvm::TargetOptions(), llvm::Reloc::PIC_,
      std::nullopt, llvm::CodeGenOptLevel::Default));
}

} // namespace

std::vector<std::string>
codegen::requiredFeatures(const codegen::TargetOptions &options) {
  std::vector<std::string> names;
  for (const Feature &feature : featuresOf(options)) {
    names.push_back(feature.cpuinfo.str());
  }
  return names;
}

llvm::Expected<std::vector<char>>
codegen::compileToObject(ModuleOp module,
                         const codegen::TargetOptions &options) {
  registerBuiltinDialectTranslation(*module->getContext());
  registerLLVMDialectTranslation(*module->getContext());
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> ir = translateModuleToLLVMIR(module, context);
  if (!ir) {
    return llvm::createStringError("kernels could not be translated to LLVM");
  }
  static const bool initialized = [] {
    return llvm::InitializeNativeTarget() ||
           llvm::InitializeNativeTargetAsmPrinter();
  }();
  (void)initialized;
  std::string features, error;
  for (const Feature &feature : featuresOf(options)) {
    features += (features.empty() ? "+" : ",+") + feature.llvm.str();
  }
  std::unique_ptr<llvm::TargetMachine> machine = createMachine(features, error);
  if (!machine) {
    return llvm::createStringError("no native target: " + error);
  }
  ir->setTargetTriple(machine->getTargetTriple().str());
  ir->setDataLayout(machine->createDataLayout());
  for (llvm::Function &function : *ir) {
    if (!function.isDeclaration()) {
      function.addFnAttr("target-cpu", "x86-64");
      function.addFnAttr("target-features", features);
      function.addFnAttr("prefer-vector-width", "512");
      function.addFnAttr(llvm::Attribute::NoUnwind);
    }
  }
  SmallVector<char> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr,
                                   llvm::CodeGenFileType::ObjectFile)) {
    return llvm::createStringError("the native target emits no objects");
  }
  passes.run(*ir);
  return std::vector<char>(object.begin(), object.end());
}

/// The path of a new file that holds the object.
static llvm::Expected<std::string>
writeTemporary(const std::vector<char> &object) {
  SmallString<128> path;
  int descriptor = -1;
  if (std::error_code code = llvm::sys::fs::createTemporaryFile(
          "cleave-kernels", "o", descriptor, path)) {
    return llvm::createStringError(code, "no temporary file for kernels");
  }
  llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
  stream.write(object.data(), object.size());
  stream.close();
  if (stream.has_error()) {
    std::error_code code = stream.error();
    stream.clear_error();
    llvm::sys::fs::remove(path);
    return llvm::createStringError(code,
                                   "kernels could not be written to " + path);
  }
  return path.str().str();
}

llvm::Expected<std::vector<uint8_t>>
codegen::linkShared(llvm::ArrayRef<std::vector<char>> objects) {
  std::vector<std::string> inputs;
  auto removeInputs = llvm::make_scope_exit([&] {
    for (const std::string &input : inputs) {
      llvm::sys::fs::remove(input);
    }
  });
  for (const std::vector<char> &object : objects) {
    llvm::Expected<std::string> input = writeTemporary(object);
    if (!input) {
      return input.takeError();
    }
    inputs.push_back(std::move(*input));
  }
  SmallString<128> output;
  if (std::error_code code =
          llvm::sys::fs::createTemporaryFile("cleave-kernels", "so", output)) {
    return llvm::createStringError(code, "no temporary file for kernels");
  }
  auto removeOutput =
      llvm::make_scope_exit([&] { llvm::sys::fs::remove(output); });
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  std::vector<const char *> arguments = {"ld.lld",       "-shared",     "-o",
                                         output.c_str(), "--threads=1", "-z",
                                         "noexecstack"};
  for (const std::string &input : inputs) {
    arguments.push_back(input.c_str());
  }
  lld::Result result =
      lld::lldMain(arguments, stream, stream, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) {
    return llvm::createStringError("kernels could not be linked: " + messages);
  }
  auto buffer = llvm::MemoryBuffer::getFile(output);
  if (!buffer) {
    return llvm::createStringError(buffer.getError(),
                                   "linked kernels could not be read");
  }
  StringRef bytes = (*buffer)->getBuffer();
  return std::vector<uint8_t>(bytes.bytes_begin(), bytes.bytes_end());
}
