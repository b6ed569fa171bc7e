# Helpers that every folder uses: one function per kind of target, so that the
# compiler's flags, warnings and include paths are stated once.

set(CLEAVE_SANITIZE "" CACHE STRING "sanitizers to build with, e.g. address,undefined")

add_library(cleave_base INTERFACE)
target_include_directories(cleave_base INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
# Our assertions stay on in every build: a wrong number is worse than a slow one.
target_compile_options(cleave_base INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wno-unused-parameter -UNDEBUG>)
if(CLEAVE_SANITIZE)
  target_compile_options(cleave_base INTERFACE
    -fsanitize=${CLEAVE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(cleave_base INTERFACE -fsanitize=${CLEAVE_SANITIZE})
endif()

add_library(cleave_mlir INTERFACE)
target_include_directories(cleave_mlir SYSTEM INTERFACE
  ${LLVM_INCLUDE_DIRS} ${MLIR_INCLUDE_DIRS})
target_link_libraries(cleave_mlir INTERFACE cleave_base
  /usr/lib/llvm-19/lib/libMLIR.so /usr/lib/llvm-19/lib/libLLVM.so)
target_compile_options(cleave_mlir INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>)

# The headers of MLIR that nearly every file of the compiler includes, parsed once.
file(WRITE ${PROJECT_BINARY_DIR}/mlir_pch.cpp "")
add_library(cleave_mlir_pch OBJECT ${PROJECT_BINARY_DIR}/mlir_pch.cpp)
target_link_libraries(cleave_mlir_pch PRIVATE cleave_mlir)
target_precompile_headers(cleave_mlir_pch PRIVATE
  <mlir/IR/Builders.h> <mlir/IR/BuiltinOps.h> <mlir/IR/BuiltinTypes.h>
  <mlir/IR/DialectImplementation.h> <mlir/IR/OpImplementation.h>
  <mlir/IR/PatternMatch.h> <mlir/Pass/Pass.h>
  <mlir/Dialect/Func/IR/FuncOps.h> <llvm/ADT/TypeSwitch.h>)

# cleave_library(NAME sources... [MLIR] [DEPENDS targets...])
#   MLIR: links libMLIR and uses the precompiled header.
function(cleave_library name)
  cmake_parse_arguments(ARG "MLIR" "" "DEPENDS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC cleave_base ${ARG_DEPENDS})
  if(ARG_MLIR)
    target_link_libraries(${name} PUBLIC cleave_mlir)
    target_precompile_headers(${name} REUSE_FROM cleave_mlir_pch)
    if(TARGET cleave_dialect_headers)
      add_dependencies(${name} cleave_dialect_headers)
    endif()
  endif()
endfunction()

# cleave_executable(NAME sources... [MLIR] [DEPENDS targets...])
function(cleave_executable name)
  cmake_parse_arguments(ARG "MLIR" "" "DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE cleave_base ${ARG_DEPENDS})
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
  if(ARG_MLIR)
    target_link_libraries(${name} PRIVATE cleave_mlir)
    # As the precompiled header was built: CMake says -fPIE for executables.
    target_compile_options(${name} PRIVATE -fPIC)
    target_precompile_headers(${name} REUSE_FROM cleave_mlir_pch)
    if(TARGET cleave_dialect_headers)
      add_dependencies(${name} cleave_dialect_headers)
    endif()
  endif()
endfunction()

# cleave_unit_test(NAME sources... [MLIR] [DEPENDS targets...] [SHARDS n])
#   A GoogleTest program under ctest; with SHARDS as n entries, each a part of its
#   tests, that may run at once.
function(cleave_unit_test name)
  cmake_parse_arguments(TEST "" "SHARDS" "" ${ARGN})
  cleave_executable(${name} ${TEST_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE
    CLEAVE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT TEST_SHARDS)
    add_test(NAME unit/${name} COMMAND ${name})
    return()
  endif()
  math(EXPR last "${TEST_SHARDS} - 1")
  foreach(shard RANGE ${last})
    add_test(NAME unit/${name}/${shard} COMMAND ${name})
    set_tests_properties(unit/${name}/${shard} PROPERTIES ENVIRONMENT
      "GTEST_TOTAL_SHARDS=${TEST_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
