//===- KernelImage.cpp - Kernels loaded from memory -----------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/device/KernelImage.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace cleave::device {

static Status failed(const std::string &what) {
  return Status::error("cannot load the kernels of the plan file: " + what);
}

Result<std::shared_ptr<const KernelImage>>
KernelImage::load(std::span<const char> elf) {
  std::shared_ptr<KernelImage> image(new KernelImage);
  if (elf.empty()) {
    return std::shared_ptr<const KernelImage>(image);
  }
  // The loader knows objects by name: the descriptor stays open as long as the
  // object is loaded, so that no other image gets the same name.
  int descriptor = ::memfd_create("cleave-kernels", MFD_CLOEXEC);
  if (descriptor < 0) {
    return failed(std::strerror(errno));
  }
  image->descriptor = descriptor;
  size_t written = 0;
  while (written < elf.size()) {
    ssize_t count =
        ::write(descriptor, elf.data() + written, elf.size() - written);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return failed(std::strerror(errno));
    }
    written += static_cast<size_t>(count);
  }
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  image->handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!image->handle) {
    return failed(::dlerror());
  }
  return std::shared_ptr<const KernelImage>(image);
}

KernelImage::~KernelImage() {
  if (handle) {
    ::dlclose(handle);
  }
  if (descriptor >= 0) {
    ::close(descriptor);
  }
}

Result<Kernel> KernelImage::find(const std::string &symbol) const {
  void *address = handle ? ::dlsym(handle, symbol.c_str()) : nullptr;
  if (!address) {
    return failed("they lack `" + symbol + "`");
  }
  return reinterpret_cast<Kernel>(address);
}

} // namespace cleave::device
