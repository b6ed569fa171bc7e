//===- Control.cpp - Requests to a run that is under way ------------------===//
//
// Part of Cleave, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/cleave/Control.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace cleave::tools {

static Status systemError(const std::string &what) {
  return Status::error(what + ": " + std::strerror(errno));
}

/// Made if it is not there; nobody else can use it.
static Result<std::string> runtimeDirectory() {
  const char *base = std::getenv("XDG_RUNTIME_DIR");
  std::string path = base && *base
                         ? std::string(base) + "/cleave"
                         : "/tmp/cleave-" + std::to_string(::getuid());
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return systemError("cannot make `" + path + "`");
  }
  struct stat info = {};
  if (::lstat(path.c_str(), &info) != 0) {
    return systemError("cannot use `" + path + "`");
  }
  if (!S_ISDIR(info.st_mode) || info.st_uid != ::getuid() ||
      (info.st_mode & 0077) != 0) {
    return Status::error("`" + path +
                         "` is no directory of yours that others cannot use");
  }
  return path;
}

static Result<sockaddr_un> addressOf(const std::string &name) {
  if (name.empty() || name.find('/') != std::string::npos || name[0] == '.') {
    return Status::error("a run cannot be called `" + name + "`");
  }
  Result<std::string> directory = runtimeDirectory();
  if (!directory) {
    return directory.status();
  }
  std::string path = *directory + "/" + name + ".sock";
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) {
    return Status::error("`" + path + "` is too long for a socket's name");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

/// A socket that is connected to the run, or -1.
static int connectTo(const sockaddr_un &address) {
  int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor >= 0 &&
      ::connect(descriptor, reinterpret_cast<const sockaddr *>(&address),
                sizeof address) != 0) {
    int reason = errno;
    ::close(descriptor);
    errno = reason;
    return -1;
  }
  return descriptor;
}

static bool sendAll(int descriptor, const std::string &text) {
  size_t at = 0;
  while (at < text.size()) {
    ssize_t count =
        ::send(descriptor, text.data() + at, text.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count <= 0) {
      return false;
    }
    at += static_cast<size_t>(count);
  }
  return true;
}

Result<std::unique_ptr<Control>> Control::open(const std::string &name) {
  Result<sockaddr_un> address = addressOf(name);
  if (!address) {
    return address.status();
  }
  int other = connectTo(*address);
  if (other >= 0) {
    ::close(other);
    return Status::error("a run called `" + name +
                         "` is under way: give this one another `--name`");
  }
  // What is there is of a run that has ended.
  ::unlink(address->sun_path);
  std::unique_ptr<Control> control(new Control);
  control->listener =
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (control->listener < 0 ||
      ::bind(control->listener, reinterpret_cast<const sockaddr *>(&*address),
             sizeof *address) != 0 ||
      ::listen(control->listener, 16) != 0) {
    return systemError("cannot listen at `" + std::string(address->sun_path) +
                       "`");
  }
  control->path = address->sun_path;
  return control;
}

Control::~Control() {
  if (listener >= 0) {
    ::close(listener);
  }
  if (!path.empty()) {
    ::unlink(path.c_str());
  }
}

/// One line, of a sender that has a second to write it.
static std::string readLine(int descriptor) {
  std::string line;
  char c = 0;
  pollfd ready = {descriptor, POLLIN, 0};
  while (line.size() < 4096 && ::poll(&ready, 1, 1000) == 1 &&
         ::recv(descriptor, &c, 1, 0) == 1 && c != '\n') {
    line += c;
  }
  return line;
}

void Control::answer(
    const std::function<std::string(const std::string &)> &handler) {
  int descriptor;
  while ((descriptor = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >=
         0) {
    std::string line = readLine(descriptor);
    // One who only looked whether the run is there says nothing.
    if (!line.empty()) {
      sendAll(descriptor, handler(line));
    }
    ::close(descriptor);
  }
}

Result<std::string> askRun(const std::string &name,
                           const std::string &request) {
  Result<sockaddr_un> address = addressOf(name);
  if (!address) {
    return address.status();
  }
  int descriptor = connectTo(*address);
  if (descriptor < 0) {
    return Status::error("no run called `" + name +
                         "` is under way (there is nobody at `" +
                         std::string(address->sun_path) + "`)");
  }
  std::string answer;
  if (sendAll(descriptor, request + "\n")) {
    char buffer[512];
    ssize_t count;
    while ((count = ::recv(descriptor, buffer, sizeof buffer, 0)) > 0) {
      answer.append(buffer, static_cast<size_t>(count));
    }
  }
  ::close(descriptor);
  if (answer.starts_with("ok ")) {
    return answer.substr(3);
  }
  return Status::error(answer.starts_with("error ")
                           ? answer.substr(6)
                           : "run `" + name + "` ended without an answer");
}

} // namespace cleave::tools
