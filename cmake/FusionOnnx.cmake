# The onnx C++ library (checker, schemas, inliner), built from its PyPI source
# package against protobuf. Provides the target fusion::onnx.
#
# The package is fetched by pip once, checked, unpacked and run through protoc
# in a cache folder of the user, so that every build directory compiles the
# same files and ccache serves all of them.

set(FUSION_ONNX_VERSION 1.23.0)
set(FUSION_ONNX_SHA256 3f4b7323ea3397c63aa6ff5d43abe16013ffefc0a96cb8a0be6527ff1e1add40)
set(FUSION_ONNX_ARCHIVE "" CACHE FILEPATH "onnx-${FUSION_ONNX_VERSION}.tar.gz, to build without pip")
if(DEFINED ENV{XDG_CACHE_HOME})
  set(_cache "$ENV{XDG_CACHE_HOME}/fusion")
elseif(DEFINED ENV{HOME})
  set(_cache "$ENV{HOME}/.cache/fusion")
else()
  set(_cache "${CMAKE_BINARY_DIR}/_deps")
endif()
set(FUSION_CACHE_DIR "${_cache}" CACHE PATH "Where downloaded source packages are kept")

find_library(FUSION_PROTOBUF_LIBRARY NAMES libprotobuf.a REQUIRED)
find_path(FUSION_PROTOBUF_INCLUDE google/protobuf/message.h REQUIRED)
find_program(FUSION_PROTOC protoc REQUIRED)
find_package(Threads REQUIRED)

function(_fusion_onnx_fetch archive)
  if(FUSION_ONNX_ARCHIVE)
    file(COPY_FILE "${FUSION_ONNX_ARCHIVE}" "${archive}" ONLY_IF_DIFFERENT)
  elseif(NOT EXISTS "${archive}")
    find_package(Python3 REQUIRED COMPONENTS Interpreter)
    message(STATUS "Fetching the source package of onnx ${FUSION_ONNX_VERSION}")
    get_filename_component(folder "${archive}" DIRECTORY)
    execute_process(
      COMMAND ${Python3_EXECUTABLE} -m pip download --quiet --no-deps
        --no-binary onnx --dest ${folder} onnx==${FUSION_ONNX_VERSION}
      RESULT_VARIABLE result ERROR_VARIABLE error OUTPUT_VARIABLE error)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "pip could not fetch the source package of onnx "
        "${FUSION_ONNX_VERSION}; fetch onnx-${FUSION_ONNX_VERSION}.tar.gz by hand and pass "
        "-DFUSION_ONNX_ARCHIVE=PATH\n${error}")
    endif()
  endif()
  file(SHA256 "${archive}" sum)
  if(NOT sum STREQUAL FUSION_ONNX_SHA256)
    file(REMOVE "${archive}")
    message(FATAL_ERROR "onnx-${FUSION_ONNX_VERSION}.tar.gz has SHA-256 ${sum}, expected ${FUSION_ONNX_SHA256}")
  endif()
endfunction()

# Joins the sources into a few large files: a third of the compile time.
function(_fusion_onnx_unity root out)
  file(GLOB_RECURSE sources RELATIVE "${root}" "${root}/onnx/*.cc")
  list(FILTER sources EXCLUDE REGEX "cpp2py_export|/fuzz/|/test/|\\.pb\\.cc$")
  list(SORT sources)
  set(text "")
  set(count 0)
  set(index 0)
  foreach(source ${sources})
    if(source MATCHES "defs/schema.cc|tensor_proto_util.cc")
      continue() # listed apart: these do not stand company
    endif()
    string(APPEND text "#include \"${source}\"\n")
    math(EXPR count "${count} + 1")
    if(count EQUAL 8)
      file(WRITE "${out}/unity_${index}.cc" "${text}")
      math(EXPR index "${index} + 1")
      set(text "")
      set(count 0)
    endif()
  endforeach()
  file(WRITE "${out}/unity_${index}.cc" "${text}")
endfunction()

function(_fusion_onnx_prepare root)
  file(MAKE_DIRECTORY "${FUSION_CACHE_DIR}")
  file(LOCK "${FUSION_CACHE_DIR}/lock" GUARD FUNCTION TIMEOUT 600)
  if(EXISTS "${root}/prepared")
    return()
  endif()
  set(archive "${FUSION_CACHE_DIR}/onnx-${FUSION_ONNX_VERSION}.tar.gz")
  _fusion_onnx_fetch("${archive}")
  file(REMOVE_RECURSE "${root}" "${root}.tmp")
  file(ARCHIVE_EXTRACT INPUT "${archive}" DESTINATION "${root}.tmp")
  file(RENAME "${root}.tmp/onnx-${FUSION_ONNX_VERSION}" "${root}")
  file(REMOVE_RECURSE "${root}.tmp")
  execute_process(
    COMMAND ${FUSION_PROTOC} --cpp_out=. onnx/onnx-ml.proto
      onnx/onnx-operators-ml.proto onnx/onnx-data.proto
    WORKING_DIRECTORY "${root}" RESULT_VARIABLE result ERROR_VARIABLE error)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "protoc failed on onnx's .proto files\n${error}")
  endif()
  _fusion_onnx_unity("${root}" "${root}/unity")
  file(WRITE "${root}/prepared" "${FUSION_ONNX_SHA256}\n")
endfunction()

set(FUSION_ONNX_ROOT "${FUSION_CACHE_DIR}/onnx-${FUSION_ONNX_VERSION}-src")
_fusion_onnx_prepare("${FUSION_ONNX_ROOT}")

file(GLOB _onnx_sources "${FUSION_ONNX_ROOT}/unity/*.cc" "${FUSION_ONNX_ROOT}/onnx/*.pb.cc")
add_library(FusionOnnxLibrary STATIC EXCLUDE_FROM_ALL ${_onnx_sources}
  ${FUSION_ONNX_ROOT}/onnx/defs/schema.cc
  ${FUSION_ONNX_ROOT}/onnx/defs/tensor_proto_util.cc)
target_include_directories(FusionOnnxLibrary SYSTEM PUBLIC
  ${FUSION_ONNX_ROOT} ${FUSION_PROTOBUF_INCLUDE})
target_compile_definitions(FusionOnnxLibrary PUBLIC ONNX_NAMESPACE=onnx ONNX_ML=1
  __ONNX_NO_DOC_STRINGS NDEBUG)
# Not our code: our warnings do not apply, and speed does not depend on it.
target_compile_options(FusionOnnxLibrary PRIVATE -w -O1 -ffunction-sections -fdata-sections)
target_link_libraries(FusionOnnxLibrary PUBLIC ${FUSION_PROTOBUF_LIBRARY} Threads::Threads)
set_target_properties(FusionOnnxLibrary PROPERTIES CXX_CLANG_TIDY "")
add_library(fusion::onnx ALIAS FusionOnnxLibrary)
